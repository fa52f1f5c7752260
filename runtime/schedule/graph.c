/* SPDX-License-Identifier: Apache-2.0
 *
 * Graph: copies a plan's items and edges (items.c) and its frozen orders for executors.
 */
#include "runtime/schedule/graph.h"

#include "runtime/schedule/schedule_internal.h"

#include <stdlib.h>
#include <string.h>

_Static_assert((int)AH_GRAPH_RINGS == (int)AH_RINGS, "rings and lanes are those of the schedule");

/* ---- from the document ---- */

static bool trains(const struct ah_plan *plan)
{
    size_t block = 0;
    while (block < plan->n_blocks && plan->blocks[block].optimizer == AH_OPTIMIZER_NONE)
        block++;
    return block < plan->n_blocks;
}

int ah_reading_iteration(const struct ah_plan *plan, struct ah_grow *compute_memory,
                         struct ah_iteration *ret_iteration, struct ah_error *err)
{
    size_t positions = plan->lanes.n_order[AH_PLAN_LANE_COMPUTE];
    bool bf16 = plan->training.dtype == AH_BF16, bf16_states = plan->training.state_dtype == AH_BF16;
    int rc = ah_grow(compute_memory, positions, sizeof(uint32_t), err);
    if (rc)
        return rc;
    uint32_t *compute = compute_memory->items;
    size_t head = positions;
    for (size_t p = 0; p < positions; p++) {
        const struct ah_plan_op *op = ah_plan_compute_op(plan, p);
        compute[p] = (uint32_t)plan->lanes.order[AH_PLAN_LANE_COMPUTE][p];
        if (head == positions && op->op == AH_PLAN_FORWARD && op->block + 1 == plan->n_blocks)
            head = p;
    }
    if (head == positions)
        return ah_error_set(err, AH_E_DOCUMENT, "lanes.compute: the head's forward is missing");
    *ret_iteration =
        (struct ah_iteration){.ops = plan->ops,
                              .n_ops = plan->n_ops,
                              .compute = compute,
                              .positions = positions,
                              .n_blocks = plan->n_blocks,
                              .micro_batches = plan->training.micro_batches,
                              .weight_bytes = bf16 ? 2 : 4,
                              .state_bytes = (bf16 ? 4U : 0U) + (bf16_states ? 4U : 8U),
                              .clip = plan->training.clip > 0 && trains(plan),
                              .is_part = plan->part && !plan->part->shards,
                              .adds_up = ah_plan_adds_up(plan),
                              .slots = {[AH_RING_HOST_GRADIENTS] = plan->staging.host_gradient_tiles,
                                        [AH_RING_HOST_WEIGHTS] = plan->staging.host_weight_tiles,
                                        [AH_RING_DEVICE_STATES] = plan->staging.device_state_tiles},
                              .head = (uint32_t)head};
    return AH_OK;
}

/* A lane lists an op once per tile; the n-th mention of an op stands for its n-th tile. */
int ah_reading_orders(const struct ah_plan *plan, const struct ah_items *items, struct ah_grow *order_memory,
                      struct ah_grow *seen_memory, struct ah_orders *ret_orders, struct ah_error *err)
{
    int rc = ah_grow(order_memory, items->n, sizeof(uint32_t), err);
    if (!rc)
        rc = ah_grow(seen_memory, plan->n_ops, sizeof(uint32_t), err);
    if (rc)
        return rc;
    uint32_t *seen = seen_memory->items;
    uint32_t *item = order_memory->items;
    memset(seen, 0, plan->n_ops * sizeof *seen);
    for (size_t lane = AH_PLAN_LANE_H2D; lane < AH_PLAN_LANES; lane++) {
        ret_orders->item[lane] = item;
        ret_orders->n[lane] = plan->lanes.n_order[lane];
        for (size_t i = 0; i < ret_orders->n[lane]; i++) {
            uint64_t op = plan->lanes.order[lane][i];
            *item++ = items->of_tile[items->first_tile[op] + seen[op]++];
        }
    }
    return AH_OK;
}

/* ---- rounds ---- */

struct reading {
    const struct ah_plan *plan;
    struct ah_arena *arena;
    struct ah_graph *graph;
    struct ah_iteration iteration;
    struct ah_items items;
    struct ah_orders orders;
    struct ah_items_memory items_memory;
    struct ah_grow compute, order, seen;
};

static void fill_item(const struct reading *r, uint32_t op, uint32_t tile)
{
    const struct ah_plan_op *it = &r->plan->ops[op];
    uint32_t at = r->items.of_tile[r->items.first_tile[op] + tile];
    struct ah_graph_item *item = &r->graph->items[at];
    bool early = r->items.issue[at] < r->iteration.head;
    /* An all_gather is for a use or, if weights stay on the device, after their update. */
    bool gathers = it->op == AH_PLAN_ALL_GATHER;
    bool stays = r->plan->blocks[it->block].weights == AH_WEIGHTS_DEVICE;
    bool update = it->op == AH_PLAN_DEVICE_ADAM || it->op == AH_PLAN_STATES_OUT || (gathers && stays);
    bool brings = it->op == AH_PLAN_FETCH || it->op == AH_PLAN_GATHER || (gathers && !stays);
    *item = (struct ah_graph_item){.op = op,
                                   .tile = tile,
                                   .first_wait = r->items.first_edge[at],
                                   .lane = (uint8_t)it->lane,
                                   .early = early,
                                   .of_before = early && update,
                                   .wraps = brings && it->due_before <= it->issue_after};
    for (int ring = 0; ring < AH_GRAPH_RINGS; ring++) {
        item->takes[ring] = r->items.takes[at] == ring;
        item->gives[ring] = r->items.gives[at] == ring;
        item->taker[ring] = item->takes[ring] ? at : AH_GRAPH_NONE;
    }
}

/* Records that tile t of op `user` uses the slot taken by tile t of op `taker`, for all t. */
static void share_slots(const struct reading *r, uint32_t taker, uint32_t user, int ring)
{
    for (uint32_t tile = 0; tile < r->plan->ops[user].tiles && tile < r->plan->ops[taker].tiles; tile++) {
        uint32_t from = r->items.of_tile[r->items.first_tile[taker] + tile];
        uint32_t to = r->items.of_tile[r->items.first_tile[user] + tile];
        if (r->graph->items[from].takes[ring])
            r->graph->items[to].taker[ring] = from;
    }
}

/* Kinds of ops that use slots taken by ops of another kind. If `each`, both ops have the same micro-batch. */
static const struct {
    enum ah_plan_op_kind taker, user;
    enum ah_graph_ring ring;
    bool each;
} users[] = {
    {AH_PLAN_SEND_GRADIENTS, AH_PLAN_ACCUMULATE, AH_GRAPH_HOST_GRADIENTS, true},
    {AH_PLAN_SEND_GRADIENTS, AH_PLAN_HOST_ADAM, AH_GRAPH_HOST_GRADIENTS, false},
    {AH_PLAN_HOST_ADAM, AH_PLAN_UPLOAD, AH_GRAPH_HOST_WEIGHTS, false},
    {AH_PLAN_STATES_IN, AH_PLAN_DEVICE_ADAM, AH_GRAPH_DEVICE_STATES, false},
    {AH_PLAN_STATES_IN, AH_PLAN_STATES_OUT, AH_GRAPH_DEVICE_STATES, false},
};

static void share_of(const struct reading *r, uint32_t user)
{
    const struct ah_plan_op *it = &r->plan->ops[user];
    bool sums_on_host = r->plan->blocks[it->block].accumulator == AH_ACCUMULATOR_HOST;
    for (size_t i = 0; i < sizeof users / sizeof *users; i++) {
        if (users[i].user != it->op || (it->op == AH_PLAN_HOST_ADAM && sums_on_host))
            continue;
        for (uint32_t op = 0; op < r->plan->n_ops; op++) {
            const struct ah_plan_op *taker = &r->plan->ops[op];
            if (taker->op == users[i].taker && taker->block == it->block &&
                (!users[i].each || taker->micro_batch == it->micro_batch))
                share_slots(r, op, user, users[i].ring);
        }
    }
}

static int fill_orders(const struct reading *r)
{
    struct ah_graph *graph = r->graph;
    for (size_t lane = 0; lane < AH_PLAN_LANES; lane++) {
        bool compute = lane == AH_PLAN_LANE_COMPUTE;
        graph->n_order[lane] = compute ? r->iteration.positions : r->orders.n[lane];
        graph->order[lane] = ah_arena_array(r->arena, graph->n_order[lane] + 1, sizeof **graph->order);
        if (!graph->order[lane])
            return AH_E_MEMORY;
        for (size_t i = 0; i < graph->n_order[lane]; i++)
            graph->order[lane][i] = compute ? (uint32_t)((r->iteration.head + i) % r->iteration.positions)
                                            : r->orders.item[lane][i];
    }
    return AH_OK;
}

static int map_tiles(const struct reading *r)
{
    struct ah_graph *graph = r->graph;
    graph->first_tile = ah_arena_array(r->arena, r->plan->n_ops + 1, sizeof *graph->first_tile);
    graph->of_tile = ah_arena_array(r->arena, graph->n_items + 1, sizeof *graph->of_tile);
    if (!graph->first_tile || !graph->of_tile)
        return AH_E_MEMORY;
    memcpy(graph->first_tile, r->items.first_tile, r->plan->n_ops * sizeof *graph->first_tile);
    memcpy(graph->of_tile, r->items.of_tile, graph->n_items * sizeof *graph->of_tile);
    return AH_OK;
}

static int fill_rounds(struct reading *r)
{
    struct ah_graph *graph = r->graph;
    uint32_t edges = r->items.first_edge[r->items.n];
    graph->n_items = r->items.n;
    graph->positions = (uint32_t)r->iteration.positions;
    graph->head = r->iteration.head;
    memcpy(graph->slots, r->iteration.slots, sizeof graph->slots);
    graph->items = ah_arena_array(r->arena, graph->n_items + 1, sizeof *graph->items);
    graph->waits = ah_arena_array(r->arena, edges + 1, sizeof *graph->waits);
    if (!graph->items || !graph->waits || map_tiles(r))
        return AH_E_MEMORY;
    graph->items[graph->n_items] = (struct ah_graph_item){.first_wait = edges};
    for (uint32_t i = 0; i < edges; i++)
        graph->waits[i] = (struct ah_graph_wait){r->items.edges[i].from, r->items.edges[i].back};
    for (uint32_t op = 0; op < r->plan->n_ops; op++)
        for (uint32_t tile = 0; tile < r->plan->ops[op].tiles; tile++)
            fill_item(r, op, tile);
    for (uint32_t op = 0; op < r->plan->n_ops; op++)
        share_of(r, op);
    return fill_orders(r);
}

int ah_graph_read(const struct ah_plan *plan, struct ah_arena *arena, struct ah_graph *ret_graph,
                  struct ah_error *err)
{
    struct ah_graph graph = {0};
    struct reading r = {.plan = plan, .arena = arena, .graph = &graph};
    int rc = ah_reading_iteration(plan, &r.compute, &r.iteration, err);
    if (!rc)
        rc = ah_items_build(&r.items_memory, &r.iteration, &r.items, err);
    if (!rc)
        rc = ah_reading_orders(plan, &r.items, &r.order, &r.seen, &r.orders, err);
    if (!rc && fill_rounds(&r))
        rc = ah_error_memory(err);
    if (!rc)
        *ret_graph = graph;
    struct ah_grow *all[] = {&r.compute, &r.order, &r.seen};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]->items);
    ah_items_release(&r.items_memory);
    return rc;
}

/* ---- speeds ---- */

void ah_graph_speeds(const struct ah_plan_sharing *sharing, unsigned running,
                     double ret_speeds[AH_PLAN_LANES])
{
    struct ah_share_demand demands[AH_PLAN_LANES];
    double capacity[AH_SHARE_RESOURCES], speeds[AH_PLAN_LANES];
    uint8_t limits[AH_PLAN_LANES];
    const struct ah_share_demand *parts[AH_PLAN_LANES];
    size_t n = 0;
    ah_dispatch_share(sharing, demands, capacity);
    for (size_t lane = 0; lane < AH_PLAN_LANES; lane++)
        if (running >> lane & 1)
            parts[n++] = &demands[lane];
    ah_share_fill(parts, n, capacity, sharing->n_resources, speeds, limits);
    n = 0;
    for (size_t lane = 0; lane < AH_PLAN_LANES; lane++)
        ret_speeds[lane] = running >> lane & 1 ? speeds[n++] : 1;
}
