/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests the extents of every operand against hand-written numbers, for one op of each kind. Sizes are distinct primes.
 * Also tests the rules of ah_op_check().
 */
#include "runtime/device/op.h"

#include "tests/support/check.h"

#include <float.h>
#include <math.h>
#include <string.h>

enum { SPACING = 1 << 20 };

struct expected {
    const char *name;
    enum ah_role role;
    uint64_t bytes; /* 0: the operand is absent */
};

struct row {
    struct ah_op op;    /* spread() sets arenas and offsets */
    const char *dtypes; /* a letter for each operand: 'f' fp32, 'b' bf16, '-' absent */
    struct expected operands[AH_OP_ARGS];
};

#define IN   AH_ROLE_IN
#define OUT  AH_ROLE_OUT
#define BOTH AH_ROLE_INOUT

static int no_call(void *context, struct ah_error *err)
{
    (void)context, (void)err;
    return AH_OK;
}

static int no_move(void *context, const struct ah_op_moved *moved, struct ah_error *err)
{
    (void)context, (void)moved, (void)err;
    return AH_OK;
}

/* clang-format off */
static const struct row rows[] = {
    {{.kind = AH_OP_COPY, .u.copy = {13}}, "ff", {{"dst", OUT, 13}, {"src", IN, 13}}},
    {{.kind = AH_OP_FILL, .u.elements = {13, 1, 0}}, "b", {{"dst", OUT, 26}}},
    {{.kind = AH_OP_CAST, .u.elements = {13, 0, 0}}, "bf", {{"dst", OUT, 26}, {"src", IN, 52}}},
    {{.kind = AH_OP_ADD, .u.elements = {13, 0, 0}}, "fbf", {{"dst", OUT, 52}, {"a", IN, 26}, {"b", IN, 52}}},
    {{.kind = AH_OP_ADD, .u.elements = {13, 0, 7}}, "fbf", {{"dst", OUT, 364}, {"a", IN, 182}, {"b", IN, 364}}},
    {{.kind = AH_OP_ACCUMULATE, .u.elements = {13, 0, 0}}, "fb", {{"dst", BOTH, 52}, {"src", IN, 26}}},
    {{.kind = AH_OP_MATMUL, .u.matmul = {.m = 3, .n = 5, .k = 7}}, "bbb--",
     {{"c", OUT, 30}, {"a", IN, 42}, {"b", IN, 70}, {"bias", 0, 0}, {"aux", 0, 0}}},
    {{.kind = AH_OP_MATMUL, .u.matmul = {.m = 3, .n = 5, .k = 7, .form = AH_MATMUL_TN, .accumulate = true,
      .epilogue = AH_EPILOGUE_BIAS}}, "fbbf", {{"c", BOTH, 60}, {"a", IN, 42}, {"b", IN, 70}, {"bias", IN, 20}}},
    {{.kind = AH_OP_MATMUL, .u.matmul = {.m = 3, .n = 5, .k = 7, .alpha = 0.5f, .epilogue = AH_EPILOGUE_BIAS_GELU}},
     "bbbbf", {{"c", OUT, 30}, {"a", IN, 42}, {"b", IN, 70}, {"bias", IN, 10}, {"aux", OUT, 60}}},
    {{.kind = AH_OP_COLUMN_SUM, .u.rows = {.rows = 3, .width = 5}}, "fb", {{"dst", OUT, 20}, {"src", IN, 30}}},
    {{.kind = AH_OP_NORM, .u.norm = {.rows = 3, .width = 5, .kind = AH_NORM_LAYER}}, "bbfff",
     {{"y", OUT, 30}, {"x", IN, 30}, {"gain", IN, 20}, {"bias", IN, 20}, {"stats", OUT, 24}}},
    {{.kind = AH_OP_NORM, .u.norm = {.rows = 3, .width = 5, .kind = AH_NORM_RMS}}, "bbf-f",
     {{"y", OUT, 30}, {"x", IN, 30}, {"gain", IN, 20}, {"bias", 0, 0}, {"stats", OUT, 12}}},
    {{.kind = AH_OP_NORM_BACKWARD, .u.norm = {.rows = 65, .width = 5, .kind = AH_NORM_LAYER}}, "bffbbfff",
     {{"dx", OUT, 650}, {"dgain", OUT, 20}, {"dbias", OUT, 20}, {"dy", IN, 650}, {"x", IN, 650}, {"gain", IN, 20},
      {"stats", IN, 520}, {"scratch", OUT, 80}}},
    {{.kind = AH_OP_NORM, .u.norm = {.rows = 3, .width = 5, .heads = 7, .kind = AH_NORM_RMS}}, "bbf-f",
     {{"y", OUT, 210}, {"x", IN, 210}, {"gain", IN, 20}, {"bias", 0, 0}, {"stats", OUT, 84}}},
    {{.kind = AH_OP_NORM_BACKWARD, .u.norm = {.rows = 65, .width = 5, .heads = 3, .kind = AH_NORM_LAYER}}, "bffbbfff",
     {{"dx", OUT, 1950}, {"dgain", OUT, 20}, {"dbias", OUT, 20}, {"dy", IN, 1950}, {"x", IN, 1950}, {"gain", IN, 20},
      {"stats", IN, 1560}, {"scratch", OUT, 160}}},
    {{.kind = AH_OP_ROPE, .u.rope = {.rows = 3, .heads = 2, .head_dim = 4, .table_rows = 7}}, "bff",
     {{"x", BOTH, 48}, {"table", IN, 112}, {"positions", IN, 12}}},
    {{.kind = AH_OP_ROPE, .u.rope = {.rows = 6, .heads = 2, .head_dim = 4, .table_rows = 7, .seq = 3}},
     "bf-", {{"x", BOTH, 96}, {"table", IN, 112}, {"positions", 0, 0}}},
    {{.kind = AH_OP_ATTENTION, .u.attention = {.batch = 2, .seq = 3, .heads = 4, .kv_heads = 2, .head_dim = 5}},
     "bfbbbf", {{"out", OUT, 240}, {"lse", OUT, 96}, {"q", IN, 240}, {"k", IN, 120}, {"v", IN, 120},
      {"docs", IN, 24}}},
    {{.kind = AH_OP_ATTENTION_BACKWARD, .u.attention = {.batch = 2, .seq = 3, .heads = 4, .kv_heads = 2,
      .head_dim = 5}}, "bbbbbbbbfff", {{"dq", OUT, 240}, {"dk", OUT, 120}, {"dv", OUT, 120}, {"dout", IN, 240},
      {"q", IN, 240}, {"k", IN, 120}, {"v", IN, 120}, {"out", IN, 240}, {"lse", IN, 96}, {"docs", IN, 24},
      {"scratch", OUT, 96}}},
    {{.kind = AH_OP_ACTIVATION, .u.rows = {.rows = 3, .width = 5, .kind = AH_ACTIVATION_SILU_GATED}}, "bbb",
     {{"y", OUT, 30}, {"x", IN, 30}, {"up", IN, 30}}},
    {{.kind = AH_OP_ACTIVATION, .u.rows = {.rows = 3, .width = 5, .kind = AH_ACTIVATION_GELU}}, "bb-",
     {{"y", OUT, 30}, {"x", IN, 30}, {"up", 0, 0}}},
    {{.kind = AH_OP_ACTIVATION_BACKWARD, .u.rows = {.rows = 3, .width = 5, .kind = AH_ACTIVATION_SILU_GATED}},
     "bbbbb", {{"dx", OUT, 30}, {"dup", OUT, 30}, {"dy", IN, 30}, {"x", IN, 30}, {"up", IN, 30}}},
    {{.kind = AH_OP_EMBED, .u.embed = {.rows = 3, .width = 5, .vocabulary = 11, .positions = 7}}, "bbbff",
     {{"y", OUT, 30}, {"table", IN, 110}, {"positions_table", IN, 70}, {"tokens", IN, 12}, {"positions", IN, 12}}},
    {{.kind = AH_OP_EMBED_BACKWARD, .u.embed = {.rows = 3, .width = 5, .vocabulary = 11}}, "f-bf-f",
     {{"dtable", BOTH, 220}, {"dpositions_table", 0, 0}, {"dy", IN, 30}, {"tokens", IN, 12}, {"positions", 0, 0},
      {"scratch", OUT, 24}}},
    {{.kind = AH_OP_GATHER, .u.embed = {.rows = 3, .width = 5, .vocabulary = 11}}, "bbf",
     {{"dst", OUT, 30}, {"table", IN, 110}, {"tokens", IN, 12}}},
    {{.kind = AH_OP_CROSS_ENTROPY, .u.cross_entropy = {.rows = 3, .vocabulary = 11}}, "fbfff",
     {{"loss", OUT, 12}, {"logits", BOTH, 66}, {"targets", IN, 12}, {"mask", IN, 3}, {"scale", IN, 4}}},
    {{.kind = AH_OP_CROSS_ENTROPY, .u.cross_entropy = {.rows = 3, .vocabulary = 11}}, "fffffb",
     {{"loss", OUT, 12}, {"logits", BOTH, 132}, {"targets", IN, 12}, {"mask", IN, 3}, {"scale", IN, 4},
      {"gradient", OUT, 66}}},
    {{.kind = AH_OP_SUM, .u.sum = {.count = 13}}, "ff", {{"dst", OUT, 8}, {"src", IN, 52}}},
    {{.kind = AH_OP_SUM_SQUARES, .u.sum = {.count = 13}}, "fb", {{"dst", OUT, 8}, {"src", IN, 26}}},
    {{.kind = AH_OP_SUM_SQUARES, .u.sum = {.count = 13, .first_element = 8192, .accumulate = true}}, "fb",
     {{"dst", BOTH, 8}, {"src", IN, 26}}},
    {{.kind = AH_OP_CLIP, .u.clip = {3, 1.0}}, "ff",
     {{"scalars", BOTH, sizeof(struct ah_adamw_scalars)}, {"sums", IN, 24}}},
    {{.kind = AH_OP_ADAMW, .u.adamw = {.count = 13}}, "fbbbbf",
     {{"master", BOTH, 52}, {"m", BOTH, 26}, {"v", BOTH, 26}, {"gradient", IN, 26}, {"weight", OUT, 26},
      {"scalars", IN, sizeof(struct ah_adamw_scalars)}}},
    {{.kind = AH_OP_CALL, .u.call = {no_call, NULL}}, "", {{0}}},
    {{.kind = AH_OP_SEND, .u.message = {no_move, NULL, 13, 0}}, "f", {{"src", IN, 13}}},
    {{.kind = AH_OP_SEND, .u.message = {no_move, NULL, 0, 0}}, "-", {{"src", 0, 0}}},
    {{.kind = AH_OP_RECEIVE, .u.message = {no_move, NULL, 13, 0}}, "f", {{"dst", OUT, 13}}},
};
/* clang-format on */

enum { ROWS = sizeof rows / sizeof rows[0] };

static const struct row *row_of(enum ah_op_kind kind)
{
    size_t i = 0;
    while (rows[i].op.kind != kind)
        i++;
    return &rows[i];
}

/* Returns the row's op with all operands in the device arena, far from each other. */
static struct ah_op spread(const struct row *row)
{
    struct ah_op op = row->op;
    for (uint64_t i = 0; row->dtypes[i]; i++)
        if (row->dtypes[i] != '-')
            op.arg[i] =
                (struct ah_ref){AH_ARENA_DEVICE, row->dtypes[i] == 'b' ? AH_BF16 : AH_FP32, i * SPACING, 0};
    return op;
}

static const uint64_t arenas[AH_ARENA_KINDS] = {[AH_ARENA_DEVICE] = 16 * (uint64_t)SPACING};

TEST(op, covers_what_it_says)
{
    struct ah_error err = {0};
    bool seen[AH_OP_KINDS] = {0};
    for (size_t i = 0; i < ROWS; i++) {
        struct ah_op op = spread(&rows[i]);
        struct ah_operand operands[AH_OP_ARGS];
        seen[op.kind] = true;
        CHECK_OK(ah_op_operands(&op, operands, &err), err);
        for (size_t j = 0; j < AH_OP_ARGS; j++) {
            const struct expected *expected = &rows[i].operands[j];
            if (expected->name)
                assert_string_equal(operands[j].name, expected->name);
            if (operands[j].bytes != expected->bytes || operands[j].role != expected->role)
                fail_msg("%s of %s: %llu bytes, role %d; expected %llu, %d", operands[j].name,
                         ah_op_name(op.kind), (unsigned long long)operands[j].bytes, (int)operands[j].role,
                         (unsigned long long)expected->bytes, (int)expected->role);
        }
        CHECK_OK(ah_op_check(&op, arenas, &err), err);
    }
    for (size_t kind = 0; kind < AH_OP_KINDS; kind++)
        if (!seen[kind])
            fail_msg("no row for op '%s'", ah_op_name((enum ah_op_kind)kind));
}

/* An operand is accepted at the last offset where it fits, and refused one element further. */
TEST(op, ends_where_its_arena_ends)
{
    struct ah_error err = {0};
    for (size_t i = 0; i < ROWS; i++)
        for (size_t j = 0; rows[i].dtypes[j]; j++) {
            struct ah_op op = spread(&rows[i]);
            uint64_t sizes[AH_ARENA_KINDS];
            if (rows[i].dtypes[j] == '-')
                continue;
            memcpy(sizes, arenas, sizeof sizes);
            op.arg[j].arena = AH_ARENA_PINNED;
            op.arg[j].offset_bytes = 64;
            sizes[AH_ARENA_PINNED] = 64 + rows[i].operands[j].bytes;
            CHECK_OK(ah_op_check(&op, sizes, &err), err);
            sizes[AH_ARENA_PINNED]--;
            CHECK_FAILS(ah_op_check(&op, sizes, &err), err, AH_E_CAPACITY, rows[i].operands[j].name);
            op.arg[j].offset_bytes = UINT64_MAX - 63;
            CHECK_FAILS(ah_op_check(&op, sizes, &err), err, AH_E_CAPACITY, rows[i].operands[j].name);
        }
}

TEST(op, wants_every_operand)
{
    struct ah_error err = {0};
    static const char *const optional[] = {"bias", "dx", "dgain", "dbias", "docs", "mask", "weight", "aux"};
    for (size_t i = 0; i < ROWS; i++)
        for (size_t j = 0; rows[i].dtypes[j]; j++) {
            struct ah_op op = spread(&rows[i]);
            bool may_miss = rows[i].dtypes[j] == '-';
            for (size_t k = 0; k < sizeof optional / sizeof optional[0]; k++)
                if (op.kind != AH_OP_MATMUL && op.kind != AH_OP_ACTIVATION_BACKWARD &&
                    !strcmp(optional[k], rows[i].operands[j].name))
                    may_miss = true;
            if ((op.kind == AH_OP_MATMUL && j == 4) || (op.kind == AH_OP_CROSS_ENTROPY && j == 5))
                may_miss = true;
            op.arg[j].arena = AH_ARENA_NONE;
            if (may_miss)
                CHECK_OK(ah_op_check(&op, arenas, &err), err);
            else
                CHECK_FAILS(ah_op_check(&op, arenas, &err), err, AH_E_USAGE, rows[i].operands[j].name);
        }
}

static struct ah_op without(struct ah_op op, size_t i)
{
    op.arg[i].arena = AH_ARENA_NONE;
    return op;
}

/* Any of dx, dgain and dbias may be absent, but not all three. Scratch is present only if the op sums over rows. */
TEST(op, norm_backward_leaves_out_what_is_frozen)
{
    struct ah_error err = {0};
    for (unsigned outputs = 0; outputs < 8; outputs++)
        for (int scratch = 0; scratch < 2; scratch++) {
            struct ah_op op = spread(row_of(AH_OP_NORM_BACKWARD));
            for (size_t i = 0; i < 3; i++)
                if (!(outputs & 1u << i))
                    op = without(op, i);
            if (!scratch)
                op = without(op, 7);
            bool sums = outputs & 6;
            if (outputs && sums == scratch)
                CHECK_OK(ah_op_check(&op, arenas, &err), err);
            else
                CHECK_FAILS(ah_op_check(&op, arenas, &err), err, AH_E_USAGE,
                            outputs ? "'scratch'" : "none of 'dx'");
        }
    struct ah_op rms = spread(row_of(AH_OP_NORM_BACKWARD));
    rms.u.norm.kind = AH_NORM_RMS;
    CHECK_FAILS(ah_op_check(&rms, arenas, &err), err, AH_E_USAGE,
                "'dbias' is given, but this form of the op "
                "does not use it");
}

TEST(op, embed_backward_leaves_out_what_is_frozen)
{
    struct ah_error err = {0};
    struct ah_op op = spread(row_of(AH_OP_EMBED_BACKWARD));
    op.u.embed.positions = 7;
    op.u.embed.seq = 3;
    op.arg[1] = (struct ah_ref){AH_ARENA_DEVICE, AH_FP32, SPACING, 0};
    CHECK_OK(ah_op_check(&op, arenas, &err), err);
    op = without(op, 0);
    CHECK_FAILS(ah_op_check(&op, arenas, &err), err, AH_E_USAGE,
                "'tokens' is given, but this form of the op "
                "does not use it");
    op = without(op, 3);
    CHECK_FAILS(ah_op_check(&op, arenas, &err), err, AH_E_USAGE,
                "'scratch' is given, but this form of the "
                "op does not use it");
    op = without(op, 5);
    CHECK_OK(ah_op_check(&op, arenas, &err), err);
    op = without(op, 1);
    op.u.embed.positions = op.u.embed.seq = 0;
    CHECK_FAILS(ah_op_check(&op, arenas, &err), err, AH_E_USAGE, "neither 'dtable' nor");
}

TEST(op, padding_is_a_token_of_a_backward)
{
    struct ah_error err = {0};
    struct ah_op backward = spread(row_of(AH_OP_EMBED_BACKWARD)), gather = spread(row_of(AH_OP_GATHER));
    backward.u.embed.padding = 11;
    CHECK_OK(ah_op_check(&backward, arenas, &err), err);
    backward.u.embed.padding = 12;
    CHECK_FAILS(ah_op_check(&backward, arenas, &err), err, AH_E_USAGE, "padding is not a token");
    gather.u.embed.padding = 1;
    CHECK_FAILS(ah_op_check(&gather, arenas, &err), err, AH_E_USAGE, "an op without backward");
}

/* Without given positions, row r has position r % seq. Every such position must be in the table. */
TEST(op, counts_positions_or_is_given_them)
{
    struct ah_error err = {0};
    struct ah_op rope = without(spread(row_of(AH_OP_ROPE)), 2);
    struct ah_op embed = without(spread(row_of(AH_OP_EMBED)), 4);
    CHECK_FAILS(ah_op_check(&rope, arenas, &err), err, AH_E_USAGE, "without positions, seq");
    CHECK_FAILS(ah_op_check(&embed, arenas, &err), err, AH_E_USAGE, "without positions, seq");
    rope.u.rope.seq = 7;
    embed.u.embed.seq = 7;
    CHECK_OK(ah_op_check(&rope, arenas, &err), err);
    CHECK_OK(ah_op_check(&embed, arenas, &err), err);
    rope.u.rope.seq = 8;
    embed.u.embed.seq = 8;
    CHECK_FAILS(ah_op_check(&rope, arenas, &err), err, AH_E_USAGE, "the rows of the table");
    CHECK_FAILS(ah_op_check(&embed, arenas, &err), err, AH_E_USAGE, "the rows of the table");
    rope = spread(row_of(AH_OP_ROPE));
    rope.u.rope.seq = 3;
    CHECK_FAILS(ah_op_check(&rope, arenas, &err), err, AH_E_USAGE, "seq and positions are both given");
    embed = without(spread(row_of(AH_OP_EMBED)), 2);
    embed.u.embed.positions = 0;
    CHECK_FAILS(ah_op_check(&embed, arenas, &err), err, AH_E_USAGE,
                "'positions' is given, but this form of "
                "the op does not use it");
}

/* Names of random bits have 40 bits for groups of four elements and 16 for the block. */
TEST(op, adamw_keeps_to_the_random_numbers_names)
{
    struct ah_error err = {0};
    struct ah_op op = spread(row_of(AH_OP_ADAMW));
    op.u.adamw.block = 65535;
    op.u.adamw.first_element = (UINT64_C(4) << 40) - op.u.adamw.count;
    CHECK_OK(ah_op_check(&op, arenas, &err), err);
    op.u.adamw.first_element++;
    CHECK_FAILS(ah_op_check(&op, arenas, &err), err, AH_E_USAGE, "'adamw': first_element + count is more");
    op.u.adamw.first_element = 0;
    op.u.adamw.block = 65536;
    CHECK_FAILS(ah_op_check(&op, arenas, &err), err, AH_E_USAGE, "'adamw': block is 2^16 or more");
}

/* Traffic, worked out by hand. Inputs and outputs count once, in-out operands twice. A table counts only its used rows,
 * and packed rows count without gaps. */
TEST(op, moves_each_operand_once)
{
    static const struct {
        enum ah_op_kind kind;
        uint64_t bytes;
    } moved[] = {
        {AH_OP_COPY, 26},   {AH_OP_FILL, 26}, {AH_OP_CAST, 78},  {AH_OP_ADD, 130}, {AH_OP_ACCUMULATE, 130},
        {AH_OP_GATHER, 72}, {AH_OP_SUM, 60},  {AH_OP_ROPE, 156}, {AH_OP_CALL, 0},  {AH_OP_ADAMW, 0},
    };
    for (size_t i = 0; i < sizeof moved / sizeof moved[0]; i++) {
        struct ah_op op = spread(row_of(moved[i].kind));
        uint64_t bytes = moved[i].bytes;
        if (op.kind == AH_OP_ADAMW)
            bytes = 2 * (52 + 26 + 26) + 26 + 26 + sizeof(struct ah_adamw_scalars);
        if (ah_op_moved_bytes(&op) != bytes)
            fail_msg("op '%s' moves %llu bytes, expected %llu", ah_op_name(op.kind),
                     (unsigned long long)ah_op_moved_bytes(&op), (unsigned long long)bytes);
    }
    struct ah_op wrong = {.kind = AH_OP_KINDS};
    assert_int_equal(ah_op_moved_bytes(&wrong), 0);
}

TEST(op, sums_go_on_at_leaves)
{
    struct ah_error err = {0};
    for (enum ah_op_kind kind = AH_OP_SUM; kind <= AH_OP_SUM_SQUARES; kind++) {
        struct ah_op op = spread(row_of(kind));
        op.u.sum.first_element = 4096;
        CHECK_FAILS(ah_op_check(&op, arenas, &err), err, AH_E_USAGE, "after the first must accumulate");
        op.u.sum.accumulate = true;
        CHECK_OK(ah_op_check(&op, arenas, &err), err);
        op.u.sum.first_element = 2048;
        CHECK_FAILS(ah_op_check(&op, arenas, &err), err, AH_E_USAGE, "not a multiple of 4096");
    }
}

TEST(op, matmul_has_aux_with_gelu_only)
{
    struct ah_error err = {0};
    struct ah_op op = spread(row_of(AH_OP_MATMUL) + 2);
    CHECK_OK(ah_op_check(&op, arenas, &err), err);
    op.u.matmul.epilogue = AH_EPILOGUE_BIAS;
    CHECK_FAILS(ah_op_check(&op, arenas, &err), err, AH_E_USAGE,
                "'aux' is given, but this form of the op "
                "does not use it");
    op = spread(row_of(AH_OP_MATMUL) + 2);
    op.arg[0].dtype = AH_FP32;
    op.u.matmul.accumulate = true;
    CHECK_FAILS(ah_op_check(&op, arenas, &err), err, AH_E_USAGE, "gelu cannot accumulate");
    op = spread(row_of(AH_OP_MATMUL));
    op.u.matmul.alpha = INFINITY;
    CHECK_FAILS(ah_op_check(&op, arenas, &err), err, AH_E_USAGE, "alpha is not finite");
    op = spread(row_of(AH_OP_MATMUL) + 2);
    for (size_t i = 0; i < 5; i++)
        op.arg[i].dtype = i == 4 ? AH_BF16 : AH_FP32;
    CHECK_FAILS(ah_op_check(&op, arenas, &err), err, AH_E_USAGE, "aux in fp32");
}

TEST(op, attention_has_a_finite_soft_cap_or_none)
{
    static const float wrong[] = {-1, -FLT_MIN, INFINITY, -INFINITY, NAN};
    struct ah_error err = {0};
    for (enum ah_op_kind kind = AH_OP_ATTENTION; kind <= AH_OP_ATTENTION_BACKWARD; kind++) {
        struct ah_op op = spread(row_of(kind));
        op.u.attention.soft_cap = 50;
        CHECK_OK(ah_op_check(&op, arenas, &err), err);
        for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
            op.u.attention.soft_cap = wrong[i];
            CHECK_FAILS(ah_op_check(&op, arenas, &err), err, AH_E_USAGE,
                        "soft_cap is negative or not finite");
        }
    }
}

TEST(op, only_fp32_logits_have_a_gradient_beside_them_in_bf16)
{
    struct ah_error err = {0};
    for (size_t logits = AH_FP32; logits <= AH_BF16; logits++)
        for (size_t gradient = AH_FP32; gradient <= AH_BF16; gradient++) {
            struct ah_op op = spread(row_of(AH_OP_CROSS_ENTROPY) + 1);
            op.arg[1].dtype = (uint32_t)logits;
            op.arg[5].dtype = (uint32_t)gradient;
            if (logits == AH_FP32 && gradient == AH_BF16)
                CHECK_OK(ah_op_check(&op, arenas, &err), err);
            else
                CHECK_FAILS(ah_op_check(&op, arenas, &err), err, AH_E_USAGE, "beside the logits is bf16");
        }
}

TEST(op, refuses_what_no_form_uses)
{
    struct ah_error err = {0};
    struct ah_op op = spread(row_of(AH_OP_MATMUL));
    op.arg[3] = (struct ah_ref){AH_ARENA_DEVICE, AH_FP32, 3 * SPACING, 0};
    CHECK_FAILS(ah_op_check(&op, arenas, &err), err, AH_E_USAGE, "'bias' is given");
    op = spread(row_of(AH_OP_FILL));
    op.arg[1] = (struct ah_ref){AH_ARENA_DEVICE, AH_FP32, SPACING, 0};
    CHECK_FAILS(ah_op_check(&op, arenas, &err), err, AH_E_USAGE, "no operand 1");
    op = spread(row_of(AH_OP_FILL));
    op.arg[0].arena = AH_ARENA_KINDS;
    CHECK_FAILS(ah_op_check(&op, arenas, &err), err, AH_E_USAGE, "arena");
    op.kind = AH_OP_KINDS;
    CHECK_FAILS(ah_op_check(&op, arenas, &err), err, AH_E_USAGE, "unknown kind");
}

TEST(op, refuses_sizes_that_wrap)
{
    struct ah_error err = {0};
    struct ah_op op = spread(row_of(AH_OP_CAST));
    static const uint64_t counts[] = {0, UINT64_MAX / 4 + 1, UINT64_MAX / 2 + 1, UINT64_MAX};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        op.u.elements.count = counts[i];
        CHECK_FAILS(ah_op_check(&op, arenas, &err), err, AH_E_USAGE, "larger than any memory");
    }
    op = spread(row_of(AH_OP_MATMUL));
    op.u.matmul.m = UINT64_C(1) << 32;
    op.u.matmul.k = UINT64_C(1) << 32;
    CHECK_FAILS(ah_op_check(&op, arenas, &err), err, AH_E_USAGE, "'a' is empty or larger");
    op = spread(row_of(AH_OP_NORM_BACKWARD));
    op.u.norm.rows = UINT64_MAX;
    CHECK_FAILS(ah_op_check(&op, arenas, &err), err, AH_E_USAGE, "larger than any memory");
    op = spread(row_of(AH_OP_ROPE));
    op.u.rope.rows = UINT64_MAX / 8;
    CHECK_FAILS(ah_op_check(&op, arenas, &err), err, AH_E_USAGE, "larger than any memory");
    op = spread(row_of(AH_OP_ADAMW));
    op.u.adamw.first_element = UINT64_MAX;
    CHECK_FAILS(ah_op_check(&op, arenas, &err), err, AH_E_USAGE, "first_element");
}

TEST(op, refuses_dtypes)
{
    struct ah_error err = {0};
    struct ah_op op = spread(row_of(AH_OP_ACCUMULATE));
    op.arg[0].dtype = AH_BF16;
    CHECK_FAILS(ah_op_check(&op, arenas, &err), err, AH_E_USAGE, "'dst' has a dtype");
    op = spread(row_of(AH_OP_MATMUL));
    op.arg[2].dtype = AH_FP32;
    CHECK_FAILS(ah_op_check(&op, arenas, &err), err, AH_E_USAGE, "'b' has a dtype");
    op = spread(row_of(AH_OP_MATMUL));
    op.arg[1].dtype = op.arg[2].dtype = AH_FP32;
    CHECK_FAILS(ah_op_check(&op, arenas, &err), err, AH_E_USAGE, "product in fp32");
    op = spread(row_of(AH_OP_FILL));
    op.arg[0].dtype = 7;
    CHECK_FAILS(ah_op_check(&op, arenas, &err), err, AH_E_USAGE, "dtype");
}

TEST(op, refuses_misaligned_places)
{
    struct ah_error err = {0};
    struct ah_op op = spread(row_of(AH_OP_CAST));
    op.arg[1].offset_bytes += 2;
    CHECK_FAILS(ah_op_check(&op, arenas, &err), err, AH_E_USAGE,
                "'src' at offset 1048578 is not aligned to 4");
    op = spread(row_of(AH_OP_COPY));
    op.arg[1].offset_bytes += 1;
    CHECK_OK(ah_op_check(&op, arenas, &err), err);
}

TEST(op, refuses_overlaps)
{
    struct ah_error err = {0};
    struct ah_op op = spread(row_of(AH_OP_COPY));
    op.arg[1].offset_bytes = 12;
    CHECK_FAILS(ah_op_check(&op, arenas, &err), err, AH_E_USAGE, "output 'dst' overlaps 'src'");
    op.arg[1].offset_bytes = 13;
    CHECK_OK(ah_op_check(&op, arenas, &err), err);
    op.arg[0].offset_bytes = 13;
    op.arg[1].offset_bytes = 1;
    CHECK_FAILS(ah_op_check(&op, arenas, &err), err, AH_E_USAGE, "overlaps");
    op = spread(row_of(AH_OP_MATMUL) + 1); /* inputs may overlap */
    op.arg[2].offset_bytes = op.arg[1].offset_bytes;
    CHECK_OK(ah_op_check(&op, arenas, &err), err);
}

TEST(op, works_in_place_where_it_may)
{
    struct ah_error err = {0};
    struct ah_op op = spread(row_of(AH_OP_ADD));
    op.arg[2].offset_bytes = op.arg[0].offset_bytes;
    CHECK_OK(ah_op_check(&op, arenas, &err), err); /* `dst` of add is in place of b, and both are fp32 */
    op.arg[2].offset_bytes += 4;
    CHECK_FAILS(ah_op_check(&op, arenas, &err), err, AH_E_USAGE, "overlaps 'b'");
    op = spread(row_of(AH_OP_ADD));
    op.arg[1].offset_bytes = op.arg[0].offset_bytes; /* a is bf16 */
    CHECK_FAILS(ah_op_check(&op, arenas, &err), err, AH_E_USAGE, "overlaps 'a'");
    op = spread(row_of(AH_OP_CAST));
    op.arg[0].dtype = AH_FP32;
    op.arg[1].offset_bytes = op.arg[0].offset_bytes;
    CHECK_FAILS(ah_op_check(&op, arenas, &err), err, AH_E_USAGE, "overlaps 'src'");
}

/* Puts every output at the offset of every other operand. Only the pairs listed in op.h are accepted. */
TEST(op, is_in_place_nowhere_else)
{
    struct ah_error err = {0};
    unsigned taken = 0;
    for (size_t i = 0; i < ROWS; i++)
        for (size_t j = 0; rows[i].dtypes[j]; j++)
            for (size_t k = 0; rows[i].dtypes[k]; k++) {
                struct ah_op op = spread(&rows[i]);
                bool written = rows[i].operands[j].role == OUT || rows[i].operands[j].role == BOTH;
                if (j == k || !written || rows[i].dtypes[k] == '-')
                    continue;
                op.arg[k].dtype = op.arg[j].dtype;
                op.arg[k].offset_bytes = op.arg[j].offset_bytes;
                bool may = (op.kind == AH_OP_ADD && j == 0) ||
                           (op.kind == AH_OP_ACTIVATION_BACKWARD && j == 0 && k == 2);
                taken += may;
                if ((ah_op_check(&op, arenas, &err) == AH_OK) != may)
                    fail_msg("op '%s': '%s' at the place of '%s' is %s", ah_op_name(op.kind),
                             rows[i].operands[j].name, rows[i].operands[k].name, may ? "refused" : "taken");
            }
    assert_int_equal(taken, 5);
}

/* Lists the matrices among the operands of the first row of each kind, by hand. All other operands are dense. */
static const struct {
    enum ah_op_kind kind;
    const char *names; /* operands of this shape */
    uint64_t rows, width;
} matrices[] = {
    {AH_OP_FILL, "dst", 1, 13},
    {AH_OP_CAST, "dst src", 1, 13},
    {AH_OP_ADD, "dst a b", 1, 13},
    {AH_OP_ACCUMULATE, "dst src", 1, 13},
    {AH_OP_MATMUL, "c", 3, 5},
    {AH_OP_MATMUL, "a", 3, 7},
    {AH_OP_MATMUL, "b", 7, 5},
    {AH_OP_COLUMN_SUM, "src", 3, 5},
    {AH_OP_NORM, "y x", 3, 5},
    {AH_OP_NORM_BACKWARD, "dx dy x", 65, 5},
    {AH_OP_ROPE, "x", 3, 8},
    {AH_OP_ATTENTION, "out q", 6, 20},
    {AH_OP_ATTENTION, "k v", 6, 10},
    {AH_OP_ATTENTION_BACKWARD, "dq dout q out", 6, 20},
    {AH_OP_ATTENTION_BACKWARD, "dk dv k v", 6, 10},
    {AH_OP_ACTIVATION, "y x up", 3, 5},
    {AH_OP_ACTIVATION_BACKWARD, "dx dup dy x up", 3, 5},
    {AH_OP_CROSS_ENTROPY, "logits", 3, 11},
};

static bool names_have(const char *names, const char *name)
{
    const char *at = strstr(names, name);
    size_t length = strlen(name);
    while (at && !((at == names || at[-1] == ' ') && (at[length] == ' ' || !at[length])))
        at = strstr(at + 1, name);
    return at;
}

/* Checks every kind of stride for operand j, a matrix with `rows_of` rows of `width` elements. */
static void check_matrix(const struct row *row, size_t j, uint64_t rows_of, uint64_t width)
{
    struct ah_error err = {0};
    struct ah_op op = spread(row);
    struct ah_operand operands[AH_OP_ARGS];
    const uint64_t each = row->dtypes[j] == 'b' ? 2 : 4;
    const uint64_t dense_moved = ah_op_moved_bytes(&op);
    op.arg[j].row_stride = width + 3;
    CHECK_OK(ah_op_operands(&op, operands, &err), err);
    assert_int_equal(operands[j].bytes, ((rows_of - 1) * (width + 3) + width) * each);
    assert_int_equal(operands[j].rows, rows_of);
    assert_int_equal(operands[j].row_bytes, width * each);
    assert_int_equal(operands[j].stride_bytes, (width + 3) * each);
    assert_int_equal(ah_op_moved_bytes(&op), dense_moved);
    op.arg[j].row_stride = width;
    CHECK_OK(ah_op_operands(&op, operands, &err), err);
    assert_int_equal(operands[j].bytes, rows_of * width * each);
    op.arg[j].row_stride = width - 1;
    CHECK_FAILS(ah_op_check(&op, arenas, &err), err, AH_E_USAGE, "smaller than the width of its rows");
    op.arg[j].row_stride = UINT64_MAX / each + 1;
    CHECK_FAILS(ah_op_check(&op, arenas, &err), err, AH_E_USAGE, "larger than any memory");
}

TEST(op, rows_lie_a_stride_apart)
{
    struct ah_error err = {0};
    size_t found = 0;
    for (enum ah_op_kind kind = 0; kind < AH_OP_CALL; kind++)
        for (size_t j = 0; row_of(kind)->dtypes[j]; j++) {
            const struct row *row = row_of(kind);
            struct ah_op op = spread(row);
            size_t i = 0;
            while (i < sizeof matrices / sizeof matrices[0] &&
                   !(matrices[i].kind == kind && names_have(matrices[i].names, row->operands[j].name)))
                i++;
            op.arg[j].row_stride = SPACING;
            if (row->dtypes[j] == '-')
                continue;
            if (i < sizeof matrices / sizeof matrices[0])
                check_matrix(row, j, matrices[i].rows, matrices[i].width), found++;
            else
                CHECK_FAILS(ah_op_check(&op, arenas, &err), err, AH_E_USAGE, "must be dense");
        }
    assert_int_equal(found, 39);
}

/* The last row of a matrix may end where its arena ends, without a gap behind it. */
TEST(op, the_last_row_ends_in_its_arena)
{
    struct ah_error err = {0};
    uint64_t sizes[AH_ARENA_KINDS] = {[AH_ARENA_DEVICE] = 16 * (uint64_t)SPACING};
    struct ah_op op = spread(row_of(AH_OP_COLUMN_SUM));
    op.arg[1] = (struct ah_ref){AH_ARENA_PINNED, AH_BF16, 64, 9};
    sizes[AH_ARENA_PINNED] = 64 + (2 * 9 + 5) * 2;
    CHECK_OK(ah_op_check(&op, sizes, &err), err);
    sizes[AH_ARENA_PINNED]--;
    CHECK_FAILS(ah_op_check(&op, sizes, &err), err, AH_E_CAPACITY, "'src'");
}

/* Two operands in place need equal strides as well as equal offsets. */
TEST(op, in_place_needs_the_same_stride)
{
    struct ah_error err = {0};
    struct ah_op op = spread(row_of(AH_OP_ADD) + 1);
    op.arg[2].offset_bytes = op.arg[0].offset_bytes;
    op.arg[0].row_stride = op.arg[2].row_stride = 17;
    CHECK_OK(ah_op_check(&op, arenas, &err), err);
    op.arg[2].row_stride = 18;
    CHECK_FAILS(ah_op_check(&op, arenas, &err), err, AH_E_USAGE, "output 'dst' overlaps 'b'");
}

/* q, k and v of a packed matrix are interleaved. */
TEST(op, takes_packed_rows)
{
    struct ah_error err = {0};
    struct ah_op op = spread(row_of(AH_OP_ATTENTION_BACKWARD));
    for (size_t part = 0; part < 3; part++) {
        static const uint64_t columns[] = {0, 20, 30};
        op.arg[part].row_stride = op.arg[4 + part].row_stride = 40;
        op.arg[part].offset_bytes = columns[part] * 2;
        op.arg[4 + part].offset_bytes = 4 * SPACING + columns[part] * 2;
    }
    CHECK_OK(ah_op_check(&op, arenas, &err), err);
    op.arg[1].offset_bytes = 19 * 2;
    CHECK_FAILS(ah_op_check(&op, arenas, &err), err, AH_E_USAGE, "output 'dq' overlaps 'dk'");
    op.arg[1].offset_bytes = 20 * 2;
    op.arg[2].offset_bytes = 31 * 2; /* overlaps the next row of dq */
    CHECK_FAILS(ah_op_check(&op, arenas, &err), err, AH_E_USAGE, "overlaps 'dv'");
    op.arg[2].offset_bytes = (40 + 30) * 2; /* one row further, dq is not overlapped */
    CHECK_OK(ah_op_check(&op, arenas, &err), err);
}
