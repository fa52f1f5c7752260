/* SPDX-License-Identifier: Apache-2.0
 *
 * Plays one stage: four lanes, each with its frozen order. They share the host as on the virtual clock
 * (runtime/device/virtual/clock.h): their speeds depend on which lanes work. An item that always runs at full speed
 * ends at its start + duration, to the bit.
 *
 * Items of a lane end in the order of their steps. So the number of an item's ends tells which steps it has done.
 */
#include "planner/cluster/sim/cluster_replay_internal.h"

#include <math.h>

static const struct ah_graph_item *item_of(const struct stage_state *p, uint32_t item)
{
    return &p->rank->graph.items[item];
}

static bool sends(const struct stage_state *p, uint32_t item)
{
    return p->rank->marks[item] & (MARK_SENDS_OUTPUT | MARK_SENDS_GRADIENT);
}

/* Returns the stage to which the item sends. */
static const struct stage_state *target_of(const struct stage_state *p, uint32_t item)
{
    return p->rank->marks[item] & MARK_SENDS_OUTPUT ? p + 1 : p - 1;
}

/* ---- orders ---- */

/* Moves a lane to its next item, from place `at` on. Round 0 plays only early items, the last round only the others. */
static void move_to_next_item(struct stage_state *p, size_t lane)
{
    const struct ah_graph *graph = &p->rank->graph;
    struct replay_lane *l = &p->lanes[lane];
    for (; l->round <= AH_CLUSTER_REPLAY_STEPS; l->round++, l->at = 0)
        for (; l->at < graph->n_order[lane]; l->at++) {
            uint32_t item = graph->order[lane][l->at];
            bool early = graph->items[item].early;
            if (early ? l->round == AH_CLUSTER_REPLAY_STEPS : l->round == 0)
                continue;
            l->item = item;
            l->step = early ? l->round : l->round - 1;
            return;
        }
    l->done = true;
}

int ah_cluster_replay_begin(struct cluster_replay *c, size_t state, struct ah_error *err)
{
    struct stage_state *p = &c->stages[state];
    p->ended = ah_arena_array(c->arena, p->rank->graph.n_items + 1, sizeof *p->ended);
    if (!p->ended)
        return ah_error_memory(err);
    for (size_t lane = 0; lane < AH_PLAN_LANES; lane++)
        move_to_next_item(p, lane);
    return AH_OK;
}

/* ---- waits of an item ---- */

/* True if all items that the lane's item waits for on its stage have ended. If not, the lane remembers one of them. */
static bool is_let(const struct stage_state *p, struct replay_lane *l)
{
    const struct ah_graph *graph = &p->rank->graph;
    if (p->ended[l->waits_for] < l->times)
        return false;
    for (uint32_t w = graph->items[l->item].first_wait; w < graph->items[l->item + 1].first_wait; w++) {
        const struct ah_graph_wait *wait = &graph->waits[w];
        if (wait->back > l->step || p->ended[wait->item] > l->step - wait->back)
            continue;
        l->waits_for = wait->item;
        l->times = l->step - wait->back + 1;
        return false;
    }
    return true;
}

static bool has_slot(const struct stage_state *p, uint32_t item)
{
    const struct ah_graph *graph = &p->rank->graph;
    for (size_t ring = 0; ring < AH_GRAPH_RINGS; ring++)
        if (graph->items[item].takes[ring] && p->taken[ring] >= p->given[ring] + graph->slots[ring])
            return false;
    return true;
}

/* True if the next stage has ended the previous step. Until then, it still uses the memory for the output. */
static bool is_expected(const struct stage_state *p, const struct replay_lane *l)
{
    return p[1].ended[p[1].rank->graph.positions - 1] >= l->step;
}

/* Returns the number, counted over all steps, of the message in `channel` that belongs to compute's next item. */
static uint64_t number_of(const struct stage_state *p, const struct replay_lane *l, enum ah_channel channel)
{
    return l->step * p->rank->micro_batches + p->rank->messages.number[channel][l->item];
}

/* True if the item's input has arrived and its output has room: of gradients sent, at most one other may wait. */
static bool has_messages(const struct stage_state *p, struct replay_lane *l)
{
    unsigned marks = p->rank->marks[l->item];
    if ((marks & MARK_SENDS_OUTPUT && !is_expected(p, l)) ||
        (marks & MARK_INPUT && p[-1].outputs <= number_of(p, l, AH_CHANNEL_OUTPUT_IN)) ||
        (marks & MARK_GRADIENT && p[1].gradients <= number_of(p, l, AH_CHANNEL_GRADIENT_IN)))
        return false;
    bool placed = !(marks & MARK_SLOT) || !p[-1].rank->frees_slots ||
                  p[-1].slots + REPLAY_WAITING > number_of(p, l, AH_CHANNEL_GRADIENT_OUT);
    l->held |= !placed;
    return placed;
}

static bool is_summed(const struct cluster_replay *c, uint32_t sum, uint32_t step)
{
    return sum == REPLAY_NONE || c->sums[sum].step > step;
}

/* True if the gate is open or, without clipping, the sums of the item's block are done. */
static bool may_update(const struct cluster_replay *c, const struct stage_state *p,
                       const struct replay_lane *l)
{
    if (!(p->rank->marks[l->item] & MARK_BEHIND_GATE))
        return true;
    if (c->plan->training.clip > 0)
        return !c->gate[l->step];
    const uint64_t block = p->stage->first_block + p->rank->plan->ops[item_of(p, l->item)->op].block;
    const bool shares_table = !block || block + 1 == c->plan->blocks;
    return is_summed(c, c->sum_of[block], l->step) && (!shares_table || is_summed(c, c->tied, l->step));
}

/* Returns the earliest start of a lane's next item, unless something ends before; INFINITY: something must. */
static double start_us(const struct cluster_replay *c, const struct stage_state *p, struct replay_lane *l)
{
    if (l->done || l->works || !is_let(p, l) || !has_slot(p, l->item) || !may_update(c, p, l) ||
        !has_messages(p, l))
        return INFINITY;
    if (!sends(p, l->item))
        return c->now_us;
    const struct stage_state *to = target_of(p, l->item);
    return p->node == to->node ? c->now_us : fmax(c->now_us, ah_nics_free_us(&c->nics, p->node, to->node));
}

/* ---- lanes at work ---- */

/* Sets the speeds of the working lanes. Returns the time at which the first of them ends its item. */
static double set_speeds(const struct cluster_replay *c, struct stage_state *p)
{
    unsigned set = 0;
    double first_us = INFINITY;
    for (size_t lane = 0; lane < AH_PLAN_LANES; lane++)
        set |= (unsigned)p->lanes[lane].works << lane;
    for (size_t lane = 0; lane < AH_PLAN_LANES; lane++) {
        struct replay_lane *l = &p->lanes[lane];
        double speed = p->rank->speeds[set][lane];
        if (!l->works)
            continue;
        if (l->speed < speed || l->speed > speed) {
            l->left_us -= (c->now_us - l->since_us) * l->speed;
            l->since_us = c->now_us;
            l->speed = speed;
            l->end_us = fmax(c->now_us, c->now_us + l->left_us / speed);
        }
        first_us = fmin(first_us, l->end_us);
    }
    return first_us;
}

static void start_item(struct cluster_replay *c, struct stage_state *p, struct replay_lane *l)
{
    const struct ah_graph_item *item = item_of(p, l->item);
    double duration_us = p->rank->duration_us[l->item];
    l->works = true;
    l->start_us = l->since_us = c->now_us;
    l->left_us = duration_us;
    l->speed = 1;
    l->end_us = c->now_us + duration_us;
    c->held += l->held;
    l->held = false;
    for (size_t ring = 0; ring < AH_GRAPH_RINGS; ring++)
        p->taken[ring] += item->takes[ring];
    if (!sends(p, l->item) || p->node == target_of(p, l->item)->node)
        return;
    const struct stage_state *to = target_of(p, l->item);
    ah_nics_take(&c->nics, p->node, c->now_us + ah_nics_pass_us(c->boundary_bytes, p->stage->nic_bytes_per_s),
                 to->node, c->now_us + ah_nics_pass_us(c->boundary_bytes, to->stage->nic_bytes_per_s));
}

void ah_cluster_replay_start_items(struct cluster_replay *c, size_t state)
{
    struct stage_state *p = &c->stages[state];
    double again_us = INFINITY;
    for (size_t lane = 0; lane < AH_PLAN_LANES; lane++) {
        double us = start_us(c, p, &p->lanes[lane]);
        if (us <= c->now_us)
            start_item(c, p, &p->lanes[lane]);
        else
            again_us = fmin(again_us, us);
    }
    ah_event_tree_set(&c->events, state, set_speeds(c, p));
    ah_event_tree_set(&c->events, c->n_stages + c->n_sums + state, again_us);
}

/* ---- ends ---- */

static void tell_others(struct cluster_replay *c, size_t state, const struct replay_lane *l)
{
    struct stage_state *p = &c->stages[state];
    unsigned marks = p->rank->marks[l->item];
    p->outputs += (marks & MARK_SENDS_OUTPUT) != 0;
    p->gradients += (marks & MARK_SENDS_GRADIENT) != 0;
    p->slots += (marks & MARK_FREES_SLOT) != 0;
    if (marks & (MARK_SENDS_OUTPUT | MARK_FREES_SLOT))
        ah_cluster_replay_wake(c, state + 1);
    if (marks & MARK_SENDS_GRADIENT || (marks & MARK_ENDS_STEP && p->rank->plan->part->stage))
        ah_cluster_replay_wake(c, state - 1);
    for (uint32_t b = p->rank->first_final[l->item]; b != REPLAY_NONE; b = p->rank->next_final[b])
        ah_cluster_replay_gradient_is_final(c, state, b, l->step);
    if (marks & MARK_BEFORE_GATE)
        ah_cluster_replay_is_before_gate(c, l->step);
}

static void end_item(struct cluster_replay *c, size_t state, size_t lane)
{
    struct stage_state *p = &c->stages[state];
    struct replay_lane *l = &p->lanes[lane];
    const struct ah_graph_item *item = item_of(p, l->item);
    const struct ah_cluster_replay_span span = {
        .of = state, .item = l->item, .step = l->step, .start_us = l->start_us, .end_us = c->now_us};
    if (c->listener)
        c->listener->tell(c->listener->context, &span);
    p->ended[l->item]++;
    for (size_t ring = 0; ring < AH_GRAPH_RINGS; ring++)
        p->given[ring] += item->gives[ring];
    if (!(p->rank->marks[l->item] & MARK_NEXT_STEP)) {
        c->ends_us[l->step] = c->now_us;
        c->left--;
    }
    tell_others(c, state, l);
    l->works = false;
    l->times = 0;
    l->at++;
    move_to_next_item(p, lane);
}

void ah_cluster_replay_end_items(struct cluster_replay *c, size_t state)
{
    struct stage_state *p = &c->stages[state];
    for (size_t lane = 0; lane < AH_PLAN_LANES; lane++)
        if (p->lanes[lane].works && p->lanes[lane].end_us <= c->now_us)
            end_item(c, state, lane);
    ah_event_tree_set(&c->events, state, set_speeds(c, p));
    ah_cluster_replay_wake(c, state);
}
