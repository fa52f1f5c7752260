/* SPDX-License-Identifier: Apache-2.0
 *
 * Transfers: which shards must move for a cluster plan, on which ways, and how long that takes.
 *
 * A GPU of a stage needs its slices of all kinds of the stage's blocks, in its own memory, or in the host's if the
 * plan's configs keep weights or states there. Shards that are already in that memory are kept. A shard that is
 * elsewhere in the node's memory comes from there (tier `node`). Any other shard comes to the node once, to the first
 * rank that needs it, and is passed on to the others inside the node. The solver (transfer_solver.h) decides how, with
 * these resources:
 *
 *     way out of and into the NIC of each node; each node's disk; storage for each node, and for all together; pairs of
 *     nodes that the cluster document says are slower.
 *
 * A GPU's memory receives at most its node's host_link_bytes_per_s (intra_bytes_per_s if that is not known), from all
 * sources together.
 *
 * SOURCES. near: no byte comes from farther than necessary. A shard is read from the node's disk; if it is not there,
 * from a peer; if no node has it, from storage, once, and is relayed. fast: all of these are options for every shard,
 * and so is storage by way of another node. On a tie, the first in this order is chosen.
 *
 * BASELINE: every node fetches all shards that its GPUs need from storage, each shard once per node.
 */
#ifndef AH_PLANNER_RECOVERY_TRANSFERS_H
#define AH_PLANNER_RECOVERY_TRANSFERS_H

#include "planner/recovery/holders.h"
#include "planner/recovery/transfer_solver.h"
#include "schemas/cluster_plan.h"
#include "schemas/moves.h"

struct ah_transfers_input {
    const struct ah_cluster *cluster;
    const struct ah_states *states;
    const struct ah_holders *holders;
    const struct ah_cluster_plan *plan;
    enum ah_sources sources;
    struct ah_transfer_limits limits;
};

/* Fills `bytes`, `moves`, and in `predicted` time, bound, gap, limit, baseline and speed-up, in `arena`. AH_E_MEMORY;
 * AH_E_FAILED: as planner/bound/solver.h. */
int ah_transfers_plan(const struct ah_transfers_input *input, struct ah_arena *arena, struct ah_moves *moves,
                      struct ah_error *err);

#endif
