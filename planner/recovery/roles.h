/* SPDX-License-Identifier: Apache-2.0
 *
 * Roles: which shards each GPU of a cluster plan needs.
 *
 * A role is a rank of a stage: its blocks and slices, and the place of each kind of each block, on the GPU or the host.
 */
#ifndef AH_PLANNER_RECOVERY_ROLES_H
#define AH_PLANNER_RECOVERY_ROLES_H

#include "planner/recovery/holders.h"
#include "schemas/cluster_plan.h"
#include "schemas/moves.h"

struct ah_gpu_role {
    uint64_t rank;
    size_t node;                               /* index in the cluster */
    uint64_t gpu;                              /* index in the node */
    const struct ah_cluster_plan_stage *stage; /* borrowed */
    size_t first_slice, end_slice;
};

struct ah_roles {
    struct ah_gpu_role *items; /* by rank */
    size_t n;
};

/* Makes the roles, in `arena`, in the order of ranks. AH_E_MISMATCH: the cluster lacks a node or a rank, or a degree
 * does not divide the slices. */
int ah_roles_init(struct ah_roles *ret_roles, const struct ah_cluster_plan *plan,
                  const struct ah_cluster *cluster, const struct ah_states *states, struct ah_arena *arena,
                  struct ah_error *err);

/* True if the shard belongs to the role's blocks and slices. The shard must have bytes. */
bool ah_role_needs(const struct ah_gpu_role *role, const struct ah_states *states, size_t shard);

/* Returns whether the role needs the shard on the GPU or on the host. */
enum ah_destination ah_role_destination(const struct ah_gpu_role *role, const struct ah_states *states,
                                        size_t shard);

/* Returns the memory where the role needs the shard, if the shard is already there; NULL: it is not. */
const struct ah_holder *ah_role_kept(const struct ah_gpu_role *role, const struct ah_states *states,
                                     const struct ah_holders *holders, size_t shard);

#endif
