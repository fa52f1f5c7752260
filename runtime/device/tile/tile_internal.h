/* SPDX-License-Identifier: Apache-2.0
 *
 * The kernels of tile.h for each instruction set. tile_portable.c, tile_avx2.c and tile_avx512.c each include one
 * x16_*.h and the functions in tile.inc; tile_amx.c stores with AVX-512.
 */
#ifndef AH_RUNTIME_DEVICE_TILE_TILE_INTERNAL_H
#define AH_RUNTIME_DEVICE_TILE_TILE_INTERNAL_H

#include "runtime/device/tile/tile.h"

extern const struct ah_tile_kernel ah_tile_fma_portable;
extern const struct ah_tile_kernel ah_tile_fma_avx2;
extern const struct ah_tile_kernel ah_tile_fma_avx512;
extern const struct ah_tile_kernel ah_tile_dot_avx512;
extern const struct ah_tile_kernel ah_tile_amx;

/* For a loop over registers whose twin in plain C uses the same memory: the sanitizers of addresses and of undefined
 * behaviour check the twin. */
#define AH_TILE_UNCHECKED __attribute__((no_sanitize("address", "undefined")))

/* Stores a tile of sums as `out` says. */
void ah_tile_store_dot(const float *sums, const struct ah_tile_out *out);

/* Asks the system for AMX. True if the processor has AMX for bf16 and the system lets this process use it. */
bool ah_tile_amx_permitted(void);

#endif
