/* SPDX-License-Identifier: Apache-2.0
 *
 * 1. A step is the compute of its iteration: from the end of the one before it, or from the first block's forward, to the last
 *    op. Its forward belongs to the round before it, so rounds before the first step are kept, too. What begins outside of the
 *    steps is not shown.
 * 2. The very first round has instances of the opening before it (round.c, 2): of what its item is, so many. They are of the
 *    iterations before.
 */
#include "cli/run_trace.h"

#include "cli/trace.h"
#include "runtime/schedule/rounds.h"

#include <stdlib.h>
#include <string.h>

enum { STEPS = 4, WARM_UP = 2, ITERATIONS_MORE = 6, LANES = AH_ROUNDS_LANES, NONE = -1 };

_Static_assert((int)AH_LANE_COMPUTE == (int)AH_PLAN_LANE_COMPUTE &&
                   (int)AH_LANE_H2D == (int)AH_PLAN_LANE_H2D && (int)AH_LANE_D2H == (int)AH_PLAN_LANE_D2H &&
                   (int)AH_LANE_HOST == (int)AH_PLAN_LANE_HOST,
               "lanes of plans are those of devices");

struct ah_run_trace {
    const struct ah_plan *plan;
    struct ah_arena arena;
    struct ah_rounds rounds;
    uint64_t first, steps;
    struct ah_trace_slice *slices; /* since the clock's own zero; in the arena */
    size_t n, room;
    size_t data_left;         /* slices that data may still take */
    ptrdiff_t current[LANES]; /* the newest slice of each lane */
    uint64_t current_round[LANES];
    uint64_t opened; /* the first step that was heard of; 0: none */
    uint8_t *heard;  /* instances of each item in its round; in the arena */
};

/* ---- life ---- */

static int take_memory(struct ah_run_trace *trace, struct ah_error *err)
{
    const size_t data_each = 16 * (trace->plan->training.micro_batches + 1);
    uint64_t rounds = trace->steps + WARM_UP + 2; /* what the opening has among them */
    trace->data_left = rounds * data_each;
    trace->room = rounds * trace->rounds.n_items + trace->data_left;
    trace->slices = ah_arena_array(&trace->arena, trace->room, sizeof *trace->slices);
    trace->heard = ah_arena_array(&trace->arena, trace->rounds.n_items, sizeof *trace->heard);
    return trace->slices && trace->heard ? AH_OK : ah_error_memory(err);
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
    int rc = ah_rounds_read(plan, &trace->arena, &trace->rounds, err);
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
    free(trace);
}

/* ---- hearing ---- */

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
    return trace->rounds.of_tile[trace->rounds.first_tile[record->op] + record->tile];
}

/* Rule 2. */
static unsigned instances_of_opening(const struct ah_rounds_item *item)
{
    return item->early ? (unsigned)!item->of_before + item->wraps : item->wraps;
}

/* The step whose iteration an instance is of, at its first op. */
static uint64_t step_of(struct ah_run_trace *trace, const struct ah_op_record *record)
{
    if (record->op == SIZE_MAX)
        return record->step;
    uint32_t at = item_of(trace, record);
    const struct ah_rounds_item *item = &trace->rounds.items[at];
    uint64_t step = record->step + item->early, before = instances_of_opening(item);
    if (record->step != trace->opened || trace->heard[at] >= before)
        return step;
    return step - (before - trace->heard[at]++);
}

static bool goes_on(const struct ah_run_trace *trace, const struct ah_trace_slice *last,
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

void ah_run_trace_op(struct ah_run_trace *trace, const struct ah_op_record *record)
{
    ptrdiff_t *current = &trace->current[record->lane];
    if (!is_kept(trace, record->step))
        return;
    if (*current != NONE && goes_on(trace, &trace->slices[*current], record)) {
        trace->slices[*current].end_ns = (int64_t)record->end_ns;
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
                                                        .start_ns = (int64_t)record->start_ns,
                                                        .end_ns = (int64_t)record->end_ns};
}

/* ---- writing ---- */

/* The slice of a compute position in a step; NULL: not heard of. */
static const struct ah_trace_slice *find(const struct ah_run_trace *trace, uint32_t position, uint64_t step)
{
    const struct ah_rounds_item *item = &trace->rounds.items[position];
    for (size_t i = trace->n; i-- > 0;) {
        const struct ah_trace_slice *slice = &trace->slices[i];
        if (slice->op == item->op && slice->tile == item->tile && slice->step == step)
            return slice;
    }
    return NULL;
}

static bool time_step(const struct ah_run_trace *trace, uint64_t step, struct ah_trace_step *ret_step)
{
    uint32_t last = trace->rounds.positions - 1;
    const struct ah_trace_slice *before = find(trace, last, step - 1), *first = find(trace, 0, step);
    const struct ah_trace_slice *end = find(trace, last, step);
    if (!first || !end)
        return false;
    *ret_step = (struct ah_trace_step){step, before ? before->end_ns : first->start_ns, end->end_ns};
    return true;
}

/* Complete steps: the chosen ones, or where none of them is, the last one before. */
static size_t find_steps(const struct ah_run_trace *trace, struct ah_trace_step *steps)
{
    size_t n = 0;
    for (uint64_t step = trace->first; step < trace->first + trace->steps; step++)
        n += time_step(trace, step, &steps[n]);
    for (uint64_t back = 1; !n && back <= WARM_UP && back < trace->first; back++)
        n = time_step(trace, trace->first - back, &steps[0]);
    return n;
}

/* What begins in the steps, from the zero on. */
static int cut(const struct ah_run_trace *trace, struct ah_arena *arena,
               struct ah_trace_measured *ret_measured, struct ah_error *err)
{
    struct ah_trace_step *steps = ah_arena_array(arena, trace->steps, sizeof *steps);
    struct ah_trace_slice *slices = ah_arena_array(arena, trace->n + 1, sizeof *slices);
    size_t n = 0;
    if (!steps || !slices)
        return ah_error_memory(err);
    size_t n_steps = find_steps(trace, steps);
    int64_t zero_ns = n_steps ? steps[0].start_ns : 0, end_ns = n_steps ? steps[n_steps - 1].end_ns : 0;
    for (size_t i = 0; i < trace->n; i++)
        if (trace->slices[i].start_ns >= zero_ns && trace->slices[i].start_ns < end_ns) {
            slices[n] = trace->slices[i];
            slices[n].start_ns -= zero_ns;
            slices[n++].end_ns -= zero_ns;
        }
    for (size_t i = 0; i < n_steps; i++) {
        steps[i].start_ns -= zero_ns;
        steps[i].end_ns -= zero_ns;
    }
    *ret_measured = (struct ah_trace_measured){slices, n, steps, n_steps};
    return AH_OK;
}

int ah_run_trace_write(const struct ah_run_trace *trace, struct ah_cli *cli, const char *path,
                       struct ah_error *err)
{
    struct ah_trace_measured measured;
    struct ah_replay replay;
    int rc = cut(trace, &cli->arena, &measured, err);
    if (!rc)
        rc = ah_replay_run(trace->plan, NULL, trace->steps + ITERATIONS_MORE, &cli->arena, &replay, err);
    return rc ? rc : ah_trace_write_beside(cli, path, trace->plan, &replay, &measured, err);
}
