/* SPDX-License-Identifier: Apache-2.0
 *
 * autohete check FILE...: are these documents valid, and do the given assertions hold for them?
 *
 * Every file is checked. The exit status is that of the most fundamental trouble found: a document that is
 * not valid (3) comes before an assertion that failed (8).
 */
#include "cli/assertion.h"
#include "cli/emit.h"
#include "cli/verbs.h"
#include "runtime/schedule/check.h"
#include "schemas/document.h"

struct check_options {
    struct ah_option_list assertions;
};

static const struct ah_option check_table[] = {{"assert", 0, AH_OPTION_TEXTS, "'PATH OP VALUE'", NULL,
                                                offsetof(struct check_options, assertions),
                                                "fail (exit 8) unless this holds in every file"},
                                               {NULL, 0, AH_OPTION_FLAG, NULL, NULL, 0, NULL}};

struct check {
    struct ah_cli *cli;
    const struct ah_assertion *assertions;
    size_t n_assertions;
    struct ah_emit emit;
    int status; /* the smallest that is not 0, so far */
};

static void check_failed(struct check *check, const struct ah_error *err)
{
    int status = ah_cli_fail(check->cli, err);
    if (!check->status || status < check->status)
        check->status = status;
}

static void emit_actual(struct ah_emit *emit, const struct ah_value *actual)
{
    if (actual->kind == AH_VALUE_NUMBER)
        ah_emit_number(emit, "actual", actual->number);
    else if (actual->kind == AH_VALUE_BOOL)
        ah_emit_bool(emit, "actual", actual->number != 0);
    else
        ah_emit_text(emit, "actual", actual->kind == AH_VALUE_TEXT ? actual->text : NULL);
}

/* Whether all hold. */
static bool check_assertions(struct check *check, const char *name, const struct ah_document *document)
{
    bool hold = true;
    ah_emit_open(&check->emit, "assertions", '[');
    for (size_t i = 0; i < check->n_assertions; i++) {
        struct ah_error err = {0};
        struct ah_value actual = {.kind = AH_VALUE_ABSENT};
        if (ah_assertion_check(&check->assertions[i], document, &actual, &err)) {
            ah_error_prefix(&err, err.code, "%s", name);
            check_failed(check, &err);
            hold = false;
        }
        ah_emit_open(&check->emit, NULL, '{');
        ah_emit_text(&check->emit, "assertion", check->assertions[i].text);
        ah_emit_bool(&check->emit, "holds", err.code == AH_OK);
        emit_actual(&check->emit, &actual);
        ah_emit_close(&check->emit);
    }
    ah_emit_close(&check->emit);
    return hold;
}

static void check_valid(struct check *check, const char *name, const struct ah_document *document)
{
    ah_emit_text(&check->emit, "kind", ah_document_word(document->kind));
    ah_emit_open(&check->emit, "warnings", '[');
    for (size_t i = 0; i < document->n_warnings; i++) {
        ah_emit_text(&check->emit, NULL, document->warnings[i]);
        ah_cli_note(check->cli, "%s: warning: %s", name, document->warnings[i]);
    }
    ah_emit_close(&check->emit);
    bool hold = check_assertions(check, name, document);
    if (hold && !check->cli->json)
        ah_buffer_printf(&check->cli->out, "%s: ok, a %s document\n", ah_cli_clean(check->cli, name),
                         ah_document_word(document->kind));
}

/* What a reader cannot see: whether the plan can be run as it says. */
static int check_plan(const char *name, const struct ah_plan *plan, struct ah_error *err)
{
    int rc = ah_schedule_check(plan, err);
    return rc ? ah_error_prefix(err, rc, "%s", name) : AH_OK;
}

static void check_file(struct check *check, const char *name)
{
    char shortened[AH_DOCUMENT_NAME_MAX];
    struct ah_document document = {0};
    struct ah_error err = {0};
    int rc = ah_document_load(&document, name, AH_DOCUMENT_ANY, &err);
    if (!rc && document.kind == AH_DOCUMENT_PLAN)
        rc = check_plan(ah_document_short_name(name, shortened), document.body.plan, &err);
    ah_emit_open(&check->emit, NULL, '{');
    ah_emit_text(&check->emit, "file", name);
    ah_emit_bool(&check->emit, "valid", rc == AH_OK);
    if (rc) {
        check_failed(check, &err);
        ah_emit_error(&check->emit, "error", &err, ah_error_exit_status(rc));
    } else {
        check_valid(check, ah_document_short_name(name, shortened), &document);
    }
    ah_emit_close(&check->emit);
    ah_document_release(&document);
}

static int read_assertions(struct ah_cli *cli, const struct check_options *options, struct check *check,
                           struct ah_error *err)
{
    struct ah_assertion *assertions =
        ah_arena_array(&cli->arena, options->assertions.n + 1, sizeof *assertions);
    if (!assertions)
        return ah_error_memory(err);
    for (size_t i = 0; i < options->assertions.n; i++) {
        int rc = ah_assertion_parse(&assertions[i], options->assertions.items[i], &cli->arena, err);
        if (rc)
            return rc;
    }
    check->assertions = assertions;
    check->n_assertions = options->assertions.n;
    return AH_OK;
}

static int check_run(struct ah_cli *cli, const void *options)
{
    struct check check = {.cli = cli};
    struct ah_error err = {0};
    if (read_assertions(cli, options, &check, &err))
        return ah_cli_fail(cli, &err);
    check.emit.out = cli->json ? &cli->out : NULL;
    ah_emit_open(&check.emit, NULL, '{');
    ah_emit_open(&check.emit, "files", '[');
    for (size_t i = 0; i < cli->arguments.n_operands; i++)
        check_file(&check, cli->arguments.operands[i]);
    ah_emit_close(&check.emit);
    ah_emit_integer(&check.emit, "exit_status", (uint64_t)check.status);
    ah_emit_close(&check.emit);
    return check.status;
}

const struct ah_verb ah_verb_check = {
    .name = "check",
    .summary = "check that documents are valid and that assertions hold",
    .description =
        "Reads every file as strictly as any other verb would. Of a valid one it prints the kind; of others "
        "it "
        "says what is wrong, with file and path, a line each on standard error, as for every warning and "
        "every "
        "assertion that fails. A model may also be a Hugging Face config.json. A plan is also replayed: its "
        "blocks have the "
        "ops that they need, no two live tensors overlap, its orders can run, and a step takes the time that "
        "it "
        "says.\n\n"
        "An assertion is a path as diff and errors print it (layers, time.step_us, blocks[3].optimizer; for "
        "a "
        "Hugging Face config, the names of the model document), one of < <= > >= == !=, and a number, true, "
        "false or a word; a number of bytes may have a unit. A field that the document leaves out is its "
        "default; where it has none, no assertion about it holds. It may be given many times.\n\n"
        "Exit status: 0 all is well, 3 a document is not valid, else 2 an assertion makes no sense for a "
        "document, else 8 an assertion failed.",
    .syntax = {.options = check_table, .operands = {AH_OPERAND_FILE, "FILE", 1, UINT32_MAX, NULL}},
    .options_bytes = sizeof(struct check_options),
    .examples = {{"check plan.json --assert 'time.step_us<=250000'",
                  "a step is predicted to take at most 0.25 s"},
                 {"check plan.json --assert 'memory.device_bytes<=22GiB'", "the plan fits a 24 GB card"},
                 {"check examples/*/*.json", "everything in a folder"}},
    .run = check_run,
};
