/* SPDX-License-Identifier: Apache-2.0
 *
 * Shortlist: the best choices tried, no two with the same configs. A choice that is best with the knobs tried may be
 * worse than another once each has its own best knobs. So every choice on the list is improved as far as changes help.
 *
 *     struct ah_shortlist list;
 *     rc = ah_shortlist_init(&list, n_blocks, 16, err);
 *     ah_shortlist_take(&list, configs, &knobs, period_us);            // after each trial that fits
 *     rc = ah_shortlist_climb(&list, &evaluator, &vary, work, err);        // evaluator.best follows
 *     ah_shortlist_release(&list);
 */
#ifndef AH_PLANNER_SEARCH_SHORTLIST_H
#define AH_PLANNER_SEARCH_SHORTLIST_H

#include "planner/search/evaluator.h"
#include "planner/search/vary.h"

struct ah_shortlisted {
    struct ah_config *configs; /* by block */
    struct ah_knobs knobs;
    double period_us;
};

struct ah_shortlist {
    struct ah_shortlisted *entries; /* owned; the fastest first */
    struct ah_config *configs;      /* owned: configs of all entries */
    size_t n, most, n_blocks;
};

int ah_shortlist_init(struct ah_shortlist *list, size_t n_blocks, size_t most, struct ah_error *err);

/* Adds a choice that fits, if its period is among the shortest. */
void ah_shortlist_take(struct ah_shortlist *list, const struct ah_config *configs,
                       const struct ah_knobs *knobs, double period_us);

/* Climbs from each entry, the fastest first, until no change helps or the evaluator has spent `work` more. A change
 * concerns one knob, the configs of two blocks, or the config of one block together with a knob. Empties the list. */
int ah_shortlist_climb(struct ah_shortlist *list, struct ah_evaluator *evaluator, const struct ah_vary *vary,
                       uint64_t work, struct ah_error *err);

void ah_shortlist_release(struct ah_shortlist *list);

#endif
