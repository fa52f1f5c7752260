/* SPDX-License-Identifier: Apache-2.0
 *
 * 1. A step is the compute of its iteration. It lasts from the end of the previous step, or else from the first block's
 *    forward, to the last op. The forward belongs to the previous round, so rounds before the first step are kept, too.
 *    Ops that begin outside the steps are not shown.
 * 2. The very first round also has instances from the opening (round.c, 2), as many as depend on the item. They belong
 *    to earlier iterations.
 */
#include "runtime/run/run_timeline.h"

#include "runtime/run/run_recording.h"
#include "runtime/schedule/graph.h"
#include "runtime/train/overlap.h"

#include <stdlib.h>
#include <string.h>

enum { STEPS = 4, WARM_UP = 2, LANES = AH_DEVICE_LANES, NONE = -1 };
enum { WORK_MOST = 1 << 18, ROUNDS_BEHIND = 2 };

_Static_assert((int)AH_LANE_COMPUTE == (int)AH_PLAN_LANE_COMPUTE &&
                   (int)AH_LANE_H2D == (int)AH_PLAN_LANE_H2D && (int)AH_LANE_D2H == (int)AH_PLAN_LANE_D2H &&
                   (int)AH_LANE_HOST == (int)AH_PLAN_LANE_HOST,
               "lanes of plans are those of devices");

struct ah_run_timeline {
    const struct ah_plan *plan;
    struct ah_arena arena;
    struct ah_graph graph;
    uint64_t first, steps;
    struct ah_timeline_slice *slices; /* slices with the clock's times, in the arena */
    size_t n, room;
    size_t data_left;         /* number of slices that data may still use */
    ptrdiff_t current[LANES]; /* index of each lane's newest slice */
    uint64_t current_round[LANES];
    uint64_t opened; /* the first round of the run; 0: no op yet */
    uint8_t *heard;  /* by item: its number of instances so far in round `opened`; in the arena */
    /* Owned; the primitive ops of the kept rounds and of a few later ones. */
    struct ah_overlap_work *work;
    size_t n_work;
    uint64_t work_lost; /* number of ops without room in `work` */
    struct ah_run_recording recording;
};

/* ---- opening and freeing ---- */

static int take_memory(struct ah_run_timeline *timeline, struct ah_error *err)
{
    const size_t data_each = 16 * (timeline->plan->training.micro_batches + 1);
    uint64_t rounds = timeline->steps + WARM_UP + 2; /* with the opening */
    timeline->data_left = rounds * data_each;
    timeline->room = rounds * timeline->graph.n_items + timeline->data_left;
    timeline->slices = ah_arena_array(&timeline->arena, timeline->room, sizeof *timeline->slices);
    timeline->heard = ah_arena_array(&timeline->arena, timeline->graph.n_items, sizeof *timeline->heard);
    timeline->work = calloc(WORK_MOST, sizeof *timeline->work);
    return timeline->slices && timeline->heard && timeline->work ? AH_OK : ah_error_memory(err);
}

int ah_run_timeline_new(struct ah_run_timeline **ret_timeline, const struct ah_plan *plan,
                        const struct ah_run_timeline_options *options, struct ah_error *err)
{
    struct ah_run_timeline *timeline = calloc(1, sizeof *timeline);
    if (!timeline)
        return ah_error_memory(err);
    *timeline = (struct ah_run_timeline){
        .plan = plan, .first = options->first_step, .steps = options->steps ? options->steps : STEPS};
    for (size_t lane = 0; lane < LANES; lane++)
        timeline->current[lane] = NONE;
    int rc = ah_graph_read(plan, &timeline->arena, &timeline->graph, err);
    if (!rc)
        rc = take_memory(timeline, err);
    if (rc)
        ah_run_timeline_free(timeline);
    else
        *ret_timeline = timeline;
    return rc;
}

void ah_run_timeline_free(struct ah_run_timeline *timeline)
{
    if (!timeline)
        return;
    ah_arena_release(&timeline->arena);
    free(timeline->work);
    free(timeline);
}

/* ---- recording the hardware ---- */

void ah_run_timeline_record(struct ah_run_timeline *timeline, struct ah_device *device, uint64_t steps_before)
{
    timeline->recording = (struct ah_run_recording){
        .device = device, .first_step = timeline->first, .last_step = timeline->first + timeline->steps - 1};
    ah_run_recording_start(&timeline->recording, steps_before);
}

void ah_run_timeline_step(struct ah_run_timeline *timeline, uint64_t step)
{
    ah_run_recording_step(&timeline->recording, step);
}

const struct ah_error *ah_run_timeline_end(struct ah_run_timeline *timeline)
{
    ah_run_recording_end(&timeline->recording);
    return &timeline->recording.why;
}

/* ---- ops as they come ---- */

static bool is_kept(struct ah_run_timeline *timeline, uint64_t round)
{
    if (!timeline->opened)
        timeline->opened = round;
    if (!timeline->first)
        timeline->first = round + WARM_UP;
    return round + WARM_UP >= timeline->first && round < timeline->first + timeline->steps;
}

static uint32_t item_of(const struct ah_run_timeline *timeline, const struct ah_op_record *record)
{
    return timeline->graph.of_tile[timeline->graph.first_tile[record->op] + record->tile];
}

/* Returns how many instances of an item in the first round are those of the opening (rule 2). */
static unsigned instances_of_opening(const struct ah_graph_item *item)
{
    return item->early ? (unsigned)!item->of_before + item->wraps : item->wraps;
}

/* Returns the step of the iteration to which an instance belongs. Call it once per instance, at its first op. */
static uint64_t step_of(struct ah_run_timeline *timeline, const struct ah_op_record *record)
{
    if (record->op == SIZE_MAX)
        return record->step;
    uint32_t at = item_of(timeline, record);
    const struct ah_graph_item *item = &timeline->graph.items[at];
    uint64_t step = record->step + item->early, before = instances_of_opening(item);
    if (record->step != timeline->opened || timeline->heard[at] >= before)
        return step;
    return step - (before - timeline->heard[at]++);
}

static bool continues_slice(const struct ah_run_timeline *timeline, const struct ah_timeline_slice *last,
                            const struct ah_op_record *record)
{
    return record->op != SIZE_MAX && last->op == record->op && last->tile == record->tile &&
           timeline->current_round[record->lane] == record->step;
}

static bool has_room(struct ah_run_timeline *timeline, const struct ah_op_record *record)
{
    if (record->op == SIZE_MAX && !timeline->data_left)
        return false;
    timeline->data_left -= record->op == SIZE_MAX;
    return timeline->n < timeline->room;
}

static void keep_work(struct ah_run_timeline *timeline, const struct ah_op_record *record)
{
    uint64_t round = record->step;
    if (round + WARM_UP < timeline->first || round >= timeline->first + timeline->steps + ROUNDS_BEHIND)
        return;
    if (timeline->n_work == WORK_MOST)
        timeline->work_lost++;
    else
        timeline->work[timeline->n_work++] = (struct ah_overlap_work){
            (enum ah_plan_lane)record->lane, {(int64_t)record->start_ns, (int64_t)record->end_ns}};
}

void ah_run_timeline_op(struct ah_run_timeline *timeline, const struct ah_op_record *record)
{
    ptrdiff_t *current = &timeline->current[record->lane];
    bool kept = is_kept(timeline, record->step);
    keep_work(timeline, record);
    if (!kept)
        return;
    if (*current != NONE && continues_slice(timeline, &timeline->slices[*current], record)) {
        timeline->slices[*current].end_ns = (int64_t)record->end_ns;
        timeline->slices[*current].last_ticket = record->ticket;
        return;
    }
    if (!has_room(timeline, record))
        return;
    *current = (ptrdiff_t)timeline->n;
    timeline->current_round[record->lane] = record->step;
    timeline->slices[timeline->n++] = (struct ah_timeline_slice){.op = record->op,
                                                                 .tile = record->tile,
                                                                 .step = step_of(timeline, record),
                                                                 .lane = (enum ah_plan_lane)record->lane,
                                                                 .first_ticket = record->ticket,
                                                                 .last_ticket = record->ticket,
                                                                 .start_ns = (int64_t)record->start_ns,
                                                                 .end_ns = (int64_t)record->end_ns};
}

/* ---- the shown steps ---- */

/* Returns the slice of a compute position in a step; NULL if there is none. */
static const struct ah_timeline_slice *find_slice(const struct ah_run_timeline *timeline, uint32_t position,
                                                  uint64_t step)
{
    const struct ah_graph_item *item = &timeline->graph.items[position];
    for (size_t i = timeline->n; i-- > 0;) {
        const struct ah_timeline_slice *slice = &timeline->slices[i];
        if (slice->op == item->op && slice->tile == item->tile && slice->step == step)
            return slice;
    }
    return NULL;
}

static bool time_step(const struct ah_run_timeline *timeline, uint64_t step,
                      struct ah_timeline_step *ret_step)
{
    uint32_t last = timeline->graph.positions - 1;
    const struct ah_timeline_slice *before = find_slice(timeline, last, step - 1),
                                   *first = find_slice(timeline, 0, step);
    const struct ah_timeline_slice *end = find_slice(timeline, last, step);
    if (!first || !end)
        return false;
    *ret_step = (struct ah_timeline_step){step, before ? before->end_ns : first->start_ns, end->end_ns};
    return true;
}

/* Finds the complete steps among the chosen ones. If there are none, finds the last complete step before these. */
static size_t find_steps(const struct ah_run_timeline *timeline, struct ah_timeline_step *steps)
{
    size_t n = 0;
    for (uint64_t step = timeline->first; step < timeline->first + timeline->steps; step++)
        n += time_step(timeline, step, &steps[n]);
    for (uint64_t back = 1; !n && back <= WARM_UP && back < timeline->first; back++)
        n = time_step(timeline, timeline->first - back, &steps[0]);
    return n;
}

/* Returns the interval from the start of the first step to the end of the last; empty without steps. */
static struct ah_interval window_of(const struct ah_timeline_step *steps, size_t n)
{
    return n ? (struct ah_interval){steps[0].start_ns, steps[n - 1].end_ns} : (struct ah_interval){0, 0};
}

static bool begins_in(struct ah_interval window, int64_t ns)
{
    return ns >= window.start && ns < window.end;
}

/* Returns the slice of an activity's op. Moves `from` past earlier slices; a lane's slices are in order of tickets. */
static const struct ah_timeline_slice *slice_of(const struct ah_timeline_slice *slices, size_t n,
                                                size_t *from, const struct ah_device_activity *activity)
{
    while (*from < n && (slices[*from].lane != (enum ah_plan_lane)activity->lane ||
                         slices[*from].last_ticket < activity->ticket))
        ++*from;
    bool found = *from < n && activity->ticket && slices[*from].first_ticket <= activity->ticket;
    return found ? &slices[*from] : NULL;
}

/* Adds the hardware's activities for the shown ops and, inside the window, those for unknown ops. If an activity starts
 * before the previous one of its lane ends, its beginning is cut off. */
static int cut_activities(const struct ah_run_timeline *timeline, struct ah_arena *arena,
                          struct ah_interval window, struct ah_timeline *measured, struct ah_error *err)
{
    const struct ah_device_recording *recorded = &timeline->recording.recorded;
    struct ah_timeline_activity *shown = ah_arena_array(arena, recorded->n + 1, sizeof *shown);
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
        const struct ah_timeline_slice *slice =
            slice_of(measured->slices, measured->n_slices, &from, activity);
        if (!slice && (activity->ticket || !begins_in(window, (int64_t)activity->start_ns)))
            continue;
        int64_t start_ns = (int64_t)activity->start_ns - window.start;
        int64_t end_ns = (int64_t)activity->end_ns - window.start;
        start_ns = start_ns > last_ns ? start_ns : last_ns;
        last_ns = end_ns > start_ns ? end_ns : start_ns;
        shown[n++] = (struct ah_timeline_activity){activity, slice, start_ns, last_ns};
    }
    measured->activities = shown;
    measured->n_activities = n;
    return AH_OK;
}

int ah_run_timeline_cut(const struct ah_run_timeline *timeline, struct ah_arena *arena,
                        struct ah_timeline *ret_measured, struct ah_error *err)
{
    struct ah_timeline_step *steps = ah_arena_array(arena, timeline->steps, sizeof *steps);
    struct ah_timeline_slice *slices = ah_arena_array(arena, timeline->n + 1, sizeof *slices);
    size_t n = 0;
    if (!steps || !slices)
        return ah_error_memory(err);
    size_t n_steps = find_steps(timeline, steps);
    const struct ah_interval window = window_of(steps, n_steps);
    for (size_t i = 0; i < timeline->n; i++)
        if (begins_in(window, timeline->slices[i].start_ns)) {
            slices[n] = timeline->slices[i];
            slices[n].start_ns -= window.start;
            slices[n++].end_ns -= window.start;
        }
    for (size_t i = 0; i < n_steps; i++) {
        steps[i].start_ns -= window.start;
        steps[i].end_ns -= window.start;
    }
    *ret_measured = (struct ah_timeline){.slices = slices, .n_slices = n, .steps = steps, .n_steps = n_steps};
    return cut_activities(timeline, arena, window, ret_measured, err);
}

/* Lists when lanes worked: as the hardware recorded it, if it did. The host's work is never recorded by hardware. */
static size_t list_work(const struct ah_run_timeline *timeline, struct ah_overlap_work *work)
{
    const struct ah_device_recording *recorded = &timeline->recording.recorded;
    size_t n = 0;
    for (size_t i = 0; i < recorded->n; i++) {
        const struct ah_device_activity *activity = &recorded->activities[i];
        work[n++] = (struct ah_overlap_work){(enum ah_plan_lane)activity->lane,
                                             {(int64_t)activity->start_ns, (int64_t)activity->end_ns}};
    }
    for (size_t i = 0; i < timeline->n_work; i++)
        if (!recorded->n || timeline->work[i].lane == AH_PLAN_LANE_HOST)
            work[n++] = timeline->work[i];
    return n;
}

int ah_run_timeline_overlap(const struct ah_run_timeline *timeline, struct ah_arena *arena,
                            struct ah_runlog_overlap **ret_overlap, struct ah_error *err)
{
    const struct ah_device_recording *recorded = &timeline->recording.recorded;
    struct ah_timeline_step *steps = ah_arena_array(arena, timeline->steps, sizeof *steps);
    struct ah_overlap_work *work = ah_arena_array(arena, timeline->n_work + recorded->n + 1, sizeof *work);
    struct ah_runlog_overlap *overlap = ah_arena_alloc(arena, sizeof *overlap);
    if (!steps || !work || !overlap)
        return ah_error_memory(err);
    size_t n_steps = find_steps(timeline, steps);
    *ret_overlap = n_steps ? overlap : NULL;
    if (!n_steps)
        return AH_OK;
    *overlap =
        (struct ah_runlog_overlap){.source = recorded->n ? AH_RUNLOG_HARDWARE_SAYS : AH_RUNLOG_LANES_SAY,
                                   .first_step = steps[0].step,
                                   .steps = n_steps,
                                   .records = recorded->n,
                                   .lost = recorded->lost + timeline->work_lost,
                                   .overhead_us = (double)recorded->overhead_ns / 1e3};
    return ah_overlap_measure(work, list_work(timeline, work), window_of(steps, n_steps), arena, overlap,
                              err);
}

uint64_t ah_run_timeline_steps(const struct ah_run_timeline *timeline)
{
    return timeline->steps;
}
