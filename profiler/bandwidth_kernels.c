/* SPDX-License-Identifier: Apache-2.0
 *
 * The four passes of bandwidth.h. Each body is inlined into one function for each instruction set, where the
 * compiler vectorises it for that set.
 *
 * Arrays always hold floats in [1, 2): no pass meets a denormal or a NaN, which some processors are slow
 * with.
 */
#include "profiler/bandwidth_internal.h"

#include <stdint.h>

#define ONES UINT64_C(0x3f8000003f800000) /* two floats, 1 each */
#define LOW  UINT64_C(0x000007ff000007ff) /* bits of their mantissas */

#define BODY static inline __attribute__((always_inline)) void

BODY read_words(void *a, void *b, size_t words)
{
    const uint64_t *from = a;
    uint64_t sum = 0;
    for (size_t i = 0; i < words; i++)
        sum ^= from[i];
    *(volatile uint64_t *)b = ONES ^ (sum & LOW);
}

BODY write_words(void *a, void *b, size_t words)
{
    uint64_t *to = a;
    (void)b;
    for (size_t i = 0; i < words; i++)
        to[i] = ONES ^ (i & LOW);
}

BODY copy_words(void *a, void *b, size_t words)
{
    uint64_t *restrict to = a;
    const uint64_t *restrict from = b;
    for (size_t i = 0; i < words; i++)
        to[i] = from[i] ^ (LOW & (LOW >> 1));
}

BODY scale_words(void *a, void *b, size_t words)
{
    const volatile float one = 1.0f; /* the compiler may not know that nothing changes */
    float *x = a;
    float factor = one;
    (void)b;
    for (size_t i = 0; i < 2 * words; i++)
        x[i] *= factor;
}

#define KERNEL(pattern, isa, attributes)                                                                     \
    attributes static void pattern##_##isa(void *a, void *b, size_t words)                                   \
    {                                                                                                        \
        pattern##_words(a, b, words);                                                                        \
    }

#define KERNELS(isa, attributes)                                                                             \
    KERNEL(read, isa, attributes)                                                                            \
    KERNEL(write, isa, attributes)                                                                           \
    KERNEL(copy, isa, attributes)                                                                            \
    KERNEL(scale, isa, attributes)                                                                           \
    static const struct ah_bandwidth_kernels isa = {{read_##isa, write_##isa, copy_##isa, scale_##isa}};

KERNELS(portable, )

#if defined(__x86_64__)

KERNELS(avx2, __attribute__((target("avx2"))))
KERNELS(avx512, __attribute__((target("avx512f,avx512bw,avx512vl"))))

#else

#define avx2   portable
#define avx512 portable

#endif

const struct ah_bandwidth_kernels *ah_bandwidth_kernels(enum ah_isa isa)
{
    static const struct ah_bandwidth_kernels *const table[] = {
        [AH_ISA_PORTABLE] = &portable, [AH_ISA_AVX2] = &avx2, [AH_ISA_AVX512] = &avx512};
    return table[isa];
}
