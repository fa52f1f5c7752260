/* SPDX-License-Identifier: Apache-2.0
 *
 * Compares packing, word by word, with the definition of the layouts. Tests whole blocks and edges, both types, both
 * orientations and a stride, with every kind of words and every instruction set of this processor. The matrix ends
 * where its memory ends, so a sanitizer notices reads beyond the matrix.
 */
#include "runtime/device/tile/pack.h"

#include "tests/support/check.h"

#include <stdlib.h>
#include <string.h>

enum { GUARD = 64 };

static const uint64_t k_sizes[] = {1, 2, 15, 16, 17, 31, 32, 33, 63, 64, 96, 127, 128};
static const uint64_t other_sizes[] = {1, 7, 16, 17, 31, 32, 33, 63, 64, 65, 100};
enum {
    K_SIZES = sizeof k_sizes / sizeof k_sizes[0],
    OTHER_SIZES = sizeof other_sizes / sizeof other_sizes[0]
};

/* Returns the element's bits in the upper part of an fp32 word, or 0 outside the matrix. */
static uint32_t element(const struct ah_pack_matrix *matrix, uint64_t k, uint64_t other)
{
    uint64_t at = matrix->k_in_rows ? k * matrix->stride + other : other * matrix->stride + k;
    if (k >= matrix->k || other >= matrix->other)
        return 0;
    if (matrix->dtype == AH_FP32)
        return ((const uint32_t *)matrix->data)[at];
    return (uint32_t)((const uint16_t *)matrix->data)[at] << 16;
}

static uint32_t word(const struct ah_pack_matrix *matrix, const struct ah_tile_kernel *kernel, uint64_t i,
                     uint64_t other)
{
    if (kernel->words == AH_FP32)
        return element(matrix, i, other);
    return element(matrix, 2 * i + 1, other) | element(matrix, 2 * i, other) >> 16;
}

static void check_word(const uint32_t *packed, size_t at, const struct ah_pack_matrix *matrix,
                       const struct ah_tile_kernel *kernel, uint64_t i, uint64_t other)
{
    if (packed[at] != word(matrix, kernel, i, other))
        fail_msg("%s: word (%llu, %llu) of (%llu, %llu) is wrong", kernel->name, (unsigned long long)i,
                 (unsigned long long)other, (unsigned long long)matrix->k, (unsigned long long)matrix->other);
}

static void check_b(const struct ah_pack_matrix *b, const struct ah_tile_kernel *kernel)
{
    uint64_t words = ah_pack_words(kernel, b->k), panels = (b->other + 31) / 32;
    size_t n = words * panels * AH_TILE_COLUMNS;
    uint32_t *packed = malloc((n + GUARD) * sizeof *packed);
    memset(packed, 0x5a, (n + GUARD) * sizeof *packed);
    ah_pack_b(packed, kernel, b);
    for (uint64_t i = 0; i < words; i++)
        for (uint64_t other = 0; other < panels * AH_TILE_COLUMNS; other++)
            check_word(packed, (other / 32 * words + i) * 32 + other % 32, b, kernel, i, other);
    for (size_t i = 0; i < GUARD; i++)
        assert_int_equal(packed[n + i], 0x5a5a5a5a);
    free(packed);
}

static void check_a(const struct ah_pack_matrix *a, const struct ah_tile_kernel *kernel)
{
    uint64_t words = ah_pack_words(kernel, a->k);
    uint32_t *packed = malloc(sizeof *packed * AH_TILE_ROWS * AH_TILE_WORDS);
    memset(packed, 0x5a, sizeof *packed * AH_TILE_ROWS * AH_TILE_WORDS);
    ah_pack_a(packed, kernel, a);
    for (uint64_t other = 0; other < AH_TILE_ROWS; other++)
        for (uint64_t i = 0; i < AH_TILE_WORDS; i++)
            if (other < a->other && i < words)
                check_word(packed, other * AH_TILE_WORDS + i, a, kernel, i, other);
            else
                assert_int_equal(packed[other * AH_TILE_WORDS + i], 0x5a5a5a5a);
    free(packed);
}

/* Checks both packings of a matrix whose last row ends its memory. */
static void check_matrix(struct ah_pack_matrix matrix, const struct ah_tile_kernel *kernel)
{
    uint64_t rows = matrix.k_in_rows ? matrix.k : matrix.other;
    uint64_t width = matrix.k_in_rows ? matrix.other : matrix.k;
    matrix.stride = width + 3 * (rows % 2);
    size_t bytes = ((rows - 1) * matrix.stride + width) * ah_dtype_bytes(matrix.dtype);
    unsigned char *data = malloc(bytes);
    for (size_t i = 0; i < bytes; i++)
        data[i] = (unsigned char)((i * 2654435761u >> 11) | 1);
    matrix.data = data;
    check_b(&matrix, kernel);
    if (matrix.other <= AH_TILE_ROWS && ah_pack_words(kernel, matrix.k) <= AH_TILE_WORDS)
        check_a(&matrix, kernel);
    free(data);
}

TEST(pack, every_word)
{
    for (enum ah_tile_level level = AH_TILE_PORTABLE; level <= ah_tile_detect(); level++)
        for (enum ah_dtype dtype = AH_FP32; dtype <= AH_BF16; dtype++)
            for (size_t i = 0; i < (size_t)K_SIZES * OTHER_SIZES * 2; i++) {
                struct ah_pack_matrix matrix = {.dtype = dtype,
                                                .k = k_sizes[i / 2 % K_SIZES],
                                                .other = other_sizes[i / 2 / K_SIZES],
                                                .k_in_rows = i % 2};
                check_matrix(matrix, ah_tile_kernel(level, dtype));
            }
}

TEST(pack, prefetches_every_part)
{
    uint16_t data[70] = {0};
    struct ah_pack_matrix matrix = {data, AH_BF16, 5, 7, 10, false};
    for (uint64_t part = 0; part < 3; part++)
        ah_pack_prefetch(&matrix, part, 3);
    ah_pack_prefetch(&(struct ah_pack_matrix){0}, 0, 1);
}
