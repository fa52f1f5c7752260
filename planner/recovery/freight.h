/* SPDX-License-Identifier: Apache-2.0
 *
 * Freight: what has to move for a cluster plan, by which ways, and how long that takes.
 *
 * A GPU of a stage needs its slices of all kinds of the stage's blocks: in its own memory, or in the host's where the
 * plan's configs keep weights or states there. What it or the host has already is kept. A shard that is elsewhere in the
 * memory of its node comes from there (tier `node`). Any other is brought to the node once, to the first rank that needs
 * it, and reaches the others inside the node. How it is brought is a delivery (delivery.h) over these resources:
 *
 *     way out of and into the NIC of each node; each node's disk; storage for each node, and for all together; pairs of
 *     nodes that the cluster document says are slower.
 *
 * Into a GPU's memory go at most its node's host_link_bytes_per_s, or intra_bytes_per_s where that is not known, whatever
 * comes from where.
 *
 * SOURCES. near: no byte comes from farther than it must: a shard on the node's disk is read there; else one that any node
 * has comes from a peer; else, and only then, from storage, once, and is relayed. fast: all of these are options of every
 * shard, and so is storage by way of another node, which fetches it and passes it on; in that order where they take equally
 * long.
 *
 * BASELINE: every node fetches all that its GPUs need from storage, each shard once a node.
 */
#ifndef AH_PLANNER_RECOVERY_FREIGHT_H
#define AH_PLANNER_RECOVERY_FREIGHT_H

#include "planner/recovery/delivery.h"
#include "planner/recovery/holders.h"
#include "schemas/cluster_plan.h"
#include "schemas/moves.h"

struct ah_freight_input {
    const struct ah_cluster *cluster;
    const struct ah_states *states;
    const struct ah_holders *holders;
    const struct ah_cluster_plan *plan;
    enum ah_sources sources;
    struct ah_delivery_limits limits;
};

/* Fills `bytes`, `moves` and of `predicted` time, bound, gap, limit, baseline and speed-up, in `arena`. AH_E_MEMORY;
 * AH_E_FAILED as the solver. */
int ah_freight_plan(const struct ah_freight_input *input, struct ah_arena *arena, struct ah_moves *moves,
                    struct ah_error *err);

#endif
