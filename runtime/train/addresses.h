/* SPDX-License-Identifier: Apache-2.0
 *
 * Addresses: says where everything is in the three arenas of a device while a plan runs.
 *
 * DEVICE ARENA: has the plan's tensors, at the plan's offsets. The tensor `tokens` is divided into these parts:
 *
 *     headers      2 headers: of even and odd steps
 *     sums         a double for each block: the sum of squares of its gradient
 *     angles       the table of rotary positions
 *     words        2 slots, each (tokens, targets, positions, docs, rows) of a micro-batch as u32, then its mask, one
 *                  byte per token; rows count from 0
 *
 * PINNED: has each block's weights on the host and streamed states (master, m, v), then gradients and new weights in
 * flight, as rings or whole vectors, then rows gathered for the device. These are the plan's `pinned_bytes`. The STEP
 * STAGING follows, outside the plan. A step's data reach the device through it, and results the host:
 *
 *     headers      4 headers, for four steps (run.c says why)
 *     sums         a double for each block of the model, for the host to read
 *     staging      4 batches, each micro-batch as on the device
 *     bounce_buffer  for single transfers between steps
 *
 * PAGEABLE: has master, m, v and the sum of gradients, if they exist, of each block with host Adam (`pageable_bytes`).
 *
 * A HEADER holds the scalars of AdamW, then the scale of the loss (AH_HEADER_SCALE) and the loss sums (AH_HEADER_LOSS),
 * one double per micro-batch: job.header_bytes in all.
 *
 * INVARIANTS. 1. Host layouts are as long as the plan says; otherwise it is for another model and refused.
 * 2. A query names the position that uses a tensor of the device arena. The tensor is alive at that position, and at
 *    least as large as the data put there.
 */
#ifndef AH_RUNTIME_TRAIN_ADDRESSES_H
#define AH_RUNTIME_TRAIN_ADDRESSES_H

#include "base/arena.h"
#include "base/error.h"
#include "runtime/device/op.h"
#include "runtime/schedule/flat.h"
#include "runtime/schedule/job.h"
#include "runtime/schedule/names.h"

enum {
    AH_HEADER_SCALE = 64,
    AH_HEADER_SENT = 68, /* bytes copied to the device */
    AH_HEADER_LOSS = AH_JOB_SCALARS_BYTES,
    AH_STEPS_STAGED = 4,
    AH_BOUNCE_BYTES = 1 << 20
};

/* The index that is multiplied by its stride and added to an operand's offset when the op is submitted. */
enum ah_offset_term {
    AH_OFFSET_NONE,
    AH_OFFSET_GRADIENT_RING, /* in the order of enum ah_graph_ring */
    AH_OFFSET_WEIGHT_RING,
    AH_OFFSET_STATE_RING,
    AH_OFFSET_WORDS,   /* slot on the device of the micro-batch */
    AH_OFFSET_STAGING, /* micro-batch in the staging: (step % 4) x micro_batches + its number in the step */
    AH_OFFSET_HEADER,  /* on the device */
    AH_OFFSET_STAGING_HEADER, /* in the staging */
    AH_OFFSET_TERMS
};

/* A vector of a block's elements. Element `base` is at `ref`. */
struct ah_vector {
    struct ah_ref ref; /* arena none: no such vector */
    uint8_t move;      /* enum ah_offset_term */
    bool full;         /* true: indexed by all parameters; false: by trained ones only */
    uint64_t base;
};

struct ah_addresses_block {
    const struct ah_plan_block *plan;
    const struct ah_job_group *group;
    struct ah_flat flat;
    struct ah_run_of_elements runs[AH_MODEL_TENSORS_MAX];
    size_t n_runs;
    struct ah_stretch own; /* the trained elements that this rank updates */
    struct ah_vector
        weights; /* where they are stored between uses; if ranks share them, this rank's part (shards.h) */
    /* where they are stored between uses; in fp32 the master may be the weights */
    struct ah_vector master, m, v;
    struct ah_vector host_sum, host_group_sum; /* the second is for groups with a separate sum (fold.h) */
    struct ah_vector host_gradient;            /* the whole vector, or the ring */
    struct ah_vector host_weight;
    struct ah_vector gathered; /* rows of the embedding, on the host */
};

struct ah_addresses {
    const struct ah_plan *plan;
    const struct ah_job *job;
    uint64_t shard; /* the number of this rank among those that share states */
    struct ah_addresses_block *blocks;
    uint32_t *first_tensor; /* by label * blocks + block; UINT32_MAX: none */
    uint32_t *next_tensor;  /* by tensor of the plan's arena: the next one of its label and block */
    uint64_t stride[AH_OFFSET_TERMS];
    uint64_t arena_bytes[AH_ARENA_KINDS];
    struct ah_ref state_ring;
    struct ah_ref device_headers, device_sums, angles, words;
    struct ah_ref headers, sums, staging, bounce_buffer;
    struct ah_ref partials;      /* pieces of other ranks' sums, as received, one after another */
    uint64_t share_piece;        /* number of elements of a piece */
    uint64_t staged_micro_bytes; /* bytes of a micro-batch in the staging; its mask comes after its words */
};

/* Finds all addresses; arrays are in `arena`, plan and job stay borrowed. `shard`: the number of this rank among those
 * that share states, or 0. AH_E_MISMATCH: the plan is for another model or training, because its blocks do not need the
 * memory that it states. */
int ah_addresses_init(struct ah_addresses *ret_addresses, const struct ah_plan *plan,
                      const struct ah_job *job, uint64_t shard, struct ah_arena *arena, struct ah_error *err);

/* Adds room for `others` pieces of sums from other pipelines, of `piece` elements each. */
void ah_addresses_add_partials(struct ah_addresses *addresses, uint32_t others, uint64_t piece);

/* A query for the tensor of a block and label that is alive at `position`; `micro_batch` is its first. It must have
 * `bytes` bytes at `offset_bytes`. AH_E_MISMATCH: there is no such tensor. */
struct ah_addresses_query {
    enum ah_tensor_label label;
    uint64_t block;
    uint64_t micro_batch; /* AH_ADDRESSES_ANY: any */
    uint64_t position;
    uint64_t offset_bytes, bytes;
};
#define AH_ADDRESSES_ANY UINT64_MAX

/* True if the tensor is alive at the compute position. */
bool ah_addresses_lives_at(const struct ah_plan_tensor *tensor, uint64_t position);

int ah_addresses_find(const struct ah_addresses *addresses, const struct ah_addresses_query *query,
                      struct ah_ref *ret_ref, struct ah_error *err);

#endif
