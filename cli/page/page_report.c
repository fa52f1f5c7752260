/* SPDX-License-Identifier: Apache-2.0
 *
 * The page of a run: the output of report --json, and all rows of report --csv, column by column.
 */
#include "cli/inspect/report_curves.h"
#include "cli/inspect/report_json.h"
#include "cli/inspect/report_ranks.h"
#include "cli/page/page.h"
#include "cli/page/page_internal.h"

#include <inttypes.h>
#include <math.h>

/* One column as a JSON array. */
struct column {
    const struct ah_report_curve *curve; /* NULL: the numbers of the rows' steps */
    struct ah_buffer text;
    bool filled; /* some row has a number */
};

static void put_cell(void *context, const struct ah_report_row *row)
{
    struct column *column = context;
    const double value = column->curve ? column->curve->value(row) : 0;
    ah_buffer_puts(&column->text, column->text.size ? "," : "[");
    if (!column->curve)
        ah_buffer_printf(&column->text, "%" PRIu64, row->number);
    else if (isfinite(value))
        ah_buffer_printf(&column->text, AH_REPORT_NUMBER, value);
    else
        ah_buffer_puts(&column->text, "null");
    column->filled = column->filled || isfinite(value);
}

/* Adds a column; leaves it out if no row has a number, except for the steps. */
static void put_column(struct ah_emit *emit, const struct ah_runlog *runlog, const char *name,
                       const struct ah_report_curve *curve)
{
    struct column column = {.curve = curve};
    ah_report_each_row(runlog, put_cell, &column);
    ah_buffer_puts(&column.text, column.text.size ? "]" : "[]");
    if (column.text.failed)
        emit->text.failed = true;
    else if (column.filled || !curve)
        ah_emit_json(emit, name, column.text.data);
    ah_buffer_release(&column.text);
}

static void put_rows(struct ah_emit *emit, const struct ah_runlog *runlog)
{
    ah_emit_open(emit, "rows", '{');
    put_column(emit, runlog, "step", NULL);
    for (size_t i = 0; i < AH_REPORT_CURVES; i++)
        put_column(emit, runlog, ah_report_curves[i].column, &ah_report_curves[i]);
    ah_emit_close(emit);
}

/* Adds the steps after which the run was resumed, in this log or before it. */
static void put_resumes(struct ah_emit *emit, const struct ah_runlog *runlog)
{
    ah_emit_open(emit, "resumes", '[');
    if (runlog->first_step > 1)
        ah_emit_integer(emit, NULL, runlog->first_step - 1);
    for (size_t i = 0; i < runlog->n_resumes; i++)
        ah_emit_integer(emit, NULL, runlog->resumes[i].step);
    ah_emit_close(emit);
}

static void put_sentence(struct ah_cli *cli, struct ah_emit *emit, const struct ah_runlog *runlog,
                         const struct ah_runlog_summary *summary)
{
    struct ah_buffer sentence = {0};
    if (ah_report_ranks_any(runlog))
        ah_report_ranks_put_sentence(cli, runlog, &sentence);
    else
        ah_runlog_summary_put_cause(&sentence, summary);
    ah_emit_buffer(emit, "sentence", &sentence);
}

int ah_page_write_report(struct ah_cli *cli, const char *path, const struct ah_run_log_text *text,
                         const struct ah_runlog_summary *summary, struct ah_error *err)
{
    const struct ah_runlog *runlog = text->document.body.runlog;
    char name[AH_DOCUMENT_NAME_MAX];
    struct ah_buffer json = {0};
    struct ah_emit emit = {.out = &json, .one_line = true};
    ah_emit_open(&emit, NULL, '{');
    ah_emit_text(&emit, "file", ah_document_short_name(cli->arguments.operands[0], name));
    ah_emit_text(&emit, "generator", runlog->generator);
    ah_emit_text(&emit, "plan_sha256", runlog->plan_sha256);
    put_sentence(cli, &emit, runlog, summary);
    ah_emit_open(&emit, "report", '{');
    ah_report_json(&emit, text, summary);
    ah_emit_close(&emit);
    put_resumes(&emit, runlog);
    put_rows(&emit, runlog);
    ah_emit_close(&emit);
    int rc = json.failed ? ah_error_memory(err)
                         : page_write_text(cli, path, page_report, page_report_bytes, &json, err);
    ah_buffer_release(&json);
    return rc;
}
