/* SPDX-License-Identifier: Apache-2.0
 *
 * Compares cross-entropy with its definition in double. Central differences check the gradient of the definition.
 */
#include "base/bf16.h"
#include "tests/device/device_math/op_case.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ROUNDS = 200, VOCABULARY = 150000 };

struct row {
    uint64_t n, target;
    double cap;  /* 0: none */
    double most; /* set by forward(), like p: the largest logit */
    double x[VOCABULARY];
    double p[VOCABULARY];
};

static double logit(const struct row *row, uint64_t i)
{
    return row->cap > 0 ? row->cap * tanh(row->x[i] / row->cap) : row->x[i];
}

static double forward(void *context)
{
    struct row *row = context;
    double sum = 0;
    row->most = logit(row, 0);
    for (uint64_t i = 0; i < row->n; i++)
        row->most = fmax(row->most, logit(row, i));
    for (uint64_t i = 0; i < row->n; i++)
        sum += row->p[i] = exp(logit(row, i) - row->most);
    for (uint64_t i = 0; i < row->n; i++)
        row->p[i] /= sum;
    return log(sum) + row->most - logit(row, row->target);
}

static double gradient(const struct row *row, uint64_t i)
{
    const double c = row->cap > 0 ? logit(row, i) / row->cap : 0;
    return (row->p[i] - (i == row->target ? 1 : 0)) * (1 - c * c);
}

TEST(cross_entropy, reference_has_the_gradients_of_differences)
{
    static struct row row, still;
    uint64_t random = check_seed(61);
    for (int round = 0; round < 60; round++) {
        row.n = op_case_size(&random, 30);
        row.cap = round % 2 ? 2.5 : 0;
        row.target = op_case_below(&random, row.n);
        for (uint64_t i = 0; i < row.n; i++)
            row.x[i] = 6 * check_uniform(&random) - 3;
        forward(&row);
        memcpy(&still, &row, sizeof row);
        for (uint64_t i = 0; i < row.n; i++)
            check_near(op_case_slope(forward, &row, &row.x[i], 1e-5), gradient(&still, i), 1e-8);
    }
}

/* Checks one row. For logits far below the largest, rounding of the difference adds to the error. Caps add that of
 * capped logits, a few units of their last place. */
static void check_row(const struct op_case *c, uint64_t r, bool masked)
{
    static struct row row;
    const size_t to = c->operands[5].role ? 5 : 1;
    const double scale = op_case_input(c, 4, 0, 0);
    row.n = c->op.u.cross_entropy.vocabulary;
    row.target = op_case_word(c, 2, r);
    row.cap = (double)c->op.u.cross_entropy.soft_cap;
    for (uint64_t i = 0; i < row.n; i++)
        row.x[i] = op_case_input(c, 1, r, i);
    const double loss = forward(&row);
    op_case_check(c, 0, 0, r, masked ? 0 : loss, masked ? 0 : 1e-6 * (1 + loss + row.cap));
    for (uint64_t i = 0; i < row.n; i++) {
        const double part = row.cap > 0 ? 0.6 : 0.2; /* of the target, whose slope is rounded too */
        const double g = masked ? 0 : gradient(&row, i) * scale;
        const double capped = row.cap > 0 ? fabs(logit(&row, i)) + fabs(row.most) : 0;
        const double inexact =
            row.p[i] * (1 + fabs(log(row.p[i] + 1e-30)) / 16 + capped / 2) + (i == row.target ? part : 1e-30);
        op_case_check(c, to, r, i, g, masked ? 0 : 1e-6 * inexact * scale);
    }
}

static void run_round(uint64_t *random, uint64_t rows, uint64_t vocabulary, double spread)
{
    static const float caps[] = {0, 0, 30, 4};
    struct op_case c;
    struct ah_op op = {.kind = AH_OP_CROSS_ENTROPY,
                       .u.cross_entropy = {.rows = rows,
                                           .vocabulary = vocabulary,
                                           .soft_cap = caps[op_case_below(random, 4)]}};
    op.arg[0] = op.arg[2] = op.arg[4] = op_case_fp32();
    op.arg[1] = op_case_ref(random, vocabulary);
    if (op_case_below(random, 2))
        op.arg[3] = op_case_fp32();
    if (op.arg[1].dtype == AH_FP32 && op_case_below(random, 2)) {
        op.arg[5] = op_case_ref(random, vocabulary);
        op.arg[5].dtype = AH_BF16;
    }
    op_case_init(&c, &op, random);
    c.width[1] = c.width[5] = vocabulary;
    op_case_fill(&c, 1, -spread, spread / 2);
    op_case_fill_words(&c, 2, vocabulary);
    op_case_fill_bytes(&c, 3);
    op_case_set(&c, 4, 0, 0, 1 / (1 + check_uniform(random) * 1000));
    op_case_run(&c);
    for (uint64_t r = 0; r < rows; r++)
        check_row(&c, r, c.operands[3].role && !c.memory[c.op.arg[3].offset_bytes + r]);
    op_case_release(&c);
}

TEST(cross_entropy, loss_and_gradient)
{
    uint64_t random = check_seed(62);
    for (int round = 0; round < (int)check_scaled(ROUNDS); round++)
        run_round(&random, op_case_size(&random, 20), op_case_size(&random, round % 10 ? 300 : 5000),
                  round % 3 ? 5 : 60);
    run_round(&random, 2, 50257, 8);
    run_round(&random, 2, VOCABULARY, 8);
}

/* Copies the rows of `within` to `beside`. The gradient of `beside` is a separate operand. */
static void copy_inputs(struct op_case *beside, const struct op_case *within)
{
    const struct ah_op_cross_entropy *sizes = &within->op.u.cross_entropy;
    const size_t whole[] = {2, 3, 4};
    for (size_t i = 0; i < sizeof whole / sizeof *whole; i++)
        memcpy(beside->memory + beside->op.arg[whole[i]].offset_bytes,
               within->memory + within->op.arg[whole[i]].offset_bytes, within->operands[whole[i]].bytes);
    for (uint64_t r = 0; r < sizes->rows; r++)
        for (uint64_t i = 0; i < sizes->vocabulary; i++)
            op_case_set(beside, 1, r, i, op_case_input(within, 1, r, i));
}

/* Checks that a gradient in a separate operand has the bits of a gradient that replaces the logits, rounded once. */
static void check_beside(uint64_t *random, uint64_t rows, uint64_t vocabulary, float cap)
{
    struct op_case within, beside;
    struct ah_op op = {.kind = AH_OP_CROSS_ENTROPY,
                       .u.cross_entropy = {.rows = rows, .vocabulary = vocabulary, .soft_cap = cap}};
    for (size_t i = 0; i < 5; i++)
        op.arg[i] = op_case_fp32();
    op_case_init(&within, &op, random);
    op.arg[1].row_stride = vocabulary + op_case_below(random, 3);
    op.arg[5] = op_case_ref(random, vocabulary);
    op.arg[5].dtype = AH_BF16;
    op_case_init(&beside, &op, random);
    within.width[1] = beside.width[1] = beside.width[5] = vocabulary;
    op_case_fill(&within, 1, -20, 20);
    op_case_fill_words(&within, 2, vocabulary);
    op_case_fill_bytes(&within, 3);
    op_case_set(&within, 4, 0, 0, 1.0 / 3);
    copy_inputs(&beside, &within);
    op_case_run(&within);
    op_case_run(&beside);
    for (uint64_t r = 0; r < rows; r++) {
        assert_true(op_case_result(&beside, 0, 0, r) == op_case_result(&within, 0, 0, r));
        for (uint64_t i = 0; i < vocabulary; i++) {
            const float whole = (float)op_case_result(&within, 1, r, i);
            assert_true(op_case_result(&beside, 5, r, i) ==
                        (double)ah_bf16_to_fp32(ah_bf16_from_fp32(whole)));
        }
    }
    op_case_release(&within);
    op_case_release(&beside);
}

TEST(cross_entropy, a_gradient_beside_the_logits_has_the_same_bits)
{
    uint64_t random = check_seed(65);
    for (int round = 0; round < (int)check_scaled(40); round++)
        check_beside(&random, op_case_size(&random, 9), op_case_size(&random, round % 10 ? 300 : 9000),
                     round % 3 ? 0 : 15);
    check_beside(&random, 1, 70000, 0); /* more than fits a block of a GPU */
}

/* The loss is 0 if the target's logit is far above the others, and NaN if any logit is NaN. */
TEST(cross_entropy, edges)
{
    enum { N = 40 };
    uint64_t random = check_seed(63);
    struct op_case c;
    struct ah_op op = {.kind = AH_OP_CROSS_ENTROPY, .u.cross_entropy = {.rows = 3, .vocabulary = N}};
    for (size_t i = 0; i < 5; i++)
        if (i != 3)
            op.arg[i] = op_case_fp32();
    op_case_init(&c, &op, &random);
    c.width[1] = N;
    op_case_fill_words(&c, 2, 1);
    op_case_set(&c, 4, 0, 0, 1);
    for (uint64_t i = 0; i < N; i++) {
        op_case_set(&c, 1, 0, i, i == 0 ? 1000 : -1000);
        op_case_set(&c, 1, 1, i, i == 1 ? 1000 : -1000);
        op_case_set(&c, 1, 2, i, i == 17 ? (double)NAN : 1);
    }
    c.op.u.cross_entropy.rows = 2; /* leaves out the row with NaN, whose bits may differ */
    op_case_run(&c);
    op_case_check(&c, 0, 0, 0, 0, 0);
    op_case_check(&c, 0, 0, 1, 2000, 0);
    op_case_check(&c, 1, 0, 0, 0, 0);
    op_case_check(&c, 1, 1, 0, -1, 0);
    op_case_check(&c, 1, 1, 1, 1, 0);
    c.op.u.cross_entropy.rows = 3;
    op_case_run_way(&c, 0, c.results);
    assert_true(isnan(op_case_result(&c, 0, 0, 2)) && !isnan(op_case_result(&c, 0, 0, 1)));
    op_case_release(&c);
}

/* Impossible tokens change nothing, even if whole blocks of tokens are impossible. */
TEST(cross_entropy, logits_of_minus_infinity)
{
    enum { N = 5000, POSSIBLE = 4100 };
    uint64_t random = check_seed(64);
    struct op_case c;
    struct ah_op op = {.kind = AH_OP_CROSS_ENTROPY, .u.cross_entropy = {.rows = 1, .vocabulary = N}};
    for (size_t i = 0; i < 5; i++)
        if (i != 3)
            op.arg[i] = op_case_fp32();
    op_case_init(&c, &op, &random);
    for (uint64_t i = 0; i < N; i++)
        op_case_set(&c, 1, 0, i, i < POSSIBLE ? -(double)INFINITY : 2);
    const uint32_t target = N - 1;
    memcpy(c.memory + c.op.arg[2].offset_bytes, &target, sizeof target);
    op_case_set(&c, 4, 0, 0, 1);
    op_case_run(&c);
    op_case_check(&c, 0, 0, 0, log(N - POSSIBLE), 1e-6 * log(N - POSSIBLE));
    for (uint64_t i = 0; i < N; i++)
        op_case_check(&c, 1, 0, i, (i < POSSIBLE ? 0 : 1.0 / (N - POSSIBLE)) - (i == target ? 1 : 0), 1e-7);
    op_case_release(&c);
}

/* Logits far beyond the cap have no gradient, and impossible ones are as likely as the cap lets them be. */
TEST(cross_entropy, far_beyond_the_cap)
{
    enum { N = 70 };
    static const double far[] = {1000, -1000, 3e38, -3e38, (double)INFINITY, -(double)INFINITY};
    uint64_t random = check_seed(66);
    struct op_case c;
    struct ah_op op = {.kind = AH_OP_CROSS_ENTROPY,
                       .u.cross_entropy = {.rows = 3, .vocabulary = N, .soft_cap = 2}};
    for (size_t i = 0; i < 5; i++)
        if (i != 3)
            op.arg[i] = op_case_fp32();
    op_case_init(&c, &op, &random);
    c.width[1] = N;
    op_case_fill_words(&c, 2, 1);
    op_case_set(&c, 4, 0, 0, 1);
    for (uint64_t r = 0; r < 3; r++)
        for (uint64_t i = 0; i < N; i++)
            op_case_set(&c, 1, r, i, r == 2 ? (double)NAN : far[i ? 2 * r + 1 : 2 * r]);
    c.op.u.cross_entropy.rows = 2; /* without the row of NaN, whose bits may differ */
    op_case_run(&c);
    for (uint64_t r = 0; r < 2; r++) {
        op_case_check(&c, 0, 0, r, log(1 + (N - 1) * exp(-4)), 1e-6);
        for (uint64_t i = 0; i < N; i++)
            op_case_check(&c, 1, r, i, 0, 1e-30);
    }
    c.op.u.cross_entropy.rows = 3;
    op_case_run_way(&c, 0, c.results);
    assert_true(isnan(op_case_result(&c, 0, 0, 2)));
    op_case_set(&c, 1, 1, 0, far[4]);
    op_case_set(&c, 1, 1, 1, far[5]);
    c.op.u.cross_entropy.rows = 2;
    op_case_run(&c);
    op_case_check(&c, 0, 0, 1, log(1 + (N - 1) * exp(-4)), 1e-6);
    op_case_release(&c);
}
