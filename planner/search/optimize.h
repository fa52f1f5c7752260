/* SPDX-License-Identifier: Apache-2.0
 *
 * Optimize: the `optimal` policy for one job and one set of costs: a bound, a ladder of budgets, and searches.
 *
 *     struct ah_optimize optimize = {.evaluator = &evaluator, .reserve_bytes = ..., .effort = AH_EFFORT_DEFAULT};
 *     rc = ah_optimize_run(&optimize, arena, &result, err);    // the plan's choice is evaluator.best
 */
#ifndef AH_PLANNER_SEARCH_OPTIMIZE_H
#define AH_PLANNER_SEARCH_OPTIMIZE_H

#include "planner/bound/milp.h"
#include "planner/search/evaluator.h"

struct ah_optimize {
    struct ah_evaluator *evaluator; /* initialised with job, costs and budgets */
    uint64_t reserve_bytes;         /* device memory outside the arena; included in the rungs of the ladder */
    enum ah_scheduling scheduling;
    uint32_t effort;         /* levels as in planner.h; 0: AH_EFFORT_DEFAULT */
    const uint32_t *allowed; /* (optional) as in search.h */
};

struct ah_optimize_result {
    bool infeasible;                  /* proven that there is no plan */
    double bound_us;                  /* 0: infeasible */
    struct ah_milp_shortage shortage; /* if infeasible */
};

int ah_optimize_run(const struct ah_optimize *optimize, struct ah_arena *arena,
                    struct ah_optimize_result *ret_result, struct ah_error *err);

/* Computes a time that no plan can beat, without a search. */
int ah_optimize_bound(const struct ah_optimize *optimize, struct ah_arena *arena,
                      struct ah_optimize_result *ret_result, struct ah_error *err);

#endif
