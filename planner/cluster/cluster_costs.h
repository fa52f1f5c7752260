/* SPDX-License-Identifier: Apache-2.0
 *
 * Cluster costs: computes the numbers of a problem from documents. docs/clusters.md has the formulas and the shares of
 * peak rates; measured times in the cluster document (`times`) are used unchanged.
 */
#ifndef AH_PLANNER_CLUSTER_CLUSTER_COSTS_H
#define AH_PLANNER_CLUSTER_CLUSTER_COSTS_H

#include "base/arena.h"
#include "base/error.h"
#include "planner/cluster/cluster_problem.h"
#include "schemas/cluster.h"
#include "schemas/model.h"
#include "schemas/plan.h"

struct ah_cluster_costs_input {
    const struct ah_model *model;
    const char *model_sha256;
    const struct ah_cluster *cluster;
    struct ah_plan_training training; /* micro_batches: the sum over all pipelines */
    const uint64_t *tp;               /* by type of GPU; 0: the type is not used */
    unsigned without;                 /* enum ah_offload_without (offload_costs.h) */
    bool
        separate_sums; /* pipelines may sum groups separately, in a second vector (runtime/schedule/fold.h) */
};

/* True if a unit of `tp` GPUs can share this model's blocks. */
bool ah_cluster_costs_divides(const struct ah_model *model, uint64_t tp);

/* Fills a problem, in `arena`. Its classes are the nodes with a unit, in the cluster's order. `update_limit_us` stays
 * 0; the caller sets it if blocks may be away. `ret_estimated`: some times were not measured. AH_E_USAGE: also if a
 * type of GPU cannot multiply matrices in the training's dtype. AH_E_USAGE, AH_E_DOCUMENT: as ah_job_init(). */
int ah_cluster_costs_build(const struct ah_cluster_costs_input *input, struct ah_arena *arena,
                           struct ah_cluster_problem *ret_problem, bool *ret_estimated, struct ah_error *err);

#endif
