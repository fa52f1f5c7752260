/* SPDX-License-Identifier: Apache-2.0
 *
 * Times of a run are medians over its steps; the first one, which warms up, is left out where there are others.
 */
#include "cli/inspect.h"

#include "base/stats.h"
#include "base/units.h"
#include "schemas/runlog.h"

#include <inttypes.h>

enum { EVALUATIONS_SHOWN = 10 };

static const char *const reasons[] = {"done", "interrupted", "failed"}; /* by enum ah_runlog_reason */

/* Where a lane's time stands in a step and in the prediction. */
static const struct {
    const char *what;
    const char *key;
    size_t step_offset;
    size_t predicted_offset;
} times[] = {
#define TIME_ROW(what, member)                                                                               \
    {                                                                                                        \
        what, #member, offsetof(struct ah_runlog_step, member), offsetof(struct ah_runlog_predicted, member) \
    }
    TIME_ROW("step", step_us), TIME_ROW("compute", compute_us), TIME_ROW("h2d", h2d_us),
    TIME_ROW("d2h", d2h_us),   TIME_ROW("host", host_us),
#undef TIME_ROW
};

enum { TIMES = sizeof times / sizeof times[0] };

static double number_at(const void *group, size_t offset)
{
    return *(const double *)((const char *)group + offset);
}

/* Statistics of one time over the steps; n is 0 where there are none or memory ran out. */
static struct ah_stats time_stats(const struct ah_runlog *runlog, size_t offset)
{
    struct ah_arena arena = {0};
    size_t first = runlog->n_steps > 1;
    size_t n = runlog->n_steps - first;
    double *samples = ah_arena_array(&arena, n + 1, sizeof *samples);
    struct ah_stats stats = {0};
    for (size_t i = 0; samples && i < n; i++)
        samples[i] = number_at(&runlog->steps[first + i], offset);
    if (samples)
        stats = ah_stats_of(samples, n);
    ah_arena_release(&arena);
    return stats;
}

static const char *end_of(const struct ah_runlog *runlog)
{
    return runlog->end ? reasons[runlog->end->reason] : "cut off, or still running";
}

static void put_facts(struct ah_cli *cli, const struct ah_runlog *runlog)
{
    char text[AH_UNITS_TEXT_MAX];
    struct ah_table facts = ah_inspect_facts(cli);
    ah_table_cell(&facts, "run of");
    ah_table_cell(&facts, "%s on %s", runlog->model, runlog->device);
    if (runlog->emulates) {
        ah_table_cell(&facts, "emulates");
        ah_table_cell(&facts, "%s: lanes were slowed to its ratios", runlog->emulates);
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
        ah_table_cell(&facts, "%s/s at the last step", ah_units_print_count(text, last->tokens_per_s));
    }
    if (runlog->n_saves) {
        const struct ah_runlog_save *last = &runlog->saves[runlog->n_saves - 1];
        ah_table_cell(&facts, "saved");
        ah_table_cell(&facts, "%zu times, the last at step %" PRIu64 " with %s", runlog->n_saves, last->step,
                      ah_units_print_bytes(text, last->bytes));
    }
    ah_table_cell(&facts, "written by");
    ah_table_cell(&facts, "%s", runlog->generator);
    ah_table_print(&facts, &cli->out, cli->out_style);
}

static void put_times(struct ah_cli *cli, const struct ah_runlog *runlog)
{
    if (!runlog->n_steps)
        return;
    char text[AH_UNITS_TEXT_MAX];
    struct ah_table table = {.arena = &cli->arena, .columns = {"", ">measured", ">spread", ">predicted"}};
    for (size_t i = 0; i < TIMES; i++) {
        struct ah_stats stats = time_stats(runlog, times[i].step_offset);
        ah_table_cell(&table, "%s", times[i].what);
        ah_table_cell(&table, "%s", ah_units_print_time(text, stats.median));
        ah_table_cell(&table, "%.1f %%", stats.median > 0 ? 100 * stats.mad / stats.median : 0);
        if (runlog->predicted)
            ah_table_cell(&table, "%s",
                          ah_units_print_time(text, number_at(runlog->predicted, times[i].predicted_offset)));
        else
            ah_table_cell(&table, "-");
    }
    ah_inspect_table(cli, "time of a step and of its lanes", &table);
}

static void put_evaluations(struct ah_cli *cli, const struct ah_runlog *runlog)
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
    put_facts(cli, runlog);
    put_times(cli, runlog);
    put_evaluations(cli, runlog);
    ah_inspect_signature_text(cli, &runlog->numeric_signature);
}

void ah_inspect_runlog_json(struct ah_emit *emit, const struct ah_document *document)
{
    const struct ah_runlog *runlog = document->body.runlog;
    ah_emit_text(emit, "model", runlog->model);
    ah_emit_text(emit, "device", runlog->device);
    if (runlog->emulates)
        ah_emit_text(emit, "emulates", runlog->emulates);
    ah_emit_integer(emit, "steps", runlog->n_steps);
    ah_emit_integer(emit, "first_step", runlog->first_step);
    ah_emit_text(emit, "end", runlog->end ? reasons[runlog->end->reason] : NULL);
    if (runlog->n_steps) {
        ah_emit_number(emit, "first_loss", runlog->steps[0].loss);
        ah_emit_number(emit, "last_loss", runlog->steps[runlog->n_steps - 1].loss);
        ah_emit_open(emit, "measured", '{');
        for (size_t i = 0; i < TIMES; i++)
            ah_emit_number(emit, times[i].key, time_stats(runlog, times[i].step_offset).median);
        ah_emit_close(emit);
    }
    if (runlog->predicted) {
        ah_emit_open(emit, "predicted", '{');
        for (size_t i = 0; i < TIMES; i++)
            ah_emit_number(emit, times[i].key, number_at(runlog->predicted, times[i].predicted_offset));
        ah_emit_close(emit);
    }
    ah_emit_integer(emit, "evaluations", runlog->n_evaluations);
    ah_emit_integer(emit, "saves", runlog->n_saves);
    ah_inspect_signature_json(emit, &runlog->numeric_signature);
}
