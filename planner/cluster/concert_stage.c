/* SPDX-License-Identifier: Apache-2.0
 *
 * One stage: four lanes, each with its frozen order. They share the host as on the virtual clock
 * (runtime/device/virtual/clock.h): speeds depend on which lanes work. An item that always runs at full speed ends at
 * its start + duration, to the bit.
 *
 * Items of a lane end in the order of their steps, so how often an item has ended tells which steps it has done.
 */
#include "planner/cluster/concert_internal.h"

#include <math.h>

static const struct ah_rounds_item *item_of(const struct player *p, uint32_t item)
{
    return &p->score->rounds.items[item];
}

static bool sends(const struct player *p, uint32_t item)
{
    return p->score->marks[item] & (MARK_SENDS_OUTPUT | MARK_SENDS_GRADIENT);
}

/* The stage that it sends to. */
static const struct player *target_of(const struct player *p, uint32_t item)
{
    return p->score->marks[item] & MARK_SENDS_OUTPUT ? p + 1 : p - 1;
}

/* ---- orders ---- */

/* Moves to the first item from `at` on that is played: round 0 has only early items, the last round only the others. */
static void settle(struct player *p, size_t lane)
{
    const struct ah_rounds *rounds = &p->score->rounds;
    struct concert_lane *l = &p->lanes[lane];
    for (; l->round <= AH_CONCERT_STEPS; l->round++, l->at = 0)
        for (; l->at < rounds->n_order[lane]; l->at++) {
            uint32_t item = rounds->order[lane][l->at];
            bool early = rounds->items[item].early;
            if (early ? l->round == AH_CONCERT_STEPS : l->round == 0)
                continue;
            l->item = item;
            l->step = early ? l->round : l->round - 1;
            return;
        }
    l->done = true;
}

int ah_concert_begin(struct concert *c, size_t player, struct ah_error *err)
{
    struct player *p = &c->players[player];
    p->ended = ah_arena_array(c->arena, p->score->rounds.n_items + 1, sizeof *p->ended);
    if (!p->ended)
        return ah_error_memory(err);
    for (size_t lane = 0; lane < AH_ROUNDS_LANES; lane++)
        settle(p, lane);
    return AH_OK;
}

/* ---- what an item waits for ---- */

/* Have all items of its own stage ended that the lane's item waits for? If not, the lane remembers one that has not. */
static bool is_let(const struct player *p, struct concert_lane *l)
{
    const struct ah_rounds *rounds = &p->score->rounds;
    if (p->ended[l->waits_for] < l->times)
        return false;
    for (uint32_t w = rounds->items[l->item].first_wait; w < rounds->items[l->item + 1].first_wait; w++) {
        const struct ah_rounds_wait *wait = &rounds->waits[w];
        if (wait->back > l->step || p->ended[wait->item] > l->step - wait->back)
            continue;
        l->waits_for = wait->item;
        l->times = l->step - wait->back + 1;
        return false;
    }
    return true;
}

static bool has_place(const struct player *p, uint32_t item)
{
    const struct ah_rounds *rounds = &p->score->rounds;
    for (size_t ring = 0; ring < AH_ROUNDS_RINGS; ring++)
        if (rounds->items[item].takes[ring] && p->taken[ring] >= p->given[ring] + rounds->places[ring])
            return false;
    return true;
}

/* Has the next stage begun this step? Before that, its memory for the output is still in use. */
static bool is_expected(const struct player *p, const struct concert_lane *l)
{
    return p[1].ended[p[1].score->rounds.positions - 1] >= l->step;
}

/* The number, over all steps, of the message that compute's next item takes from or sends into `channel`. */
static uint64_t number_of(const struct player *p, const struct concert_lane *l, enum ah_channel channel)
{
    return l->step * p->score->micro_batches + p->score->messages.number[channel][l->item];
}

/* Has the item's message arrived, and is there room for what it sends? Beside that, one gradient at most may wait. */
static bool has_messages(const struct player *p, struct concert_lane *l)
{
    unsigned marks = p->score->marks[l->item];
    if ((marks & MARK_SENDS_OUTPUT && !is_expected(p, l)) ||
        (marks & MARK_INPUT && p[-1].outputs <= number_of(p, l, AH_CHANNEL_OUTPUT_IN)) ||
        (marks & MARK_GRADIENT && p[1].gradients <= number_of(p, l, AH_CHANNEL_GRADIENT_IN)))
        return false;
    bool placed = !(marks & MARK_PLACE) || !p[-1].score->frees_places ||
                  p[-1].places + CONCERT_WAITING > number_of(p, l, AH_CHANNEL_GRADIENT_OUT);
    l->held |= !placed;
    return placed;
}

static bool is_summed(const struct concert *c, uint32_t sum, uint32_t step)
{
    return sum == CONCERT_NONE || c->sums[sum].step > step;
}

/* Is the gate open or, without clipping, is the block's gradient added up over all pipelines? */
static bool may_update(const struct concert *c, const struct player *p, const struct concert_lane *l)
{
    if (!(p->score->marks[l->item] & MARK_BEHIND_GATE))
        return true;
    if (c->plan->training.clip > 0)
        return !c->gate[l->step];
    const uint64_t block = p->stage->first_block + p->score->plan->ops[item_of(p, l->item)->op].block;
    const bool shares_table = !block || block + 1 == c->plan->blocks;
    return is_summed(c, c->sum_of[block], l->step) && (!shares_table || is_summed(c, c->tied, l->step));
}

/* When a lane's next item can start if nothing else ends first; INFINITY: something must end first. */
static double start_us(const struct concert *c, const struct player *p, struct concert_lane *l)
{
    if (l->done || l->works || !is_let(p, l) || !has_place(p, l->item) || !may_update(c, p, l) ||
        !has_messages(p, l))
        return INFINITY;
    if (!sends(p, l->item))
        return c->now_us;
    const struct player *to = target_of(p, l->item);
    return p->node == to->node ? c->now_us : fmax(c->now_us, ah_nics_free_us(&c->nics, p->node, to->node));
}

/* ---- lanes at work ---- */

/* Sets the speeds of the lanes that work now; returns when the first of them ends. */
static double set_speeds(const struct concert *c, struct player *p)
{
    unsigned set = 0;
    double first_us = INFINITY;
    for (size_t lane = 0; lane < AH_ROUNDS_LANES; lane++)
        set |= (unsigned)p->lanes[lane].works << lane;
    for (size_t lane = 0; lane < AH_ROUNDS_LANES; lane++) {
        struct concert_lane *l = &p->lanes[lane];
        double speed = p->score->speeds[set][lane];
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

static void start(struct concert *c, struct player *p, struct concert_lane *l)
{
    const struct ah_rounds_item *item = item_of(p, l->item);
    double duration_us = p->score->duration_us[l->item];
    l->works = true;
    l->start_us = l->since_us = c->now_us;
    l->left_us = duration_us;
    l->speed = 1;
    l->end_us = c->now_us + duration_us;
    c->held += l->held;
    l->held = false;
    for (size_t ring = 0; ring < AH_ROUNDS_RINGS; ring++)
        p->taken[ring] += item->takes[ring];
    if (!sends(p, l->item) || p->node == target_of(p, l->item)->node)
        return;
    const struct player *to = target_of(p, l->item);
    ah_nics_take(&c->nics, p->node, c->now_us + ah_nics_pass_us(c->boundary_bytes, p->stage->nic_bytes_per_s),
                 to->node, c->now_us + ah_nics_pass_us(c->boundary_bytes, to->stage->nic_bytes_per_s));
}

void ah_concert_start_items(struct concert *c, size_t player)
{
    struct player *p = &c->players[player];
    double again_us = INFINITY;
    for (size_t lane = 0; lane < AH_ROUNDS_LANES; lane++) {
        double us = start_us(c, p, &p->lanes[lane]);
        if (us <= c->now_us)
            start(c, p, &p->lanes[lane]);
        else
            again_us = fmin(again_us, us);
    }
    ah_race_set(&c->race, player, set_speeds(c, p));
    ah_race_set(&c->race, c->n_players + c->n_sums + player, again_us);
}

/* ---- ends ---- */

static void tell_others(struct concert *c, size_t player, const struct concert_lane *l)
{
    struct player *p = &c->players[player];
    unsigned marks = p->score->marks[l->item];
    p->outputs += (marks & MARK_SENDS_OUTPUT) != 0;
    p->gradients += (marks & MARK_SENDS_GRADIENT) != 0;
    p->places += (marks & MARK_FREES_PLACE) != 0;
    if (marks & (MARK_SENDS_OUTPUT | MARK_FREES_PLACE))
        ah_concert_wake(c, player + 1);
    if (marks & MARK_SENDS_GRADIENT || (marks & MARK_ENDS_STEP && p->score->plan->part->stage))
        ah_concert_wake(c, player - 1);
    for (uint32_t b = p->score->first_final[l->item]; b != CONCERT_NONE; b = p->score->next_final[b])
        ah_concert_gradient_is_final(c, player, b, l->step);
    if (marks & MARK_BEFORE_GATE)
        ah_concert_is_before_gate(c, l->step);
}

static void end(struct concert *c, size_t player, size_t lane)
{
    struct player *p = &c->players[player];
    struct concert_lane *l = &p->lanes[lane];
    const struct ah_rounds_item *item = item_of(p, l->item);
    const struct ah_concert_span span = {
        .of = player, .item = l->item, .step = l->step, .start_us = l->start_us, .end_us = c->now_us};
    if (c->listener)
        c->listener->tell(c->listener->context, &span);
    p->ended[l->item]++;
    for (size_t ring = 0; ring < AH_ROUNDS_RINGS; ring++)
        p->given[ring] += item->gives[ring];
    if (!(p->score->marks[l->item] & MARK_NEXT_STEP)) {
        c->ends_us[l->step] = c->now_us;
        c->left--;
    }
    tell_others(c, player, l);
    l->works = false;
    l->times = 0;
    l->at++;
    settle(p, lane);
}

void ah_concert_end_items(struct concert *c, size_t player)
{
    struct player *p = &c->players[player];
    for (size_t lane = 0; lane < AH_ROUNDS_LANES; lane++)
        if (p->lanes[lane].works && p->lanes[lane].end_us <= c->now_us)
            end(c, player, lane);
    ah_race_set(&c->race, player, set_speeds(c, p));
    ah_concert_wake(c, player);
}
