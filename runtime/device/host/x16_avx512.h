/* SPDX-License-Identifier: Apache-2.0
 *
 * Sixteen lanes at once with AVX-512F: one register. x16_portable.h says what each function means.
 *
 * The bf16 instructions of newer processors are not used, because they flush denormals, which our arithmetic keeps.
 */
#ifndef AH_RUNTIME_DEVICE_HOST_X16_AVX512_H
#define AH_RUNTIME_DEVICE_HOST_X16_AVX512_H

#include "base/philox.h"

#include <immintrin.h>
#include <stdint.h>

#define X16_TABLE ah_kernels_avx512
#define X16_ENTRY static __attribute__((target("avx512f,avx2,fma")))
#define X16_FN    static inline __attribute__((always_inline, unused, target("avx512f,avx2,fma")))

struct x16f {
    __m512 v;
};

struct x16u {
    __m512i v;
};

X16_FN struct x16f x16_set(float value)
{
    return (struct x16f){_mm512_set1_ps(value)};
}

X16_FN struct x16f x16_load(const float *from)
{
    return (struct x16f){_mm512_loadu_ps(from)};
}

X16_FN void x16_store(float *to, struct x16f a)
{
    _mm512_storeu_ps(to, a.v);
}

X16_FN struct x16f x16_add(struct x16f a, struct x16f b)
{
    return (struct x16f){_mm512_add_ps(a.v, b.v)};
}

X16_FN struct x16f x16_mul(struct x16f a, struct x16f b)
{
    return (struct x16f){_mm512_mul_ps(a.v, b.v)};
}

X16_FN struct x16f x16_div(struct x16f a, struct x16f b)
{
    return (struct x16f){_mm512_div_ps(a.v, b.v)};
}

X16_FN struct x16f x16_sqrt(struct x16f a)
{
    return (struct x16f){_mm512_sqrt_ps(a.v)};
}

X16_FN struct x16f x16_sub(struct x16f a, struct x16f b)
{
    return (struct x16f){_mm512_sub_ps(a.v, b.v)};
}

X16_FN struct x16f x16_max(struct x16f a, struct x16f b)
{
    return (struct x16f){_mm512_max_ps(a.v, b.v)};
}

X16_FN struct x16f x16_min(struct x16f a, struct x16f b)
{
    return (struct x16f){_mm512_min_ps(a.v, b.v)};
}

X16_FN struct x16f x16_where_less(struct x16f a, struct x16f b, struct x16f yes, struct x16f no)
{
    return (struct x16f){_mm512_mask_blend_ps(_mm512_cmp_ps_mask(a.v, b.v, _CMP_LT_OQ), no.v, yes.v)};
}

X16_FN struct x16f x16_abs(struct x16f a)
{
    return (struct x16f){_mm512_abs_ps(a.v)};
}

X16_FN struct x16f x16_below(struct x16f a)
{
    __m512i sign = _mm512_set1_epi32(INT32_MIN);
    return (struct x16f){_mm512_castsi512_ps(_mm512_or_si512(sign, _mm512_castps_si512(a.v)))};
}

X16_FN struct x16f x16_power(struct x16f a)
{
    __m512i exponent = _mm512_slli_epi32(_mm512_castps_si512(a.v), 23);
    return (struct x16f){_mm512_castsi512_ps(_mm512_add_epi32(exponent, _mm512_set1_epi32(0x3f800000)))};
}

X16_FN struct x16f x16_fma(struct x16f a, struct x16f b, struct x16f c)
{
    return (struct x16f){_mm512_fmadd_ps(a.v, b.v, c.v)};
}

X16_FN float x16_sum(struct x16f a)
{
    __m256 upper = _mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd(a.v), 1));
    __m256 eight = _mm256_add_ps(_mm512_castps512_ps256(a.v), upper);
    __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

X16_FN float x16_largest(struct x16f a)
{
    __m256 upper = _mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd(a.v), 1));
    __m256 eight = _mm256_max_ps(_mm512_castps512_ps256(a.v), upper);
    __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
}

X16_FN struct x16u x16_words_set(uint32_t value)
{
    return (struct x16u){_mm512_set1_epi32((int)value)};
}

X16_FN struct x16u x16_words_high(struct x16u a)
{
    return (struct x16u){_mm512_srli_epi32(a.v, 16)};
}

X16_FN struct x16u x16_words_low(struct x16u a)
{
    return (struct x16u){_mm512_and_si512(a.v, _mm512_set1_epi32(0xffff))};
}

/* Computes ten rounds for eight draws, one per 64-bit lane. Words are in lower halves; upper halves never matter. */
X16_FN void x8_philox(const uint32_t counter[4], const uint32_t key[2], __m512i draws, __m512i w[4])
{
    const __m512i multiplier0 = _mm512_set1_epi64(AH_PHILOX_M0);
    const __m512i multiplier1 = _mm512_set1_epi64(AH_PHILOX_M1);
    w[0] = _mm512_add_epi32(_mm512_set1_epi64(counter[0]), draws);
    w[1] = _mm512_set1_epi64(counter[1]);
    w[2] = _mm512_set1_epi64(counter[2]);
    w[3] = _mm512_set1_epi64(counter[3]);
    for (uint32_t round = 0; round < AH_PHILOX_ROUNDS; round++) {
        __m512i key0 = _mm512_set1_epi64(key[0] + round * AH_PHILOX_W0);
        __m512i key1 = _mm512_set1_epi64(key[1] + round * AH_PHILOX_W1);
        __m512i product0 = _mm512_mul_epu32(w[0], multiplier0);
        __m512i product1 = _mm512_mul_epu32(w[2], multiplier1);
        /* 0x96: exclusive or of all three */
        w[0] = _mm512_ternarylogic_epi32(_mm512_srli_epi64(product1, 32), w[1], key0, 0x96);
        w[2] = _mm512_ternarylogic_epi32(_mm512_srli_epi64(product0, 32), w[3], key1, 0x96);
        w[1] = product1;
        w[3] = product0;
    }
}

/* Puts random draw 4 j + k into lane 4 k + j, so a 4 x 4 transposition in each quarter puts every word in its place. */
X16_FN void x16_philox(const uint32_t counter[4], const uint32_t key[2], struct x16u ret_words[4])
{
    const __m512i draws = _mm512_set_epi64(11, 3, 10, 2, 9, 1, 8, 0);
    __m512i even[4], odd[4], w[4];
    x8_philox(counter, key, draws, even);
    x8_philox(counter, key, _mm512_add_epi64(draws, _mm512_set1_epi64(4)), odd);
    for (int i = 0; i < 4; i++)
        w[i] = _mm512_mask_blend_epi32(0xaaaa, even[i], _mm512_slli_epi64(odd[i], 32));
    __m512i a = _mm512_unpacklo_epi32(w[0], w[1]), b = _mm512_unpackhi_epi32(w[0], w[1]);
    __m512i c = _mm512_unpacklo_epi32(w[2], w[3]), d = _mm512_unpackhi_epi32(w[2], w[3]);
    ret_words[0].v = _mm512_unpacklo_epi64(a, c);
    ret_words[1].v = _mm512_unpackhi_epi64(a, c);
    ret_words[2].v = _mm512_unpacklo_epi64(b, d);
    ret_words[3].v = _mm512_unpackhi_epi64(b, d);
}

X16_FN struct x16f x16_load_bf16(const uint16_t *from)
{
    __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(const void *)from));
    return (struct x16f){_mm512_castsi512_ps(_mm512_slli_epi32(wide, 16))};
}

X16_FN __m256i x16_upper(struct x16f a, struct x16u addend)
{
    __m512i bits = _mm512_castps_si512(a.v);
    __mmask16 nan = _mm512_cmp_ps_mask(a.v, a.v, _CMP_UNORD_Q);
    __m512i sum = _mm512_add_epi32(bits, addend.v);
    sum = _mm512_mask_or_epi32(sum, nan, bits, _mm512_set1_epi32(0x400000));
    return _mm512_cvtepi32_epi16(_mm512_srli_epi32(sum, 16));
}

X16_FN struct x16u x16_even_addend(struct x16f a)
{
    __m512i odd = _mm512_and_si512(_mm512_srli_epi32(_mm512_castps_si512(a.v), 16), _mm512_set1_epi32(1));
    return (struct x16u){_mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff))};
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
    __m512i line = _mm512_castsi256_si512(x16_upper(low, x16_even_addend(low)));
    line = _mm512_inserti64x4(line, x16_upper(high, x16_even_addend(high)), 1);
    _mm512_stream_si512((__m512i *)(void *)to, line);
}

X16_FN void x16_stream_line(void *to, const void *from)
{
    _mm512_stream_si512((__m512i *)to, _mm512_loadu_si512(from));
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
