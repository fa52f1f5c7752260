/* SPDX-License-Identifier: Apache-2.0
 *
 * Dispatch: iterations unrolled on the virtual clock; the order of a steady round, frozen; the period of that order.
 *
 * 1. Instance (iteration r, item i) is op r x n + i of the clock.
 * 2. round(r, i) = r where the item is issued at the first head or later, else r - 1.
 * 3. The order of a round is the order in which a dispatch by priority took its instances. Every edge leads to the same
 *    round, where its instance was taken later, or to a later round. So frozen orders cannot deadlock.
 * 4. At both ends of the unrolled iterations instances are absent: states that come in for an update after the
 *    last iteration, and updates of gradients from before the first. They take no time, no place, and wait for nothing.
 * 5. Priority of an item: the earliest compute position, counted on from its own iteration, that waits for it through any
 *    edges; then the longer chain of work up to there; then the lower block.
 */
#include "runtime/schedule/schedule_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { PASSES_MAX = 64, DISPATCH_ITERATIONS = 3 };

struct unrolled {
    const struct ah_run *run;
    size_t n; /* items of an iteration */
    size_t iterations;
    struct ah_clock_graph graph;
    double *duration;
    uint32_t *lane, *demand;
    uint64_t *priority;
    size_t *first;
    uint32_t *dependency;
    uint8_t *takes, *gives;
    struct ah_share_demand demands[AH_SCHEDULE_LANES];
    double capacity[AH_SHARE_RESOURCES];
    uint32_t places[AH_RINGS];
    enum ah_clock_rule rule[AH_SCHEDULE_LANES];
};

static const struct ah_plan_op *item_op(const struct ah_run *run, uint32_t item)
{
    return &run->iteration->ops[run->items->op[item]];
}

static double item_us(const struct ah_run *run, uint32_t item)
{
    uint32_t op = run->items->op[item];
    return run->op_us[op] / (double)run->iteration->ops[op].tiles;
}

static bool from_head(const struct ah_run *run, uint32_t item)
{
    return run->items->issue[item] >= run->iteration->head;
}

/* ---- priorities ---- */

/* Position that waits for the item, through v. */
static uint64_t reached(const uint64_t *rank, uint32_t v, uint32_t back, size_t positions)
{
    return back * positions + (v < positions ? v : rank[v]);
}

static void rank_items(const struct ah_run *run, uint64_t *rank)
{
    const struct ah_items *items = run->items;
    size_t positions = run->iteration->positions;
    for (size_t i = 0; i < items->n; i++)
        rank[i] = i < positions ? i : 3 * positions;
    bool changed = true;
    for (int pass = 0; changed && pass < PASSES_MAX; pass++) {
        changed = false;
        for (uint32_t v = (uint32_t)items->n; v-- > 0;) {
            for (uint32_t e = items->first_edge[v]; e < items->first_edge[v + 1]; e++) {
                const struct ah_edge *edge = &items->edges[e];
                uint64_t at = reached(rank, v, edge->back, positions);
                if (edge->from >= positions && at < rank[edge->from]) {
                    rank[edge->from] = at;
                    changed = true;
                }
            }
        }
    }
}

/* Work from the item's start to that position's. */
static double chain_items(const struct ah_run *run, const uint64_t *rank, double *chain)
{
    const struct ah_items *items = run->items;
    size_t positions = run->iteration->positions;
    double longest = 0;
    for (uint32_t i = 0; i < items->n; i++)
        chain[i] = i < positions ? 0 : item_us(run, i);
    bool changed = true;
    for (int pass = 0; changed && pass < PASSES_MAX; pass++) {
        changed = false;
        for (uint32_t v = (uint32_t)items->n; v-- > positions;) {
            for (uint32_t e = items->first_edge[v]; e < items->first_edge[v + 1]; e++) {
                const struct ah_edge *edge = &items->edges[e];
                double us = chain[v] + (edge->from >= positions ? item_us(run, edge->from) : 0);
                if (edge->from < positions || us <= chain[edge->from] ||
                    reached(rank, v, edge->back, positions) != rank[edge->from])
                    continue;
                chain[edge->from] = us;
                longest = us > longest ? us : longest;
                changed = true;
            }
        }
    }
    return longest;
}

enum { KEY_CHAIN_BITS = 16, KEY_BLOCK_BITS = 14 };

static int set_priorities(struct ah_dispatch_memory *memory, struct unrolled *u, struct ah_error *err)
{
    int rc = ah_grow(&memory->rank, u->n, sizeof(uint64_t), err);
    if (!rc)
        rc = ah_grow(&memory->chain, u->n, sizeof(double), err);
    if (rc)
        return rc;
    uint64_t *rank = memory->rank.items;
    double *chain = memory->chain.items;
    rank_items(u->run, rank);
    double longest = chain_items(u->run, rank, chain);
    for (size_t r = 0; r < u->iterations; r++) {
        for (uint32_t i = 0; i < u->n; i++) {
            double share = longest > 0 ? fmin(chain[i] / longest, 1.0) : 0;
            uint64_t behind = (uint64_t)((1.0 - share) * ((1 << KEY_CHAIN_BITS) - 1));
            uint64_t key = r * u->run->iteration->positions + rank[i];
            key = (key << KEY_CHAIN_BITS | behind) << KEY_BLOCK_BITS | item_op(u->run, i)->block;
            u->priority[r * u->n + i] = key;
        }
    }
    return AH_OK;
}

/* ---- the unrolled graph ---- */

static int grow_graph(struct ah_dispatch_memory *m, struct unrolled *u, struct ah_error *err)
{
    size_t ops = u->n * u->iterations;
    size_t edges = u->run->items->first_edge[u->n] * u->iterations;
    int rc = ah_grow(&m->duration, ops, sizeof *u->duration, err);
    rc = rc ? rc : ah_grow(&m->lane, ops, sizeof *u->lane, err);
    rc = rc ? rc : ah_grow(&m->demand, ops, sizeof *u->demand, err);
    rc = rc ? rc : ah_grow(&m->priority, ops, sizeof *u->priority, err);
    rc = rc ? rc : ah_grow(&m->first, ops + 1, sizeof *u->first, err);
    rc = rc ? rc : ah_grow(&m->dependency, edges, sizeof *u->dependency, err);
    rc = rc ? rc : ah_grow(&m->takes, ops, 1, err);
    rc = rc ? rc : ah_grow(&m->gives, ops, 1, err);
    rc = rc ? rc : ah_grow(&m->order, ops, sizeof(uint32_t), err);
    u->duration = m->duration.items;
    u->lane = m->lane.items;
    u->demand = m->demand.items;
    u->priority = m->priority.items;
    u->first = m->first.items;
    u->dependency = m->dependency.items;
    u->takes = m->takes.items;
    u->gives = m->gives.items;
    return rc;
}

/* Invariant 4. */
static bool absent(const struct unrolled *u, size_t r, uint32_t item)
{
    enum ah_plan_op_kind kind = item_op(u->run, item)->op;
    const struct ah_items *items = u->run->items;
    if (r == 0 && (kind == AH_PLAN_STATES_OUT || kind == AH_PLAN_DEVICE_ADAM))
        return !from_head(u->run, item);
    if (r + 1 < u->iterations || kind != AH_PLAN_STATES_IN)
        return false;
    uint32_t in = items->op[item];
    uint32_t update = items->update_of[item_op(u->run, item)->block];
    uint32_t tile = item - items->of_tile[items->first_tile[in]];
    return items->of_tile[items->first_tile[update] + tile] < u->run->iteration->head;
}

static void unroll_item(struct unrolled *u, size_t r, uint32_t i, size_t *edges)
{
    const struct ah_items *items = u->run->items;
    size_t at = r * u->n + i;
    bool is_absent = absent(u, r, i);
    u->lane[at] = item_op(u->run, i)->lane;
    u->demand[at] = u->lane[at];
    u->duration[at] = is_absent ? 0 : item_us(u->run, i);
    u->takes[at] = is_absent ? AH_CLOCK_NO_RING : items->takes[i];
    u->gives[at] = is_absent ? AH_CLOCK_NO_RING : items->gives[i];
    for (uint32_t e = items->first_edge[i]; !is_absent && e < items->first_edge[i + 1]; e++)
        if (items->edges[e].back <= r)
            u->dependency[(*edges)++] = (uint32_t)((r - items->edges[e].back) * u->n + items->edges[e].from);
    u->first[at + 1] = *edges;
}

static void share_lanes(struct unrolled *u)
{
    const struct ah_plan_sharing *sharing = u->run->sharing;
    const struct ah_plan_lane_weights *w = &sharing->weights;
    const double weights[AH_SCHEDULE_LANES] = {w->compute, w->h2d, w->d2h, w->host};
    for (size_t lane = 0; lane < AH_SCHEDULE_LANES; lane++)
        u->demands[lane] = (struct ah_share_demand){.weight = weights[lane]};
    for (size_t i = 0; i < sharing->n_resources; i++) {
        const struct ah_plan_resource *resource = &sharing->resources[i];
        u->demands[AH_PLAN_LANE_COMPUTE].amount[i] = resource->compute;
        u->demands[AH_PLAN_LANE_H2D].amount[i] = resource->h2d;
        u->demands[AH_PLAN_LANE_D2H].amount[i] = resource->d2h;
        u->demands[AH_PLAN_LANE_HOST].amount[i] = resource->host;
        u->capacity[i] = 1;
    }
}

static int unroll(struct ah_dispatch_memory *memory, struct unrolled *u, struct ah_error *err)
{
    u->n = u->run->items->n;
    int rc = grow_graph(memory, u, err);
    if (rc)
        return rc;
    size_t edges = 0;
    u->first[0] = 0;
    for (size_t r = 0; r < u->iterations; r++)
        for (uint32_t i = 0; i < u->n; i++)
            unroll_item(u, r, i, &edges);
    share_lanes(u);
    for (size_t ring = 0; ring < AH_RINGS; ring++)
        u->places[ring] = (uint32_t)u->run->iteration->places[ring];
    u->graph = (struct ah_clock_graph){.n_ops = u->n * u->iterations,
                                       .n_lanes = AH_SCHEDULE_LANES,
                                       .n_demands = AH_SCHEDULE_LANES,
                                       .n_resources = u->run->sharing->n_resources,
                                       .n_rings = AH_RINGS,
                                       .duration_us = u->duration,
                                       .lane = u->lane,
                                       .demand = u->demand,
                                       .dependency_first = u->first,
                                       .dependency = u->dependency,
                                       .rule = u->rule,
                                       .demands = u->demands,
                                       .capacity = u->capacity,
                                       .takes = u->takes,
                                       .gives = u->gives,
                                       .ring_places = u->places};
    return ah_clock_reserve(&memory->clock, &u->graph, 1, err);
}

/* ---- freezing ---- */

static void take_round(const struct unrolled *u, const struct ah_clock_result *result, size_t round,
                       struct ah_orders *orders)
{
    for (size_t lane = AH_PLAN_LANE_H2D; lane < AH_SCHEDULE_LANES; lane++) {
        const uint32_t *order = result->order + result->lanes[lane].first;
        orders->n[lane] = 0;
        for (size_t k = 0; k < result->lanes[lane].n; k++) {
            uint32_t item = order[k] % (uint32_t)u->n;
            size_t r = order[k] / u->n;
            if (r == round + (from_head(u->run, item) ? 0 : 1))
                orders->item[lane][orders->n[lane]++] = item;
        }
    }
}

int ah_dispatch_freeze(struct ah_dispatch_memory *memory, const struct ah_run *run,
                       enum ah_scheduling scheduling, struct ah_orders *ret_orders, double *ret_period_us,
                       struct ah_error *err)
{
    struct unrolled u = {.run = run, .iterations = DISPATCH_ITERATIONS};
    enum ah_clock_rule rule = scheduling == AH_SCHEDULING_FIFO ? AH_CLOCK_FIFO : AH_CLOCK_PRIORITY;
    for (size_t lane = AH_PLAN_LANE_H2D; lane < AH_SCHEDULE_LANES; lane++)
        u.rule[lane] = rule;
    int rc = unroll(memory, &u, err);
    if (!rc)
        rc = set_priorities(memory, &u, err);
    if (!rc)
        rc = ah_grow(&memory->frozen, AH_SCHEDULE_LANES * u.n, sizeof(uint32_t), err);
    if (rc)
        return rc;
    u.graph.priority = u.priority;
    struct ah_clock_result result;
    rc = ah_clock_run(&memory->clock, &u.graph, &result, err);
    if (rc)
        return rc;
    for (size_t lane = 0; lane < AH_SCHEDULE_LANES; lane++)
        ret_orders->item[lane] = (uint32_t *)memory->frozen.items + lane * u.n;
    take_round(&u, &result, DISPATCH_ITERATIONS - 2, ret_orders);
    size_t last = run->iteration->positions - 1;
    *ret_period_us = result.spans[(DISPATCH_ITERATIONS - 1) * u.n + last].finish_us -
                     result.spans[(DISPATCH_ITERATIONS - 2) * u.n + last].finish_us;
    return AH_OK;
}

/* ---- running frozen orders ---- */

static void repeat_orders(const struct unrolled *u, const struct ah_orders *orders, uint32_t *order)
{
    size_t positions = u->run->iteration->positions;
    for (size_t r = 0; r < u->iterations; r++)
        for (size_t p = 0; p < positions; p++)
            *order++ = (uint32_t)(r * u->n + p);
    for (size_t lane = AH_PLAN_LANE_H2D; lane < AH_SCHEDULE_LANES; lane++) {
        for (size_t next = 0; next <= u->iterations; next++) { /* round next - 1 */
            for (size_t k = 0; k < orders->n[lane]; k++) {
                uint32_t item = orders->item[lane][k];
                size_t r = next + (from_head(u->run, item) ? 0 : 1);
                if (r > 0 && r <= u->iterations)
                    *order++ = (uint32_t)((r - 1) * u->n + item);
            }
        }
    }
}

int ah_dispatch_run(struct ah_dispatch_memory *memory, const struct ah_run *run,
                    const struct ah_orders *orders, struct ah_clock_result *ret_result, struct ah_error *err)
{
    struct unrolled u = {.run = run, .iterations = run->iterations};
    int rc = unroll(memory, &u, err);
    if (rc)
        return rc;
    repeat_orders(&u, orders, memory->order.items);
    u.graph.order = memory->order.items;
    return ah_clock_run(&memory->clock, &u.graph, ret_result, err);
}

/* ---- what a run says ---- */

static double iteration_end(const struct ah_run *run, const struct ah_clock_result *result, size_t iteration)
{
    return result->spans[iteration * run->items->n + run->iteration->positions - 1].finish_us;
}

/* From an item in the last iteration that is complete (the one before the last: invariant 4) to itself before. */
static double item_period(const struct ah_run *run, const struct ah_clock_result *result, size_t item)
{
    size_t n = run->items->n;
    const struct ah_clock_span *measured = result->spans + (run->iterations - 2) * n;
    return measured[item].finish_us - (measured - n)[item].finish_us;
}

/* A lane that falls behind takes longer than compute notices yet. */
double ah_dispatch_period(const struct ah_run *run, const struct ah_clock_result *result)
{
    double period = 0;
    for (size_t i = 0; i < run->items->n; i++)
        period = fmax(period, item_period(run, result, i));
    return period;
}

bool ah_dispatch_steady(const struct ah_run *run, const struct ah_clock_result *result)
{
    double period = ah_dispatch_period(run, result);
    for (size_t i = 0; i < run->items->n; i++)
        if (item_period(run, result, i) < period * (1 - 1e-9))
            return false;
    return true;
}

/* Splits [from_us, to_us], that compute waited for op `at`, among the lanes of the chain that held `at` up. */
static void blame(const struct ah_run *run, const struct ah_clock_result *result, uint32_t at, double from_us,
                  double to_us, double exposed_us[AH_WAIT_LANES])
{
    while (at != AH_CLOCK_NO_OP && to_us > from_us) {
        const struct ah_clock_span *span = &result->spans[at];
        enum ah_plan_lane lane = item_op(run, at % (uint32_t)run->items->n)->lane;
        double began_us = fmax(span->ready_us, span->place_us);
        if (lane == AH_PLAN_LANE_COMPUTE)
            return;
        if (began_us < to_us)
            exposed_us[lane - AH_PLAN_LANE_H2D] += to_us - fmax(began_us, from_us);
        to_us = fmin(to_us, began_us);
        at = span->place_us > span->ready_us ? span->gave_place : span->waited_for;
    }
}

void ah_dispatch_exposed(const struct ah_run *run, const struct ah_clock_result *result,
                         double ret_exposed_us[AH_WAIT_LANES])
{
    size_t n = run->items->n;
    size_t first = (run->iterations - 2) * n;
    memset(ret_exposed_us, 0, AH_WAIT_LANES * sizeof *ret_exposed_us);
    double before_us = iteration_end(run, result, run->iterations - 3);
    for (size_t p = 0; p < run->iteration->positions; p++) {
        const struct ah_clock_span *span = &result->spans[first + p];
        blame(run, result, span->waited_for, before_us, span->start_us, ret_exposed_us);
        before_us = span->finish_us;
    }
}

void ah_dispatch_release(struct ah_dispatch_memory *memory)
{
    struct ah_grow *all[] = {&memory->duration, &memory->lane,       &memory->demand, &memory->priority,
                             &memory->first,    &memory->dependency, &memory->order,  &memory->takes,
                             &memory->gives,    &memory->rank,       &memory->chain,  &memory->frozen};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]->items);
    ah_clock_release(&memory->clock);
    *memory = (struct ah_dispatch_memory){0};
}
