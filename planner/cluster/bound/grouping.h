/* SPDX-License-Identifier: Apache-2.0
 *
 * Grouping: a bound on the step that takes into account that units form pipelines of whole blocks that fit, and that
 * gradients are added up. It is tighter than the relaxation (relaxation.h), and takes much more work.
 *
 *     bool can;
 *     ah_grouping_init(&grouping, problem, &can, err);
 *     if (can)
 *         ah_grouping_proves(&grouping, step_us, &steps, &does, err);      any number of times
 *     ah_grouping_release(&grouping);
 */
#ifndef AH_PLANNER_CLUSTER_BOUND_GROUPING_H
#define AH_PLANNER_CLUSTER_BOUND_GROUPING_H

#include "base/error.h"
#include "planner/cluster/bound/pipeline_pricing.h"

/* Units of each kind that could form a pipeline of `micro_batches`. */
struct ah_grouping_column {
    double micro_batches;
    uint8_t units[AH_PIPELINE_PRICING_KINDS];
};

struct ah_grouping {
    const struct ah_cluster_problem *problem; /* borrowed */
    struct ah_pipeline_pricing pricing;
    double update_us;                   /* least duration of the longest update */
    struct ah_grouping_column *columns; /* owned: pipelines that were found in the last case */
    size_t n_columns;
    double units[AH_PIPELINE_PRICING_KINDS]; /* by kind: number of units */
    double
        prices[AH_PIPELINE_PRICING_KINDS]; /* of units, in micro-batches; the next proof begins with them */
    double base;                           /* price of a pipeline without its units */
};

/* `ret_can` false: the problem has no units, too many kinds or blocks, or two classes in a node; nothing is allocated.
 * AH_E_MEMORY. */
int ah_grouping_init(struct ah_grouping *ret_grouping, const struct ah_cluster_problem *problem,
                     bool *ret_can, struct ah_error *err);
void ah_grouping_release(struct ah_grouping *grouping);

/* Tries to prove that every arrangement's simulation takes `step_us` or more. `ret_does` false: not proven in about
 * `*steps` steps; the work done is subtracted from them. AH_E_MEMORY. */
int ah_grouping_proves(struct ah_grouping *grouping, double step_us, uint64_t *steps, bool *ret_does,
                       struct ah_error *err);

#endif
