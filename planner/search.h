/* SPDX-License-Identifier: Apache-2.0
 *
 * Search: the best choice that a budget of work finds.
 *
 *     struct ah_search search = {.trial = &trial, .orders = 1, .counts = &milp, .n_counts = 1, .work = 100000};
 *     rc = ah_search_run(&search, err);      // the result is trial.best
 *
 * What is found does not depend on how many threads there are.
 */
#ifndef AH_PLANNER_SEARCH_H
#define AH_PLANNER_SEARCH_H

#include "base/pool.h"
#include "planner/milp.h"
#include "planner/trial.h"

enum { AH_SEARCH_ORDERS = AH_BLOCK_MAJOR + 1 };

struct ah_search {
    struct ah_trial *trial;
    struct ah_pool *pool;                /* (optional) chains run side by side on it */
    const struct ah_milp_result *counts; /* (optional) results whose candidates are placed first */
    size_t n_counts;
    /* (optional) by order: its prices say which assignments to try */
    const struct ah_milp_result *bounds[AH_SEARCH_ORDERS];
    const uint32_t *allowed; /* (optional) by block: bit i allows the i-th of ah_configs(); NULL: all */
    double us_per_byte;      /* what a byte of the device is worth to chains; 0: nothing */
    enum ah_scheduling scheduling;
    int orders;    /* of micro-batches: the first so many of enum ah_micro_order */
    uint64_t work; /* to be spent by chains (trial.h) */
    size_t runs; /* of few blocks (AH_FEW_BLOCKS), each with an eighth of the work; 0: one, with all of it */
    uint64_t all_below; /* of few blocks, tries all assignments that may be faster, if they are fewer */
};

/* Improves trial->best, or finds one. Whether there is one is trial->found. */
int ah_search_run(const struct ah_search *search, struct ah_error *err);

#endif
