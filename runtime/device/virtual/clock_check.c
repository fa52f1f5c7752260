/* SPDX-License-Identifier: Apache-2.0
 *
 * What a graph must hold before the clock touches it. Every index is in range, so that no graph makes the
 * clock read out of bounds; every number is in a range where no speed and no time under- or overflows, so
 * that every event is at a finite instant. Cycles are found by running (clock.c).
 */
#include "runtime/device/virtual/clock_internal.h"

static int check_counts(const struct ah_clock_graph *graph, struct ah_error *err)
{
    if (graph->n_lanes <= AH_CLOCK_LANES && graph->n_demands <= AH_CLOCK_DEMANDS &&
        graph->n_resources <= AH_SHARE_RESOURCES)
        return AH_OK;
    return ah_error_set(
        err, AH_E_USAGE,
        "%zu lanes, %zu demand rows or %zu resources are too many for the clock; at most %d, %d, %d",
        graph->n_lanes, graph->n_demands, graph->n_resources, (int)AH_CLOCK_LANES, (int)AH_CLOCK_DEMANDS,
        (int)AH_SHARE_RESOURCES);
}

/* Amounts and weights in a range where every speed is far from underflow. */
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
                    "demand row %zu asks %g of resource %zu; 0 to a million times its capacity %g is "
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
    for (size_t at = first; at < end; at++)
        if (graph->dependency[at] >= graph->n_ops)
            return ah_error_set(err, AH_E_USAGE, "op %zu depends on op %u of %zu", op, graph->dependency[at],
                                graph->n_ops);
    return AH_OK;
}

int ah_clock_check(const struct ah_clock_graph *graph, struct ah_error *err)
{
    int rc = check_counts(graph, err);
    if (!rc)
        rc = check_demands(graph, err);
    for (size_t op = 0; op < graph->n_ops && !rc; op++)
        rc = check_op(graph, op, err);
    return rc;
}
