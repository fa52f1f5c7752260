/* SPDX-License-Identifier: Apache-2.0
 *
 * Replay: turns a plan document back into an iteration, with items and edges by the rules of items.c, and runs the
 * document's frozen orders on the clock.
 */
#include "runtime/schedule/replay.h"

#include "runtime/schedule/schedule_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct replay {
    const struct ah_plan *plan;
    struct ah_iteration iteration;
    struct ah_items items;
    struct ah_orders orders;
    struct ah_sim_run run;
    struct ah_items_memory items_memory;
    struct ah_dispatch_memory dispatch_memory;
    struct ah_grow compute, order, seen, op_us;
    struct ah_clock_result result;
};

static void replay_release(struct replay *replay)
{
    struct ah_grow *all[] = {&replay->compute, &replay->order, &replay->seen, &replay->op_us};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]->items);
    ah_items_release(&replay->items_memory);
    ah_dispatch_release(&replay->dispatch_memory);
}

/* ---- from the document ---- */

static int read_plan(struct replay *replay, struct ah_error *err)
{
    const struct ah_plan *plan = replay->plan;
    int rc = ah_reading_iteration(plan, &replay->compute, &replay->iteration, err);
    if (!rc)
        rc = ah_items_build(&replay->items_memory, &replay->iteration, &replay->items, err);
    if (!rc)
        rc = ah_reading_orders(plan, &replay->items, &replay->order, &replay->seen, &replay->orders, err);
    if (!rc)
        rc = ah_grow(&replay->op_us, plan->n_ops, sizeof(double), err);
    if (rc)
        return rc;
    double *op_us = replay->op_us.items;
    for (size_t i = 0; i < plan->n_ops; i++)
        op_us[i] = plan->ops[i].us;
    replay->run = (struct ah_sim_run){.iteration = &replay->iteration,
                                      .items = &replay->items,
                                      .sharing = &plan->sharing,
                                      .op_us = op_us,
                                      .whole = true};
    return AH_OK;
}

/* ---- the timeline ---- */

static uint32_t tile_of(const struct replay *replay, uint32_t item)
{
    uint32_t op = replay->items.op[item];
    uint32_t first = replay->items.first_tile[op];
    if (item >= replay->iteration.positions)
        return item - replay->items.of_tile[first];
    uint32_t tile = 0;
    while (replay->items.of_tile[first + tile] != item)
        tile++;
    return tile;
}

static enum ah_replay_reason reason_of(const struct replay *replay, const struct ah_clock_span *span,
                                       const struct ah_replay_item *item)
{
    if (item->waited_us <= 0)
        return AH_REPLAY_NO_WAIT;
    if (span->slot_us > span->ready_us)
        return AH_REPLAY_MEMORY;
    if (span->waited_for == AH_CLOCK_NO_OP)
        return AH_REPLAY_DATA;
    const struct ah_plan_op *from = &replay->plan->ops[replay->items.op[span->waited_for % replay->items.n]];
    bool room = item->lane == AH_PLAN_LANE_COMPUTE && from->op == AH_PLAN_SEND_GRADIENTS;
    return room ? AH_REPLAY_MEMORY : AH_REPLAY_DATA;
}

static struct ah_replay_item make_item(const struct replay *replay, uint32_t at, double free_us)
{
    const struct ah_clock_span *span = &replay->result.spans[at];
    uint32_t item = at % (uint32_t)replay->items.n;
    uint32_t op = replay->items.op[item];
    double alone_us = replay->run.op_us[op] / (double)replay->plan->ops[op].tiles;
    double took_us = span->finish_us - span->start_us;
    struct ah_replay_item it = {.op = op,
                                .tile = tile_of(replay, item),
                                .iteration = at / (uint32_t)replay->items.n,
                                .lane = replay->plan->ops[op].lane,
                                .start_us = span->start_us,
                                .finish_us = span->finish_us,
                                .slowed_us = fmax(0, took_us - alone_us),
                                .waited_us = fmax(0, span->start_us - free_us),
                                .waited_for =
                                    span->slot_us > span->ready_us ? span->gave_slot : span->waited_for,
                                .slowed_by = (uint8_t)span->slowed_by};
    it.reason = reason_of(replay, span, &it);
    return it;
}

static void sum_lane(const struct replay *replay, const struct ah_replay_item *item, struct ah_replay *ret)
{
    if (item->iteration + 2 != replay->run.iterations)
        return;
    struct ah_replay_lane *lane = &ret->lanes[item->lane];
    lane->busy_us += item->finish_us - item->start_us;
    lane->slowed_us += item->slowed_us;
    if (item->slowed_by < 16)
        lane->slowed_by_us[item->slowed_by] += item->slowed_us;
    lane->waited_us[item->reason] += item->waited_us;
}

static int make_items(const struct replay *replay, struct ah_arena *arena, struct ah_replay *ret,
                      struct ah_error *err)
{
    const struct ah_clock_result *result = &replay->result;
    size_t n = replay->items.n * replay->run.iterations;
    ret->items = ah_arena_array(arena, n, sizeof *ret->items);
    uint32_t *index = ah_arena_array(arena, n, sizeof *index);
    if (!ret->items || !index)
        return ah_error_memory(err);
    for (size_t lane = 0; lane < AH_PLAN_LANES; lane++) {
        double free_us = 0;
        ret->first_of_lane[lane] = ret->n_items;
        for (size_t k = 0; k < result->lanes[lane].n; k++) {
            uint32_t at = result->order[result->lanes[lane].first + k];
            index[at] = (uint32_t)ret->n_items;
            ret->items[ret->n_items] = make_item(replay, at, free_us);
            free_us = ret->items[ret->n_items].finish_us;
            sum_lane(replay, &ret->items[ret->n_items++], ret);
        }
    }
    ret->first_of_lane[AH_PLAN_LANES] = ret->n_items;
    for (size_t i = 0; i < ret->n_items; i++)
        if (ret->items[i].waited_for != AH_CLOCK_NO_OP)
            ret->items[i].waited_for = index[ret->items[i].waited_for];
    return AH_OK;
}

/* Turns an error of the clock into AH_E_DOCUMENT, because the document caused it. */
static int of_document(int rc, struct ah_error *err)
{
    if (rc == AH_E_FAILED)
        return ah_error_set(err, AH_E_DOCUMENT,
                            "lanes: these orders cannot run because ops wait for each other; plan again");
    struct ah_error clock = *err;
    if (rc && rc != AH_E_MEMORY)
        return ah_error_set(err, AH_E_DOCUMENT, "the plan's numbers cannot be simulated: %s", clock.text);
    return rc;
}

/* Runs the plan for `iterations`. If that is 0, runs a few iterations, or more if those are not steady. */
static int run_plan(struct replay *replay, size_t iterations, struct ah_error *err)
{
    struct ah_dispatch_memory *memory = &replay->dispatch_memory;
    struct ah_sim_run *run = &replay->run;
    run->iterations = iterations;
    int rc = ah_dispatch_load(memory, run, iterations ? iterations : AH_SCHEDULE_ITERATIONS_UNSTEADY, err);
    if (!rc && iterations)
        rc = ah_dispatch_run(memory, run, &replay->orders, &replay->result, err);
    else if (!rc)
        rc = ah_dispatch_run_steady(memory, run, &replay->orders, &replay->result, err);
    return of_document(rc, err);
}

static int replay_plan(const struct ah_plan *plan, size_t iterations, struct ah_arena *arena,
                       struct ah_replay *ret_replay, struct ah_error *err)
{
    struct replay replay = {.plan = plan};
    struct ah_replay ret = {0};
    int rc = read_plan(&replay, err);
    if (!rc)
        rc = run_plan(&replay, iterations, err);
    if (!rc)
        rc = make_items(&replay, arena, &ret, err);
    if (!rc) {
        ret.iterations = replay.run.iterations;
        ret.first_us = replay.result.spans[replay.iteration.positions - 1].finish_us;
        ret.period_us = ah_dispatch_period(&replay.run, &replay.result);
        ret.steady = ah_dispatch_steady(&replay.run, &replay.result);
        ah_dispatch_exposed(&replay.run, &replay.result, ret.exposed_us);
        for (size_t lane = 0; lane < AH_PLAN_LANES; lane++)
            ret.lanes[lane].idle_us = fmax(0, ret.period_us - ret.lanes[lane].busy_us);
        *ret_replay = ret;
    }
    replay_release(&replay);
    return rc;
}

int ah_replay_run(const struct ah_plan *plan, size_t iterations, struct ah_arena *arena,
                  struct ah_replay *ret_replay, struct ah_error *err)
{
    if (iterations < 3)
        return ah_error_set(err, AH_E_USAGE, "%zu iterations: give 3 or more", iterations);
    return replay_plan(plan, iterations, arena, ret_replay, err);
}

int ah_replay_steady(const struct ah_plan *plan, struct ah_arena *arena, struct ah_replay *ret_replay,
                     struct ah_error *err)
{
    return replay_plan(plan, 0, arena, ret_replay, err);
}

/* ---- the order ---- */

static int lane_ops(const struct replay *replay, enum ah_plan_lane lane, struct ah_arena *arena,
                    uint64_t **ret_ops, size_t *ret_n)
{
    size_t n = replay->orders.n[lane];
    uint64_t *ops = ah_arena_array(arena, n + 1, sizeof *ops);
    if (!ops)
        return AH_E_MEMORY;
    for (size_t i = 0; i < n; i++)
        ops[i] = replay->items.op[replay->orders.item[lane][i]];
    *ret_ops = ops;
    *ret_n = n;
    return AH_OK;
}

int ah_replay_dispatch(const struct ah_plan *plan, struct ah_arena *arena, struct ah_plan_lanes *ret_lanes,
                       struct ah_error *err)
{
    struct replay replay = {.plan = plan};
    struct ah_plan_lanes lanes = {.order = {plan->lanes.order[AH_PLAN_LANE_COMPUTE]},
                                  .n_order = {plan->lanes.n_order[AH_PLAN_LANE_COMPUTE]}};
    double period_us;
    int rc = read_plan(&replay, err);
    if (!rc)
        rc = of_document(
            ah_dispatch_load(&replay.dispatch_memory, &replay.run, AH_SCHEDULE_ITERATIONS_UNSTEADY, err),
            err);
    if (!rc)
        rc = of_document(ah_dispatch_freeze(&replay.dispatch_memory, &replay.run, plan->scheduling,
                                            &replay.orders, &period_us, err),
                         err);
    for (unsigned lane = AH_PLAN_LANE_H2D; lane < AH_PLAN_LANES && !rc; lane++)
        if (lane_ops(&replay, lane, arena, &lanes.order[lane], &lanes.n_order[lane]))
            rc = ah_error_memory(err);
    if (!rc)
        *ret_lanes = lanes;
    replay_release(&replay);
    return rc;
}
