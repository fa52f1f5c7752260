/* SPDX-License-Identifier: Apache-2.0
 *
 * Search: the best choice that a budget of trials finds.
 *
 * Few assignments are all tried. Many are searched: counts of the MILP are placed block by block, the best of these is
 * improved by moves (a run of blocks, or a part of it, gets another value of one field; where that does not fit, a
 * second move makes room), then by the knobs, until nothing helps or the budget is spent.
 *
 *     struct ah_search search = {.trial = &trial, .counts = &milp, .n_counts = 1};
 *     rc = ah_search_run(&search, err);      // the result is trial.best
 */
#ifndef AH_PLANNER_SEARCH_H
#define AH_PLANNER_SEARCH_H

#include "planner/milp.h"
#include "planner/trial.h"

struct ah_search {
    struct ah_trial *trial;
    const struct ah_milp_result *counts; /* (optional) results whose candidates are placed first */
    size_t n_counts;
    const uint32_t *allowed;      /* (optional) by block: bit i allows the i-th of ah_configs(); NULL: all */
    const struct ah_knobs *knobs; /* (optional) these and no others */
    enum ah_scheduling scheduling;
    enum ah_micro_order micro_order;
    uint64_t all_below; /* try all assignments where they are at most so many */
};

/* Improves trial->best, or finds one. Whether there is one is trial->found. */
int ah_search_run(const struct ah_search *search, struct ah_error *err);

#endif
