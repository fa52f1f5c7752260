/* SPDX-License-Identifier: Apache-2.0
 *
 * Cluster verify: rebuilds a cluster plan from its model, its cluster and its decisions, and compares.
 *
 *     const struct ah_cluster_verify_inputs inputs = {model, model_sha256, cluster, cluster_sha256};
 *     rc = ah_cluster_verify(plan, &inputs, err);
 *
 * The decisions are pipelines, the node, degree, blocks and configs of each stage, micro-batches, and ranks. All else
 * must follow from them on that cluster: memory, times, starts, sums and their groups, programs, the predicted step.
 * `solver`, which would need a new search, and names of inputs are not verified.
 */
#ifndef AH_PLANNER_CLUSTER_CLUSTER_VERIFY_H
#define AH_PLANNER_CLUSTER_CLUSTER_VERIFY_H

#include "base/error.h"
#include "schemas/cluster.h"
#include "schemas/cluster_plan.h"
#include "schemas/model.h"

struct ah_cluster_verify_inputs {
    const struct ah_model *model;
    const char *model_sha256; /* ah_document_digest() */
    const struct ah_cluster *cluster;
    const char *cluster_sha256;
};

/* Verifies a plan read from a document. AH_E_MISMATCH: the plan was made from other documents. AH_E_DOCUMENT: a value
 * is wrong; the message begins with its path in the plan. AH_E_MEMORY. */
int ah_cluster_verify(const struct ah_cluster_plan *plan, const struct ah_cluster_verify_inputs *inputs,
                      struct ah_error *err);

#endif
