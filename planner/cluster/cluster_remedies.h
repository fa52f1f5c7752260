/* SPDX-License-Identifier: Apache-2.0
 *
 * Remedies for a cluster without a plan: changes of the request or the cluster, each planned alone and found to help.
 * Kinds are tried in the order of the list, with a quick search. A longer search would find at least as much.
 */
#ifndef AH_PLANNER_CLUSTER_CLUSTER_REMEDIES_H
#define AH_PLANNER_CLUSTER_CLUSTER_REMEDIES_H

#include "planner/cluster/cluster_planner.h"

enum ah_cluster_remedy_kind {
    AH_CLUSTER_REMEDY_WITH,          /* allow what request.without forbids */
    AH_CLUSTER_REMEDY_POLICY,        /* use the policy `optimal` */
    AH_CLUSTER_REMEDY_TP,            /* allow a different degree for each type of GPU */
    AH_CLUSTER_REMEDY_MICRO_BATCHES, /* value: a larger number of micro-batches, so each is smaller */
    AH_CLUSTER_REMEDY_NODES,         /* value: number of nodes to add, like `node` */
    AH_CLUSTER_REMEDY_SEQ,           /* value: tokens of a sequence; changes the mathematics */
    AH_CLUSTER_REMEDY_STATE_DTYPE,   /* states in bf16; changes the mathematics */
    AH_CLUSTER_REMEDIES
};

struct ah_cluster_remedy {
    enum ah_cluster_remedy_kind kind;
    uint64_t value;
    const struct ah_cluster_node *node; /* a node of the request's cluster; for NODES */
    double step_us;                     /* step time of the plan with this change */
};

struct ah_cluster_remedies {
    struct ah_cluster_remedy items[AH_CLUSTER_REMEDIES];
    size_t n;
};

/* Finds remedies for a request refused by ah_cluster_planner_plan() with this shortage. After AH_E_INTERRUPTED or
 * AH_E_MEMORY the list may be incomplete. */
int ah_cluster_remedies_find(const struct ah_cluster_request *request,
                             const struct ah_cluster_shortage *shortage,
                             struct ah_cluster_remedies *ret_remedies, struct ah_error *err);

#endif
