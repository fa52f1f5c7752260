/* SPDX-License-Identifier: Apache-2.0
 *
 * Format: "Trace Event Format" (Chromium). Times are in us with three decimals.
 *
 * Events are collected as marks, sorted by time, and printed one per line. At equal times, ends come first (nothing is
 * printed for an end), then the slice, then the arrows attached to the slice.
 */
#include "cli/trace/trace.h"

#include "base/file.h"
#include "cli/trace/trace_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- events ---- */

void ah_trace_open(struct trace *trace, struct ah_emit *emit, const char *phase, unsigned process)
{
    ah_buffer_puts(&trace->text, trace->comma ? ",\n" : "\n");
    trace->comma = true;
    *emit = (struct ah_emit){.out = &trace->text, .one_line = true};
    ah_emit_open(emit, NULL, '{');
    ah_emit_text(emit, "ph", phase);
    ah_emit_integer(emit, "pid", process);
}

void ah_trace_emit_ns(struct ah_emit *emit, const char *key, int64_t ns)
{
    char text[32];
    snprintf(text, sizeof text, "%" PRId64 ".%03d", ns / 1000, (int)(ns % 1000));
    ah_emit_json(emit, key, text);
}

void ah_trace_emit_slice(struct ah_emit *emit, uint64_t track, int64_t start_ns, int64_t end_ns)
{
    ah_emit_integer(emit, "tid", track);
    ah_trace_emit_ns(emit, "ts", start_ns);
    ah_trace_emit_ns(emit, "dur", end_ns - start_ns);
}

const char *ah_trace_name(const struct ah_plan *plan, size_t op, char out[TRACE_NAME_MAX])
{
    bool of_all = plan->ops[op].op == AH_PLAN_NORM;
    snprintf(out, TRACE_NAME_MAX, "%s%s%.160s", ah_words_plan_op[plan->ops[op].op], of_all ? "" : " ",
             of_all ? "" : plan->blocks[plan->ops[op].block].name);
    return out;
}

void ah_trace_emit_op(struct ah_emit *emit, const struct ah_plan *plan, size_t op, uint64_t tile)
{
    ah_emit_text(emit, "op", ah_words_plan_op[plan->ops[op].op]);
    ah_emit_text(emit, "block", plan->blocks[plan->ops[op].block].name);
    ah_emit_integer(emit, "micro_batch", plan->ops[op].micro_batch);
    ah_emit_integer(emit, "tile", tile);
    ah_emit_integer(emit, "tiles", plan->ops[op].tiles);
}

/* ---- processes and tracks ---- */

static void open_about(struct trace *trace, struct ah_emit *emit, enum trace_process process, uint64_t track,
                       const char *what)
{
    ah_trace_open(trace, emit, "M", process);
    ah_emit_integer(emit, "tid", track);
    ah_emit_text(emit, "name", what);
    ah_emit_open(emit, "args", '{');
}

static void close_about(struct ah_emit *emit)
{
    ah_emit_close(emit);
    ah_emit_close(emit);
}

static void print_track(struct trace *trace, enum trace_process process, uint64_t track, const char *name,
                        uint64_t place)
{
    struct ah_emit emit;
    open_about(trace, &emit, process, track, "thread_name");
    ah_emit_text(&emit, "name", name);
    close_about(&emit);
    open_about(trace, &emit, process, track, "thread_sort_index");
    ah_emit_integer(&emit, "sort_index", place);
    close_about(&emit);
}

static void print_process(struct trace *trace, enum trace_process process, const char *name)
{
    struct ah_emit emit;
    open_about(trace, &emit, process, 0, "process_name");
    ah_emit_text(&emit, "name", name);
    close_about(&emit);
    print_track(trace, process, TRACK_ITERATIONS, process == PROCESS_PREDICTED ? "iterations" : "steps", 0);
    for (size_t lane = 0; lane < ah_plan_lane_count(trace->plan); lane++)
        print_track(trace, process, lane + 1, ah_words_plan_lane[lane], 2 * lane + 1);
}

/* Adds a track below each lane, for the hardware's work for this lane. */
static void print_activity_tracks(struct trace *trace)
{
    static const char *const names[] = {[AH_PLAN_LANE_COMPUTE] = "compute: kernels",
                                        [AH_PLAN_LANE_H2D] = "h2d: copies",
                                        [AH_PLAN_LANE_D2H] = "d2h: copies"};
    for (size_t lane = 0; lane < sizeof names / sizeof *names; lane++)
        print_track(trace, PROCESS_MEASURED, TRACK_ACTIVITIES + lane, names[lane], 2 * lane + 2);
}

static void print_processes(struct trace *trace)
{
    char name[512];
    const struct ah_plan_inputs *inputs = &trace->plan->inputs;
    snprintf(name, sizeof name, "simulated: %.200s on %.200s, policy %s", inputs->model.name,
             inputs->machine.name, ah_words_policy[trace->plan->policy]);
    print_process(trace, PROCESS_PREDICTED, trace->measured ? "predicted (simulated)" : name);
    if (trace->measured)
        print_process(trace, PROCESS_MEASURED, "measured");
    if (trace->measured && trace->measured->n_activities)
        print_activity_tracks(trace);
}

/* ---- the file ---- */

static void print_mark(struct trace *trace, const struct mark *mark)
{
    bool measured = mark->kind == MARK_STEP || mark->kind == MARK_SLICE || mark->kind == MARK_ACTIVITY;
    (measured ? ah_trace_print_measured : ah_trace_print_predicted)(trace, mark);
}

static void print_about(struct trace *trace)
{
    const struct ah_plan *plan = trace->plan;
    struct ah_emit emit = {.out = &trace->text, .one_line = true};
    ah_emit_open(&emit, NULL, '{');
    ah_emit_bool(&emit, "simulated", !trace->measured);
    ah_emit_text(&emit, "generator", "autohete " AUTOHETE_VERSION);
    ah_emit_text(&emit, "model", plan->inputs.model.name);
    ah_emit_text(&emit, "machine", plan->inputs.machine.name);
    ah_emit_text(&emit, "policy", ah_words_policy[plan->policy]);
    ah_emit_number(&emit, "period_us", trace->replay->period_us);
    ah_emit_close(&emit);
}

static int print_trace(struct trace *trace, struct ah_error *err)
{
    ah_buffer_puts(&trace->text, "{\"displayTimeUnit\":\"ms\",\"otherData\":");
    print_about(trace);
    ah_buffer_puts(&trace->text, ",\"traceEvents\":[");
    print_processes(trace);
    for (size_t i = 0; i < trace->n_marks; i++)
        print_mark(trace, &trace->marks[i]);
    ah_buffer_puts(&trace->text, "\n]}\n");
    return trace->text.failed ? ah_error_memory(err) : AH_OK;
}

static int by_time(const void *left, const void *right)
{
    const struct mark *a = left, *b = right;
    if (a->ns != b->ns)
        return a->ns < b->ns ? -1 : 1;
    if (a->kind != b->kind)
        return a->kind < b->kind ? -1 : 1;
    return a->item < b->item ? -1 : a->item > b->item;
}

static size_t most_marks(const struct trace *trace)
{
    const struct ah_timeline *measured = trace->measured;
    size_t of_replay = 4 * trace->replay->n_items + trace->iterations;
    return of_replay + (measured ? measured->n_slices + measured->n_activities + measured->n_steps : 0);
}

static int collect_marks(struct trace *trace, struct ah_error *err)
{
    trace->iterations = trace->replay->first_of_lane[AH_PLAN_LANE_COMPUTE + 1] / trace->plan->arena.positions;
    trace->marks = ah_arena_array(trace->arena, most_marks(trace), sizeof *trace->marks);
    if (!trace->marks)
        return ah_error_memory(err);
    int rc = ah_trace_predict(trace, err);
    if (rc)
        return rc;
    if (trace->measured)
        ah_trace_measure(trace);
    qsort(trace->marks, trace->n_marks, sizeof *trace->marks, by_time);
    return AH_OK;
}

int ah_trace_write_both(struct ah_cli *cli, const char *path, const struct ah_plan *plan,
                        const struct ah_replay *replay, const struct ah_timeline *measured,
                        struct ah_error *err)
{
    struct trace trace = {.plan = plan, .replay = replay, .measured = measured, .arena = &cli->arena};
    int rc = collect_marks(&trace, err);
    if (!rc)
        rc = print_trace(&trace, err);
    if (!rc && !strcmp(path, "-"))
        ah_buffer_append(&cli->out, trace.text.data, trace.text.size);
    else if (!rc)
        rc = ah_file_write(path, trace.text.data, trace.text.size, err);
    ah_buffer_release(&trace.text);
    return rc;
}

int ah_trace_write(struct ah_cli *cli, const char *path, const struct ah_plan *plan,
                   const struct ah_replay *replay, struct ah_error *err)
{
    return ah_trace_write_both(cli, path, plan, replay, NULL, err);
}

int ah_trace_write_run(struct ah_cli *cli, const char *path, const struct ah_plan *plan,
                       const struct ah_run_timeline *timeline, struct ah_error *err)
{
    enum { ITERATIONS_MORE = 6 }; /* gives the replay as many steady iterations as were measured */
    struct ah_timeline measured;
    struct ah_replay replay;
    int rc = ah_run_timeline_cut(timeline, &cli->arena, &measured, err);
    if (!rc)
        rc =
            ah_replay_run(plan, ah_run_timeline_steps(timeline) + ITERATIONS_MORE, &cli->arena, &replay, err);
    return rc ? rc : ah_trace_write_both(cli, path, plan, &replay, &measured, err);
}
