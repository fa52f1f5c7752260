/* SPDX-License-Identifier: Apache-2.0
 *
 * Holders: which reachable memories, disks and storage hold which shards. All shards are from the same step.
 *
 * A holder is a GPU's memory, a node's host memory or its disk, or storage. It is reachable if the new cluster has the
 * node (with that GPU, or with a disk) or, for storage, a `cloud`. The STEP is the newest step with every shard in some
 * holder: shards of different steps are never mixed.
 */
#ifndef AH_PLANNER_RECOVERY_HOLDERS_H
#define AH_PLANNER_RECOVERY_HOLDERS_H

#include "planner/recovery/states.h"
#include "schemas/cluster.h"

#include <stddef.h>

struct ah_holder {
    enum ah_medium medium;
    size_t node;    /* node of the cluster; storage: n_nodes */
    uint64_t gpu;   /* AH_INVENTORY_NO_GPU: the medium is not a GPU */
    uint8_t *holds; /* by shard: true if held, from the step */
};

struct ah_holders {
    struct ah_holder *entries; /* by node, then medium, then GPU; storage last */
    size_t n_entries;
    uint64_t step;
    uint64_t lost_steps;
    size_t unreachable; /* number of holdings that cannot be reached */
};

/* Finds the step and its holders, in `arena`. AH_E_INFEASIBLE: no step is complete; the message names the first missing
 * shard of the newest step, who had it and what helps. */
int ah_holders_init(struct ah_holders *ret_holders, const struct ah_inventory *inventory,
                    const struct ah_cluster *cluster, const struct ah_states *states, struct ah_arena *arena,
                    struct ah_error *err);

/* Returns the holder; NULL: it holds nothing of the step. */
const struct ah_holder *ah_holders_find(const struct ah_holders *holders, enum ah_medium medium, size_t node,
                                        uint64_t gpu);

/* Returns the first holder on `node` with the shard in host memory, otherwise in a GPU's; NULL: none. */
const struct ah_holder *ah_holders_in_memory(const struct ah_holders *holders, size_t node, size_t shard);

#endif
