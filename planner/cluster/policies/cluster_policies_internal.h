/* SPDX-License-Identifier: Apache-2.0
 *
 * Shared by the policies: an arrangement to try, and the best arrangement so far.
 */
#ifndef AH_PLANNER_CLUSTER_POLICIES_CLUSTER_POLICIES_INTERNAL_H
#define AH_PLANNER_CLUSTER_POLICIES_CLUSTER_POLICIES_INTERNAL_H

#include "planner/cluster/policies/cluster_policies.h"

struct ah_policy_search {
    const struct ah_cluster_policy_input *input;
    const struct ah_cluster_problem *problem;
    struct ah_fits fits;
    struct ah_draft trial; /* the policy sets classes, blocks and micro-batches */
    struct ah_draft *best;
    double best_us; /* time of `best` or, before there is one, the time to beat */
    bool found;
};

/* Returns a lower bound on the time of an arrangement, whose stages need not be fitted; INFINITY: a stage does not
 * fit. */
double ah_cluster_policies_bound_us(struct ah_policy_search *search,
                                    const struct ah_arrangement *arrangement);

/* Fits the trial's stages, simulates it, and keeps it if it is the fastest so far. */
int ah_cluster_policies_try(struct ah_policy_search *search, struct ah_error *err);

/* Returns the rated speed of a unit of `class`; the function below, that of all stages of a pipeline together. */
double ah_cluster_policies_flops(const struct ah_policy_search *search, size_t class);
double ah_cluster_policies_pipeline_flops(const struct ah_policy_search *search,
                                          const struct ah_pipeline *pipeline);

/* Returns the relative work of a block, as a planner that counts operations and ignores the GPUs would estimate it. */
double ah_cluster_policies_work(const struct ah_policy_search *search, size_t block);

/* True if units of these classes together have memory for the states of `d` copies of the model. */
bool ah_cluster_policies_can_hold(const struct ah_cluster_problem *problem, const size_t *classes, size_t n,
                                  size_t d);

/* Shares out the micro-batches among the trial's pipelines in proportion to `weights`; each gets at least one. False:
 * there are fewer micro-batches than pipelines. */
bool ah_cluster_policies_share(struct ah_policy_search *search, const double *weights);

int ah_policy_megatron(struct ah_policy_search *search, struct ah_error *err);
int ah_policy_whale(struct ah_policy_search *search, struct ah_error *err);
int ah_policy_metis(struct ah_policy_search *search, struct ah_error *err);
int ah_policy_hexiscale(struct ah_policy_search *search, struct ah_error *err);
int ah_policy_autohet(struct ah_policy_search *search, struct ah_error *err);

#endif
