/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of what blocks compute (program_table.c), and how one block's program is made from it.
 *
 *     program_table.c    steps and tensors of every family, as rows
 *     program_nodes.c    the rows that apply to a block -> nodes: ops with sizes, in a forward and a backward line;
 *                        unneeded steps are dropped
 *     program_ops.c      the sizes of an op, from the shapes of its operands
 *     program_memory.c   what each config saves; offsets of scratch
 *     program.c          nodes -> the program of a pass
 *
 * A ROW names an op, its operands, and the features that it needs. An operand is a tensor (or columns of it), a
 * parameter's weight or gradient, or the op's scratch. A row does not apply to a block if a required operand is
 * missing: the model does not have the parameter, or the gradient's parameter is frozen. So biases, q/k norms, gates
 * and frozen tensors need no rows of their own.
 */
#ifndef AH_RUNTIME_SCHEDULE_PROGRAM_INTERNAL_H
#define AH_RUNTIME_SCHEDULE_PROGRAM_INTERNAL_H

#include "runtime/schedule/flat.h"
#include "runtime/schedule/program.h"

/* Properties of models, dtypes and sizes that cannot be seen from the list of parameters. */
enum feature {
    GATED = 1,
    ROPE = 2,
    QK_NORM = 4,
    TIED = 8,
    BF16 = 16,
    SUMMED = 32,           /* bf16 and several chunks: the gradient of the head's table is summed in fp32 */
    PACKED = 64,           /* weights of gate and up are adjacent and form one matrix */
    PACKED_GRADIENT = 128, /* gradients of gate and up are adjacent, too, because both are trained */
    NORM_FIRST = 256,      /* a layer has norms before attention and MLP */
    NORM_LAST = 512,       /* it has norms after them */
    WINDOW_ROPE = 1024,    /* the layer has the rope of layers with the window */
    LORA = 4096            /* times 1 << enum ah_lora: the matrix has an adapter */
};

/* The sizes that make up shapes. */
enum size_name {
    ONE,
    TOKENS, /* in a micro-batch */
    CHUNK,  /* tokens in a chunk of the head */
    SEQ,
    WIDTH,
    QKV_WIDTH,
    QK_WIDTH,
    Q_WIDTH,
    KV_WIDTH,
    HEADS,
    Q_NORMS, /* norms of q in a row: one for each head, or one for all; 0 without them */
    K_NORMS,
    HEAD_DIM,
    MLP_WIDTH,
    GATE_UP_WIDTH,
    VOCABULARY,
    NORM_STATS, /* 2 for a layer norm (mean, 1/deviation), else 1 */
    RANK,       /* of adapters */
    QKV_RANKS,  /* of all adapters of q, k and v together */
    GATE_UP_RANKS,
    SIZES
};

enum element {
    ACT,     /* the training's dtype */
    F32,     /* fp32 */
    PARTIAL, /* fp32 if the tensor is the sum of two products (gated, not packed), else as ACT */
    U32,
    U8,
    F64
};

enum tensor {
    T_NONE,
    T_TOKENS,
    T_TARGETS,
    T_MASK,
    T_POSITIONS,
    T_DOCS,
    T_ROPE_TABLE,
    T_WINDOW_ROPE_TABLE,
    T_LOSS_SCALE,
    T_LOSS_SUM,
    T_INPUT,
    T_OUTPUT,
    T_GRADIENT, /* of the residual stream */
    T_NORM1,
    T_STATS1,
    T_QKV,
    T_QK,
    T_STATS_Q,
    T_STATS_K,
    T_ATTENDED,
    T_LSE,
    T_ATTENTION_RESULT,
    T_ATTENTION_RESULT_STATS,
    T_MIDDLE,
    T_NORM2,
    T_STATS2,
    T_GATE_UP,
    T_UP,
    T_PRODUCT,
    T_MLP_RESULT,
    T_MLP_RESULT_STATS,
    T_MLP_NORMED,
    T_D_MLP_RESULT,
    T_D_PRODUCT,
    T_D_GATE_UP,
    T_D_NORM2,
    T_D_MLP,
    T_D_ATTENTION_RESULT,
    T_D_ATTENDED,
    T_D_QKV,
    T_D_QK,
    T_D_NORM1,
    T_D_ATTENTION,
    T_HEAD_NORM,
    T_HEAD_STATS,
    T_LOGITS,
    T_D_LOGITS,
    T_LOSS,
    T_TABLE_SUM,
    T_LORA_QKV, /* the inputs of layers times A of their adapters, scaled */
    T_LORA_OUTPUT,
    T_LORA_GATE_UP,
    T_LORA_DOWN,
    T_D_LORA_QKV,
    T_D_LORA_OUTPUT,
    T_D_LORA_GATE_UP,
    T_D_LORA_DOWN,
    TENSORS
};

struct tensor_rule {
    const char *name;
    enum ah_program_home home; /* AH_HOME_SCRATCH also for tensors that may be saved */
    enum element element;
    enum size_name rows, cols;
    /* (optional) if the block lacks this feature, the tensor is the same part of `else_in` */
    uint32_t only_with;
    enum tensor else_in;
};

/* Columns of a tensor. In adapters, the parts are those of A's results (columns) and of B (rows). */
enum part { WHOLE, PART_Q, PART_K, PART_QK, PART_V, PART_GATE, PART_UP, PARTS };

enum operand_kind { NOTHING, TENSOR, WEIGHT, WEIGHT_GRADIENT, OP_SCRATCH };

struct operand_rule {
    enum operand_kind kind;
    enum tensor tensor;
    enum part part;
    bool optional; /* the op can do without it; an optional output is left out if nothing needs it */
    const char *parameter;
    /* with "mlp.gate.weight": the operand includes "mlp.up.weight", as rows of the same matrix */
    bool and_up;
};

struct step_rule {
    const char *name;
    enum ah_op_kind op;
    uint32_t form;   /* matmul only */
    uint32_t when;   /* the block must have all these features */
    uint32_t unless; /* the block must have none of these features */
    bool cheap;      /* selective recomputes it */
    bool adds;       /* matmul: adds to c */
    bool scaled;     /* matmul: times the factor of adapters */
    bool chunked;    /* repeated for each chunk of tokens */
    bool backward;
    struct operand_rule arg[AH_OP_ARGS];
};

/* The tables of steps end with a row without a name. */
extern const struct tensor_rule ah_program_tensor_rules[TENSORS];
const struct step_rule *ah_program_forward_rules(enum ah_block_kind kind);
const struct step_rule *ah_program_backward_rules(enum ah_block_kind kind);

/* What rows are evaluated for: the job, the group, its features and its sizes. */
struct ah_program_context {
    const struct ah_job *job;
    const struct ah_job_group *group;
    uint32_t features;
    uint64_t of[SIZES];
    uint64_t chunks; /* number of whole chunks in the head */
    uint64_t rest;   /* number of tokens after the whole chunks */
    struct ah_flat flat;
    struct ah_flat table; /* the embedding's vectors, for a tied head */
};

struct shape {
    uint64_t rows, cols;
};

/* A row of the table, evaluated for one block. */
struct node {
    const struct step_rule *rule;
    struct ah_program_op step;
    struct shape shape[AH_OP_ARGS];
    enum ah_role role[AH_OP_ARGS];
    uint64_t scratch_bytes;
};

enum {
    NODES_MAX = 52
}; /* at most 48 rows of the longest table apply to a block; two lines are kept on the stack */

struct line {
    struct node nodes[NODES_MAX];
    size_t n;
};

/* A block's lines, and the tensors that each config saves. */
struct ah_program_block {
    struct ah_program_context context;
    struct line forward;
    struct line backward;
    bool saved[AH_ACTIVATIONS_WAYS][TENSORS];
};

/* Indices of places, in this order: tensors; weights and gradients of the block's parameters; gate and up as one
 * matrix, and its gradient; the embedding's table in a tied head, and its gradient; scratch of each op. */
enum {
    PLACE_WEIGHTS = TENSORS,
    PLACE_GRADIENTS = PLACE_WEIGHTS + AH_MODEL_TENSORS_MAX,
    PLACE_GATE_UP = PLACE_GRADIENTS + AH_MODEL_TENSORS_MAX,
    PLACE_GATE_UP_GRADIENT,
    PLACE_TABLE,
    PLACE_TABLE_GRADIENT,
    PLACE_SCRATCH
};

/* Sets the features and sizes of a group. */
void ah_program_context_init(struct ah_program_context *ret_context, const struct ah_job *job,
                             const struct ah_job_group *group);

uint64_t ah_program_tensor_bytes(const struct ah_program_context *context, enum tensor tensor);

/* Makes the line of these rules, without unneeded steps. AH_E_DOCUMENT: sizes beyond any memory. */
int ah_program_line_init(struct line *ret_line, const struct ah_program_context *context,
                         const struct step_rule *rules, struct ah_error *err);

/* Sets the sizes in node->step.op.u from the shapes. Adds or removes operands whose presence depends on others. */
void ah_program_ops_size(const struct ah_program_context *context, struct node *node);

/* Fills both lines and the sets of saved tensors. AH_E_DOCUMENT: sizes beyond any memory. */
int ah_program_block_init(struct ah_program_block *ret_block, const struct ah_job *job,
                          const struct ah_job_group *group, struct ah_error *err);

void ah_program_block_pass(const struct ah_program_block *block, enum ah_pass pass,
                           enum ah_activations activations, struct ah_program *ret_program);

/* Sets the offsets of places in scratch (home scratch, bytes > 0), and sets `scratch_bytes` to their peak. */
void ah_program_memory_place(struct ah_program *program);

/* Chooses the tensors that each config saves. */
void ah_program_memory_choose(struct ah_program_block *block);

/* Writes the offsets of saved tensors, by tensor. Returns the sum of the saved bytes. */
uint64_t ah_program_memory_saved(const struct ah_program_block *block, enum ah_activations activations,
                                 uint64_t *ret_offsets);

#endif
