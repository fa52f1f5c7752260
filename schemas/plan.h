/* SPDX-License-Identifier: Apache-2.0
 *
 * The `plan` document: everything that one rank's training step does, decided beforehand.
 *
 * COMPUTE POSITIONS, from 0 to positions - 1, are the numbers of the compute lane's items in an iteration, in their
 * fixed order. Every other op has two positions. It starts after the compute op at `issue_after` is done, and its
 * destination is live from the next position on; the compute op at `due_before` waits for it. Positions are circular,
 * as are lifetimes [from, to] of arena tensors: a due_before not above issue_after is in the next iteration.
 *
 * OPS are per block (and micro-batch). An op that processes a block's flat vector has `tiles` equal parts, each an item
 * of its lane, in ascending order. `lanes` freezes the order of each lane as indices into `ops`, one per tile. The
 * compute lane's order begins at position 0; its tiles are counted from the first head. The other orders begin at the
 * first head: first ops issued at or after the first head op of iteration r, then ops issued before the first head op
 * of iteration r + 1. docs/planning.md says how ops wait for each other.
 *
 * A PART is one rank's share of a model that several ranks train in a pipeline (docs/clusters.md); the blocks and sizes
 * of its plan are the rank's own.
 *
 * A plan contains no host name, path or time of day: equal inputs give equal bytes.
 */
#ifndef AH_SCHEMAS_PLAN_H
#define AH_SCHEMAS_PLAN_H

#include "base/error.h"
#include "schemas/algorithms.h"
#include "schemas/model.h"
#include "schemas/plan_lanes.h"
#include "schemas/signature.h"
#include "schemas/vocabulary.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* clang-format off */
#define AH_POLICY_WORDS(X)                                                                                   \
    X(AH_POLICY_RESIDENT, "resident") X(AH_POLICY_ZERO_OFFLOAD, "zero-offload")                              \
    X(AH_POLICY_PATRICKSTAR, "patrickstar") X(AH_POLICY_STRONGHOLD, "stronghold")                            \
    X(AH_POLICY_STREAM, "stream") X(AH_POLICY_AUTOHETE_PAPER, "autohete-paper") X(AH_POLICY_OPTIMAL, "optimal")
#define AH_SCHEDULING_WORDS(X)                                                                               \
    X(AH_SCHEDULING_PRIORITY, "priority") X(AH_SCHEDULING_FIFO, "fifo")
#define AH_MICRO_ORDER_WORDS(X)                                                                              \
    X(AH_MICRO_BATCH_MAJOR, "micro_batch_major") X(AH_BLOCK_MAJOR, "block_major")
#define AH_ACCUMULATOR_WORDS(X)                                                                              \
    X(AH_ACCUMULATOR_NONE, "none") X(AH_ACCUMULATOR_DEVICE, "device") X(AH_ACCUMULATOR_HOST, "host")
#define AH_PLAN_OP_WORDS(X)                                                                                  \
    X(AH_PLAN_FETCH, "fetch") X(AH_PLAN_FORWARD, "forward") X(AH_PLAN_BACKWARD, "backward")                  \
    X(AH_PLAN_SEND_GRADIENTS, "send_gradients") X(AH_PLAN_ACCUMULATE, "accumulate") X(AH_PLAN_NORM, "norm")  \
    X(AH_PLAN_HOST_ADAM, "host_adam") X(AH_PLAN_DEVICE_ADAM, "device_adam") X(AH_PLAN_UPLOAD, "upload")      \
    X(AH_PLAN_STATES_IN, "states_in") X(AH_PLAN_STATES_OUT, "states_out") X(AH_PLAN_GATHER, "gather")        \
    X(AH_PLAN_SEND_OUTPUT, "send_output") X(AH_PLAN_SEND_INPUT_GRADIENT, "send_input_gradient")              \
    X(AH_PLAN_SCATTER, "scatter") X(AH_PLAN_ALL_GATHER, "all_gather")
/* What a tensor of the arena holds: value, word. State ring and tokens belong to no single block. */
#define AH_BLOCK_TENSOR_WORDS(X)                                                                             \
    X(AH_TENSOR_WEIGHTS, "weights") X(AH_TENSOR_FETCHED, "fetched") X(AH_TENSOR_STATES, "states")            \
    X(AH_TENSOR_INPUT, "input") X(AH_TENSOR_SAVED, "saved") X(AH_TENSOR_OUTPUT, "output")                    \
    X(AH_TENSOR_GRADIENT, "gradient") X(AH_TENSOR_SUM, "gradient_sum") X(AH_TENSOR_GROUP_SUM, "group_sum")   \
    X(AH_TENSOR_SCRATCH, "scratch") X(AH_TENSOR_RESIDUAL_GRADIENT, "residual_gradient")                      \
    X(AH_TENSOR_RECEIVED, "received")
#define AH_SHARED_TENSOR_WORDS(X)                                                                            \
    X(AH_TENSOR_STATE_RING, "state_ring") X(AH_TENSOR_TOKENS, "tokens")
/* Techniques that a plan may be forbidden to use: first those of configs, then those of orders. */
#define AH_TECHNIQUE_WORDS(X)                                                                                \
    X(AH_TECHNIQUE_KEEP, "keep") X(AH_TECHNIQUE_SELECTIVE, "selective")                                      \
    X(AH_TECHNIQUE_RECOMPUTE, "recompute") X(AH_TECHNIQUE_DEVICE_WEIGHTS, "device-weights")                  \
    X(AH_TECHNIQUE_HOST_WEIGHTS, "host-weights") X(AH_TECHNIQUE_GATHERED_WEIGHTS, "gathered-weights")        \
    X(AH_TECHNIQUE_DEVICE_OPTIMIZER, "device-optimizer")                                                     \
    X(AH_TECHNIQUE_HOST_OPTIMIZER, "host-optimizer") X(AH_TECHNIQUE_STREAMED, "streamed")                    \
    X(AH_TECHNIQUE_BACKWARD_OVERLAP, "backward-overlap")   /* host and streamed updates during backward */   \
    X(AH_TECHNIQUE_ITERATION_OVERLAP, "iteration-overlap") /* work of an iteration during the next */        \
    X(AH_TECHNIQUE_TILES, "tiles")                         /* without it, whole vectors are sent, updated */
#define AH_WHAT_IF_WORDS(X)                                                                                  \
    X(AH_WHAT_IF_DEVICE_MEMORY, "device.memory_bytes") X(AH_WHAT_IF_HOST_MEMORY, "host.memory_bytes")
#define AH_PLAN_STATUS_WORDS(X)                                                                              \
    X(AH_PLAN_OPTIMAL, "optimal") X(AH_PLAN_WITHIN_GAP, "within_gap") X(AH_PLAN_NO_BOUND, "no_bound")
/* clang-format on */

#define AH_WORD_VALUE(value, word) value,
enum ah_policy { AH_POLICY_WORDS(AH_WORD_VALUE) };
enum ah_scheduling { AH_SCHEDULING_WORDS(AH_WORD_VALUE) };
enum ah_micro_order { AH_MICRO_ORDER_WORDS(AH_WORD_VALUE) };
enum ah_accumulator { AH_ACCUMULATOR_WORDS(AH_WORD_VALUE) };
enum ah_plan_op_kind { AH_PLAN_OP_WORDS(AH_WORD_VALUE) AH_PLAN_OP_KINDS };
enum ah_plan_status { AH_PLAN_STATUS_WORDS(AH_WORD_VALUE) };
enum ah_technique { AH_TECHNIQUE_WORDS(AH_WORD_VALUE) AH_TECHNIQUES };
enum ah_tensor_label {
    AH_BLOCK_TENSOR_WORDS(AH_WORD_VALUE) AH_SHARED_TENSOR_WORDS(AH_WORD_VALUE) AH_TENSOR_LABELS
};
enum ah_what_if_field { AH_WHAT_IF_WORDS(AH_WORD_VALUE) };
#undef AH_WORD_VALUE

extern const char *const ah_words_policy[];
extern const char *const ah_words_scheduling[];
extern const char *const ah_words_micro_order[];
extern const char *const ah_words_accumulator[];
extern const char *const ah_words_plan_op[];
extern const char *const ah_words_plan_status[];
extern const char *const ah_words_tensor[];
extern const char *const ah_words_technique[];
extern const char *const ah_words_what_if[];

/* A document that the plan was made from: its name and the sha256 of its canonical text. */
struct ah_plan_input {
    const char *name;
    const char *sha256;
};

/* The rates to which lanes were slowed when the machine was measured; `run --emulate` sets them again. */
struct ah_plan_emulated {
    const char *name; /* name of the emulated machine */
    double h2d_bytes_per_s, d2h_bytes_per_s;
    double copy_latency_us;
    double both_kept;
    double host_adam_params_per_s;
};
struct ah_plan_inputs {
    struct ah_plan_input model;
    struct ah_plan_input machine;
    struct ah_plan_emulated *emulated; /* (optional) NULL: the machine emulates no other */
};

/* A field of the machine's document that the plan assumes larger. Such a plan answers a question and is not run. */
struct ah_plan_what_if {
    enum ah_what_if_field field;
    uint64_t machine_bytes; /* what the machine has */
    uint64_t planned_bytes; /* what the plan assumes: more */
};
enum { AH_WHAT_IFS = AH_WHAT_IF_HOST_MEMORY + 1 };

struct ah_plan_training {
    uint64_t batch;         /* sequences per step */
    uint64_t micro_batches; /* divides batch */
    uint64_t seq;
    enum ah_dtype dtype;
    enum ah_dtype state_dtype;
    double clip;            /* 0: none */
    uint64_t *sums;         /* micro-batches per group; each group's gradients are added up separately */
    size_t n_sums;          /* 0: one group; otherwise in the form of ah_plan_join_sums() */
    enum ah_tied tied;      /* split: embedding and head each have a table and keep the two equal */
    const char **trainable; /* patterns of tensor names; "!" excludes; the last match decides */
    size_t n_trainable;
};

/* A rank's share of the model. Its stage alternates one forward and one backward, with one more forward in advance for
 * each stage that follows it. Batch and micro-batches are those of its pipeline. */
struct ah_plan_part {
    uint64_t first_block; /* number, in the model, of the plan's block 0 */
    uint64_t blocks;
    uint64_t tp; /* number of ranks that share each block */
    uint64_t stage, stages;
    uint64_t step_micro_batches; /* number in all pipelines; 0: there is only one pipeline */
    /* Ranks that train the whole model together, each with an equal part of all states; 0: states are not shared. Batch
     * and micro-batches are those of one rank. */
    uint64_t shards;
};

/* Host cores per lane; compute is 0 on a GPU. */
struct ah_plan_threads {
    uint64_t compute;
    uint64_t host;
};

/* Choices that hold for all blocks, beside `staging`, `scheduling` and `micro_batch_order`. Compiling the blocks with
 * them gives the plan's ops. */
struct ah_plan_knobs {
    uint64_t
        fetch_ahead; /* compute positions by which a fetch may begin early; 0: when the op that needs it is next */
    uint64_t
        send_behind; /* compute positions for which a gradient may outlast its backward; 0: compute waits */
    bool updates_after_backward; /* updates begin only after the last backward */
    bool step_ends;              /* an iteration begins only after the previous one is completely done */
};

/* Sizes of tiles and of rings of tiles. A ring gives a slot to each op that takes one, in the order of its lane; the
 * slot is free again when the tile's last user is done. 0 host tiles: the host holds each block's whole vector. */
struct ah_plan_staging {
    uint64_t tile_elements;       /* elements of a block's flat vector; a multiple of AH_PLAN_TILE_UNIT */
    uint64_t host_gradient_tiles; /* slots for tiles sent, not yet consumed by host Adam or accumulation */
    uint64_t host_weight_tiles;   /* slots for tiles written by host Adam, but not yet uploaded */
    uint64_t device_state_tiles;  /* slots for tiles that visit the device for a streamed update */
};

enum { AH_PLAN_TILE_UNIT = 4096, AH_PLAN_POLICY_NUMBERS = 3 };

/* What each lane demands of a resource at full speed, as a fraction of the resource's capacity. */
struct ah_plan_resource {
    const char *name; /* "host_dram", "link" */
    double demand[AH_PLAN_LANES];
};

struct ah_plan_sharing {
    /* If lanes together demand more than a resource has, they slow down to speeds in proportion to these weights. */
    struct ah_plan_by_lane weights;
    struct ah_plan_resource *resources;
    size_t n_resources;
};

struct ah_plan_block {
    uint64_t index;
    const char *name;
    const char *group;
    uint64_t parameters;
    enum ah_activations activations;
    enum ah_weights weights;
    enum ah_optimizer optimizer;
    enum ah_accumulator accumulator; /* where gradients of several micro-batches are added up */
};

/* The value of a position that an op does not have. */
#define AH_PLAN_NOWHERE ((UINT64_C(1) << 53) - 1)

struct ah_plan_op {
    enum ah_plan_op_kind op;
    enum ah_plan_lane lane;
    uint64_t block;
    uint64_t micro_batch;
    uint64_t position;    /* compute lane: the first tile's position; else AH_PLAN_NOWHERE */
    uint64_t issue_after; /* other lanes; else AH_PLAN_NOWHERE */
    uint64_t due_before;  /* other lanes; else AH_PLAN_NOWHERE */
    uint64_t tiles;       /* number of equal parts */
    uint64_t bytes;       /* bytes of all tiles over the link */
    double us;            /* predicted time of all tiles */
};

struct ah_plan_by_class {
    uint64_t weights, gradients, optimizer, activations, staging, workspace;
};

struct ah_plan_memory {
    uint64_t device_bytes; /* highest offset of the arena */
    uint64_t device_capacity_bytes;
    uint64_t reserved_bytes; /* outside the arena: context, library workspace */
    uint64_t host_bytes;     /* pinned + pageable */
    uint64_t host_capacity_bytes;
    uint64_t process_bytes; /* host memory of the process itself: code, libraries, a save; 0: not counted */
    uint64_t pinned_bytes;
    uint64_t pageable_bytes;
    struct ah_plan_by_class by_class; /* of the device arena at its peak */
};

struct ah_plan_time {
    double step_us;
    double busy_us[AH_PLAN_LANES];     /* time that each lane works */
    struct ah_plan_by_lane exposed_us; /* time that compute waits for each lane; 0 for compute itself */
    bool estimated;                    /* some costs were not measured on the machine */
};

struct ah_plan_solver {
    enum ah_plan_status status;
    double objective_us;
    double bound_us; /* no plan is faster; 0: no bound */
    double gap;      /* (objective - bound) / objective */
    uint64_t evaluations;
};

/* RECEIVED: pieces of other ranks' gradients. OUTPUT: of a stage, until it is sent. GROUP_SUM: the sum of a group that
 * is summed separately (fold.h). */
struct ah_plan_tensor {
    enum ah_tensor_label label;
    uint64_t block;       /* AH_PLAN_NOWHERE: of no single block */
    uint64_t micro_batch; /* the first one it belongs to; 0 if it belongs to all */
    uint64_t offset_bytes;
    uint64_t bytes;
    uint64_t from; /* compute positions, both included; from > to: live across the end of the iteration */
    uint64_t to;
};

struct ah_plan_arena {
    uint64_t positions; /* compute positions per iteration */
    struct ah_plan_tensor *tensors;
    size_t n_tensors;
};

/* The orders of lanes, as indices into ops; the n-th occurrence of an op is its n-th tile. */
struct ah_plan_lanes {
    uint64_t *order[AH_PLAN_LANES];
    size_t n_order[AH_PLAN_LANES];
};

struct ah_plan_alternative {
    enum ah_policy policy;
    bool feasible;
    double step_us; /* 0 if infeasible */
};

struct ah_plan {
    const char *generator;
    struct ah_plan_inputs inputs;
    struct ah_plan_what_if *what_if; /* ascending by field */
    size_t n_what_if;                /* 0: the plan is for the real machine */
    struct ah_model model; /* the model that `inputs` names, so that a run needs no other document */
    struct ah_plan_training training;
    struct ah_plan_part *part; /* (optional) NULL: all blocks, one rank */
    struct ah_signature numeric_signature;
    struct ah_algorithms
        *algorithms; /* (optional) for the model's matrix products, if the machine has such a table */
    enum ah_policy policy;
    enum ah_scheduling scheduling;
    enum ah_micro_order micro_batch_order;
    struct ah_plan_threads *threads; /* (optional) NULL: the device's own choice */
    unsigned *without; /* enum ah_technique, ascending: techniques that the plan was forbidden to use */
    size_t n_without;
    uint64_t *policy_numbers; /* of the policy's setting (planner/policies/policies.c) */
    size_t n_policy_numbers;
    struct ah_plan_knobs knobs;
    struct ah_plan_staging staging;
    struct ah_plan_sharing sharing;
    struct ah_plan_block *blocks;
    size_t n_blocks;
    struct ah_plan_memory memory;
    struct ah_plan_time time;
    struct ah_plan_solver solver;
    double tokens_per_s;
    struct ah_plan_alternative *alternatives;
    size_t n_alternatives;
    struct ah_plan_op *ops;
    size_t n_ops;
    struct ah_plan_lanes lanes;
    struct ah_plan_arena arena;
    struct ah_text_pair *annotations;
    size_t n_annotations;
};

/* Return the number of blocks of the whole model; the number, in the model, of the plan's block 0. */
uint64_t ah_plan_model_blocks(const struct ah_plan *plan);
uint64_t ah_plan_first_block(const struct ah_plan *plan);

/* Returns the number of ranks that share the states; 1: they are not shared. */
static inline uint64_t ah_plan_shards(const struct ah_plan *plan)
{
    return plan->part && plan->part->shards ? plan->part->shards : 1;
}

/* Returns the number of lanes that the plan has. `net`, the last one, only counts if it has work. */
static inline unsigned ah_plan_lane_count(const struct ah_plan *plan)
{
    return plan->lanes.n_order[AH_PLAN_LANE_NET] ? AH_PLAN_LANES : AH_PLAN_LANE_NET;
}

/* The op of the compute lane at a position. */
static inline struct ah_plan_op *ah_plan_compute_op(const struct ah_plan *plan, uint64_t position)
{
    return &plan->ops[plan->lanes.order[AH_PLAN_LANE_COMPUTE][position]];
}

/* Returns how long a resource works, at its full rate, for lanes that work `us` each at full speed. */
static inline double ah_plan_resource_us(const struct ah_plan_resource *resource,
                                         const double us[AH_PLAN_LANES])
{
    double sum_us = 0;
    for (int lane = 0; lane < AH_PLAN_LANES; lane++)
        sum_us += resource->demand[lane] * us[lane];
    return sum_us;
}

/* True if a step adds up gradients of several micro-batches, here or over pipelines, or of a split table. */
bool ah_plan_adds_up(const struct ah_plan *plan);

/* Brings `sums` into its one allowed form, in place. Groups of one directly after the first join it, because they add
 * up like its own micro-batches: 3, 1, 1, 2 becomes 5, 2. Returns the new number of groups; 0: only one remains. */
size_t ah_plan_join_sums(uint64_t *sums, size_t n);

/* True if block `block` of the plan is the model's head. */
bool ah_plan_is_head(const struct ah_plan *plan, uint64_t block);

/* Returns the signature of a plan's inputs and training on a device of that kind, without the digest of its algorithms.
 * Borrows from the plan. */
struct ah_signature ah_plan_signature(const struct ah_plan *plan, enum ah_device_kind device);

#endif
