/* SPDX-License-Identifier: Apache-2.0
 *
 * Compares norms with straight loops in double. Central differences check the gradients of these loops.
 */
#include "tests/device/device_math/op_case.h"

#include <math.h>
#include <stdlib.h>

enum { WIDTH = 300, WIDTH_MAX = 40000, VECTORS = 400, ROUNDS = 300 };

struct vector {
    uint64_t width;
    bool layer;
    double epsilon, offset;
    double x[WIDTH_MAX], gain[WIDTH_MAX], bias[WIDTH_MAX], dy[WIDTH_MAX];
    double mean, scale; /* set by forward() */
    double y[WIDTH_MAX];
    double dx[WIDTH_MAX], dgain[WIDTH_MAX];
};

static void forward(struct vector *v)
{
    double sum = 0, squares = 0;
    for (uint64_t i = 0; i < v->width; i++)
        sum += v->x[i];
    v->mean = v->layer ? sum / (double)v->width : 0;
    for (uint64_t i = 0; i < v->width; i++)
        squares += (v->x[i] - v->mean) * (v->x[i] - v->mean);
    v->scale = 1 / sqrt(squares / (double)v->width + v->epsilon);
    for (uint64_t i = 0; i < v->width; i++)
        v->y[i] = (v->x[i] - v->mean) * v->scale * (v->gain[i] + v->offset) + v->bias[i];
}

static void backward(struct vector *v)
{
    double g = 0, gn = 0;
    for (uint64_t i = 0; i < v->width; i++) {
        const double n = (v->x[i] - v->mean) * v->scale;
        g += v->layer ? v->dy[i] * (v->gain[i] + v->offset) : 0;
        gn += v->dy[i] * (v->gain[i] + v->offset) * n;
        v->dgain[i] = v->dy[i] * n;
    }
    for (uint64_t i = 0; i < v->width; i++) {
        const double n = (v->x[i] - v->mean) * v->scale;
        v->dx[i] = v->scale * (v->dy[i] * (v->gain[i] + v->offset) - (g + n * gn) / (double)v->width);
    }
}

static double loss(void *context)
{
    struct vector *v = context;
    double sum = 0;
    forward(v);
    for (uint64_t i = 0; i < v->width; i++)
        sum += v->dy[i] * v->y[i];
    return sum;
}

TEST(norm, reference_has_the_gradients_of_differences)
{
    static struct vector v;
    uint64_t random = check_seed(21);
    for (int round = 0; round < 40; round++) {
        v.width = op_case_size(&random, 40);
        v.layer = round % 2;
        v.epsilon = 1e-2;
        v.offset = round % 3 ? 1 : 0;
        for (uint64_t i = 0; i < v.width; i++) {
            v.x[i] = 4 * check_uniform(&random) - 2;
            v.gain[i] = check_uniform(&random);
            v.dy[i] = check_uniform(&random) - 0.5;
        }
        forward(&v);
        backward(&v);
        for (uint64_t i = 0; i < v.width; i++) {
            check_near(op_case_slope(loss, &v, &v.x[i], 1e-5), v.dx[i], 1e-7);
            check_near(op_case_slope(loss, &v, &v.gain[i], 1e-5), v.dgain[i], 1e-7);
        }
    }
}

/* Returns sizes of vectors that are each computed by several warps or a whole block of a GPU. With more than 8192
 * elements, a vector does not fit the block's registers. */
static struct ah_op_norm wide_norm(uint64_t *random, int round)
{
    static const uint64_t widths[] = {8200, 1032, 4096, 1000, 2048, 5000, 8192, 20000, 33000};
    const uint64_t width = widths[round % 9];
    return (struct ah_op_norm){.rows = 1 + op_case_below(random, width > 2048 ? 4 : 70),
                               .width = width,
                               .kind = (uint32_t)op_case_below(random, 2),
                               .epsilon = 1e-5f,
                               .gain_offset = (float)op_case_below(random, 2)};
}

/* Returns the sizes of a random norm. Every tenth round is wide. */
static struct ah_op_norm random_norm(uint64_t *random, int round)
{
    if (round % 10 == 0)
        return wide_norm(random, round / 10);
    struct ah_op_norm norm = {.width = op_case_size(random, WIDTH),
                              .heads = (uint32_t)op_case_below(random, 5),
                              .kind = (uint32_t)op_case_below(random, 2),
                              .epsilon = 1e-5f,
                              .gain_offset = (float)op_case_below(random, 2)};
    norm.rows = op_case_size(random, VECTORS / (norm.heads ? norm.heads : 1));
    return norm;
}

static uint64_t heads_of(const struct op_case *c)
{
    return c->op.u.norm.heads ? c->op.u.norm.heads : 1;
}

/* Reads x of head `head` of `row`, and gain and bias, from their operands. A `bias` of AH_OP_ARGS means none. */
static void read_vector(const struct op_case *c, struct vector *v, uint64_t row, uint64_t head, size_t x,
                        size_t gain, size_t bias)
{
    v->width = c->op.u.norm.width;
    v->layer = c->op.u.norm.kind == AH_NORM_LAYER;
    v->epsilon = (double)c->op.u.norm.epsilon;
    v->offset = (double)c->op.u.norm.gain_offset;
    for (uint64_t i = 0; i < v->width; i++) {
        v->x[i] = op_case_input(c, x, row, head * v->width + i);
        v->gain[i] = op_case_input(c, gain, 0, i);
        v->bias[i] = bias == AH_OP_ARGS ? 0 : op_case_input(c, bias, 0, i);
    }
}

static void check_forward(const struct op_case *c)
{
    static struct vector v;
    const uint64_t heads = heads_of(c), vectors = c->op.u.norm.rows * heads;
    for (uint64_t k = 0; k < vectors; k++) {
        read_vector(c, &v, k / heads, k % heads, 1, 2, c->operands[3].role ? 3 : AH_OP_ARGS);
        forward(&v);
        for (uint64_t i = 0; i < v.width; i++)
            op_case_check(c, 0, k / heads, k % heads * v.width + i, v.y[i],
                          3e-7 * ((1 + v.offset) * (1 + v.scale) + fabs(v.y[i])));
        if (v.layer)
            op_case_check(c, 4, 0, k, v.mean, 3e-7);
        op_case_check(c, 4, 0, (v.layer ? vectors : 0) + k, v.scale, 1e-6 * v.scale);
    }
}

TEST(norm, forward)
{
    uint64_t random = check_seed(22);
    for (int round = 0; round < (int)check_scaled(ROUNDS); round++) {
        struct op_case c;
        struct ah_op op = {.kind = AH_OP_NORM, .u.norm = random_norm(&random, round)};
        const uint64_t row = op.u.norm.width * (op.u.norm.heads ? op.u.norm.heads : 1);
        op.arg[0] = op_case_ref(&random, row);
        op.arg[1] = op_case_ref(&random, row);
        op.arg[2] = op_case_dense(&random);
        if (op.u.norm.kind == AH_NORM_LAYER && op_case_below(&random, 4))
            op.arg[3] = op_case_dense(&random);
        op.arg[4] = op_case_fp32();
        op_case_init(&c, &op, &random);
        c.width[0] = c.width[1] = row;
        for (size_t i = 1; i < 4; i++)
            op_case_fill(&c, i, -2, 2);
        op_case_run(&c);
        check_forward(&c);
        op_case_release(&c);
    }
}

/* Without an offset nothing is added to a gain, not even +0, which would turn -0 into +0. */
TEST(norm, without_an_offset_a_gain_of_minus_zero_keeps_its_sign)
{
    enum { N = 24 };
    uint64_t random = check_seed(24);
    struct op_case c;
    struct ah_op op = {.kind = AH_OP_NORM, .u.norm = {.rows = 1, .width = N, .epsilon = 1e-5f}};
    op.arg[0] = op.arg[1] = op.arg[2] = op.arg[4] = op_case_fp32();
    op_case_init(&c, &op, &random);
    op_case_fill(&c, 1, 1, 2);
    for (uint64_t i = 0; i < N; i++)
        op_case_set(&c, 2, 0, i, -0.0);
    op_case_run(&c);
    for (uint64_t i = 0; i < N; i++)
        assert_true(signbit(op_case_result(&c, 0, 0, i)));
    op_case_release(&c);
}

/* Sets the statistics as the forward op would have written them. */
static void set_stats(struct op_case *c)
{
    static struct vector v;
    const uint64_t heads = heads_of(c), vectors = c->op.u.norm.rows * heads;
    for (uint64_t k = 0; k < vectors; k++) {
        read_vector(c, &v, k / heads, k % heads, 4, 5, AH_OP_ARGS);
        forward(&v);
        if (v.layer)
            op_case_set(c, 6, 0, k, v.mean);
        op_case_set(c, 6, 0, (v.layer ? vectors : 0) + k, v.scale);
    }
}

static void check_backward(const struct op_case *c)
{
    static struct vector v;
    static double dgain[WIDTH_MAX], dbias[WIDTH_MAX], size[WIDTH_MAX];
    const uint64_t heads = heads_of(c), width = c->op.u.norm.width;
    for (uint64_t i = 0; i < width; i++)
        dgain[i] = dbias[i] = size[i] = 0;
    for (uint64_t k = 0; k < c->op.u.norm.rows * heads; k++) {
        const uint64_t row = k / heads, column = k % heads * width;
        read_vector(c, &v, row, k % heads, 4, 5, AH_OP_ARGS);
        for (uint64_t i = 0; i < width; i++)
            v.dy[i] = op_case_input(c, 3, row, column + i);
        forward(&v);
        backward(&v);
        for (uint64_t i = 0; i < width; i++) {
            dgain[i] += v.dgain[i];
            dbias[i] += v.dy[i];
            size[i] += fabs(v.dy[i]) * (1 + v.scale);
            if (c->operands[0].role)
                op_case_check(c, 0, row, column + i, v.dx[i],
                              1e-6 * v.scale * (1 + v.scale) * (1 + v.offset));
        }
    }
    for (uint64_t i = 0; i < width; i++) {
        if (c->operands[1].role)
            op_case_check(c, 1, 0, i, dgain[i], 5e-7 * size[i]);
        if (c->operands[2].role)
            op_case_check(c, 2, 0, i, dbias[i], 5e-7 * size[i]);
    }
}

TEST(norm, backward)
{
    uint64_t random = check_seed(23);
    for (int round = 0; round < (int)check_scaled(ROUNDS); round++) {
        struct op_case c;
        struct ah_op op = {.kind = AH_OP_NORM_BACKWARD, .u.norm = random_norm(&random, round)};
        const bool layer = op.u.norm.kind == AH_NORM_LAYER;
        const uint64_t row = op.u.norm.width * (op.u.norm.heads ? op.u.norm.heads : 1);
        const uint64_t wanted = 1 + op_case_below(&random, layer ? 7 : 3); /* bits: dx, dgain, dbias */
        if (wanted & 1)
            op.arg[0] = op_case_ref(&random, row);
        if (wanted & 2)
            op.arg[1] = op_case_dense(&random);
        if (wanted & 4)
            op.arg[2] = op_case_dense(&random);
        op.arg[3] = op_case_ref(&random, row);
        op.arg[4] = op_case_ref(&random, row);
        op.arg[5] = op_case_dense(&random);
        op.arg[6] = op_case_fp32();
        if (wanted & 6)
            op.arg[7] = op_case_fp32();
        op_case_init(&c, &op, &random);
        c.width[0] = c.width[3] = c.width[4] = row;
        for (size_t i = 3; i < 6; i++)
            op_case_fill(&c, i, -2, 2);
        set_stats(&c);
        op_case_run(&c);
        check_backward(&c);
        op_case_release(&c);
    }
}
