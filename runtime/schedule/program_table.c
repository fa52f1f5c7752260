/* SPDX-License-Identifier: Apache-2.0
 *
 * What blocks compute: every step of every family, forward and backward. docs/activations.md explains it.
 *
 * Names of backward steps: "x.weight" and "x.bias" make the gradient of that parameter, "x.input" that of x's input.
 *
 * 1. Rows are in the order of execution, and every tensor is written before it is read.
 * 2. After the last forward step that reads a tensor, no step writes it. So to save a tensor is to keep its memory.
 * 3. Selective repeats a `cheap` step with the same bits. So no product is fused with an activation, because a fused
 *    activation would see its operand before rounding.
 * 4. rope rotates q and k in place, because its backward needs only their gradient. The backward of q/k norms reads the
 *    norms' input. So if a model has q/k norms, the normed and rotated q and k are a separate tensor.
 * 5. Gate and up are adjacent columns of one matrix, like q, k and v. If their weights are adjacent, too (no biases, no
 *    padding between them), one product makes both; if both are trained, one product makes both gradients.
 * 6. An adapter's product is added to the rounded product of its matrix, and rounded. Adapters that are not trained are
 *    left out: their B is zero.
 * 7. The output of a block exists only in its forward pass. So the norm after the MLP, which backward repeats for its
 *    statistics, writes a tensor of its own.
 * 8. The head overwrites its norm's output with the gradient of that output, chunk by chunk. It does so after the
 *    chunk's other product has read the output.
 */
#include "runtime/schedule/program_internal.h"

/* clang-format off */
const struct tensor_rule ah_program_tensor_rules[TENSORS] = {
    [T_TOKENS] = {"tokens", AH_HOME_DATA, U32, TOKENS, ONE, 0, 0},
    [T_TARGETS] = {"targets", AH_HOME_DATA, U32, TOKENS, ONE, 0, 0},
    [T_MASK] = {"mask", AH_HOME_DATA, U8, TOKENS, ONE, 0, 0},
    [T_POSITIONS] = {"positions", AH_HOME_DATA, U32, TOKENS, ONE, 0, 0},
    [T_DOCS] = {"docs", AH_HOME_DATA, U32, TOKENS, ONE, 0, 0},
    [T_ROPE_TABLE] = {"rope_table", AH_HOME_DATA, F32, SEQ, HEAD_DIM, 0, 0},
    [T_WINDOW_ROPE_TABLE] = {"window_rope_table", AH_HOME_DATA, F32, SEQ, HEAD_DIM, WINDOW_ROPE, T_ROPE_TABLE},
    [T_LOSS_SCALE] = {"loss_scale", AH_HOME_DATA, F32, ONE, ONE, 0, 0},
    [T_LOSS_SUM] = {"loss_sum", AH_HOME_DATA, F64, ONE, ONE, 0, 0},
    [T_INPUT] = {"input", AH_HOME_INPUT, ACT, TOKENS, WIDTH, 0, 0},
    [T_OUTPUT] = {"output", AH_HOME_OUTPUT, ACT, TOKENS, WIDTH, 0, 0},
    [T_GRADIENT] = {"gradient", AH_HOME_RESIDUAL_GRADIENT, ACT, TOKENS, WIDTH, 0, 0},

    [T_NORM1] = {"attention_norm", AH_HOME_SCRATCH, ACT, TOKENS, WIDTH, NORM_FIRST, T_INPUT},
    [T_STATS1] = {"attention_norm.stats", AH_HOME_SCRATCH, F32, TOKENS, NORM_STATS, 0, 0},
    [T_QKV] = {"qkv", AH_HOME_SCRATCH, ACT, TOKENS, QKV_WIDTH, 0, 0},
    [T_QK] = {"qk_normed", AH_HOME_SCRATCH, ACT, TOKENS, QK_WIDTH, QK_NORM, T_QKV},
    [T_STATS_Q] = {"q_norm.stats", AH_HOME_SCRATCH, F32, TOKENS, Q_NORMS, 0, 0},
    [T_STATS_K] = {"k_norm.stats", AH_HOME_SCRATCH, F32, TOKENS, K_NORMS, 0, 0},
    [T_ATTENDED] = {"attended", AH_HOME_SCRATCH, ACT, TOKENS, Q_WIDTH, 0, 0},
    [T_LSE] = {"attention.lse", AH_HOME_SCRATCH, F32, TOKENS, HEADS, 0, 0},
    [T_ATTENTION_RESULT] = {"attention_result", AH_HOME_SCRATCH, ACT, TOKENS, WIDTH, NORM_LAST, T_MIDDLE},
    [T_ATTENTION_RESULT_STATS] = {"attention_post_norm.stats", AH_HOME_SCRATCH, F32, TOKENS, NORM_STATS, 0, 0},
    [T_MIDDLE] = {"middle", AH_HOME_SCRATCH, ACT, TOKENS, WIDTH, 0, 0},
    [T_NORM2] = {"mlp_norm", AH_HOME_SCRATCH, ACT, TOKENS, WIDTH, NORM_FIRST, T_MIDDLE},
    [T_STATS2] = {"mlp_norm.stats", AH_HOME_SCRATCH, F32, TOKENS, NORM_STATS, 0, 0},
    [T_GATE_UP] = {"gate_up", AH_HOME_SCRATCH, ACT, TOKENS, GATE_UP_WIDTH, GATED, T_UP},
    [T_UP] = {"up", AH_HOME_SCRATCH, ACT, TOKENS, MLP_WIDTH, 0, 0},
    [T_PRODUCT] = {"activation", AH_HOME_SCRATCH, ACT, TOKENS, MLP_WIDTH, 0, 0},
    [T_MLP_RESULT] = {"mlp_result", AH_HOME_SCRATCH, ACT, TOKENS, WIDTH, NORM_LAST, T_OUTPUT},
    [T_MLP_NORMED] = {"mlp_post_norm", AH_HOME_SCRATCH, ACT, TOKENS, WIDTH, NORM_LAST, T_OUTPUT},
    [T_MLP_RESULT_STATS] = {"mlp_post_norm.stats", AH_HOME_SCRATCH, F32, TOKENS, NORM_STATS, 0, 0},

    [T_D_MLP_RESULT] = {"d_mlp_result", AH_HOME_SCRATCH, ACT, TOKENS, WIDTH, NORM_LAST, T_GRADIENT},
    [T_D_PRODUCT] = {"d_activation", AH_HOME_SCRATCH, ACT, TOKENS, MLP_WIDTH, 0, 0},
    [T_D_GATE_UP] = {"d_gate_up", AH_HOME_SCRATCH, ACT, TOKENS, GATE_UP_WIDTH, GATED, T_D_PRODUCT},
    [T_D_NORM2] = {"d_mlp_norm", AH_HOME_SCRATCH, PARTIAL, TOKENS, WIDTH, 0, 0},
    [T_D_MLP] = {"d_middle", AH_HOME_SCRATCH, ACT, TOKENS, WIDTH, NORM_FIRST, T_D_NORM2},
    [T_D_ATTENTION_RESULT] = {"d_attention_result", AH_HOME_SCRATCH, ACT, TOKENS, WIDTH, NORM_LAST, T_GRADIENT},
    [T_D_ATTENDED] = {"d_attended", AH_HOME_SCRATCH, ACT, TOKENS, Q_WIDTH, 0, 0},
    [T_D_QKV] = {"d_qkv", AH_HOME_SCRATCH, ACT, TOKENS, QKV_WIDTH, 0, 0},
    [T_D_QK] = {"d_qk_normed", AH_HOME_SCRATCH, ACT, TOKENS, QK_WIDTH, QK_NORM, T_D_QKV},
    [T_D_NORM1] = {"d_attention_norm", AH_HOME_SCRATCH, ACT, TOKENS, WIDTH, 0, 0},
    [T_D_ATTENTION] = {"d_input", AH_HOME_SCRATCH, ACT, TOKENS, WIDTH, NORM_FIRST, T_D_NORM1},

    [T_HEAD_NORM] = {"norm", AH_HOME_SCRATCH, ACT, TOKENS, WIDTH, 0, 0},
    [T_HEAD_STATS] = {"norm.stats", AH_HOME_SCRATCH, F32, TOKENS, NORM_STATS, 0, 0},
    [T_LOGITS] = {"logits", AH_HOME_SCRATCH, F32, CHUNK, VOCABULARY, 0, 0},
    [T_D_LOGITS] = {"d_logits", AH_HOME_SCRATCH, ACT, CHUNK, VOCABULARY, BF16, T_LOGITS},
    [T_LOSS] = {"loss", AH_HOME_SCRATCH, F32, TOKENS, ONE, 0, 0},
    [T_TABLE_SUM] = {"d_table", AH_HOME_SCRATCH, F32, VOCABULARY, WIDTH, 0, 0},

    [T_LORA_QKV] = {"qkv.lora", AH_HOME_SCRATCH, ACT, TOKENS, QKV_RANKS, 0, 0},
    [T_LORA_OUTPUT] = {"output.lora", AH_HOME_SCRATCH, ACT, TOKENS, RANK, 0, 0},
    [T_LORA_GATE_UP] = {"gate_up.lora", AH_HOME_SCRATCH, ACT, TOKENS, GATE_UP_RANKS, 0, 0},
    [T_LORA_DOWN] = {"down.lora", AH_HOME_SCRATCH, ACT, TOKENS, RANK, 0, 0},
    [T_D_LORA_QKV] = {"d_qkv.lora", AH_HOME_SCRATCH, ACT, TOKENS, QKV_RANKS, 0, 0},
    [T_D_LORA_OUTPUT] = {"d_output.lora", AH_HOME_SCRATCH, ACT, TOKENS, RANK, 0, 0},
    [T_D_LORA_GATE_UP] = {"d_gate_up.lora", AH_HOME_SCRATCH, ACT, TOKENS, GATE_UP_RANKS, 0, 0},
    [T_D_LORA_DOWN] = {"d_down.lora", AH_HOME_SCRATCH, ACT, TOKENS, RANK, 0, 0},
};

#define NO                {.kind = NOTHING}
#define T(name)           {.kind = TENSOR, .tensor = T_##name}
#define T_IF(name)        {.kind = TENSOR, .tensor = T_##name, .optional = true}
#define PART(name, cols)  {.kind = TENSOR, .tensor = T_##name, .part = PART_##cols}
#define PART_IF(name, cols) {.kind = TENSOR, .tensor = T_##name, .part = PART_##cols, .optional = true}
#define W(name)           {.kind = WEIGHT, .parameter = name}
#define W_IF(name)        {.kind = WEIGHT, .parameter = name, .optional = true}
#define G(name)           {.kind = WEIGHT_GRADIENT, .parameter = name}
#define G_IF(name)        {.kind = WEIGHT_GRADIENT, .parameter = name, .optional = true}
#define W_GATE_UP         {.kind = WEIGHT, .parameter = "mlp.gate.weight", .and_up = true}
#define G_GATE_UP         {.kind = WEIGHT_GRADIENT, .parameter = "mlp.gate.weight", .and_up = true}
#define W_PART(name, rows) {.kind = WEIGHT, .parameter = name, .part = PART_##rows}
#define G_PART(name, rows) {.kind = WEIGHT_GRADIENT, .parameter = name, .part = PART_##rows}
#define SCRATCH           {.kind = OP_SCRATCH}
#define PART_WHOLE        WHOLE

/* A projection y = x w^T + b, and its backward, used by many rows. Blocks with the feature `except` leave it out. */
#define PROJECT(y, x, w, except) \
    {w, AH_OP_MATMUL, AH_MATMUL_NT, .unless = except, .arg = {y, T(x), W(w ".weight"), W_IF(w ".bias")}}
#define PROJECT_BIAS(dy, w) \
    {w ".bias", AH_OP_COLUMN_SUM, .backward = true, .arg = {G(w ".bias"), dy}}
#define PROJECT_WEIGHT(dy, x, w, except) \
    {w ".weight", AH_OP_MATMUL, AH_MATMUL_TN, .unless = except, .backward = true, \
     .arg = {G(w ".weight"), dy, T(x)}}
#define PROJECT_INPUT(dx, dy, w, except) \
    {w ".input", AH_OP_MATMUL, AH_MATMUL_NN, .unless = except, .backward = true, .arg = {dx, dy, W(w ".weight")}}
#define PROJECT_INPUT_ONTO(dx, dy, w, except) \
    {w ".input", AH_OP_MATMUL, AH_MATMUL_NN, .unless = except, .adds = true, .backward = true, \
     .arg = {dx, dy, W(w ".weight")}}
/* An adapter: u = scale x A^T, y += u B^T; and its backward: du = scale dy B, dx += du A. Adapters with one input share
 * A's rows, so the products with A are one for all of them. */
#define LORA_A(u, x, w) \
    {w ".lora_a", AH_OP_MATMUL, AH_MATMUL_NT, .scaled = true, .arg = {T(u), T(x), W(w ".lora_a")}}
#define LORA_B(y, u, w, of, has) \
    {w ".lora_b", AH_OP_MATMUL, AH_MATMUL_NT, .when = has, .adds = true, \
     .arg = {y, PART(u, of), W_PART(w ".lora_b", of)}}
#define LORA_B_BACKWARD(du, u, dy, w, of, has) \
    {w ".lora_b.weight", AH_OP_MATMUL, AH_MATMUL_TN, .when = has, .backward = true, \
     .arg = {G_PART(w ".lora_b", of), dy, PART(u, of)}}, \
    {w ".lora_b.input", AH_OP_MATMUL, AH_MATMUL_NN, .when = has, .scaled = true, .backward = true, \
     .arg = {PART(du, of), dy, W_PART(w ".lora_b", of)}}
#define LORA_A_BACKWARD(dx, du, x, w) \
    {w ".lora_a.weight", AH_OP_MATMUL, AH_MATMUL_TN, .backward = true, .arg = {G(w ".lora_a"), T(du), T(x)}}, \
    {w ".lora_a.input", AH_OP_MATMUL, AH_MATMUL_NN, .adds = true, .backward = true, \
     .arg = {dx, T(du), W(w ".lora_a")}}
#define HAS(matrix) (LORA << AH_LORA_##matrix)

#define NORM_STEP(y, x, stats, w) \
    {w, AH_OP_NORM, .cheap = true, .arg = {y, x, W(w ".weight"), W_IF(w ".bias"), T(stats)}}
#define NORM_BACKWARD(dx, dy, x, stats, w) \
    {w ".input", AH_OP_NORM_BACKWARD, .backward = true, \
     .arg = {dx, G_IF(w ".weight"), G_IF(w ".bias"), dy, x, W(w ".weight"), T(stats), SCRATCH}}

static const struct step_rule layer_forward[] = {
    NORM_STEP(T(NORM1), T(INPUT), STATS1, "attention_norm"),
    PROJECT(T(QKV), NORM1, "attention.qkv", 0),
    LORA_A(LORA_QKV, NORM1, "attention.qkv"),
    LORA_B(PART(QKV, Q), LORA_QKV, "attention.qkv", Q, HAS(Q)),
    LORA_B(PART(QKV, K), LORA_QKV, "attention.qkv", K, HAS(K)),
    LORA_B(PART(QKV, V), LORA_QKV, "attention.qkv", V, HAS(V)),
    LORA_B(T(QKV), LORA_QKV, "attention.qkv", WHOLE, HAS(QKV)),
    NORM_STEP(PART(QK, Q), PART(QKV, Q), STATS_Q, "attention.q_norm"),
    NORM_STEP(PART(QK, K), PART(QKV, K), STATS_K, "attention.k_norm"),
    {"attention.rope", AH_OP_ROPE, .when = ROPE, .cheap = true,
     .arg = {PART(QK, QK), T(WINDOW_ROPE_TABLE), T(POSITIONS)}},
    {"attention", AH_OP_ATTENTION,
     .arg = {T(ATTENDED), T(LSE), PART(QK, Q), PART(QK, K), PART(QKV, V), T(DOCS)}},
    PROJECT(T(ATTENTION_RESULT), ATTENDED, "attention.output", 0),
    LORA_A(LORA_OUTPUT, ATTENDED, "attention.output"),
    LORA_B(T(ATTENTION_RESULT), LORA_OUTPUT, "attention.output", WHOLE, HAS(OUTPUT)),
    NORM_STEP(T(MIDDLE), T(ATTENTION_RESULT), ATTENTION_RESULT_STATS, "attention_post_norm"),
    {"attention.residual", AH_OP_ADD, .unless = NORM_LAST, .arg = {T(MIDDLE), T(INPUT), T(MIDDLE)}},
    {"attention.residual", AH_OP_ADD, .when = NORM_LAST, .cheap = true, .arg = {T(MIDDLE), T(INPUT), T(MIDDLE)}},
    NORM_STEP(T(NORM2), T(MIDDLE), STATS2, "mlp_norm"),
    {"mlp.gate_up", AH_OP_MATMUL, AH_MATMUL_NT, .when = PACKED, .arg = {T(GATE_UP), T(NORM2), W_GATE_UP}},
    PROJECT(T(GATE_UP), NORM2, "mlp.gate_up", 0),
    PROJECT(PART(GATE_UP, GATE), NORM2, "mlp.gate", PACKED),
    PROJECT(PART(GATE_UP, UP), NORM2, "mlp.up", PACKED),
    LORA_A(LORA_GATE_UP, NORM2, "mlp.gate_up"),
    LORA_B(PART(GATE_UP, GATE), LORA_GATE_UP, "mlp.gate_up", GATE, HAS(GATE)),
    LORA_B(PART(GATE_UP, UP), LORA_GATE_UP, "mlp.gate_up", UP, HAS(UP)),
    LORA_B(T(GATE_UP), LORA_GATE_UP, "mlp.gate_up", WHOLE, HAS(GATE_UP)),
    {"mlp.activation", AH_OP_ACTIVATION, .when = GATED, .cheap = true,
     .arg = {T(PRODUCT), PART(GATE_UP, GATE), PART(GATE_UP, UP)}},
    {"mlp.activation", AH_OP_ACTIVATION, .unless = GATED, .cheap = true, .arg = {T(PRODUCT), T(UP)}},
    PROJECT(T(MLP_RESULT), PRODUCT, "mlp.down", 0),
    LORA_A(LORA_DOWN, PRODUCT, "mlp.down"),
    LORA_B(T(MLP_RESULT), LORA_DOWN, "mlp.down", WHOLE, HAS(DOWN)),
    NORM_STEP(T(MLP_NORMED), T(MLP_RESULT), MLP_RESULT_STATS, "mlp_post_norm"),
    {"mlp.residual", AH_OP_ADD, .arg = {T(OUTPUT), T(MIDDLE), T(MLP_NORMED)}},
    {0}};

static const struct step_rule layer_backward[] = {
    NORM_BACKWARD(T_IF(D_MLP_RESULT), T(GRADIENT), T(MLP_RESULT), MLP_RESULT_STATS, "mlp_post_norm"),
    PROJECT_BIAS(T(D_MLP_RESULT), "mlp.down"),
    PROJECT_WEIGHT(T(D_MLP_RESULT), PRODUCT, "mlp.down", 0),
    PROJECT_INPUT(PART(D_GATE_UP, GATE), T(D_MLP_RESULT), "mlp.down", 0),
    LORA_B_BACKWARD(D_LORA_DOWN, LORA_DOWN, T(D_MLP_RESULT), "mlp.down", WHOLE, HAS(DOWN)),
    LORA_A_BACKWARD(PART(D_GATE_UP, GATE), D_LORA_DOWN, PRODUCT, "mlp.down"),
    {"mlp.activation.input", AH_OP_ACTIVATION_BACKWARD, .when = GATED, .backward = true,
     .arg = {PART(D_GATE_UP, GATE), PART(D_GATE_UP, UP), PART(D_GATE_UP, GATE), PART(GATE_UP, GATE),
             PART(GATE_UP, UP)}},
    {"mlp.activation.input", AH_OP_ACTIVATION_BACKWARD, .unless = GATED, .backward = true,
     .arg = {T(D_PRODUCT), NO, T(D_PRODUCT), T(UP)}},
    {"mlp.gate_up.weight", AH_OP_MATMUL, AH_MATMUL_TN, .when = PACKED_GRADIENT, .backward = true,
     .arg = {G_GATE_UP, T(D_GATE_UP), T(NORM2)}},
    PROJECT_BIAS(PART(D_GATE_UP, GATE), "mlp.gate"),
    PROJECT_WEIGHT(PART(D_GATE_UP, GATE), NORM2, "mlp.gate", PACKED_GRADIENT),
    PROJECT_BIAS(PART(D_GATE_UP, UP), "mlp.up"),
    PROJECT_WEIGHT(PART(D_GATE_UP, UP), NORM2, "mlp.up", PACKED_GRADIENT),
    {"mlp.gate_up.input", AH_OP_MATMUL, AH_MATMUL_NN, .when = PACKED, .backward = true,
     .arg = {T(D_NORM2), T(D_GATE_UP), W_GATE_UP}},
    PROJECT_WEIGHT(T(D_GATE_UP), NORM2, "mlp.gate_up", 0),
    PROJECT_INPUT(T(D_NORM2), T(D_GATE_UP), "mlp.gate_up", 0),
    PROJECT_INPUT(T(D_NORM2), PART(D_GATE_UP, GATE), "mlp.gate", PACKED),
    PROJECT_INPUT_ONTO(T(D_NORM2), PART(D_GATE_UP, UP), "mlp.up", PACKED),
    LORA_B_BACKWARD(D_LORA_GATE_UP, LORA_GATE_UP, PART(D_GATE_UP, GATE), "mlp.gate_up", GATE, HAS(GATE)),
    LORA_B_BACKWARD(D_LORA_GATE_UP, LORA_GATE_UP, PART(D_GATE_UP, UP), "mlp.gate_up", UP, HAS(UP)),
    LORA_B_BACKWARD(D_LORA_GATE_UP, LORA_GATE_UP, T(D_GATE_UP), "mlp.gate_up", WHOLE, HAS(GATE_UP)),
    LORA_A_BACKWARD(T(D_NORM2), D_LORA_GATE_UP, NORM2, "mlp.gate_up"),
    NORM_BACKWARD(T_IF(D_MLP), T(D_NORM2), T(MIDDLE), STATS2, "mlp_norm"),
    {"mlp.residual.input", AH_OP_ADD, .backward = true, .arg = {T(GRADIENT), T(GRADIENT), T(D_MLP)}},
    NORM_BACKWARD(T_IF(D_ATTENTION_RESULT), T(GRADIENT), T(ATTENTION_RESULT), ATTENTION_RESULT_STATS,
                  "attention_post_norm"),
    PROJECT_BIAS(T(D_ATTENTION_RESULT), "attention.output"),
    PROJECT_WEIGHT(T(D_ATTENTION_RESULT), ATTENDED, "attention.output", 0),
    PROJECT_INPUT(T(D_ATTENDED), T(D_ATTENTION_RESULT), "attention.output", 0),
    LORA_B_BACKWARD(D_LORA_OUTPUT, LORA_OUTPUT, T(D_ATTENTION_RESULT), "attention.output", WHOLE, HAS(OUTPUT)),
    LORA_A_BACKWARD(T(D_ATTENDED), D_LORA_OUTPUT, ATTENDED, "attention.output"),
    {"attention.input", AH_OP_ATTENTION_BACKWARD, .backward = true,
     .arg = {PART(D_QK, Q), PART(D_QK, K), PART(D_QKV, V), T(D_ATTENDED), PART(QK, Q), PART(QK, K),
             PART(QKV, V), T(ATTENDED), T(LSE), T(DOCS), SCRATCH}},
    {"attention.rope.input", AH_OP_ROPE, .when = ROPE, .backward = true,
     .arg = {PART(D_QK, QK), T(WINDOW_ROPE_TABLE), T(POSITIONS)}},
    NORM_BACKWARD(PART_IF(D_QKV, Q), PART(D_QK, Q), PART(QKV, Q), STATS_Q, "attention.q_norm"),
    NORM_BACKWARD(PART_IF(D_QKV, K), PART(D_QK, K), PART(QKV, K), STATS_K, "attention.k_norm"),
    PROJECT_BIAS(T(D_QKV), "attention.qkv"),
    PROJECT_WEIGHT(T(D_QKV), NORM1, "attention.qkv", 0),
    PROJECT_INPUT(T(D_NORM1), T(D_QKV), "attention.qkv", 0),
    LORA_B_BACKWARD(D_LORA_QKV, LORA_QKV, PART(D_QKV, Q), "attention.qkv", Q, HAS(Q)),
    LORA_B_BACKWARD(D_LORA_QKV, LORA_QKV, PART(D_QKV, K), "attention.qkv", K, HAS(K)),
    LORA_B_BACKWARD(D_LORA_QKV, LORA_QKV, PART(D_QKV, V), "attention.qkv", V, HAS(V)),
    LORA_B_BACKWARD(D_LORA_QKV, LORA_QKV, T(D_QKV), "attention.qkv", WHOLE, HAS(QKV)),
    LORA_A_BACKWARD(T(D_NORM1), D_LORA_QKV, NORM1, "attention.qkv"),
    NORM_BACKWARD(T_IF(D_ATTENTION), T(D_NORM1), T(INPUT), STATS1, "attention_norm"),
    {"attention.residual.input", AH_OP_ADD, .backward = true,
     .arg = {T(GRADIENT), T(GRADIENT), T(D_ATTENTION)}},
    {0}};

/* The head's forward, loss and backward. */
static const struct step_rule head_forward[] = {
    NORM_STEP(T(HEAD_NORM), T(INPUT), HEAD_STATS, "norm"),
    {"head", AH_OP_MATMUL, AH_MATMUL_NT, .chunked = true, .arg = {T(LOGITS), T(HEAD_NORM), W("head.weight")}},
    {"cross_entropy", AH_OP_CROSS_ENTROPY, .when = BF16, .chunked = true,
     .arg = {T(LOSS), T(LOGITS), T(TARGETS), T(MASK), T(LOSS_SCALE), T_IF(D_LOGITS)}},
    {"cross_entropy", AH_OP_CROSS_ENTROPY, .unless = BF16, .chunked = true,
     .arg = {T(LOSS), T(LOGITS), T(TARGETS), T(MASK), T(LOSS_SCALE)}},
    {"head.weight", AH_OP_MATMUL, AH_MATMUL_TN, .when = SUMMED, .chunked = true, .adds = true, .backward = true,
     .arg = {T(TABLE_SUM), T(D_LOGITS), T(HEAD_NORM)}},
    {"head.weight", AH_OP_MATMUL, AH_MATMUL_TN, .unless = SUMMED, .chunked = true, .adds = true, .backward = true,
     .arg = {G("head.weight"), T(D_LOGITS), T(HEAD_NORM)}},
    {"head.input", AH_OP_MATMUL, AH_MATMUL_NN, .chunked = true, .backward = true,
     .arg = {T(HEAD_NORM), T(D_LOGITS), W("head.weight")}},
    {"head.weight.cast", AH_OP_CAST, .when = SUMMED, .backward = true, .arg = {G("head.weight"), T(TABLE_SUM)}},
    NORM_BACKWARD(T_IF(GRADIENT), T(HEAD_NORM), T(INPUT), HEAD_STATS, "norm"),
    {"loss", AH_OP_SUM, .arg = {T(LOSS_SUM), T(LOSS)}},
    {0}};

static const struct step_rule embedding_forward[] = {
    {"embedding", AH_OP_EMBED,
     .arg = {T(OUTPUT), W("embedding.weight"), W_IF("position.weight"), T(TOKENS), T_IF(POSITIONS)}},
    {0}};

/* For a tied table, the head has already written the gradient, so it is not zeroed here. */
static const struct step_rule embedding_backward[] = {
    {"embedding.zero", AH_OP_FILL, .unless = TIED, .backward = true, .arg = {G("embedding.weight")}},
    {"position.zero", AH_OP_FILL, .backward = true, .arg = {G("position.weight")}},
    {"embedding.weight", AH_OP_EMBED_BACKWARD, .backward = true,
     .arg = {G_IF("embedding.weight"), G_IF("position.weight"), T(GRADIENT), T_IF(TOKENS), T_IF(POSITIONS),
             SCRATCH}},
    {0}};
/* clang-format on */

static const struct step_rule nothing[] = {{0}};

const struct step_rule *ah_program_forward_rules(enum ah_block_kind kind)
{
    static const struct step_rule *const rules[] = {[AH_BLOCK_EMBEDDING] = embedding_forward,
                                                    [AH_BLOCK_LAYER] = layer_forward,
                                                    [AH_BLOCK_HEAD] = head_forward};
    return rules[kind];
}

const struct step_rule *ah_program_backward_rules(enum ah_block_kind kind)
{
    static const struct step_rule *const rules[] = {[AH_BLOCK_EMBEDDING] = embedding_backward,
                                                    [AH_BLOCK_LAYER] = layer_backward,
                                                    [AH_BLOCK_HEAD] = nothing};
    return rules[kind];
}
