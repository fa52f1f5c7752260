/* SPDX-License-Identifier: Apache-2.0
 *
 * What the parts of a freight share: who has and who wants what, node by node.
 */
#ifndef AH_PLANNER_RECOVERY_FREIGHT_INTERNAL_H
#define AH_PLANNER_RECOVERY_FREIGHT_INTERNAL_H

#include "planner/recovery/freight.h"
#include "planner/recovery/roles.h"

/* Where a shard comes from. */
struct ah_freight_source {
    bool there; /* it moves */
    bool relayed;
    enum ah_tier tier;
    enum ah_medium medium;
    size_t node;
    uint64_t gpu;
    size_t via; /* if from storage: 1 + the node that fetches it and passes it on; 0: none */
};

/* A shard, seen from a node. */
struct ah_freight_view {
    bool wanted;                 /* needed here, and not in the node's memory */
    bool on_disk;                /* here */
    uint32_t place;              /* in the node's memory: 1 + index of the place; 0: none */
    uint32_t taker;              /* 1 + index of the first role here that gets it from outside; 0: none yet */
    struct ah_freight_source by; /* how it gets here, if it is wanted */
};

struct ah_freight {
    const struct ah_freight_input *input;
    struct ah_arena *arena;
    struct ah_roles roles;
    size_t n_shards;
    struct ah_freight_view *views; /* (nodes, shards) */
    const uint8_t *in_storage;     /* by shard; NULL: nothing */
    double *port_bytes;            /* by role: into the GPU's memory */
    double *all_bytes;             /* by role: the same if nothing were kept */
    double *node_bytes;            /* by node: all that its GPUs need, each shard once */
    uint64_t needed, kept;

    struct ah_delivery delivery;
    double *rates;
    size_t *shards; /* of the bundles, one after another */
    size_t *first;  /* by bundle: where its shards begin */
    size_t **nodes; /* by bundle: the nodes of its receivers */
};

static inline struct ah_freight_view *ah_freight_view(const struct ah_freight *f, size_t node, size_t shard)
{
    return &f->views[node * f->n_shards + shard];
}

/* Resources, by number. */
enum ah_freight_resource {
    AH_FREIGHT_OUT,
    AH_FREIGHT_IN,
    AH_FREIGHT_DISK,
    AH_FREIGHT_STORAGE,
    AH_FREIGHT_PER_NODE
};
static inline size_t ah_freight_resource(size_t node, enum ah_freight_resource which)
{
    return node * AH_FREIGHT_PER_NODE + which;
}

/* Makes rates, and bundles of all wanted shards. AH_E_MEMORY. */
int ah_freight_bundle(struct ah_freight *f, struct ah_error *err);

/* The source that an option of a bundle stands for. */
struct ah_freight_source ah_freight_option_source(const struct ah_freight *f, size_t shard, size_t source);

/* "network out of a100-0", in the arena; NULL: out of memory. */
const char *ah_freight_resource_name(const struct ah_freight *f, size_t resource);

/* The moves of all roles, from the views. AH_E_MEMORY. */
int ah_freight_list(struct ah_freight *f, struct ah_moves *moves, struct ah_error *err);

#endif
