/* SPDX-License-Identifier: Apache-2.0
 *
 * Shows a run log briefly; `report` says more.
 */
#include "cli/inspect/inspect.h"

#include "base/units.h"
#include "runtime/run/runlog_summary.h"

#include <inttypes.h>
#include <stdio.h>

enum { EVALUATIONS_SHOWN = 10 };

static const char *const reasons[] = {"done", "interrupted", "failed"}; /* by enum ah_runlog_reason */

static const char *end_of(const struct ah_runlog *runlog)
{
    return runlog->end ? reasons[runlog->end->reason] : "cut off, or still running";
}

void ah_inspect_runlog_facts(struct ah_cli *cli, const struct ah_runlog *runlog,
                             const struct ah_runlog_summary *summary)
{
    char text[AH_UNITS_TEXT_MAX], learned[AH_UNITS_TEXT_MAX];
    struct ah_table facts = ah_inspect_facts(cli);
    ah_table_cell(&facts, "run of");
    ah_table_cell(&facts, "%s on %s", runlog->model, runlog->device);
    if (runlog->paced) {
        ah_table_cell(&facts, "paced");
        ah_table_cell(&facts, "ops and messages were held to their planned times");
    }
    if (runlog->emulates) {
        ah_table_cell(&facts, "emulates");
        ah_table_cell(&facts, "%s: lanes were slowed to match its ratios", runlog->emulates);
    }
    ah_table_cell(&facts, "steps");
    ah_table_cell(&facts, "%zu from %" PRIu64 "; %s", runlog->n_steps, runlog->first_step, end_of(runlog));
    if (runlog->end && runlog->end->error) {
        ah_table_cell(&facts, "error");
        ah_table_cell(&facts, "%s", runlog->end->error);
    }
    if (runlog->n_steps) {
        const struct ah_runlog_step *last = &runlog->steps[runlog->n_steps - 1];
        ah_table_cell(&facts, "loss");
        ah_table_cell(&facts, "%.6g -> %.6g", runlog->steps[0].loss, last->loss);
        ah_table_cell(&facts, "tokens");
        ah_table_cell(
            &facts, "%s/s (median)%s%s%s", ah_units_print_count(text, summary->tokens_per_s.measured),
            summary->tokens_share < 1 ? ", " : "",
            summary->tokens_share < 1 ? ah_units_print_count(learned, summary->learned_tokens_per_s.measured)
                                      : "",
            summary->tokens_share < 1 ? "/s learned" : "");
    }
    if (runlog->n_saves) {
        const struct ah_runlog_save *last = &runlog->saves[runlog->n_saves - 1];
        ah_table_cell(&facts, "saved");
        ah_table_cell(&facts, "%zu time%s, the last at step %" PRIu64 " with %s", runlog->n_saves,
                      runlog->n_saves == 1 ? "" : "s", last->step, ah_units_print_bytes(text, last->bytes));
    }
    if (runlog->n_resumes) {
        ah_table_cell(&facts, "resumed");
        ah_table_cell(&facts, "%zu time%s, the last after step %" PRIu64, runlog->n_resumes,
                      runlog->n_resumes == 1 ? "" : "s", runlog->resumes[runlog->n_resumes - 1].step);
    }
    ah_table_cell(&facts, "written by");
    ah_table_cell(&facts, "%s", runlog->generator);
    ah_table_print(&facts, &cli->out, cli->out_style, cli->table_columns);
}

static void put_row(struct ah_table *table, const char *what, const struct ah_runlog_pair *us)
{
    char text[AH_UNITS_TEXT_MAX];
    ah_table_cell(table, "%s", what);
    ah_table_cell(table, "%s", ah_units_print_time(text, us->measured));
    ah_table_cell(table, "%.1f %%", 100 * us->spread);
    ah_table_cell(table, "%s", us->is_predicted ? ah_units_print_time(text, us->predicted) : "-");
}

static void put_times(struct ah_cli *cli, const struct ah_runlog *runlog,
                      const struct ah_runlog_summary *summary)
{
    bool estimated = runlog->predicted && runlog->predicted->estimated;
    struct ah_table table = {.arena = &cli->arena, .columns = {"", ">measured", ">spread", ">predicted"}};
    if (!summary->steps)
        return;
    put_row(&table, "step", &summary->step_us);
    for (size_t lane = 0; lane < summary->n_lanes; lane++)
        put_row(&table, ah_words_plan_lane[lane], &summary->lane_us[lane]);
    ah_inspect_table(cli,
                     estimated ? "time of a step and of its lanes (predicted from estimates)"
                               : "time of a step and of its lanes",
                     &table);
}

void ah_inspect_runlog_evaluations(struct ah_cli *cli, const struct ah_runlog *runlog)
{
    struct ah_table table = {.arena = &cli->arena, .columns = {">after step", ">loss", ">tokens"}};
    size_t first = runlog->n_evaluations > EVALUATIONS_SHOWN ? runlog->n_evaluations - EVALUATIONS_SHOWN : 0;
    for (size_t i = first; i < runlog->n_evaluations; i++) {
        ah_table_cell(&table, "%" PRIu64, runlog->evaluations[i].step);
        ah_table_cell(&table, "%.6g", runlog->evaluations[i].loss);
        ah_table_cell(&table, "%" PRIu64, runlog->evaluations[i].tokens);
    }
    ah_inspect_table(cli, first ? "last evaluations on held-out data" : "evaluations on held-out data",
                     &table);
}

void ah_inspect_runlog_text(struct ah_cli *cli, const struct ah_document *document)
{
    const struct ah_runlog *runlog = document->body.runlog;
    struct ah_runlog_summary summary;
    struct ah_error err;
    if (ah_runlog_summary_init(&summary, runlog, &cli->arena, &err)) {
        cli->out.failed = true;
        return;
    }
    ah_inspect_runlog_facts(cli, runlog, &summary);
    put_times(cli, runlog, &summary);
    ah_inspect_runlog_evaluations(cli, runlog);
    ah_inspect_signature_text(cli, &runlog->numeric_signature);
}

void ah_inspect_runlog_head(struct ah_emit *emit, const struct ah_runlog *runlog)
{
    ah_emit_text(emit, "model", runlog->model);
    ah_emit_text(emit, "device", runlog->device);
    if (runlog->policy)
        ah_emit_text(emit, "policy", runlog->policy);
    if (runlog->paced)
        ah_emit_bool(emit, "paced", true);
    if (runlog->emulates)
        ah_emit_text(emit, "emulates", runlog->emulates);
    ah_emit_integer(emit, "steps", runlog->n_steps);
    ah_emit_integer(emit, "first_step", runlog->first_step);
    ah_emit_text(emit, "end", runlog->end ? reasons[runlog->end->reason] : NULL);
    if (runlog->n_steps) {
        ah_emit_number(emit, "first_loss", runlog->steps[0].loss);
        ah_emit_number(emit, "last_loss", runlog->steps[runlog->n_steps - 1].loss);
    }
}

void ah_inspect_runlog_times(struct ah_emit *emit, const struct ah_runlog_summary *summary, bool measured)
{
    const struct ah_runlog_pair *step = &summary->step_us;
    if (!(measured ? step->is_measured : step->is_predicted))
        return;
    ah_emit_number(emit, "step_us", measured ? step->measured : step->predicted);
    for (size_t lane = 0; lane < summary->n_lanes; lane++) {
        const struct ah_runlog_pair *us = &summary->lane_us[lane];
        char key[16];
        snprintf(key, sizeof key, "%s_us", ah_words_plan_lane[lane]);
        ah_emit_number(emit, key, measured ? us->measured : us->predicted);
    }
}

static void emit_side(struct ah_emit *emit, const struct ah_runlog_summary *summary, bool measured)
{
    if (!(measured ? summary->step_us.is_measured : summary->step_us.is_predicted))
        return;
    ah_emit_open(emit, measured ? "measured" : "predicted", '{');
    ah_inspect_runlog_times(emit, summary, measured);
    ah_emit_close(emit);
}

void ah_inspect_runlog_json(struct ah_emit *emit, const struct ah_document *document)
{
    const struct ah_runlog *runlog = document->body.runlog;
    struct ah_runlog_summary summary;
    struct ah_arena arena = {0};
    struct ah_error err;
    ah_inspect_runlog_head(emit, runlog);
    if (ah_runlog_summary_init(&summary, runlog, &arena, &err))
        emit->text.failed = true;
    else {
        emit_side(emit, &summary, true);
        emit_side(emit, &summary, false);
    }
    ah_emit_integer(emit, "evaluations", runlog->n_evaluations);
    ah_emit_integer(emit, "saves", runlog->n_saves);
    ah_inspect_signature_json(emit, &runlog->numeric_signature);
    ah_arena_release(&arena);
}
