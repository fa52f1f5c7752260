/* SPDX-License-Identifier: Apache-2.0
 *
 * Checks a graph before the clock uses it. Indices must be in range, so that no graph makes the clock read out of
 * bounds. Numbers must be in ranges where no speed or time underflows or overflows, so that every event has a finite
 * time. Cycles are found by running the graph (clock.c).
 */
#include "runtime/device/virtual/clock_internal.h"

#include <string.h>

static int check_counts(const struct ah_clock_graph *graph, struct ah_error *err)
{
    if (graph->n_lanes <= AH_CLOCK_LANES && graph->n_demands <= AH_CLOCK_DEMANDS &&
        graph->n_resources <= AH_SHARE_RESOURCES && graph->n_rings <= AH_CLOCK_RINGS)
        return AH_OK;
    return ah_error_set(err, AH_E_USAGE,
                        "%zu lanes, %zu demand rows, %zu resources or %zu rings are too many for the clock; "
                        "at most %d, %d, %d, %d",
                        graph->n_lanes, graph->n_demands, graph->n_resources, graph->n_rings,
                        (int)AH_CLOCK_LANES, (int)AH_CLOCK_DEMANDS, (int)AH_SHARE_RESOURCES,
                        (int)AH_CLOCK_RINGS);
}

/* Checks that capacities, amounts and weights are in ranges that keep every speed far from underflow. */
static int check_demands(const struct ah_clock_graph *graph, struct ah_error *err)
{
    for (size_t r = 0; r < graph->n_resources; r++)
        if (!(graph->capacity[r] >= 1e-100 && graph->capacity[r] <= 1e100))
            return ah_error_set(err, AH_E_USAGE,
                                "capacity %g of resource %zu is not between 1e-100 and 1e100",
                                graph->capacity[r], r);
    for (size_t row = 0; row < graph->n_demands; row++) {
        const struct ah_share_demand *demand = &graph->demands[row];
        if (!(demand->weight == 0 || (demand->weight >= 1e-6 && demand->weight <= 1e6)))
            return ah_error_set(err, AH_E_USAGE,
                                "weight %g of demand row %zu is not 0 or between 1e-6 and 1e6",
                                demand->weight, row);
        for (size_t r = 0; r < graph->n_resources; r++) {
            if (!(demand->amount[r] >= 0 && demand->amount[r] <= 1e6 * graph->capacity[r]))
                return ah_error_set(
                    err, AH_E_USAGE,
                    "demand row %zu asks for %g of resource %zu; 0 to a million times its capacity %g is "
                    "possible",
                    row, demand->amount[r], r, graph->capacity[r]);
        }
    }
    return AH_OK;
}

static int check_op(const struct ah_clock_graph *graph, size_t op, struct ah_error *err)
{
    if (!(graph->duration_us[op] >= 0 && graph->duration_us[op] <= 1e15))
        return ah_error_set(err, AH_E_USAGE, "op %zu takes %g us; 0 to 1e15 is possible", op,
                            graph->duration_us[op]);
    if (graph->lane[op] >= graph->n_lanes)
        return ah_error_set(err, AH_E_USAGE, "op %zu is on lane %u of %zu", op, graph->lane[op],
                            graph->n_lanes);
    if (graph->demand && graph->demand[op] >= graph->n_demands)
        return ah_error_set(err, AH_E_USAGE, "op %zu has demand row %u of %zu", op, graph->demand[op],
                            graph->n_demands);
    if (!graph->dependency_first)
        return AH_OK;
    size_t first = graph->dependency_first[op];
    size_t end = graph->dependency_first[op + 1];
    if (end < first)
        return ah_error_set(err, AH_E_USAGE, "the dependencies of op %zu end before they begin", op);
    for (size_t at = first; at < end; at++) {
        if (graph->dependency[at] >= graph->n_ops)
            return ah_error_set(err, AH_E_USAGE, "op %zu depends on op %u of %zu", op, graph->dependency[at],
                                graph->n_ops);
        if (graph->dependency_back && graph->dependency_back[at] > 1)
            return ah_error_set(err, AH_E_USAGE,
                                "op %zu depends on op %u of %u iterations before; 0 or 1 is possible", op,
                                graph->dependency[at], graph->dependency_back[at]);
    }
    return AH_OK;
}

/* The lanes that take from and give back to each ring, and the ring of each lane; UINT8_MAX: none yet. */
struct ring_use {
    uint8_t taking_lane[AH_CLOCK_RINGS];
    uint8_t giving_lane[AH_CLOCK_RINGS];
    uint8_t ring[AH_CLOCK_LANES];
};

/* Notes the lane of an op that takes from or gives back to `ring`. AH_E_USAGE if a different lane does the same. */
static int check_ring(const struct ah_clock_graph *graph, size_t op, uint8_t ring, uint8_t *lane_of_ring,
                      const char *does, struct ah_error *err)
{
    if (ring >= graph->n_rings)
        return ah_error_set(err, AH_E_USAGE, "op %zu %s ring %u of %zu", op, does, ring, graph->n_rings);
    if (lane_of_ring[ring] != UINT8_MAX && lane_of_ring[ring] != graph->lane[op])
        return ah_error_set(err, AH_E_USAGE,
                            "op %zu on lane %u %s ring %u, and so does an op of lane %u; only one lane "
                            "may",
                            op, graph->lane[op], does, ring, lane_of_ring[ring]);
    lane_of_ring[ring] = (uint8_t)graph->lane[op];
    return AH_OK;
}

static int check_rings(const struct ah_clock_graph *graph, struct ah_error *err)
{
    struct ring_use use;
    memset(&use, UINT8_MAX, sizeof use);
    int rc = AH_OK;
    for (size_t op = 0; op < graph->n_ops && graph->takes && !rc; op++) {
        uint8_t taken = graph->takes[op];
        uint8_t *of_lane = &use.ring[graph->lane[op]];
        if (taken == AH_CLOCK_NO_RING)
            continue;
        rc = check_ring(graph, op, taken, use.taking_lane, "takes of", err);
        if (!rc && *of_lane != UINT8_MAX && *of_lane != taken)
            rc = ah_error_set(err, AH_E_USAGE,
                              "op %zu takes slots from ring %u, but another op of lane %u takes slots from "
                              "ring %u; a lane may take from one ring only",
                              op, taken, graph->lane[op], *of_lane);
        *of_lane = taken;
    }
    for (size_t op = 0; op < graph->n_ops && graph->gives && !rc; op++)
        if (graph->gives[op] != AH_CLOCK_NO_RING)
            rc = check_ring(graph, op, graph->gives[op], use.giving_lane, "gives to", err);
    return rc;
}

int ah_clock_check(const struct ah_clock_graph *graph, struct ah_error *err)
{
    int rc = check_counts(graph, err);
    if (!rc)
        rc = check_demands(graph, err);
    for (size_t op = 0; op < graph->n_ops && !rc; op++)
        rc = check_op(graph, op, err);
    return rc ? rc : check_rings(graph, err);
}
