/* SPDX-License-Identifier: Apache-2.0
 *
 * Job: what is trained, cut into blocks, with every size a plan needs. It does not know the machine.
 *
 * A block is the embedding, a transformer block, or the head. Blocks of one GROUP agree in everything that
 * changes cost or bytes: kind, attention window, which of their tensors are trained, and what backward has to
 * do in them. Sizes are those of one micro-batch where they depend on tokens.
 *
 * BACKWARD runs in every block from the head down to the lowest one with a trained tensor. A block above that
 * one hands a gradient down (`input_gradient`), trained or not; the lowest does not. Blocks below run forward
 * only. The head's forward, loss and backward are one op, chunk by chunk of tokens, so that logits never exist
 * whole; the chunk depends on the model's shape only, since results depend on it. A tied head uses the embedding's
 * table: its gradient of that table is written to the embedding's gradient, which the embedding's backward adds to.
 *
 * FLAT VECTORS (flat.h, docs/layout.md): a block's parameters, in the order of ah_model_tensors(), and of those the
 * trained ones: gradients, optimizer states and tiles are cut from the trained vector.
 *
 * SIZES come from what the blocks compute (program.h), MICRO-BATCH by micro-batch. With several, each micro-batch's
 * gradient is a vector of `gradient_bytes` an element before it is added to a sum of fp32; neither is counted here.
 *
 * A PART (ah_job_init_part()) is what one rank of a pipeline has: a run of blocks, numbered from 0, each shared by `tp`
 * ranks. Sizes are of one rank, 1/tp of the whole rounded up, its activations split along the sequence.
 *
 * A COPY of the table (`copies_table`) is what a tied head has where the embedding is with another rank, or where training
 * says `tied: split`. To the job it is the last tensor of the head, "head.weight", as in a model that is not tied; that it
 * equals the table is the business of whoever executes it.
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

/* Of job.header_bytes, what goes to the device: the optimizer's scalars and the scale of the loss. */
enum { AH_JOB_SCALARS_BYTES = 72 };

/* Of job.input_bytes, a token: itself, target, position, document, row of a table; mask. */
enum { AH_JOB_TOKEN_BYTES = 5 * sizeof(uint32_t) + 1 };

/* Of a micro-batch: whole words, as the next one lies behind it. */
static inline uint64_t ah_job_input_bytes(uint64_t tokens)
{
    return (tokens * AH_JOB_TOKEN_BYTES + sizeof(uint32_t) - 1) / sizeof(uint32_t) * sizeof(uint32_t);
}

/* Sizes of the flat vectors count padding as docs/layout.md defines it; `parameters` does not. */
struct ah_job_group {
    const char *name; /* "embedding", "layer", "layer_windowed", "head"; then, of a group without backward,
                         ".forward"; of one whose backward only hands down, ".frozen"; of one with some tensors
                         trained, ".partial", ".partial2", ...; then ".lowest" of a layer whose backward hands
                         nothing down. Unique; in the job's arena */
    enum ah_block_kind kind;
    bool windowed;
    bool backward;       /* a backward op runs (the head's forward op does its backward) */
    bool input_gradient; /* it hands a gradient down */
    uint32_t trained;    /* bit i: tensor i of ah_model_tensors() is trained */
    uint64_t first;      /* its lowest block */
    uint64_t blocks;
    uint64_t parameters;         /* of one block, without padding */
    uint64_t trained_parameters; /* the same, of its trained tensors */
    uint64_t flat_elements;      /* of the vector of all its parameters */
    uint64_t trained_elements;   /* of the vector of trained ones; 0: frozen */

    /* Bytes of a micro-batch. */
    uint64_t input_bytes;                              /* residual stream that enters; 0 for the embedding */
    uint64_t saved_bytes[AH_ACTIVATIONS_WAYS];         /* kept from forward to backward, beside the input */
    uint64_t forward_work_bytes[AH_ACTIVATIONS_WAYS];  /* scratch of the forward op, without what it saves */
    uint64_t backward_work_bytes[AH_ACTIVATIONS_WAYS]; /* of the backward op, with what it recomputes; without
                                                          saved tensors, gradient vector and residual gradient */
    uint64_t
        gathered_bytes; /* of the embedding, for weights on the host: rows of the tables that are sent; else 0 */
};

struct ah_job {
    const struct ah_model
        *model; /* borrowed; where the head has a copy of the table, not tied, and in the arena */
    struct ah_plan_training training;
    struct ah_job_group *groups; /* in the order of their first block */
    size_t n_groups;
    uint32_t *group_of; /* by block */
    size_t n_blocks;
    bool is_part;
    struct ah_plan_part part; /* of a whole model: all blocks, one rank, one stage */
    bool has_head;            /* the last block is the model's */
    bool adds_up;             /* gradients of several micro-batches, here or over pipelines */
    bool table_trained;       /* the embedding's, whoever has it */
    bool copies_table;        /* the head is tied, and has a copy of the table */
    size_t lowest;            /* lowest block whose backward runs; n_blocks: none does */
    uint64_t tokens;          /* of a micro-batch */
    uint64_t chunk_tokens;    /* of the head: a power of two, at least 64; a micro-batch may be smaller */
    uint64_t
        residual_bytes;    /* tokens x width in the training's dtype: the residual stream, and its gradient */
    uint64_t input_bytes;  /* tokens, targets, mask, positions of a micro-batch on the device */
    uint64_t header_bytes; /* scalars of a step, and a double for the loss of each micro-batch */
    uint64_t
        constant_bytes; /* on the device all the time: rope's table, sums of squares by block, two headers */
    uint64_t weight_bytes;   /* of an element of a weight: 2 or 4 */
    uint64_t gradient_bytes; /* of an element of a gradient that is sent or kept, one micro-batch: 2 or 4 */
    uint64_t state_bytes;    /* of an element on the side of the optimizer: master (bf16 only) + m + v */
};

/* Sizes everything; `model` and the patterns stay borrowed, the rest is in `arena`. AH_E_USAGE: a batch that
 * micro_batches do not divide, a sequence beyond max_positions (learned) or 0, a pattern that matches no tensor,
 * nothing trained: each by name and with what to do. AH_E_DOCUMENT: a micro-batch of 2^32 tokens or more; 2^53 bytes
 * or more. */
int ah_job_init(struct ah_job *ret_job, const struct ah_model *model, const struct ah_plan_training *training,
                struct ah_arena *arena, struct ah_error *err);

/* The same for one rank of a pipeline; `part` must name blocks that the model has. NULL: the whole model. */
int ah_job_init_part(struct ah_job *ret_job, const struct ah_model *model,
                     const struct ah_plan_training *training, const struct ah_plan_part *part,
                     struct ah_arena *arena, struct ah_error *err);

/* Forward of this block does its backward, too. */
static inline bool ah_job_is_head(const struct ah_job *job, size_t block)
{
    return job->has_head && block + 1 == job->n_blocks;
}

/* Is anything trained here? Of a whole model always. */
bool ah_job_trains(const struct ah_job *job);

/* Gradients of embedding and head are added up apart, then to each other. */
static inline bool ah_job_splits_table(const struct ah_job *job)
{
    return job->training.tied == AH_TIED_SPLIT;
}

/* The same, and nobody else has either: the table's gradient and the copy's become one behind the last gradient of the step. */
static inline bool ah_job_joins_table(const struct ah_job *job)
{
    return ah_job_splits_table(job) && !job->part.first_block && job->has_head &&
           !job->part.step_micro_batches;
}

/* The head uses the embedding's own table. */
static inline bool ah_job_shares_table(const struct ah_job *job)
{
    return job->model->tied && job->has_head && !job->part.first_block;
}

static inline const struct ah_job_group *ah_job_block(const struct ah_job *job, size_t block)
{
    return &job->groups[job->group_of[block]];
}

/* The name of a tensor of a block as patterns see it, cut at `max` - 1 characters: "embedding.embedding.weight",
 * "layer.3.attention.qkv.weight" (block 4: layers count from 0), "head.norm.weight". Returns its whole length. */
size_t ah_job_tensor_name(const struct ah_job *job, size_t block, const char *tensor, char *ret_name,
                          size_t max);

#endif
