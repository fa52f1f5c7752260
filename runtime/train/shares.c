/* SPDX-License-Identifier: Apache-2.0
 *
 * Shares: decides when gradients are added up over pipelines (bind_shares.c), and which ops wait for the sums.
 *
 * INVARIANTS
 * 1. All ranks add up shares in the plan's order, on a separate lane. So no rank of the first unfinished share waits
 *    for a later share, and it can always continue.
 * 2. A share waits for the last gradients of its blocks. None of these waits for a total of the same step: updates come
 *    after all passes. An op that updates a block or sends its sum waits for its share; the norm waits for all.
 * 3. In a world whose messages take turns, sums come after all passes, and the next step comes after the sums.
 */
#include "runtime/train/trainer_internal.h"

#include <inttypes.h>

static const struct ah_plan_op *op_at(const struct ah_trainer *t, uint32_t item)
{
    return &t->options.plan->ops[t->graph.items[item].op];
}

static bool sums_on_host(const struct ah_trainer *t, uint64_t block)
{
    return t->options.plan->blocks[block].accumulator == AH_ACCUMULATOR_HOST;
}

static bool is_last_tile(const struct ah_trainer *t, uint32_t item)
{
    return t->graph.items[item].tile + 1 == op_at(t, item)->tiles;
}

/* True if the item completes a block's sum on this rank. */
static bool makes(const struct ah_trainer *t, uint32_t item, uint64_t block)
{
    const struct ah_plan_op *op = op_at(t, item);
    if (op->block != block || op->micro_batch + 1 != t->job.training.micro_batches)
        return false;
    if (sums_on_host(t, block))
        return op->op == AH_PLAN_ACCUMULATE && is_last_tile(t, item);
    return op->op == (ah_job_is_head(&t->job, block) ? AH_PLAN_FORWARD : AH_PLAN_BACKWARD);
}

/* True if the item reads the total of its block. */
static bool reads(const struct ah_trainer *t, uint32_t item)
{
    const struct ah_plan_op *op = op_at(t, item);
    switch (op->op) {
    case AH_PLAN_DEVICE_ADAM:
    case AH_PLAN_HOST_ADAM:
        return true;
    case AH_PLAN_SEND_GRADIENTS:
        return !sums_on_host(t, op->block);
    case AH_PLAN_FETCH:
    case AH_PLAN_FORWARD:
    case AH_PLAN_BACKWARD:
    case AH_PLAN_ACCUMULATE:
    case AH_PLAN_NORM:
    case AH_PLAN_UPLOAD:
    case AH_PLAN_STATES_IN:
    case AH_PLAN_STATES_OUT:
    case AH_PLAN_GATHER:
    case AH_PLAN_SEND_OUTPUT:
    case AH_PLAN_SEND_INPUT_GRADIENT:
    case AH_PLAN_SCATTER:
    case AH_PLAN_ALL_GATHER:
    case AH_PLAN_OP_KINDS:
        break;
    }
    return false;
}

/* True if the block is part of a share. A tied share has the embedding, and the head if it has a copy of the table. */
static bool has_block(const struct ah_trainer *t, const struct ah_trainer_share *share, uint64_t block)
{
    const uint64_t at = t->job.part.first_block + block;
    if (share->tied)
        return !at || (t->job.copies_table && ah_job_is_head(&t->job, block));
    return at >= share->first_block && at - share->first_block < share->blocks;
}

/* True for the rank's last pass or message if messages take turns. Every share then waits for that item. */
static bool is_last_pass(const struct ah_trainer *t, uint32_t item)
{
    return !ah_comm_independent(t->options.rank->comm) && item == t->ranks.last_pass;
}

static int find_makers(struct ah_trainer *t, const struct ah_trainer_share *share, struct share_state *state,
                       struct ah_error *err)
{
    state->makers = ah_arena_array(&t->arena, 2 * share->blocks + 3, sizeof *state->makers);
    if (!state->makers)
        return ah_error_memory(err);
    for (uint32_t item = 0; item < t->graph.n_items; item++) {
        const uint64_t block = op_at(t, item)->block;
        const bool trained = ah_job_block(&t->job, block)->trained_elements;
        if (has_block(t, share, block) && trained && makes(t, item, block))
            state->makers[state->n_makers++] = item;
        else if (is_last_pass(t, item))
            state->makers[state->n_makers++] = item;
    }
    return AH_OK;
}

static int init_share(struct ah_trainer *t, size_t s, struct ah_error *err)
{
    const struct ah_trainer_rank *rank = t->options.rank;
    const struct ah_trainer_share *share = &rank->shares[s];
    struct share_state *state = &t->shares.of[s];
    state->is_ours = ah_trainer_shares(rank, share, rank->rank);
    if (!state->is_ours)
        return AH_OK;
    for (uint32_t item = 0; item < t->graph.n_items; item++)
        if (reads(t, item) && has_block(t, share, op_at(t, item)->block))
            t->shares.needed_by[item] = (uint32_t)s;
    return find_makers(t, share, state, err);
}

bool ah_trainer_shares(const struct ah_trainer_rank *rank, const struct ah_trainer_share *share,
                       uint32_t which)
{
    const uint32_t n = ah_trainer_share_members(rank, share);
    uint32_t i = 0;
    while (i < n && share->ranks[i] != which)
        i++;
    return i < n;
}

/* Returns the largest number of received pieces at a time: for each member here, one from each member elsewhere. */
static uint32_t parts_at_once(const struct ah_trainer_rank *rank)
{
    uint32_t most = 0;
    for (size_t s = 0; s < rank->n_shares; s++) {
        const uint32_t n = ah_trainer_share_members(rank, &rank->shares[s]);
        uint32_t own = 0;
        for (uint32_t i = 0; i < n; i++)
            own += rank->shares[s].ranks[i] == rank->rank;
        most = own * (n - own) > most ? own * (n - own) : most;
    }
    return most;
}

int ah_shares_init(struct ah_trainer *t, struct ah_error *err)
{
    const struct ah_trainer_rank *rank = t->options.rank;
    if (!rank || !rank->n_shares)
        return AH_OK;
    ah_addresses_add_partials(&t->addresses, parts_at_once(rank),
                              rank->share_piece ? rank->share_piece : AH_SHARE_PIECE);
    t->shares.n = rank->n_shares;
    t->shares.of = ah_arena_array(&t->arena, rank->n_shares, sizeof *t->shares.of);
    t->shares.needed_by = ah_arena_array(&t->arena, t->graph.n_items, sizeof *t->shares.needed_by);
    if (!t->shares.of || !t->shares.needed_by)
        return ah_error_memory(err);
    for (uint32_t item = 0; item < t->graph.n_items; item++)
        t->shares.needed_by[item] = AH_GRAPH_NONE;
    int rc = AH_OK;
    for (size_t s = 0; s < t->shares.n && !rc; s++)
        rc = init_share(t, s, err);
    return rc;
}

/* ---- turn of a share ---- */

static bool is_made(const struct ah_trainer *t, const struct share_state *state, int64_t step,
                    struct waits *waits)
{
    for (size_t i = 0; i < state->n_makers; i++) {
        const struct item_state *maker = &t->items[state->makers[i]];
        const uint64_t slot = (uint64_t)step % STEPS_MARKED;
        if (maker->step[slot] != step)
            return false;
        waits_add(waits, maker->lane[slot], maker->ticket[slot]);
    }
    return true;
}

static int submit(struct ah_trainer *t, size_t s, int64_t step, const struct waits *waits,
                  struct ah_error *err)
{
    const struct move_indices still = {{0}};
    const uint32_t *first = &t->bound.first[ah_bind_share(&t->graph, &t->ranks.messages, s)];
    const struct ops_of_item ops = {first[0], first[1], AH_LANE_SUMS, true, UINT64_MAX};
    t->shares.of[s].step = step;
    return ah_queue_ops(t, &ops, waits, &still, &t->shares.of[s].ticket, err);
}

int ah_shares_advance(struct ah_trainer *t, int64_t round, enum round_part part, bool *ret_any,
                      struct ah_error *err)
{
    *ret_any = false;
    for (int rc; (part == ROUND_WHOLE || part == ROUND_CLOSING) && t->shares.next < t->shares.n;
         t->shares.next++) {
        const struct share_state *state = &t->shares.of[t->shares.next];
        struct waits waits = {{0}};
        if (!state->is_ours)
            continue;
        if (!is_made(t, state, round, &waits))
            return AH_OK;
        ah_round_after_messages(t, &waits);
        rc = submit(t, t->shares.next, round, &waits, err);
        if (rc)
            return rc;
        *ret_any = true;
    }
    return AH_OK;
}

/* True for a compute item of the next step if messages take turns. Such an item comes after the sums. */
static bool comes_behind(const struct ah_trainer *t, uint32_t item)
{
    return !ah_comm_independent(t->options.rank->comm) && item < t->graph.positions &&
           t->graph.items[item].early && !t->graph.items[item].of_before;
}

bool ah_shares_ready(const struct ah_trainer *t, uint32_t item, int64_t step, struct waits *waits)
{
    if (!t->shares.n)
        return true;
    if (op_at(t, item)->op == AH_PLAN_NORM)
        return ah_shares_all(t, step, waits);
    if (comes_behind(t, item) && step > 0 && !ah_shares_all(t, step - 1, waits))
        return false;
    const uint32_t needed = t->shares.needed_by[item];
    if (needed == AH_GRAPH_NONE)
        return true;
    const struct share_state *state = &t->shares.of[needed];
    waits_add(waits, AH_LANE_SUMS, state->ticket);
    return state->step == step - t->graph.items[item].of_before;
}

bool ah_shares_all(const struct ah_trainer *t, int64_t step, struct waits *waits)
{
    bool all = true;
    for (size_t s = 0; s < t->shares.n; s++) {
        if (!t->shares.of[s].is_ours)
            continue;
        waits_add(waits, AH_LANE_SUMS, t->shares.of[s].ticket);
        all = all && t->shares.of[s].step == step;
    }
    return all;
}

void ah_shares_reset(struct ah_trainer *t)
{
    for (size_t s = 0; s < t->shares.n; s++)
        t->shares.of[s].step = INT64_MIN;
}
