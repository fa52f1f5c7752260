/* SPDX-License-Identifier: Apache-2.0
 *
 * Grouping: a bound on the step, tighter than the relaxation (relaxation.h) but much more work. It takes into account
 * that units form pipelines of whole blocks that fit, and that gradients are added up.
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

/* A pipeline of `micro_batches`: how many units of each kind could form it. */
struct ah_grouping_column {
    double micro_batches;
    uint8_t units[AH_PIPELINE_PRICING_KINDS];
};

struct ah_grouping {
    const struct ah_cluster_problem *problem; /* borrowed */
    struct ah_pipeline_pricing pricing;
    double update_us;                   /* lower bound on the longest update */
    struct ah_grouping_column *columns; /* owned: pipelines found while proving the last case */
    size_t n_columns;
    double units[AH_PIPELINE_PRICING_KINDS];  /* by kind: number of units */
    double prices[AH_PIPELINE_PRICING_KINDS]; /* of units, in micro-batches; kept for the next proof */
    double base;                              /* price of a pipeline without its units */
};

/* Prepares proofs about a problem. `ret_can` false, with nothing allocated: the problem has no units, too many kinds or
 * blocks, or two classes in a node. AH_E_MEMORY. */
int ah_grouping_init(struct ah_grouping *ret_grouping, const struct ah_cluster_problem *problem,
                     bool *ret_can, struct ah_error *err);
void ah_grouping_release(struct ah_grouping *grouping);

/* Tries to prove that every arrangement's simulation takes `step_us` or more. `ret_does` false: there was no proof in
 * about `*steps` steps. Subtracts the work done from `*steps`. AH_E_MEMORY. */
int ah_grouping_proves(struct ah_grouping *grouping, double step_us, uint64_t *steps, bool *ret_does,
                       struct ah_error *err);

#endif
