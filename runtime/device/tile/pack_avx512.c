/* SPDX-License-Identifier: Apache-2.0
 *
 * Blocks of pack.c with AVX-512.
 */
#if defined(__x86_64__)

#include "runtime/device/tile/pack_internal.h"

#include <immintrin.h>

#define PACK_TARGET __attribute__((target("avx512f,avx512bw")))
#define PACK_INLINE static inline __attribute__((always_inline)) PACK_TARGET

PACK_INLINE void transpose(__m512i row[16])
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
    /* t[4 g + c] holds columns c, c + 4, c + 8, c + 12 of rows 4 g to 4 g + 3, each in a quarter of the register. */
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

PACK_INLINE __m512i load_halves(const unsigned char *from)
{
    return _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(const void *)from));
}

/* Loads a piece into a register, like load_piece() in pack_portable.c. */
PACK_INLINE __m512i load_register(const unsigned char *from, size_t row_bytes, enum ah_pack_word word,
                                  bool paired)
{
    if (word == AH_PACK_EXPANDED)
        return _mm512_slli_epi32(load_halves(from), 16);
    if (!paired)
        return _mm512_loadu_si512(from);
    return _mm512_or_si512(load_halves(from), _mm512_slli_epi32(load_halves(from + row_bytes), 16));
}

PACK_INLINE void turn_of(unsigned char *to, size_t to_bytes, const struct ah_pack_source *source,
                         enum ah_pack_word word, bool paired)
{
    __m512i row[AH_PACK_PIECE];
    const size_t step = paired ? 2 * source->row_bytes : source->row_bytes;
    for (size_t i = 0; i < AH_PACK_PIECE; i++)
        row[i] = load_register(source->from + i * step, source->row_bytes, word, paired);
    transpose(row);
    for (size_t i = 0; i < AH_PACK_PIECE; i++)
        _mm512_storeu_si512(to + i * to_bytes, row[i]);
}

PACK_TARGET static void turn_avx512(unsigned char *to, size_t to_bytes, const struct ah_pack_source *source)
{
    if (source->word == AH_PACK_EXPANDED)
        turn_of(to, to_bytes, source, AH_PACK_EXPANDED, false);
    else if (ah_pack_is_paired(source))
        turn_of(to, to_bytes, source, AH_PACK_PAIRS, true);
    else
        turn_of(to, to_bytes, source, AH_PACK_FP32, false);
}

PACK_INLINE void copy_of(unsigned char *to, size_t to_bytes, const struct ah_pack_source *source,
                         enum ah_pack_word word)
{
    const size_t second = word == AH_PACK_EXPANDED ? AH_PACK_PIECE_BYTES / 2 : AH_PACK_PIECE_BYTES;
#pragma GCC unroll 16
    for (size_t i = 0; i < AH_PACK_PIECE; i++) {
        const unsigned char *from = source->from + i * source->row_bytes;
        _mm512_storeu_si512(to + i * to_bytes, load_register(from, 0, word, false));
        _mm512_storeu_si512(to + i * to_bytes + AH_PACK_PIECE_BYTES,
                            load_register(from + second, 0, word, false));
    }
}

/* Interleaves two rows into one row of pairs. Each load is a separate instruction, as the hardware prefetcher needs. */
PACK_INLINE void interleave(unsigned char *to, size_t to_bytes, const struct ah_pack_source *source)
{
    const __m512i low = _mm512_set_epi16(47, 15, 46, 14, 45, 13, 44, 12, 43, 11, 42, 10, 41, 9, 40, 8, 39, 7,
                                         38, 6, 37, 5, 36, 4, 35, 3, 34, 2, 33, 1, 32, 0);
    const __m512i high = _mm512_add_epi16(low, _mm512_set1_epi16(16));
#pragma GCC unroll 16
    for (size_t i = 0; i < AH_PACK_PIECE; i++) {
        const unsigned char *from = source->from + 2 * i * source->row_bytes;
        const __m512i even = _mm512_loadu_si512(from);
        const __m512i odd = _mm512_loadu_si512(from + source->row_bytes);
        _mm512_storeu_si512(to + i * to_bytes, _mm512_permutex2var_epi16(even, low, odd));
        _mm512_storeu_si512(to + i * to_bytes + AH_PACK_PIECE_BYTES,
                            _mm512_permutex2var_epi16(even, high, odd));
    }
}

PACK_TARGET static void copy_avx512(unsigned char *to, size_t to_bytes, const struct ah_pack_source *source)
{
    if (source->word == AH_PACK_EXPANDED)
        copy_of(to, to_bytes, source, AH_PACK_EXPANDED);
    else if (ah_pack_is_paired(source))
        interleave(to, to_bytes, source);
    else
        copy_of(to, to_bytes, source, AH_PACK_FP32);
}

PACK_TARGET static void copy_row_avx512(unsigned char *to, const struct ah_pack_source *source,
                                        uint64_t pieces)
{
    const bool expands = source->word == AH_PACK_EXPANDED;
    const unsigned char *from = source->from;
    for (uint64_t i = 0; i < pieces; i++, from += expands ? AH_PACK_PIECE_BYTES / 2 : AH_PACK_PIECE_BYTES)
        _mm512_storeu_si512(to + i * AH_PACK_PIECE_BYTES,
                            expands ? load_register(from, 0, AH_PACK_EXPANDED, false)
                                    : _mm512_loadu_si512(from));
}

const struct ah_pack_blocks ah_pack_blocks_avx512 = {turn_avx512, copy_avx512, copy_row_avx512};

#else

typedef int ah_pack_avx512_has_no_code_here;

#endif
