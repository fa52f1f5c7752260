/* SPDX-License-Identifier: Apache-2.0
 *
 * Cluster policies: the arrangements that other systems would make for a problem, with the best values of their knobs.
 * docs/policies has a page for each system, with its sources and limits.
 *
 *     struct ah_cluster_policy_input input = {.problem = &problem, .flops_per_s = rates, ...};
 *     rc = ah_cluster_policies_search(&input, AH_CLUSTER_POLICY_MEGATRON, INFINITY, &best, &us, err);
 *     if (!isinf(us)) ... best.arrangement
 *
 * A problem fixes the degrees of tensor parallelism and the micro-batches; the caller tries several problems.
 *
 * Invariants of a policy's result, checked by tests:
 * 1. No GPU is in two stages, and no stage exceeds its memory.
 * 2. Its time is from ah_stage_sim_run(), as in our own search: no policy has a clock of its own.
 * 3. The same input gives the same arrangement.
 */
#ifndef AH_PLANNER_CLUSTER_POLICIES_CLUSTER_POLICIES_H
#define AH_PLANNER_CLUSTER_POLICIES_CLUSTER_POLICIES_H

#include "base/error.h"
#include "planner/cluster/search/draft.h"
#include "schemas/cluster_plan.h"

/* A problem, and numbers outside the problem that the systems' own planners use. */
struct ah_cluster_policy_input {
    const struct ah_cluster_problem *problem;
    const double *flops_per_s; /* (kinds): rated speed of a GPU of the type */
    uint64_t width, seq, vocabulary;
    uint64_t sequences; /* sequences of a micro-batch */
};

/* True if the policy needs problems in which all units have the same degree. */
bool ah_cluster_policies_symmetric(enum ah_cluster_policy policy);

/* Writes the best arrangement of `policy` (any but `optimal`) to `best`, a draft for the problem. `ret_us`: the time of
 * its step; INFINITY: no arrangement that fits takes less than `none_above_us`. AH_E_MEMORY. */
int ah_cluster_policies_search(const struct ah_cluster_policy_input *input, enum ah_cluster_policy policy,
                               double none_above_us, struct ah_draft *best, double *ret_us,
                               struct ah_error *err);

#endif
