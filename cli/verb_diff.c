/* SPDX-License-Identifier: Apache-2.0
 *
 * autohete diff A B: shows where two documents differ. Exit status, like diff: 0 same, 1 different, 2 or more trouble.
 */
#include "cli/compare/diff_cluster_plan.h"
#include "cli/compare/diff_plan.h"
#include "cli/frame/emit.h"
#include "cli/frame/input.h"
#include "cli/frame/outputs.h"
#include "cli/page/page.h"
#include "cli/verbs.h"
#include "schemas/document.h"

#include <stdio.h>
#include <string.h>

enum { TEXT_MAX_BYTES = 1024 };

struct diff_report {
    struct ah_cli *cli;
    struct ah_emit emit;

    /* Returns the long list that contains a path. Differences in such lists are counted, not printed. */
    const char *(*bulk)(const char *path);
    const char *list;
    size_t n_of_list;
};

/* Returns the value in printable form, cut if it is long; "" stands for absent. */
static const char *readable(char out[TEXT_MAX_BYTES], const char *value)
{
    int n = snprintf(out, TEXT_MAX_BYTES, "%s", *value ? value : "(absent)");
    ah_terminal_clean(out);
    size_t end = TEXT_MAX_BYTES - 4;
    while (n >= TEXT_MAX_BYTES && ((unsigned char)out[end] & 0xC0) == 0x80)
        end--; /* do not cut inside a character */
    if (n >= TEXT_MAX_BYTES)
        memcpy(out + end, "...", 4);
    return out;
}

static void report_text(void *context, const char *path, const char *a, const char *b)
{
    struct diff_report *report = context;
    const struct ah_style *style = &report->cli->out_style;
    char left[TEXT_MAX_BYTES];
    char right[TEXT_MAX_BYTES];
    char where[TEXT_MAX_BYTES];
    ah_buffer_printf(&report->cli->out, "%s%s%s: %s%s%s -> %s%s%s\n", style->bold, readable(where, path),
                     style->reset, style->red, readable(left, a), style->reset, style->green,
                     readable(right, b), style->reset);
}

static void report_json(void *context, const char *path, const char *a, const char *b)
{
    struct ah_emit *emit = &((struct diff_report *)context)->emit;
    ah_emit_open(emit, NULL, '{');
    ah_emit_text(emit, "path", path);
    ah_emit_json(emit, "a", *a ? a : "null");
    ah_emit_json(emit, "b", *b ? b : "null");
    ah_emit_close(emit);
}

static void finish_list(struct diff_report *report)
{
    if (report->list)
        ah_buffer_printf(&report->cli->out, "%s: %zu %s (--json lists them)\n", report->list,
                         report->n_of_list, report->n_of_list == 1 ? "difference" : "differences");
    report->list = NULL;
    report->n_of_list = 0;
}

static void report_counted(void *context, const char *path, const char *a, const char *b)
{
    struct diff_report *report = context;
    const char *list = report->bulk(path);
    if (report->list != list)
        finish_list(report);
    report->list = list;
    report->n_of_list++;
    if (!list)
        report_text(context, path, a, b);
}

/* Prints differences field by field; for plans only with `fields`, because planning terms say more about them. */
static size_t print_text(struct ah_cli *cli, const struct ah_document *a, const struct ah_document *b,
                         bool fields)
{
    struct diff_report report = {.cli = cli};
    size_t n = ah_document_diff(a, b, NULL, NULL);
    if (n && a->kind == AH_DOCUMENT_PLAN) {
        ah_diff_plan_text(cli, a->body.plan, b->body.plan);
        report.bulk = ah_diff_plan_bulk;
    } else if (n && a->kind == AH_DOCUMENT_CLUSTER_PLAN) {
        ah_diff_cluster_plan_text(cli, a->body.cluster_plan, b->body.cluster_plan);
        report.bulk = ah_diff_cluster_plan_bulk;
    }
    if (report.bulk && !fields) {
        ah_buffer_printf(&cli->out, "%zu field%s (--fields lists them)\n", n,
                         n == 1 ? " differs" : "s differ");
        return n;
    }
    n = ah_document_diff(a, b, report.bulk ? report_counted : report_text, &report);
    finish_list(&report);
    return n;
}

/* Prints the differences of plans in planning terms. */
static void print_planning(struct ah_cli *cli, struct ah_emit *emit, const struct ah_document *a,
                           const struct ah_document *b)
{
    if (a->kind != AH_DOCUMENT_PLAN && a->kind != AH_DOCUMENT_CLUSTER_PLAN)
        return;
    ah_emit_open(emit, "plan", '{');
    if (a->kind == AH_DOCUMENT_PLAN)
        ah_diff_plan_json(emit, a->body.plan, b->body.plan);
    else
        ah_diff_cluster_plan_json(emit, &cli->arena, a->body.cluster_plan, b->body.cluster_plan);
    ah_emit_close(emit);
}

static size_t print_json(struct ah_cli *cli, const struct ah_document *a, const struct ah_document *b)
{
    struct diff_report report = {.cli = cli, .emit = {.out = &cli->out}};
    ah_emit_open(&report.emit, NULL, '{');
    ah_emit_text(&report.emit, "kind", ah_document_word(a->kind));
    print_planning(cli, &report.emit, a, b);
    ah_emit_open(&report.emit, "differences", '[');
    size_t n = ah_document_diff(a, b, report_json, &report);
    ah_emit_close(&report.emit);
    ah_emit_bool(&report.emit, "same", n == 0);
    ah_emit_close(&report.emit);
    return n;
}

struct diff_options {
    const char *html;
    bool fields;
    bool force;
};

static const char *const replaced_pages[] = {AH_OUTPUT_PAGE, NULL};

static const struct ah_option diff_table[] = {
    {"fields", 0, AH_OPTION_FLAG, NULL, NULL, offsetof(struct diff_options, fields),
     "for plans, also list the fields that differ, after what the change means"},
    {"html", 0, AH_OPTION_OUTPUT, "FILE", replaced_pages, offsetof(struct diff_options, html),
     "write what changed between two plans as one page with blocks, memory and times, instead of text"},
    AH_OUTPUT_FORCE_ROW(struct diff_options),
    {NULL, 0, AH_OPTION_FLAG, NULL, NULL, 0, NULL}};

static int load_both(struct ah_cli *cli, struct ah_document *a, struct ah_document *b, struct ah_error *err)
{
    const char *const *names = cli->arguments.operands;
    if (!strcmp(names[0], "-") && !strcmp(names[1], "-"))
        return ah_error_set(err, AH_E_USAGE, "standard input ('-') can be only one of the two");
    int rc = ah_input_load(a, names[0], AH_DOCUMENT_ANY, err);
    rc = rc ? rc : ah_input_load(b, names[1], AH_DOCUMENT_ANY, err);
    if (!rc && a->kind != b->kind)
        rc = ah_error_set(err, AH_E_DOCUMENT, "%s: a %s document cannot be compared with the %s document %s",
                          names[1], ah_document_word(b->kind), ah_document_word(a->kind), names[0]);
    return rc;
}

static int write_page(struct ah_cli *cli, const char *path, const struct ah_document *a,
                      const struct ah_document *b, struct ah_error *err)
{
    if (a->kind != AH_DOCUMENT_PLAN)
        return ah_error_set(err, AH_E_USAGE, "'--html' makes pages of two plans; these are %s documents",
                            ah_document_word(a->kind));
    if (!strcmp(path, "-") && cli->json)
        return ah_error_set(err, AH_E_USAGE,
                            "'--html -' and '--json' both want standard output; give '--html' a file");
    int rc = ah_page_write_diff(cli, path, a->body.plan, b->body.plan, err);
    if (!rc && strcmp(path, "-") != 0)
        ah_cli_tell(cli, AH_CLI_WROTE, "%s", path);
    return rc;
}

static int diff_run(struct ah_cli *cli, const void *given)
{
    const struct diff_options *options = given;
    struct ah_document a = {0};
    struct ah_document b = {0};
    struct ah_error err = {0};
    int status = 0, rc = load_both(cli, &a, &b, &err);
    if (!rc && options->html)
        rc = write_page(cli, options->html, &a, &b, &err);
    if (rc)
        status = ah_cli_fail(cli, &err);
    else if (options->html && !cli->json)
        status = ah_document_diff(&a, &b, NULL, NULL) ? 1 : 0;
    else
        status = (cli->json ? print_json(cli, &a, &b) : print_text(cli, &a, &b, options->fields)) ? 1 : 0;
    ah_document_release(&a);
    ah_document_release(&b);
    return status;
}

const struct ah_verb ah_verb_diff = {
    .name = "diff",
    .summary = "show where two documents of one kind differ",
    .description =
        "Compares two documents of one kind field by field and prints 'path: old -> new' for every "
        "difference; the program that wrote them (generator) and annotations do not count. For plans it says "
        "what the change means instead: step, tokens per second, memory, which blocks changed, which lanes' "
        "orders changed; for cluster plans which GPUs changed; and how many fields differ. --fields lists "
        "those, too, but only counts ops, orders and tensors; --json lists all.\n\nWith --html the changes "
        "between two plans are one page that works offline: numbers, blocks, memory by class and lanes, "
        "before and after; no text is printed.\n\nExit status: 0 the same, 1 different, 2 or more trouble.",
    .syntax = {.options = diff_table, .operands = {AH_OPERAND_FILE, "FILE", 2, 2, NULL}},
    .options_bytes = sizeof(struct diff_options),
    .least_trouble = 2,
    .examples = {{"diff old-plan.json new-plan.json", "what changed between two plans"},
                 {"diff old-plan.json new-plan.json --html change.html", "the same in the browser"},
                 {"diff yesterday.json today.json", "how the machine's numbers moved"}},
    .run = diff_run,
};
