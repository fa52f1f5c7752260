/* SPDX-License-Identifier: Apache-2.0
 *
 * Compares attention kernels, run on the double of CUDA, with straight loops in double precision. Tests every shape in
 * the tables of the tensor cores, and what only the plain kernels do. Operands are in one arena filled with NaN, and
 * shared memory begins as NaN. So the test notices reads and writes outside an operand.
 */
#include "runtime/device/cuda/kernels/kernels.h"

#include "tests/double/cuda/double.h"
#include "tests/support/check.h"
#include "tests/unit/device_math/attention_checks.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ROUNDS = 60 };
enum { THREADS = 4, PROCESSORS = 4 };

struct fixture {
    uint64_t random;
    cudaStream_t stream;
};

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    f->random = check_seed(9);
    assert_int_equal(cudaStreamCreateWithFlags(&f->stream, cudaStreamNonBlocking), cudaSuccess);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(cudaStreamDestroy(f->stream), cudaSuccess);
    free(f);
    return 0;
}

/* Runs the op and checks that only its outputs changed. */
static void do_op(const struct fixture *f, struct attention_run *run, const struct ah_op *op)
{
    static ah_cuda_kernel_fn *const kernels[] = {
        [AH_OP_ATTENTION] = ah_cuda_attention, [AH_OP_ATTENTION_BACKWARD] = ah_cuda_attention_backward};
    struct ah_cuda_launch launch = {.op = op, .stream = f->stream, .processors = PROCESSORS};
    struct ah_error err = {0};
    const uint64_t arena_bytes[AH_ARENA_KINDS] = {[AH_ARENA_DEVICE] = run->bytes};
    unsigned char *before = malloc(run->bytes);
    CHECK_OK(ah_op_check(op, arena_bytes, &err), err);
    memcpy(before, run->arena, run->bytes);
    for (size_t i = 0; i < AH_OP_ARGS; i++)
        launch.arg[i] = op->arg[i].arena ? run->arena + op->arg[i].offset_bytes : NULL;
    assert_int_equal(kernels[op->kind](&launch), cudaSuccess);
    assert_int_equal(cudaStreamSynchronize(f->stream), cudaSuccess);
    attention_case_check_outside(run, op, before);
    free(before);
}

static void do_both(const struct fixture *f, struct attention_run *run)
{
    do_op(f, run, &run->forward);
    do_op(f, run, &run->backward);
}

static void check_shape(struct fixture *f, const struct attention_shape *shape, enum ah_dtype dtype)
{
    struct attention_data d;
    struct attention_run run;
    attention_case_data(&f->random, &d, shape, dtype);
    attention_case_init(&run, &d, dtype, dtype);
    do_both(f, &run);
    attention_case_check_all(&run, dtype == AH_FP32 ? 2e-6 : 1e-2, dtype == AH_FP32 ? 1e-5 : 2e-2);
    free(run.arena);
    attention_case_release(&d);
}

/* Tests each row of the tables, with few tiles and with many. In some windows, the last query that sees a tile of keys
 * is the first one of its own tile of queries. */
TEST_IN(attention, equals_straight_loops, setup, teardown)
{
    static const struct attention_shape shapes[] = {
        {1, 1, 1, 1, 8, 0, DOCS_NONE, false, 0, 0},     {2, 70, 2, 1, 32, 0, DOCS_ASCENDING, true, 0, 0},
        {1, 150, 4, 2, 32, 2, DOCS_NONE, true, 0, 0},   {1, 140, 3, 1, 64, 0, DOCS_NONE, true, 0, 0},
        {1, 300, 1, 1, 64, 66, DOCS_NONE, false, 0, 0}, {1, 130, 2, 2, 96, 0, DOCS_ASCENDING, true, 0, 0},
        {1, 137, 2, 1, 128, 0, DOCS_NONE, true, 0, 0},  {1, 200, 1, 1, 128, 33, DOCS_ANY, false, 0, 0},
        {1, 70, 2, 1, 256, 0, DOCS_NONE, true, 0, 0},   {1, 97, 1, 1, 200, 20, DOCS_ASCENDING, true, 0, 0},
        {1, 100, 2, 2, 80, 0, DOCS_NONE, true, 0, 0},   {1, 300, 1, 1, 24, 130, DOCS_ASCENDING, true, 0, 0},
    };
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        check_shape(*state, &shapes[i], AH_BF16);
}

/* Tests operands that tensor cores cannot take: fp32, heads of no multiple of 16 bytes, wide heads. */
TEST_IN(attention, equals_straight_loops_without_tensor_cores, setup, teardown)
{
    static const struct attention_shape shapes[] = {
        {1, 150, 4, 2, 64, 0, DOCS_NONE, true, 0, 0}, {2, 70, 2, 1, 33, 20, DOCS_ASCENDING, true, 0, 0},
        {1, 40, 2, 1, 300, 0, DOCS_NONE, true, 0, 0}, {1, 65, 1, 1, 1, 0, DOCS_NONE, false, 0, 0},
        {1, 130, 2, 2, 12, 5, DOCS_ANY, true, 0, 0},
    };
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (enum ah_dtype dtype = AH_FP32; dtype <= AH_BF16; dtype++)
            if (dtype == AH_FP32 || shapes[i].head_dim % 8)
                check_shape(*state, &shapes[i], dtype);
}

TEST_IN(attention, equals_straight_loops_at_random, setup, teardown)
{
    static const uint32_t heads[][2] = {{1, 1}, {4, 4}, {4, 2}, {6, 1}, {3, 1}};
    struct fixture *f = *state;
    for (int i = 0; i < (int)check_scaled(ROUNDS); i++) {
        const uint32_t *pair = heads[check_random(&f->random) % 5];
        const uint32_t windows[] = {0, 0, 1, 5, 64, 1 + (uint32_t)(check_random(&f->random) % 100)};
        const float caps[] = {0, 0, 1, 30};
        const struct attention_shape shape = {
            .batch = 1 + (uint32_t)(check_random(&f->random) % 2),
            .seq = 1 + (uint32_t)(check_random(&f->random) % 180),
            .heads = pair[0],
            .kv_heads = pair[1],
            .head_dim = 8 + (uint32_t)(check_random(&f->random) % 9) * 8,
            .window = windows[check_random(&f->random) % 6],
            .docs = (enum attention_docs)(check_random(&f->random) % 3),
            .packed = check_random(&f->random) % 2,
            .cap = caps[check_random(&f->random) % 4],
        };
        check_shape(f, &shape, i % 4 ? AH_BF16 : AH_FP32);
    }
}

static void run_both(void *fixture, struct attention_run *run)
{
    do_both(fixture, run);
}

static void run_forward(void *fixture, struct attention_run *run)
{
    do_op(fixture, run, &run->forward);
}

TEST_IN(attention, takes_both_types_at_once, setup, teardown)
{
    struct fixture *f = *state;
    attention_check_both_types(&(struct attention_runner){run_both, run_forward, f, &f->random});
}

/* The smallest cap and odd sizes take the plain kernels, in bf16 too. */
TEST_IN(attention, with_a_soft_cap_equals_straight_loops, setup, teardown)
{
    struct fixture *f = *state;
    attention_check_soft_caps(&(struct attention_runner){run_both, run_forward, f, &f->random});
}

/* The size of a head is a multiple of 16 bytes, but its address is not. */
TEST_IN(attention, takes_any_alignment, setup, teardown)
{
    static const struct attention_shape shape = {1, 70, 4, 2, 40, 0, DOCS_NONE, true, 0, 0};
    struct fixture *f = *state;
    struct attention_data d;
    struct attention_run run;
    attention_case_data(&f->random, &d, &shape, AH_BF16);
    attention_case_init(&run, &d, AH_BF16, AH_BF16);
    unsigned char *moved = aligned_alloc(64, run.bytes + 64);
    memcpy(moved + 8, run.arena, run.bytes);
    free(run.arena);
    run.arena = moved + 8;
    do_both(f, &run);
    attention_case_check_all(&run, 1e-2, 2e-2);
    free(moved);
    attention_case_release(&d);
}

TEST_IN(attention, bears_large_scores, setup, teardown)
{
    struct fixture *f = *state;
    attention_check_large_scores(&(struct attention_runner){run_both, run_forward, f, &f->random});
}

/* Scores are so low that 2^-lse is infinite. The sequence ends within a tile. Rows past its end must have no weight. */
TEST_IN(attention, bears_low_scores, setup, teardown)
{
    const struct attention_shape shape = {1, 70, 2, 2, 64, 1, DOCS_NONE, true, 30, 0};
    struct fixture *f = *state;
    for (enum ah_dtype dtype = AH_FP32; dtype <= AH_BF16; dtype++) {
        struct attention_data d;
        struct attention_run run;
        attention_case_data(&f->random, &d, &shape, dtype);
        const uint64_t n = shape.seq * attention_case_width(&shape, K);
        double *const gradients[] = {d.dq, d.dk, d.dv};
        for (size_t i = 0; i < sizeof gradients / sizeof *gradients; i++)
            memset(gradients[i], 0, sizeof(double) * n);
        for (uint64_t i = 0; i < n; i++)
            d.k[i] = -d.q[i];
        attention_exact_solve(&d);
        attention_case_init(&run, &d, dtype, dtype);
        do_both(f, &run);
        attention_case_check_all(&run, dtype == AH_FP32 ? 1e-3 : 1e-2, dtype == AH_FP32 ? 1e-3 : 2e-2);
        free(run.arena);
        attention_case_release(&d);
    }
}

TEST_IN(attention, of_one_key_is_its_value, setup, teardown)
{
    struct fixture *f = *state;
    attention_check_one_key(&(struct attention_runner){run_both, run_forward, f, &f->random});
}

TEST_IN(attention, of_last_queries_has_their_bits, setup, teardown)
{
    struct fixture *f = *state;
    attention_check_past(&(struct attention_runner){run_both, run_forward, f, &f->random});
}

/* A block reads no tile before the first key seen by its queries, and no query after the last one that sees its keys.
 * So NaN in these places changes nothing. Windows have 64 tokens, and so do documents. */
TEST_IN(attention, skips_what_is_not_seen, setup, teardown)
{
    static const struct attention_shape shapes[] = {{1, 320, 1, 1, 32, 64, DOCS_NONE, true, 0, 0},
                                                    {1, 320, 1, 1, 32, 0, DOCS_TILES, true, 0, 0}};
    struct fixture *f = *state;
    for (size_t i = 0; i < 2; i++) {
        struct attention_data d;
        struct attention_run run;
        attention_case_data(&f->random, &d, &shapes[i], AH_BF16);
        attention_case_init(&run, &d, AH_BF16, AH_BF16);
        for (uint64_t j = 0; j < 64 * 32; j++)
            attention_case_put(&run, V, j, NAN);
        for (uint64_t j = 256 * 32; j < 320 * 32; j++)
            attention_case_put(&run, DOUT, j, NAN);
        do_both(f, &run);
        for (uint64_t j = 128 * 32; j < 256 * 32; j++) {
            assert_true(isfinite(attention_case_get(&run, OUT, j)));
            assert_true(isfinite(attention_case_get(&run, DQ, j)));
        }
        for (uint64_t j = 0; j < 128 * 32; j++)
            assert_true(isfinite(attention_case_get(&run, DV, j)));
        free(run.arena);
        attention_case_release(&d);
    }
}

/* Runs both ops with other settings of the double, and compares the result with the arena of `first`. */
static void check_bits(struct fixture *f, const struct attention_run *first,
                       const struct cuda_double *settings)
{
    const struct cuda_double usual = cuda_double_default();
    struct attention_run run;
    attention_case_init(&run, first->data, first->dtype, first->others);
    cuda_double_set(settings);
    do_both(f, &run);
    cuda_double_set(&usual);
    assert_memory_equal(first->arena, run.arena, first->bytes);
    free(run.arena);
}

/* Bits depend neither on the order of threads and blocks, nor on tiles, shorter on GPUs with less shared memory. */
TEST_IN(attention, has_the_same_bits_in_any_order, setup, teardown)
{
    static const struct attention_shape shapes[] = {{2, 150, 4, 2, 64, 0, DOCS_NONE, true, 0, 0},
                                                    {1, 137, 2, 1, 128, 60, DOCS_ASCENDING, true, 0, 0},
                                                    {1, 137, 2, 1, 128, 60, DOCS_ASCENDING, true, 3, 5},
                                                    {1, 70, 1, 1, 200, 0, DOCS_NONE, true, 0, 0}};
    struct fixture *f = *state;
    struct cuda_double any_order = cuda_double_default(), small = any_order;
    any_order.order = check_random(&f->random) | 1;
    any_order.threads = THREADS;
    small.devices[0].shared_bytes = 99 << 10;
    for (size_t i = 0; i < check_scaled(sizeof shapes / sizeof *shapes); i++)
        for (enum ah_dtype dtype = AH_FP32; dtype <= AH_BF16; dtype++) {
            struct attention_data d;
            struct attention_run run;
            attention_case_data(&f->random, &d, &shapes[i], dtype);
            attention_case_init(&run, &d, dtype, dtype);
            do_both(f, &run);
            check_bits(f, &run, &any_order);
            if (dtype == AH_BF16)
                check_bits(f, &run, &small);
            free(run.arena);
            attention_case_release(&d);
        }
}

/* The result for a sequence does not depend on its neighbours, because plans may cut a batch anywhere. */
TEST_IN(attention, has_the_same_bits_for_a_sequence_alone, setup, teardown)
{
    static const struct attention_shape shape = {2, 130, 2, 1, 64, 70, DOCS_ASCENDING, false, 0, 0};
    static const enum attention_place results[] = {OUT, DQ, DK, DV};
    struct fixture *f = *state;
    for (enum ah_dtype dtype = AH_FP32; dtype <= AH_BF16; dtype++) {
        struct attention_data d;
        struct attention_run both, one;
        attention_case_data(&f->random, &d, &shape, dtype);
        attention_case_init(&both, &d, dtype, dtype);
        do_both(f, &both);
        d.shape.batch = 1;
        attention_case_init(&one, &d, dtype, dtype);
        do_both(f, &one);
        for (size_t i = 0; i < sizeof results / sizeof *results; i++)
            for (uint64_t j = 0; j < shape.seq * attention_case_width(&shape, results[i]); j++)
                assert_true(attention_case_get(&both, results[i], j) ==
                            attention_case_get(&one, results[i], j));
        free(both.arena);
        free(one.arena);
        attention_case_release(&d);
    }
}
