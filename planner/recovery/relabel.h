/* SPDX-License-Identifier: Apache-2.0
 *
 * Relabel: exchanges the names of equal things in a plan, so that as many bytes as possible stay where they are.
 *
 * Two kinds of things can be exchanged without changing the time of a step: GPUs of one node, and nodes with the same
 * GPUs and rates that no pair of the cluster document names. Both are assignments of largest weight (assignment.h).
 * First, for each pair of nodes, GPUs are assigned by the bytes kept in a GPU's or its host's memory. Then nodes are
 * assigned; a byte anywhere on the node counts eight times as much as a kept byte.
 */
#ifndef AH_PLANNER_RECOVERY_RELABEL_H
#define AH_PLANNER_RECOVERY_RELABEL_H

#include "planner/recovery/holders.h"
#include "schemas/cluster_plan.h"

/* Changes nodes and ranks of `plan` in place. The caller owns its lists; new texts are borrowed from the cluster.
 * AH_E_MEMORY; AH_E_MISMATCH: as ah_roles_init(). */
int ah_relabel_plan(const struct ah_cluster *cluster, const struct ah_states *states,
                    const struct ah_holders *holders, struct ah_arena *arena, struct ah_cluster_plan *plan,
                    struct ah_error *err);

#endif
