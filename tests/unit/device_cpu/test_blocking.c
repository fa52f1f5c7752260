/* SPDX-License-Identifier: Apache-2.0
 *
 * Blockings of random shapes: parts cover the whole once, groups are whole tiles, the workspace stays small.
 */
#include "runtime/device/cpu/blocking.h"

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

static void check_shape(const struct ah_matmul_shape *shape, bool pads)
{
    struct ah_blocking blocking = ah_blocking_of(shape, pads);
    uint64_t element = shape->in == AH_BF16 ? 2 : 4;
    assert_int_equal(covered(shape->m, blocking.tile_m), shape->m);
    assert_int_equal(covered(shape->n, blocking.tile_n), shape->n);
    assert_int_equal(covered(shape->k, blocking.chunk_k), shape->k);
    assert_int_equal(blocking.unit_m % blocking.tile_m, 0);
    assert_true(blocking.tile_n <= 768);
    assert_true(blocking.group_m == shape->m || blocking.group_m % blocking.unit_m == 0);
    assert_true(blocking.tile_n * blocking.row_k * element <= UINT64_C(16) << 20);
    if (blocking.packs_a)
        assert_true(blocking.group_m * blocking.row_k * element <= UINT64_C(16) << 20);
    assert_true(blocking.row_k >= blocking.chunk_k && blocking.row_k < blocking.chunk_k + 32);
    assert_int_equal(blocking.packs_a, shape->form == AH_MATMUL_TN || blocking.chunk_k < shape->k ||
                                           blocking.row_k != blocking.chunk_k);
}

static void test_blocking__covers_every_shape(void **state)
{
    uint64_t random = check_seed(5);
    (void)state;
    for (int i = 0; i < 20000; i++) {
        uint64_t sizes[3];
        for (int j = 0; j < 3; j++)
            sizes[j] = 1 + check_random(&random) % (UINT64_C(1) << check_random(&random) % 18);
        struct ah_matmul_shape shape = {.form = (enum ah_matmul_form)(check_random(&random) % 3),
                                        .in = (enum ah_dtype)(check_random(&random) % 2),
                                        .m = sizes[0],
                                        .n = sizes[1],
                                        .k = sizes[2]};
        check_shape(&shape, i % 2);
    }
}

static void test_blocking__cuts_long_k(void **state)
{
    struct ah_matmul_shape shape = {.form = AH_MATMUL_NN, .in = AH_BF16, .m = 512, .n = 768, .k = 50257};
    (void)state;
    assert_true(ah_blocking_of(&shape, true).chunk_k < shape.k);
    shape.k = 3072;
    assert_int_equal(ah_blocking_of(&shape, true).chunk_k, 3072);
    assert_false(ah_blocking_of(&shape, true).packs_a);
}

static void test_blocking__pads_k_of_bf16(void **state)
{
    struct ah_matmul_shape shape = {.form = AH_MATMUL_NN, .in = AH_BF16, .m = 5, .n = 7, .k = 33};
    (void)state;
    assert_int_equal(ah_blocking_of(&shape, true).row_k, 64);
    assert_true(ah_blocking_of(&shape, true).packs_a);
    assert_int_equal(ah_blocking_of(&shape, false).row_k, 33);
    shape.in = AH_FP32;
    assert_int_equal(ah_blocking_of(&shape, true).row_k, 33);
    assert_false(ah_blocking_of(&shape, true).packs_a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_blocking__covers_every_shape),
        cmocka_unit_test(test_blocking__cuts_long_k),
        cmocka_unit_test(test_blocking__pads_k_of_bf16),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
