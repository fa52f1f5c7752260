/* SPDX-License-Identifier: Apache-2.0
 *
 * Arrangement search: searches a problem for its best arrangement, and reports what is proven about it.
 *
 * 1. Starts (arrangement_starts.c): for every number of pipelines, units dealt out in a few ways, blocks split exactly,
 *    micro-batches shared.
 * 2. Improvement (arrangement_improve.c): from the best starts, one change at a time for as long as the simulation gets
 *    faster.
 * 3. Shaking (arrangement_anneal.c): simulated annealing from the results of 2, to reach what single changes do not.
 * 4. Exhaustion (arrangement_exhaust.c), where the problem is small: every arrangement that could be faster than the
 *    best one so far is simulated. The result is then the optimum of the simulated time over all partitions of the
 *    units, orders, splits and shares of micro-batches.
 *
 * Deterministic; the budget is a number of evaluations (a pipeline or an arrangement timed), never a clock.
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
    double step_us; /* INFINITY: no arrangement was found */
    double bound_us;
    bool exhausted; /* every arrangement was timed, or proven slower */
    uint64_t evaluations;
};

/* Writes the best arrangement into `best`, which was made for `problem`. Arrangements that take `none_above_us` or more
 * are ignored (INFINITY: no limit). If an exhausted search finds none, `bound_us` is that limit. AH_E_MEMORY. */
int ah_arrangement_search_run(const struct ah_cluster_problem *problem,
                              const struct ah_arrangement_search_limits *limits, double none_above_us,
                              struct ah_draft *best, struct ah_arrangement_search_result *ret_result,
                              struct ah_error *err);

#endif
