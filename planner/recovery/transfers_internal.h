/* SPDX-License-Identifier: Apache-2.0
 *
 * Shared by the files of transfers: which nodes have each shard, and which need it.
 */
#ifndef AH_PLANNER_RECOVERY_TRANSFERS_INTERNAL_H
#define AH_PLANNER_RECOVERY_TRANSFERS_INTERNAL_H

#include "planner/recovery/roles.h"
#include "planner/recovery/transfers.h"

/* Where a shard comes from. */
struct ah_transfers_source {
    bool there; /* true: the shard moves */
    bool relayed;
    enum ah_tier tier;
    enum ah_medium medium;
    size_t node;
    uint64_t gpu;
    size_t via; /* from storage: 1 + the node that reads it and passes it on; 0: none */
};

/* What one node has and needs of one shard. */
struct ah_transfers_view {
    bool wanted;     /* the node needs the shard and does not have it in memory */
    bool on_disk;    /* on a disk of this node */
    uint32_t holder; /* 1 + index of the holder in the node's memory; 0: none */
    uint32_t taker;  /* 1 + index of this node's first role to get the shard from outside; 0: none yet */
    struct ah_transfers_source by; /* how a wanted shard gets here */
};

struct ah_transfers {
    const struct ah_transfers_input *input;
    struct ah_arena *arena;
    struct ah_roles roles;
    size_t n_shards;
    struct ah_transfers_view *views; /* (nodes, shards) */
    const uint8_t *in_storage;       /* by shard; NULL: storage is empty */
    double *port_bytes;              /* by role: bytes copied into the GPU's memory */
    double *all_bytes;               /* by role: as port_bytes, if nothing were kept */
    double *node_bytes;              /* by node: bytes of all shards needed by its GPUs */
    uint64_t needed, kept;

    struct ah_transfer_problem problem;
    double *rates;
    size_t *shards; /* shards of the bundles, one bundle after another */
    size_t *first;  /* by bundle: index of its first shard in `shards` */
    size_t **nodes; /* by bundle: the nodes of its receivers */
};

static inline struct ah_transfers_view *ah_transfers_view(const struct ah_transfers *f, size_t node,
                                                          size_t shard)
{
    return &f->views[node * f->n_shards + shard];
}

/* The resources of one node, in the order of their indices. */
enum ah_transfers_resource {
    AH_TRANSFERS_OUT,
    AH_TRANSFERS_IN,
    AH_TRANSFERS_DISK,
    AH_TRANSFERS_STORAGE,
    AH_TRANSFERS_PER_NODE
};
static inline size_t ah_transfers_resource(size_t node, enum ah_transfers_resource which)
{
    return node * AH_TRANSFERS_PER_NODE + which;
}

/* Makes the resources' rates, and the bundles of all wanted shards. AH_E_MEMORY. */
int ah_transfers_bundle(struct ah_transfers *f, struct ah_error *err);

/* Returns the source that an option's number `source` stands for. */
struct ah_transfers_source ah_transfers_option_source(const struct ah_transfers *f, size_t shard,
                                                      size_t source);

/* Returns a name such as "network out of a100-0", in the arena; NULL: out of memory. */
const char *ah_transfers_resource_name(const struct ah_transfers *f, size_t resource);

/* Lists the moves of all roles, from the views. AH_E_MEMORY. */
int ah_transfers_list(struct ah_transfers *f, struct ah_moves *moves, struct ah_error *err);

#endif
