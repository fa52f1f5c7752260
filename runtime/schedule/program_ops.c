/* SPDX-License-Identifier: Apache-2.0
 *
 * Derives the sizes of an op from the shapes of its operands, with one function for each kind of op.
 */
#include "runtime/schedule/program_internal.h"

#include "base/bf16.h"

#include <math.h>

typedef void size_fn(const struct ah_program_context *context, struct node *node);

static bool has_operand(const struct node *node, size_t i)
{
    return node->step.op.arg[i].arena != AH_ARENA_NONE;
}

/* Adds or removes an operand whose presence depends on other operands. */
static void set_present(struct node *node, size_t i, bool present)
{
    node->step.op.arg[i].arena = present ? AH_ARENA_DEVICE : AH_ARENA_NONE;
}

static void size_elements(const struct ah_program_context *context, struct node *node)
{
    (void)context;
    node->step.op.u.elements =
        (struct ah_op_elements){.count = node->shape[0].cols, .rows = node->shape[0].rows};
}

static void size_matmul(const struct ah_program_context *context, struct node *node)
{
    struct ah_op_matmul *matmul = &node->step.op.u.matmul;
    matmul->form = node->rule->form;
    matmul->epilogue = has_operand(node, 3) ? AH_EPILOGUE_BIAS : AH_EPILOGUE_NONE;
    matmul->alpha = node->rule->scaled ? (float)ah_model_lora_scale(context->job->model) : 0;
    matmul->m = node->shape[0].rows;
    matmul->n = node->shape[0].cols;
    matmul->k = matmul->form == AH_MATMUL_TN ? node->shape[1].rows : node->shape[1].cols;
}

static void size_column_sum(const struct ah_program_context *context, struct node *node)
{
    (void)context;
    node->step.op.u.rows = (struct ah_op_rows){.rows = node->shape[1].rows, .width = node->shape[1].cols};
}

/* Sets the sizes of a norm. Each row of x consists of heads, and each head is as wide as the gain. */
static void size_norm_of(const struct ah_program_context *context, struct node *node, size_t x, size_t gain)
{
    const struct ah_model *model = context->job->model;
    uint64_t width = node->shape[gain].rows;
    node->step.op.u.norm =
        (struct ah_op_norm){.rows = node->shape[x].rows,
                            .width = width,
                            .heads = (uint32_t)(node->shape[x].cols / width),
                            .kind = model->norm == AH_MODEL_NORM_LAYER ? AH_NORM_LAYER : AH_NORM_RMS,
                            .epsilon = (float)model->norm_epsilon,
                            .gain_offset = model->norm_offset ? 1 : 0};
}

static void size_norm(const struct ah_program_context *context, struct node *node)
{
    size_norm_of(context, node, 1, 2);
}

static void size_norm_backward(const struct ah_program_context *context, struct node *node)
{
    size_norm_of(context, node, 4, 5);
    set_present(node, 7, has_operand(node, 1) || has_operand(node, 2));
}

static void size_rope(const struct ah_program_context *context, struct node *node)
{
    const struct ah_model_rope *rope = context->job->model->rope;
    uint64_t head_dim = context->of[HEAD_DIM];
    node->step.op.u.rope = (struct ah_op_rope){.rows = node->shape[0].rows,
                                               .heads = (uint32_t)(node->shape[0].cols / head_dim),
                                               .head_dim = (uint32_t)head_dim,
                                               .rotated = rope ? (uint32_t)rope->rotated : 0,
                                               .table_rows = (uint32_t)context->of[SEQ],
                                               .inverse = node->rule->backward};
}

static void size_attention(const struct ah_program_context *context, struct node *node)
{
    const struct ah_model *model = context->job->model;
    node->step.op.u.attention = (struct ah_op_attention){
        .batch = (uint32_t)(context->of[TOKENS] / context->of[SEQ]),
        .seq = (uint32_t)context->of[SEQ],
        .heads = (uint32_t)model->heads,
        .kv_heads = (uint32_t)model->kv_heads,
        .head_dim = (uint32_t)model->head_dim,
        .window = context->group->ways.windowed ? (uint32_t)model->window : 0,
        .scale = (float)(1 / sqrt(model->query_scalar > 0 ? model->query_scalar : (double)model->head_dim)),
        .soft_cap = (float)model->score_cap};
}

static void size_activation(const struct ah_program_context *context, struct node *node)
{
    static const enum ah_activation_kind kinds[] = {[AH_MODEL_GELU_TANH] = AH_ACTIVATION_GELU_TANH,
                                                    [AH_MODEL_GELU] = AH_ACTIVATION_GELU,
                                                    [AH_MODEL_SILU_GATED] = AH_ACTIVATION_SILU_GATED,
                                                    [AH_MODEL_GELU_TANH_GATED] =
                                                        AH_ACTIVATION_GELU_TANH_GATED};
    node->step.op.u.rows = (struct ah_op_rows){.rows = node->shape[0].rows,
                                               .width = node->shape[0].cols,
                                               .kind = kinds[context->job->model->activation]};
}

/* Returns the factor of embedded rows, as the type of training holds it. */
static float embedding_scale(const struct ah_program_context *context)
{
    const struct ah_model *model = context->job->model;
    const float scale = model->embedding_scaled ? (float)sqrt((double)model->width) : 0;
    return context->job->training.dtype == AH_BF16 ? ah_bf16_to_fp32(ah_bf16_from_fp32(scale)) : scale;
}

static struct ah_op_embed embed_sizes(const struct ah_program_context *context, bool positions)
{
    return (struct ah_op_embed){.rows = context->of[TOKENS],
                                .width = context->of[WIDTH],
                                .vocabulary = context->of[VOCABULARY],
                                .positions = positions ? context->job->model->max_positions : 0,
                                .scale = embedding_scale(context)};
}

static void size_embed(const struct ah_program_context *context, struct node *node)
{
    set_present(node, 4, has_operand(node, 2));
    node->step.op.u.embed = embed_sizes(context, has_operand(node, 2));
}

static void size_embed_backward(const struct ah_program_context *context, struct node *node)
{
    set_present(node, 3, has_operand(node, 0));
    set_present(node, 4, has_operand(node, 1));
    set_present(node, 5, has_operand(node, 0));
    node->step.op.u.embed = embed_sizes(context, has_operand(node, 1));
    if (has_operand(node, 0) && context->job->model->padding_token != AH_MODEL_NO_PADDING)
        node->step.op.u.embed.padding = 1 + context->job->model->padding_token;
}

static void size_cross_entropy(const struct ah_program_context *context, struct node *node)
{
    node->step.op.u.cross_entropy =
        (struct ah_op_cross_entropy){.rows = node->shape[1].rows,
                                     .vocabulary = context->of[VOCABULARY],
                                     .soft_cap = (float)context->job->model->logit_cap};
}

static void size_sum(const struct ah_program_context *context, struct node *node)
{
    (void)context;
    node->step.op.u.sum = (struct ah_op_sum){.count = node->shape[1].rows * node->shape[1].cols};
}

static size_fn *const sizes[AH_OP_KINDS] = {
    [AH_OP_FILL] = size_elements,
    [AH_OP_CAST] = size_elements,
    [AH_OP_ADD] = size_elements,
    [AH_OP_MATMUL] = size_matmul,
    [AH_OP_COLUMN_SUM] = size_column_sum,
    [AH_OP_NORM] = size_norm,
    [AH_OP_NORM_BACKWARD] = size_norm_backward,
    [AH_OP_ROPE] = size_rope,
    [AH_OP_ATTENTION] = size_attention,
    [AH_OP_ATTENTION_BACKWARD] = size_attention,
    [AH_OP_ACTIVATION] = size_activation,
    [AH_OP_ACTIVATION_BACKWARD] = size_activation,
    [AH_OP_EMBED] = size_embed,
    [AH_OP_EMBED_BACKWARD] = size_embed_backward,
    [AH_OP_CROSS_ENTROPY] = size_cross_entropy,
    [AH_OP_SUM] = size_sum,
};

void ah_program_ops_size(const struct ah_program_context *context, struct node *node)
{
    sizes[node->rule->op](context, node);
}
