/* SPDX-License-Identifier: Apache-2.0
 *
 * A program as other ranks see it: which of its items other ranks wait for, and which items wait for other ranks.
 *
 * 1. A block's gradients are final when the last micro-batch's are made. If summed on the host, they are final when the
 *    last tile is added (with one micro-batch: arrives); of a frozen block, when backward passed or stopped above it.
 * 2. Before the gate are passes, their sends, and gradients sent to the host during passes. Behind the gate are the
 *    norm of a program that clips, updates, and gradients sent for updates.
 */
#include "planner/cluster/sim/cluster_replay_internal.h"

#include <inttypes.h>
#include <string.h>

struct reading {
    struct rank_marks *rank;
    const struct ah_plan *plan;
};

static const struct ah_plan_op *op_of(const struct reading *r, uint32_t item)
{
    return &r->plan->ops[r->rank->graph.items[item].op];
}

static bool on_host(const struct reading *r, uint64_t block)
{
    return r->plan->blocks[block].weights == AH_WEIGHTS_HOST;
}

/* Marks compute items with the messages that they take and send. A compute item's number is its position. */
static void mark_messages(const struct reading *r)
{
    static const uint16_t at[AH_CHANNELS] = {[AH_CHANNEL_OUTPUT_IN] = MARK_INPUT,
                                             [AH_CHANNEL_OUTPUT_OUT] = MARK_SENDS_OUTPUT,
                                             [AH_CHANNEL_GRADIENT_IN] = MARK_GRADIENT,
                                             [AH_CHANNEL_GRADIENT_OUT] = MARK_SENDS_GRADIENT};
    struct rank_marks *s = r->rank;
    for (enum ah_channel channel = 0; channel < AH_CHANNELS; channel++)
        for (uint64_t m = 0; m < s->micro_batches && s->messages.of[channel]; m++) {
            const struct ah_message *message = &s->messages.of[channel][m];
            if (message->at != AH_MESSAGES_NEVER)
                s->marks[message->at] |= at[channel];
            if (channel == AH_CHANNEL_GRADIENT_OUT && message->bytes && m >= REPLAY_WAITING)
                s->marks[message->at] |= MARK_SLOT;
            if (channel == AH_CHANNEL_GRADIENT_IN && message->bytes) {
                s->marks[message->to] |= MARK_FREES_SLOT;
                s->frees_slots = true;
            }
        }
}

static const uint16_t gate_of[AH_PLAN_OP_KINDS] = {
    [AH_PLAN_FORWARD] = MARK_BEFORE_GATE,     [AH_PLAN_BACKWARD] = MARK_BEFORE_GATE,
    [AH_PLAN_SEND_OUTPUT] = MARK_BEFORE_GATE, [AH_PLAN_SEND_INPUT_GRADIENT] = MARK_BEFORE_GATE,
    [AH_PLAN_ACCUMULATE] = MARK_BEFORE_GATE,  [AH_PLAN_SEND_GRADIENTS] = MARK_BEHIND_GATE,
    [AH_PLAN_DEVICE_ADAM] = MARK_BEHIND_GATE, [AH_PLAN_HOST_ADAM] = MARK_BEHIND_GATE,
    [AH_PLAN_NORM] = MARK_BEHIND_GATE,
};

static unsigned gate_marks(const struct reading *r, const struct ah_plan_op *op)
{
    return op->op == AH_PLAN_SEND_GRADIENTS && on_host(r, op->block) ? MARK_BEFORE_GATE : gate_of[op->op];
}

static int mark_items(const struct reading *r, struct ah_error *err)
{
    struct rank_marks *s = r->rank;
    for (uint32_t i = 0; i < s->graph.n_items; i++) {
        const struct ah_graph_item *item = &s->graph.items[i];
        const struct ah_plan_op *op = op_of(r, i);
        if (item->of_before)
            return ah_error_set(err, AH_E_DOCUMENT, "ops[%" PRIu32 "]: updates when its step is over",
                                item->op);
        unsigned marks = gate_marks(r, op) | (item->wraps ? MARK_NEXT_STEP : 0);
        s->marks[i] = (uint16_t)marks;
        s->duration_us[i] = op->us / (double)op->tiles;
        s->before_gate += (marks & MARK_BEFORE_GATE) != 0;
        s->counted += !item->wraps;
    }
    mark_messages(r);
    s->marks[s->graph.positions - 1] |= MARK_ENDS_STEP;
    return AH_OK;
}

static uint32_t last_tile(const struct reading *r, uint32_t op)
{
    const struct ah_graph *graph = &r->rank->graph;
    return graph->of_tile[graph->first_tile[op] + r->plan->ops[op].tiles - 1];
}

/* Finds the item, by block, that makes the last micro-batch's gradient or, with `arrivals`, brings it to the host. */
static void find_last(const struct reading *r, bool arrivals, uint32_t *items)
{
    for (uint32_t i = 0; i < r->plan->n_ops; i++) {
        const struct ah_plan_op *op = &r->plan->ops[i];
        bool head = op->op == AH_PLAN_FORWARD && ah_plan_is_head(r->plan, op->block);
        bool made = op->op == AH_PLAN_BACKWARD || head;
        bool arrives =
            op->op == AH_PLAN_ACCUMULATE || (op->op == AH_PLAN_SEND_GRADIENTS && on_host(r, op->block) &&
                                             r->plan->blocks[op->block].accumulator != AH_ACCUMULATOR_HOST);
        if ((arrivals ? arrives : made) && op->micro_batch + 1 == r->plan->training.micro_batches)
            items[op->block] = last_tile(r, i);
    }
}

/* Returns the last compute item before the gate: a pass or its send. */
static uint32_t last_pass(const struct reading *r)
{
    uint32_t p = r->rank->graph.positions - 1;
    while (p && !(r->rank->marks[p] & MARK_BEFORE_GATE))
        p--;
    return p;
}

static int find_final(const struct reading *r, struct ah_arena *arena, struct ah_error *err)
{
    struct rank_marks *s = r->rank;
    size_t n = r->plan->n_blocks;
    uint32_t *items = ah_arena_array(arena, n, sizeof *items);
    if (!items)
        return ah_error_memory(err);
    memset(items, 0xff, n * sizeof *items);
    find_last(r, false, items);
    uint32_t above = last_pass(r);
    for (size_t b = n; b-- > 0;) {
        items[b] = items[b] == REPLAY_NONE ? above : items[b];
        above = items[b];
    }
    find_last(r, true, items);
    for (size_t b = 0; b < n; b++) {
        s->next_final[b] = s->first_final[items[b]];
        s->first_final[items[b]] = (uint32_t)b;
    }
    return AH_OK;
}

static int reserve(struct rank_marks *s, size_t n_blocks, struct ah_arena *arena, struct ah_error *err)
{
    size_t n = s->graph.n_items;
    s->duration_us = ah_arena_array(arena, n, sizeof *s->duration_us);
    s->marks = ah_arena_array(arena, n, sizeof *s->marks);
    s->first_final = ah_arena_array(arena, n, sizeof *s->first_final);
    s->next_final = ah_arena_array(arena, n_blocks, sizeof *s->next_final);
    if (!s->duration_us || !s->marks || !s->first_final || !s->next_final)
        return ah_error_memory(err);
    memset(s->first_final, 0xff, n * sizeof *s->first_final);
    return AH_OK;
}

int ah_cluster_replay_read(const struct ah_plan *program, struct ah_arena *arena,
                           struct rank_marks *ret_marks, struct ah_error *err)
{
    *ret_marks = (struct rank_marks){.plan = program, .micro_batches = program->training.micro_batches};
    const struct reading r = {.rank = ret_marks, .plan = program};
    int rc = ah_graph_read(program, arena, &ret_marks->graph, err);
    rc = rc ? rc : ah_messages_read(program, arena, &ret_marks->messages, err);
    rc = rc ? rc : reserve(ret_marks, program->n_blocks, arena, err);
    if (rc)
        return rc;
    rc = mark_items(&r, err);
    rc = rc ? rc : find_final(&r, arena, err);
    for (unsigned set = 0; set < REPLAY_SETS; set++)
        ah_graph_speeds(&program->sharing, set, ret_marks->speeds[set]);
    return rc;
}
