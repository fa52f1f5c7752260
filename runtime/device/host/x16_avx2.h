/* SPDX-License-Identifier: Apache-2.0
 *
 * Sixteen lanes at once with AVX2 and FMA: two registers. x16_portable.h says what each function means.
 */
#ifndef AH_RUNTIME_DEVICE_HOST_X16_AVX2_H
#define AH_RUNTIME_DEVICE_HOST_X16_AVX2_H

#include "base/philox.h"

#include <immintrin.h>
#include <stdint.h>

#define X16_TABLE ah_kernels_avx2
#define X16_ENTRY static __attribute__((target("avx2,fma")))
#define X16_FN    static inline __attribute__((always_inline, unused, target("avx2,fma")))

struct x16f {
    __m256 low, high;
};

struct x16u {
    __m256i low, high;
};

X16_FN struct x16f x16_set(float value)
{
    return (struct x16f){_mm256_set1_ps(value), _mm256_set1_ps(value)};
}

X16_FN struct x16f x16_load(const float *from)
{
    return (struct x16f){_mm256_loadu_ps(from), _mm256_loadu_ps(from + 8)};
}

X16_FN void x16_store(float *to, struct x16f a)
{
    _mm256_storeu_ps(to, a.low);
    _mm256_storeu_ps(to + 8, a.high);
}

X16_FN struct x16f x16_add(struct x16f a, struct x16f b)
{
    return (struct x16f){_mm256_add_ps(a.low, b.low), _mm256_add_ps(a.high, b.high)};
}

X16_FN struct x16f x16_mul(struct x16f a, struct x16f b)
{
    return (struct x16f){_mm256_mul_ps(a.low, b.low), _mm256_mul_ps(a.high, b.high)};
}

X16_FN struct x16f x16_div(struct x16f a, struct x16f b)
{
    return (struct x16f){_mm256_div_ps(a.low, b.low), _mm256_div_ps(a.high, b.high)};
}

X16_FN struct x16f x16_sqrt(struct x16f a)
{
    return (struct x16f){_mm256_sqrt_ps(a.low), _mm256_sqrt_ps(a.high)};
}

X16_FN struct x16f x16_sub(struct x16f a, struct x16f b)
{
    return (struct x16f){_mm256_sub_ps(a.low, b.low), _mm256_sub_ps(a.high, b.high)};
}

X16_FN struct x16f x16_max(struct x16f a, struct x16f b)
{
    return (struct x16f){_mm256_max_ps(a.low, b.low), _mm256_max_ps(a.high, b.high)};
}

X16_FN struct x16f x16_min(struct x16f a, struct x16f b)
{
    return (struct x16f){_mm256_min_ps(a.low, b.low), _mm256_min_ps(a.high, b.high)};
}

X16_FN __m256 x8_where_less(__m256 a, __m256 b, __m256 yes, __m256 no)
{
    return _mm256_blendv_ps(no, yes, _mm256_cmp_ps(a, b, _CMP_LT_OQ));
}

X16_FN struct x16f x16_where_less(struct x16f a, struct x16f b, struct x16f yes, struct x16f no)
{
    return (struct x16f){x8_where_less(a.low, b.low, yes.low, no.low),
                         x8_where_less(a.high, b.high, yes.high, no.high)};
}

X16_FN struct x16f x16_abs(struct x16f a)
{
    const __m256 sign = _mm256_set1_ps(-0.0f);
    return (struct x16f){_mm256_andnot_ps(sign, a.low), _mm256_andnot_ps(sign, a.high)};
}

X16_FN struct x16f x16_below(struct x16f a)
{
    const __m256 sign = _mm256_set1_ps(-0.0f);
    return (struct x16f){_mm256_or_ps(sign, a.low), _mm256_or_ps(sign, a.high)};
}

X16_FN __m256 x8_power(__m256 a)
{
    __m256i exponent = _mm256_slli_epi32(_mm256_castps_si256(a), 23);
    return _mm256_castsi256_ps(_mm256_add_epi32(exponent, _mm256_set1_epi32(0x3f800000)));
}

X16_FN struct x16f x16_power(struct x16f a)
{
    return (struct x16f){x8_power(a.low), x8_power(a.high)};
}

X16_FN struct x16f x16_fma(struct x16f a, struct x16f b, struct x16f c)
{
    return (struct x16f){_mm256_fmadd_ps(a.low, b.low, c.low), _mm256_fmadd_ps(a.high, b.high, c.high)};
}

X16_FN float x16_sum(struct x16f a)
{
    __m256 eight = _mm256_add_ps(a.low, a.high);
    __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

X16_FN float x16_largest(struct x16f a)
{
    __m256 eight = _mm256_max_ps(a.low, a.high);
    __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
}

X16_FN struct x16u x16_words_set(uint32_t value)
{
    return (struct x16u){_mm256_set1_epi32((int)value), _mm256_set1_epi32((int)value)};
}

X16_FN struct x16u x16_words_high(struct x16u a)
{
    return (struct x16u){_mm256_srli_epi32(a.low, 16), _mm256_srli_epi32(a.high, 16)};
}

X16_FN struct x16u x16_words_low(struct x16u a)
{
    __m256i mask = _mm256_set1_epi32(0xffff);
    return (struct x16u){_mm256_and_si256(a.low, mask), _mm256_and_si256(a.high, mask)};
}

/* Computes ten rounds for four draws, one per 64-bit lane. Words are in lower halves; upper halves never matter. */
X16_FN void x4_philox(const uint32_t counter[4], const uint32_t key[2], __m256i draws, __m256i w[4])
{
    const __m256i multiplier0 = _mm256_set1_epi64x(AH_PHILOX_M0);
    const __m256i multiplier1 = _mm256_set1_epi64x(AH_PHILOX_M1);
    w[0] = _mm256_add_epi32(_mm256_set1_epi64x(counter[0]), draws);
    w[1] = _mm256_set1_epi64x(counter[1]);
    w[2] = _mm256_set1_epi64x(counter[2]);
    w[3] = _mm256_set1_epi64x(counter[3]);
    for (uint32_t round = 0; round < AH_PHILOX_ROUNDS; round++) {
        __m256i key0 = _mm256_set1_epi64x(key[0] + round * AH_PHILOX_W0);
        __m256i key1 = _mm256_set1_epi64x(key[1] + round * AH_PHILOX_W1);
        __m256i product0 = _mm256_mul_epu32(w[0], multiplier0);
        __m256i product1 = _mm256_mul_epu32(w[2], multiplier1);
        w[0] = _mm256_xor_si256(_mm256_srli_epi64(product1, 32), _mm256_xor_si256(w[1], key0));
        w[2] = _mm256_xor_si256(_mm256_srli_epi64(product0, 32), _mm256_xor_si256(w[3], key1));
        w[1] = product1;
        w[3] = product0;
    }
}

/* Computes draws `first`, + 4, + 8, + 12, and the draw after each, transposed 4 x 4 in each half. Lanes 0-3 of ret[j]
 * hold the words of draw first + 4 j, lanes 4-7 those of draw first + 4 j + 1. */
X16_FN void x8_philox(const uint32_t counter[4], const uint32_t key[2], int first, __m256i ret[4])
{
    const __m256i draws = _mm256_add_epi64(_mm256_set_epi64x(9, 1, 8, 0), _mm256_set1_epi64x(first));
    __m256i even[4], odd[4], w[4];
    x4_philox(counter, key, draws, even);
    x4_philox(counter, key, _mm256_add_epi64(draws, _mm256_set1_epi64x(4)), odd);
    for (int i = 0; i < 4; i++)
        w[i] = _mm256_blend_epi32(even[i], _mm256_slli_epi64(odd[i], 32), 0xaa);
    __m256i a = _mm256_unpacklo_epi32(w[0], w[1]), b = _mm256_unpackhi_epi32(w[0], w[1]);
    __m256i c = _mm256_unpacklo_epi32(w[2], w[3]), d = _mm256_unpackhi_epi32(w[2], w[3]);
    ret[0] = _mm256_unpacklo_epi64(a, c);
    ret[1] = _mm256_unpackhi_epi64(a, c);
    ret[2] = _mm256_unpacklo_epi64(b, d);
    ret[3] = _mm256_unpackhi_epi64(b, d);
}

X16_FN void x16_philox(const uint32_t counter[4], const uint32_t key[2], struct x16u ret_words[4])
{
    __m256i low[4], high[4];
    x8_philox(counter, key, 0, low);
    x8_philox(counter, key, 2, high);
    for (int i = 0; i < 4; i++)
        ret_words[i] = (struct x16u){low[i], high[i]};
}

X16_FN struct x16f x16_load_bf16(const uint16_t *from)
{
    const __m128i *at = (const __m128i *)(const void *)from;
    __m256i low = _mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128(at)), 16);
    __m256i high = _mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128(at + 1)), 16);
    return (struct x16f){_mm256_castsi256_ps(low), _mm256_castsi256_ps(high)};
}

X16_FN __m256i x8_upper(__m256 a, __m256i addend)
{
    __m256i bits = _mm256_castps_si256(a);
    __m256i quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x400000));
    __m256 nan = _mm256_cmp_ps(a, a, _CMP_UNORD_Q);
    __m256 sum = _mm256_castsi256_ps(_mm256_add_epi32(bits, addend));
    return _mm256_srli_epi32(_mm256_castps_si256(_mm256_blendv_ps(sum, _mm256_castsi256_ps(quiet), nan)), 16);
}

X16_FN __m256i x16_upper(struct x16f a, struct x16u addend)
{
    __m256i mixed = _mm256_packus_epi32(x8_upper(a.low, addend.low), x8_upper(a.high, addend.high));
    return _mm256_permute4x64_epi64(mixed, 0xd8);
}

X16_FN __m256i x8_even_addend(__m256 a)
{
    __m256i odd = _mm256_and_si256(_mm256_srli_epi32(_mm256_castps_si256(a), 16), _mm256_set1_epi32(1));
    return _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff));
}

X16_FN struct x16u x16_even_addend(struct x16f a)
{
    return (struct x16u){x8_even_addend(a.low), x8_even_addend(a.high)};
}

X16_FN void x16_store_upper(uint16_t *to, struct x16f a, struct x16u addend)
{
    _mm256_storeu_si256((__m256i *)(void *)to, x16_upper(a, addend));
}

X16_FN void x16_store_bf16(uint16_t *to, struct x16f a)
{
    x16_store_upper(to, a, x16_even_addend(a));
}

X16_FN void x16_stream_bf16(uint16_t *to, struct x16f low, struct x16f high)
{
    __m256i *at = (__m256i *)(void *)to;
    __m256i first = x16_upper(low, x16_even_addend(low));
    __m256i second = x16_upper(high, x16_even_addend(high));
    _mm256_stream_si256(at, first);
    _mm256_stream_si256(at + 1, second);
}

X16_FN void x16_stream_line(void *to, const void *from)
{
    __m256i first = _mm256_loadu_si256((const __m256i *)from);
    __m256i second = _mm256_loadu_si256((const __m256i *)from + 1);
    _mm256_stream_si256((__m256i *)to, first);
    _mm256_stream_si256((__m256i *)to + 1, second);
}

X16_FN void x16_prefetch(const void *at)
{
    _mm_prefetch((const char *)at, _MM_HINT_T0);
}

X16_FN void x16_stream_end(void)
{
    _mm_sfence();
}

#endif
