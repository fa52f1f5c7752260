/* SPDX-License-Identifier: Apache-2.0
 *
 * The operands of every kind of op, as one table: a list per kind, a rule per operand. Below the table, one function
 * per kind computes the sizes named by the rules, and finds out what is wrong with the op. op.c evaluates both.
 */
#include "runtime/device/op_internal.h"

#include <math.h>

#define IN    AH_ROLE_IN
#define OUT   AH_ROLE_OUT
#define INOUT AH_ROLE_INOUT

/* clang-format off */
static const struct operand_rule operand_rules[AH_OP_KINDS][AH_OP_ARGS] = {
    [AH_OP_COPY] = {{"dst", OUT, BYTE, DENSE, {COUNT}, REQUIRED, 0}, {"src", IN, BYTE, DENSE, {COUNT}, REQUIRED, 0}},
    [AH_OP_FILL] = {{"dst", OUT, FREE, MATRIX, {ROWS, COUNT}, REQUIRED, 0}},
    [AH_OP_CAST] = {{"dst", OUT, FREE, MATRIX, {ROWS, COUNT}, REQUIRED, 0},
                    {"src", IN, FREE, MATRIX, {ROWS, COUNT}, REQUIRED, 0}},
    [AH_OP_ADD] = {{"dst", OUT, FREE, MATRIX, {ROWS, COUNT}, REQUIRED, BIT(1) | BIT(2)},
                   {"a", IN, FREE, MATRIX, {ROWS, COUNT}, REQUIRED, 0},
                   {"b", IN, FREE, MATRIX, {ROWS, COUNT}, REQUIRED, 0}},
    [AH_OP_ACCUMULATE] = {{"dst", INOUT, FP32, MATRIX, {ROWS, COUNT}, REQUIRED, 0},
                          {"src", IN, FREE, MATRIX, {ROWS, COUNT}, REQUIRED, 0}},
    [AH_OP_MATMUL] = {{"c", OUT, FREE, MATRIX, {M, N}, REQUIRED, 0},
                      {"a", IN, FREE, MATRIX, {A_ROWS, A_WIDTH}, REQUIRED, 0},
                      {"b", IN, LIKE_PREVIOUS, MATRIX, {B_ROWS, B_WIDTH}, REQUIRED, 0},
                      {"bias", IN, FREE, DENSE, {N}, BY_OP, 0}, {"aux", OUT, FREE, MATRIX, {M, N}, BY_OP, 0}},
    [AH_OP_COLUMN_SUM] = {{"dst", OUT, FREE, DENSE, {WIDTH}, REQUIRED, 0},
                          {"src", IN, FREE, MATRIX, {ROWS, WIDTH}, REQUIRED, 0}},
    [AH_OP_NORM] = {{"y", OUT, FREE, MATRIX, {ROWS, HEADS, WIDTH}, REQUIRED, 0},
                    {"x", IN, FREE, MATRIX, {ROWS, HEADS, WIDTH}, REQUIRED, 0},
                    {"gain", IN, FREE, DENSE, {WIDTH}, REQUIRED, 0}, {"bias", IN, FREE, DENSE, {WIDTH}, BY_OP, 0},
                    {"stats", OUT, FP32, DENSE, {STATS, ROWS, HEADS}, REQUIRED, 0}},
    [AH_OP_NORM_BACKWARD] = {{"dx", OUT, FREE, MATRIX, {ROWS, HEADS, WIDTH}, OPTIONAL, 0},
                             {"dgain", OUT, FREE, DENSE, {WIDTH}, OPTIONAL, 0},
                             {"dbias", OUT, FREE, DENSE, {WIDTH}, BY_OP, 0},
                             {"dy", IN, FREE, MATRIX, {ROWS, HEADS, WIDTH}, REQUIRED, 0},
                             {"x", IN, FREE, MATRIX, {ROWS, HEADS, WIDTH}, REQUIRED, 0},
                             {"gain", IN, FREE, DENSE, {WIDTH}, REQUIRED, 0},
                             {"stats", IN, FP32, DENSE, {STATS, ROWS, HEADS}, REQUIRED, 0},
                             {"scratch", OUT, FP32, DENSE, {STATS, PARTIALS, WIDTH}, BY_OP, 0}},
    [AH_OP_ROPE] = {{"x", INOUT, FREE, MATRIX, {ROWS, HEADS, WIDTH}, REQUIRED, 0},
                    {"table", IN, FP32, DENSE, {POSITIONS, WIDTH}, REQUIRED, 0},
                    {"positions", IN, WORD, DENSE, {ROWS}, OPTIONAL, 0}},
    [AH_OP_ATTENTION] = {{"out", OUT, FREE, MATRIX, {ROWS, HEADS, WIDTH}, REQUIRED, 0},
                         {"lse", OUT, FP32, DENSE, {ROWS, HEADS}, REQUIRED, 0},
                         {"q", IN, FREE, MATRIX, {ROWS, HEADS, WIDTH}, REQUIRED, 0},
                         {"k", IN, LIKE_PREVIOUS, MATRIX, {KEYS, KV_HEADS, WIDTH}, REQUIRED, 0},
                         {"v", IN, LIKE_PREVIOUS, MATRIX, {KEYS, KV_HEADS, WIDTH}, REQUIRED, 0},
                         {"docs", IN, WORD, DENSE, {ROWS}, OPTIONAL, 0}},
    [AH_OP_ATTENTION_BACKWARD] = {{"dq", OUT, FREE, MATRIX, {ROWS, HEADS, WIDTH}, REQUIRED, 0},
                                  {"dk", OUT, LIKE_PREVIOUS, MATRIX, {ROWS, KV_HEADS, WIDTH}, REQUIRED, 0},
                                  {"dv", OUT, LIKE_PREVIOUS, MATRIX, {ROWS, KV_HEADS, WIDTH}, REQUIRED, 0},
                                  {"dout", IN, FREE, MATRIX, {ROWS, HEADS, WIDTH}, REQUIRED, 0},
                                  {"q", IN, FREE, MATRIX, {ROWS, HEADS, WIDTH}, REQUIRED, 0},
                                  {"k", IN, LIKE_PREVIOUS, MATRIX, {ROWS, KV_HEADS, WIDTH}, REQUIRED, 0},
                                  {"v", IN, LIKE_PREVIOUS, MATRIX, {ROWS, KV_HEADS, WIDTH}, REQUIRED, 0},
                                  {"out", IN, FREE, MATRIX, {ROWS, HEADS, WIDTH}, REQUIRED, 0},
                                  {"lse", IN, FP32, DENSE, {ROWS, HEADS}, REQUIRED, 0},
                                  {"docs", IN, WORD, DENSE, {ROWS}, OPTIONAL, 0},
                                  {"scratch", OUT, FP32, DENSE, {ROWS, HEADS}, REQUIRED, 0}},
    [AH_OP_ACTIVATION] = {{"y", OUT, FREE, MATRIX, {ROWS, WIDTH}, REQUIRED, 0},
                          {"x", IN, FREE, MATRIX, {ROWS, WIDTH}, REQUIRED, 0},
                          {"up", IN, FREE, MATRIX, {ROWS, WIDTH}, BY_OP, 0}},
    [AH_OP_ACTIVATION_BACKWARD] = {{"dx", OUT, FREE, MATRIX, {ROWS, WIDTH}, REQUIRED, BIT(2)},
                                   {"dup", OUT, FREE, MATRIX, {ROWS, WIDTH}, BY_OP, 0},
                                   {"dy", IN, FREE, MATRIX, {ROWS, WIDTH}, REQUIRED, 0},
                                   {"x", IN, FREE, MATRIX, {ROWS, WIDTH}, REQUIRED, 0},
                                   {"up", IN, FREE, MATRIX, {ROWS, WIDTH}, BY_OP, 0}},
    [AH_OP_EMBED] = {{"y", OUT, FREE, DENSE, {ROWS, WIDTH}, REQUIRED, 0},
                     {"table", IN, FREE, DENSE, {VOCABULARY, WIDTH}, REQUIRED, 0},
                     {"positions_table", IN, FREE, DENSE, {POSITIONS, WIDTH}, BY_OP, 0},
                     {"tokens", IN, WORD, DENSE, {ROWS}, REQUIRED, 0},
                     {"positions", IN, WORD, DENSE, {ROWS}, BY_OP, 0}},
    [AH_OP_EMBED_BACKWARD] = {{"dtable", INOUT, FREE, DENSE, {VOCABULARY, WIDTH}, OPTIONAL, 0},
                              {"dpositions_table", INOUT, FREE, DENSE, {POSITIONS, WIDTH}, BY_OP, 0},
                              {"dy", IN, FREE, DENSE, {ROWS, WIDTH}, REQUIRED, 0},
                              {"tokens", IN, WORD, DENSE, {ROWS}, BY_OP, 0},
                              {"positions", IN, WORD, DENSE, {ROWS}, BY_OP, 0},
                              {"scratch", OUT, WORD, DENSE, {TWO, ROWS}, BY_OP, 0}},
    [AH_OP_GATHER] = {{"dst", OUT, FREE, DENSE, {ROWS, WIDTH}, REQUIRED, 0},
                      {"table", IN, FREE, DENSE, {VOCABULARY, WIDTH}, REQUIRED, 0},
                      {"tokens", IN, WORD, DENSE, {ROWS}, REQUIRED, 0}},
    [AH_OP_CROSS_ENTROPY] = {{"loss", OUT, FP32, DENSE, {ROWS}, REQUIRED, 0},
                             {"logits", INOUT, FREE, MATRIX, {ROWS, VOCABULARY}, REQUIRED, 0},
                             {"targets", IN, WORD, DENSE, {ROWS}, REQUIRED, 0},
                             {"mask", IN, BYTE, DENSE, {ROWS}, OPTIONAL, 0},
                             {"scale", IN, FP32, DENSE, {ONE}, REQUIRED, 0},
                             {"gradient", OUT, FREE, MATRIX, {ROWS, VOCABULARY}, OPTIONAL, 0}},
    [AH_OP_SUM] = {{"dst", OUT, DOUBLE, DENSE, {ONE}, REQUIRED, 0}, {"src", IN, FREE, DENSE, {COUNT}, REQUIRED, 0}},
    [AH_OP_SUM_SQUARES] = {{"dst", OUT, DOUBLE, DENSE, {ONE}, REQUIRED, 0},
                           {"src", IN, FREE, DENSE, {COUNT}, REQUIRED, 0}},
    [AH_OP_CLIP] = {{"scalars", INOUT, SCALARS, DENSE, {ONE}, REQUIRED, 0},
                    {"sums", IN, DOUBLE, DENSE, {COUNT}, REQUIRED, 0}},
    [AH_OP_ADAMW] = {{"master", INOUT, FP32, DENSE, {COUNT}, REQUIRED, 0},
                     {"m", INOUT, FREE, DENSE, {COUNT}, REQUIRED, 0},
                     {"v", INOUT, LIKE_PREVIOUS, DENSE, {COUNT}, REQUIRED, 0},
                     {"gradient", IN, FREE, DENSE, {COUNT}, REQUIRED, 0},
                     {"weight", OUT, FREE, DENSE, {COUNT}, OPTIONAL, 0},
                     {"scalars", IN, SCALARS, DENSE, {ONE}, REQUIRED, 0}},
    [AH_OP_SEND] = {{"src", IN, BYTE, DENSE, {COUNT}, BY_OP, 0}},
    [AH_OP_RECEIVE] = {{"dst", OUT, BYTE, DENSE, {COUNT}, BY_OP, 0}},
};
/* clang-format on */

const struct operand_rule *ah_op_table_rules(enum ah_op_kind kind)
{
    return operand_rules[kind];
}

typedef void sizes_fn(const struct ah_op *op, struct op_sizes *sizes);

static void sizes_bytes(const struct ah_op *op, struct op_sizes *sizes)
{
    sizes->of[COUNT] = op->u.copy.bytes;
}

static void sizes_elements(const struct ah_op *op, struct op_sizes *sizes)
{
    sizes->of[ROWS] = op->u.elements.rows ? op->u.elements.rows : 1;
    sizes->of[COUNT] = op->u.elements.count;
}

static void sizes_matmul(const struct ah_op *op, struct op_sizes *sizes)
{
    const struct ah_op_matmul *matmul = &op->u.matmul;
    sizes->of[M] = matmul->m;
    sizes->of[N] = matmul->n;
    sizes->of[A_ROWS] = matmul->form == AH_MATMUL_TN ? matmul->k : matmul->m;
    sizes->of[A_WIDTH] = matmul->form == AH_MATMUL_TN ? matmul->m : matmul->k;
    sizes->of[B_ROWS] = matmul->form == AH_MATMUL_NT ? matmul->n : matmul->k;
    sizes->of[B_WIDTH] = matmul->form == AH_MATMUL_NT ? matmul->k : matmul->n;
    sizes->accumulates = matmul->accumulate;
    bool has_bias = matmul->epilogue != AH_EPILOGUE_NONE;
    sizes->use[3] = has_bias ? NEEDED : UNUSED;
    if (matmul->form > AH_MATMUL_TN)
        sizes->wrong = "form is not one of nn, nt, tn";
    if (matmul->epilogue > AH_EPILOGUE_BIAS_GELU)
        sizes->wrong = "epilogue is unknown";
    bool gelu = matmul->epilogue == AH_EPILOGUE_BIAS_GELU;
    sizes->use[4] = gelu ? USABLE : UNUSED;
    if (gelu && matmul->accumulate)
        sizes->wrong = "a product with gelu cannot accumulate";
    if (!isfinite(matmul->alpha))
        sizes->wrong = "alpha is not finite";
    bool narrows = op->arg[0].dtype != AH_FP32 || (has_bias && op->arg[3].dtype != AH_FP32) ||
                   (ah_op_table_has(op, 4) && op->arg[4].dtype != AH_FP32);
    if (op->arg[1].dtype == AH_FP32 && narrows)
        sizes->wrong = "a product in fp32 needs c, bias and aux in fp32";
}

static void sizes_rows(const struct ah_op *op, struct op_sizes *sizes)
{
    sizes->of[ROWS] = op->u.rows.rows;
    sizes->of[WIDTH] = op->u.rows.width;
}

static void sizes_activation(const struct ah_op *op, struct op_sizes *sizes)
{
    bool gated = ah_op_is_gated(op->u.rows.kind);
    sizes_rows(op, sizes);
    sizes->use[op->kind == AH_OP_ACTIVATION ? 2 : 1] = sizes->use[4] = gated ? NEEDED : UNUSED;
    if (op->u.rows.kind > AH_ACTIVATION_GELU_TANH_GATED)
        sizes->wrong = "activation is unknown";
}

/* Sets the sizes of a norm. If `heads` overflows, so do the larger extents of x and stats, and op.c reports that. */
static void sizes_norm(const struct ah_op *op, struct op_sizes *sizes)
{
    const struct ah_op_norm *norm = &op->u.norm;
    sizes->of[ROWS] = norm->rows;
    sizes->of[WIDTH] = norm->width;
    sizes->of[HEADS] = norm->heads ? norm->heads : 1;
    sizes->of[STATS] = norm->kind == AH_NORM_LAYER ? 2 : 1;
    uint64_t heads = norm->rows * sizes->of[HEADS];
    sizes->of[PARTIALS] = heads / AH_OP_NORM_GROUP + (heads % AH_OP_NORM_GROUP != 0);
    sizes->use[op->kind == AH_OP_NORM ? 3 : 2] = norm->kind == AH_NORM_LAYER ? USABLE : UNUSED;
    if (norm->kind > AH_NORM_LAYER)
        sizes->wrong = "norm is unknown";
    if (!isfinite(norm->gain_offset))
        sizes->wrong = "gain_offset is not finite";
}

/* Sets sizes. A frozen gain or bias has no gradient, and blocks below the lowest trained block need no dx. */
static void sizes_norm_backward(const struct ah_op *op, struct op_sizes *sizes)
{
    bool sums = ah_op_table_has(op, 1) || ah_op_table_has(op, 2);
    sizes_norm(op, sizes);
    sizes->use[7] = sums ? NEEDED : UNUSED;
    if (!ah_op_table_has(op, 0) && !sums)
        sizes->wrong = "none of 'dx', 'dgain', 'dbias' is given";
}

/* Checks `seq`. Without positions, row r has position r % seq, so the table needs at least seq rows. */
static void check_positions(const struct ah_op *op, size_t positions, uint64_t seq, struct op_sizes *sizes)
{
    if (ah_op_table_has(op, positions) && seq != 0)
        sizes->wrong = "seq and positions are both given";
    if (!ah_op_table_has(op, positions) && (seq == 0 || seq > sizes->of[POSITIONS]))
        sizes->wrong = "without positions, seq must be from 1 to the rows of the table";
}

/* Checks an embedding's position table and positions, the operands number `table` and `positions`. */
static void check_embed_positions(const struct ah_op *op, size_t table, size_t positions,
                                  struct op_sizes *sizes)
{
    const struct ah_op_embed *embed = &op->u.embed;
    sizes->use[table] = embed->positions ? NEEDED : UNUSED;
    sizes->use[positions] = embed->positions ? USABLE : UNUSED;
    if (embed->positions)
        check_positions(op, positions, embed->seq, sizes);
    else if (embed->seq)
        sizes->wrong = "seq is given without a position table";
}

static void sizes_rope(const struct ah_op *op, struct op_sizes *sizes)
{
    const struct ah_op_rope *rope = &op->u.rope;
    sizes->of[ROWS] = rope->rows;
    sizes->of[HEADS] = rope->heads;
    sizes->of[POSITIONS] = rope->table_rows;
    sizes->of[WIDTH] = rope->head_dim;
    if (rope->head_dim % 2 || rope->rotated % 2)
        sizes->wrong = "head_dim or rotated is odd";
    else if (rope->rotated > rope->head_dim)
        sizes->wrong = "rotated is above head_dim";
    check_positions(op, 2, rope->seq, sizes);
}

static void sizes_attention(const struct ah_op *op, struct op_sizes *sizes)
{
    const struct ah_op_attention *attention = &op->u.attention;
    const uint64_t keys = (uint64_t)attention->seq + attention->past;
    sizes->of[ROWS] = (uint64_t)attention->batch * attention->seq;
    sizes->of[KEYS] = attention->batch * keys;
    if (attention->past && (op->kind == AH_OP_ATTENTION_BACKWARD || op->arg[5].arena))
        sizes->wrong = "keys before the first query are for forward without docs";
    if (keys > UINT32_MAX)
        sizes->wrong = "a sequence has 2^32 keys or more";
    sizes->of[HEADS] = attention->heads;
    sizes->of[KV_HEADS] = attention->kv_heads;
    sizes->of[WIDTH] = attention->head_dim;
    if (attention->kv_heads == 0 || attention->heads % attention->kv_heads)
        sizes->wrong = "heads is not a multiple of kv_heads";
    if (!isfinite(attention->soft_cap) || attention->soft_cap < 0)
        sizes->wrong = "soft_cap is negative or not finite";
}

static void sizes_embed(const struct ah_op *op, struct op_sizes *sizes)
{
    const struct ah_op_embed *embed = &op->u.embed;
    sizes->of[ROWS] = embed->rows;
    sizes->of[WIDTH] = embed->width;
    sizes->of[VOCABULARY] = embed->vocabulary;
    sizes->of[POSITIONS] = embed->positions;
    if (op->kind == AH_OP_GATHER && (embed->positions || embed->seq))
        sizes->wrong = "gather has no position table";
    if (op->kind == AH_OP_GATHER && embed->scale > 0)
        sizes->wrong = "gather does not scale rows";
    if (!isfinite(embed->scale) || embed->scale < 0)
        sizes->wrong = "scale is negative or not finite";
    if (embed->padding > (op->kind == AH_OP_EMBED_BACKWARD ? embed->vocabulary : 0))
        sizes->wrong = "padding is not a token, or is given to an op without backward";
}

static void sizes_embed_forward(const struct ah_op *op, struct op_sizes *sizes)
{
    sizes_embed(op, sizes);
    check_embed_positions(op, 2, 4, sizes);
}

/* Sets sizes. A frozen table has no gradient; `positions` is 0 if the position table is frozen. */
static void sizes_embed_backward(const struct ah_op *op, struct op_sizes *sizes)
{
    sizes_embed(op, sizes);
    check_embed_positions(op, 1, 4, sizes);
    sizes->use[3] = sizes->use[5] = ah_op_table_has(op, 0) ? NEEDED : UNUSED;
    if (!ah_op_table_has(op, 0) && !ah_op_table_has(op, 1))
        sizes->wrong = "neither 'dtable' nor 'dpositions_table' is given";
}

/* True if devices can divide by the cap, which they do by multiplying with 1 / cap, or if there is none. */
static bool caps(float soft_cap)
{
    return isfinite(soft_cap) && soft_cap >= 0 && (soft_cap <= 0 || isfinite(1 / soft_cap));
}

static void sizes_cross_entropy(const struct ah_op *op, struct op_sizes *sizes)
{
    sizes->of[ROWS] = op->u.cross_entropy.rows;
    sizes->of[VOCABULARY] = op->u.cross_entropy.vocabulary;
    if (ah_op_table_has(op, 5) && (op->arg[1].dtype != AH_FP32 || op->arg[5].dtype != AH_BF16))
        sizes->wrong = "a gradient beside the logits is bf16, but the logits are fp32";
    if (!caps(op->u.cross_entropy.soft_cap))
        sizes->wrong = "soft_cap is neither 0 nor a positive number with a finite reciprocal";
}

static void sizes_sum(const struct ah_op *op, struct op_sizes *sizes)
{
    const struct ah_op_sum *sum = &op->u.sum;
    sizes->of[COUNT] = sum->count;
    sizes->accumulates = sum->accumulate;
    if (sum->first_element % AH_OP_SUM_LEAF)
        sizes->wrong = "first_element is not a multiple of 4096";
    if (sum->first_element && !sum->accumulate)
        sizes->wrong = "a tile after the first must accumulate";
}

static void sizes_clip(const struct ah_op *op, struct op_sizes *sizes)
{
    sizes->of[COUNT] = op->u.clip.sums;
    if (!(op->u.clip.limit >= 0))
        sizes->wrong = "limit is negative";
}

static void sizes_adamw(const struct ah_op *op, struct op_sizes *sizes)
{
    uint64_t end;
    sizes->of[COUNT] = op->u.adamw.count;
    if (__builtin_add_overflow(op->u.adamw.first_element, op->u.adamw.count, &end) || end > AH_OP_ADAMW_END)
        sizes->wrong = "first_element + count is more than 2^42";
    if (op->u.adamw.block >= AH_OP_ADAMW_BLOCKS)
        sizes->wrong = "block is 2^16 or more";
}

static void sizes_call(const struct ah_op *op, struct op_sizes *sizes)
{
    if (!op->u.call.run)
        sizes->wrong = "there is no function to call";
}

static void sizes_message(const struct ah_op *op, struct op_sizes *sizes)
{
    sizes->of[COUNT] = op->u.message.bytes;
    sizes->use[0] = op->u.message.bytes ? NEEDED : UNUSED;
    if (!op->u.message.move)
        sizes->wrong = "there is no function that moves it";
}

static sizes_fn *const sizes_of_kind[AH_OP_KINDS] = {
    [AH_OP_COPY] = sizes_bytes,
    [AH_OP_FILL] = sizes_elements,
    [AH_OP_CAST] = sizes_elements,
    [AH_OP_ADD] = sizes_elements,
    [AH_OP_ACCUMULATE] = sizes_elements,
    [AH_OP_MATMUL] = sizes_matmul,
    [AH_OP_COLUMN_SUM] = sizes_rows,
    [AH_OP_NORM] = sizes_norm,
    [AH_OP_NORM_BACKWARD] = sizes_norm_backward,
    [AH_OP_ROPE] = sizes_rope,
    [AH_OP_ATTENTION] = sizes_attention,
    [AH_OP_ATTENTION_BACKWARD] = sizes_attention,
    [AH_OP_ACTIVATION] = sizes_activation,
    [AH_OP_ACTIVATION_BACKWARD] = sizes_activation,
    [AH_OP_EMBED] = sizes_embed_forward,
    [AH_OP_EMBED_BACKWARD] = sizes_embed_backward,
    [AH_OP_GATHER] = sizes_embed,
    [AH_OP_CROSS_ENTROPY] = sizes_cross_entropy,
    [AH_OP_SUM] = sizes_sum,
    [AH_OP_SUM_SQUARES] = sizes_sum,
    [AH_OP_CLIP] = sizes_clip,
    [AH_OP_ADAMW] = sizes_adamw,
    [AH_OP_CALL] = sizes_call,
    [AH_OP_SEND] = sizes_message,
    [AH_OP_RECEIVE] = sizes_message,
};

struct op_sizes ah_op_table_sizes(const struct ah_op *op)
{
    struct op_sizes sizes = {.of = {[ONE] = 1, [TWO] = 2}};
    sizes_of_kind[op->kind](op, &sizes);
    return sizes;
}
