/* SPDX-License-Identifier: Apache-2.0
 *
 * Relabel: the same plan with equal things renamed, so that as many bytes as possible stay where they are.
 *
 * Two things may be renamed without changing the time of a step: nodes with the same GPUs and the same rates that no pair
 * of the cluster document names, and the GPUs of a node. Both are assignments of largest weight: of the GPUs of each pair
 * of nodes first (bytes that a GPU keeps in its memory, or its host in its own), then of the nodes (bytes that are on the
 * node already count eight times those).
 */
#ifndef AH_PLANNER_RECOVERY_RELABEL_H
#define AH_PLANNER_RECOVERY_RELABEL_H

#include "planner/recovery/holders.h"
#include "schemas/cluster_plan.h"

/* Changes nodes and ranks of `plan`, whose lists are in an arena of the caller's; new texts are the cluster's. AH_E_MEMORY;
 * AH_E_MISMATCH as ah_roles_init(). */
int ah_relabel_plan(const struct ah_cluster *cluster, const struct ah_states *states,
                    const struct ah_holders *holders, struct ah_arena *arena, struct ah_cluster_plan *plan,
                    struct ah_error *err);

#endif
