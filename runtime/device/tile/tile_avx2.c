/* SPDX-License-Identifier: Apache-2.0
 *
 * Tiles with AVX2.
 */
#if defined(__x86_64__)

#include "runtime/device/tile/tile_internal.h"

#include "runtime/device/host/x16_avx2.h"

enum { GROUP_ROWS = 6, GROUP_VECTORS = 1 };

#define GROUP_FN AH_TILE_UNCHECKED X16_FN
#include "runtime/device/tile/tile.inc"

const struct ah_tile_kernel ah_tile_fma_avx2 = {
    .name = "fma_avx2",
    .isa = AH_ISA_AVX2,
    .words = AH_FP32,
    .tile_cycles = 1060,
    .multiply = multiply_fma,
    .store = store_tile,
};

#else

typedef int ah_tile_avx2_has_no_code_here;

#endif
