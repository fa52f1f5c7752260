/* SPDX-License-Identifier: Apache-2.0
 *
 * Job: the model to train, cut into blocks, with every size that a plan needs. It knows nothing of the machine.
 *
 * A block is the embedding, a transformer layer, or the head. Blocks of one GROUP agree in everything that affects
 * cost or bytes: kind, attention window, trained tensors, and what backward does in them. Sizes that depend on tokens
 * are per micro-batch.
 *
 * BACKWARD runs in every block from the head down to the lowest one with a trained tensor. Each such block but the
 * lowest hands a gradient down (`input_gradient`), even if frozen. Blocks below the lowest run forward only. The head's
 * forward, loss and backward are one op. It takes one chunk of tokens at a time, so that logits never exist whole.
 * Chunks affect results, so their size depends only on the model's shape. A tied head uses the embedding's table. The
 * head writes the table's gradient first, and the embedding's backward adds to it.
 *
 * FLAT VECTORS (flat.h, docs/layout.md): a block has one of all its parameters, in the order of ah_model_tensors(), and
 * one of the trained parameters. The second is the layout of gradients, optimizer states and tiles.
 *
 * SIZES come from what the blocks compute (program.h), one MICRO-BATCH at a time. If a step has several, each
 * micro-batch's gradient is a vector of `gradient_bytes` per element, which is added to an fp32 sum. The sizes here
 * include neither the vector nor the sum.
 *
 * A PART (ah_job_init_part()) is what one rank of a pipeline holds: blocks numbered from 0, each shared by `tp` ranks.
 * Its sizes are those of one rank, 1/tp of the whole rounded up; activations are split along the sequence.
 *
 * SHARDS: ranks may train the whole model together, each with its own micro-batches. Each owns an equal part of every
 * flat vector, cut at multiples of AH_PLAN_TILE_UNIT: of the states, of the sums of gradients and, unless weights are
 * on the device, of the weights. Other sizes are those of a single rank.
 *
 * A COPY of the table (`copies_table`): a tied head has its own copy if another rank holds the embedding, or if
 * training says `tied: split`. In the job, the copy is the head's last tensor, "head.weight", as in an untied model.
 * Executors must keep it equal to the table.
 *
 * TRAINABLE: patterns (trainable.h). An empty list trains nothing, which is an error.
 *
 *     struct ah_job job;
 *     rc = ah_job_init(&job, model, &training, arena, err);
 *     job.groups[job.group_of[block]].saved_bytes[AH_ACTIVATIONS_SELECTIVE]
 */
#ifndef AH_RUNTIME_SCHEDULE_JOB_H
#define AH_RUNTIME_SCHEDULE_JOB_H

#include "base/arena.h"
#include "base/error.h"
#include "schemas/model.h"
#include "schemas/plan.h"

#include <stdbool.h>
#include <stdint.h>

enum { AH_ACTIVATIONS_WAYS = AH_ACTIVATIONS_RECOMPUTE + 1 };

/* The bytes of job.header_bytes that are copied to the device: the optimizer's scalars and the loss scale. */
enum { AH_JOB_SCALARS_BYTES = 72 };

/* Bytes per token in job.input_bytes: 4 each for token, target, position, document and table row, 1 for the mask. */
enum { AH_JOB_TOKEN_BYTES = 5 * sizeof(uint32_t) + 1 };

/* Returns the bytes of a micro-batch's input, rounded up to whole words because another micro-batch's input follows. */
static inline uint64_t ah_job_input_bytes(uint64_t tokens)
{
    return (tokens * AH_JOB_TOKEN_BYTES + sizeof(uint32_t) - 1) / sizeof(uint32_t) * sizeof(uint32_t);
}

/* A group of blocks. Sizes of flat vectors include padding (docs/layout.md); the two counts of parameters do not. */
struct ah_job_group {
    /* Unique name, in the job's arena: "embedding", "layer", "layer_windowed" or "head"; then ".forward" (no backward),
     * ".frozen" (backward only hands down), or ".partial", ".partial2", ... (some tensors trained); then ".lowest" (a
     * layer whose backward hands nothing down). */
    const char *name;
    enum ah_block_kind kind;
    struct ah_model_ways ways; /* of layers */
    bool backward;             /* a backward op runs (the head's forward op does its backward) */
    bool input_gradient;       /* its backward hands a gradient down */
    uint32_t trained;          /* bit i: tensor i of ah_model_tensors() is trained */
    uint64_t first;            /* its lowest block */
    uint64_t blocks;
    uint64_t parameters;         /* of one block, without padding */
    uint64_t trained_parameters; /* of one block, trained tensors only, without padding */
    uint64_t flat_elements;      /* of the vector of all parameters */
    uint64_t trained_elements;   /* of the vector of trained parameters; 0: frozen */

    /* The largest part of a rank that shares states with others; without others, all of it. Of the vector of all
     * parameters, a rank owns its part of the trained ones, and a part of the frozen ones. */
    uint64_t own_flat_elements, own_trained_elements, own_trained_parameters;

    /* The sizes from here on are bytes per micro-batch. */
    uint64_t input_bytes;                      /* residual stream into the block; 0 for the embedding */
    uint64_t saved_bytes[AH_ACTIVATIONS_WAYS]; /* kept from forward to backward, without the input */
    /* scratch of the forward op, without the tensors it saves */
    uint64_t forward_work_bytes[AH_ACTIVATIONS_WAYS];
    /* Scratch of the backward op, recomputed tensors included; no saved tensors, gradient vector or residual
     * gradient. */
    uint64_t backward_work_bytes[AH_ACTIVATIONS_WAYS];
    /* table rows sent for an embedding with weights on the host; 0 in other blocks */
    uint64_t gathered_bytes;
};

struct ah_job {
    const struct ah_model *model; /* borrowed; if the table is split, an untied copy in the arena */
    struct ah_plan_training training;
    struct ah_job_group *groups; /* in the order of their first block */
    size_t n_groups;
    uint32_t *group_of; /* by block */
    size_t n_blocks;
    bool is_part;
    struct ah_plan_part part; /* for a whole model: all blocks, one rank, one stage */
    bool has_head;            /* the last block is the model's head */
    bool adds_up;             /* gradients are added up, over micro-batches, pipelines or a split table */
    bool table_trained;       /* the embedding's table is trained, here or on another rank */
    bool copies_table;        /* the head is tied, and this rank has its own copy of the table */
    size_t lowest;            /* lowest block whose backward runs; n_blocks: none does */
    uint64_t tokens;          /* in a micro-batch */
    uint64_t chunk_tokens; /* in a chunk of the head: a power of two, at least 64; may exceed a micro-batch */
    /* Bytes of the residual stream or its gradient: tokens x width in the training's dtype. */
    uint64_t residual_bytes;
    uint64_t input_bytes;  /* a micro-batch's data on the device: AH_JOB_TOKEN_BYTES per token */
    uint64_t header_bytes; /* scalars of a step, and a double for the loss of each micro-batch */
    /* Bytes permanently on the device: rope's table, sums of squares by block, two headers. */
    uint64_t constant_bytes;
    uint64_t weight_bytes;   /* per element of a weight: 2 or 4 */
    uint64_t gradient_bytes; /* per element of one micro-batch's gradient, as sent or kept: 2 or 4 */
    uint64_t state_bytes;    /* per element of optimizer state: master (bf16 only) + m + v */
};

/* Makes the job with all its sizes. `model` and the patterns stay borrowed; everything else is in `arena`. AH_E_USAGE:
 * a batch that micro_batches do not divide, a sequence beyond max_positions (learned) or 0, a split table that is not
 * tied or frozen, a pattern that matches no tensor, nothing trained; the text says what to do. AH_E_DOCUMENT: a
 * micro-batch of 2^32 tokens or more; 2^53 bytes or more. */
int ah_job_init(struct ah_job *ret_job, const struct ah_model *model, const struct ah_plan_training *training,
                struct ah_arena *arena, struct ah_error *err);

/* Makes the job of one rank, like ah_job_init(). `part` must name blocks of the model; NULL means all blocks. */
int ah_job_init_part(struct ah_job *ret_job, const struct ah_model *model,
                     const struct ah_plan_training *training, const struct ah_plan_part *part,
                     struct ah_arena *arena, struct ah_error *err);

/* Returns the number of ranks that share the states; 1: they are not shared. */
static inline uint64_t ah_job_shards(const struct ah_job *job)
{
    return job->part.shards ? job->part.shards : 1;
}

/* True if the block is the head. The head's forward op includes its backward. */
static inline bool ah_job_is_head(const struct ah_job *job, size_t block)
{
    return job->has_head && block + 1 == job->n_blocks;
}

/* True if this job trains any tensor; always true for a whole model. */
bool ah_job_trains(const struct ah_job *job);

/* True if gradients of the table are summed separately for the embedding and the head, and then the sums are added. */
static inline bool ah_job_splits_table(const struct ah_job *job)
{
    return job->training.tied == AH_TIED_SPLIT;
}

/* True if the table is split and this rank has embedding and head. After the last gradient it adds their gradients. */
static inline bool ah_job_joins_table(const struct ah_job *job)
{
    return ah_job_splits_table(job) && !job->part.first_block && job->has_head &&
           !job->part.step_micro_batches;
}

/* True if the head uses the embedding's own table. */
static inline bool ah_job_shares_table(const struct ah_job *job)
{
    return job->model->tied && job->has_head && !job->part.first_block;
}

static inline const struct ah_job_group *ah_job_block(const struct ah_job *job, size_t block)
{
    return &job->groups[job->group_of[block]];
}

/* Writes the name of a block's tensor as patterns see it, cut at `max` - 1 characters: "embedding.embedding.weight",
 * "layer.3.attention.qkv.weight" (block 4: layers count from 0), "head.norm.weight". Returns its full length. */
size_t ah_job_tensor_name(const struct ah_job *job, size_t block, const char *tensor, char *ret_name,
                          size_t max);

#endif
