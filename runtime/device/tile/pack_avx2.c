/* SPDX-License-Identifier: Apache-2.0
 *
 * Blocks of pack.c with AVX2.
 */
#if defined(__x86_64__)

#include "runtime/device/tile/pack_internal.h"

#include <immintrin.h>

#define PACK_TARGET __attribute__((target("avx2")))
#define PACK_INLINE static inline __attribute__((always_inline)) PACK_TARGET

enum { HALF = AH_PACK_PIECE / 2, QUARTER = AH_PACK_PIECE / 4 };

PACK_INLINE __m128i load_half(const unsigned char *from)
{
    return _mm_loadu_si128((const __m128i *)(const void *)from);
}

PACK_INLINE __m256i load_words(const unsigned char *from, enum ah_pack_word word)
{
    if (word == AH_PACK_EXPANDED)
        return _mm256_slli_epi32(_mm256_cvtepu16_epi32(load_half(from)), 16);
    return _mm256_loadu_si256((const __m256i *)(const void *)from);
}

/* Loads four words of one row and four of another row. */
PACK_INLINE __m256i load_two(const unsigned char *low, const unsigned char *high, enum ah_pack_word word)
{
    if (word == AH_PACK_FP32)
        return _mm256_inserti128_si256(_mm256_castsi128_si256(load_half(low)), load_half(high), 1);
    const __m128i first = _mm_loadl_epi64((const __m128i *)(const void *)low);
    const __m128i second = _mm_loadl_epi64((const __m128i *)(const void *)high);
    return _mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_unpacklo_epi64(first, second)), 16);
}

PACK_INLINE void store_words(unsigned char *to, __m256i words)
{
    _mm256_storeu_si256((__m256i *)(void *)to, words);
}

/* Transposes eight rows of four words into four rows of eight words. */
PACK_INLINE void turn_part(unsigned char *to, size_t to_bytes, const unsigned char *from, size_t row_bytes,
                           enum ah_pack_word word)
{
    __m256i row[QUARTER]; /* row i, with row i + QUARTER in its upper half */
#pragma GCC unroll 4
    for (size_t i = 0; i < QUARTER; i++)
        row[i] = load_two(from + i * row_bytes, from + (i + QUARTER) * row_bytes, word);
    const __m256i low01 = _mm256_unpacklo_epi32(row[0], row[1]);
    const __m256i high01 = _mm256_unpackhi_epi32(row[0], row[1]);
    const __m256i low23 = _mm256_unpacklo_epi32(row[2], row[3]);
    const __m256i high23 = _mm256_unpackhi_epi32(row[2], row[3]);
    store_words(to, _mm256_unpacklo_epi64(low01, low23));
    store_words(to + to_bytes, _mm256_unpackhi_epi64(low01, low23));
    store_words(to + 2 * to_bytes, _mm256_unpacklo_epi64(high01, high23));
    store_words(to + 3 * to_bytes, _mm256_unpackhi_epi64(high01, high23));
}

PACK_INLINE void turn_of(unsigned char *to, size_t to_bytes, const struct ah_pack_source *source,
                         enum ah_pack_word word)
{
    const size_t quarter_bytes = (word == AH_PACK_EXPANDED ? 2 : 4) * QUARTER;
#pragma GCC unroll 2
    for (size_t row = 0; row < AH_PACK_PIECE; row += HALF)
#pragma GCC unroll 4
        for (size_t quarter = 0; quarter < 4; quarter++)
            turn_part(to + quarter * QUARTER * to_bytes + row * 4, to_bytes,
                      source->from + row * source->row_bytes + quarter * quarter_bytes, source->row_bytes,
                      word);
}

PACK_TARGET static void turn_avx2(unsigned char *to, size_t to_bytes, const struct ah_pack_source *source)
{
    if (source->word == AH_PACK_EXPANDED)
        turn_of(to, to_bytes, source, AH_PACK_EXPANDED);
    else
        turn_of(to, to_bytes, source, AH_PACK_FP32);
}

PACK_INLINE void copy_pieces(unsigned char *to, const unsigned char *from, uint64_t pieces,
                             enum ah_pack_word word)
{
    const size_t half_bytes = (word == AH_PACK_EXPANDED ? 2 : 4) * HALF;
#pragma GCC unroll 4
    for (uint64_t i = 0; i < 2 * pieces; i++)
        store_words(to + i * AH_PACK_PIECE_BYTES / 2, load_words(from + i * half_bytes, word));
}

PACK_INLINE void copy_of(unsigned char *to, size_t to_bytes, const struct ah_pack_source *source,
                         enum ah_pack_word word)
{
#pragma GCC unroll 16
    for (size_t i = 0; i < AH_PACK_PIECE; i++)
        copy_pieces(to + i * to_bytes, source->from + i * source->row_bytes, 2, word);
}

PACK_TARGET static void copy_avx2(unsigned char *to, size_t to_bytes, const struct ah_pack_source *source)
{
    if (source->word == AH_PACK_EXPANDED)
        copy_of(to, to_bytes, source, AH_PACK_EXPANDED);
    else
        copy_of(to, to_bytes, source, AH_PACK_FP32);
}

PACK_TARGET static void copy_row_avx2(unsigned char *to, const struct ah_pack_source *source, uint64_t pieces)
{
    if (source->word == AH_PACK_EXPANDED)
        copy_pieces(to, source->from, pieces, AH_PACK_EXPANDED);
    else
        copy_pieces(to, source->from, pieces, AH_PACK_FP32);
}

const struct ah_pack_blocks ah_pack_blocks_avx2 = {turn_avx2, copy_avx2, copy_row_avx2};

#else

typedef int ah_pack_avx2_has_no_code_here;

#endif
