/* SPDX-License-Identifier: Apache-2.0
 *
 * autohete inspect FILE: shows any document, or data: as text for people, as a summary for programs, or unchanged.
 */
#include "cli/frame/input.h"
#include "cli/frame/outputs.h"
#include "cli/inspect/inspect.h"
#include "cli/inspect/inspect_data.h"
#include "cli/page/page.h"
#include "cli/verbs.h"
#include "runtime/run/run.h"
#include "runtime/schedule/names.h"

#include <string.h>

struct inspect_options {
    const char *html;
    const char *data_format, *tokenizer;
    bool force, summary, document;
};

static const char *const replaced_pages[] = {AH_OUTPUT_PAGE, NULL};

static const struct ah_option inspect_table[] = {
    {"html", 0, AH_OPTION_OUTPUT, "FILE", replaced_pages, offsetof(struct inspect_options, html),
     "for a plan, write a page for a browser to this file ('-': to standard output); an earlier page is "
     "replaced"},
    AH_OUTPUT_FORCE_ROW(struct inspect_options),
    {"data-format", 0, AH_OPTION_WORD, "FORMAT", ah_run_words_format,
     offsetof(struct inspect_options, data_format),
     "read the file as data of this format (default: by name and content)"},
    {"tokenizer", 0, AH_OPTION_FILE, "DIR", NULL, offsetof(struct inspect_options, tokenizer),
     "for data, decode tokens to text with this folder's tokenizer.json"},
    {"document", 0, AH_OPTION_FLAG, NULL, NULL, offsetof(struct inspect_options, document),
     "print the document itself, in canonical form; --json does that for machines and clusters"},
    {"summary", 0, AH_OPTION_FLAG, NULL, NULL, offsetof(struct inspect_options, summary),
     "with --json, print a summary of a machine or cluster instead of its document"},
    {NULL, 0, AH_OPTION_FLAG, NULL, NULL, 0, NULL}};

struct inspector {
    void (*text)(struct ah_cli *cli, const struct ah_document *document);
    void (*json)(struct ah_emit *emit, const struct ah_document *document);
};

static const struct inspector inspectors[AH_DOCUMENT_KINDS] = {
#define INSPECTOR(value, name, word) [value] = {ah_inspect_##name##_text, ah_inspect_##name##_json},
    AH_DOCUMENTS(INSPECTOR)
#undef INSPECTOR
};

void ah_inspect_heading(struct ah_cli *cli, const char *heading)
{
    ah_buffer_printf(&cli->out, "\n%s%s%s\n", cli->out_style.bold, heading, cli->out_style.reset);
}

struct ah_table ah_inspect_facts(struct ah_cli *cli)
{
    return (struct ah_table){.arena = &cli->arena, .columns = {"", ""}};
}

void ah_inspect_cell_blocks(struct ah_table *table, uint64_t of_model, uint64_t first, uint64_t blocks)
{
    struct ah_buffer text = {0};
    ah_name_range((struct ah_name_blocks){.of_model = of_model}, first, first + blocks, &text);
    if (text.failed)
        table->failed = true;
    else
        ah_table_cell(table, "%s", text.data ? text.data : "");
    ah_buffer_release(&text);
}

void ah_inspect_table(struct ah_cli *cli, const char *heading, struct ah_table *table)
{
    if (!table->n_cells && !table->failed)
        return;
    table->indent = 2;
    ah_inspect_heading(cli, heading);
    ah_table_print(table, &cli->out, cli->out_style, cli->table_columns);
}

void ah_inspect_pairs(struct ah_cli *cli, const char *heading, const struct ah_text_pair *pairs, size_t n)
{
    if (!n)
        return;
    ah_inspect_heading(cli, heading);
    size_t mark = cli->out.size;
    for (size_t i = 0; i < n; i++)
        ah_buffer_printf(&cli->out, "  %s: %s\n", ah_cli_clean(cli, pairs[i].key),
                         ah_cli_clean(cli, pairs[i].value));
    ah_cli_fit(cli, mark, 4);
}

void ah_inspect_list(struct ah_cli *cli, const char *heading, const char *const *texts, size_t n)
{
    if (!n)
        return;
    ah_inspect_heading(cli, heading);
    size_t mark = cli->out.size;
    for (size_t i = 0; i < n; i++)
        ah_buffer_printf(&cli->out, "  %s\n", ah_cli_clean(cli, texts[i]));
    ah_cli_fit(cli, mark, 4);
}

static void print_summary(struct ah_cli *cli, const struct ah_document *document)
{
    struct ah_emit emit = {.out = &cli->out};
    ah_emit_open(&emit, NULL, '{');
    ah_emit_text(&emit, "kind", ah_document_word(document->kind));
    inspectors[document->kind].json(&emit, document);
    ah_emit_open(&emit, "warnings", '[');
    for (size_t i = 0; i < document->n_warnings; i++)
        ah_emit_text(&emit, NULL, document->warnings[i]);
    ah_emit_close(&emit);
    ah_emit_close(&emit);
}

static void print_text(struct ah_cli *cli, const struct ah_document *document)
{
    inspectors[document->kind].text(cli, document);
    ah_inspect_list(cli, "warnings", document->warnings, document->n_warnings);
}

/* Writes the page, which replaces or supplements the text. */
static int write_page(struct ah_cli *cli, const struct inspect_options *options,
                      const struct ah_document *document, struct ah_error *err)
{
    const char *path = options->html;
    bool to_stdout = !strcmp(path, "-");
    if (to_stdout && (cli->json || options->document))
        return ah_error_set(err, AH_E_USAGE,
                            "'--html -' and '--%s' both want standard output; give '--html' a file",
                            options->document ? "document" : "json");
    int rc = ah_page_write(cli, path, document, NULL, err);
    if (!rc && !to_stdout)
        ah_cli_tell(cli, AH_CLI_WROTE, "%s", path);
    return rc;
}

/* Prints the document's canonical text, and warnings on standard error. */
static int print_document(struct ah_cli *cli, const struct ah_document *document, struct ah_error *err)
{
    for (size_t i = 0; i < document->n_warnings; i++)
        ah_cli_tell(cli, AH_CLI_WARNING, "%s: %s", cli->arguments.operands[0], document->warnings[i]);
    return ah_document_print(document, &cli->out, err);
}

/* True if --json prints the whole document, as for machines and clusters, which people copy and edit. */
static bool is_printed_whole(const struct ah_cli *cli, const struct inspect_options *options,
                             enum ah_document_kind kind)
{
    return options->document ||
           (cli->json && !options->summary && (kind == AH_DOCUMENT_MACHINE || kind == AH_DOCUMENT_CLUSTER));
}

static int check_options(const struct ah_cli *cli, const struct inspect_options *options,
                         struct ah_error *err)
{
    if (options->summary && options->document)
        return ah_error_set(err, AH_E_USAGE,
                            "'--summary' and '--document' contradict each other; leave one out");
    return options->summary && !cli->json
               ? ah_error_set(err, AH_E_USAGE, "'--summary' works only with '--json'; give both")
               : AH_OK;
}

static int inspect(struct ah_cli *cli, const struct inspect_options *options, struct ah_document *document,
                   struct ah_error *err)
{
    int rc = ah_input_load(document, cli->arguments.operands[0], AH_DOCUMENT_ANY, err);
    if (!rc && options->html)
        rc = write_page(cli, options, document, err);
    if (rc)
        return rc;
    if (is_printed_whole(cli, options, document->kind))
        return print_document(cli, document, err);
    if (cli->json)
        print_summary(cli, document);
    else if (!options->html)
        print_text(cli, document);
    return AH_OK;
}

static int inspect_run(struct ah_cli *cli, const void *given)
{
    const struct inspect_options *options = given;
    const char *word = cli->arguments.operands[0];
    struct ah_document document = {0};
    struct ah_error err = {0};
    int rc = check_options(cli, options, &err);
    bool data =
        !rc && (options->data_format || (ah_inspect_data_is(word) && !ah_input_is_checkpoints(word, NULL)));
    if (data && options->document)
        rc = ah_error_set(&err, AH_E_USAGE, "%s: is data, not a document; leave '--document' out", word);
    if (rc)
        return ah_cli_fail_usage(cli, &err);
    rc = data ? ah_inspect_data(cli, word, options->data_format, options->tokenizer, &err)
              : inspect(cli, options, &document, &err);
    ah_document_release(&document);
    return rc ? ah_cli_fail(cli, &err) : 0;
}

const struct ah_verb ah_verb_inspect = {
    .name = "inspect",
    .summary = "show a document, or data, in readable form",
    .description =
        "Summarises a document: for a model its exact parameter count, layers and the size of every group of "
        "blocks; for a machine its rates with their spread and what was noisy; for a plan how fast a step "
        "will be, how far that is from the bound, what limits it, what each block does and where memory "
        "goes; and likewise for clusters, run logs and checkpoints. A model may also be a Hugging Face "
        "config.json, the folder it lies in, or a built-in name; a checkpoint may be its folder.\n\nFor "
        "training data (a token file, a text, a folder or a pattern of them) it shows how many tokens and "
        "documents there are, and two samples of what is learned and what is not: as text if tokens are "
        "bytes or --tokenizer decodes them, else as ids.\n\n--json gives programs the whole document of a "
        "machine or cluster, built in or not, and a summary of other kinds, such as parameters (exact), "
        "layers and groups of a model. --document prints the document of any kind, and --json --summary a "
        "summary of any kind.\n\nWith --html, a plan becomes one page that works offline: the simulated "
        "timeline of two iterations, memory over time, what each block does, and how other policies compare; "
        "for a cluster plan: who owns what, the simulated step of every stage, and the memory of each GPU.",
    .syntax = {.options = inspect_table, .operands = {AH_OPERAND_FILE, "FILE", 1, 1, NULL}},
    .options_bytes = sizeof(struct inspect_options),
    .examples = {{"inspect Qwen2.5-0.5B/", "how large is this model, and where"},
                 {"inspect machine.json", "what was measured, and how sure it is"},
                 {"inspect rtx4090-64g --json >mine.json", "a built-in machine, to be edited"},
                 {"inspect plan.json --html plan.html", "a plan in the browser"},
                 {"inspect data/train-00000.bin", "which part of these data is learned"}},
    .run = inspect_run,
};
