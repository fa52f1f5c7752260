/* SPDX-License-Identifier: Apache-2.0
 *
 * Cluster costs: from documents to the numbers of an instance. docs/clusters.md says which formulas and which shares of
 * peak rates; what the cluster document measured (`times`) is taken as it is.
 */
#ifndef AH_PLANNER_CLUSTER_CLUSTER_COSTS_H
#define AH_PLANNER_CLUSTER_CLUSTER_COSTS_H

#include "base/arena.h"
#include "base/error.h"
#include "planner/cluster/instance.h"
#include "schemas/cluster.h"
#include "schemas/model.h"
#include "schemas/plan.h"

struct ah_cluster_costs_input {
    const struct ah_model *model;
    const char *model_sha256;
    const struct ah_cluster *cluster;
    struct ah_plan_training training; /* micro_batches: of all pipelines together */
    const uint64_t *tp;               /* by type of GPU; 0: the type is not used */
    unsigned without;                 /* enum ah_away_without (away.h) */
    bool apart; /* a pipeline may add up groups apart: sums have a second place (runtime/schedule/fold.h) */
};

/* Can a unit of `tp` GPUs share this model's blocks? */
bool ah_cluster_costs_divides(const struct ah_model *model, uint64_t tp);

/* Fills an instance, in `arena`; its classes are the nodes that have a unit, in their order. Its `update_limit_us` is 0:
 * the caller says what may be away. `ret_estimated`: some times are not measured. AH_E_USAGE, AH_E_DOCUMENT as ah_job_init();
 * AH_E_USAGE: a type has no products of the training's. */
int ah_cluster_costs_build(const struct ah_cluster_costs_input *input, struct ah_arena *arena,
                           struct ah_instance *ret_instance, bool *ret_estimated, struct ah_error *err);

#endif
