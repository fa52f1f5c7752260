/* SPDX-License-Identifier: Apache-2.0
 *
 * Checks a replayed timeline against the rules of docs/planning.md. It uses no code of the schedule.
 *
 *     struct timeline t;
 *     timeline_open(&t, plan, &replay, iterations);
 *     timeline_check(&t);
 *     timeline_close(&t);
 *
 * Only iterations 2 to iterations - 3 are checked. Nearer to either end, some work is absent: updates of gradients that
 * were never made, and states that nothing uses afterwards.
 */
#ifndef AH_TESTS_PROPERTY_SCHEDULE_TIMELINE_H
#define AH_TESTS_PROPERTY_SCHEDULE_TIMELINE_H

#include "runtime/schedule/replay.h"
#include "tests/support/check.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TIMELINE_NONE = UINT32_MAX };

struct timeline {
    const struct ah_plan *plan;
    const struct ah_replay *replay;
    size_t iterations;
    uint64_t positions, head;
    size_t n;               /* tiles of all ops */
    size_t *first;          /* by op: its first tile */
    uint64_t *position;     /* by tile: its position; on other lanes, the position after which it is issued */
    double *start, *finish; /* by iteration and tile */
};

static inline const struct ah_plan_op *timeline_op(const struct timeline *t, uint32_t op)
{
    return &t->plan->ops[op];
}

/* Returns the op with this kind, block and micro-batch. */
static inline uint32_t timeline_find(const struct timeline *t, enum ah_plan_op_kind kind, uint64_t block,
                                     uint64_t micro_batch)
{
    for (uint32_t op = 0; op < t->plan->n_ops; op++)
        if (timeline_op(t, op)->op == kind && timeline_op(t, op)->block == block &&
            timeline_op(t, op)->micro_batch == micro_batch)
            return op;
    return TIMELINE_NONE;
}

/* Returns the op of this kind and block for the first micro-batch that has one. */
static inline uint32_t timeline_first(const struct timeline *t, enum ah_plan_op_kind kind, uint64_t block)
{
    uint32_t op = TIMELINE_NONE;
    for (uint64_t m = 0; m < t->plan->training.micro_batches && op == TIMELINE_NONE; m++)
        op = timeline_find(t, kind, block, m);
    return op;
}

static inline void timeline_positions(struct timeline *t)
{
    const struct ah_plan *plan = t->plan;
    uint64_t *seen = calloc(plan->n_ops, sizeof *seen);
    assert_non_null(seen);
    t->head = 0;
    while (ah_plan_compute_op(plan, t->head)->op != AH_PLAN_FORWARD ||
           ah_plan_compute_op(plan, t->head)->block + 1 != plan->n_blocks)
        t->head++;
    for (uint64_t i = 0; i < t->positions; i++) {
        uint64_t p = (t->head + i) % t->positions;
        uint64_t op = plan->lanes.order[AH_PLAN_LANE_COMPUTE][p];
        t->position[t->first[op] + seen[op]++] = p;
    }
    for (uint32_t op = 0; op < plan->n_ops; op++) {
        uint32_t update = timeline_first(t, AH_PLAN_DEVICE_ADAM, plan->ops[op].block);
        for (uint64_t tile = 0; tile < plan->ops[op].tiles; tile++)
            if (plan->ops[op].op == AH_PLAN_STATES_OUT)
                t->position[t->first[op] + tile] = t->position[t->first[update] + tile];
            else if (plan->ops[op].lane != AH_PLAN_LANE_COMPUTE)
                t->position[t->first[op] + tile] = plan->ops[op].issue_after;
    }
    free(seen);
}

static inline void timeline_open(struct timeline *t, const struct ah_plan *plan,
                                 const struct ah_replay *replay, size_t iterations)
{
    *t = (struct timeline){.plan = plan,
                           .replay = replay,
                           .iterations = iterations,
                           .positions = plan->lanes.n_order[AH_PLAN_LANE_COMPUTE]};
    t->first = calloc(plan->n_ops + 1, sizeof *t->first);
    assert_non_null(t->first);
    for (size_t op = 0; op < plan->n_ops; op++)
        t->first[op + 1] = t->first[op] + plan->ops[op].tiles;
    t->n = t->first[plan->n_ops];
    t->position = calloc(t->n, sizeof *t->position);
    t->start = calloc(t->n * iterations, sizeof *t->start);
    t->finish = calloc(t->n * iterations, sizeof *t->finish);
    assert_true(t->position && t->start && t->finish);
    timeline_positions(t);
    assert_int_equal(replay->n_items, t->n * iterations);
    for (size_t at = 0; at < t->n * iterations; at++)
        t->finish[at] = -1;
    for (size_t i = 0; i < replay->n_items; i++) {
        const struct ah_replay_item *item = &replay->items[i];
        size_t at = item->iteration * t->n + t->first[item->op] + item->tile;
        assert_true(t->finish[at] < 0); /* each tile runs once */
        t->start[at] = item->start_us;
        t->finish[at] = item->finish_us;
    }
}

static inline void timeline_close(struct timeline *t)
{
    free(t->first);
    free(t->position);
    free(t->start);
    free(t->finish);
}

/* Checks that tile `v_tile` of v waits for tile `u_tile` of u: the latest instance of u before v on the circle. */
static inline void timeline_tile_waits(const struct timeline *t, uint32_t v, uint64_t v_tile, uint32_t u,
                                       uint64_t u_tile, const char *rule)
{
    size_t at_v = t->first[v] + v_tile, at_u = t->first[u] + u_tile;
    double key_v = (double)t->position[at_v] + (timeline_op(t, v)->lane ? 0.5 : 0);
    double key_u = (double)t->position[at_u] + (timeline_op(t, u)->lane ? 0.5 : 0);
    size_t back = key_u > key_v;
    for (size_t r = 2; r + 2 < t->iterations; r++)
        if (t->start[r * t->n + at_v] < t->finish[(r - back) * t->n + at_u])
            fail_msg("%s: tile %llu of op %u (%s of block %llu) starts at %g in iteration %zu, before tile "
                     "%llu of op %u "
                     "(%s) ends at %g",
                     rule, (unsigned long long)v_tile, v, ah_words_plan_op[timeline_op(t, v)->op],
                     (unsigned long long)timeline_op(t, v)->block, t->start[r * t->n + at_v], r,
                     (unsigned long long)u_tile, u, ah_words_plan_op[timeline_op(t, u)->op],
                     t->finish[(r - back) * t->n + at_u]);
}

/* Checks that all tiles of v wait for all tiles of u. */
static inline void timeline_all_wait(const struct timeline *t, uint32_t v, uint32_t u, const char *rule)
{
    if (v == TIMELINE_NONE || u == TIMELINE_NONE)
        return;
    for (uint64_t tile = 0; tile < timeline_op(t, v)->tiles; tile++)
        for (uint64_t of = 0; of < timeline_op(t, u)->tiles; of++)
            timeline_tile_waits(t, v, tile, u, of, rule);
}

/* Checks that v waits for u. If both have equally many tiles, it waits tile by tile. */
static inline void timeline_waits(const struct timeline *t, uint32_t v, uint32_t u, const char *rule)
{
    if (v == TIMELINE_NONE || u == TIMELINE_NONE)
        return;
    if (timeline_op(t, v)->tiles != timeline_op(t, u)->tiles) {
        timeline_all_wait(t, v, u, rule);
        return;
    }
    for (uint64_t tile = 0; tile < timeline_op(t, v)->tiles; tile++)
        timeline_tile_waits(t, v, tile, u, tile, rule);
}

/* Checks rules 1 and 2. */
static inline void timeline_check_positions(const struct timeline *t)
{
    const uint64_t *compute = t->plan->lanes.order[AH_PLAN_LANE_COMPUTE];
    double before = 0;
    uint64_t *tile = calloc(t->positions, sizeof *tile);
    assert_non_null(tile);
    for (uint64_t p = 0; p < t->positions; p++)
        for (uint64_t k = 0; k < t->plan->ops[compute[p]].tiles; k++)
            if (t->position[t->first[compute[p]] + k] == p)
                tile[p] = k;
    for (size_t r = 0; r < t->iterations; r++)
        for (uint64_t p = 0; p < t->positions; p++) {
            size_t at = r * t->n + t->first[compute[p]] + tile[p];
            if (t->start[at] < before)
                fail_msg("rule 1: position %llu of iteration %zu overtakes", (unsigned long long)p, r);
            before = t->finish[at];
        }
    for (uint32_t op = 0; op < t->plan->n_ops; op++) {
        const struct ah_plan_op *it = timeline_op(t, op);
        for (uint64_t k = 0; it->lane && k < it->tiles; k++) {
            uint64_t issue = t->position[t->first[op] + k];
            uint32_t u = (uint32_t)compute[issue];
            timeline_tile_waits(t, op, k, u, tile[issue], "rule 2, issue");
            if (k)
                timeline_tile_waits(t, op, k, op, k - 1, "rule 2, tiles");
            if (it->op != AH_PLAN_STATES_IN)
                timeline_tile_waits(t, (uint32_t)compute[it->due_before], tile[it->due_before], op, k,
                                    "rule 2, due");
        }
    }
    free(tile);
}

/* True if the plan trains anything. A stage of a pipeline may train nothing. */
static inline bool timeline_trains(const struct timeline *t)
{
    for (uint64_t block = 0; block < t->plan->n_blocks; block++)
        if (t->plan->blocks[block].optimizer != AH_OPTIMIZER_NONE)
            return true;
    return false;
}

/* Checks rules 3 to 5 for a block. */
static inline void timeline_check_gradients(const struct timeline *t, uint64_t block)
{
    uint64_t n = t->plan->training.micro_batches;
    bool sums = n > 1 && t->plan->blocks[block].accumulator == AH_ACCUMULATOR_HOST;
    uint32_t adam = timeline_first(t, AH_PLAN_HOST_ADAM, block);
    uint32_t norm = timeline_first(t, AH_PLAN_NORM, 0);
    uint32_t sum = sums ? timeline_find(t, AH_PLAN_ACCUMULATE, block, n - 1) : TIMELINE_NONE;
    timeline_waits(t, timeline_first(t, AH_PLAN_UPLOAD, block), adam, "rule 3, upload");
    timeline_waits(t, adam, sums ? sum : timeline_first(t, AH_PLAN_SEND_GRADIENTS, block),
                   "rule 3, host_adam");
    for (uint64_t m = 0; sums && m < n; m++) {
        uint32_t op = timeline_find(t, AH_PLAN_ACCUMULATE, block, m);
        uint32_t send = timeline_find(t, AH_PLAN_SEND_GRADIENTS, block, m);
        uint32_t before = m ? timeline_find(t, AH_PLAN_ACCUMULATE, block, m - 1) : TIMELINE_NONE;
        assert_true(op != TIMELINE_NONE && send != TIMELINE_NONE);
        timeline_waits(t, op, send, "rule 4, send_gradients");
        timeline_waits(t, op, before, "rule 4, accumulate");
        if (!t->plan->staging.host_gradient_tiles)
            timeline_waits(t, send, before, "rule 4, one place");
    }
    if (!(t->plan->training.clip > 0) || !timeline_trains(t))
        return;
    assert_true(norm != TIMELINE_NONE);
    timeline_waits(t, norm, sum, "rule 5, norm");
    timeline_all_wait(t, adam, norm, "rule 5, host_adam");
    timeline_all_wait(t, timeline_first(t, AH_PLAN_DEVICE_ADAM, block), norm, "rule 5, device_adam");
}

/* Checks rule 10 for a block's gradients. */
static inline void timeline_check_arrival(const struct timeline *t, uint64_t block)
{
    const struct ah_plan_block *it = &t->plan->blocks[block];
    uint64_t n = t->plan->training.micro_batches;
    if (!t->plan->part || t->plan->part->shards || it->weights != AH_WEIGHTS_HOST ||
        it->optimizer != AH_OPTIMIZER_HOST)
        return;
    uint32_t arrived = n > 1 && it->accumulator == AH_ACCUMULATOR_HOST
                           ? timeline_find(t, AH_PLAN_ACCUMULATE, block, n - 1)
                           : timeline_first(t, AH_PLAN_SEND_GRADIENTS, block);
    for (uint64_t b = 0; b < t->plan->n_blocks; b++) {
        timeline_all_wait(t, timeline_first(t, AH_PLAN_DEVICE_ADAM, b), arrived, "rule 10, device_adam");
        timeline_all_wait(t, timeline_first(t, AH_PLAN_HOST_ADAM, b), arrived, "rule 10, host_adam");
        if (t->plan->blocks[b].weights == AH_WEIGHTS_DEVICE)
            timeline_all_wait(t, timeline_first(t, AH_PLAN_SEND_GRADIENTS, b), arrived,
                              "rule 10, send_gradients");
    }
}

/* Checks rules 11 and 12 for a block, and that its gradients are scattered exactly if ranks share states. */
static inline void timeline_check_shards(const struct timeline *t, uint64_t block)
{
    const struct ah_plan_block *it = &t->plan->blocks[block];
    const bool shards = t->plan->part && t->plan->part->shards;
    const uint32_t norm = timeline_first(t, AH_PLAN_NORM, 0);
    for (uint64_t m = 0; m < t->plan->training.micro_batches; m++) {
        const uint32_t op = timeline_find(t, AH_PLAN_SCATTER, block, m);
        assert_int_equal(op != TIMELINE_NONE, shards && it->optimizer != AH_OPTIMIZER_NONE);
        if (m)
            timeline_all_wait(t, op, timeline_find(t, AH_PLAN_SCATTER, block, m - 1), "rule 11, scatter");
        timeline_all_wait(t, norm, op, "rule 11, norm");
        timeline_all_wait(t, timeline_first(t, AH_PLAN_DEVICE_ADAM, block), op, "rule 11, device_adam");
        if (shards)
            timeline_all_wait(t, timeline_first(t, AH_PLAN_SEND_GRADIENTS, block), op,
                              "rule 11, send_gradients");
    }
    uint64_t gathers = 0;
    for (uint32_t op = 0; op < t->plan->n_ops; op++) {
        if (timeline_op(t, op)->op != AH_PLAN_ALL_GATHER || timeline_op(t, op)->block != block)
            continue;
        gathers++;
        for (uint32_t from = 0; from < t->plan->n_ops && it->weights == AH_WEIGHTS_HOST; from++)
            if (timeline_op(t, from)->op == AH_PLAN_FETCH && timeline_op(t, from)->block == block &&
                timeline_op(t, from)->due_before == timeline_op(t, op)->due_before)
                timeline_waits(t, op, from, "rule 12, fetch");
        if (it->weights == AH_WEIGHTS_HOST)
            continue;
        timeline_all_wait(t, op, timeline_first(t, AH_PLAN_UPLOAD, block), "rule 12, upload");
        timeline_all_wait(t, op, timeline_first(t, AH_PLAN_DEVICE_ADAM, block), "rule 12, device_adam");
    }
    assert_true(!gathers ==
                (!shards || (it->weights == AH_WEIGHTS_DEVICE && it->optimizer == AH_OPTIMIZER_NONE)));
}

/* Checks rules 6, 7 and 9 for a block. */
static inline void timeline_check_weights(const struct timeline *t, uint64_t block)
{
    uint32_t in = timeline_first(t, AH_PLAN_STATES_IN, block);
    uint32_t out = timeline_first(t, AH_PLAN_STATES_OUT, block);
    uint32_t adam = timeline_first(t, AH_PLAN_HOST_ADAM, block);
    uint32_t update = adam != TIMELINE_NONE ? adam : out;
    if (in != TIMELINE_NONE) {
        timeline_waits(t, timeline_first(t, AH_PLAN_DEVICE_ADAM, block), in, "rule 6, device_adam");
        timeline_waits(t, out, timeline_first(t, AH_PLAN_DEVICE_ADAM, block), "rule 6, states_out");
        timeline_waits(t, in, out, "rule 6, states_in");
    }
    for (uint32_t op = 0; op < t->plan->n_ops; op++) {
        const struct ah_plan_op *it = timeline_op(t, op);
        const bool brings = it->op == AH_PLAN_FETCH || it->op == AH_PLAN_ALL_GATHER;
        if (it->block != block || (!brings && it->op != AH_PLAN_GATHER))
            continue;
        const struct ah_plan_op *user = ah_plan_compute_op(t->plan, it->due_before);
        if (it->op == AH_PLAN_GATHER)
            timeline_all_wait(t, op, update, "rule 7, gather");
        else if (it->op == AH_PLAN_ALL_GATHER)
            ;
        else if (!block && !user->block && timeline_first(t, AH_PLAN_GATHER, 0) != TIMELINE_NONE)
            timeline_waits(t, op, timeline_find(t, AH_PLAN_GATHER, 0, it->micro_batch), "rule 7, rows");
        else if (strstr(t->plan->blocks[block].group, ".partial"))
            timeline_all_wait(t, op, update, "rule 7, fetch of a vector cut otherwise");
        else
            timeline_waits(t, op, update, "rule 7, fetch");
        for (uint32_t sent = 0; brings && sent < t->plan->n_ops; sent++)
            if ((timeline_op(t, sent)->op == AH_PLAN_SEND_GRADIENTS ||
                 timeline_op(t, sent)->op == AH_PLAN_SCATTER) &&
                timeline_op(t, sent)->due_before == (it->issue_after + 1) % t->positions)
                timeline_all_wait(t, op, sent, "rule 9");
    }
}

/* Checks the rest of rule 6, that states arrive in the order of use, from the head on. */
static inline void timeline_check_state_order(const struct timeline *t)
{
    uint64_t *seen = calloc(t->plan->n_ops, sizeof *seen);
    uint32_t before = TIMELINE_NONE;
    uint64_t before_tile = 0;
    assert_non_null(seen);
    for (uint64_t i = 0; i < t->positions; i++) {
        uint64_t op = t->plan->lanes.order[AH_PLAN_LANE_COMPUTE][(t->head + i) % t->positions];
        uint32_t in = t->plan->ops[op].op == AH_PLAN_DEVICE_ADAM
                          ? timeline_first(t, AH_PLAN_STATES_IN, t->plan->ops[op].block)
                          : TIMELINE_NONE;
        uint64_t tile = seen[op]++;
        if (in == TIMELINE_NONE)
            continue;
        if (before != TIMELINE_NONE)
            timeline_tile_waits(t, in, tile, before, before_tile, "rule 6, order");
        before = in;
        before_tile = tile;
    }
    free(seen);
}

/* Checks rule 8 for one ring: slots are taken and given back in the order of the lanes. Absent ops take no time. */
static inline void timeline_check_ring(const struct timeline *t, uint64_t slots, enum ah_plan_op_kind taker,
                                       enum ah_plan_op_kind giver, enum ah_plan_op_kind or_giver,
                                       bool device_weights)
{
    double *given = calloc(t->replay->n_items, sizeof *given);
    size_t n_given = 0, n_taken = 0;
    assert_non_null(given);
    for (size_t i = 0; i < t->replay->n_items; i++) {
        const struct ah_replay_item *item = &t->replay->items[i];
        const struct ah_plan_op *op = timeline_op(t, item->op);
        bool sums = t->plan->training.micro_batches > 1 &&
                    t->plan->blocks[op->block].accumulator == AH_ACCUMULATOR_HOST;
        if (item->finish_us > item->start_us && op->op == (sums ? or_giver : giver))
            given[n_given++] = item->finish_us;
    }
    for (size_t i = 0; i < t->replay->n_items; i++) {
        const struct ah_replay_item *item = &t->replay->items[i];
        const struct ah_plan_op *op = timeline_op(t, item->op);
        bool takes =
            op->op == taker && (!device_weights || t->plan->blocks[op->block].weights != AH_WEIGHTS_HOST);
        if (!takes || item->finish_us <= item->start_us)
            continue;
        if (n_taken >= slots && (n_taken - slots >= n_given || item->start_us < given[n_taken - slots]))
            fail_msg("rule 8: op %u (%s) takes a place at %g that nobody gave back", item->op,
                     ah_words_plan_op[op->op], item->start_us);
        n_taken++;
    }
    assert_true(n_given <= n_taken);
    free(given);
}

static inline void timeline_check_rings(const struct timeline *t)
{
    const struct ah_plan_staging *staging = &t->plan->staging;
    if (staging->host_gradient_tiles)
        timeline_check_ring(t, staging->host_gradient_tiles, AH_PLAN_SEND_GRADIENTS, AH_PLAN_HOST_ADAM,
                            AH_PLAN_ACCUMULATE, false);
    if (staging->host_weight_tiles)
        timeline_check_ring(t, staging->host_weight_tiles, AH_PLAN_HOST_ADAM, AH_PLAN_UPLOAD, AH_PLAN_UPLOAD,
                            true);
    if (staging->device_state_tiles)
        timeline_check_ring(t, staging->device_state_tiles, AH_PLAN_STATES_IN, AH_PLAN_STATES_OUT,
                            AH_PLAN_STATES_OUT, false);
}

/* Checks that lanes do one thing at a time, in the order of the document, round by round. */
static inline void timeline_check_lanes(const struct timeline *t)
{
    for (size_t lane = 0; lane < AH_PLAN_LANES; lane++) {
        double free_us = 0;
        for (size_t i = t->replay->first_of_lane[lane]; i < t->replay->first_of_lane[lane + 1]; i++) {
            assert_int_equal(t->replay->items[i].lane, lane);
            assert_true(t->replay->items[i].start_us >= free_us);
            free_us = t->replay->items[i].finish_us;
        }
    }
}

static inline void timeline_check(const struct timeline *t)
{
    timeline_check_positions(t);
    for (uint64_t block = 0; block < t->plan->n_blocks; block++) {
        timeline_check_gradients(t, block);
        timeline_check_arrival(t, block);
        timeline_check_weights(t, block);
        timeline_check_shards(t, block);
    }
    timeline_check_state_order(t);
    timeline_check_rings(t);
    timeline_check_lanes(t);
}

#endif
