/* SPDX-License-Identifier: Apache-2.0
 *
 * Fails each allocation of the CLI frame once: options, tables, JSON, help, the manual page, completion.
 */
#include "cli/frame/emit.h"
#include "cli/frame/help.h"
#include "cli/frame/manual.h"
#include "cli/frame/table.h"
#include "cli/verbs.h"
#include "tests/support/check.h"
#include "tests/support/fault.h"

#include <string.h>

static const struct ah_verb *const verbs[] = {&ah_verb_profile, &ah_verb_inspect,    &ah_verb_check,
                                              &ah_verb_schema,  &ah_verb_completion, NULL};

static int read_options(void *context, struct ah_error *err)
{
    (void)context;
    struct ah_arena arena = {0};
    struct ah_option_list lists[4];
    struct ah_arguments arguments = {0};
    const char *const words[] = {"a", "--assert", "x<1", "--assert=y>2", "b", "--", "c", NULL};
    memset(lists, 0, sizeof lists);
    int rc = ah_options_parse(&ah_verb_check.syntax, words, &arena, lists, &arguments, err);
    if (!rc)
        assert_int_equal(arguments.n_operands, 3);
    ah_arena_release(&arena);
    return rc;
}

static int print_table(void *context, struct ah_error *err)
{
    (void)context;
    struct ah_arena arena = {0};
    struct ah_buffer out = {0};
    struct ah_table table = {.arena = &arena, .columns = {"a", ">b"}};
    for (int i = 0; i < 200; i++)
        ah_table_cell(&table, "%d", i);
    ah_table_print(&table, &out, (struct ah_style){"", "", "", "", "", ""}, 0);
    int rc = out.failed ? ah_error_memory(err) : AH_OK;
    ah_buffer_release(&out);
    ah_arena_release(&arena);
    return rc;
}

static int emit_object(void *context, struct ah_error *err)
{
    (void)context;
    struct ah_buffer out = {0};
    struct ah_emit emit = {.out = &out};
    ah_emit_open(&emit, NULL, '{');
    ah_emit_text(&emit, "repaired", "\xff");
    ah_emit_error(&emit, "error", &(struct ah_error){.code = AH_E_IO, .text = "no"}, 1);
    ah_emit_close(&emit);
    int rc = out.failed ? ah_error_memory(err) : AH_OK;
    ah_buffer_release(&out);
    return rc;
}

/* Prints all help, the manual and a completion script into `out`, without writing to standard output. */
static int print_texts(void *context, struct ah_error *err)
{
    (void)context;
    struct ah_cli cli = {.verbs = verbs,
                         .out_style = {"", "", "", "", "", ""},
                         .arguments = {.operands = (const char *[]){"bash"}, .n_operands = 1}};
    ah_help_all(&cli);
    for (const struct ah_verb *const *verb = verbs; *verb; verb++)
        ah_help_verb(&cli, *verb);
    cli.json = true;
    ah_help_all(&cli);
    ah_manual_print(verbs, &cli.out);
    ah_verb_completion.run(&cli, NULL);
    int rc = cli.out.failed ? ah_error_memory(err) : AH_OK;
    ah_buffer_release(&cli.out);
    ah_arena_release(&cli.arena);
    return rc;
}

TEST(frame, options)
{
    assert_true(fault_sweep(read_options, NULL, 0) >= 1);
}

TEST(frame, table)
{
    assert_true(fault_sweep(print_table, NULL, 0) >= 2);
}

TEST(frame, json)
{
    assert_true(fault_sweep(emit_object, NULL, 0) >= 2);
}

TEST(frame, texts)
{
    assert_true(fault_sweep(print_texts, NULL, 0) >= 5);
}
