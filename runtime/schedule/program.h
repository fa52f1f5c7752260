/* SPDX-License-Identifier: Apache-2.0
 *
 * Program: what a block computes, as straight lines of primitive ops, and the tensors between them.
 *
 * One table of steps for all families (program_table.c) is the source of everything known about a block: which tensors
 * are saved or recomputed, how much scratch an op needs, how many operations and bytes each step takes.
 * docs/activations.md is printed from it.
 *
 *   keep       every tensor that forward makes and backward reads is saved
 *   selective  norm outputs, q and k after their norms and rope, and the MLP's activation are not saved but
 *              recomputed from saved tensors, without repeating a matrix product or attention
 *   recompute  only the block's input is kept; backward begins with the forward steps it needs
 *
 * Backward computes only what is needed: gradients of trained tensors, and the block's input gradient if it hands one
 * down. All configs give the same bits.
 *
 * SCRATCH is computed exactly. The steps of an op form a line. A tensor's lifetime lasts from the first step that
 * touches it to the last, and first fit gives its offset. The resulting peak is the op's working memory.
 *
 * Everything here depends only on the job and the group, allocates nothing and may run on several threads; it takes
 * about 150 KiB of stack. There are two views of a program: steps for cost models, and ops for executors:
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

enum { AH_PROGRAM_STEPS_MAX = 88 }; /* programs are kept on the stack */

/* One primitive of a pass, as a cost model sees it. */
struct ah_program_step {
    const char *name; /* "attention.qkv", "mlp_norm" */
    enum ah_step_kind kind;
    bool backward;            /* a backward primitive; false for a recomputed forward step */
    enum ah_matmul_form form; /* of a matmul; so are m, n and k */
    uint64_t m, n, k;
    uint64_t times; /* number of repetitions, one per chunk of the head */
    /* Operations of a matmul or attention, over all repetitions; a multiply-add counts as 2. For attention, each
     * visible pair takes two products forward, and five backward, which recomputes the scores. */
    double flops;
    /* Bytes moved between device memory and processor, over all repetitions, if every operand is touched once. */
    uint64_t moved_bytes;
};

/* Lists the steps of `pass` in a block of `group` under `activations`, with recomputed steps. The head's forward pass
 * has all steps of the head. Returns the number of steps. */
size_t ah_program_steps(const struct ah_job *job, const struct ah_job_group *group, enum ah_pass pass,
                        enum ah_activations activations,
                        struct ah_program_step ret_steps[AH_PROGRAM_STEPS_MAX]);

/* Returns the flops that the model needs in a step of the whole batch: forward and backward of all blocks, without what
 * is computed again, such as the scores of attention in backward. */
double ah_program_model_flops(const struct ah_job *job);

/* A tensor between the steps of a block, for docs/activations.md and inspection. */
struct ah_program_tensor {
    const char *name; /* "qkv", "attention_norm" */
    uint64_t bytes;   /* in one micro-batch */
    bool saved[AH_ACTIVATIONS_WAYS];
    uint64_t offset[AH_ACTIVATIONS_WAYS]; /* within the block's saved memory; valid if `saved` */
};

enum { AH_PROGRAM_TENSORS_MAX = 48 };

/* Lists a block's tensors that at least one config saves, in the order in which they are made. Returns their number. */
size_t ah_program_saved(const struct ah_job *job, const struct ah_job_group *group,
                        struct ah_program_tensor ret_tensors[AH_PROGRAM_TENSORS_MAX]);

/* ---- the program itself, for executors and checks ---- */

/* Where an operand's memory comes from. */
enum ah_program_home {
    AH_HOME_NONE,
    AH_HOME_SCRATCH,           /* the op's working memory: the program decides offsets */
    AH_HOME_SAVED,             /* the block's saved memory: the program decides offsets here, too */
    AH_HOME_INPUT,             /* residual stream into the block */
    AH_HOME_OUTPUT,            /* residual stream out of the block */
    AH_HOME_RESIDUAL_GRADIENT, /* read and updated in place; made by the head */
    AH_HOME_WEIGHTS,           /* of the block; offsets are those of its flat vector */
    AH_HOME_GRADIENTS,         /* of the block; offsets are those of its trained vector */
    AH_HOME_TABLE, /* the embedding's weights, for a tied head; its gradients are AH_HOME_TABLE_GRADIENTS */
    AH_HOME_TABLE_GRADIENTS,
    AH_HOME_DATA, /* of the micro-batch or the job, found by name: "tokens", "rope_table" */
    AH_HOMES
};

struct ah_program_place {
    const char *name;
    enum ah_program_home home; /* AH_HOME_NONE: not in this program */
    uint64_t bytes;
    uint64_t offset_bytes; /* within its home; 0 for data, input, output, residual gradient */
};

enum { AH_PROGRAM_NO_PLACE = UINT8_MAX, AH_PROGRAM_PLACES_MAX = 160 };

/* A primitive op with everything but addresses. A present operand names the device arena, and its offset counts from
 * its place. Executors adapt the op in three ways. For data without documents, they call ah_program_drop_documents().
 * If rows of the embedding were gathered on the host, the rows replace the table, and `tokens` count from 0. Each
 * micro-batch gets its own loss sum. */
struct ah_program_op {
    const char *name;
    struct ah_op op;
    uint8_t place[AH_OP_ARGS];        /* AH_PROGRAM_NO_PLACE: absent */
    uint64_t chunk_bytes[AH_OP_ARGS]; /* how far the operand advances with each repetition */
    /* Number of repetitions. Ops with several are adjacent; each repetition of the loop over chunks runs them all. */
    uint64_t times;
    bool first_writes; /* the first repetition writes c, later repetitions add to it */
    bool in_loop;      /* part of the loop over chunks, or of the remaining tokens after it */
    bool backward;     /* a backward primitive */
    bool recomputed;   /* a forward step that backward repeats */
};

struct ah_program {
    struct ah_program_op ops[AH_PROGRAM_STEPS_MAX];
    size_t n_ops;
    struct ah_program_place places[AH_PROGRAM_PLACES_MAX];
    size_t n_places;
    uint64_t scratch_bytes; /* highest end of a place in scratch */
    uint64_t saved_bytes;
};

/* Builds the program of a pass. AH_E_DOCUMENT: a size exceeds any memory (never if ah_job_init() accepted the job). */
int ah_program_build(const struct ah_job *job, const struct ah_job_group *group, enum ah_pass pass,
                     enum ah_activations activations, struct ah_program *ret_program, struct ah_error *err);

/* Removes `positions` and `docs` from the op, for data without documents. Positions then count within each `seq`. */
void ah_program_drop_documents(struct ah_op *op, uint64_t seq);

/* Writes the sha256 of all work of a group: ops of every pass under every config, with sizes, types and strides. Groups
 * with equal digests take equal time, even in different models. AH_E_DOCUMENT as ah_program_build(). */
int ah_program_digest(const struct ah_job *job, const struct ah_job_group *group,
                      char ret_text[AH_SHA256_HEX_MAX], struct ah_error *err);

/* The bytes that each pass saves and needs under each config. */
struct ah_program_sizes {
    uint64_t saved_bytes[AH_ACTIVATIONS_WAYS];
    uint64_t forward_work_bytes[AH_ACTIVATIONS_WAYS];
    uint64_t backward_work_bytes[AH_ACTIVATIONS_WAYS];
};
int ah_program_measure(const struct ah_job *job, const struct ah_job_group *group,
                       struct ah_program_sizes *ret_sizes, struct ah_error *err);

#endif
