/* SPDX-License-Identifier: Apache-2.0
 *
 * Program: what a block computes, as straight lines of primitive ops, and the tensors between them.
 *
 * One table of the steps of every family (program_table.c) is the source of every number about a block: which tensors
 * are saved and which are made again, how much scratch an op needs, how many operations and bytes each step takes.
 * docs/activations.md is printed from it.
 *
 *   keep       every tensor that forward makes and backward reads is saved
 *   selective  of those, norm outputs, what q/k norms and rope make of q and k, and the MLP's activation are made
 *              again from what is saved anyhow: no matrix product, no attention
 *   recompute  only the block's input is kept; backward begins with the forward steps that it needs
 *
 * Backward has only what something needs: gradients of trained tensors, and the block's input gradient if it hands one
 * down. All configs give the same bits.
 *
 * SCRATCH is exact: the steps of an op are a line, each tensor lives from the first step that touches it to the last,
 * and is given an offset by first fit; the peak of that is the op's working memory.
 *
 * Everything here is a function of the job and the group alone, allocates nothing and may run on several threads; it
 * takes about 100 KiB of stack. There are two views of a program: steps for cost models, and ops for executors:
 *
 *     n = ah_program_steps(&job, group, AH_PASS_BACKWARD, AH_ACTIVATIONS_SELECTIVE, steps);
 *     rc = ah_program_build(&job, group, AH_PASS_BACKWARD, AH_ACTIVATIONS_SELECTIVE, &program, err);
 */
#ifndef AH_RUNTIME_SCHEDULE_PROGRAM_H
#define AH_RUNTIME_SCHEDULE_PROGRAM_H

#include "base/sha256.h"
#include "runtime/device/op.h"
#include "runtime/schedule/job.h"

enum ah_pass { AH_PASS_FORWARD, AH_PASS_BACKWARD };

enum ah_step_kind { AH_STEP_MATMUL, AH_STEP_ATTENTION, AH_STEP_POINTWISE };

enum { AH_PROGRAM_STEPS_MAX = 64 }; /* programs lie on the stack */

/* One primitive of a pass, as a cost model sees it. */
struct ah_program_step {
    const char *name; /* "attention.qkv", "mlp_norm" */
    enum ah_step_kind kind;
    bool backward;            /* the primitive is a backward one; a forward step done again is not */
    enum ah_matmul_form form; /* matmul: */
    uint64_t m, n, k;
    uint64_t times; /* how often it is done: chunks of the head */
    double
        flops; /* matmul and attention: of all times, 2 a multiplication with its sum. Attention counts the pairs
                     that it sees; two products a pair forward, five backward, which makes the scores again */
    uint64_t
        moved_bytes; /* between device memory and processor if every operand is touched once, all times */
};

/* The steps that `pass` of a block of `group` does under `activations`, recomputation included; of the head, the
 * forward pass is all. Returns how many. */
size_t ah_program_steps(const struct ah_job *job, const struct ah_job_group *group, enum ah_pass pass,
                        enum ah_activations activations,
                        struct ah_program_step ret_steps[AH_PROGRAM_STEPS_MAX]);

/* A tensor between the steps of a block, for docs/activations.md, inspection, and later the runtime. */
struct ah_program_tensor {
    const char *name; /* "qkv", "attention_norm" */
    uint64_t bytes;   /* of a micro-batch */
    bool saved[AH_ACTIVATIONS_WAYS];
    uint64_t offset[AH_ACTIVATIONS_WAYS]; /* inside what the block saves, where it is saved */
};

enum { AH_PROGRAM_TENSORS_MAX = 48 };

/* The tensors that some config of a block saves, in the order they are made. Returns how many. */
size_t ah_program_saved(const struct ah_job *job, const struct ah_job_group *group,
                        struct ah_program_tensor ret_tensors[AH_PROGRAM_TENSORS_MAX]);

/* ---- the program itself, for whoever executes or checks it ---- */

/* Where an operand's memory comes from. */
enum ah_program_home {
    AH_HOME_NONE,
    AH_HOME_SCRATCH,           /* the op's working memory: offsets are decided here */
    AH_HOME_SAVED,             /* what the block saves: the same */
    AH_HOME_INPUT,             /* residual stream that enters the block */
    AH_HOME_OUTPUT,            /* ... that leaves it */
    AH_HOME_RESIDUAL_GRADIENT, /* read and updated in place; made by the head */
    AH_HOME_WEIGHTS,           /* of the block: offsets in its flat vector */
    AH_HOME_GRADIENTS,         /* of the block: offsets in its trained vector */
    AH_HOME_TABLE,             /* of a tied head: the embedding's weights and gradients */
    AH_HOME_TABLE_GRADIENTS,
    AH_HOME_DATA, /* of the micro-batch or the job, by name: "tokens", "rope_table" */
    AH_HOMES
};

struct ah_program_place {
    const char *name;
    enum ah_program_home home; /* none: not in this program */
    uint64_t bytes;
    uint64_t offset_bytes; /* inside its home; 0 for data, input, output, residual gradient */
};

enum { AH_PROGRAM_NO_PLACE = UINT8_MAX, AH_PROGRAM_PLACES_MAX = 112 };

/* A primitive op with everything but addresses. An operand that exists has the device arena, and its offset is
 * inside its place. Left to the executor: with data without documents it takes out `positions` and `docs` and sets
 * `seq`; where rows of the embedding were gathered on the host, they are the table, and `tokens` count from 0; the sum
 * of the loss lies where its micro-batch has one. */
struct ah_program_op {
    const char *name;
    struct ah_op op;
    uint8_t place[AH_OP_ARGS];        /* AH_PROGRAM_NO_PLACE: absent */
    uint64_t chunk_bytes[AH_OP_ARGS]; /* how much further the operand lies each time */
    uint64_t times;    /* ops with more than one follow each other: the loop over chunks does them in turn */
    bool first_writes; /* the first of several times c is written, not added to */
    bool in_loop;      /* of the loop over chunks, or of the rest of tokens after it */
    bool backward;     /* a backward primitive */
    bool recomputed;   /* a forward step, again */
};

struct ah_program {
    struct ah_program_op ops[AH_PROGRAM_STEPS_MAX];
    size_t n_ops;
    struct ah_program_place places[AH_PROGRAM_PLACES_MAX];
    size_t n_places;
    uint64_t scratch_bytes; /* highest end of a scratch place */
    uint64_t saved_bytes;
};

/* The program of a pass. AH_E_DOCUMENT: sizes beyond any memory (a job that ah_job_init() accepted has none). */
int ah_program_build(const struct ah_job *job, const struct ah_job_group *group, enum ah_pass pass,
                     enum ah_activations activations, struct ah_program *ret_program, struct ah_error *err);

/* Of data without documents, positions are those of the sequence: takes `positions` and `docs` out of the op. */
void ah_program_drop_documents(struct ah_op *op, uint64_t seq);

/* The sha256 of what a group computes, as text: of the ops of every pass under every config, with their sizes, types and
 * strides. Groups of equal digest take as long, whatever models they are of. AH_E_DOCUMENT as ah_program_build(). */
int ah_program_digest(const struct ah_job *job, const struct ah_job_group *group,
                      char ret_text[AH_SHA256_HEX_MAX], struct ah_error *err);

/* What every pass under every config saves and needs. */
struct ah_program_sizes {
    uint64_t saved_bytes[AH_ACTIVATIONS_WAYS];
    uint64_t forward_work_bytes[AH_ACTIVATIONS_WAYS];
    uint64_t backward_work_bytes[AH_ACTIVATIONS_WAYS];
};
int ah_program_measure(const struct ah_job *job, const struct ah_job_group *group,
                       struct ah_program_sizes *ret_sizes, struct ah_error *err);

#endif
