/* SPDX-License-Identifier: Apache-2.0
 *
 * The `moves` document: how training states get to where a new cluster plan needs them.
 *
 * Every GPU of the plan needs its slices of the states of its stage's blocks, all from one chosen step. Shards that it
 * already has are KEPT. Each other shard comes by exactly one MOVE: from host memory or a GPU of its own node, from the
 * node's disk, from a peer (another node's memory or disk, or a node that relays the shard it received), or from
 * storage. Times are predicted. Shards: schemas/inventory.h; ranks: schemas/cluster_plan.h.
 */
#ifndef AH_SCHEMAS_MOVES_H
#define AH_SCHEMAS_MOVES_H

#include "schemas/inventory.h"
#include "schemas/plan.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* clang-format off */
#define AH_TIER_WORDS(X)                                                                                     \
    X(AH_TIER_NODE, "node") X(AH_TIER_DISK, "disk") X(AH_TIER_PEER, "peer") X(AH_TIER_STORAGE, "storage")
#define AH_SOURCES_WORDS(X) X(AH_SOURCES_NEAR, "near") X(AH_SOURCES_FAST, "fast")
#define AH_DESTINATION_WORDS(X) X(AH_DESTINATION_GPU, "gpu") X(AH_DESTINATION_HOST, "host")
/* clang-format on */
#define AH_WORD_VALUE(value, word) value,
enum ah_tier { AH_TIER_WORDS(AH_WORD_VALUE) AH_TIERS };
enum ah_sources { AH_SOURCES_WORDS(AH_WORD_VALUE) };
enum ah_destination { AH_DESTINATION_WORDS(AH_WORD_VALUE) };
#undef AH_WORD_VALUE
extern const char *const ah_words_tier[];
extern const char *const ah_words_sources[];
extern const char *const ah_words_destination[];

struct ah_moves_inputs {
    struct ah_plan_input model;
    struct ah_plan_input cluster;
    const char *old_plan_sha256;
    const char *inventory_sha256;
    const char *plan_sha256; /* of the new plan */
};

/* The bytes that all GPUs together need, and how many of these come from where. */
struct ah_moves_bytes {
    uint64_t needed; /* the sum of the fields below */
    uint64_t kept;
    uint64_t node;
    uint64_t disk;
    uint64_t peer;
    uint64_t storage;
};

struct ah_moves_predicted {
    double time_us;      /* time until everything is where it is needed */
    double bound_us;     /* no choice of sources takes less */
    double gap;          /* (time - bound) / time */
    const char *limit;   /* resource busy for all of time_us: "network out of a100-0"; NULL: nothing moves */
    double baseline_us;  /* the time if storage sent each node all it needs; 0: there is no storage */
    double speed_up;     /* baseline / time; 0: there is no storage, or nothing moves */
    double step_us;      /* step time of the new plan */
    uint64_t lost_steps; /* steps to repeat */
};

struct ah_move {
    uint64_t rank;             /* the rank that needs the shards */
    enum ah_destination place; /* needed in the rank's own memory or its node's host memory */
    uint64_t first_block;
    uint64_t blocks;
    bool tied; /* the table that embedding and head share; then first_block is 0 and blocks 1 */
    uint64_t first_slice;
    uint64_t slices;
    unsigned *kinds; /* enum ah_shard_kind, ascending */
    size_t n_kinds;
    enum ah_tier tier;
    enum ah_medium medium; /* medium from which the shards are read */
    const char *node;      /* node from which the shards are read; NULL: storage */
    uint64_t gpu;          /* of that node; AH_INVENTORY_NO_GPU: another medium */
    const char *via;       /* (optional) another node that gets the shards from storage and passes them on */
    bool relayed;          /* the source itself gets the shards by another move */
    uint64_t bytes;
};

struct ah_moves {
    const char *generator;
    struct ah_moves_inputs inputs;
    uint64_t blocks; /* in the model */
    uint64_t slices; /* per block */
    uint64_t step;   /* the step of all shards */
    enum ah_sources sources;
    uint64_t horizon_steps;
    struct ah_moves_bytes bytes;
    struct ah_moves_predicted predicted;
    struct ah_move *moves; /* by rank, then by shard */
    size_t n_moves;
    struct ah_text_pair *annotations;
    size_t n_annotations;
};

#endif
