/* SPDX-License-Identifier: Apache-2.0
 *
 * Compares embeddings with straight loops in double: rows by token and position, and in backward the sums of rows.
 */
#include "base/bf16.h"
#include "tests/device/device_math/op_case.h"

#include <math.h>
#include <stdlib.h>

enum { ROUNDS = 600 };

/* Returns sizes with long runs of one token, several strips of columns, and several pieces. */
static struct ah_op_embed random_embed(uint64_t *random, bool positions)
{
    struct ah_op_embed embed = {.rows = op_case_size(random, op_case_below(random, 10) ? 60 : 1500),
                                .width = op_case_size(random, op_case_below(random, 10) ? 60 : 2600),
                                .vocabulary = op_case_size(random, op_case_below(random, 3) ? 50 : 70000)};
    if (embed.rows * embed.width > 100000)
        embed.width = 1 + embed.width % 20;
    if (embed.vocabulary * embed.width > 400000)
        embed.width = 1 + embed.width % 5;
    if (positions)
        embed.positions = op_case_size(random, 150);
    return embed;
}

/* Returns 0 for none in every other case. 33.94 is no bf16. */
static float random_scale(uint64_t *random)
{
    static const float scales[] = {0, 0, 0, 1, 0.25f, 33.94f};
    return scales[op_case_below(random, 6)];
}

static double scale_of(const struct op_case *c)
{
    return c->op.u.embed.scale > 0 ? (double)c->op.u.embed.scale : 1;
}

/* Returns x rounded to the type of operand 0. */
static double rounded(const struct op_case *c, double x)
{
    return c->op.arg[0].dtype == AH_BF16 ? (double)ah_bf16_to_fp32(ah_bf16_from_fp32((float)x))
                                         : (double)(float)x;
}

static uint64_t position_of(const struct op_case *c, uint64_t row)
{
    return c->op.u.embed.seq ? row % c->op.u.embed.seq : op_case_word(c, 4, row);
}

/* If there is a position table, takes positions from operand 4 or from `seq`. */
static void add_positions(struct ah_op *op, uint64_t *random)
{
    if (!op->u.embed.positions)
        return;
    if (op_case_below(random, 2))
        op->arg[4] = op_case_fp32();
    else
        op->u.embed.seq = 1 + op_case_below(random, op->u.embed.positions);
}

TEST(embed, rows_by_token_and_position)
{
    uint64_t random = check_seed(51);
    for (int round = 0; round < (int)check_scaled(ROUNDS); round++) {
        struct op_case c;
        struct ah_op op = {.kind = AH_OP_EMBED, .u.embed = random_embed(&random, round % 2)};
        const struct ah_op_embed *embed = &op.u.embed;
        op.u.embed.scale = random_scale(&random);
        op.arg[0] = op_case_dense(&random);
        op.arg[1] = op_case_dense(&random);
        if (embed->positions)
            op.arg[2] = op_case_dense(&random);
        op.arg[3] = op_case_fp32();
        add_positions(&op, &random);
        op_case_init(&c, &op, &random);
        c.width[0] = c.width[1] = c.width[2] = embed->width;
        op_case_fill(&c, 1, -2, 2);
        op_case_fill(&c, 2, -2, 2);
        op_case_fill_words(&c, 3, embed->vocabulary);
        op_case_fill_words(&c, 4, embed->positions ? embed->positions : 1);
        op_case_run(&c);
        for (uint64_t row = 0; row < embed->rows; row++)
            for (uint64_t i = 0; i < embed->width; i++) {
                double y = op_case_input(&c, 1, op_case_word(&c, 3, row), i) * scale_of(&c);
                if (!embed->positions)
                    assert_true(op_case_result(&c, 0, row, i) == rounded(&c, y));
                y += embed->positions ? op_case_input(&c, 2, position_of(&c, row), i) : 0;
                op_case_check(&c, 0, row, i, y, 3e-7 * (1 + scale_of(&c)));
            }
        op_case_release(&c);
    }
}

TEST(embed, gather)
{
    uint64_t random = check_seed(52);
    for (int round = 0; round < (int)check_scaled(ROUNDS); round++) {
        struct op_case c;
        struct ah_op op = {.kind = AH_OP_GATHER, .u.embed = random_embed(&random, false)};
        op.arg[0] = op_case_dense(&random);
        op.arg[1] = op_case_dense(&random);
        op.arg[2] = op_case_fp32();
        op_case_init(&c, &op, &random);
        c.width[0] = c.width[1] = op.u.embed.width;
        op_case_fill(&c, 1, -2, 2);
        op_case_fill_words(&c, 2, op.u.embed.vocabulary);
        op_case_run(&c);
        for (uint64_t row = 0; row < op.u.embed.rows; row++)
            for (uint64_t i = 0; i < op.u.embed.width; i++)
                op_case_check(&c, 0, row, i, op_case_input(&c, 1, op_case_word(&c, 2, row), i), 0);
        op_case_release(&c);
    }
}

/* Checks that each row of operand `table` gained the sum of its rows of dy, for tokens times the scale. If a row has no
 * rows of dy, or is the padding token's, it is unchanged bit for bit. */
static void check_table(const struct op_case *c, size_t table, uint64_t rows)
{
    const struct ah_op_embed *embed = &c->op.u.embed;
    const double scale = table ? 1 : scale_of(c);
    double *sum = calloc(rows, sizeof *sum), *size = calloc(rows, sizeof *size);
    for (uint64_t i = 0; i < embed->width; i++) {
        for (uint64_t row = 0; row < rows; row++)
            sum[row] = size[row] = 0;
        for (uint64_t row = 0; row < embed->rows; row++) {
            const uint64_t to = table ? position_of(c, row) : op_case_word(c, 3, row);
            if (!table && to + 1 == embed->padding)
                continue;
            sum[to] += op_case_input(c, 2, row, i);
            size[to] += 1;
        }
        for (uint64_t row = 0; row < rows; row++) {
            const double before = op_case_input(c, table, row, i);
            if (size[row] > 0)
                op_case_check(c, table, row, i, before + scale * sum[row],
                              2e-7 * (2 + size[row]) * (1 + scale));
            else
                assert_true(op_case_result(c, table, row, i) == before);
        }
    }
    free(sum);
    free(size);
}

TEST(embed, backward_adds_to_both_tables)
{
    uint64_t random = check_seed(53);
    for (int round = 0; round < (int)check_scaled(ROUNDS); round++) {
        struct op_case c;
        const uint64_t wanted = 1 + op_case_below(&random, 3); /* bits: tokens, positions */
        struct ah_op op = {.kind = AH_OP_EMBED_BACKWARD, .u.embed = random_embed(&random, wanted & 2)};
        const struct ah_op_embed *embed = &op.u.embed;
        op.u.embed.scale = random_scale(&random);
        if (wanted & 1) {
            op.arg[0] = op_case_dense(&random);
            op.arg[3] = op.arg[5] = op_case_fp32();
            if (op_case_below(&random, 2))
                op.u.embed.padding =
                    1 + op_case_below(&random, embed->vocabulary < 9 ? embed->vocabulary : 9);
        }
        if (wanted & 2)
            op.arg[1] = op_case_dense(&random);
        op.arg[2] = op_case_dense(&random);
        add_positions(&op, &random);
        op_case_init(&c, &op, &random);
        c.width[0] = c.width[1] = c.width[2] = embed->width;
        for (size_t i = 0; i < 3; i++)
            op_case_fill(&c, i, -1, 1);
        op_case_fill_words(&c, 3, embed->vocabulary);
        op_case_fill_words(&c, 4, embed->positions ? embed->positions : 1);
        op_case_run(&c);
        if (wanted & 1)
            check_table(&c, 0, embed->vocabulary);
        if (wanted & 2)
            check_table(&c, 1, embed->positions);
        op_case_release(&c);
    }
}
