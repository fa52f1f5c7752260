/* SPDX-License-Identifier: Apache-2.0
 *
 * What every kind of op covers, as one table: a row per kind, an entry per operand, its number of elements a
 * product of up to three named sizes of the op. The rest of the file evaluates the table.
 *
 * 1. No product or end of an extent wraps: every multiplication and addition is checked.
 * 2. After ah_op_check() returned AH_OK, every byte that a kernel may touch through operand i lies in
 *    [offset, offset + bytes) of arg[i]'s arena.
 */
#include "runtime/device/op.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define COUNT_OF(array) (sizeof(array) / sizeof(array)[0])
#define BIT(i)          (1u << (i))

/* The sizes an op's operands are made of. ONE is 0 so that an entry lists only what it needs. */
enum size_name {
    ONE,
    COUNT, /* elements, bytes of a copy, sums of a clip */
    M,     /* matmul */
    N,
    K,
    ROWS,
    WIDTH,
    STAT_ROWS, /* rows, twice for a layer norm */
    PARTIALS,  /* groups of AH_OP_NORM_ROWS rows, twice for a layer norm */
    VOCABULARY,
    POSITIONS,
    HEADS, /* batch * heads */
    SEQ,
    Q_WIDTH, /* heads * head_dim: one row of q */
    KV_WIDTH,
    TWO,
    SIZES
};

enum element {
    FREE,          /* the ref's dtype */
    LIKE_PREVIOUS, /* the ref's dtype, which equals that of the operand before it */
    FP32,          /* the ref's dtype, which must be fp32 */
    BYTE,
    WORD, /* u32 */
    DOUBLE,
    SCALARS, /* struct ah_adamw_scalars */
    ELEMENTS
};

enum presence { REQUIRED, OPTIONAL, BY_OP /* enum use says whether it is there */ };
enum use { UNUSED, NEEDED, USABLE };

struct operand_rule {
    const char *name; /* NULL ends a kind's list */
    enum ah_role role;
    enum element element;
    enum size_name dims[3];
    enum presence presence;
    uint32_t may_equal; /* bits of the inputs at whose place it may be */
    bool strided;       /* dims[0] rows of dims[1] elements, the op's row stride apart */
};

#define IN    AH_ROLE_IN
#define OUT   AH_ROLE_OUT
#define INOUT AH_ROLE_INOUT

/* clang-format off */
static const struct operand_rule operand_rules[AH_OP_KINDS][AH_OP_ARGS] = {
    [AH_OP_COPY] = {{"dst", OUT, BYTE, {COUNT}, REQUIRED, 0, 0}, {"src", IN, BYTE, {COUNT}, REQUIRED, 0, 0}},
    [AH_OP_FILL] = {{"dst", OUT, FREE, {COUNT}, REQUIRED, 0, 0}},
    [AH_OP_CAST] = {{"dst", OUT, FREE, {COUNT}, REQUIRED, 0, 0}, {"src", IN, FREE, {COUNT}, REQUIRED, 0, 0}},
    [AH_OP_ADD] = {{"dst", OUT, FREE, {COUNT}, REQUIRED, BIT(1) | BIT(2), 0}, {"a", IN, FREE, {COUNT}, REQUIRED, 0, 0},
                   {"b", IN, FREE, {COUNT}, REQUIRED, 0, 0}},
    [AH_OP_ACCUMULATE] = {{"dst", INOUT, FP32, {COUNT}, REQUIRED, 0, 0},
                          {"src", IN, FREE, {COUNT}, REQUIRED, 0, 0}},
    [AH_OP_MATMUL] = {{"c", OUT, FREE, {M, N}, REQUIRED, 0, 0}, {"a", IN, FREE, {M, K}, REQUIRED, 0, 0},
                      {"b", IN, LIKE_PREVIOUS, {K, N}, REQUIRED, 0, 0}, {"bias", IN, FREE, {N}, BY_OP, 0, 0},
                      {"aux", OUT, FREE, {M, N}, BY_OP, 0, 0}},
    [AH_OP_COLUMN_SUM] = {{"dst", OUT, FREE, {WIDTH}, REQUIRED, 0, 0},
                          {"src", IN, FREE, {ROWS, WIDTH}, REQUIRED, 0, 0}},
    [AH_OP_NORM] = {{"y", OUT, FREE, {ROWS, WIDTH}, REQUIRED, 0, 0}, {"x", IN, FREE, {ROWS, WIDTH}, REQUIRED, 0, 0},
                    {"gain", IN, FREE, {WIDTH}, REQUIRED, 0, 0}, {"bias", IN, FREE, {WIDTH}, BY_OP, 0, 0},
                    {"stats", OUT, FP32, {STAT_ROWS}, REQUIRED, 0, 0}},
    [AH_OP_NORM_BACKWARD] = {{"dx", OUT, FREE, {ROWS, WIDTH}, OPTIONAL, 0, 0},
                             {"dgain", OUT, FREE, {WIDTH}, OPTIONAL, 0, 0},
                             {"dbias", OUT, FREE, {WIDTH}, BY_OP, 0, 0},
                             {"dy", IN, FREE, {ROWS, WIDTH}, REQUIRED, 0, 0},
                             {"x", IN, FREE, {ROWS, WIDTH}, REQUIRED, 0, 0},
                             {"gain", IN, FREE, {WIDTH}, REQUIRED, 0, 0},
                             {"stats", IN, FP32, {STAT_ROWS}, REQUIRED, 0, 0},
                             {"scratch", OUT, FP32, {PARTIALS, WIDTH}, BY_OP, 0, 0}},
    [AH_OP_ROPE] = {{"x", INOUT, FREE, {ROWS, Q_WIDTH}, REQUIRED, 0, true},
                    {"table", IN, FP32, {POSITIONS, WIDTH}, REQUIRED, 0, 0},
                    {"positions", IN, WORD, {ROWS}, OPTIONAL, 0, 0}},
    [AH_OP_ATTENTION] = {{"out", OUT, FREE, {ROWS, Q_WIDTH}, REQUIRED, 0, 0},
                         {"lse", OUT, FP32, {HEADS, SEQ}, REQUIRED, 0, 0},
                         {"q", IN, FREE, {ROWS, Q_WIDTH}, REQUIRED, 0, true},
                         {"k", IN, LIKE_PREVIOUS, {ROWS, KV_WIDTH}, REQUIRED, 0, true},
                         {"v", IN, LIKE_PREVIOUS, {ROWS, KV_WIDTH}, REQUIRED, 0, true},
                         {"docs", IN, WORD, {ROWS}, OPTIONAL, 0, 0}},
    [AH_OP_ATTENTION_BACKWARD] = {{"dq", OUT, FREE, {ROWS, Q_WIDTH}, REQUIRED, 0, true},
                                  {"dk", OUT, LIKE_PREVIOUS, {ROWS, KV_WIDTH}, REQUIRED, 0, true},
                                  {"dv", OUT, LIKE_PREVIOUS, {ROWS, KV_WIDTH}, REQUIRED, 0, true},
                                  {"dout", IN, FREE, {ROWS, Q_WIDTH}, REQUIRED, 0, 0},
                                  {"q", IN, FREE, {ROWS, Q_WIDTH}, REQUIRED, 0, true},
                                  {"k", IN, LIKE_PREVIOUS, {ROWS, KV_WIDTH}, REQUIRED, 0, true},
                                  {"v", IN, LIKE_PREVIOUS, {ROWS, KV_WIDTH}, REQUIRED, 0, true},
                                  {"out", IN, FREE, {ROWS, Q_WIDTH}, REQUIRED, 0, 0},
                                  {"lse", IN, FP32, {HEADS, SEQ}, REQUIRED, 0, 0},
                                  {"docs", IN, WORD, {ROWS}, OPTIONAL, 0, 0},
                                  {"scratch", OUT, FP32, {HEADS, SEQ}, REQUIRED, 0, 0}},
    [AH_OP_ACTIVATION] = {{"y", OUT, FREE, {ROWS, WIDTH}, REQUIRED, 0, 0},
                          {"x", IN, FREE, {ROWS, WIDTH}, REQUIRED, 0, 0},
                          {"up", IN, FREE, {ROWS, WIDTH}, BY_OP, 0, 0}},
    [AH_OP_ACTIVATION_BACKWARD] = {{"dx", OUT, FREE, {ROWS, WIDTH}, REQUIRED, BIT(2), 0},
                                   {"dup", OUT, FREE, {ROWS, WIDTH}, BY_OP, 0, 0},
                                   {"dy", IN, FREE, {ROWS, WIDTH}, REQUIRED, 0, 0},
                                   {"x", IN, FREE, {ROWS, WIDTH}, REQUIRED, 0, 0},
                                   {"up", IN, FREE, {ROWS, WIDTH}, BY_OP, 0, 0}},
    [AH_OP_EMBED] = {{"y", OUT, FREE, {ROWS, WIDTH}, REQUIRED, 0, 0},
                     {"table", IN, FREE, {VOCABULARY, WIDTH}, REQUIRED, 0, 0},
                     {"positions_table", IN, FREE, {POSITIONS, WIDTH}, BY_OP, 0, 0},
                     {"tokens", IN, WORD, {ROWS}, REQUIRED, 0, 0},
                     {"positions", IN, WORD, {ROWS}, BY_OP, 0, 0}},
    [AH_OP_EMBED_BACKWARD] = {{"dtable", INOUT, FREE, {VOCABULARY, WIDTH}, OPTIONAL, 0, 0},
                              {"dpositions_table", INOUT, FREE, {POSITIONS, WIDTH}, BY_OP, 0, 0},
                              {"dy", IN, FREE, {ROWS, WIDTH}, REQUIRED, 0, 0},
                              {"tokens", IN, WORD, {ROWS}, BY_OP, 0, 0},
                              {"positions", IN, WORD, {ROWS}, BY_OP, 0, 0},
                              {"scratch", OUT, WORD, {TWO, ROWS}, BY_OP, 0, 0}},
    [AH_OP_GATHER] = {{"dst", OUT, FREE, {ROWS, WIDTH}, REQUIRED, 0, 0},
                      {"table", IN, FREE, {VOCABULARY, WIDTH}, REQUIRED, 0, 0},
                      {"tokens", IN, WORD, {ROWS}, REQUIRED, 0, 0}},
    [AH_OP_CROSS_ENTROPY] = {{"loss", OUT, FP32, {ROWS}, REQUIRED, 0, 0},
                             {"logits", INOUT, FREE, {ROWS, VOCABULARY}, REQUIRED, 0, 0},
                             {"targets", IN, WORD, {ROWS}, REQUIRED, 0, 0},
                             {"mask", IN, BYTE, {ROWS}, OPTIONAL, 0, 0},
                             {"scale", IN, FP32, {ONE}, REQUIRED, 0, 0}},
    [AH_OP_SUM] = {{"dst", OUT, DOUBLE, {ONE}, REQUIRED, 0, 0}, {"src", IN, FREE, {COUNT}, REQUIRED, 0, 0}},
    [AH_OP_SUM_SQUARES] = {{"dst", OUT, DOUBLE, {ONE}, REQUIRED, 0, 0}, {"src", IN, FREE, {COUNT}, REQUIRED, 0, 0}},
    [AH_OP_CLIP] = {{"scalars", INOUT, SCALARS, {ONE}, REQUIRED, 0, 0}, {"sums", IN, DOUBLE, {COUNT}, REQUIRED, 0, 0}},
    [AH_OP_ADAMW] = {{"master", INOUT, FP32, {COUNT}, REQUIRED, 0, 0}, {"m", INOUT, FREE, {COUNT}, REQUIRED, 0, 0},
                     {"v", INOUT, LIKE_PREVIOUS, {COUNT}, REQUIRED, 0, 0}, {"gradient", IN, FREE, {COUNT}, REQUIRED, 0, 0},
                     {"weight", OUT, FREE, {COUNT}, OPTIONAL, 0, 0}, {"scalars", IN, SCALARS, {ONE}, REQUIRED, 0, 0}},
};
/* clang-format on */

static const char *const op_names[] = {
#define OP_NAME(value, name) [value] = #name,
    AH_OPS(OP_NAME)
#undef OP_NAME
};

const char *ah_op_name(enum ah_op_kind kind)
{
    return (unsigned)kind < AH_OP_KINDS ? op_names[kind] : "?";
}

/* What the table needs to know of one op. */
struct op_sizes {
    uint64_t of[SIZES];
    uint64_t row_stride;      /* elements */
    enum use use[AH_OP_ARGS]; /* of BY_OP operands */
    bool accumulates;         /* operand 0 is read too */
    const char *wrong;        /* NULL, or what makes no sense */
};

static bool is_present(const struct ah_op *op, size_t i)
{
    return op->arg[i].arena != AH_ARENA_NONE;
}

typedef void sizes_fn(const struct ah_op *op, struct op_sizes *sizes);

static void sizes_bytes(const struct ah_op *op, struct op_sizes *sizes)
{
    sizes->of[COUNT] = op->u.copy.bytes;
}

static void sizes_elements(const struct ah_op *op, struct op_sizes *sizes)
{
    sizes->of[COUNT] = op->u.elements.count;
}

static void sizes_matmul(const struct ah_op *op, struct op_sizes *sizes)
{
    const struct ah_op_matmul *matmul = &op->u.matmul;
    sizes->of[M] = matmul->m;
    sizes->of[N] = matmul->n;
    sizes->of[K] = matmul->k;
    sizes->accumulates = matmul->accumulate;
    bool has_bias = matmul->epilogue != AH_EPILOGUE_NONE;
    sizes->use[3] = has_bias ? NEEDED : UNUSED;
    if (matmul->form > AH_MATMUL_TN)
        sizes->wrong = "form is none of nn, nt, tn";
    if (matmul->epilogue > AH_EPILOGUE_BIAS_GELU)
        sizes->wrong = "epilogue is unknown";
    if (matmul->accumulate && op->arg[0].dtype != AH_FP32)
        sizes->wrong = "accumulating needs c in fp32";
    bool gelu = matmul->epilogue == AH_EPILOGUE_BIAS_GELU;
    sizes->use[4] = gelu ? USABLE : UNUSED;
    if (gelu && matmul->accumulate)
        sizes->wrong = "a product with gelu does not accumulate";
    if (!isfinite(matmul->alpha))
        sizes->wrong = "alpha is not finite";
    bool narrows = op->arg[0].dtype != AH_FP32 || (has_bias && op->arg[3].dtype != AH_FP32) ||
                   (is_present(op, 4) && op->arg[4].dtype != AH_FP32);
    if (op->arg[1].dtype == AH_FP32 && narrows)
        sizes->wrong = "a product of fp32 has c, bias and aux in fp32";
}

static void sizes_rows(const struct ah_op *op, struct op_sizes *sizes)
{
    const struct ah_op_rows *rows = &op->u.rows;
    bool activation = op->kind == AH_OP_ACTIVATION || op->kind == AH_OP_ACTIVATION_BACKWARD;
    bool gated = activation && rows->kind == AH_ACTIVATION_SILU_GATED;
    uint64_t per_row = !activation && rows->kind == AH_NORM_LAYER ? 2 : 1;
    uint64_t groups = rows->rows / AH_OP_NORM_ROWS + (rows->rows % AH_OP_NORM_ROWS != 0);
    sizes->of[ROWS] = rows->rows;
    sizes->of[WIDTH] = rows->width;
    sizes->of[PARTIALS] = groups * per_row;
    if (__builtin_mul_overflow(rows->rows, per_row, &sizes->of[STAT_ROWS]))
        sizes->wrong = "rows overflow";
    if (rows->kind > (activation ? (uint32_t)AH_ACTIVATION_SILU_GATED : (uint32_t)AH_NORM_LAYER))
        sizes->wrong = activation ? "activation is unknown" : "norm is unknown";
    if (activation)
        sizes->use[op->kind == AH_OP_ACTIVATION ? 2 : 1] = sizes->use[4] = gated ? NEEDED : UNUSED;
}

static void sizes_norm(const struct ah_op *op, struct op_sizes *sizes)
{
    sizes_rows(op, sizes);
    if (op->u.rows.kind == AH_NORM_LAYER)
        sizes->use[3] = USABLE;
}

/* A frozen gain or bias has no gradient; below the lowest trainable block nothing wants dx. */
static void sizes_norm_backward(const struct ah_op *op, struct op_sizes *sizes)
{
    bool sums = is_present(op, 1) || is_present(op, 2);
    sizes_rows(op, sizes);
    if (op->u.rows.kind == AH_NORM_LAYER)
        sizes->use[2] = USABLE;
    sizes->use[7] = sums ? NEEDED : UNUSED;
    if (!is_present(op, 0) && !sums)
        sizes->wrong = "none of 'dx', 'dgain', 'dbias' is given";
}

/* Without positions, row r has position r % seq: all of them lie in the table. */
static void check_positions(const struct ah_op *op, size_t positions, uint64_t seq, struct op_sizes *sizes)
{
    if (is_present(op, positions) && seq != 0)
        sizes->wrong = "seq is given beside positions";
    if (!is_present(op, positions) && (seq == 0 || seq > sizes->of[POSITIONS]))
        sizes->wrong = "without positions, seq is at least 1 and at most the rows of the table";
}

/* The position table and the positions of an embedding, operands `table` and `positions`. */
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
    sizes->of[Q_WIDTH] = (uint64_t)rope->heads * rope->head_dim;
    sizes->of[POSITIONS] = rope->table_rows;
    sizes->of[WIDTH] = rope->head_dim;
    sizes->row_stride = rope->row_stride;
    if (rope->head_dim % 2)
        sizes->wrong = "head_dim is odd";
    if (rope->row_stride < sizes->of[Q_WIDTH])
        sizes->wrong = "row_stride is less than heads * head_dim";
    check_positions(op, 2, rope->seq, sizes);
}

static void sizes_attention(const struct ah_op *op, struct op_sizes *sizes)
{
    const struct ah_op_attention *attention = &op->u.attention;
    sizes->of[ROWS] = (uint64_t)attention->batch * attention->seq;
    sizes->of[HEADS] = (uint64_t)attention->batch * attention->heads;
    sizes->of[SEQ] = attention->seq;
    sizes->of[Q_WIDTH] = (uint64_t)attention->heads * attention->head_dim;
    sizes->of[KV_WIDTH] = (uint64_t)attention->kv_heads * attention->head_dim;
    sizes->row_stride = attention->row_stride;
    if (attention->kv_heads == 0 || attention->heads % attention->kv_heads)
        sizes->wrong = "heads is no multiple of kv_heads";
    if (attention->row_stride < sizes->of[Q_WIDTH] || attention->row_stride < sizes->of[KV_WIDTH])
        sizes->wrong = "row_stride is less than heads * head_dim";
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
}

static void sizes_embed_forward(const struct ah_op *op, struct op_sizes *sizes)
{
    sizes_embed(op, sizes);
    check_embed_positions(op, 2, 4, sizes);
}

/* A frozen table has no gradient; a frozen position table is left out with positions = 0. */
static void sizes_embed_backward(const struct ah_op *op, struct op_sizes *sizes)
{
    sizes_embed(op, sizes);
    check_embed_positions(op, 1, 4, sizes);
    sizes->use[3] = sizes->use[5] = is_present(op, 0) ? NEEDED : UNUSED;
    if (!is_present(op, 0) && !is_present(op, 1))
        sizes->wrong = "neither 'dtable' nor 'dpositions_table' is given";
}

static void sizes_cross_entropy(const struct ah_op *op, struct op_sizes *sizes)
{
    sizes->of[ROWS] = op->u.cross_entropy.rows;
    sizes->of[VOCABULARY] = op->u.cross_entropy.vocabulary;
}

static void sizes_sum(const struct ah_op *op, struct op_sizes *sizes)
{
    const struct ah_op_sum *sum = &op->u.sum;
    sizes->of[COUNT] = sum->count;
    sizes->accumulates = sum->accumulate;
    if (sum->first_element % AH_OP_SUM_LEAF)
        sizes->wrong = "first_element is no multiple of 4096";
    if (sum->first_element && !sum->accumulate)
        sizes->wrong = "a tile that is not the first accumulates";
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
        sizes->wrong = "block is not below 2^16";
}

static void sizes_call(const struct ah_op *op, struct op_sizes *sizes)
{
    if (!op->u.call.run)
        sizes->wrong = "there is no function to call";
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
    [AH_OP_ACTIVATION] = sizes_rows,
    [AH_OP_ACTIVATION_BACKWARD] = sizes_rows,
    [AH_OP_EMBED] = sizes_embed_forward,
    [AH_OP_EMBED_BACKWARD] = sizes_embed_backward,
    [AH_OP_GATHER] = sizes_embed,
    [AH_OP_CROSS_ENTROPY] = sizes_cross_entropy,
    [AH_OP_SUM] = sizes_sum,
    [AH_OP_SUM_SQUARES] = sizes_sum,
    [AH_OP_CLIP] = sizes_clip,
    [AH_OP_ADAMW] = sizes_adamw,
    [AH_OP_CALL] = sizes_call,
};

static uint64_t element_bytes(enum element element, enum ah_dtype dtype)
{
    static const uint64_t fixed[ELEMENTS] = {
        [FP32] = 4, [BYTE] = 1, [WORD] = 4, [DOUBLE] = 8, [SCALARS] = sizeof(struct ah_adamw_scalars)};
    return fixed[element] ? fixed[element] : ah_dtype_bytes(dtype);
}

static uint64_t element_align(enum element element, enum ah_dtype dtype)
{
    return element == SCALARS ? _Alignof(struct ah_adamw_scalars) : element_bytes(element, dtype);
}

/* Whether `dtype` is one the element takes; `previous` is the dtype of the operand before. */
static bool element_takes(enum element element, uint32_t dtype, uint32_t previous)
{
    if (dtype != AH_FP32 && dtype != AH_BF16)
        return false;
    if (element == FP32)
        return dtype == AH_FP32;
    return element != LIKE_PREVIOUS || dtype == previous;
}

static int operand_wrong(struct ah_error *err, const struct ah_op *op, const char *operand, const char *what)
{
    return ah_error_set(err, AH_E_USAGE, "op '%s': operand '%s' %s", ah_op_name(op->kind), operand, what);
}

/* Product of an operand's sizes; 0 where one of them is 0 or the product wraps. */
static uint64_t operand_elements(const struct operand_rule *rule, const struct op_sizes *sizes, size_t first)
{
    uint64_t elements = 1;
    for (size_t i = first; i < COUNT_OF(rule->dims); i++)
        if (__builtin_mul_overflow(elements, sizes->of[rule->dims[i]], &elements))
            return 0;
    return elements;
}

/* Fills the three extents of a present operand; false where they wrap or are empty. */
static bool operand_extent(const struct operand_rule *rule, const struct op_sizes *sizes, uint64_t bytes_each,
                           struct ah_operand *operand)
{
    uint64_t row = operand_elements(rule, sizes, rule->strided ? 1 : 0);
    if (row == 0 || __builtin_mul_overflow(row, bytes_each, &operand->row_bytes))
        return false;
    if (!rule->strided) {
        operand->bytes = operand->stride_bytes = operand->row_bytes;
        return true;
    }
    uint64_t rows = sizes->of[rule->dims[0]];
    uint64_t before_last;
    return rows && !__builtin_mul_overflow(sizes->row_stride, bytes_each, &operand->stride_bytes) &&
           !__builtin_mul_overflow(operand->stride_bytes, rows - 1, &before_last) &&
           !__builtin_add_overflow(before_last, operand->row_bytes, &operand->bytes);
}

/* Of an operand whose extent is known. An op picks at most as many rows of a table as it has itself. */
static uint64_t operand_moved_bytes(const struct operand_rule *rule, const struct op_sizes *sizes,
                                    const struct ah_operand *operand)
{
    if (rule->strided)
        return operand->row_bytes * sizes->of[rule->dims[0]];
    bool table = rule->dims[0] == VOCABULARY || rule->dims[0] == POSITIONS;
    uint64_t table_rows = sizes->of[rule->dims[0]];
    return table && sizes->of[ROWS] < table_rows ? operand->bytes / table_rows * sizes->of[ROWS]
                                                 : operand->bytes;
}

static int operand_fill(const struct ah_op *op, const struct op_sizes *sizes, size_t i,
                        struct ah_operand *operand, struct ah_error *err)
{
    const struct operand_rule *rule = &operand_rules[op->kind][i];
    const struct ah_ref *ref = &op->arg[i];
    bool present = is_present(op, i);
    operand->name = rule->name;
    if (ref->arena >= AH_ARENA_KINDS)
        return operand_wrong(err, op, rule->name, "is in no known arena");
    if (!present && (rule->presence == REQUIRED || (rule->presence == BY_OP && sizes->use[i] == NEEDED)))
        return operand_wrong(err, op, rule->name, "is missing");
    if (present && rule->presence == BY_OP && sizes->use[i] == UNUSED)
        return operand_wrong(err, op, rule->name, "is given, but not used by this form of the op");
    if (!present)
        return AH_OK;
    if (!element_takes(rule->element, ref->dtype, i ? op->arg[i - 1].dtype : ref->dtype))
        return operand_wrong(err, op, rule->name, "has a dtype that it cannot have");
    operand->role = rule->role;
    operand->may_equal = rule->may_equal;
    operand->align_bytes = element_align(rule->element, (enum ah_dtype)ref->dtype);
    if (!operand_extent(rule, sizes, element_bytes(rule->element, (enum ah_dtype)ref->dtype), operand))
        return operand_wrong(err, op, rule->name, "is empty or larger than any memory");
    operand->moved_bytes = operand_moved_bytes(rule, sizes, operand);
    return AH_OK;
}

int ah_op_operands(const struct ah_op *op, struct ah_operand ret_operands[AH_OP_ARGS], struct ah_error *err)
{
    struct ah_operand operands[AH_OP_ARGS] = {0};
    struct op_sizes sizes = {.of = {[ONE] = 1, [TWO] = 2}};
    if ((unsigned)op->kind >= AH_OP_KINDS)
        return ah_error_set(err, AH_E_USAGE, "op of unknown kind %u", (unsigned)op->kind);
    sizes_of_kind[op->kind](op, &sizes);
    if (sizes.wrong)
        return ah_error_set(err, AH_E_USAGE, "op '%s': %s", ah_op_name(op->kind), sizes.wrong);
    for (size_t i = 0; i < AH_OP_ARGS; i++) {
        if (!operand_rules[op->kind][i].name) {
            if (is_present(op, i))
                return ah_error_set(err, AH_E_USAGE, "op '%s' has no operand %zu", ah_op_name(op->kind), i);
            continue;
        }
        int rc = operand_fill(op, &sizes, i, &operands[i], err);
        if (rc)
            return rc;
    }
    if (sizes.accumulates)
        operands[0].role = AH_ROLE_INOUT;
    memcpy(ret_operands, operands, sizeof operands);
    return AH_OK;
}

uint64_t ah_op_moved_bytes(const struct ah_op *op)
{
    struct ah_operand operands[AH_OP_ARGS];
    uint64_t bytes = 0;
    if (ah_op_operands(op, operands, NULL))
        return 0;
    for (size_t i = 0; i < AH_OP_ARGS; i++)
        bytes += operands[i].moved_bytes * (operands[i].role == AH_ROLE_INOUT ? 2 : 1);
    return bytes;
}

/* Two operands whose rows lie between each other's, as q, k and v do in a packed matrix: each starts and ends
 * in its own part of a row. Offsets are those of the same arena, b's not before a's. */
static bool operands_interleave(const struct ah_operand *a, const struct ah_operand *b, uint64_t distance)
{
    uint64_t stride = a->stride_bytes;
    if (stride != b->stride_bytes || a->row_bytes >= stride || b->row_bytes >= stride)
        return false;
    uint64_t column = distance % stride;
    return column >= a->row_bytes && b->row_bytes <= stride - column;
}

/* Whether output i overlaps j where it may not. */
static bool operands_overlap(const struct ah_op *op, const struct ah_operand *operands, size_t i, size_t j)
{
    if (op->arg[i].arena != op->arg[j].arena)
        return false;
    size_t first = op->arg[i].offset_bytes <= op->arg[j].offset_bytes ? i : j;
    size_t second = first == i ? j : i;
    uint64_t distance = op->arg[second].offset_bytes - op->arg[first].offset_bytes;
    if (distance >= operands[first].bytes)
        return false;
    bool same = distance == 0 && op->arg[i].dtype == op->arg[j].dtype;
    if (same && (operands[i].may_equal & BIT(j)) && operands[i].bytes == operands[j].bytes)
        return false;
    return !operands_interleave(&operands[first], &operands[second], distance);
}

static bool operand_is_written(const struct ah_operand *operand)
{
    return operand->role == AH_ROLE_OUT || operand->role == AH_ROLE_INOUT;
}

static int check_overlaps(const struct ah_op *op, const struct ah_operand *operands, struct ah_error *err)
{
    for (size_t i = 0; i < AH_OP_ARGS; i++)
        for (size_t j = 0; j < AH_OP_ARGS; j++)
            if (i != j && operand_is_written(&operands[i]) && operands[j].role != AH_ROLE_NONE &&
                operands_overlap(op, operands, i, j))
                return ah_error_set(err, AH_E_USAGE, "op '%s': output '%s' overlaps '%s'",
                                    ah_op_name(op->kind), operands[i].name, operands[j].name);
    return AH_OK;
}

static int check_place(const struct ah_op *op, const struct ah_ref *ref, const struct ah_operand *operand,
                       uint64_t arena_bytes, struct ah_error *err)
{
    uint64_t end;
    if (ref->offset_bytes % operand->align_bytes)
        return ah_error_set(err, AH_E_USAGE,
                            "op '%s': operand '%s' at offset %llu is not aligned to %llu bytes",
                            ah_op_name(op->kind), operand->name, (unsigned long long)ref->offset_bytes,
                            (unsigned long long)operand->align_bytes);
    if (__builtin_add_overflow(ref->offset_bytes, operand->bytes, &end) || end > arena_bytes)
        return ah_error_set(
            err, AH_E_CAPACITY,
            "op '%s': operand '%s', %llu bytes at offset %llu, does not fit its arena of %llu bytes",
            ah_op_name(op->kind), operand->name, (unsigned long long)operand->bytes,
            (unsigned long long)ref->offset_bytes, (unsigned long long)arena_bytes);
    return AH_OK;
}

int ah_op_check(const struct ah_op *op, const uint64_t arena_bytes[AH_ARENA_KINDS], struct ah_error *err)
{
    struct ah_operand operands[AH_OP_ARGS];
    int rc = ah_op_operands(op, operands, err);
    for (size_t i = 0; !rc && i < AH_OP_ARGS; i++)
        if (operands[i].role != AH_ROLE_NONE)
            rc = check_place(op, &op->arg[i], &operands[i], arena_bytes[op->arg[i].arena], err);
    return rc ? rc : check_overlaps(op, operands, err);
}
