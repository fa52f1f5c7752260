/* SPDX-License-Identifier: Apache-2.0
 *
 * Grouping: how fast a step can be at most, as the units have to form pipelines of whole blocks that fit, and gradients
 * have to be added up. Closer than the relaxation (relaxation.h), and much more work.
 *
 *     bool can;
 *     ah_grouping_init(&grouping, instance, &can, err);
 *     if (can)
 *         ah_grouping_proves(&grouping, step_us, &steps, &does, err);      as often as one likes
 *     ah_grouping_release(&grouping);
 */
#ifndef AH_PLANNER_CLUSTER_GROUPING_H
#define AH_PLANNER_CLUSTER_GROUPING_H

#include "base/error.h"
#include "planner/cluster/compositions.h"

/* Units of each kind that could be a pipeline of so many micro-batches. */
struct ah_grouping_column {
    double micro_batches;
    uint8_t units[AH_COMPOSITIONS_KINDS];
};

struct ah_grouping {
    const struct ah_instance *instance; /* borrowed */
    struct ah_compositions compositions;
    double update_us;                   /* the longest, at least */
    struct ah_grouping_column *columns; /* owned: pipelines that were found, of the last case */
    size_t n_columns;
    double units[AH_COMPOSITIONS_KINDS]; /* there are, by kind */
    double prices
        [AH_COMPOSITIONS_KINDS]; /* of a unit, in micro-batches: of the last question, and for the next one */
    double base;                 /* price of a pipeline */
};

/* False in `ret_can`: the instance has too many kinds or blocks, or a node units of two kinds; nothing was made.
 * AH_E_MEMORY. */
int ah_grouping_init(struct ah_grouping *ret_grouping, const struct ah_instance *instance, bool *ret_can,
                     struct ah_error *err);
void ah_grouping_release(struct ah_grouping *grouping);

/* Is every arrangement rehearsed in `step_us` or more? False: not proven, in about so many `steps`; they fall by what was
 * done. AH_E_MEMORY. */
int ah_grouping_proves(struct ah_grouping *grouping, double step_us, uint64_t *steps, bool *ret_does,
                       struct ah_error *err);

#endif
