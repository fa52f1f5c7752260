/* SPDX-License-Identifier: Apache-2.0
 *
 * autohete help [VERB] [--man]
 */
#include "cli/frame/emit.h"
#include "cli/frame/help.h"
#include "cli/frame/manual.h"
#include "cli/verbs.h"

struct help_options {
    bool man;
};

static const struct ah_option help_table[] = {{"man", 0, AH_OPTION_FLAG, NULL, NULL,
                                               offsetof(struct help_options, man),
                                               "print the manual page (mdoc)"},
                                              {NULL, 0, AH_OPTION_FLAG, NULL, NULL, 0, NULL}};

static int print_manual(struct ah_cli *cli)
{
    struct ah_buffer manual = {0};
    ah_manual_print(cli->verbs, &manual);
    struct ah_emit emit = {.out = &cli->out};
    if (manual.failed)
        cli->out.failed = true;
    else if (!cli->json)
        ah_buffer_append(&cli->out, manual.data, manual.size);
    else {
        ah_emit_open(&emit, NULL, '{');
        ah_emit_text(&emit, "manual", manual.data);
        ah_emit_close(&emit);
    }
    ah_buffer_release(&manual);
    return 0;
}

static int help_run(struct ah_cli *cli, const void *given)
{
    const struct help_options *options = given;
    if (options->man)
        return print_manual(cli);
    if (!cli->arguments.n_operands) {
        ah_help_all(cli);
        return 0;
    }
    const struct ah_verb *verb = ah_cli_find(cli->verbs, cli->arguments.operands[0]);
    if (verb) {
        ah_help_verb(cli, verb);
        return 0;
    }
    struct ah_error err = {0};
    ah_cli_unknown(cli, cli->arguments.operands[0], &err);
    return ah_cli_fail(cli, &err);
}

const struct ah_verb ah_verb_help = {
    .name = "help",
    .summary = "explain autohete or one of its verbs",
    .description =
        "Explains a verb: what it does, its options, examples. Without a verb, lists all verbs. --json gives "
        "programs every verb with its options.",
    .syntax = {.options = help_table, .operands = {AH_OPERAND_VERB, "VERB", 0, 1, NULL}},
    .options_bytes = sizeof(struct help_options),
    .examples = {{"help check", "what check can do"}, {"help --man | man -l -", "read the manual page"}},
    .run = help_run,
};
