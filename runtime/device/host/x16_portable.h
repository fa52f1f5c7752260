/* SPDX-License-Identifier: Apache-2.0
 *
 * Sixteen lanes at once in plain C: defines what every x16_ function means.
 *
 * The kernels (adamw.inc, convert.inc, reduce.inc) are written once against these functions and compiled three times;
 * x16_avx2.h and x16_avx512.h give the same bits with wider registers. Every operation is IEEE, rounded to nearest
 * even, with denormals kept; only the bits of a NaN may differ. x16f holds floats, x16u unsigned 32-bit words.
 */
#ifndef AH_RUNTIME_DEVICE_HOST_X16_PORTABLE_H
#define AH_RUNTIME_DEVICE_HOST_X16_PORTABLE_H

#include "base/philox.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

/* No forced inlining here: loops over lanes in every table entry would make the code very large. */
#define X16_TABLE ah_kernels_portable
#define X16_ENTRY static
#define X16_FN    static inline __attribute__((unused))

struct x16f {
    float lane[16];
};

struct x16u {
    uint32_t lane[16];
};

#define X16_EACH for (int i = 0; i < 16; i++)

X16_FN struct x16f x16_set(float value)
{
    struct x16f r;
    X16_EACH r.lane[i] = value;
    return r;
}

X16_FN struct x16f x16_load(const float *from)
{
    struct x16f r;
    memcpy(r.lane, from, sizeof r.lane);
    return r;
}

X16_FN void x16_store(float *to, struct x16f a)
{
    memcpy(to, a.lane, sizeof a.lane);
}

X16_FN struct x16f x16_add(struct x16f a, struct x16f b)
{
    X16_EACH a.lane[i] += b.lane[i];
    return a;
}

X16_FN struct x16f x16_mul(struct x16f a, struct x16f b)
{
    X16_EACH a.lane[i] *= b.lane[i];
    return a;
}

X16_FN struct x16f x16_div(struct x16f a, struct x16f b)
{
    X16_EACH a.lane[i] /= b.lane[i];
    return a;
}

X16_FN struct x16f x16_sqrt(struct x16f a)
{
    X16_EACH a.lane[i] = sqrtf(a.lane[i]);
    return a;
}

X16_FN struct x16f x16_sub(struct x16f a, struct x16f b)
{
    X16_EACH a.lane[i] -= b.lane[i];
    return a;
}

/* Return the larger or smaller of a and b, and b if they are equal or one is a NaN. */
X16_FN struct x16f x16_max(struct x16f a, struct x16f b)
{
    X16_EACH a.lane[i] = a.lane[i] > b.lane[i] ? a.lane[i] : b.lane[i];
    return a;
}

X16_FN struct x16f x16_min(struct x16f a, struct x16f b)
{
    X16_EACH a.lane[i] = a.lane[i] < b.lane[i] ? a.lane[i] : b.lane[i];
    return a;
}

/* Returns `yes` in lanes where a < b, `no` in all others, also for a NaN. */
X16_FN struct x16f x16_where_less(struct x16f a, struct x16f b, struct x16f yes, struct x16f no)
{
    X16_EACH a.lane[i] = a.lane[i] < b.lane[i] ? yes.lane[i] : no.lane[i];
    return a;
}

X16_FN struct x16f x16_abs(struct x16f a)
{
    X16_EACH a.lane[i] = fabsf(a.lane[i]);
    return a;
}

/* Returns -|a|. */
X16_FN struct x16f x16_below(struct x16f a)
{
    X16_EACH a.lane[i] = -fabsf(a.lane[i]);
    return a;
}

/* Returns 2^n for a = n + 1.5 * 2^23, n whole, -126 to 127; 0 for n = -127, infinity for 128. Other n: undefined. */
X16_FN struct x16f x16_power(struct x16f a)
{
    struct x16u bits;
    memcpy(&bits, &a, sizeof bits);
    X16_EACH bits.lane[i] = (bits.lane[i] << 23) + 0x3f800000;
    memcpy(&a, &bits, sizeof a);
    return a;
}

/* Returns a * b + c, rounded once. */
X16_FN struct x16f x16_fma(struct x16f a, struct x16f b, struct x16f c)
{
    X16_EACH a.lane[i] = fmaf(a.lane[i], b.lane[i], c.lane[i]);
    return a;
}

/* Returns the sum of lanes: adds lanes i and i + 8, then i and i + 4, i + 2, i + 1, as the canonical tree ends. */
X16_FN float x16_sum(struct x16f a)
{
    for (int half = 8; half >= 1; half /= 2)
        for (int i = 0; i < half; i++)
            a.lane[i] += a.lane[i + half];
    return a.lane[0];
}

X16_FN float x16_largest(struct x16f a)
{
    for (int half = 8; half >= 1; half /= 2)
        for (int i = 0; i < half; i++)
            a.lane[i] = a.lane[i] > a.lane[i + half] ? a.lane[i] : a.lane[i + half];
    return a.lane[0];
}

X16_FN struct x16u x16_words_set(uint32_t value)
{
    struct x16u r;
    X16_EACH r.lane[i] = value;
    return r;
}

X16_FN struct x16u x16_words_high(struct x16u a)
{
    X16_EACH a.lane[i] >>= 16;
    return a;
}

X16_FN struct x16u x16_words_low(struct x16u a)
{
    X16_EACH a.lane[i] &= 0xffff;
    return a;
}

/* Returns the words of 16 random draws, the first of which is a multiple of 16. Word w of draw counter + d, four draws
 * per vector, is ret_words[d / 4].lane[4 (d % 4) + w]. */
X16_FN void x16_philox(const uint32_t counter[4], const uint32_t key[2], struct x16u ret_words[4])
{
    for (uint32_t d = 0; d < 16; d++) {
        const uint32_t each[4] = {counter[0] + d, counter[1], counter[2], counter[3]};
        ah_philox_bits(each, key, ret_words[d / 4].lane + d % 4 * 4);
    }
}

X16_FN struct x16f x16_load_bf16(const uint16_t *from)
{
    uint16_t halves[16];
    struct x16u bits;
    struct x16f r;
    memcpy(halves, from, sizeof halves);
    X16_EACH bits.lane[i] = (uint32_t)halves[i] << 16;
    memcpy(&r, &bits, sizeof r);
    return r;
}

/* Stores bf16: the upper halves of bits + addend. A NaN becomes the quiet NaN with the same upper bits. */
X16_FN void x16_store_upper(uint16_t *to, struct x16f a, struct x16u addend)
{
    uint16_t halves[16];
    struct x16u bits;
    memcpy(&bits, &a, sizeof bits);
    X16_EACH
    {
        uint32_t nan = (bits.lane[i] & 0x7fffffff) > 0x7f800000;
        uint32_t sum = nan ? bits.lane[i] | 0x400000 : bits.lane[i] + addend.lane[i];
        halves[i] = (uint16_t)(sum >> 16);
    }
    memcpy(to, halves, sizeof halves);
}

/* Stores bf16, rounded to nearest even. */
X16_FN void x16_store_bf16(uint16_t *to, struct x16f a)
{
    struct x16u bits, addend;
    memcpy(&bits, &a, sizeof bits);
    X16_EACH addend.lane[i] = 0x7fff + (bits.lane[i] >> 16 & 1);
    x16_store_upper(to, a, addend);
}

/* Stores two vectors as 32 bf16, rounded to nearest even, past the caches if possible; `to` is 64-byte aligned. */
X16_FN void x16_stream_bf16(uint16_t *to, struct x16f low, struct x16f high)
{
    x16_store_bf16(to, low);
    x16_store_bf16(to + 16, high);
}

/* Copies a whole cache line past the caches; `to` is 64-byte aligned. */
X16_FN void x16_stream_line(void *to, const void *from)
{
    memcpy(to, from, 64);
}

X16_FN void x16_prefetch(const void *at)
{
    __builtin_prefetch(at);
}

/* Makes other threads see the streamed stores. */
X16_FN void x16_stream_end(void)
{
}

#undef X16_EACH

#endif
