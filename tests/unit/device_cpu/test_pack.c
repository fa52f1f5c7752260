/* SPDX-License-Identifier: Apache-2.0
 *
 * Packing against the definition of the layout, element by element. Skips where there is no AVX-512.
 */
#include "runtime/device/cpu/pack.h"

#include "tests/support/check.h"

#include <stdlib.h>
#include <string.h>

enum { K = 96, N = 192, STRIDE = 200, GUARD = 64 };

struct fixture {
    unsigned char *matrix; /* 200 x 200 elements, every one different */
    unsigned char *packed;
};

static size_t element(enum ah_dtype dtype)
{
    return dtype == AH_BF16 ? 2 : 4;
}

static void check_element(const struct fixture *f, enum ah_dtype dtype, size_t packed_at, size_t matrix_index)
{
    assert_memory_equal(f->packed + packed_at, f->matrix + matrix_index * element(dtype), element(dtype));
}

/* Where element (k, n) lies in panels of 64 columns. */
static size_t packed_at(enum ah_dtype dtype, size_t panel_bytes, size_t k, size_t n)
{
    size_t per_word = 4 / element(dtype);
    return n / 64 * panel_bytes + k / per_word * 256 + n % 64 * 4 + k % per_word * element(dtype);
}

static void setup(struct fixture *f)
{
    f->matrix = malloc(STRIDE * STRIDE * 4);
    f->packed = malloc(K * N * 4 + GUARD);
    assert_non_null(f->matrix);
    assert_non_null(f->packed);
    for (size_t i = 0; i < STRIDE * STRIDE * 4; i++)
        f->matrix[i] = (unsigned char)(i * 2654435761u >> 11);
    memset(f->packed, 0x5a, K * N * 4 + GUARD);
}

static void check_guard(const struct fixture *f, enum ah_dtype dtype)
{
    for (size_t i = 0; i < GUARD; i++)
        assert_int_equal(f->packed[K * N * element(dtype) + i], 0x5a);
}

static void teardown(struct fixture *f)
{
    free(f->matrix);
    free(f->packed);
}

static void test_pack__rows_and_columns(void **state)
{
    (void)state;
    for (int dtype = AH_FP32; dtype <= AH_BF16; dtype++)
        for (int turned = 0; turned <= 1; turned++) {
            struct fixture f;
            setup(&f);
            size_t panel_bytes = K * 64 * element((enum ah_dtype)dtype);
            struct ah_pack_matrix b = {f.matrix, (enum ah_dtype)dtype, turned ? N : K, turned ? K : N,
                                       STRIDE};
            if (turned)
                ah_pack_columns(f.packed, panel_bytes, &b);
            else
                ah_pack_rows(f.packed, panel_bytes, &b);
            for (size_t k = 0; k < K; k++)
                for (size_t n = 0; n < N; n++)
                    check_element(&f, b.dtype, packed_at(b.dtype, panel_bytes, k, n),
                                  turned ? n * STRIDE + k : k * STRIDE + n);
            check_guard(&f, b.dtype);
            teardown(&f);
        }
}

static void test_pack__turns(void **state)
{
    (void)state;
    for (int dtype = AH_FP32; dtype <= AH_BF16; dtype++) {
        struct fixture f;
        setup(&f);
        struct ah_pack_matrix a = {f.matrix, (enum ah_dtype)dtype, K, N, STRIDE};
        ah_pack_turn(f.packed, &a);
        for (size_t k = 0; k < K; k++)
            for (size_t m = 0; m < N; m++)
                check_element(&f, a.dtype, (m * K + k) * element(a.dtype), k * STRIDE + m);
        check_guard(&f, a.dtype);
        teardown(&f);
    }
}

static void test_pack__takes_whole_blocks_only(void **state)
{
    (void)state;
    assert_true(ah_pack_takes(AH_ISA_AVX512, AH_BF16, 64, 128, 64));
    assert_true(ah_pack_takes(AH_ISA_AVX512, AH_FP32, 48, 64, 64));
    assert_false(ah_pack_takes(AH_ISA_AVX512, AH_BF16, 48, 64, 64));
    assert_false(ah_pack_takes(AH_ISA_AVX512, AH_FP32, 48, 65, 64));
    assert_false(ah_pack_takes(AH_ISA_AVX2, AH_FP32, 48, 64, 64));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pack__rows_and_columns),
        cmocka_unit_test(test_pack__turns),
        cmocka_unit_test(test_pack__takes_whole_blocks_only),
    };
    if (ah_isa_detect() != AH_ISA_AVX512) {
        print_message("no AVX-512 here\n");
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
