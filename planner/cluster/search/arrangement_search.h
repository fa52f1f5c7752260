/* SPDX-License-Identifier: Apache-2.0
 *
 * Arrangement search: searches a problem for its best arrangement, and reports what is proven about it.
 *
 * 1. Starts (arrangement_starts.c): for every number of pipelines, units are dealt out in a few ways, blocks are split
 *    exactly, and micro-batches are shared out.
 * 2. Improvement (arrangement_improve.c): the best starts are changed, one change at a time, as long as the simulation
 *    gets faster.
 * 3. Shaking (arrangement_anneal.c): simulated annealing from the results of 2, for what single changes do not reach.
 * 4. Exhaustion (arrangement_exhaust.c), if the problem is small: simulates every arrangement that could be faster than
 *    the best one so far. The result is then the optimum of the simulated time over all partitions of the units,
 *    orders, splits and shares of micro-batches.
 *
 * Deterministic. The budget is a number of evaluations (a pipeline or an arrangement timed), never a time.
 */
#ifndef AH_PLANNER_CLUSTER_SEARCH_ARRANGEMENT_SEARCH_H
#define AH_PLANNER_CLUSTER_SEARCH_ARRANGEMENT_SEARCH_H

#include "base/error.h"
#include "planner/cluster/search/draft.h"

struct ah_arrangement_search_limits {
    uint64_t improvements;              /* most evaluations of phases 1 and 2 */
    uint64_t shaking;                   /* most evaluations of phase 3; 0: no shaking */
    uint64_t exhaustion;                /* most evaluations of phase 4; 0: no exhaustion */
    const struct ah_arrangement *start; /* (optional) one more start; borrowed, fitted */
};

struct ah_arrangement_search_result {
    double step_us; /* INFINITY: no arrangement */
    double bound_us;
    bool exhausted; /* every arrangement was timed, or is proven to be slower */
    uint64_t evaluations;
};

/* Writes the best arrangement to `best`, a draft for `problem`. Ignores arrangements that take `none_above_us` or more
 * (INFINITY: no limit). If an exhausted search finds none, `bound_us` is that limit. AH_E_MEMORY. */
int ah_arrangement_search_run(const struct ah_cluster_problem *problem,
                              const struct ah_arrangement_search_limits *limits, double none_above_us,
                              struct ah_draft *best, struct ah_arrangement_search_result *ret_result,
                              struct ah_error *err);

#endif
