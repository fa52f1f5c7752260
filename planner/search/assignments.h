/* SPDX-License-Identifier: Apache-2.0
 *
 * Assignments: tries all ways to give each block one of its configs, or only those that may beat the best so far.
 *
 *     struct ah_assignments set;
 *     rc = ah_assignments_init(&set, &vary, &milp, err);           // all
 *     set.most_us = best_us - milp.base_us;                        // only those that may be faster
 *     rc = ah_assignments_try(&set, &evaluator, &knobs, &list, err);   // any number of times
 *     ah_assignments_release(&set);
 */
#ifndef AH_PLANNER_SEARCH_ASSIGNMENTS_H
#define AH_PLANNER_SEARCH_ASSIGNMENTS_H

#include "planner/bound/milp.h"
#include "planner/search/evaluator.h"
#include "planner/search/shortlist.h"
#include "planner/search/vary.h"

/* The configs of one block, in ascending order of price. The first has price 0. */
struct ah_assignments_menu {
    struct ah_config configs[AH_CONFIGS_MAX];
    double prices_us[AH_CONFIGS_MAX];
    size_t n;
};

struct ah_assignments {
    size_t n_blocks;
    struct ah_assignments_menu *menus; /* by block; owned */
    struct ah_config *configs;         /* by block; owned; the assignment being tried */
    double most_us;                    /* largest allowed sum of an assignment's prices */
};

/* Makes the set of all assignments. Prices come from `bound` (optional); without it, all prices are 0. */
int ah_assignments_init(struct ah_assignments *set, const struct ah_vary *vary,
                        const struct ah_milp_result *bound, struct ah_error *err);

/* Returns the number of assignments, at most `most`. */
uint64_t ah_assignments_count(const struct ah_assignments *set, uint64_t most);

/* Tries the assignments of the set with these knobs, whatever the evaluator's limit on work. Adds those that were
 * evaluated and fit to `list` (optional). */
int ah_assignments_try(const struct ah_assignments *set, struct ah_evaluator *evaluator,
                       const struct ah_knobs *knobs, struct ah_shortlist *list, struct ah_error *err);

void ah_assignments_release(struct ah_assignments *set);

#endif
