/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests that copy, fill, cast, add and accumulate kernels give the host's bits, for every dtype, row stride and
 * alignment, and touch no other memory. NaNs from additions may have the GPU's own bits.
 */
#include "base/bf16.h"
#include "runtime/device/cuda/kernels/kernels.h"
#include "runtime/device/host/host.h"
#include "tests/double/cuda/double.h"
#include "tests/support/check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ARENA_BYTES = 1 << 19, PROCESSORS = 3, CASES = 200, BORDER = 256 };

static const struct {
    enum ah_op_kind kind;
    size_t operands;
    ah_cuda_kernel_fn *kernel;
} kinds[] = {{AH_OP_COPY, 2, ah_cuda_copy},
             {AH_OP_FILL, 1, ah_cuda_fill},
             {AH_OP_CAST, 2, ah_cuda_cast},
             {AH_OP_ADD, 3, ah_cuda_add},
             {AH_OP_ACCUMULATE, 2, ah_cuda_accumulate}};

struct machine {
    unsigned char *arena; /* on the GPU */
    unsigned char *expected;
    unsigned char *got;
    cudaStream_t stream;
};

static uint64_t below(uint64_t *random, uint64_t limit)
{
    *random = *random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (*random >> 33) % limit;
}

static int set_up(void **state)
{
    struct machine *m = calloc(1, sizeof *m);
    assert_non_null(m);
    assert_int_equal(cudaMalloc((void **)&m->arena, ARENA_BYTES), cudaSuccess);
    assert_int_equal(cudaStreamCreateWithFlags(&m->stream, cudaStreamNonBlocking), cudaSuccess);
    m->expected = aligned_alloc(64, ARENA_BYTES);
    m->got = aligned_alloc(64, ARENA_BYTES);
    assert_true(m->expected && m->got);
    *state = m;
    return 0;
}

static int tear_down(void **state)
{
    struct machine *m = *state;
    assert_int_equal(cudaStreamDestroy(m->stream), cudaSuccess);
    assert_int_equal(cudaFree(m->arena), cudaSuccess);
    free(m->expected);
    free(m->got);
    free(m);
    return 0;
}

/* Writes random bits, including NaN, infinities and denormals. For additions, `finite` excludes NaN and infinities. */
static void scatter(struct machine *m, uint64_t *random, bool finite)
{
    for (size_t i = 0; i < ARENA_BYTES; i += 4) {
        uint32_t word = (uint32_t)below(random, UINT64_C(1) << 31) << 1 ^ (uint32_t)below(random, 4);
        if (finite) /* both halves are made finite, for bf16 */
            word &= 0xbfffbfffu;
        memcpy(m->expected + i, &word, 4);
    }
    assert_int_equal(cudaMemcpy(m->arena, m->expected, ARENA_BYTES, cudaMemcpyHostToDevice), cudaSuccess);
}

static uint64_t size_of(uint64_t *random)
{
    static const uint64_t limits[] = {1, 9, 40, 300, 3000};
    return 1 + below(random, limits[below(random, sizeof limits / sizeof limits[0])]);
}

/* Returns an op whose operands follow each other, some at multiples of 16 bytes, some with gaps between rows. */
static struct ah_op random_op(uint64_t *random, size_t chosen, size_t operands)
{
    struct ah_op op = {.kind = kinds[chosen].kind};
    uint64_t place = BORDER;
    if (op.kind == AH_OP_COPY) {
        op.u.copy.bytes = size_of(random) * size_of(random) % 40000 + 1;
    } else {
        op.u.elements.count = size_of(random);
        op.u.elements.rows = below(random, 3) ? 1 + below(random, 7) : 0;
        op.u.elements.value = (float)below(random, 1000) / 7.0f;
    }
    bool even = below(random, 2), gaps = below(random, 2);
    for (size_t i = 0; i < operands; i++) {
        struct ah_ref *ref = &op.arg[i];
        ref->arena = AH_ARENA_DEVICE;
        bool fp32 = op.kind == AH_OP_ACCUMULATE && i == 0;
        ref->dtype = op.kind == AH_OP_COPY || fp32 || below(random, 2) ? AH_FP32 : AH_BF16;
        ref->offset_bytes = place + (even                    ? 0
                                     : op.kind == AH_OP_COPY ? below(random, 16)
                                                             : 4 * below(random, 4));
        if (op.kind != AH_OP_COPY && gaps)
            ref->row_stride = (op.u.elements.count + 15) / 16 * 16 + (even ? 16 : 1) * below(random, 3);
        place = ref->offset_bytes + 24000 * 4 + BORDER;
        place = place / 64 * 64;
    }
    if (op.kind == AH_OP_ADD && below(random, 3) == 0) /* the result replaces an operand */
        op.arg[0] = op.arg[1 + below(random, 2)];
    return op;
}

static void run_both(struct machine *m, const struct ah_op *op, ah_cuda_kernel_fn *kernel)
{
    struct ah_cuda_launch launch = {.op = op, .stream = m->stream, .processors = PROCESSORS};
    struct ah_host host = {.isa = ah_isa_detect(), .arenas = {[AH_ARENA_DEVICE] = m->expected}};
    struct ah_error err = {0};
    for (size_t i = 0; i < AH_OP_ARGS; i++)
        launch.arg[i] = op->arg[i].arena ? m->arena + op->arg[i].offset_bytes : NULL;
    assert_int_equal(kernel(&launch), cudaSuccess);
    assert_int_equal(cudaStreamSynchronize(m->stream), cudaSuccess);
    CHECK_OK(ah_host_run(&host, op, &err), err);
    assert_int_equal(cudaMemcpy(m->got, m->arena, ARENA_BYTES, cudaMemcpyDeviceToHost), cudaSuccess);
}

static void check_kind(struct machine *m, size_t chosen)
{
    const uint64_t arena_bytes[AH_ARENA_KINDS] = {[AH_ARENA_DEVICE] = ARENA_BYTES};
    uint64_t random = 17 + chosen;
    size_t done = 0;
    for (size_t i = 0; i < CASES; i++) {
        struct ah_op op = random_op(&random, chosen, kinds[chosen].operands);
        struct ah_error err = {0};
        if (ah_op_check(&op, arena_bytes, &err))
            continue; /* operands in place cannot have these strides */
        scatter(m, &random, op.kind == AH_OP_ADD || op.kind == AH_OP_ACCUMULATE);
        run_both(m, &op, kinds[chosen].kernel);
        if (memcmp(m->expected, m->got, ARENA_BYTES) != 0)
            for (size_t at = 0; at < ARENA_BYTES; at++)
                if (m->expected[at] != m->got[at])
                    fail_msg("%s, case %zu of %llu x %llu: byte %zu is %02x, not %02x", ah_op_name(op.kind),
                             i, (unsigned long long)op.u.elements.rows,
                             (unsigned long long)op.u.elements.count, at, m->got[at], m->expected[at]);
        done++;
    }
    assert_true(done > CASES / 2);
}

TEST_IN(elementwise, copies_bytes, set_up, tear_down)
{
    check_kind(*state, 0);
}

TEST_IN(elementwise, fills, set_up, tear_down)
{
    check_kind(*state, 1);
}

TEST_IN(elementwise, casts_all_bits_as_the_host_does, set_up, tear_down)
{
    check_kind(*state, 2);
}

TEST_IN(elementwise, adds, set_up, tear_down)
{
    check_kind(*state, 3);
}

TEST_IN(elementwise, accumulates, set_up, tear_down)
{
    check_kind(*state, 4);
}
