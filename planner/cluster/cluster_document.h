/* SPDX-License-Identifier: Apache-2.0
 *
 * Cluster document: writes an arrangement as a cluster-plan document.
 */
#ifndef AH_PLANNER_CLUSTER_CLUSTER_DOCUMENT_H
#define AH_PLANNER_CLUSTER_CLUSTER_DOCUMENT_H

#include "base/arena.h"
#include "base/error.h"
#include "planner/cluster/cluster_planner.h"
#include "planner/cluster/cluster_problem.h"
#include "schemas/cluster.h"
#include "schemas/cluster_plan.h"

/* Returns a plan with the inputs of `request` and this training, both borrowed, and nothing else. */
struct ah_cluster_plan ah_cluster_document_begin(const struct ah_cluster_request *request,
                                                 const struct ah_plan_training *training);

/* Fills pipelines, segments, idle ranks, blocks and the simulation's predictions, in `arena`. Names are borrowed from
 * the cluster. `plan->training` must be set. AH_E_MEMORY. */
int ah_cluster_document_fill(const struct ah_cluster *cluster, const struct ah_cluster_problem *problem,
                             const struct ah_arrangement *arrangement, struct ah_arena *arena,
                             struct ah_cluster_plan *plan, struct ah_error *err);

#endif
