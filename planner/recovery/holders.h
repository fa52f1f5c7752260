/* SPDX-License-Identifier: Apache-2.0
 *
 * Holders: which reachable memories, disks and storage have which shards of one step.
 *
 * A holder is a GPU's memory, a node's host memory or disk, or storage. It is reachable if the new cluster has its node
 * (with that GPU, or with a disk) or, for storage, a `cloud`. The STEP is the newest one with every shard in some
 * holder: shards of different steps are never mixed.
 */
#ifndef AH_PLANNER_RECOVERY_HOLDERS_H
#define AH_PLANNER_RECOVERY_HOLDERS_H

#include "planner/recovery/states.h"
#include "schemas/cluster.h"

#include <stddef.h>

struct ah_holder {
    enum ah_medium medium;
    size_t node;    /* index in the cluster; n_nodes for storage */
    uint64_t gpu;   /* AH_INVENTORY_NO_GPU: the medium is not a GPU */
    uint8_t *holds; /* by shard: true if the holder has it, from the step */
};

struct ah_holders {
    struct ah_holder *entries; /* sorted by node, then medium, then GPU; storage is last */
    size_t n_entries;
    uint64_t step;
    uint64_t lost_steps;
    size_t unreachable; /* number of unreachable holdings */
};

/* Finds the step and its holders, in `arena`. AH_E_INFEASIBLE: no step is complete; the message names the first shard
 * missing from the newest step, its former holder, and a remedy. */
int ah_holders_init(struct ah_holders *ret_holders, const struct ah_inventory *inventory,
                    const struct ah_cluster *cluster, const struct ah_states *states, struct ah_arena *arena,
                    struct ah_error *err);

/* Returns a holder; NULL: there is none, or it has no shard of the step. */
const struct ah_holder *ah_holders_find(const struct ah_holders *holders, enum ah_medium medium, size_t node,
                                        uint64_t gpu);

/* Returns the holder of a shard on `node`: host memory if it has the shard, otherwise the first GPU; NULL: none. */
const struct ah_holder *ah_holders_in_memory(const struct ah_holders *holders, size_t node, size_t shard);

#endif
