/* SPDX-License-Identifier: Apache-2.0
 *
 * Dispatch: runs iterations on the virtual clock, freezes the order of a steady round, and finds its period.
 *
 * 1. Instance (iteration r, item i) is op r x n + i of the clock.
 * 2. round(r, i) = r if the item is issued at the first head or later, else r - 1.
 * 3. The order of a round is the order in which a dispatch by priority ran its instances. Each instance precedes those
 *    that depend on it, in the same round or a later one. So frozen orders cannot deadlock.
 * 4. Some instances are absent: copies of states for an update that would come after the last iteration, and updates
 *    with gradients from before the first. Absent instances take no time and no slot, and wait for nothing.
 * 5. Of R iterations, number R - 2 is measured, the last complete one. A run may stop once that iteration is done.
 */
#include "runtime/schedule/schedule_internal.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { DISPATCH_ITERATIONS = 3 };

static const struct ah_plan_op *item_op(const struct ah_sim_run *run, uint32_t item)
{
    return &run->iteration->ops[run->items->op[item]];
}

static bool from_head(const struct ah_sim_run *run, uint32_t item)
{
    return run->items->issue[item] >= run->iteration->head;
}

/* ---- the graph ---- */

static int grow_graph(struct ah_dispatch_memory *m, const struct ah_items *items, struct ah_error *err)
{
    size_t n = items->n, edges = items->first_edge[items->n];
    int rc = ah_grow(&m->duration, n, sizeof(double), err);
    rc = rc ? rc : ah_grow(&m->lane, n, sizeof(uint32_t), err);
    rc = rc ? rc : ah_grow(&m->absent, n, sizeof(uint8_t), err);
    rc = rc ? rc : ah_grow(&m->first, n + 1, sizeof(size_t), err);
    rc = rc ? rc : ah_grow(&m->dependency, edges, sizeof(uint32_t), err);
    rc = rc ? rc : ah_grow(&m->back, edges, sizeof(uint8_t), err);
    rc = rc ? rc : ah_grow(&m->priority, n, sizeof(uint64_t), err);
    rc = rc ? rc : ah_grow(&m->needed, n, sizeof(uint32_t), err);
    return rc ? rc : ah_grow(&m->frozen, AH_PLAN_LANES * n, sizeof(uint32_t), err);
}

/* Returns in which iterations the item is absent (invariant 4). */
static uint8_t absent(const struct ah_sim_run *run, uint32_t item)
{
    const struct ah_items *items = run->items;
    const struct ah_plan_op *op = item_op(run, item);
    if (op->op == AH_PLAN_STATES_OUT || op->op == AH_PLAN_DEVICE_ADAM)
        return from_head(run, item) ? 0 : AH_CLOCK_NOT_FIRST;
    if (op->op != AH_PLAN_STATES_IN)
        return 0;
    uint32_t update = items->update_of[op->block];
    uint32_t tile = item - items->of_tile[items->first_tile[items->op[item]]];
    return items->of_tile[items->first_tile[update] + tile] < run->iteration->head ? AH_CLOCK_NOT_LAST : 0;
}

static void load_items(struct ah_dispatch_memory *m, const struct ah_sim_run *run)
{
    const struct ah_items *items = run->items;
    double *duration = m->duration.items;
    uint32_t *lane = m->lane.items;
    uint8_t *away = m->absent.items;
    for (uint32_t i = 0; i < items->n; i++) {
        const struct ah_plan_op *op = item_op(run, i);
        duration[i] = run->op_us[items->op[i]] / (double)op->tiles;
        lane[i] = op->lane;
        away[i] = absent(run, i);
    }
}

static void load_edges(struct ah_dispatch_memory *m, const struct ah_items *items)
{
    size_t *first = m->first.items;
    uint32_t *dependency = m->dependency.items;
    uint8_t *back = m->back.items;
    for (size_t i = 0; i <= items->n; i++)
        first[i] = items->first_edge[i];
    for (size_t e = 0; e < first[items->n]; e++) {
        dependency[e] = items->edges[e].from;
        back[e] = (uint8_t)items->edges[e].back;
    }
}

void ah_dispatch_share(const struct ah_plan_sharing *sharing,
                       struct ah_share_demand ret_demands[AH_PLAN_LANES],
                       double ret_capacity[AH_SHARE_RESOURCES])
{
    for (size_t lane = 0; lane < AH_PLAN_LANES; lane++) {
        ret_demands[lane] = (struct ah_share_demand){.weight = sharing->weights.of[lane]};
        for (size_t i = 0; i < sharing->n_resources; i++)
            ret_demands[lane].amount[i] = sharing->resources[i].demand[lane];
    }
    for (size_t i = 0; i < sharing->n_resources; i++)
        ret_capacity[i] = 1;
}

int ah_dispatch_load(struct ah_dispatch_memory *memory, const struct ah_sim_run *run, size_t iterations,
                     struct ah_error *err)
{
    const struct ah_items *items = run->items;
    int rc = grow_graph(memory, items, err);
    if (rc)
        return rc;
    load_items(memory, run);
    load_edges(memory, items);
    ah_dispatch_share(run->sharing, memory->demands, memory->capacity);
    rc = ah_priority_set(&memory->priority_memory, run->iteration, items, memory->duration.items,
                         memory->priority.items, err);
    if (rc)
        return rc;
    for (size_t ring = 0; ring < AH_RINGS; ring++)
        memory->slots[ring] = (uint32_t)run->iteration->slots[ring];
    const struct ah_clock_graph graph = {.n_ops = items->n,
                                         .n_lanes = AH_PLAN_LANES,
                                         .n_demands = AH_PLAN_LANES,
                                         .n_resources = run->sharing->n_resources,
                                         .n_rings = AH_RINGS,
                                         .duration_us = memory->duration.items,
                                         .lane = memory->lane.items,
                                         .demand = memory->lane.items,
                                         .priority = memory->priority.items,
                                         .dependency_first = memory->first.items,
                                         .dependency = memory->dependency.items,
                                         .dependency_back = memory->back.items,
                                         .absent = memory->absent.items,
                                         .demands = memory->demands,
                                         .capacity = memory->capacity,
                                         .takes = items->takes,
                                         .gives = items->gives,
                                         .ring_slots = memory->slots};
    rc = ah_clock_reserve(&memory->clock, &graph, iterations, err);
    rc = rc ? rc : ah_grow(&memory->order, items->n * iterations + 1, sizeof(uint32_t), err);
    return rc ? rc : ah_clock_load(&memory->clock, &graph, err);
}

/* ---- freezing ---- */

/* Lists the instances of round 1, lane by lane: iteration 1 from its first head on, and iteration 2 before its own. */
static void take_round(const struct ah_sim_run *run, const struct ah_clock_result *result,
                       struct ah_orders *orders)
{
    uint32_t n = (uint32_t)run->items->n;
    for (size_t lane = AH_PLAN_LANE_H2D; lane < AH_PLAN_LANES; lane++) {
        const uint32_t *order = result->order + result->lanes[lane].first;
        orders->n[lane] = 0;
        for (size_t k = 0; k < result->lanes[lane].n; k++) {
            bool late = order[k] >= 2 * n;
            if (order[k] < n || from_head(run, order[k] - (late ? 2 * n : n)) == late)
                continue;
            orders->item[lane][orders->n[lane]++] = order[k] - (late ? 2 * n : n);
        }
    }
}

/* Lists the instances that a dispatch must finish: those of round 1, and the two heads whose distance is the period. */
static const uint32_t *need_round(struct ah_dispatch_memory *m, const struct ah_sim_run *run)
{
    uint32_t *needed = m->needed.items;
    for (uint32_t i = 0; i < run->items->n; i++)
        needed[i] = from_head(run, i) ? DISPATCH_ITERATIONS - 1 : DISPATCH_ITERATIONS;
    needed[run->iteration->head] = DISPATCH_ITERATIONS;
    return needed;
}

int ah_dispatch_freeze(struct ah_dispatch_memory *memory, const struct ah_sim_run *run,
                       enum ah_scheduling scheduling, struct ah_orders *ret_orders, double *ret_period_us,
                       struct ah_error *err)
{
    enum ah_clock_rule rule = scheduling == AH_SCHEDULING_FIFO ? AH_CLOCK_FIFO : AH_CLOCK_PRIORITY;
    enum ah_clock_rule rules[AH_PLAN_LANES] = {AH_CLOCK_FROZEN};
    for (size_t lane = AH_PLAN_LANE_H2D; lane < AH_PLAN_LANES; lane++)
        rules[lane] = rule;
    const struct ah_clock_course course = {.iterations = DISPATCH_ITERATIONS,
                                           .rule = rules,
                                           .priority_step = ah_priority_step(run->iteration),
                                           .needed = need_round(memory, run)};
    struct ah_clock_result result;
    int rc = ah_clock_repeat(&memory->clock, &course, &result, err);
    if (rc)
        return rc;
    for (size_t lane = 0; lane < AH_PLAN_LANES; lane++)
        ret_orders->item[lane] = (uint32_t *)memory->frozen.items + lane * run->items->n;
    take_round(run, &result, ret_orders);
    const struct ah_clock_span *last = &result.spans[(DISPATCH_ITERATIONS - 1) * run->items->n];
    *ret_period_us =
        last[run->iteration->head].finish_us - (last - run->items->n)[run->iteration->head].finish_us;
    return AH_OK;
}

/* ---- running frozen orders ---- */

/* Writes all rounds of a lane one after another; the first and last contain only instances of existing iterations.
 * Returns the end of the list. One element there may be overwritten; the next lane begins there. */
static uint32_t *repeat_lane(const struct ah_sim_run *run, const uint32_t *items, size_t n, uint32_t *order)
{
    uint32_t step = (uint32_t)run->items->n;
    uint32_t end = step * (uint32_t)run->iterations;
    uint32_t *second = order;
    for (size_t k = 0; k < n; k++) /* round -1 */
        if (!from_head(run, items[k]))
            *second++ = items[k];
    uint32_t *next = second;
    for (size_t k = 0; k < n; k++)
        *next++ = items[k] + (from_head(run, items[k]) ? 0 : step);
    for (size_t round = 1; round < run->iterations; round++)
        for (size_t k = 0; k < n; k++) {
            uint32_t at = second[k] + (uint32_t)round * step;
            *next = at;
            next += at < end;
        }
    return next;
}

/* Lists the instances that a run must finish (invariant 5). */
static const uint32_t *need_measured(struct ah_dispatch_memory *m, const struct ah_sim_run *run)
{
    uint32_t *needed = m->needed.items;
    for (uint32_t i = 0; i < run->items->n; i++)
        needed[i] = (uint32_t)run->iterations - 1;
    return needed;
}

int ah_dispatch_run(struct ah_dispatch_memory *memory, const struct ah_sim_run *run,
                    const struct ah_orders *orders, struct ah_clock_result *ret_result, struct ah_error *err)
{
    uint32_t n = (uint32_t)run->items->n;
    uint32_t *order = memory->order.items;
    for (uint32_t r = 0; r < run->iterations; r++)
        for (uint32_t p = 0; p < run->iteration->positions; p++)
            *order++ = r * n + p;
    for (size_t lane = AH_PLAN_LANE_H2D; lane < AH_PLAN_LANES; lane++)
        order = repeat_lane(run, orders->item[lane], orders->n[lane], order);
    const struct ah_clock_course course = {.iterations = run->iterations,
                                           .order = memory->order.items,
                                           .needed = run->whole ? NULL : need_measured(memory, run)};
    return ah_clock_repeat(&memory->clock, &course, ret_result, err);
}

/* ---- measures of a run ---- */

static double iteration_end(const struct ah_sim_run *run, const struct ah_clock_result *result,
                            size_t iteration)
{
    return result->spans[iteration * run->items->n + run->iteration->positions - 1].finish_us;
}

/* Returns the time from an item's end in one iteration to its end in the last complete iteration (invariant 5). */
static double item_period(const struct ah_sim_run *run, const struct ah_clock_result *result, size_t item)
{
    size_t n = run->items->n;
    const struct ah_clock_span *measured = result->spans + (run->iterations - 2) * n;
    assert(measured[item].finish_us <= result->end_us);
    return measured[item].finish_us - (measured - n)[item].finish_us;
}

/* Returns the longest period of all items. This shows a lane that falls behind before compute has to wait for it. */
double ah_dispatch_period(const struct ah_sim_run *run, const struct ah_clock_result *result)
{
    double period = 0;
    for (size_t i = 0; i < run->items->n; i++)
        period = item_period(run, result, i) > period ? item_period(run, result, i) : period;
    return period;
}

bool ah_dispatch_steady(const struct ah_sim_run *run, const struct ah_clock_result *result)
{
    double period = ah_dispatch_period(run, result);
    for (size_t i = 0; i < run->items->n; i++)
        if (item_period(run, result, i) < period * (1 - 1e-9))
            return false;
    return true;
}

int ah_dispatch_run_steady(struct ah_dispatch_memory *memory, struct ah_sim_run *run,
                           const struct ah_orders *orders, struct ah_clock_result *ret_result,
                           struct ah_error *err)
{
    run->iterations = AH_SCHEDULE_ITERATIONS;
    int rc = ah_dispatch_run(memory, run, orders, ret_result, err);
    if (rc || ah_dispatch_steady(run, ret_result))
        return rc;
    run->iterations = AH_SCHEDULE_ITERATIONS_UNSTEADY;
    return ah_dispatch_run(memory, run, orders, ret_result, err);
}

/* Divides compute's wait for op `at`, from `from_us` to `to_us`, among the lanes that delayed that op. */
static void blame(const struct ah_sim_run *run, const struct ah_clock_result *result, uint32_t at,
                  double from_us, double to_us, double exposed_us[AH_PLAN_LANES])
{
    while (at != AH_CLOCK_NO_OP && to_us > from_us) {
        const struct ah_clock_span *span = &result->spans[at];
        enum ah_plan_lane lane = item_op(run, at % (uint32_t)run->items->n)->lane;
        double began_us = fmax(span->ready_us, span->slot_us);
        if (lane == AH_PLAN_LANE_COMPUTE)
            return;
        if (began_us < to_us)
            exposed_us[lane] += to_us - fmax(began_us, from_us);
        to_us = fmin(to_us, began_us);
        at = span->slot_us > span->ready_us ? span->gave_slot : span->waited_for;
    }
}

void ah_dispatch_exposed(const struct ah_sim_run *run, const struct ah_clock_result *result,
                         double ret_exposed_us[AH_PLAN_LANES])
{
    size_t n = run->items->n;
    size_t first = (run->iterations - 2) * n;
    memset(ret_exposed_us, 0, AH_PLAN_LANES * sizeof *ret_exposed_us);
    double before_us = iteration_end(run, result, run->iterations - 3);
    for (size_t p = 0; p < run->iteration->positions; p++) {
        const struct ah_clock_span *span = &result->spans[first + p];
        blame(run, result, span->waited_for, before_us, span->start_us, ret_exposed_us);
        before_us = span->finish_us;
    }
}

void ah_dispatch_release(struct ah_dispatch_memory *memory)
{
    struct ah_grow *all[] = {&memory->duration, &memory->lane,  &memory->absent,     &memory->priority,
                             &memory->first,    &memory->back,  &memory->dependency, &memory->order,
                             &memory->frozen,   &memory->needed};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]->items);
    ah_priority_release(&memory->priority_memory);
    ah_clock_release(&memory->clock);
    *memory = (struct ah_dispatch_memory){0};
}
