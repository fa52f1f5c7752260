/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests ops that the host runs, with pools of every size: sums in tiles, rows with gaps, and which ops are supported.
 * tests/device compares the values of every op with double precision.
 */
#include "runtime/device/host/host.h"

#include "tests/support/check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ARENA = 1 << 20, POOLS = 4 };

struct fixture {
    struct ah_host hosts[POOLS]; /* one host without a pool, and hosts with pools of 1 to 3 participants */
    unsigned char *arena;        /* the pageable arena */
    uint64_t random;
};

static int setup(void **state)
{
    struct ah_error err = {0};
    struct fixture *f = calloc(1, sizeof *f);
    f->arena = aligned_alloc(64, ARENA);
    f->random = check_seed(91);
    for (unsigned i = 0; i < POOLS; i++) {
        f->hosts[i].isa = ah_isa_detect();
        f->hosts[i].arenas[AH_ARENA_PAGEABLE] = f->arena;
        if (i)
            CHECK_OK(ah_pool_new(&f->hosts[i].pool, &(struct ah_pool_options){.threads = i}, &err), err);
    }
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    for (unsigned i = 0; i < POOLS; i++)
        ah_pool_free(f->hosts[i].pool);
    free(f->arena);
    free(f);
    return 0;
}

static uint64_t below(struct fixture *f, uint64_t limit)
{
    return check_random(&f->random) % limit;
}

static void run(struct fixture *f, const struct ah_op *op)
{
    static const uint64_t arena_bytes[AH_ARENA_KINDS] = {[AH_ARENA_PAGEABLE] = ARENA};
    struct ah_error err = {0};
    CHECK_OK(ah_op_check(op, arena_bytes, &err), err);
    CHECK_OK(ah_host_run(&f->hosts[below(f, POOLS)], op, &err), err);
}

static double sum(struct fixture *f, struct ah_op op, uint64_t first, uint64_t count)
{
    double total;
    op.arg[1].offset_bytes += first * 4;
    op.u.sum.first_element = first;
    op.u.sum.count = count;
    op.u.sum.accumulate = first != 0;
    run(f, &op);
    memcpy(&total, ah_host_operand(&f->hosts[0], &op, 0), sizeof total);
    return total;
}

/* A sum may be cut into tiles at any of its leaves. The tiles give the sum of the whole, bit for bit. */
TEST_IN(host, tiles_of_a_sum_change_nothing, setup, teardown)
{
    enum { COUNT = 50 * AH_OP_SUM_LEAF + 77, DATA = 64 };
    struct fixture *f = *state;
    for (uint64_t i = 0; i < COUNT; i++) {
        float value = (float)ldexp(check_uniform(&f->random) - 0.5, (int)below(f, 40));
        memcpy(f->arena + DATA + i * 4, &value, 4);
    }
    for (enum ah_op_kind kind = AH_OP_SUM; kind <= AH_OP_SUM_SQUARES; kind++) {
        const struct ah_op op = {
            .kind = kind, .arg = {{AH_ARENA_PAGEABLE, AH_FP32, 0, 0}, {AH_ARENA_PAGEABLE, AH_FP32, DATA, 0}}};
        const double whole = sum(f, op, 0, COUNT);
        for (int round = 0; round < 20; round++) {
            double tiled = 0;
            for (uint64_t first = 0, count; first < COUNT; first += count) {
                count = (1 + below(f, 9)) * AH_OP_SUM_LEAF;
                count = count < COUNT - first ? count : COUNT - first;
                tiled = sum(f, op, first, count);
            }
            assert_memory_equal(&tiled, &whole, sizeof whole);
        }
    }
}

/* Adds columns of one matrix to columns of another. All other elements of both matrices stay unchanged. */
TEST_IN(host, rows_apart_leave_what_is_between, setup, teardown)
{
    enum { ROWS = 300, WIDE = 401, WIDTH = 37, FROM = ARENA / 2 };
    struct fixture *f = *state;
    static float before[ARENA / 4];
    float *values = (float *)(void *)f->arena;
    for (int round = 0; round < 20; round++) {
        for (uint64_t i = 0; i < ARENA / 4; i++)
            values[i] = (float)below(f, 1000);
        memcpy(before, values, sizeof before);
        uint64_t to = below(f, WIDE - WIDTH), from = below(f, WIDE - WIDTH);
        struct ah_op op = {.kind = AH_OP_ACCUMULATE, .u.elements = {.count = WIDTH, .rows = ROWS}};
        op.arg[0] = (struct ah_ref){AH_ARENA_PAGEABLE, AH_FP32, 4 * to, WIDE};
        op.arg[1] = (struct ah_ref){AH_ARENA_PAGEABLE, AH_FP32, FROM + 4 * from, WIDE};
        run(f, &op);
        for (uint64_t row = 0; row < ROWS; row++)
            for (uint64_t c = 0; c < WIDTH; c++)
                before[row * WIDE + to + c] += before[FROM / 4 + row * WIDE + from + c];
        assert_memory_equal(values, before, sizeof before);
    }
}

static int fail_call(void *context, struct ah_error *err)
{
    return ah_error_set(err, AH_E_NUMERIC, "%s", (const char *)context);
}

TEST_IN(host, does_what_it_says, setup, teardown)
{
    struct fixture *f = *state;
    struct ah_error err = {0};
    char text[] = "loss is not finite";
    const struct ah_op call = {.kind = AH_OP_CALL, .u.call = {fail_call, text}};
    CHECK_FAILS(ah_host_run(&f->hosts[0], &call, &err), err, AH_E_NUMERIC, "loss is not finite");
    assert_true(ah_host_does(AH_OP_COPY) && ah_host_does(AH_OP_ADAMW) && ah_host_does(AH_OP_CALL));
    assert_false(ah_host_does(AH_OP_MATMUL));
    struct ah_op op = {.kind = AH_OP_ADAMW, .arg = {{AH_ARENA_PAGEABLE, AH_FP32, 64, 0}}};
    assert_ptr_equal(ah_host_operand(&f->hosts[0], &op, 0), f->arena + 64);
    assert_null(ah_host_operand(&f->hosts[0], &op, 4));
}
