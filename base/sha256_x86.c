/* SPDX-License-Identifier: Apache-2.0
 *
 * SHA-256 with the instructions of x86: Intel, "Intel SHA Extensions" (2013). They keep the state as ABEF and CDGH,
 * from the highest word down, and do two rounds at once. Four words of the schedule W come from the last sixteen.
 */
#include "base/sha256_internal.h"

#if defined(__x86_64__)

#include "base/sha256.h"

#include <immintrin.h>

enum { GROUPS = AH_SHA256_ROUNDS / 4 };

/* Returns the next four words of W after the sixteen in `w`; w[first] has the oldest four. */
__attribute__((target("sha,sse4.1"))) static __m128i next_words(const __m128i w[4], int first)
{
    __m128i last = w[(first + 3) & 3];
    __m128i seven_ago = _mm_alignr_epi8(last, w[(first + 2) & 3], 4);
    __m128i sum = _mm_add_epi32(_mm_sha256msg1_epu32(w[first], w[(first + 1) & 3]), seven_ago);
    return _mm_sha256msg2_epu32(sum, last);
}

__attribute__((target("sha,sse4.1"))) static void compress_block(__m128i *abef, __m128i *cdgh,
                                                                 const unsigned char *block)
{
    const __m128i big_endian = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
    __m128i w[4], x = *abef, y = *cdgh;
#pragma GCC unroll 16
    for (int i = 0; i < GROUPS; i++) {
        if (i < 4)
            w[i] = _mm_shuffle_epi8(_mm_loadu_si128((const void *)(block + 16 * i)), big_endian);
        else
            w[i & 3] = next_words(w, i & 3);
        __m128i sum = _mm_add_epi32(w[i & 3], _mm_loadu_si128((const void *)&ah_sha256_k[4 * i]));
        y = _mm_sha256rnds2_epu32(y, x, sum);
        x = _mm_sha256rnds2_epu32(x, y, _mm_shuffle_epi32(sum, 0x0e));
    }
    *abef = _mm_add_epi32(*abef, x);
    *cdgh = _mm_add_epi32(*cdgh, y);
}

__attribute__((target("sha,sse4.1"))) void ah_sha256_compress_native(uint32_t H[8],
                                                                     const unsigned char *blocks, size_t n)
{
    __m128i cdab = _mm_shuffle_epi32(_mm_loadu_si128((const void *)H), 0xb1);
    __m128i efgh = _mm_shuffle_epi32(_mm_loadu_si128((const void *)(H + 4)), 0x1b);
    __m128i abef = _mm_alignr_epi8(cdab, efgh, 8), cdgh = _mm_blend_epi16(efgh, cdab, 0xf0);
    for (size_t i = 0; i < n; i++)
        compress_block(&abef, &cdgh, blocks + i * AH_SHA256_BLOCK_BYTES);
    __m128i feba = _mm_shuffle_epi32(abef, 0x1b), dchg = _mm_shuffle_epi32(cdgh, 0xb1);
    _mm_storeu_si128((void *)H, _mm_blend_epi16(feba, dchg, 0xf0));
    _mm_storeu_si128((void *)(H + 4), _mm_alignr_epi8(dchg, feba, 8));
}

#else

void ah_sha256_compress_native(uint32_t H[8], const unsigned char *blocks, size_t n)
{
    ah_sha256_compress_portable(H, blocks, n);
}

#endif
