/* SPDX-License-Identifier: Apache-2.0
 *
 * Both packings go by squares of 16 words: whole ones with vectors, those at the edges element by element.
 */
#include "runtime/device/cpu/pack.h"

#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>

#define PACK_TARGET __attribute__((target("avx512f,avx512bw")))

enum { WORD_BYTES = 4, ROW_BYTES = AH_PACK_WORDS * WORD_BYTES };

/* Rows become columns: 16 x 16 words. */
static inline __attribute__((always_inline)) PACK_TARGET void transpose(__m512i row[16])
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

static inline __attribute__((always_inline)) PACK_TARGET __m512i load_half_words(const unsigned char *from)
{
    return _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(const void *)from));
}

/* Row `i` of a square whose rows are k: 16 fp32 of one k, or 16 bf16 of each of two, paired. */
static inline __attribute__((always_inline)) PACK_TARGET __m512i load_word_row(const unsigned char *from,
                                                                               size_t stride, size_t i,
                                                                               enum ah_dtype dtype)
{
    if (dtype == AH_FP32)
        return _mm512_loadu_si512(from + i * stride);
    const unsigned char *pair = from + 2 * i * stride;
    return _mm512_or_si512(load_half_words(pair), _mm512_slli_epi32(load_half_words(pair + stride), 16));
}

/* A whole square. `k_in_rows` says how it lies; `turn`, whether the result has k along its rows. */
PACK_TARGET static void square(unsigned char *to, size_t to_stride, const unsigned char *from,
                               size_t from_stride, enum ah_dtype dtype, bool k_in_rows, bool turn)
{
    __m512i row[16];
    for (size_t i = 0; i < 16; i++)
        row[i] = k_in_rows ? load_word_row(from, from_stride, i, dtype)
                           : _mm512_loadu_si512(from + i * from_stride);
    if (turn)
        transpose(row);
    for (size_t i = 0; i < 16; i++)
        _mm512_storeu_si512(to + i * to_stride, row[i]);
}
#else
enum { WORD_BYTES = 4, ROW_BYTES = AH_PACK_WORDS * WORD_BYTES };

static void square(unsigned char *to, size_t to_stride, const unsigned char *from, size_t from_stride,
                   enum ah_dtype dtype, bool k_in_rows, bool turn)
{
    (void)to, (void)to_stride, (void)from, (void)from_stride, (void)dtype, (void)k_in_rows, (void)turn;
}
#endif

static size_t element_bytes(enum ah_dtype dtype)
{
    return dtype == AH_BF16 ? 2 : 4;
}

/* Elements of k in a block. */
static uint64_t block_k(enum ah_dtype dtype)
{
    return AH_PACK_WORDS * WORD_BYTES / element_bytes(dtype);
}

uint64_t ah_pack_padded(enum ah_dtype dtype, uint64_t k)
{
    uint64_t block = block_k(dtype);
    return (k + block - 1) / block * block;
}

static const unsigned char *element(const struct ah_pack_matrix *matrix, uint64_t k, uint64_t other)
{
    uint64_t index = matrix->k_in_rows ? k * matrix->stride + other : other * matrix->stride + k;
    return (const unsigned char *)matrix->data + index * element_bytes(matrix->dtype);
}

static bool is_whole(const struct ah_pack_matrix *matrix, uint64_t k, uint64_t other)
{
    return matrix->k - k >= block_k(matrix->dtype) && matrix->other - other >= 16;
}

/* A square of a packed b that the matrix does not fill. */
static void edge_of_b(unsigned char *to, size_t to_stride, const struct ah_pack_matrix *b, uint64_t first_k,
                      uint64_t first_n)
{
    size_t bytes = element_bytes(b->dtype);
    uint64_t per_word = WORD_BYTES / bytes;
    for (uint64_t k = 0; k < block_k(b->dtype); k++)
        for (uint64_t n = 0; n < 16; n++) {
            unsigned char *at = to + k / per_word * to_stride + n * WORD_BYTES + k % per_word * bytes;
            if (first_k + k < b->k && first_n + n < b->other)
                memcpy(at, element(b, first_k + k, first_n + n), bytes);
            else
                memset(at, 0, bytes);
        }
}

/* One square of a packed b: 16 columns from `n` on, the block of k from `k` on. */
static void square_of_b(unsigned char *dst, const struct ah_pack_panels *panels,
                        const struct ah_pack_matrix *b, uint64_t k, uint64_t n)
{
    size_t to_stride = panels->columns * WORD_BYTES;
    unsigned char *to = dst + n / panels->columns * panels->bytes +
                        k / block_k(b->dtype) * AH_PACK_WORDS * to_stride + n % panels->columns * WORD_BYTES;
    if (n < b->other && is_whole(b, k, n))
        square(to, to_stride, element(b, k, n), b->stride * element_bytes(b->dtype), b->dtype, b->k_in_rows,
               !b->k_in_rows);
    else
        edge_of_b(to, to_stride, b, k, n);
}

void ah_pack_b(void *dst, const struct ah_pack_panels *panels, const struct ah_pack_matrix *b)
{
    uint64_t block = block_k(b->dtype);
    uint64_t columns = (b->other + panels->columns - 1) / panels->columns * panels->columns;
    /* Along the matrix's rows first. */
    if (b->k_in_rows)
        for (uint64_t k = 0; k < b->k; k += block)
            for (uint64_t n = 0; n < columns; n += 16)
                square_of_b(dst, panels, b, k, n);
    else
        for (uint64_t n = 0; n < columns; n += 16)
            for (uint64_t k = 0; k < b->k; k += block)
                square_of_b(dst, panels, b, k, n);
}

static void edge_of_a(unsigned char *to, size_t to_stride, const struct ah_pack_matrix *a, uint64_t first_k,
                      uint64_t first_m)
{
    size_t bytes = element_bytes(a->dtype);
    for (uint64_t m = first_m; m < a->other && m < first_m + 16; m++)
        for (uint64_t k = first_k; k < a->k && k < first_k + block_k(a->dtype); k++)
            memcpy(to + (m - first_m) * to_stride + (k - first_k) * bytes, element(a, k, m), bytes);
}

/* Rows of k as they lie, or turned square by square. */
static void rows_of_a(unsigned char *dst, size_t to_stride, const struct ah_pack_matrix *a)
{
    size_t bytes = element_bytes(a->dtype);
    if (!a->k_in_rows) {
        for (uint64_t m = 0; m < a->other; m++)
            memcpy(dst + m * to_stride, element(a, 0, m), a->k * bytes);
        return;
    }
    for (uint64_t m = 0; m < a->other; m += 16)
        for (uint64_t k = 0; k < a->k; k += block_k(a->dtype)) {
            unsigned char *to = dst + m * to_stride + k * bytes;
            if (is_whole(a, k, m))
                square(to, to_stride, element(a, k, m), a->stride * bytes, a->dtype, true, true);
            else
                edge_of_a(to, to_stride, a, k, m);
        }
}

void ah_pack_a(void *dst, uint64_t row_k, const struct ah_pack_matrix *a)
{
    size_t bytes = element_bytes(a->dtype);
    rows_of_a(dst, row_k * bytes, a);
    for (uint64_t m = 0; m < a->other && row_k > a->k; m++)
        memset((unsigned char *)dst + (m * row_k + a->k) * bytes, 0, (row_k - a->k) * bytes);
}
