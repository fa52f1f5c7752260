/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests blockings of random shapes: the parts cover each element of the product once, and a thread's share fits its
 * caches. Choices that change bits must not depend on the number of threads.
 */
#include "runtime/device/tile/blocking.h"

#include "tests/support/check.h"

static uint64_t covered(uint64_t whole, uint64_t part)
{
    uint64_t sum = 0;
    for (uint64_t i = 0; i < ah_blocking_parts(whole, part); i++) {
        uint64_t size = ah_blocking_part(whole, part, i);
        assert_true(size > 0 && size <= part);
        sum += size;
    }
    return sum;
}

static void check_shape(const struct ah_matmul_shape *shape, enum ah_tile_level level, unsigned threads)
{
    const struct ah_tile_kernel *kernel = ah_tile_kernel(level, shape->in);
    struct ah_blocking blocking = ah_blocking_of(shape, kernel, threads);
    struct ah_blocking alone = ah_blocking_of(shape, kernel, 1);
    uint64_t word_k = kernel->words == AH_BF16 ? 2 : 1;
    assert_int_equal(covered(shape->m, blocking.unit_m), shape->m);
    assert_int_equal(covered(shape->n, blocking.unit_n), shape->n);
    assert_int_equal(covered(shape->k, blocking.chunk_k), shape->k);
    assert_int_equal(blocking.unit_m % AH_TILE_ROWS, 0);
    assert_int_equal(blocking.unit_n % AH_TILE_COLUMNS, 0);
    assert_int_equal(blocking.chunk_k % blocking.step_k, 0);
    assert_int_equal(blocking.step_k, AH_TILE_WORDS * word_k);
    bool is_large = shape->m * shape->k * ah_dtype_bytes(shape->in) > UINT64_C(32) << 20;
    assert_true(blocking.unit_n * blocking.chunk_k * 4 / word_k <= UINT64_C(768) << (is_large ? 11 : 10));
    assert_true(blocking.chunk_k >= shape->k || blocking.unit_m * blocking.unit_n * 4 <= UINT64_C(1) << 20);
    assert_int_equal(blocking.chunk_k, alone.chunk_k);
    assert_int_equal(blocking.step_k, alone.step_k);
}

/* The shapes are large in every direction, so few units keep their sums. */
TEST(blocking, covers_large_shapes)
{
    for (uint64_t m = 2048; m <= 1 << 18; m += m / 3)
        for (uint64_t n = 384; n <= 1 << 18; n += n / 3)
            for (unsigned threads = 1; threads <= 64; threads *= 4) {
                const struct ah_matmul_shape shape = {.in = AH_BF16, .m = m, .n = n, .k = 16384};
                check_shape(&shape, AH_TILE_AMX, threads);
            }
}

TEST(blocking, covers_every_shape)
{
    uint64_t random = check_seed(5);
    for (int i = 0; i < 2000; i++) {
        uint64_t sizes[3];
        for (int j = 0; j < 3; j++)
            sizes[j] = 1 + check_random(&random) % (UINT64_C(1) << check_random(&random) % 18);
        struct ah_matmul_shape shape = {.m = sizes[0], .n = sizes[1], .k = sizes[2]};
        shape.form = (enum ah_matmul_form)(check_random(&random) % 3);
        shape.in = (enum ah_dtype)(check_random(&random) % 2);
        unsigned threads = 1 + (unsigned)(check_random(&random) % 64);
        check_shape(&shape, (enum ah_tile_level)(check_random(&random) % AH_TILE_LEVELS), threads);
    }
}

TEST(blocking, leaves_units_for_every_thread)
{
    struct ah_matmul_shape shape = {.form = AH_MATMUL_NN, .in = AH_BF16, .m = 512, .n = 768, .k = 768};
    for (unsigned threads = 1; threads <= 32; threads *= 2) {
        struct ah_blocking blocking = ah_blocking_of(&shape, ah_tile_kernel(AH_TILE_AMX, AH_BF16), threads);
        assert_true(ah_blocking_parts(shape.m, blocking.unit_m) *
                        ah_blocking_parts(shape.n, blocking.unit_n) >=
                    threads);
    }
}

/* The bound on memory holds for every processor, because a plan made on one processor must run on any other. */
TEST(blocking, counts_the_memory_of_every_level)
{
    uint64_t random = check_seed(6);
    for (int i = 0; i < 500; i++) {
        struct ah_matmul_shape shape = {.form = (enum ah_matmul_form)(check_random(&random) % 3),
                                        .in = (enum ah_dtype)(check_random(&random) % 2),
                                        .m = 1 + check_random(&random) % 5000,
                                        .n = 1 + check_random(&random) % 5000,
                                        .k = 1 + check_random(&random) % 5000};
        const unsigned threads = 1 + (unsigned)(check_random(&random) % 16);
        const uint64_t most = ah_blocking_bytes(&shape, threads);
        bool is_met = false;
        for (int level = 0; level < AH_TILE_LEVELS; level++) {
            const struct ah_tile_kernel *kernel = ah_tile_kernel((enum ah_tile_level)level, shape.in);
            const struct ah_blocking blocking = ah_blocking_of(&shape, kernel, threads);
            const uint64_t bytes = ah_blocking_memory_of(&shape, kernel, &blocking).end;
            assert_true(bytes <= most);
            is_met = is_met || bytes == most;
        }
        assert_true(is_met);
    }
}
