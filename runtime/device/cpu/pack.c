/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/device/cpu/pack.h"

#include "runtime/device/op.h"

/* Elements of k in a block. */
static uint64_t block_k(enum ah_dtype dtype)
{
    return AH_PACK_WORDS * 4 / ah_dtype_bytes(dtype);
}

bool ah_pack_takes(enum ah_isa isa, enum ah_dtype dtype, uint64_t k, uint64_t other, uint64_t step)
{
    return isa == AH_ISA_AVX512 && k % block_k(dtype) == 0 && other % step == 0;
}

#if defined(__x86_64__)
#include <immintrin.h>

#define PACK_FN static __attribute__((target("avx512f,avx512bw")))

/* Rows become columns: 16 x 16 words. */
static inline __attribute__((always_inline, target("avx512f,avx512bw"))) void transpose(__m512i row[16])
{
    __m512i t[16];
    for (int i = 0; i < 16; i += 4) {
        __m512i low01 = _mm512_unpacklo_epi32(row[i], row[i + 1]);
        __m512i high01 = _mm512_unpackhi_epi32(row[i], row[i + 1]);
        __m512i low23 = _mm512_unpacklo_epi32(row[i + 2], row[i + 3]);
        __m512i high23 = _mm512_unpackhi_epi32(row[i + 2], row[i + 3]);
        t[i] = _mm512_unpacklo_epi64(low01, low23);
        t[i + 1] = _mm512_unpackhi_epi64(low01, low23);
        t[i + 2] = _mm512_unpacklo_epi64(high01, high23);
        t[i + 3] = _mm512_unpackhi_epi64(high01, high23);
    }
    /* t[4 g + c] holds columns c, c + 4, c + 8, c + 12 of rows 4 g to 4 g + 3, a quarter each. */
    for (int c = 0; c < 4; c++) {
        __m512i low01 = _mm512_shuffle_i32x4(t[c], t[4 + c], 0x88);
        __m512i high01 = _mm512_shuffle_i32x4(t[c], t[4 + c], 0xdd);
        __m512i low23 = _mm512_shuffle_i32x4(t[8 + c], t[12 + c], 0x88);
        __m512i high23 = _mm512_shuffle_i32x4(t[8 + c], t[12 + c], 0xdd);
        row[c] = _mm512_shuffle_i32x4(low01, low23, 0x88);
        row[8 + c] = _mm512_shuffle_i32x4(low01, low23, 0xdd);
        row[4 + c] = _mm512_shuffle_i32x4(high01, high23, 0x88);
        row[12 + c] = _mm512_shuffle_i32x4(high01, high23, 0xdd);
    }
}

/* 16 rows of 64 bytes, `from_stride` and `to_stride` bytes apart, turned. */
PACK_FN void turn_words(unsigned char *to, size_t to_stride, const unsigned char *from, size_t from_stride)
{
    __m512i row[16];
    for (size_t i = 0; i < 16; i++)
        row[i] = _mm512_loadu_si512(from + i * from_stride);
    transpose(row);
    for (size_t i = 0; i < 16; i++)
        _mm512_storeu_si512(to + i * to_stride, row[i]);
}

/* 32 rows of 16 bf16 become 16 rows of 32. */
PACK_FN void turn_halves(unsigned char *to, size_t to_stride, const unsigned char *from, size_t from_stride)
{
    __m512i row[16];
    for (size_t i = 0; i < 16; i++) {
        const unsigned char *pair = from + 2 * i * from_stride;
        __m512i even = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(const void *)pair));
        __m512i odd =
            _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(const void *)(pair + from_stride)));
        row[i] = _mm512_or_si512(even, _mm512_slli_epi32(odd, 16));
    }
    transpose(row);
    for (size_t i = 0; i < 16; i++)
        _mm512_storeu_si512(to + i * to_stride, row[i]);
}

/* One row of 64 words: 64 fp32 of one row of b, or 64 bf16 of each of two. */
PACK_FN void pair_halves(unsigned char *to, const unsigned char *even, const unsigned char *odd)
{
    for (int half = 0; half < 4; half++) {
        __m512i low =
            _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(const void *)(even + 32 * half)));
        __m512i high =
            _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(const void *)(odd + 32 * half)));
        _mm512_storeu_si512(to + 64 * half, _mm512_or_si512(low, _mm512_slli_epi32(high, 16)));
    }
}

PACK_FN void copy_words(unsigned char *to, const unsigned char *from)
{
    for (int i = 0; i < 4; i++)
        _mm512_storeu_si512(to + 64 * i, _mm512_loadu_si512(from + 64 * i));
}

void ah_pack_rows(void *dst, size_t panel_bytes, const struct ah_pack_matrix *b)
{
    size_t element = ah_dtype_bytes(b->dtype);
    size_t row_bytes = b->stride * element;
    size_t rows_per_word = 4 / element;
    for (uint64_t word = 0; word < b->rows / rows_per_word; word++)
        for (uint64_t panel = 0; panel < b->columns / AH_PACK_COLUMNS; panel++) {
            const unsigned char *from = (const unsigned char *)b->data + word * rows_per_word * row_bytes +
                                        panel * AH_PACK_COLUMNS * element;
            unsigned char *to = (unsigned char *)dst + panel * panel_bytes + word * AH_PACK_COLUMNS * 4;
            if (b->dtype == AH_BF16)
                pair_halves(to, from, from + row_bytes);
            else
                copy_words(to, from);
        }
}

void ah_pack_columns(void *dst, size_t panel_bytes, const struct ah_pack_matrix *b)
{
    size_t element = ah_dtype_bytes(b->dtype);
    size_t row_bytes = b->stride * element;
    uint64_t blocks = b->columns * element / 64;
    for (uint64_t row = 0; row < b->rows; row += 16)
        for (uint64_t block = 0; block < blocks; block++) {
            unsigned char *to = (unsigned char *)dst + row / AH_PACK_COLUMNS * panel_bytes +
                                block * AH_PACK_BLOCK_BYTES + row % AH_PACK_COLUMNS * 4;
            const unsigned char *from = (const unsigned char *)b->data + row * row_bytes + block * 64;
            turn_words(to, AH_PACK_COLUMNS * 4, from, row_bytes);
        }
}

void ah_pack_turn(void *dst, const struct ah_pack_matrix *a)
{
    size_t element = ah_dtype_bytes(a->dtype);
    size_t row_bytes = a->stride * element;
    size_t to_stride = a->rows * element;
    for (uint64_t column = 0; column < a->columns; column += 16)
        for (uint64_t block = 0; block < a->rows * element / 64; block++) {
            unsigned char *to = (unsigned char *)dst + column * to_stride + block * 64;
            const unsigned char *from =
                (const unsigned char *)a->data + block * block_k(a->dtype) * row_bytes + column * element;
            if (a->dtype == AH_BF16)
                turn_halves(to, to_stride, from, row_bytes);
            else
                turn_words(to, to_stride, from, row_bytes);
        }
}
#endif
