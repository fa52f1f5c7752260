/* SPDX-License-Identifier: Apache-2.0
 *
 * Search: finds the best choice within a budget of work.
 *
 *     struct ah_search search = {.evaluator = &evaluator, .orders = 1, .counts = &milp, .n_counts = 1, .work = 100000};
 *     rc = ah_search_run(&search, err);      // the result is evaluator.best
 *
 * The result does not depend on the number of threads.
 */
#ifndef AH_PLANNER_SEARCH_SEARCH_H
#define AH_PLANNER_SEARCH_SEARCH_H

#include "base/pool.h"
#include "planner/bound/milp.h"
#include "planner/search/evaluator.h"

enum { AH_SEARCH_ORDERS = AH_BLOCK_MAJOR + 1 };

struct ah_search {
    struct ah_evaluator *evaluator;
    struct ah_pool *pool;                /* (optional) runs chains in parallel */
    const struct ah_milp_result *counts; /* (optional) their candidates are placed as starts */
    size_t n_counts;
    /* (optional) by micro-batch order: results whose prices limit the assignments to try */
    const struct ah_milp_result *bounds[AH_SEARCH_ORDERS];
    const uint32_t *allowed; /* (optional) by block: bit i allows the i-th of ah_configs(); NULL: all */
    double us_per_byte;      /* time that a chain trades for a byte of the device */
    enum ah_scheduling scheduling;
    int orders;    /* the search uses the first `orders` values of enum ah_micro_order */
    uint64_t work; /* the work that chains may spend (evaluator.h) */
    /* with few blocks: number of runs, each with work / 8; 0: one run with all */
    size_t runs;
    uint64_t all_below; /* tries all assignments that may be faster if there are fewer than this */
};

/* Improves evaluator->best or finds a first choice; evaluator->found tells whether there is one. */
int ah_search_run(const struct ah_search *search, struct ah_error *err);

#endif
