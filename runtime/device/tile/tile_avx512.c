/* SPDX-License-Identifier: Apache-2.0
 *
 * Tiles with AVX-512, and with its bf16 dot products.
 */
#if defined(__x86_64__)

#include "runtime/device/tile/tile_internal.h"

#include "runtime/device/host/x16_avx512.h"

enum { GROUP_ROWS = 8, GROUP_VECTORS = 2 };

#define GROUP_FN AH_TILE_UNCHECKED X16_FN
#include "runtime/device/tile/tile.inc"

#define DOT_TARGET __attribute__((target("avx512f,avx512bf16")))

/* Like multiply_group() in tile.inc, for pairs of bf16. */
static inline __attribute__((always_inline)) DOT_TARGET void dot_group(float *sums, const uint32_t *a,
                                                                       const uint32_t *b, uint64_t words,
                                                                       bool is_first)
{
    __m512 sum[GROUP_ROWS][2];
#pragma GCC unroll 8
    for (size_t r = 0; r < GROUP_ROWS; r++) {
        sum[r][0] = is_first ? _mm512_setzero_ps() : _mm512_loadu_ps(sums + r * AH_TILE_COLUMNS);
        sum[r][1] = is_first ? _mm512_setzero_ps() : _mm512_loadu_ps(sums + r * AH_TILE_COLUMNS + 16);
    }
    for (uint64_t w = 0; w < words; w++) {
        __m512bh left = (__m512bh)_mm512_loadu_si512(b + w * AH_TILE_COLUMNS);
        __m512bh right = (__m512bh)_mm512_loadu_si512(b + w * AH_TILE_COLUMNS + 16);
#pragma GCC unroll 8
        for (size_t r = 0; r < GROUP_ROWS; r++) {
            __m512bh pair = (__m512bh)_mm512_set1_epi32((int)a[r * AH_TILE_WORDS + w]);
            sum[r][0] = _mm512_dpbf16_ps(sum[r][0], pair, left);
            sum[r][1] = _mm512_dpbf16_ps(sum[r][1], pair, right);
        }
    }
#pragma GCC unroll 8
    for (size_t r = 0; r < GROUP_ROWS; r++) {
        _mm512_storeu_ps(sums + r * AH_TILE_COLUMNS, sum[r][0]);
        _mm512_storeu_ps(sums + r * AH_TILE_COLUMNS + 16, sum[r][1]);
    }
}

DOT_TARGET static void multiply_dot(float *sums, const struct ah_tile_operands *operands, bool is_first)
{
    const uint32_t *a = operands->a;
    for (uint64_t r = 0; r < operands->rows; r += GROUP_ROWS)
        dot_group(sums + r * AH_TILE_COLUMNS, a + r * AH_TILE_WORDS, operands->b, operands->words, is_first);
}

/* Stores whole rows without bias. The conversion flushes denormals, but sums of dot and amx are never denormal. */
DOT_TARGET static void store_whole_bf16(const float *sums, const struct ah_tile_out *out)
{
    uint16_t *c = out->c;
    for (uint64_t r = 0; r < out->rows; r++, c += out->stride, sums += AH_TILE_COLUMNS)
        _mm512_storeu_si512(c,
                            (__m512i)_mm512_cvtne2ps_pbh(_mm512_loadu_ps(sums + 16), _mm512_loadu_ps(sums)));
}

void ah_tile_store_dot(const float *sums, const struct ah_tile_out *out)
{
    if (out->dtype == AH_BF16 && !out->bias && !out->accumulate && out->alpha == 1 &&
        out->columns == AH_TILE_COLUMNS)
        store_whole_bf16(sums, out);
    else
        store_tile(sums, out);
}

const struct ah_tile_kernel ah_tile_fma_avx512 = {
    .name = "fma_avx512",
    .isa = AH_ISA_AVX512,
    .words = AH_FP32,
    .tile_cycles = 560,
    .multiply = multiply_fma,
    .store = store_tile,
};

const struct ah_tile_kernel ah_tile_dot_avx512 = {
    .name = "dot_avx512",
    .isa = AH_ISA_AVX512,
    .words = AH_BF16,
    .tile_cycles = 560,
    .multiply = multiply_dot,
    .store = ah_tile_store_dot,
};

#else

typedef int ah_tile_avx512_has_no_code_here;

#endif
