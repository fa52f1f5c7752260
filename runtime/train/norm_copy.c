/* SPDX-License-Identifier: Apache-2.0
 *
 * Norm copy: the copy of squares of gradients to the host. No plan mentions it, and the norm waits for it. Submitted at
 * the norm's turn, the copy would wait for all gradients queued on d2h by then, and updates would wait for the copy. So
 * the copy is submitted earlier in that lane. Its place is before the first item that starts, on the virtual clock,
 * after compute has made everything to sum.
 *
 *   1. The copy waits for compute, and for scatters if ranks share states; the norm itself waits for the squares that
 *      the host sums.
 *   2. The copy never blocks: if no lane can continue before the copy, it is submitted at the norm's turn.
 */
#include "runtime/train/trainer_internal.h"

#include "runtime/schedule/replay.h"

#include <math.h>

enum { ITERATIONS = 5, STEADY = 2 };

static uint32_t find_norm(const struct ah_graph *graph, const struct ah_plan *plan)
{
    for (uint32_t item = 0; item < graph->n_items; item++)
        if (plan->ops[graph->items[item].op].op == AH_PLAN_NORM)
            return item;
    return AH_GRAPH_NONE;
}

/* Returns the time at which compute has made everything that the norm sums, in a steady iteration. */
static double summed_us(const struct ah_graph *graph, uint32_t norm_item, const struct ah_replay *replay)
{
    const struct ah_graph_item *norm = &graph->items[norm_item];
    const struct ah_replay_item *compute = &replay->items[replay->first_of_lane[AH_PLAN_LANE_COMPUTE]];
    double us = 0;
    for (uint32_t w = norm->first_wait; w < norm[1].first_wait; w++) {
        const struct ah_graph_wait *wait = &graph->waits[w];
        if (graph->items[wait->item].lane == AH_PLAN_LANE_COMPUTE)
            us = fmax(us, compute[(STEADY - wait->back) * graph->positions + wait->item].finish_us);
    }
    return us;
}

/* Returns an item's index in the d2h order of the norm's round; 0 for earlier rounds, the end for later rounds. */
static size_t place_of(const struct ah_graph *graph, uint32_t norm, const struct ah_replay_item *of)
{
    uint32_t item = graph->of_tile[graph->first_tile[of->op] + of->tile];
    int64_t round = (int64_t)of->iteration - graph->items[item].early;
    int64_t of_norm = STEADY - graph->items[norm].early;
    size_t n = graph->n_order[AH_PLAN_LANE_D2H], place = 0;
    if (round != of_norm)
        return round < of_norm ? 0 : n;
    while (place < n && graph->order[AH_PLAN_LANE_D2H][place] != item)
        place++;
    return place;
}

int ah_norm_copy_place(const struct ah_graph *graph, const struct ah_plan *plan,
                       struct norm_copy *ret_norm_copy, struct ah_error *err)
{
    struct ah_arena arena = {0};
    struct ah_replay replay;
    uint32_t norm = find_norm(graph, plan);
    size_t place = graph->n_order[AH_PLAN_LANE_D2H];
    int rc = AH_OK;
    if (norm != AH_GRAPH_NONE)
        rc = ah_replay_run(plan, ITERATIONS, &arena, &replay, err);
    if (!rc && norm != AH_GRAPH_NONE) {
        size_t i = replay.first_of_lane[AH_PLAN_LANE_D2H], end = replay.first_of_lane[AH_PLAN_LANE_D2H + 1];
        double us = summed_us(graph, norm, &replay);
        while (i < end && replay.items[i].start_us < us)
            i++;
        if (i < end)
            place = place_of(graph, norm, &replay.items[i]);
    }
    ah_arena_release(&arena);
    if (!rc)
        *ret_norm_copy =
            (struct norm_copy){.norm = norm, .place = place, .step = INT64_MIN, .skipped = INT64_MIN};
    return rc;
}

bool ah_norm_copy_due(const struct ah_trainer *t, int64_t round, enum round_part part)
{
    const struct norm_copy *norm_copy = &t->norm_copy;
    if (norm_copy->norm == AH_GRAPH_NONE || t->cursor[AH_PLAN_LANE_D2H] != norm_copy->place ||
        ah_round_leaves_out(t, norm_copy->norm, part))
        return false;
    int64_t step = ah_round_step(t, norm_copy->norm, round);
    return norm_copy->step != step && norm_copy->skipped != step;
}

int ah_norm_copy_submit(struct ah_trainer *t, int64_t step, const struct waits *waits, struct ah_error *err)
{
    const struct move_indices still = {{0}};
    const struct ops_of_item ops = ah_queue_extra(t, AH_EXTRA_SUMS, AH_LANE_D2H);
    t->norm_copy.step = step;
    return ah_queue_ops(t, &ops, waits, &still, &t->norm_copy.ticket, err);
}

int ah_norm_copy_advance(struct ah_trainer *t, int64_t round, bool *ret_done, struct ah_error *err)
{
    int64_t step = ah_round_step(t, t->norm_copy.norm, round);
    struct waits waits = {{0}};
    *ret_done = ah_round_computed(t, t->norm_copy.norm, step, &waits) && ah_shares_all(t, step, &waits);
    return *ret_done ? ah_norm_copy_submit(t, step, &waits, err) : AH_OK;
}

bool ah_norm_copy_skip(struct ah_trainer *t, int64_t round, enum round_part part)
{
    if (!ah_norm_copy_due(t, round, part))
        return false;
    t->norm_copy.skipped = ah_round_step(t, t->norm_copy.norm, round);
    return true;
}
