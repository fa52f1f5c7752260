/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests every op's gradients as the device computes them. An op computes y from its inputs. c are random numbers, and L
 * = sum c y. Given c as the gradient of y, the op's backward ops must compute, for each input x, a gradient g with
 *
 *     (L(x + h d) - L(x - h d)) / 2h = <g, d>      for random directions d of x
 *
 * where L is summed in double. (Values are checked against definitions in double in tests/device/device_math and
 * tests/unit/device_math/test_attention.c.) A kind of op must be tried here or listed as one without gradient.
 */
#include "runtime/device/device.h"
#include "tests/support/driver.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ARENA_BYTES = 1 << 20, VALUES_MAX = 1 << 12, INPUTS_MAX = 4, BACKWARD_MAX = 4, DIRECTIONS = 4 };

struct input {
    struct ah_ref x, gradient;
    size_t n;
    float values[VALUES_MAX];
};

struct trial {
    struct ah_op forward, backward[BACKWARD_MAX];
    size_t n_backward;
    struct input inputs[INPUTS_MAX];
    size_t n_inputs;
    struct ah_ref y, dy;
    size_t n_y;
    float c[VALUES_MAX];
    uint64_t end_bytes;                                                    /* end of the placed operands */
    void (*fill)(struct trial *t, unsigned char *arena, uint64_t *random); /* (optional) fills the rest */
    double step;                                                           /* h */
};

static uint64_t random_state;
static bool tried[AH_OP_KINDS];

static float uniform(double low, double high)
{
    return (float)(low + (high - low) * check_uniform(&random_state));
}

enum { TO_BE_PLACED = 1 }; /* offset_bytes of an operand that has no place yet */
static const struct ah_ref here = {.arena = AH_ARENA_DEVICE, .dtype = AH_FP32, .offset_bytes = TO_BE_PLACED};

static struct ah_operand extent(const struct ah_op *op, size_t arg)
{
    struct ah_operand operands[AH_OP_ARGS];
    struct ah_error err = {0};
    CHECK_OK(ah_op_operands(op, operands, &err), err);
    return operands[arg];
}

static size_t count(const struct ah_op *op, size_t arg)
{
    return extent(op, arg).bytes / sizeof(float);
}

static void place(struct trial *t, struct ah_op *op)
{
    tried[op->kind] = true;
    for (size_t arg = 0; arg < AH_OP_ARGS; arg++) {
        if (op->arg[arg].arena == AH_ARENA_NONE || op->arg[arg].offset_bytes != TO_BE_PLACED)
            continue;
        op->arg[arg].offset_bytes = t->end_bytes;
        t->end_bytes += (extent(op, arg).bytes + 63) / 64 * 64;
        assert_true(t->end_bytes <= ARENA_BYTES);
    }
}

static struct ah_op *forward(struct trial *t, struct ah_op op)
{
    t->forward = op;
    place(t, &t->forward);
    t->y = t->forward.arg[0];
    t->n_y = count(&t->forward, 0);
    t->dy = here;
    t->dy.offset_bytes = t->end_bytes;
    t->end_bytes += (t->n_y * sizeof(float) + 63) / 64 * 64;
    return &t->forward;
}

static struct ah_op *backward(struct trial *t, struct ah_op op)
{
    struct ah_op *to = &t->backward[t->n_backward++];
    *to = op;
    place(t, to);
    return to;
}

/* Adds input `arg` of the forward op, uniform in [low, high). The backward op writes its gradient to `gradient`. */
static void differentiate(struct trial *t, size_t arg, struct ah_ref gradient, double low, double high)
{
    struct input *input = &t->inputs[t->n_inputs++];
    *input = (struct input){.x = t->forward.arg[arg], .gradient = gradient, .n = count(&t->forward, arg)};
    assert_true(input->n <= VALUES_MAX && t->n_y <= VALUES_MAX);
    for (size_t i = 0; i < input->n; i++)
        input->values[i] = uniform(low, high);
}

static void run(struct ah_device *device, const struct ah_op *op)
{
    struct ah_error err = {0};
    const struct ah_submission submission = {.lane = AH_LANE_COMPUTE, .op = op};
    uint64_t ticket;
    CHECK_OK(ah_device_submit(device, &submission, 1, &ticket, &err), err);
    CHECK_OK(ah_device_wait(device, AH_LANE_COMPUTE, ticket, &err), err);
}

/* Returns L of the forward op at x + h d. x is input `which`. */
static double loss_at(struct ah_device *device, struct trial *t, size_t which, const float *d, double h)
{
    unsigned char *arena = ah_device_pointer(device, (struct ah_ref){.arena = AH_ARENA_DEVICE});
    double sum = 0;
    for (size_t i = 0; i < t->n_inputs; i++)
        for (size_t k = 0; k < t->inputs[i].n; k++) {
            float x = t->inputs[i].values[k];
            if (i == which)
                x = (float)((double)x + h * (double)d[k]);
            memcpy(arena + t->inputs[i].x.offset_bytes + k * sizeof x, &x, sizeof x);
        }
    run(device, &t->forward);
    for (size_t k = 0; k < t->n_y; k++) {
        float y;
        memcpy(&y, arena + t->y.offset_bytes + k * sizeof y, sizeof y);
        sum += (double)t->c[k] * (double)y;
    }
    return sum;
}

static void expect_slope(struct ah_device *device, struct trial *t, size_t which, const float *gradient)
{
    static float d[VALUES_MAX];
    size_t n = t->inputs[which].n;
    double along = 0, size = 0;
    for (size_t k = 0; k < n; k++) {
        d[k] = uniform(-1, 1);
        along += (double)gradient[k] * (double)d[k];
        size += (double)gradient[k] * (double)gradient[k];
    }
    double slope =
        (loss_at(device, t, which, d, t->step) - loss_at(device, t, which, d, -t->step)) / (2 * t->step);
    if (!(fabs(slope - along) <= 3e-4 * sqrt(size)))
        fail_msg("'%s', input %zu: difference %.9g, gradient %.9g (of size %.3g)",
                 ah_op_name(t->forward.kind), which, slope, along, sqrt(size));
    assert_true(size > 0);
}

static void check_trial(struct trial *t)
{
    static float gradients[INPUTS_MAX][VALUES_MAX];
    const uint64_t arena_bytes[AH_ARENA_KINDS] = {[AH_ARENA_DEVICE] = ARENA_BYTES};
    const struct ah_device_options options = {.compute_threads = 2};
    struct ah_device *device;
    struct ah_error err = {0};
    CHECK_OK(ah_device_open(&device, check_readable_driver(), &options, &err), err);
    CHECK_OK(ah_device_prepare(device, &t->forward, 1, &err), err);
    CHECK_OK(ah_device_prepare(device, t->backward, t->n_backward, &err), err);
    CHECK_OK(ah_device_reserve(device, arena_bytes, &err), err);
    unsigned char *arena = ah_device_pointer(device, (struct ah_ref){.arena = AH_ARENA_DEVICE});
    if (t->fill)
        t->fill(t, arena, &random_state);
    else
        for (size_t k = 0; k < t->n_y; k++)
            t->c[k] = uniform(-1, 1);
    memcpy(arena + t->dy.offset_bytes, t->c, t->n_y * sizeof *t->c);
    (void)loss_at(device, t, 0, gradients[0], 0);
    for (size_t i = 0; i < t->n_backward; i++)
        run(device, &t->backward[i]);
    for (size_t i = 0; i < t->n_inputs; i++)
        memcpy(gradients[i], arena + t->inputs[i].gradient.offset_bytes, t->inputs[i].n * sizeof(float));
    for (size_t i = 0; i < t->n_inputs; i++)
        for (int direction = 0; direction < DIRECTIONS; direction++)
            expect_slope(device, t, i, gradients[i]);
    ah_device_close(device);
}

static struct trial *new_evaluator(double step)
{
    static struct trial trial;
    memset(&trial, 0, sizeof trial);
    trial.step = step;
    return &trial;
}

static struct ah_op product(enum ah_matmul_form form, uint64_t m, uint64_t n, uint64_t k, struct ah_ref a,
                            struct ah_ref b)
{
    return (struct ah_op){
        .kind = AH_OP_MATMUL, .arg = {here, a, b}, .u.matmul = {.form = form, .m = m, .n = n, .k = k}};
}

static int seed(void **state)
{
    (void)state;
    random_state = check_seed(12);
    return 0;
}

TEST_IN(gradients, of_products, seed, NULL)
{
    enum { M = 9, N = 14, K = 11 };
    for (int form = AH_MATMUL_NN; form <= AH_MATMUL_TN; form++) {
        struct trial *t = new_evaluator(0.5);
        struct ah_op op = product((enum ah_matmul_form)form, M, N, K, here, here);
        op.arg[3] = here;
        op.u.matmul.epilogue = AH_EPILOGUE_BIAS;
        const struct ah_op *y = forward(t, op);
        const struct ah_ref a = y->arg[1], b = y->arg[2];
        const struct ah_op of_a[] = {[AH_MATMUL_NN] = product(AH_MATMUL_NT, M, K, N, t->dy, b),
                                     [AH_MATMUL_NT] = product(AH_MATMUL_NN, M, K, N, t->dy, b),
                                     [AH_MATMUL_TN] = product(AH_MATMUL_NT, K, M, N, b, t->dy)};
        const struct ah_op of_b[] = {[AH_MATMUL_NN] = product(AH_MATMUL_TN, K, N, M, a, t->dy),
                                     [AH_MATMUL_NT] = product(AH_MATMUL_TN, N, K, M, t->dy, a),
                                     [AH_MATMUL_TN] = product(AH_MATMUL_NN, K, N, M, a, t->dy)};
        differentiate(t, 1, backward(t, of_a[form])->arg[0], -1, 1);
        differentiate(t, 2, backward(t, of_b[form])->arg[0], -1, 1);
        const struct ah_op of_bias = {
            .kind = AH_OP_COLUMN_SUM, .arg = {here, t->dy}, .u.rows = {.rows = M, .width = N}};
        differentiate(t, 3, backward(t, of_bias)->arg[0], -1, 1);
        check_trial(t);
    }
}

/* Each input has the gradient of the sum. */
TEST_IN(gradients, of_sums, seed, NULL)
{
    struct trial *t = new_evaluator(0.5);
    forward(t, (struct ah_op){.kind = AH_OP_ADD, .arg = {here, here, here}, .u.elements = {.count = 100}});
    differentiate(t, 1, t->dy, -1, 1);
    differentiate(t, 2, t->dy, -1, 1);
    check_trial(t);
}

TEST_IN(gradients, of_norms, seed, NULL)
{
    for (int kind = AH_NORM_RMS; kind <= AH_NORM_LAYER; kind++)
        for (uint32_t heads = 1; heads <= 3; heads += 2) {
            struct trial *t = new_evaluator(1e-2);
            const struct ah_op_norm sizes = {.rows = 70,
                                             .width = 12,
                                             .heads = heads,
                                             .kind = (uint32_t)kind,
                                             .epsilon = 1e-5F,
                                             .gain_offset = heads == 3 ? 1 : 0};
            const struct ah_ref bias = kind == AH_NORM_LAYER ? here : (struct ah_ref){0};
            const struct ah_op *y = forward(
                t,
                (struct ah_op){.kind = AH_OP_NORM, .arg = {here, here, here, bias, here}, .u.norm = sizes});
            const struct ah_op *g = backward(
                t, (struct ah_op){.kind = AH_OP_NORM_BACKWARD,
                                  .arg = {here, here, bias, t->dy, y->arg[1], y->arg[2], y->arg[4], here},
                                  .u.norm = sizes});
            differentiate(t, 1, g->arg[0], -2, 2);
            differentiate(t, 2, g->arg[1], 0.5, 1.5);
            if (kind == AH_NORM_LAYER)
                differentiate(t, 3, g->arg[2], -1, 1);
            check_trial(t);
        }
}

static void fill_angles(struct trial *t, unsigned char *arena, uint64_t *random)
{
    const struct ah_op_rope *rope = &t->forward.u.rope;
    for (size_t k = 0; k < t->n_y; k++)
        t->c[k] = uniform(-1, 1);
    for (size_t i = 0; i < rope->table_rows * rope->head_dim / 2; i++) {
        double angle = 6 * check_uniform(random);
        const float pair[2] = {(float)cos(angle), (float)sin(angle)};
        memcpy(arena + t->forward.arg[1].offset_bytes + i * sizeof pair, pair, sizeof pair);
    }
}

/* Backward rotates the gradient in place. */
TEST_IN(gradients, of_rope, seed, NULL)
{
    struct trial *t = new_evaluator(0.5);
    const struct ah_op_rope sizes = {
        .rows = 12, .heads = 3, .head_dim = 10, .rotated = 6, .table_rows = 6, .seq = 6};
    const struct ah_op *y =
        forward(t, (struct ah_op){.kind = AH_OP_ROPE, .arg = {here, here}, .u.rope = sizes});
    struct ah_op back = {.kind = AH_OP_ROPE, .arg = {t->dy, y->arg[1]}, .u.rope = sizes};
    back.u.rope.inverse = true;
    differentiate(t, 0, backward(t, back)->arg[0], -1, 1);
    t->fill = fill_angles;
    check_trial(t);
}

/* Documents begin at the third and the fifth token of each sequence. */
static void fill_documents(struct trial *t, unsigned char *arena, uint64_t *random)
{
    const struct ah_op_attention *sizes = &t->forward.u.attention;
    (void)random;
    for (size_t k = 0; k < t->n_y; k++)
        t->c[k] = uniform(-1, 1);
    for (uint32_t row = 0; row < sizes->batch * sizes->seq; row++) {
        uint32_t at = row % sizes->seq, start = at < 2 ? 0 : at < 4 ? 2 : 4;
        memcpy(arena + t->forward.arg[5].offset_bytes + row * sizeof start, &start, sizeof start);
    }
}

TEST_IN(gradients, of_attention, seed, NULL)
{
    static const struct {
        uint32_t kv_heads, window;
        bool documents;
        float cap;
    } cases[] = {{4, 0, false, 0}, {2, 0, false, 0}, {1, 3, false, 0}, {2, 5, true, 0}, {2, 5, true, 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct trial *t = new_evaluator(2e-2);
        const struct ah_ref docs = cases[i].documents ? here : (struct ah_ref){0};
        const struct ah_op_attention sizes = {.batch = 2,
                                              .seq = 13,
                                              .heads = 4,
                                              .kv_heads = cases[i].kv_heads,
                                              .head_dim = 8,
                                              .window = cases[i].window,
                                              .scale = 0.4F,
                                              .soft_cap = cases[i].cap};
        const struct ah_op *y = forward(t, (struct ah_op){.kind = AH_OP_ATTENTION,
                                                          .arg = {here, here, here, here, here, docs},
                                                          .u.attention = sizes});
        const struct ah_op *g =
            backward(t, (struct ah_op){.kind = AH_OP_ATTENTION_BACKWARD,
                                       .arg = {here, here, here, t->dy, y->arg[2], y->arg[3], y->arg[4],
                                               y->arg[0], y->arg[1], y->arg[5], here},
                                       .u.attention = sizes});
        for (size_t arg = 0; arg < 3; arg++)
            differentiate(t, 2 + arg, g->arg[arg], -1, 1);
        if (cases[i].documents)
            t->fill = fill_documents;
        check_trial(t);
    }
}

TEST_IN(gradients, of_activations, seed, NULL)
{
    for (uint32_t kind = AH_ACTIVATION_GELU_TANH; kind <= AH_ACTIVATION_GELU_TANH_GATED; kind++) {
        struct trial *t = new_evaluator(1e-2);
        const struct ah_op_rows sizes = {.rows = 20, .width = 30, .kind = kind};
        const struct ah_ref up = ah_op_is_gated(kind) ? here : (struct ah_ref){0};
        const struct ah_op *y =
            forward(t, (struct ah_op){.kind = AH_OP_ACTIVATION, .arg = {here, here, up}, .u.rows = sizes});
        const struct ah_op *g = backward(t, (struct ah_op){.kind = AH_OP_ACTIVATION_BACKWARD,
                                                           .arg = {here, up, t->dy, y->arg[1], y->arg[2]},
                                                           .u.rows = sizes});
        differentiate(t, 1, g->arg[0], -3, 3);
        if (ah_op_is_gated(kind))
            differentiate(t, 2, g->arg[1], -2, 2);
        check_trial(t);
    }
}

static void fill_tokens(struct trial *t, unsigned char *arena, uint64_t *random)
{
    const struct ah_op_embed *sizes = &t->forward.u.embed;
    for (size_t k = 0; k < t->n_y; k++)
        t->c[k] = uniform(-1, 1);
    for (uint64_t row = 0; row < sizes->rows; row++) {
        uint32_t token = (uint32_t)(check_random(random) % sizes->vocabulary);
        memcpy(arena + t->forward.arg[3].offset_bytes + row * sizeof token, &token, sizeof token);
    }
}

/* The backward op adds to gradient tables. So they begin as zeros, as arenas do. */
TEST_IN(gradients, of_embeddings, seed, NULL)
{
    for (int scaled = 0; scaled < 2; scaled++) {
        struct trial *t = new_evaluator(0.5);
        const struct ah_op_embed sizes = {
            .rows = 24, .width = 10, .vocabulary = 15, .positions = 9, .seq = 8, .scale = scaled ? 2.5F : 0};
        const struct ah_op *y = forward(
            t, (struct ah_op){.kind = AH_OP_EMBED, .arg = {here, here, here, here}, .u.embed = sizes});
        const struct ah_op *g = backward(t, (struct ah_op){.kind = AH_OP_EMBED_BACKWARD,
                                                           .arg = {here, here, t->dy, y->arg[3], {0}, here},
                                                           .u.embed = sizes});
        differentiate(t, 1, g->arg[0], -1, 1);
        differentiate(t, 2, g->arg[1], -1, 1);
        t->fill = fill_tokens;
        check_trial(t);
    }
}

/* The loss of a row is multiplied by the factor that scales its gradient. A masked row does not count. */
static void fill_targets(struct trial *t, unsigned char *arena, uint64_t *random)
{
    const struct ah_op_cross_entropy *sizes = &t->forward.u.cross_entropy;
    const float scale = 0.05F;
    memcpy(arena + t->forward.arg[4].offset_bytes, &scale, sizeof scale);
    for (uint64_t row = 0; row < sizes->rows; row++) {
        uint32_t target = (uint32_t)(check_random(random) % sizes->vocabulary);
        unsigned char bears = row % 4 != 1;
        memcpy(arena + t->forward.arg[2].offset_bytes + row * sizeof target, &target, sizeof target);
        arena[t->forward.arg[3].offset_bytes + row] = bears;
        t->c[row] = bears ? scale : 0;
    }
}

/* One op is both forward and backward, and replaces the logits by their gradient. */
TEST_IN(gradients, of_the_loss, seed, NULL)
{
    for (int capped = 0; capped < 2; capped++) {
        struct trial *t = new_evaluator(1e-2);
        const struct ah_op_cross_entropy sizes = {
            .rows = 20, .vocabulary = 50, .soft_cap = capped ? 1.5F : 0};
        const struct ah_op *y = forward(t, (struct ah_op){.kind = AH_OP_CROSS_ENTROPY,
                                                          .arg = {here, here, here, here, here},
                                                          .u.cross_entropy = sizes});
        differentiate(t, 1, y->arg[1], -2, 2);
        t->fill = fill_targets;
        check_trial(t);
    }
}

TEST_IN(gradients, are_of_every_op, seed, NULL)
{
    static const enum ah_op_kind without[] = {AH_OP_COPY,   AH_OP_FILL, AH_OP_CAST,        AH_OP_ACCUMULATE,
                                              AH_OP_GATHER, AH_OP_SUM,  AH_OP_SUM_SQUARES, AH_OP_CLIP,
                                              AH_OP_ADAMW,  AH_OP_CALL, AH_OP_SEND,        AH_OP_RECEIVE};
    static const CMUnitTestFunction others[] = {
        test_gradients__of_products,   test_gradients__of_sums,      test_gradients__of_norms,
        test_gradients__of_rope,       test_gradients__of_attention, test_gradients__of_activations,
        test_gradients__of_embeddings, test_gradients__of_the_loss,
    };
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        others[i](state);
    for (size_t i = 0; i < sizeof without / sizeof *without; i++)
        tried[without[i]] = true;
    for (unsigned kind = 0; kind < AH_OP_KINDS; kind++)
        if (!tried[kind])
            fail_msg("no gradient of '%s' was tried", ah_op_name((enum ah_op_kind)kind));
}
