/* SPDX-License-Identifier: Apache-2.0
 *
 * Packing against the definition of the layouts, element by element: whole blocks and edges, both types, both
 * ways the matrix may lie, every width of a panel. Skips where there is no AVX-512.
 */
#include "runtime/device/cpu/pack.h"

#include "base/isa.h"
#include "tests/support/check.h"

#include <stdlib.h>
#include <string.h>

enum { STRIDE = 200, MOST = 256 * 256 * 4, GUARD = 64 };

static const uint64_t k_sizes[] = {1, 2, 15, 16, 17, 31, 32, 33, 63, 64, 96, 127};
static const uint64_t other_sizes[] = {1, 7, 16, 17, 48, 63, 64, 65, 100, 128, 192};

struct fixture {
    unsigned char *matrix; /* elements that differ */
    unsigned char *packed;
};

static int setup(void **state)
{
    struct fixture *f = malloc(sizeof *f);
    f->matrix = malloc(MOST);
    f->packed = malloc(MOST + GUARD);
    for (size_t i = 0; i < MOST; i++)
        f->matrix[i] = (unsigned char)((i * 2654435761u >> 11) | 1);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    free(f->matrix);
    free(f->packed);
    free(f);
    return 0;
}

static size_t bytes_of(enum ah_dtype dtype)
{
    return dtype == AH_BF16 ? 2 : 4;
}

static void check_element(const struct fixture *f, const struct ah_pack_matrix *matrix, size_t at, uint64_t k,
                          uint64_t other)
{
    static const unsigned char zeros[4] = {0};
    size_t bytes = bytes_of(matrix->dtype);
    uint64_t index = matrix->k_in_rows ? k * STRIDE + other : other * STRIDE + k;
    bool there = k < matrix->k && other < matrix->other;
    if (memcmp(f->packed + at, there ? f->matrix + index * bytes : zeros, bytes) != 0)
        fail_msg("element (%llu, %llu) of (%llu, %llu) is wrong", (unsigned long long)k,
                 (unsigned long long)other, (unsigned long long)matrix->k, (unsigned long long)matrix->other);
}

static void check_b(struct fixture *f, const struct ah_pack_matrix *b, uint64_t columns)
{
    size_t bytes = bytes_of(b->dtype);
    uint64_t per_word = 4 / bytes;
    uint64_t k_padded = (b->k + 16 * per_word - 1) / (16 * per_word) * (16 * per_word);
    uint64_t n_padded = (b->other + columns - 1) / columns * columns;
    struct ah_pack_panels panels = {columns, k_padded * columns * bytes};
    size_t end = k_padded * n_padded * bytes;
    memset(f->packed, 0x5a, MOST + GUARD);
    ah_pack_b(f->packed, &panels, b);
    for (uint64_t k = 0; k < k_padded; k++)
        for (uint64_t n = 0; n < n_padded; n++)
            check_element(f, b,
                          n / columns * panels.bytes + k / per_word * columns * 4 + n % columns * 4 +
                              k % per_word * bytes,
                          k, n);
    for (size_t i = 0; i < GUARD; i++)
        assert_int_equal(f->packed[end + i], 0x5a);
}

static void check_a(struct fixture *f, const struct ah_pack_matrix *a, uint64_t row_k)
{
    size_t bytes = bytes_of(a->dtype);
    memset(f->packed, 0x5a, MOST + GUARD);
    ah_pack_a(f->packed, row_k, a);
    for (uint64_t m = 0; m < a->other; m++)
        for (uint64_t k = 0; k < row_k; k++)
            check_element(f, a, (m * row_k + k) * bytes, k, m);
    for (size_t i = 0; i < GUARD; i++)
        assert_int_equal(f->packed[a->other * row_k * bytes + i], 0x5a);
}

static void check_sizes(struct fixture *f, uint64_t k, uint64_t other)
{
    for (int dtype = AH_FP32; dtype <= AH_BF16; dtype++)
        for (int k_in_rows = 0; k_in_rows <= 1; k_in_rows++) {
            struct ah_pack_matrix matrix = {f->matrix, (enum ah_dtype)dtype, k, other, STRIDE, k_in_rows};
            for (uint64_t columns = 16; columns <= 64; columns += 16)
                check_b(f, &matrix, columns);
            check_a(f, &matrix, k);
            check_a(f, &matrix, ah_pack_padded((enum ah_dtype)dtype, k));
        }
}

static void test_pack__follows_its_layouts(void **state)
{
    for (size_t i = 0; i < sizeof k_sizes / sizeof k_sizes[0]; i++)
        for (size_t j = 0; j < sizeof other_sizes / sizeof other_sizes[0]; j++)
            check_sizes(*state, k_sizes[i], other_sizes[j]);
}

static void test_pack__pads_to_blocks(void **state)
{
    (void)state;
    assert_int_equal(ah_pack_padded(AH_BF16, 1), 32);
    assert_int_equal(ah_pack_padded(AH_BF16, 32), 32);
    assert_int_equal(ah_pack_padded(AH_BF16, 50257), 50272);
    assert_int_equal(ah_pack_padded(AH_FP32, 17), 32);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pack__follows_its_layouts),
        cmocka_unit_test(test_pack__pads_to_blocks),
    };
    if (ah_isa_detect() != AH_ISA_AVX512) {
        print_message("no AVX-512 here\n");
        return 77;
    }
    return cmocka_run_group_tests(tests, setup, teardown);
}
