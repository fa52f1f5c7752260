/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention's steps with AVX-512 for words that are pairs of bf16. The processor's conversion rounds to nearest even
 * and flushes denormals to zero, like the products that read the words (tile.h).
 */
#if defined(__x86_64__)

#include "runtime/device/math/attention_internal.h"

#include "runtime/device/host/x16_avx512.h"

#define PAIRS_TARGET target("avx512f,avx512bw,avx512bf16,avx2,fma")

#undef X16_ENTRY
#define X16_ENTRY static __attribute__((PAIRS_TARGET))
#define PAIRS_FN  static inline __attribute__((always_inline, PAIRS_TARGET))

#include "runtime/device/host/elements.inc"

#define WIDE 4 /* two rows */
#include "runtime/device/math/functions.inc"

/* Returns the elements of `low`, then those of `high`, as bf16. */
PAIRS_FN __m512i halves_of(struct x16f low, struct x16f high)
{
    return (__m512i)_mm512_cvtne2ps_pbh(high.v, low.v);
}

PAIRS_FN void put_words(void *to, uint64_t row, size_t column, struct x16f even, struct x16f odd)
{
    const __m512i order = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23,
                                           7, 22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
    uint32_t *words = (uint32_t *)to + row / 2 * AH_TILE_COLUMNS + column;
    _mm512_storeu_si512(words, _mm512_permutexvar_epi16(order, halves_of(even, odd)));
}

PAIRS_FN void put_row(void *to, uint64_t row, struct x16f low, struct x16f high)
{
    _mm512_storeu_si512((uint32_t *)to + row * AH_TILE_WORDS, halves_of(low, high));
}

/* From here on, functions may use bf16 instructions. */
#undef X16_FN
#define X16_FN static inline __attribute__((always_inline, unused, PAIRS_TARGET))

#define STEPS ah_attention_pairs

#include "runtime/device/math/attention.inc"

#else

typedef int ah_attention_pairs_has_no_code_here;

#endif
