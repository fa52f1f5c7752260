/* SPDX-License-Identifier: Apache-2.0
 *
 * Holders: which places that can still be reached hold which shards, of the one step that all are taken from.
 *
 * A place is a GPU's memory, a node's host memory or its disk, or storage. It can be reached if the new cluster has the node
 * (with that many GPUs; with a disk) or, for storage, a `cloud`. The STEP is the newest of which every shard is in some
 * place: shards of different steps are never mixed.
 */
#ifndef AH_PLANNER_RECOVERY_HOLDERS_H
#define AH_PLANNER_RECOVERY_HOLDERS_H

#include "planner/recovery/states.h"
#include "schemas/cluster.h"

#include <stddef.h>

struct ah_place {
    enum ah_medium medium;
    size_t node;    /* of the cluster; storage: n_nodes */
    uint64_t gpu;   /* AH_INVENTORY_NO_GPU: another medium */
    uint8_t *holds; /* by shard */
};

struct ah_holders {
    struct ah_place *places; /* by node, then medium, then GPU; storage last */
    size_t n_places;
    uint64_t step;
    uint64_t lost_steps;
    size_t unreachable; /* holdings */
};

/* In `arena`. AH_E_INFEASIBLE: no step is complete; names the first shard that is missing of the newest one, who had it
 * and what helps. */
int ah_holders_init(struct ah_holders *ret_holders, const struct ah_inventory *inventory,
                    const struct ah_cluster *cluster, const struct ah_states *states, struct ah_arena *arena,
                    struct ah_error *err);

/* The place, or NULL: it holds nothing of the step. */
const struct ah_place *ah_holders_find(const struct ah_holders *holders, enum ah_medium medium, size_t node,
                                       uint64_t gpu);

/* The first place on `node` with the shard in host memory, or else in a GPU's; NULL: none. */
const struct ah_place *ah_holders_in_memory(const struct ah_holders *holders, size_t node, size_t shard);

#endif
