/* SPDX-License-Identifier: Apache-2.0
 *
 * The `inventory` document: which training states are where, after nodes of a cluster were lost.
 *
 * A SHARD is (block, slice, kind, step). Every block's states are cut into `slices` equal parts; `slices` is the
 * largest degree of tensor parallelism allowed. A GPU of a stage of degree t holds slices / t consecutive slices, so a
 * change of degree never cuts a slice. HOLDINGS are ranges of shards with the place that stores them: the memory of a
 * GPU, a node's host memory or disk, or storage that outlives the nodes. A range with block 0 or the last block
 * includes the table that embedding and head of a tied model share.
 *
 * `nodes` lists the nodes at the time of the inventory. A cluster document says which of them still exist.
 */
#ifndef AH_SCHEMAS_INVENTORY_H
#define AH_SCHEMAS_INVENTORY_H

#include "schemas/plan.h"
#include "schemas/vocabulary.h"

#include <stddef.h>
#include <stdint.h>

/* clang-format off */
#define AH_MEDIUM_WORDS(X)                                                                                   \
    X(AH_MEDIUM_GPU, "gpu") X(AH_MEDIUM_HOST, "host") X(AH_MEDIUM_DISK, "disk") X(AH_MEDIUM_STORAGE, "storage")
#define AH_SHARD_KIND_WORDS(X)                                                                               \
    X(AH_SHARD_WEIGHT, "weight") X(AH_SHARD_MASTER, "master") X(AH_SHARD_M, "m") X(AH_SHARD_V, "v")
/* clang-format on */
#define AH_WORD_VALUE(value, word) value,
enum ah_medium { AH_MEDIUM_WORDS(AH_WORD_VALUE) };
enum ah_shard_kind { AH_SHARD_KIND_WORDS(AH_WORD_VALUE) AH_SHARD_KINDS };
#undef AH_WORD_VALUE
extern const char *const ah_words_medium[];
extern const char *const ah_words_shard_kind[];

/* Most blocks of a model, most slices of a block. */
enum { AH_SHARD_BLOCKS_MAX = 10002, AH_SHARD_SLICES_MAX = 1024 };

/* Value of ah_inventory_holding.gpu if no GPU holds the shards. */
enum { AH_INVENTORY_NO_GPU = 1024 };

struct ah_inventory_node {
    const char *id; /* unique */
    uint64_t gpus;
};

struct ah_inventory_holding {
    enum ah_medium medium;
    const char *node; /* NULL: storage */
    uint64_t gpu;     /* index on the node, from 0; AH_INVENTORY_NO_GPU: another medium */
    uint64_t step;
    uint64_t first_block;
    uint64_t blocks;
    uint64_t first_slice;
    uint64_t slices; /* 0: first_slice and all slices after it */
    unsigned *kinds; /* enum ah_shard_kind; empty: all kinds */
    size_t n_kinds;
};

struct ah_inventory {
    const char *generator;
    struct ah_plan_input model;
    uint64_t blocks; /* of the model */
    uint64_t slices; /* of each block */
    uint64_t step;   /* the last step that training finished */
    struct ah_inventory_node *nodes;
    size_t n_nodes;
    struct ah_inventory_holding *holdings;
    size_t n_holdings;
    struct ah_text_pair *annotations;
    size_t n_annotations;
};

/* Returns the number of the slice after the holding's last one. */
uint64_t ah_inventory_slices_end(const struct ah_inventory *inventory,
                                 const struct ah_inventory_holding *holding);

/* True if the holding has shards of this kind. */
bool ah_inventory_holds_kind(const struct ah_inventory_holding *holding, enum ah_shard_kind kind);

#endif
