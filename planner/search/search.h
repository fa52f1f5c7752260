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
    const struct ah_milp_result *counts; /* (optional) results whose candidates are placed first */
    size_t n_counts;
    /* (optional) by order: its prices say which assignments to try */
    const struct ah_milp_result *bounds[AH_SEARCH_ORDERS];
    const uint32_t *allowed; /* (optional) by block: bit i allows the i-th of ah_configs(); NULL: all */
    double us_per_byte;      /* worth of a byte of the device to chains */
    enum ah_scheduling scheduling;
    int orders;    /* the first `orders` of enum ah_micro_order may be used */
    uint64_t work; /* the work that chains may spend (evaluator.h) */
    size_t runs;   /* with few blocks (AH_FEW_BLOCKS): runs, each with work / 8; 0: one, with all of it */
    uint64_t all_below; /* with few blocks: tries all assignments that may be faster if there are fewer */
};

/* Improves evaluator->best, or finds a first choice; evaluator->found says whether there is one. */
int ah_search_run(const struct ah_search *search, struct ah_error *err);

#endif
