/* SPDX-License-Identifier: Apache-2.0
 *
 * The passes of bandwidth.c except scaling, which is a kernel of the CPU device. Each body is inlined into one function
 * per instruction set, and is vectorised there by the compiler.
 *
 * Arrays always hold floats in [1, 2), because denormals and NaNs are slow on some processors.
 */
#include "profiler/bandwidth_internal.h"

#include <stdint.h>

#define ONES UINT64_C(0x3f8000003f800000) /* two floats of value 1 */
#define LOW  UINT64_C(0x000007ff000007ff) /* low bits of their mantissas */

/* STEP: words in two cache lines. AHEAD_BYTES: how far ahead a pass prefetches, since a core's own prefetching does not
 * reach the full bandwidth. Prefetching beyond the end of an array is harmless. */
enum { STEP = 16, AHEAD_BYTES = 1024 };

#define BODY static inline __attribute__((always_inline)) void

BODY fetch(const uint64_t *words)
{
    const char *at = (const char *)words + AHEAD_BYTES;
    __builtin_prefetch(at);
    __builtin_prefetch(at + 64);
}

BODY read_words(void *a, void *b, size_t words)
{
    const uint64_t *from = a;
    uint64_t sums[STEP] = {0};
    uint64_t sum = 0;
    for (size_t i = 0; i < words; i += STEP) {
        fetch(from + i);
        for (size_t j = 0; j < STEP; j++)
            sums[j] ^= from[i + j];
    }
    for (size_t j = 0; j < STEP; j++)
        sum ^= sums[j];
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
    for (size_t i = 0; i < words; i += STEP) {
        fetch(from + i);
        for (size_t j = 0; j < STEP; j++)
            to[i + j] = from[i + j] ^ (LOW & (LOW >> 1));
    }
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
    static const struct ah_bandwidth_kernels isa = {{read_##isa, write_##isa, copy_##isa}};

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
