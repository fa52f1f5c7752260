/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests sums on a GPU. The canonical reduction and clipping must give the host's bits. Column sums are close to double.
 */
#include "runtime/device/host/clip.h"
#include "runtime/device/host/reduce.h"
#include "tests/device/device_math/op_case.h"

#include <math.h>
#include <string.h>

enum { ROUNDS = 150, COUNT = 60000, MANY = 2100 * AH_REDUCE_LEAF + 77 };

/* Kinds of terms. ALIKE terms are so similar that most sums need no rounding. WIDE ones spread over many binades, by
 * element or by leaf. ZERO and SPARSE have all or many terms 0, and INFINITE has some infinite terms. */
enum range { ALIKE, WIDE, WIDE_LEAVES, ZERO, SPARSE, INFINITE, RANGES };

static double random_term(enum range range, uint64_t i, double leaf_scale, uint64_t *random)
{
    const double x = 2 * check_uniform(random) - 1;
    if (range == WIDE)
        return ldexp(x, (int)op_case_below(random, 120) - 60);
    if (range == WIDE_LEAVES)
        return x * leaf_scale;
    if (range == ZERO)
        return op_case_below(random, 2) ? 0 : -0.0;
    if (range == SPARSE)
        return i / AH_REDUCE_LEAF % 3 ? 0 : x;
    if (range == INFINITE && op_case_below(random, 5000) == 0)
        return (double)INFINITY;
    return x;
}

static void fill_terms(struct op_case *c, enum range range)
{
    const uint64_t count = c->op.u.sum.count;
    double leaf_scale = 1;
    for (uint64_t i = 0; i < count; i++) {
        if (i % AH_REDUCE_LEAF == 0)
            leaf_scale = ldexp(1, (int)op_case_below(c->random, 60) - 30);
        op_case_set(c, 1, 0, i, random_term(range, i, leaf_scale, c->random));
    }
}

static double expected_sum(const struct op_case *c)
{
    const struct ah_reduce_input input = {
        .data = c->memory + c->op.arg[1].offset_bytes,
        .dtype = (enum ah_dtype)c->op.arg[1].dtype,
        .kind = c->op.kind == AH_OP_SUM ? AH_REDUCE_SUM : AH_REDUCE_SUM_SQUARES,
        .count = c->op.u.sum.count,
    };
    double before;
    memcpy(&before, c->memory + c->op.arg[0].offset_bytes, sizeof before);
    return ah_reduce_run(AH_ISA_PORTABLE, NULL, &input, c->op.u.sum.accumulate ? before : 0);
}

static void check_sum(struct op_case *c)
{
    double sum;
    const double expected = expected_sum(c);
    op_case_run(c);
    memcpy(&sum, c->results + c->op.arg[0].offset_bytes, sizeof sum);
    if (memcmp(&sum, &expected, sizeof sum) != 0 && !(isnan(sum) && isnan(expected)))
        fail_msg("%s of %llu elements: %a, on the host %a", ah_op_name(c->op.kind),
                 (unsigned long long)c->op.u.sum.count, sum, expected);
}

static struct ah_op random_sum(uint64_t *random, uint64_t count)
{
    struct ah_op op = {.kind = op_case_below(random, 2) ? AH_OP_SUM : AH_OP_SUM_SQUARES};
    op.u.sum = (struct ah_op_sum){.count = count, .accumulate = op_case_below(random, 2)};
    op.arg[0] = op_case_fp32();
    op.arg[1] = op_case_dense(random);
    return op;
}

static void run_sum(uint64_t *random, uint64_t count, enum range range)
{
    struct op_case c;
    const struct ah_op op = random_sum(random, count);
    const double before = op_case_below(random, 4) ? 1000 * check_uniform(random) : 0;
    op_case_init(&c, &op, random);
    fill_terms(&c, range);
    memcpy(c.memory + c.op.arg[0].offset_bytes, &before, sizeof before);
    check_sum(&c);
    op_case_release(&c);
}

TEST(sums, have_the_bits_of_the_host)
{
    uint64_t random = check_seed(71);
    for (int round = 0; round < (int)check_scaled(ROUNDS); round++) {
        uint64_t count = op_case_size(&random, COUNT);
        if (op_case_below(&random, 3) == 0)
            count = AH_REDUCE_LEAF * (1 + op_case_below(&random, 12)) + op_case_below(&random, 3) - 1;
        run_sum(&random, count, (enum range)(round % RANGES));
    }
}

/* The number of leaf sums is more than one step adds. Sums are exact if the leaves are alike, inexact otherwise. */
TEST(sums, of_many_leaves)
{
    uint64_t random = check_seed(72);
    for (int range = ALIKE; range <= WIDE_LEAVES; range++) {
        struct op_case c;
        struct ah_op op = random_sum(&random, MANY);
        op.arg[1].dtype = AH_BF16;
        op.u.sum.accumulate = false;
        op_case_init(&c, &op, &random);
        fill_terms(&c, (enum range)range);
        check_sum(&c);
        op_case_release(&c);
    }
}

TEST(sums, of_columns)
{
    uint64_t random = check_seed(73);
    for (int round = 0; round < (int)check_scaled(ROUNDS); round++) {
        struct op_case c;
        struct ah_op op = {.kind = AH_OP_COLUMN_SUM};
        const uint64_t width = op_case_size(&random, op_case_below(&random, 10) ? 200 : 20000);
        const uint64_t rows = op_case_size(&random, width < 200 ? 700 : 30);
        op.u.rows = (struct ah_op_rows){.rows = rows, .width = width};
        op.arg[0] = op_case_dense(&random);
        op.arg[1] = op_case_ref(&random, width);
        op_case_init(&c, &op, &random);
        c.width[1] = width;
        op_case_fill(&c, 1, -2, 3);
        op_case_run(&c);
        for (uint64_t column = 0; column < width; column++) {
            double sum = 0, size = 0;
            for (uint64_t row = 0; row < rows; row++) {
                sum += op_case_input(&c, 1, row, column);
                size += fabs(op_case_input(&c, 1, row, column));
            }
            op_case_check(&c, 0, 0, column, sum, 1e-6 * size);
        }
        op_case_release(&c);
    }
}

static void run_clip(uint64_t *random, uint64_t n, double limit, double odd)
{
    struct op_case c;
    struct ah_op op = {.kind = AH_OP_CLIP, .u.clip = {.sums = n, .limit = limit}};
    struct ah_adamw_scalars expected = {.grad_scale = 7, .grad_norm = 8, .step = 9}, scalars;
    double sums[40];
    op.arg[0] = op.arg[1] = op_case_fp32();
    op_case_init(&c, &op, random);
    for (uint64_t i = 0; i < n; i++)
        sums[i] = ldexp(check_uniform(random), (int)op_case_below(random, 20) - 10);
    sums[n / 2] = odd >= 0 ? sums[n / 2] : odd;
    sums[n - 1] = isinf(odd) ? odd : sums[n - 1];
    memcpy(c.memory + c.op.arg[0].offset_bytes, &expected, sizeof expected);
    memcpy(c.memory + c.op.arg[1].offset_bytes, sums, n * sizeof *sums);
    op_case_run(&c);
    memcpy(&scalars, c.results + c.op.arg[0].offset_bytes, sizeof scalars);
    if (ah_clip_run(&expected, sums, &op.u.clip, NULL))
        expected.grad_norm = odd > 0 ? INFINITY : NAN; /* a GPU returns it, but the host refuses it */
    assert_true(scalars.grad_norm == expected.grad_norm ||
                (isnan(scalars.grad_norm) && isnan(expected.grad_norm)));
    assert_true(scalars.grad_scale == expected.grad_scale);
    assert_int_equal(scalars.step, expected.step);
    op_case_release(&c);
}

TEST(sums, clip)
{
    uint64_t random = check_seed(74);
    for (int round = 0; round < (int)check_scaled(ROUNDS); round++)
        run_clip(&random, 1 + op_case_below(&random, 40), round % 5 ? 3 * check_uniform(&random) : 0, 0);
    run_clip(&random, 10, 1, (double)INFINITY);
    run_clip(&random, 10, 1, -1e9);
    run_clip(&random, 10, 0, (double)INFINITY);
}
