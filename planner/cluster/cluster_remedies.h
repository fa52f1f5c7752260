/* SPDX-License-Identifier: Apache-2.0
 *
 * Remedies for a cluster that has no plan: changes of the request or the cluster. Each was planned alone and gives a
 * plan. Kinds are tried in the order of the list, with a quick search: whatever it finds, a long search finds, too.
 */
#ifndef AH_PLANNER_CLUSTER_CLUSTER_REMEDIES_H
#define AH_PLANNER_CLUSTER_CLUSTER_REMEDIES_H

#include "planner/cluster/cluster_planner.h"

enum ah_cluster_remedy_kind {
    AH_CLUSTER_REMEDY_WITH,          /* with what the request leaves out (request.without) */
    AH_CLUSTER_REMEDY_POLICY,        /* `optimal` */
    AH_CLUSTER_REMEDY_TP,            /* a degree of its own for each type of GPU */
    AH_CLUSTER_REMEDY_MICRO_BATCHES, /* value: their number; each is smaller */
    AH_CLUSTER_REMEDY_NODES,         /* value: number of nodes to add, like `node` */
    AH_CLUSTER_REMEDY_SEQ,           /* value: tokens; changes the mathematics */
    AH_CLUSTER_REMEDY_STATE_DTYPE,   /* bf16; changes the mathematics */
    AH_CLUSTER_REMEDIES
};

struct ah_cluster_remedy {
    enum ah_cluster_remedy_kind kind;
    uint64_t value;
    const struct ah_cluster_node *node; /* of the request's cluster */
    double step_us;                     /* of the plan that it gives */
};

struct ah_cluster_remedies {
    struct ah_cluster_remedy items[AH_CLUSTER_REMEDIES];
    size_t n;
};

/* Finds remedies for a request that ah_cluster_planner_plan() refused with this shortage. After AH_E_INTERRUPTED or
 * AH_E_MEMORY the list may be incomplete. */
int ah_cluster_remedies_find(const struct ah_cluster_request *request,
                             const struct ah_cluster_shortage *shortage,
                             struct ah_cluster_remedies *ret_remedies, struct ah_error *err);

#endif
