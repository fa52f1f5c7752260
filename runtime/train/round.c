/* SPDX-License-Identifier: Apache-2.0
 *
 * Round: submits items one by one. An item is submitted after all items it waits for, so every wait has a ticket. Lanes
 * keep their frozen orders. Copies and the host advance as far as they can before compute does, so no op waits for a
 * later op of its own lane.
 *
 * 1. A round has the items of the step's iteration that are not early, and the early items of the next iteration.
 * 2. ROUND_BEFORE and ROUND_OPENING have no updates, since no gradients exist yet. They have the first step's fetches,
 *    if these belong to the iteration before. ROUND_CLOSING has the next iteration's updates, but not its fetches.
 * 3. A micro-batch is loaded when one of the two slots has no more readers: when compute enters the other slot.
 * 4. A step's header is copied to the device after the head of the previous step, when no update needs the header
 *    before it. It is copied a second time when the norm has put the clipping factor into it.
 * 5. In a pipeline, sends have a separate lane, and compute waits until they are done. A receive is submitted with the
 *    item at which its memory is free (ranks.h).
 */
#include "runtime/train/trainer_internal.h"

#include <inttypes.h>
#include <string.h>

/* ---- waits of an instance ---- */

int64_t ah_round_step(const struct ah_trainer *t, uint32_t item, int64_t round)
{
    return round + (t->graph.items[item].early ? 1 : 0);
}

static void mark_item(struct ah_trainer *t, uint32_t item, int64_t step, uint32_t lane, uint64_t ticket)
{
    t->items[item].step[(uint64_t)step % STEPS_MARKED] = step;
    t->items[item].ticket[(uint64_t)step % STEPS_MARKED] = ticket;
    t->items[item].lane[(uint64_t)step % STEPS_MARKED] = (uint8_t)lane;
}

/* Adds the item's waits for items of these lanes. Returns false if one of those items is not submitted yet. */
static bool collect_waits_of(const struct ah_trainer *t, uint32_t item, int64_t step, uint32_t lanes,
                             struct waits *waits)
{
    const struct ah_graph_item *it = &t->graph.items[item];
    for (uint32_t w = it->first_wait; w < it[1].first_wait; w++) {
        uint32_t from = t->graph.waits[w].item;
        int64_t of = step - (int64_t)t->graph.waits[w].back;
        const struct item_state *state = &t->items[from];
        uint64_t slot = (uint64_t)of % STEPS_MARKED;
        if (!(lanes >> t->graph.items[from].lane & 1))
            continue;
        if (of < 0 && !(of == -1 && t->graph.items[from].wraps))
            continue; /* the wait is for an iteration before the first step */
        if (state->step[slot] != of)
            return false;
        waits_add(waits, state->lane[slot], state->ticket[slot]);
        if (t->passed_on)
            waits_merge(waits, &t->passed_on[slot * t->graph.n_items + from]);
    }
    return true;
}

static bool collect_waits(const struct ah_trainer *t, uint32_t item, int64_t step, struct waits *waits)
{
    return collect_waits_of(t, item, step, UINT32_MAX, waits);
}

bool ah_round_computed(const struct ah_trainer *t, uint32_t item, int64_t step, struct waits *waits)
{
    return collect_waits_of(t, item, step, 1u << AH_PLAN_LANE_COMPUTE | 1u << AH_PLAN_LANE_NET, waits);
}

static bool collect_slots(const struct ah_trainer *t, uint32_t item, struct waits *waits)
{
    const struct ah_graph_item *it = &t->graph.items[item];
    for (int i = 0; i < AH_GRAPH_RINGS; i++) {
        if (!it->takes[i])
            continue;
        const struct ring *ring = &t->rings[i];
        if (ring->taken == ring->given + ring->slots)
            return false;
        const struct ring_slot *slot = &ring->free[ring->taken % ring->slots];
        if (slot->ticket)
            waits_add(waits, slot->lane, slot->ticket);
    }
    return true;
}

static bool ready(const struct ah_trainer *t, uint32_t item, int64_t step, struct waits *waits)
{
    return collect_waits(t, item, step, waits) && collect_slots(t, item, waits) &&
           ah_shares_ready(t, item, step, waits);
}

/* Takes the slots that the item takes, before it is submitted. */
static void take_slots(struct ah_trainer *t, uint32_t item)
{
    const struct ah_graph_item *it = &t->graph.items[item];
    for (int i = 0; i < AH_GRAPH_RINGS; i++) {
        struct ring *ring = &t->rings[i];
        if (it->takes[i])
            t->items[item].slot[i] = ring->free[ring->taken++ % ring->slots].slot;
    }
}

static void give_slots(struct ah_trainer *t, uint32_t item, uint64_t ticket)
{
    const struct ah_graph_item *it = &t->graph.items[item];
    for (int i = 0; i < AH_GRAPH_RINGS; i++) {
        struct ring *ring = &t->rings[i];
        if (it->gives[i])
            ring->free[ring->given++ % ring->slots] =
                (struct ring_slot){ticket, it->lane, t->items[it->taker[i]].slot[i]};
    }
}

/* ---- data ---- */

static uint64_t staged_micro(const struct ah_trainer *t, int64_t step, uint64_t micro_batch)
{
    return (uint64_t)step % AH_STEPS_STAGED * t->job.training.micro_batches + micro_batch;
}

static struct move_indices moves_of(const struct ah_trainer *t, int64_t step, uint64_t micro_batch)
{
    struct move_indices moves = {{0}};
    moves.of[AH_OFFSET_HEADER] = (uint64_t)step & 1;
    moves.of[AH_OFFSET_STAGING_HEADER] = (uint64_t)step % AH_STEPS_STAGED;
    moves.of[AH_OFFSET_STAGING] = staged_micro(t, step, micro_batch);
    return moves;
}

int ah_round_load(struct ah_trainer *t, int64_t step, uint64_t micro_batch, uint32_t *ret_slot,
                  struct ah_error *err)
{
    uint32_t slot = 0;
    while (slot < 2 && (t->slots[slot].step != step || t->slots[slot].micro_batch != micro_batch))
        slot++;
    *ret_slot = slot < 2 ? slot : 1 - t->last_slot;
    if (slot < 2)
        return AH_OK;
    struct data_slot *to = &t->slots[*ret_slot];
    struct move_indices moves = moves_of(t, step, micro_batch);
    struct waits waits = {{0}};
    const struct ops_of_item ops = ah_queue_extra(t, AH_EXTRA_LOAD, AH_LANE_H2D);
    moves.of[AH_OFFSET_WORDS] = *ret_slot;
    waits_add(&waits, AH_LANE_COMPUTE, to->used);
    to->step = step;
    to->micro_batch = micro_batch;
    return ah_queue_ops(t, &ops, &waits, &moves, &to->loaded, err);
}

int ah_round_header(struct ah_trainer *t, int64_t step, const struct waits *waits, uint64_t *ret_ticket,
                    struct ah_error *err)
{
    const struct move_indices moves = moves_of(t, step, 0);
    const struct ops_of_item ops = ah_queue_extra(t, AH_EXTRA_HEADER, AH_LANE_H2D);
    return ah_queue_ops(t, &ops, waits, &moves, ret_ticket, err);
}

/* ---- special items ---- */

static const struct ah_plan_op *op_of(const struct ah_trainer *t, uint32_t item)
{
    return &t->options.plan->ops[t->graph.items[item].op];
}

static bool is_pass(const struct ah_plan_op *op)
{
    return op->op == AH_PLAN_FORWARD || op->op == AH_PLAN_BACKWARD;
}

static bool is_head(const struct ah_trainer *t, const struct ah_plan_op *op)
{
    return op->op == AH_PLAN_FORWARD && ah_job_is_head(&t->job, op->block);
}

/* True if the op reads the header: the scale of the loss, or the scalars of AdamW. */
static bool reads_header(const struct ah_trainer *t, const struct ah_plan_op *op)
{
    return op->op == AH_PLAN_DEVICE_ADAM || (is_pass(op) && ah_job_is_head(&t->job, op->block));
}

/* Returns the device lane of an item. Sends are in the order of compute, but have a separate lane. */
static uint32_t lane_of(const struct ah_trainer *t, uint32_t item)
{
    const enum ah_plan_op_kind kind = op_of(t, item)->op;
    const bool sends = kind == AH_PLAN_SEND_OUTPUT || kind == AH_PLAN_SEND_INPUT_GRADIENT;
    return sends ? (uint32_t)AH_LANE_SEND : ah_trainer_lane((enum ah_plan_lane)t->graph.items[item].lane);
}

/* ---- messages ---- */

static const enum ah_channel arriving[] = {AH_CHANNEL_OUTPUT_IN, AH_CHANNEL_GRADIENT_IN};

static uint32_t lane_of_channel(enum ah_channel channel)
{
    return channel == AH_CHANNEL_OUTPUT_IN ? AH_LANE_RECEIVE_BEFORE : AH_LANE_RECEIVE_BEHIND;
}

int ah_round_receive(struct ah_trainer *t, enum ah_channel channel, uint64_t micro_batch,
                     const struct waits *waits, struct ah_error *err)
{
    const struct move_indices still = {{0}};
    const size_t at = ah_bind_received(&t->graph, &t->ranks.messages, channel, micro_batch);
    const struct ops_of_item ops = {t->bound.first[at], t->bound.first[at + 1], lane_of_channel(channel),
                                    true, t->graph.n_items + micro_batch};
    return ah_queue_ops(t, &ops, waits, &still, &t->ranks.received[channel][micro_batch], err);
}

/* Submits receives of the channel's messages, counted over this run, up to but not including number `end`. */
static int receive_up_to(struct ah_trainer *t, enum ah_channel channel, uint64_t end,
                         const struct waits *waits, struct ah_error *err)
{
    const uint64_t n = t->ranks.messages.micro_batches;
    int rc = AH_OK;
    for (; t->ranks.posted[channel] < end && !rc; t->ranks.posted[channel]++)
        rc = ah_round_receive(t, channel, t->ranks.posted[channel] % n, waits, err);
    return rc;
}

/* Submits receives as soon as their memory is free, but not with an update of the previous step: the last round runs
 * such updates without a next step. Then they are submitted with the item after it. */
static int receive_early(struct ah_trainer *t, enum ah_channel channel, uint32_t position, int64_t step,
                         const struct waits *free, struct waits *waits, struct ah_error *err)
{
    const struct ah_messages *messages = &t->ranks.messages;
    const uint64_t before = (uint64_t)step * messages->micro_batches;
    const uint32_t needed = messages->number[channel][position];
    int rc = t->graph.items[position].of_before
                 ? AH_OK
                 : receive_up_to(t, channel, before + t->ranks.begun[channel][position], free, err);
    if (rc || needed == AH_MESSAGES_NONE)
        return rc;
    rc = receive_up_to(t, channel, before + needed + 1, free, err);
    waits_add(waits, lane_of_channel(channel), t->ranks.received[channel][needed]);
    return rc;
}

void ah_round_after_messages(const struct ah_trainer *t, struct waits *waits)
{
    for (size_t i = 0; i < sizeof arriving / sizeof *arriving; i++)
        if (t->ranks.joined[arriving[i]]) {
            waits_add(waits, lane_of_channel(arriving[i]), t->queue.last[lane_of_channel(arriving[i])]);
            waits_add(waits, AH_LANE_SUMS, t->queue.last[AH_LANE_SUMS]);
        }
    waits_add(waits, AH_LANE_SEND, t->ranks.sent);
}

/* If messages take turns, submits a message's receive where it is needed, unless it moves with the previous send. */
static int take_turn(struct ah_trainer *t, enum ah_channel channel, uint32_t position,
                     const struct waits *free, struct waits *waits, struct ah_error *err)
{
    const uint32_t needed = t->ranks.messages.number[channel][position];
    if (needed == AH_MESSAGES_NONE)
        return AH_OK;
    if (t->ranks.joined[channel][needed]) {
        waits_add(waits, AH_LANE_SEND, t->ranks.sent);
        return AH_OK;
    }
    int rc = ah_round_receive(t, channel, needed, free, err);
    waits_add(waits, lane_of_channel(channel), t->ranks.received[channel][needed]);
    return rc;
}

/* Receives the messages that no position of the step needs, after its last position. */
static int take_rest(struct ah_trainer *t, struct ah_error *err)
{
    struct waits waits = {{0}};
    int rc = AH_OK;
    waits_add(&waits, AH_LANE_COMPUTE, t->queue.last[AH_LANE_COMPUTE]);
    ah_round_after_messages(t, &waits);
    for (size_t i = 0; i < sizeof arriving / sizeof *arriving; i++) {
        const struct ah_message *of = t->ranks.messages.of[arriving[i]];
        for (uint64_t m = 0; of && t->ranks.joined[arriving[i]] && m < t->ranks.messages.micro_batches && !rc;
             m++)
            if (of[m].at == AH_MESSAGES_NEVER)
                rc = ah_round_receive(t, arriving[i], m, &waits, err);
    }
    return rc;
}

/* Submits the receives of a position (rule 5). They wait for all that the item waits for, and for all compute before
 * it, which may still read the same memory. Then adds the item's own waits for messages. */
static int before_position(struct ah_trainer *t, uint32_t position, int64_t step, struct waits *waits,
                           struct ah_error *err)
{
    const struct ah_messages *messages = &t->ranks.messages;
    struct waits free = *waits;
    int rc = AH_OK;
    waits_add(&free, AH_LANE_COMPUTE, t->queue.last[AH_LANE_COMPUTE]);
    ah_round_after_messages(t, &free);
    for (size_t i = 0; i < sizeof arriving / sizeof *arriving && !rc; i++)
        if (messages->of[arriving[i]])
            rc = t->ranks.joined[arriving[i]]
                     ? take_turn(t, arriving[i], position, &free, waits, err)
                     : receive_early(t, arriving[i], position, step, &free, waits, err);
    if (lane_of(t, position) == AH_LANE_SEND) {
        waits_add(waits, AH_LANE_COMPUTE, t->queue.last[AH_LANE_COMPUTE]);
        ah_round_after_messages(t, waits);
    } else {
        waits_add(waits, AH_LANE_SEND, t->ranks.sent);
    }
    return rc;
}

/* Submits the ops that no plan mentions but a compute item needs, and adds waits for them. */
static int before_item(struct ah_trainer *t, uint32_t item, int64_t step, struct waits *waits,
                       struct move_indices *moves, struct ah_error *err)
{
    const struct ah_plan_op *op = op_of(t, item);
    uint32_t slot;
    if (ah_ranks_several(&t->ranks) && item < t->graph.positions) {
        int rc = before_position(t, item, step, waits, err);
        if (rc)
            return rc;
    }
    if (op->op == AH_PLAN_DEVICE_ADAM) {
        waits_add(waits, AH_LANE_H2D, t->factor_loaded);
        waits_add(waits, AH_LANE_H2D, t->header_loaded[(step - t->graph.items[item].of_before) & 1]);
    }
    if (op->op == AH_PLAN_NORM) {
        int rc = t->norm_copy.step == step ? AH_OK : ah_norm_copy_submit(t, step, waits, err);
        waits_add(waits, AH_LANE_D2H, t->norm_copy.ticket);
        return rc;
    }
    if (!is_pass(op))
        return AH_OK;
    int rc = ah_round_load(t, step, op->micro_batch, &slot, err);
    moves->of[AH_OFFSET_WORDS] = slot;
    waits_add(waits, AH_LANE_H2D, t->slots[slot].loaded);
    t->last_slot = slot;
    if (is_head(t, op)) {
        waits_add(waits, AH_LANE_H2D, t->header_loaded[step & 1]);
        waits_add(waits, AH_LANE_D2H, t->loss_copied[step & 1]);
    }
    return rc;
}

/* Loads the next micro-batch when the current one is first read: the other slot has no more readers (rule 3). */
static int load_ahead(struct ah_trainer *t, uint32_t position, int64_t step, struct ah_error *err)
{
    uint32_t next = t->next_data[position], slot;
    int64_t of = next < t->graph.positions ? step : step + 1;
    uint32_t at = next < t->graph.positions ? next : next - t->graph.positions;
    if (of > t->filled)
        return AH_OK;
    return ah_round_load(t, of, op_of(t, at)->micro_batch, &slot, err);
}

static int copy_loss(struct ah_trainer *t, int64_t step, uint64_t ticket, struct ah_error *err)
{
    const struct move_indices moves = moves_of(t, step, 0);
    const struct ops_of_item ops = ah_queue_extra(t, AH_EXTRA_LOSS, AH_LANE_D2H);
    struct waits waits = {{0}};
    waits_add(&waits, AH_LANE_COMPUTE, ticket);
    return ah_queue_ops(t, &ops, &waits, &moves, &t->loss_copied[step & 1], err);
}

static int after_item(struct ah_trainer *t, uint32_t item, int64_t step, uint64_t ticket,
                      struct ah_error *err)
{
    const struct ah_plan_op *op = op_of(t, item);
    struct waits waits = {{0}};
    int rc = AH_OK;
    if (op->op == AH_PLAN_NORM) {
        waits_add(&waits, AH_LANE_HOST, ticket);
        return ah_round_header(t, step, &waits, &t->factor_loaded, err);
    }
    if (!is_pass(op))
        return AH_OK;
    if (is_head(t, op) && op->micro_batch + 1 == t->job.training.micro_batches)
        rc = copy_loss(t, step, ticket, err);
    if (!rc && item == t->graph.head && step + 1 <= t->filled) {
        /* Does not wait for this item, which would delay the lane's other fetches. */
        waits_add(&waits, AH_LANE_COMPUTE, t->header_used[(step + 1) & 1]);
        rc = ah_round_header(t, step + 1, &waits, &t->header_loaded[(step + 1) & 1], err);
    }
    return rc ? rc : load_ahead(t, item, step, err);
}

/* ---- one item ---- */

bool ah_round_leaves_out(const struct ah_trainer *t, uint32_t index, enum round_part part)
{
    const struct ah_graph_item *item = &t->graph.items[index];
    switch (part) {
    case ROUND_BEFORE:
        return !item->early || !item->wraps;
    case ROUND_OPENING:
        return item->early ? item->of_before : !item->wraps;
    case ROUND_CLOSING:
        return item->early ? !item->of_before : item->wraps;
    case ROUND_WHOLE:
        break;
    }
    return false;
}

static int submit_item(struct ah_trainer *t, uint32_t item, int64_t step, struct waits *waits,
                       uint64_t *ret_ticket, struct ah_error *err)
{
    const struct ah_graph_item *it = &t->graph.items[item];
    int64_t data_step = step + (it->wraps ? 1 : 0) - (it->of_before ? 1 : 0);
    struct move_indices moves = moves_of(t, data_step, op_of(t, item)->micro_batch);
    take_slots(t, item);
    for (int ring = 0; ring < AH_GRAPH_RINGS; ring++)
        if (it->taker[ring] != AH_GRAPH_NONE)
            moves.of[AH_OFFSET_GRADIENT_RING + ring] = t->items[it->taker[ring]].slot[ring];
    int rc = before_item(t, item, step, waits, &moves, err);
    const struct ops_of_item ops = {t->bound.first[item], t->bound.first[item + 1], lane_of(t, item), true,
                                    item};
    if (!rc)
        rc = ah_queue_ops(t, &ops, waits, &moves, ret_ticket, err);
    if (rc)
        return rc;
    if (is_pass(op_of(t, item)))
        t->slots[t->last_slot].used = *ret_ticket;
    if (ops.lane == AH_LANE_SEND)
        t->ranks.sent = *ret_ticket;
    if (ah_ranks_several(&t->ranks) && item == t->ranks.last_pass)
        rc = take_rest(t, err);
    if (rc)
        return rc;
    if (reads_header(t, op_of(t, item)))
        t->header_used[data_step & 1] = *ret_ticket;
    give_slots(t, item, *ret_ticket);
    return AH_OK;
}

void ah_round_count(struct ah_trainer *t, int64_t round)
{
    t->counted = &t->staged[(uint64_t)(round < 0 ? 0 : round) % AH_STEPS_STAGED];
}

/* Passes the waits of an item without ops on to the items that wait for it, and to the next item of its lane. A rank
 * may have no part of a block, but memory that others use may depend on the item. */
static void pass_on(struct ah_trainer *t, uint32_t item, int64_t step, bool out, const struct waits *waits)
{
    struct waits *passed = &t->passed_on[(uint64_t)step % STEPS_MARKED * t->graph.n_items + item];
    struct waits *carried = &t->carried[t->graph.items[item].lane];
    const bool empty = !out && t->bound.first[item] == t->bound.first[item + 1];
    *passed = empty ? *waits : (struct waits){{0}};
    if (!out)
        *carried = *passed;
}

/* Submits the next item of a lane if it is ready. Sets `ret_done` to whether it was. */
static int advance_lane(struct ah_trainer *t, size_t lane, int64_t round, enum round_part part,
                        bool *ret_done, struct ah_error *err)
{
    struct waits waits = {{0}};
    *ret_done = false;
    if (t->cursor[lane] == t->graph.n_order[lane])
        return AH_OK;
    if (lane == AH_PLAN_LANE_D2H && ah_norm_copy_due(t, round, part))
        return ah_norm_copy_advance(t, round, ret_done, err);
    uint32_t item = t->graph.order[lane][t->cursor[lane]];
    int64_t step = ah_round_step(t, item, round);
    bool out = ah_round_leaves_out(t, item, part);
    uint64_t ticket;
    if (!out && !ready(t, item, step, &waits))
        return AH_OK;
    *ret_done = true;
    t->cursor[lane]++;
    /* If a compute op is left out, items that wait for it wait for the ops before it, which still use the memory. */
    ticket = lane == AH_PLAN_LANE_COMPUTE ? t->queue.last[AH_LANE_COMPUTE] : 0;
    const uint32_t of_ticket = out && lane == AH_PLAN_LANE_COMPUTE ? AH_LANE_COMPUTE : lane_of(t, item);
    waits_merge(&waits, &t->carried[lane]);
    int rc = out ? AH_OK : submit_item(t, item, step, &waits, &ticket, err);
    if (rc)
        return rc;
    mark_item(t, item, step, of_ticket, ticket);
    if (t->passed_on)
        pass_on(t, item, step, out, &waits);
    return out ? AH_OK : after_item(t, item, step, ticket, err);
}

int ah_round_submit(struct ah_trainer *t, int64_t step, enum round_part part, struct ah_error *err)
{
    static const size_t lanes[AH_PLAN_LANES] = {AH_PLAN_LANE_H2D, AH_PLAN_LANE_D2H, AH_PLAN_LANE_HOST,
                                                AH_PLAN_LANE_NET, AH_PLAN_LANE_COMPUTE};
    size_t lane = 0;
    int rc = AH_OK;
    ah_round_count(t, step);
    for (size_t i = 0; i < AH_PLAN_LANES; i++)
        t->cursor[i] = 0;
    t->shares.next = 0;
    while (lane < AH_PLAN_LANES && !rc) {
        bool done;
        rc = ah_shares_advance(t, step, part, &done, err);
        if (!rc && !done)
            rc = advance_lane(t, lanes[lane], step, part, &done, err);
        lane = done ? 0 : lane + 1;
        if (lane == AH_PLAN_LANES && ah_norm_copy_skip(t, step, part))
            lane = 0;
    }
    for (size_t i = 0; i < AH_PLAN_LANES && !rc; i++)
        if (t->cursor[i] < t->graph.n_order[i])
            rc = ah_error_set(err, AH_E_DOCUMENT,
                              "lanes.%s: item %zu of %zu cannot run because ops wait for each other; plan "
                              "again",
                              ah_words_plan_lane[i], t->cursor[i], t->graph.n_order[i]);
    return rc ? rc : ah_queue_flush(t, err);
}

/* ---- the initial state ---- */

void ah_round_reset(struct ah_trainer *t)
{
    for (size_t i = 0; i < t->graph.n_items; i++)
        t->items[i] = (struct item_state){.step = {INT64_MIN, INT64_MIN, INT64_MIN, INT64_MIN}};
    for (int i = 0; i < AH_GRAPH_RINGS; i++) {
        struct ring *ring = &t->rings[i];
        ring->taken = ring->given = 0;
        for (uint32_t slot = 0; slot < ring->slots; slot++)
            ring->free[slot] = (struct ring_slot){.slot = slot};
    }
    if (t->passed_on)
        memset(t->passed_on, 0, STEPS_MARKED * t->graph.n_items * sizeof *t->passed_on);
    memset(t->carried, 0, sizeof t->carried);
    t->slots[0] = t->slots[1] = (struct data_slot){.step = STEP_NONE};
    t->last_slot = 0;
    t->filled = STEP_NONE;
    t->header_loaded[0] = t->header_loaded[1] = t->loss_copied[0] = t->loss_copied[1] = 0;
    t->header_used[0] = t->header_used[1] = 0;
    t->factor_loaded = 0;
    t->norm_copy.step = t->norm_copy.skipped = INT64_MIN;
    ah_shares_reset(t);
    memset(t->ranks.posted, 0, sizeof t->ranks.posted);
    for (uint32_t lane = 0; lane < AH_DEVICE_LANES_ALL; lane++)
        t->queue.last[lane] = ah_device_submitted(t->device, lane);
}
