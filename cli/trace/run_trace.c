/* SPDX-License-Identifier: Apache-2.0
 *
 * 1. A step is the compute of its iteration: from the end of the step before (if that is unknown, from the first
 *    block's forward) to the last op. Its forward belongs to the round before, so rounds before the first step are also
 *    kept. Ops that begin outside the steps are not shown.
 * 2. The very first round also has instances from the opening before it (round.c, 2); their number depends on the item.
 *    They belong to earlier iterations.
 */
#include "cli/trace/run_trace.h"

#include "cli/trace/run_recording.h"
#include "cli/trace/trace.h"
#include "runtime/schedule/graph.h"
#include "runtime/train/overlap.h"

#include <stdlib.h>
#include <string.h>

enum { STEPS = 4, WARM_UP = 2, ITERATIONS_MORE = 6, LANES = AH_GRAPH_LANES, NONE = -1 };
enum { WORK_MOST = 1 << 18, ROUNDS_BEHIND = 2 };

_Static_assert((int)AH_LANE_COMPUTE == (int)AH_PLAN_LANE_COMPUTE &&
                   (int)AH_LANE_H2D == (int)AH_PLAN_LANE_H2D && (int)AH_LANE_D2H == (int)AH_PLAN_LANE_D2H &&
                   (int)AH_LANE_HOST == (int)AH_PLAN_LANE_HOST,
               "lanes of plans are those of devices");

struct ah_run_trace {
    const struct ah_plan *plan;
    struct ah_arena arena;
    struct ah_graph graph;
    uint64_t first, steps;
    struct ah_trace_slice *slices; /* slices with times from the clock's own zero; in the arena */
    size_t n, room;
    size_t data_left;         /* number of slices that data may still use */
    ptrdiff_t current[LANES]; /* the newest slice of each lane */
    uint64_t current_round[LANES];
    uint64_t opened; /* the first round with an op; 0: none yet */
    uint8_t *heard;  /* number of each item's instances so far in that round; in the arena */
    struct ah_overlap_work
        *work; /* owned; the primitive ops of the kept rounds, and of a few rounds after them */
    size_t n_work;
    uint64_t work_lost; /* ops for which `work` had no room */
    struct ah_run_recording recording;
};

/* ---- opening and freeing ---- */

static int take_memory(struct ah_run_trace *trace, struct ah_error *err)
{
    const size_t data_each = 16 * (trace->plan->training.micro_batches + 1);
    uint64_t rounds = trace->steps + WARM_UP + 2; /* the opening included */
    trace->data_left = rounds * data_each;
    trace->room = rounds * trace->graph.n_items + trace->data_left;
    trace->slices = ah_arena_array(&trace->arena, trace->room, sizeof *trace->slices);
    trace->heard = ah_arena_array(&trace->arena, trace->graph.n_items, sizeof *trace->heard);
    trace->work = calloc(WORK_MOST, sizeof *trace->work);
    return trace->slices && trace->heard && trace->work ? AH_OK : ah_error_memory(err);
}

int ah_run_trace_new(struct ah_run_trace **ret_trace, const struct ah_plan *plan,
                     const struct ah_run_trace_options *options, struct ah_error *err)
{
    struct ah_run_trace *trace = calloc(1, sizeof *trace);
    if (!trace)
        return ah_error_memory(err);
    *trace = (struct ah_run_trace){
        .plan = plan, .first = options->first_step, .steps = options->steps ? options->steps : STEPS};
    for (size_t lane = 0; lane < LANES; lane++)
        trace->current[lane] = NONE;
    int rc = ah_graph_read(plan, &trace->arena, &trace->graph, err);
    if (!rc)
        rc = take_memory(trace, err);
    if (rc)
        ah_run_trace_free(trace);
    else
        *ret_trace = trace;
    return rc;
}

void ah_run_trace_free(struct ah_run_trace *trace)
{
    if (!trace)
        return;
    ah_arena_release(&trace->arena);
    free(trace->work);
    free(trace);
}

/* ---- recording the hardware ---- */

void ah_run_trace_record(struct ah_run_trace *trace, struct ah_device *device, uint64_t steps_before)
{
    trace->recording = (struct ah_run_recording){
        .device = device, .first_step = trace->first, .last_step = trace->first + trace->steps - 1};
    ah_run_recording_start(&trace->recording, steps_before);
}

void ah_run_trace_step(struct ah_run_trace *trace, uint64_t step)
{
    ah_run_recording_step(&trace->recording, step);
}

const struct ah_error *ah_run_trace_end(struct ah_run_trace *trace)
{
    ah_run_recording_end(&trace->recording);
    return &trace->recording.why;
}

/* ---- ops as they come ---- */

static bool is_kept(struct ah_run_trace *trace, uint64_t round)
{
    if (!trace->opened)
        trace->opened = round;
    if (!trace->first)
        trace->first = round + WARM_UP;
    return round + WARM_UP >= trace->first && round < trace->first + trace->steps;
}

static uint32_t item_of(const struct ah_run_trace *trace, const struct ah_op_record *record)
{
    return trace->graph.of_tile[trace->graph.first_tile[record->op] + record->tile];
}

/* Returns how many of an item's instances in the first round come from the opening (rule 2). */
static unsigned instances_of_opening(const struct ah_graph_item *item)
{
    return item->early ? (unsigned)!item->of_before + item->wraps : item->wraps;
}

/* Returns the step to whose iteration an instance belongs. Call it once per instance, at its first op. */
static uint64_t step_of(struct ah_run_trace *trace, const struct ah_op_record *record)
{
    if (record->op == SIZE_MAX)
        return record->step;
    uint32_t at = item_of(trace, record);
    const struct ah_graph_item *item = &trace->graph.items[at];
    uint64_t step = record->step + item->early, before = instances_of_opening(item);
    if (record->step != trace->opened || trace->heard[at] >= before)
        return step;
    return step - (before - trace->heard[at]++);
}

static bool continues_slice(const struct ah_run_trace *trace, const struct ah_trace_slice *last,
                            const struct ah_op_record *record)
{
    return record->op != SIZE_MAX && last->op == record->op && last->tile == record->tile &&
           trace->current_round[record->lane] == record->step;
}

static bool has_room(struct ah_run_trace *trace, const struct ah_op_record *record)
{
    if (record->op == SIZE_MAX && !trace->data_left)
        return false;
    trace->data_left -= record->op == SIZE_MAX;
    return trace->n < trace->room;
}

static void keep_work(struct ah_run_trace *trace, const struct ah_op_record *record)
{
    uint64_t round = record->step;
    if (round + WARM_UP < trace->first || round >= trace->first + trace->steps + ROUNDS_BEHIND)
        return;
    if (trace->n_work == WORK_MOST)
        trace->work_lost++;
    else
        trace->work[trace->n_work++] = (struct ah_overlap_work){
            (enum ah_plan_lane)record->lane, {(int64_t)record->start_ns, (int64_t)record->end_ns}};
}

void ah_run_trace_op(struct ah_run_trace *trace, const struct ah_op_record *record)
{
    ptrdiff_t *current = &trace->current[record->lane];
    bool kept = is_kept(trace, record->step);
    keep_work(trace, record);
    if (!kept)
        return;
    if (*current != NONE && continues_slice(trace, &trace->slices[*current], record)) {
        trace->slices[*current].end_ns = (int64_t)record->end_ns;
        trace->slices[*current].last_ticket = record->ticket;
        return;
    }
    if (!has_room(trace, record))
        return;
    *current = (ptrdiff_t)trace->n;
    trace->current_round[record->lane] = record->step;
    trace->slices[trace->n++] = (struct ah_trace_slice){.op = record->op,
                                                        .tile = record->tile,
                                                        .step = step_of(trace, record),
                                                        .lane = (enum ah_plan_lane)record->lane,
                                                        .first_ticket = record->ticket,
                                                        .last_ticket = record->ticket,
                                                        .start_ns = (int64_t)record->start_ns,
                                                        .end_ns = (int64_t)record->end_ns};
}

/* ---- writing ---- */

/* Returns the slice of a compute position in a step; NULL: there is none. */
static const struct ah_trace_slice *find_slice(const struct ah_run_trace *trace, uint32_t position,
                                               uint64_t step)
{
    const struct ah_graph_item *item = &trace->graph.items[position];
    for (size_t i = trace->n; i-- > 0;) {
        const struct ah_trace_slice *slice = &trace->slices[i];
        if (slice->op == item->op && slice->tile == item->tile && slice->step == step)
            return slice;
    }
    return NULL;
}

static bool time_step(const struct ah_run_trace *trace, uint64_t step, struct ah_trace_step *ret_step)
{
    uint32_t last = trace->graph.positions - 1;
    const struct ah_trace_slice *before = find_slice(trace, last, step - 1),
                                *first = find_slice(trace, 0, step);
    const struct ah_trace_slice *end = find_slice(trace, last, step);
    if (!first || !end)
        return false;
    *ret_step = (struct ah_trace_step){step, before ? before->end_ns : first->start_ns, end->end_ns};
    return true;
}

/* Finds the complete steps among the chosen ones or, if none is complete, the last complete step before them. */
static size_t find_steps(const struct ah_run_trace *trace, struct ah_trace_step *steps)
{
    size_t n = 0;
    for (uint64_t step = trace->first; step < trace->first + trace->steps; step++)
        n += time_step(trace, step, &steps[n]);
    for (uint64_t back = 1; !n && back <= WARM_UP && back < trace->first; back++)
        n = time_step(trace, trace->first - back, &steps[0]);
    return n;
}

/* Returns the time from the start of the first step to the end of the last one; empty if there is no step. */
static struct ah_interval window_of(const struct ah_trace_step *steps, size_t n)
{
    return n ? (struct ah_interval){steps[0].start_ns, steps[n - 1].end_ns} : (struct ah_interval){0, 0};
}

static bool begins_in(struct ah_interval window, int64_t ns)
{
    return ns >= window.start && ns < window.end;
}

/* Returns the slice of an activity's op. Moves `from` past earlier slices: a lane's slices are in ticket order. */
static const struct ah_trace_slice *slice_of(const struct ah_trace_slice *slices, size_t n, size_t *from,
                                             const struct ah_device_activity *activity)
{
    while (*from < n && (slices[*from].lane != (enum ah_plan_lane)activity->lane ||
                         slices[*from].last_ticket < activity->ticket))
        ++*from;
    bool found = *from < n && activity->ticket && slices[*from].first_ticket <= activity->ticket;
    return found ? &slices[*from] : NULL;
}

/* Adds the hardware's activities for the ops shown and, inside the window, its activities for unknown ops. An activity
 * that starts before the previous one on its lane ends is clipped to its end. */
static int cut_activities(const struct ah_run_trace *trace, struct ah_arena *arena, struct ah_interval window,
                          struct ah_trace_measured *measured, struct ah_error *err)
{
    const struct ah_device_recording *recorded = &trace->recording.recorded;
    struct ah_trace_activity *shown = ah_arena_array(arena, recorded->n + 1, sizeof *shown);
    int64_t last_ns = 0;
    size_t n = 0, from = 0;
    if (!shown)
        return ah_error_memory(err);
    for (size_t i = 0; i < recorded->n; i++) {
        const struct ah_device_activity *activity = &recorded->activities[i];
        if (i && activity->lane != activity[-1].lane) {
            last_ns = 0;
            from = 0;
        }
        const struct ah_trace_slice *slice = slice_of(measured->slices, measured->n_slices, &from, activity);
        if (!slice && (activity->ticket || !begins_in(window, (int64_t)activity->start_ns)))
            continue;
        int64_t start_ns = (int64_t)activity->start_ns - window.start;
        int64_t end_ns = (int64_t)activity->end_ns - window.start;
        start_ns = start_ns > last_ns ? start_ns : last_ns;
        last_ns = end_ns > start_ns ? end_ns : start_ns;
        shown[n++] = (struct ah_trace_activity){activity, slice, start_ns, last_ns};
    }
    measured->activities = shown;
    measured->n_activities = n;
    return AH_OK;
}

/* Copies the slices that begin in the steps, with times from the start of the first step. */
static int cut_to_steps(const struct ah_run_trace *trace, struct ah_arena *arena,
                        struct ah_trace_measured *ret_measured, struct ah_error *err)
{
    struct ah_trace_step *steps = ah_arena_array(arena, trace->steps, sizeof *steps);
    struct ah_trace_slice *slices = ah_arena_array(arena, trace->n + 1, sizeof *slices);
    size_t n = 0;
    if (!steps || !slices)
        return ah_error_memory(err);
    size_t n_steps = find_steps(trace, steps);
    const struct ah_interval window = window_of(steps, n_steps);
    for (size_t i = 0; i < trace->n; i++)
        if (begins_in(window, trace->slices[i].start_ns)) {
            slices[n] = trace->slices[i];
            slices[n].start_ns -= window.start;
            slices[n++].end_ns -= window.start;
        }
    for (size_t i = 0; i < n_steps; i++) {
        steps[i].start_ns -= window.start;
        steps[i].end_ns -= window.start;
    }
    *ret_measured =
        (struct ah_trace_measured){.slices = slices, .n_slices = n, .steps = steps, .n_steps = n_steps};
    return cut_activities(trace, arena, window, ret_measured, err);
}

/* Lists when lanes worked, as the hardware recorded it if it was recorded. The host's work is never recorded. */
static size_t list_work(const struct ah_run_trace *trace, struct ah_overlap_work *work)
{
    const struct ah_device_recording *recorded = &trace->recording.recorded;
    size_t n = 0;
    for (size_t i = 0; i < recorded->n; i++) {
        const struct ah_device_activity *activity = &recorded->activities[i];
        work[n++] = (struct ah_overlap_work){(enum ah_plan_lane)activity->lane,
                                             {(int64_t)activity->start_ns, (int64_t)activity->end_ns}};
    }
    for (size_t i = 0; i < trace->n_work; i++)
        if (!recorded->n || trace->work[i].lane == AH_PLAN_LANE_HOST)
            work[n++] = trace->work[i];
    return n;
}

int ah_run_trace_overlap(const struct ah_run_trace *trace, struct ah_arena *arena,
                         struct ah_runlog_overlap **ret_overlap, struct ah_error *err)
{
    const struct ah_device_recording *recorded = &trace->recording.recorded;
    struct ah_trace_step *steps = ah_arena_array(arena, trace->steps, sizeof *steps);
    struct ah_overlap_work *work = ah_arena_array(arena, trace->n_work + recorded->n + 1, sizeof *work);
    struct ah_runlog_overlap *overlap = ah_arena_alloc(arena, sizeof *overlap);
    if (!steps || !work || !overlap)
        return ah_error_memory(err);
    size_t n_steps = find_steps(trace, steps);
    *ret_overlap = n_steps ? overlap : NULL;
    if (!n_steps)
        return AH_OK;
    *overlap =
        (struct ah_runlog_overlap){.source = recorded->n ? AH_RUNLOG_HARDWARE_SAYS : AH_RUNLOG_LANES_SAY,
                                   .first_step = steps[0].step,
                                   .steps = n_steps,
                                   .records = recorded->n,
                                   .lost = recorded->lost + trace->work_lost,
                                   .overhead_us = (double)recorded->overhead_ns / 1e3};
    return ah_overlap_measure(work, list_work(trace, work), window_of(steps, n_steps), arena, overlap, err);
}

int ah_run_trace_write(const struct ah_run_trace *trace, struct ah_cli *cli, const char *path,
                       struct ah_error *err)
{
    struct ah_trace_measured measured;
    struct ah_replay replay;
    int rc = cut_to_steps(trace, &cli->arena, &measured, err);
    if (!rc)
        rc = ah_replay_run(trace->plan, trace->steps + ITERATIONS_MORE, &cli->arena, &replay, err);
    return rc ? rc : ah_trace_write_both(cli, path, trace->plan, &replay, &measured, err);
}
