/* SPDX-License-Identifier: Apache-2.0
 *
 * Graph: the work that the lanes of a plan repeat in every iteration, tile by tile, and the waits of each tile. It is
 * made for executors; the simulator (replay.h) reads plans in the same way.
 *
 * A ROUND lasts from the first head of iteration r to the first head of iteration r + 1. Each lane runs its items in
 * the order of `order[lane]`. `early` items (issued before the first head) belong to iteration r + 1, all others to r.
 *
 *     struct ah_graph rounds;
 *     rc = ah_graph_read(plan, &arena, &rounds, err);
 *     for (size_t i = 0; i < rounds.n_order[AH_PLAN_LANE_H2D]; i++)
 *         ... rounds.items[rounds.order[AH_PLAN_LANE_H2D][i]] ...
 *
 * WAITS. Item i of iteration r waits for `item` of iteration r - `back`. Its waits start at waits[first_wait] and end
 * before those of item i + 1. Lanes run in order, so compute items do not wait for each other.
 *
 * RINGS. In a ring of n slots, the k-th item to take a slot waits for the (k - n)-th to give one back, and gets that
 * one. If an item uses a slot, `taker` is the item that took it.
 */
#ifndef AH_RUNTIME_SCHEDULE_GRAPH_H
#define AH_RUNTIME_SCHEDULE_GRAPH_H

#include "base/arena.h"
#include "base/error.h"
#include "schemas/plan.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum ah_graph_ring { AH_GRAPH_HOST_GRADIENTS, AH_GRAPH_HOST_WEIGHTS, AH_GRAPH_DEVICE_STATES, AH_GRAPH_RINGS };

enum { AH_GRAPH_NONE = UINT32_MAX };

struct ah_graph_item {
    uint32_t op; /* index in the plan's ops */
    uint32_t tile;
    uint32_t first_wait;
    uint32_t taker[AH_GRAPH_RINGS]; /* AH_GRAPH_NONE: it uses no slot of this ring */
    uint8_t lane;                   /* enum ah_plan_lane */
    bool takes[AH_GRAPH_RINGS];
    bool gives[AH_GRAPH_RINGS];
    bool early;
    bool of_before; /* its op is an update with the gradients of the previous iteration */
    bool wraps;     /* a fetch or gather for the next iteration */
};

struct ah_graph_wait {
    uint32_t item;
    uint32_t back;
};

struct ah_graph {
    size_t n_items;
    struct ah_graph_item *items; /* n_items + 1; the first `positions` are the compute items, by position */
    struct ah_graph_wait *waits;
    uint32_t *first_tile, *of_tile; /* item of_tile[first_tile[o] + t] is tile t of op o */
    uint32_t *order[AH_PLAN_LANES];
    size_t n_order[AH_PLAN_LANES];
    uint32_t positions;
    uint32_t head; /* position of the first head */
    uint64_t slots[AH_GRAPH_RINGS];
};

/* Reads the graph of a plan that was read from a document or emitted. All arrays are in `arena`. AH_E_DOCUMENT: the
 * rules of docs/planning.md forbid one of the ops, or require an op that is missing. AH_E_MEMORY. */
int ah_graph_read(const struct ah_plan *plan, struct ah_arena *arena, struct ah_graph *ret_graph,
                  struct ah_error *err);

/* Sets each lane's speed, as a fraction of its full speed, while only the lanes in `running` work (a bit each). */
void ah_graph_speeds(const struct ah_plan_sharing *sharing, unsigned running,
                     double ret_speeds[AH_PLAN_LANES]);

#endif
