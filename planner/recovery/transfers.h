/* SPDX-License-Identifier: Apache-2.0
 *
 * Transfers: which shards must move for a cluster plan, in which ways, and how long that takes.
 *
 * A GPU of a stage needs its slices of all kinds of the stage's blocks. It needs them in its own memory, or in the
 * host's if the plan's configs keep weights or states there. Shards already in that memory are kept. A shard elsewhere
 * in the node's memory comes from there (tier `node`). Any other shard comes to the node once, to the first rank that
 * needs it, and is passed on to the others inside the node. The solver (transfer_solver.h) decides how, with these
 * resources:
 *
 *     ways out of and into the NIC of each node; each node's disk; storage for each node, and for all together; pairs
 *     of nodes that the cluster document lists as slower.
 *
 * A GPU's memory receives at most its node's host_link_bytes_per_s (intra_bytes_per_s if that is not known), from all
 * sources together.
 *
 * SOURCES. near: no byte comes from farther than necessary. A shard is read from the node's disk or, if it is not
 * there, from a peer. If no node has it, it is read from storage, once, and relayed. fast: all of these are options for
 * every shard, and so is storage by way of another node. Between equals, the first in this order is chosen.
 *
 * BASELINE: every node fetches all shards needed by its GPUs from storage, each shard once per node.
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

/* Fills `bytes` and `moves`, in `arena`, and the fields of `predicted` for time, bound, gap, limit, baseline and
 * speed-up. AH_E_MEMORY; AH_E_FAILED: as planner/bound/solver.h. */
int ah_transfers_plan(const struct ah_transfers_input *input, struct ah_arena *arena, struct ah_moves *moves,
                      struct ah_error *err);

#endif
