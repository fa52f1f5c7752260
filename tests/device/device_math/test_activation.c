/* SPDX-License-Identifier: Apache-2.0
 *
 * Compares activations with their definitions in double. Central differences check the gradients of these definitions.
 */
#include "tests/device/device_math/op_case.h"

#include <math.h>
#include <stdlib.h>

enum { ROUNDS = 400, WIDTH = 300, WIDE = 5000, MANY = 66000, KINDS = AH_ACTIVATION_GELU_TANH_GATED + 1 };

/* The relative error limit. GPUs' special function units have powers of two within 2^-22, reciprocals within 2^-23. */
static const double NEAR = 8e-7;

struct element {
    uint32_t kind;
    double x, up;
};

static double gelu_tanh(double x)
{
    return x / 2 * (1 + tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}

static double forward(void *context)
{
    const struct element *e = context;
    const double x = e->x;
    switch (e->kind) {
    case AH_ACTIVATION_GELU_TANH:
        return gelu_tanh(x);
    case AH_ACTIVATION_GELU:
        return x / 2 * erfc(-x / sqrt(2));
    case AH_ACTIVATION_GELU_TANH_GATED:
        return gelu_tanh(x) * e->up;
    default:
        return x / (1 + exp(-x)) * e->up;
    }
}

static double slope_tanh(double x)
{
    const double k = sqrt(2 / M_PI), t = tanh(k * (x + 0.044715 * x * x * x));
    return (1 + t) / 2 + x / 2 * (1 - t * t) * k * (1 + 3 * 0.044715 * x * x);
}

/* d y / d x */
static double slope(const struct element *e)
{
    const double x = e->x, s = 1 / (1 + exp(-x));
    switch (e->kind) {
    case AH_ACTIVATION_GELU_TANH:
        return slope_tanh(x);
    case AH_ACTIVATION_GELU_TANH_GATED:
        return slope_tanh(x) * e->up;
    case AH_ACTIVATION_GELU:
        return erfc(-x / sqrt(2)) / 2 + x * exp(-x * x / 2) / sqrt(2 * M_PI);
    default:
        return s * (1 + x * (1 - s)) * e->up;
    }
}

TEST(activation, reference_has_the_gradients_of_differences)
{
    uint64_t random = check_seed(41);
    for (int round = 0; round < 3000; round++) {
        struct element e = {(uint32_t)round % KINDS, 16 * check_uniform(&random) - 8,
                            4 * check_uniform(&random) - 2};
        check_near(op_case_slope(forward, &e, &e.x, 1e-5), slope(&e), 1e-8);
    }
}

/* Returns a case of random size. If `many`, it has more rows than a GPU's grid is high. */
static struct ah_op random_activation(uint64_t *random, enum ah_op_kind kind, bool many)
{
    struct ah_op op = {.kind = kind};
    op.u.rows = (struct ah_op_rows){.rows = many ? MANY : op_case_size(random, 60),
                                    .width = many                        ? 1
                                             : op_case_below(random, 20) ? op_case_size(random, WIDTH)
                                                                         : op_case_size(random, WIDE),
                                    .kind = (uint32_t)op_case_below(random, KINDS)};
    return op;
}

TEST(activation, forward)
{
    uint64_t random = check_seed(42);
    for (int round = 0; round < (int)check_scaled(ROUNDS); round++) {
        struct op_case c;
        struct ah_op op = random_activation(&random, AH_OP_ACTIVATION, round == 7);
        const bool gated = ah_op_is_gated(op.u.rows.kind);
        for (size_t i = 0; i < (gated ? 3 : 2); i++)
            op.arg[i] = op_case_ref(&random, op.u.rows.width);
        op_case_init(&c, &op, &random);
        c.width[0] = c.width[1] = c.width[2] = op.u.rows.width;
        op_case_fill(&c, 1, -9, 9);
        op_case_fill(&c, 2, -2, 2);
        op_case_run(&c);
        for (uint64_t row = 0; row < op.u.rows.rows; row++)
            for (uint64_t i = 0; i < op.u.rows.width; i++) {
                struct element e = {op.u.rows.kind, op_case_input(&c, 1, row, i),
                                    gated ? op_case_input(&c, 2, row, i) : 0};
                const double y = forward(&e);
                op_case_check(&c, 0, row, i, y, 1e-8 + NEAR * fabs(y));
            }
        op_case_release(&c);
    }
}

static void check_backward(const struct op_case *c)
{
    const struct ah_op_rows *rows = &c->op.u.rows;
    const bool gated = ah_op_is_gated(rows->kind);
    for (uint64_t row = 0; row < rows->rows; row++)
        for (uint64_t i = 0; i < rows->width; i++) {
            const double dy = op_case_input(c, 2, row, i);
            struct element e = {rows->kind, op_case_input(c, 3, row, i),
                                gated ? op_case_input(c, 4, row, i) : 1};
            op_case_check(c, 0, row, i, dy * slope(&e), NEAR * fabs(dy * e.up));
            e.up = 1;
            if (gated)
                op_case_check(c, 1, row, i, dy * forward(&e), NEAR * (1e-2 + fabs(dy * forward(&e))));
        }
}

TEST(activation, backward)
{
    uint64_t random = check_seed(43);
    for (int round = 0; round < (int)check_scaled(ROUNDS); round++) {
        struct op_case c;
        struct ah_op op = random_activation(&random, AH_OP_ACTIVATION_BACKWARD, round == 7);
        const bool gated = ah_op_is_gated(op.u.rows.kind);
        for (size_t i = 0; i < (gated ? 5 : 4); i++)
            if (i != 1 || gated)
                op.arg[i] = op_case_ref(&random, op.u.rows.width);
        op_case_init(&c, &op, &random);
        for (size_t i = 0; i < 5; i++)
            c.width[i] = op.u.rows.width;
        op_case_fill(&c, 2, -1, 1);
        op_case_fill(&c, 3, -9, 9);
        op_case_fill(&c, 4, -2, 2);
        op_case_run(&c);
        check_backward(&c);
        op_case_release(&c);
    }
}

/* If dx replaces dy, its values are those of a dx stored elsewhere. */
TEST(activation, dx_may_be_dy)
{
    uint64_t random = check_seed(44);
    for (int round = 0; round < 60; round++) {
        struct op_case apart;
        struct ah_op op = random_activation(&random, AH_OP_ACTIVATION_BACKWARD, false);
        const bool gated = ah_op_is_gated(op.u.rows.kind);
        for (size_t i = 0; i < (gated ? 5 : 4); i++)
            if (i != 1 || gated)
                op.arg[i] = op_case_ref(&random, op.u.rows.width);
        op.arg[0] = op.arg[2];
        op_case_init(&apart, &op, &random);
        op_case_fill(&apart, 2, -1, 1);
        op_case_fill(&apart, 3, -9, 9);
        op_case_fill(&apart, 4, -2, 2);
        for (size_t i = 0; i < 5; i++)
            apart.width[i] = op.u.rows.width;
        op_case_run(&apart);
        struct op_case same = apart;
        same.op.arg[0] = same.op.arg[2];
        same.results = malloc(apart.bytes);
        op_case_run(&same);
        for (uint64_t row = 0; row < op.u.rows.rows; row++)
            for (uint64_t i = 0; i < op.u.rows.width; i++)
                assert_true(op_case_result(&same, 0, row, i) == op_case_result(&apart, 0, row, i));
        free(same.results);
        op_case_release(&apart);
    }
}

/* No intermediate result overflows for inputs far from zero. */
TEST(activation, far_from_zero)
{
    static const double far[] = {40, 100, 1e4, 1e20, 3e38};
    uint64_t random = check_seed(45);
    struct op_case c, back;
    for (uint32_t kind = 0; kind < KINDS; kind++) {
        const bool gated = ah_op_is_gated(kind);
        struct ah_op op = {.kind = AH_OP_ACTIVATION, .u.rows = {.rows = 1, .width = 10, .kind = kind}};
        op.arg[0] = op.arg[1] = op_case_fp32();
        op.arg[2] = gated ? op_case_fp32() : op.arg[2];
        op_case_init(&c, &op, &random);
        op.kind = AH_OP_ACTIVATION_BACKWARD;
        op.arg[2] = op.arg[3] = op_case_fp32();
        op.arg[1] = op.arg[4] = gated ? op_case_fp32() : op.arg[4];
        op_case_init(&back, &op, &random);
        for (uint64_t i = 0; i < 10; i++) {
            const double x = (i % 2 ? -1 : 1) * far[i / 2];
            op_case_set(&c, 1, 0, i, x);
            op_case_set(&back, 3, 0, i, x);
            op_case_set(&back, 2, 0, i, 1);
            if (gated) {
                op_case_set(&c, 2, 0, i, 1);
                op_case_set(&back, 4, 0, i, 1);
            }
        }
        op_case_run(&c);
        op_case_run(&back);
        for (uint64_t i = 0; i < 10; i++) {
            op_case_check(&c, 0, 0, i, i % 2 ? 0 : op_case_input(&c, 1, 0, i), 1e-15);
            op_case_check(&back, 0, 0, i, i % 2 ? 0 : 1, 1e-15);
        }
        op_case_release(&c);
        op_case_release(&back);
    }
}
