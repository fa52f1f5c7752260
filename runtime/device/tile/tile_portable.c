/* SPDX-License-Identifier: Apache-2.0
 *
 * Tiles in plain C, and the functions that choose a kernel.
 */
#include "runtime/device/tile/tile_internal.h"

#include "runtime/device/host/x16_portable.h"

enum { GROUP_ROWS = 4, GROUP_VECTORS = 1 };

#define GROUP_FN X16_FN
#include "runtime/device/tile/tile.inc"

const struct ah_tile_kernel ah_tile_fma_portable = {
    .name = "fma_portable",
    .isa = AH_ISA_PORTABLE,
    .words = AH_FP32,
    .tile_cycles = 20000,
    .multiply = multiply_fma,
    .store = store_tile,
};

#if defined(__x86_64__)

enum ah_tile_level ah_tile_detect(void)
{
    static const enum ah_tile_level of_isa[] = {
        [AH_ISA_PORTABLE] = AH_TILE_PORTABLE, [AH_ISA_AVX2] = AH_TILE_AVX2, [AH_ISA_AVX512] = AH_TILE_AVX512};
    enum ah_tile_level level = of_isa[ah_isa_detect()];
    if (level == AH_TILE_AVX512 && ah_isa_has_avx512_bf16())
        return ah_tile_amx_permitted() ? AH_TILE_AMX : AH_TILE_AVX512_BF16;
    return level;
}

enum ah_tile_level ah_tile_choose(void)
{
    enum ah_tile_level level = ah_tile_detect();
    return level == AH_TILE_AVX512_BF16 && !ah_isa_has_fast_avx512_bf16() ? AH_TILE_AVX512 : level;
}

const struct ah_tile_kernel *ah_tile_kernel(enum ah_tile_level level, enum ah_dtype in)
{
    static const struct ah_tile_kernel *const kernels[AH_TILE_LEVELS][2] = {
        [AH_TILE_PORTABLE] = {[AH_FP32] = &ah_tile_fma_portable, [AH_BF16] = &ah_tile_fma_portable},
        [AH_TILE_AVX2] = {[AH_FP32] = &ah_tile_fma_avx2, [AH_BF16] = &ah_tile_fma_avx2},
        [AH_TILE_AVX512] = {[AH_FP32] = &ah_tile_fma_avx512, [AH_BF16] = &ah_tile_fma_avx512},
        [AH_TILE_AVX512_BF16] = {[AH_FP32] = &ah_tile_fma_avx512, [AH_BF16] = &ah_tile_dot_avx512},
        [AH_TILE_AMX] = {[AH_FP32] = &ah_tile_fma_avx512, [AH_BF16] = &ah_tile_amx},
    };
    return kernels[level][in];
}

#else

enum ah_tile_level ah_tile_detect(void)
{
    return AH_TILE_PORTABLE;
}

enum ah_tile_level ah_tile_choose(void)
{
    return AH_TILE_PORTABLE;
}

const struct ah_tile_kernel *ah_tile_kernel(enum ah_tile_level level, enum ah_dtype in)
{
    (void)level;
    (void)in;
    return &ah_tile_fma_portable;
}

#endif
