/* SPDX-License-Identifier: Apache-2.0
 *
 * Sixteen lanes at once with AVX2 and FMA: two registers. Meanings are in x16_portable_internal.h.
 */
#ifndef AH_RUNTIME_DEVICE_CPU_X16_AVX2_INTERNAL_H
#define AH_RUNTIME_DEVICE_CPU_X16_AVX2_INTERNAL_H

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

X16_FN struct x16u x16_words_set(uint32_t value)
{
    return (struct x16u){_mm256_set1_epi32((int)value), _mm256_set1_epi32((int)value)};
}

X16_FN struct x16u x16_words_load(const uint32_t *from)
{
    const __m256i *at = (const __m256i *)(const void *)from;
    return (struct x16u){_mm256_loadu_si256(at), _mm256_loadu_si256(at + 1)};
}

X16_FN struct x16u x16_words_add(struct x16u a, struct x16u b)
{
    return (struct x16u){_mm256_add_epi32(a.low, b.low), _mm256_add_epi32(a.high, b.high)};
}

X16_FN struct x16u x16_words_xor(struct x16u a, struct x16u b)
{
    return (struct x16u){_mm256_xor_si256(a.low, b.low), _mm256_xor_si256(a.high, b.high)};
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

X16_FN void x8_words_product(__m256i a, __m256i b, __m256i *ret_high, __m256i *ret_low)
{
    __m256i even = _mm256_mul_epu32(a, b);
    __m256i odd = _mm256_mul_epu32(_mm256_srli_epi64(a, 32), _mm256_srli_epi64(b, 32));
    *ret_high = _mm256_blend_epi32(_mm256_srli_epi64(even, 32), odd, 0xaa);
    *ret_low = _mm256_blend_epi32(even, _mm256_slli_epi64(odd, 32), 0xaa);
}

X16_FN void x16_words_product(struct x16u a, struct x16u b, struct x16u *ret_high, struct x16u *ret_low)
{
    x8_words_product(a.low, b.low, &ret_high->low, &ret_low->low);
    x8_words_product(a.high, b.high, &ret_high->high, &ret_low->high);
}

X16_FN void x8_words_transpose(__m256i w0, __m256i w1, __m256i w2, __m256i w3, __m256i ret_out[4])
{
    __m256i a = _mm256_unpacklo_epi32(w0, w1);
    __m256i b = _mm256_unpackhi_epi32(w0, w1);
    __m256i c = _mm256_unpacklo_epi32(w2, w3);
    __m256i d = _mm256_unpackhi_epi32(w2, w3);
    ret_out[0] = _mm256_unpacklo_epi64(a, c);
    ret_out[1] = _mm256_unpackhi_epi64(a, c);
    ret_out[2] = _mm256_unpacklo_epi64(b, d);
    ret_out[3] = _mm256_unpackhi_epi64(b, d);
}

X16_FN void x16_words_transpose(const struct x16u words[4], struct x16u ret_out[4])
{
    __m256i low[4], high[4];
    x8_words_transpose(words[0].low, words[1].low, words[2].low, words[3].low, low);
    x8_words_transpose(words[0].high, words[1].high, words[2].high, words[3].high, high);
    for (int i = 0; i < 4; i++)
        ret_out[i] = (struct x16u){low[i], high[i]};
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
