/* SPDX-License-Identifier: Apache-2.0
 *
 * autohete schema [KIND]: prints the JSON Schema of a kind of document, or the list of kinds.
 */
#include "cli/frame/emit.h"
#include "cli/verbs.h"
#include "schemas/document.h"

static const char *const kind_words[] = {
#define KIND_WORD(value, name, word) word,
    AH_DOCUMENTS(KIND_WORD)
#undef KIND_WORD
        NULL,
};

static void list_kinds(struct ah_cli *cli)
{
    if (!cli->json) {
        for (size_t i = 0; kind_words[i]; i++)
            ah_buffer_printf(&cli->out, "%s\n", kind_words[i]);
        return;
    }
    struct ah_emit emit = {.out = &cli->out};
    ah_emit_open(&emit, NULL, '{');
    ah_emit_open(&emit, "kinds", '[');
    for (size_t i = 0; kind_words[i]; i++)
        ah_emit_text(&emit, NULL, kind_words[i]);
    ah_emit_close(&emit);
    ah_emit_close(&emit);
}

static int schema_run(struct ah_cli *cli, const void *options)
{
    (void)options;
    struct ah_error err = {0};
    if (!cli->arguments.n_operands) {
        list_kinds(cli);
        return 0;
    }
    if (ah_document_schema(ah_document_kind_of(cli->arguments.operands[0]), &cli->out, &err)) {
        ah_buffer_clear(&cli->out);
        return ah_cli_fail(cli, &err);
    }
    return 0;
}

const struct ah_verb ah_verb_schema = {
    .name = "schema",
    .summary = "print the JSON Schema of a kind of document",
    .description =
        "Prints the JSON Schema (2020-12) of one kind of document. Without a kind, lists all kinds, one per "
        "line.",
    .syntax = {.operands = {AH_OPERAND_WORD, "KIND", 0, 1, kind_words}},
    .examples = {{"schema plan", "what a plan may contain"}},
    .run = schema_run,
};
