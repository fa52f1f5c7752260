/* SPDX-License-Identifier: Apache-2.0
 *
 * Compares every op, run through the CPU device, with loops in double precision written out here. Operands are in
 * poisoned arenas at random offsets. Bytes outside an op's outputs must not change.
 */
#include "base/bf16.h"
#include "runtime/device/adamw_scalars.h"
#include "runtime/device/device.h"
#include "tests/support/driver.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ROUNDS = 60, ARENA = 4 << 20, SLOT = 512 << 10 };

struct fixture {
    struct ah_device *device;
    unsigned char *before[AH_ARENA_KINDS]; /* copies of the arenas */
    uint64_t random;
};

static unsigned char *arena_of(const struct fixture *f, uint32_t arena)
{
    return ah_device_pointer(f->device, (struct ah_ref){arena, AH_FP32, 0, 0});
}

static int setup(void **state)
{
    struct ah_error err = {0};
    struct fixture *f = calloc(1, sizeof *f);
    struct ah_device_options options = {.compute_threads = 2, .host_threads = 2};
    const uint64_t arena_bytes[AH_ARENA_KINDS] = {0, ARENA, ARENA, ARENA};
    CHECK_OK(ah_device_open(&f->device, check_readable_driver(), &options, &err), err);
    CHECK_OK(ah_device_reserve(f->device, arena_bytes, &err), err);
    for (uint32_t arena = 1; arena < AH_ARENA_KINDS; arena++) {
        f->before[arena] = malloc(ARENA);
        memset(arena_of(f, arena), 0xa5, ARENA);
    }
    f->random = check_seed(77);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    ah_device_close(f->device);
    for (uint32_t arena = 1; arena < AH_ARENA_KINDS; arena++)
        free(f->before[arena]);
    free(f);
    return 0;
}

static uint64_t below(struct fixture *f, uint64_t limit)
{
    return check_random(&f->random) % limit;
}

/* Returns a random size. It is often at the edge of a vector or piece. */
static uint64_t random_count(struct fixture *f, uint64_t most)
{
    static const uint64_t edges[] = {1,  2,  15,   16,   17,   31,    32,    33,   63,
                                     64, 65, 4095, 4096, 4097, 65535, 65536, 65537};
    uint64_t count = below(f, 2) ? edges[below(f, sizeof edges / sizeof edges[0])] : 1 + below(f, most);
    return count < most ? count : most;
}

/* Places operand `slot` at a random offset in its own part of the arena. */
static struct ah_ref place(struct fixture *f, uint32_t arena, enum ah_dtype dtype, uint64_t slot)
{
    return (struct ah_ref){arena, dtype, slot * SLOT + below(f, 40) * 8, 0};
}

static double get(const struct fixture *f, struct ah_ref ref, uint64_t i)
{
    const unsigned char *data = arena_of(f, ref.arena) + ref.offset_bytes;
    float value;
    uint16_t half;
    if (ref.dtype == AH_BF16) {
        memcpy(&half, data + 2 * i, 2);
        return (double)ah_bf16_to_fp32(half);
    }
    memcpy(&value, data + 4 * i, 4);
    return (double)value;
}

static void put(const struct fixture *f, struct ah_ref ref, uint64_t i, double value)
{
    unsigned char *data = arena_of(f, ref.arena) + ref.offset_bytes;
    float single = (float)value;
    uint16_t half = ah_bf16_from_fp32(single);
    if (ref.dtype == AH_BF16)
        memcpy(data + 2 * i, &half, 2);
    else
        memcpy(data + 4 * i, &single, 4);
}

static void put_random(struct fixture *f, struct ah_ref ref, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        put(f, ref, i, 2 * check_uniform(&f->random) - 1);
}

static double rounded(enum ah_dtype dtype, double value)
{
    return dtype == AH_BF16 ? (double)ah_bf16_to_fp32(ah_bf16_from_fp32((float)value)) : (double)(float)value;
}

static void keep_arenas(struct fixture *f)
{
    for (uint32_t arena = 1; arena < AH_ARENA_KINDS; arena++)
        memcpy(f->before[arena], arena_of(f, arena), ARENA);
}

/* Runs the op and checks that only its outputs changed. */
static void run(struct fixture *f, uint32_t lane, const struct ah_op *op)
{
    struct ah_error err = {0};
    struct ah_operand operands[AH_OP_ARGS];
    uint64_t ticket;
    CHECK_OK(ah_op_operands(op, operands, &err), err);
    keep_arenas(f);
    CHECK_OK(ah_device_submit(f->device, &(struct ah_submission){.lane = lane, .op = op}, 1, &ticket, &err),
             err);
    CHECK_OK(ah_device_wait(f->device, lane, ticket, &err), err);
    for (size_t i = 0; i < AH_OP_ARGS; i++)
        for (uint64_t row = 0; operands[i].role >= AH_ROLE_OUT && row < operands[i].rows; row++) {
            uint64_t at = op->arg[i].offset_bytes + row * operands[i].stride_bytes;
            memcpy(f->before[op->arg[i].arena] + at, arena_of(f, op->arg[i].arena) + at,
                   operands[i].row_bytes);
        }
    for (uint32_t arena = 1; arena < AH_ARENA_KINDS; arena++)
        if (memcmp(f->before[arena], arena_of(f, arena), ARENA) != 0)
            fail_msg("op '%s' wrote outside its outputs", ah_op_name(op->kind));
}

static uint32_t arena_for(uint32_t lane)
{
    return lane == AH_LANE_COMPUTE ? AH_ARENA_DEVICE : AH_ARENA_PAGEABLE;
}

static uint32_t random_lane(struct fixture *f)
{
    return below(f, 2) ? AH_LANE_COMPUTE : AH_LANE_HOST;
}

static enum ah_dtype random_dtype(struct fixture *f)
{
    return (enum ah_dtype)below(f, 2);
}

TEST_IN(ops, copy, setup, teardown)
{
    static const uint32_t ways[][3] = {{AH_LANE_H2D, AH_ARENA_DEVICE, AH_ARENA_PINNED},
                                       {AH_LANE_D2H, AH_ARENA_PINNED, AH_ARENA_DEVICE},
                                       {AH_LANE_HOST, AH_ARENA_PINNED, AH_ARENA_PAGEABLE},
                                       {AH_LANE_COMPUTE, AH_ARENA_DEVICE, AH_ARENA_DEVICE},
                                       {AH_LANE_HOST, AH_ARENA_PAGEABLE, AH_ARENA_PINNED}};
    struct fixture *f = *state;
    for (int round = 0; round < (int)check_scaled(ROUNDS); round++) {
        const uint32_t *way = ways[round % 5];
        struct ah_op op = {.kind = AH_OP_COPY};
        op.u.copy.bytes = round % 3 ? random_count(f, 400000) : (1 << 20) + below(f, 1000);
        op.arg[0] = (struct ah_ref){way[1], AH_FP32, below(f, 1000), 0};
        op.arg[1] = (struct ah_ref){way[2], AH_FP32, ARENA / 2 + below(f, 1000), 0};
        unsigned char *src = arena_of(f, way[2]) + op.arg[1].offset_bytes;
        for (uint64_t i = 0; i < op.u.copy.bytes; i++)
            src[i] = (unsigned char)check_random(&f->random);
        run(f, way[0], &op);
        assert_memory_equal(arena_of(f, way[1]) + op.arg[0].offset_bytes, src, op.u.copy.bytes);
    }
}

/* Returns the index of element i of a matrix with `count` elements a row. */
static uint64_t element(struct ah_ref ref, uint64_t count, uint64_t i)
{
    return i / count * (ref.row_stride ? ref.row_stride : count) + i % count;
}

/* Sets random numbers of rows, and strides for some operands, so that each operand stays within its slot. */
static void random_rows(struct fixture *f, struct ah_op *op, size_t operands)
{
    uint64_t most = 100000;
    if (below(f, 2)) {
        op->u.elements.rows = 1 + below(f, 40);
        most = 100000 / op->u.elements.rows;
    }
    op->u.elements.count = random_count(f, most);
    for (size_t i = 0; i < operands && op->u.elements.rows; i++)
        if (below(f, 3))
            op->arg[i].row_stride = op->u.elements.count + below(f, 60);
}

TEST_IN(ops, fill, setup, teardown)
{
    struct fixture *f = *state;
    for (int round = 0; round < (int)check_scaled(ROUNDS); round++) {
        uint32_t lane = random_lane(f);
        struct ah_op op = {.kind = AH_OP_FILL, .arg = {place(f, arena_for(lane), random_dtype(f), 0)}};
        op.u.elements.value = 1.25f;
        random_rows(f, &op, 1);
        const uint64_t count = op.u.elements.count, rows = op.u.elements.rows ? op.u.elements.rows : 1;
        run(f, lane, &op);
        for (uint64_t i = 0; i < count * rows; i++)
            assert_true(get(f, op.arg[0], element(op.arg[0], count, i)) == 1.25);
    }
}

TEST_IN(ops, cast_add_accumulate, setup, teardown)
{
    static const enum ah_op_kind kinds[] = {AH_OP_CAST, AH_OP_ADD, AH_OP_ACCUMULATE};
    struct fixture *f = *state;
    for (int round = 0; round < 3 * ROUNDS; round++) {
        uint32_t lane = random_lane(f);
        struct ah_op op = {.kind = kinds[round % 3]};
        const size_t operands = op.kind == AH_OP_ADD ? 3 : 2;
        for (uint64_t i = 0; i < operands; i++)
            op.arg[i] = place(f, arena_for(lane), random_dtype(f), i);
        random_rows(f, &op, operands);
        const uint64_t count = op.u.elements.count;
        const uint64_t n = count * (op.u.elements.rows ? op.u.elements.rows : 1);
        if (op.kind == AH_OP_ACCUMULATE)
            op.arg[0].dtype = AH_FP32;
        if (op.kind == AH_OP_ADD && op.arg[1].dtype == op.arg[0].dtype && below(f, 2)) {
            op.arg[1].offset_bytes = op.arg[0].offset_bytes;
            op.arg[1].row_stride = op.arg[0].row_stride;
        }
        for (size_t i = 0; i < operands; i++)
            put_random(f, op.arg[i], element(op.arg[i], count, n - 1) + 1);
        double *expected = malloc(n * sizeof *expected);
        for (uint64_t i = 0; i < n; i++) {
            const struct ah_ref *other = &op.arg[op.kind == AH_OP_ADD ? 2 : 0];
            double sum = get(f, op.arg[1], element(op.arg[1], count, i));
            if (op.kind != AH_OP_CAST)
                sum = (double)(float)(sum + get(f, *other, element(*other, count, i)));
            expected[i] = rounded((enum ah_dtype)op.arg[0].dtype, sum);
        }
        run(f, lane, &op);
        for (uint64_t i = 0; i < n; i++)
            assert_true(get(f, op.arg[0], element(op.arg[0], count, i)) == expected[i]);
        free(expected);
    }
}

TEST_IN(ops, column_sum, setup, teardown)
{
    struct fixture *f = *state;
    for (int round = 0; round < (int)check_scaled(ROUNDS); round++) {
        uint32_t lane = random_lane(f);
        struct ah_op op = {.kind = AH_OP_COLUMN_SUM};
        uint64_t width = op.u.rows.width = 1 + below(f, 700);
        uint64_t rows = op.u.rows.rows = 1 + below(f, 150);
        op.arg[0] = place(f, arena_for(lane), random_dtype(f), 0);
        op.arg[1] = place(f, arena_for(lane), random_dtype(f), 1);
        uint64_t stride = width + (below(f, 2) ? below(f, 50) : 0);
        op.arg[1].row_stride = stride == width ? 0 : stride;
        put_random(f, op.arg[1], rows * stride);
        run(f, lane, &op);
        for (uint64_t c = 0; c < width; c++) {
            double sum = 0, size = 0;
            for (uint64_t r = 0; r < rows; r++) {
                sum += get(f, op.arg[1], r * stride + c);
                size += fabs(get(f, op.arg[1], r * stride + c));
            }
            double tolerance = size * 1e-6 + (op.arg[0].dtype == AH_BF16 ? fabs(sum) / 256 : 0);
            assert_true(fabs(get(f, op.arg[0], c) - sum) <= tolerance);
        }
    }
}

TEST_IN(ops, sum_squares, setup, teardown)
{
    struct fixture *f = *state;
    for (int round = 0; round < (int)check_scaled(ROUNDS); round++) {
        uint32_t lane = random_lane(f);
        struct ah_op op = {.kind = AH_OP_SUM_SQUARES};
        uint64_t n = op.u.sum.count = random_count(f, 120000);
        op.arg[0] = place(f, arena_for(lane), AH_FP32, 0);
        op.arg[1] = place(f, arena_for(lane), random_dtype(f), 1);
        put_random(f, op.arg[1], n);
        run(f, lane, &op);
        double sum = 0, got;
        for (uint64_t i = 0; i < n; i++)
            sum += get(f, op.arg[1], i) * get(f, op.arg[1], i);
        memcpy(&got, arena_of(f, op.arg[0].arena) + op.arg[0].offset_bytes, sizeof got);
        check_near(got / sum, 1, 1e-6);
    }
}

TEST_IN(ops, clip, setup, teardown)
{
    struct fixture *f = *state;
    struct ah_adamw_scalars scalars = {.grad_scale = 1};
    const double sums[] = {9, 16};
    struct ah_op op = {.kind = AH_OP_CLIP,
                       .arg = {{AH_ARENA_PINNED, AH_FP32, 512, 0}, {AH_ARENA_PINNED, AH_FP32, 1024, 0}},
                       .u.clip = {2, 2.5}};
    memcpy(arena_of(f, AH_ARENA_PINNED) + 512, &scalars, sizeof scalars);
    memcpy(arena_of(f, AH_ARENA_PINNED) + 1024, sums, sizeof sums);
    run(f, AH_LANE_HOST, &op);
    memcpy(&scalars, arena_of(f, AH_ARENA_PINNED) + 512, sizeof scalars);
    check_near((double)scalars.grad_scale, 0.5, 1e-6);
    assert_true(scalars.grad_norm == 5.0f);
}

/* Checks one step from fp32 states. This test is about operands and splits; other tests check the kernels in depth. */
static void check_adamw(struct fixture *f, const struct ah_op *op, const struct ah_adamw_settings *s,
                        const double *before, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        double g = before[3 * n + i];
        double m = s->beta1 * before[n + i] + (1 - s->beta1) * g;
        double v = s->beta2 * before[2 * n + i] + (1 - s->beta2) * g * g;
        double decay = op->u.adamw.decay ? 1 - s->lr * s->weight_decay : 1;
        double bias1 = 1 - pow(s->beta1, s->step), bias2 = 1 - pow(s->beta2, s->step);
        double p = before[i] * decay - s->lr / bias1 * m / (sqrt(v / bias2) + s->epsilon);
        assert_true(fabs(get(f, op->arg[0], i) - p) < 1e-6);
        if (op->arg[1].dtype == AH_FP32)
            assert_true(fabs(get(f, op->arg[1], i) - m) < 1e-6 && fabs(get(f, op->arg[2], i) - v) < 1e-6);
        if (op->arg[4].arena)
            assert_true(get(f, op->arg[4], i) ==
                        rounded((enum ah_dtype)op->arg[4].dtype, get(f, op->arg[0], i)));
    }
}

TEST_IN(ops, adamw, setup, teardown)
{
    static const struct ah_adamw_settings settings = {
        .lr = 1e-2, .beta1 = 0.9, .beta2 = 0.99, .epsilon = 1e-8, .weight_decay = 0.1, .step = 2, .seed = 3};
    struct fixture *f = *state;
    struct ah_adamw_scalars scalars;
    ah_adamw_scalars_init(&scalars, &settings);
    for (int round = 0; round < (int)check_scaled(ROUNDS); round++) {
        uint32_t lane = random_lane(f);
        uint32_t arena = arena_for(lane);
        enum ah_dtype state_dtype = random_dtype(f);
        struct ah_op op = {.kind = AH_OP_ADAMW};
        uint64_t n = op.u.adamw.count = random_count(f, 70000);
        op.u.adamw.decay = round % 2;
        op.u.adamw.first_element = below(f, 1000);
        for (uint64_t i = 0; i < 6; i++)
            op.arg[i] = place(f, arena,
                              i == 1 || i == 2 ? state_dtype
                              : i == 0         ? AH_FP32
                                               : random_dtype(f),
                              i);
        op.arg[5].dtype = AH_FP32;
        memcpy(arena_of(f, arena) + op.arg[5].offset_bytes, &scalars, sizeof scalars);
        double *before = malloc(4 * n * sizeof *before);
        for (uint64_t i = 0; i < 4; i++) {
            put_random(f, op.arg[i], n);
            for (uint64_t j = 0; j < n; j++) {
                if (i == 2)
                    put(f, op.arg[i], j, fabs(get(f, op.arg[i], j)));
                before[i * n + j] = get(f, op.arg[i], j);
            }
        }
        if (round % 5 == 0)
            op.arg[4].arena = AH_ARENA_NONE;
        run(f, lane, &op);
        check_adamw(f, &op, &settings, before, n);
        free(before);
    }
}

static int count_call(void *context, struct ah_error *err)
{
    (void)err;
    *(int *)context += 1;
    return AH_OK;
}

TEST_IN(ops, call, setup, teardown)
{
    struct fixture *f = *state;
    int calls = 0;
    struct ah_op op = {.kind = AH_OP_CALL, .u.call = {count_call, &calls}};
    run(f, AH_LANE_HOST, &op);
    run(f, AH_LANE_HOST, &op);
    assert_int_equal(calls, 2);
}
