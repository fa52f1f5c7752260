/* SPDX-License-Identifier: Apache-2.0
 *
 * Blocking: how a matrix product is cut.
 *
 *     tile     32 x 32 elements of c: what a kernel computes (tile.h)
 *     strip    32 rows of c
 *     unit     what a thread does at a time: a rectangle of c, for which it packs the columns of b once, and each
 *              strip of a once
 *     step     the part of k that a tile is multiplied by at once: what of a and b stays in the first cache
 *     chunk    the part of k for which a unit's packed columns of b stay in the second cache; whole steps
 *
 * Chunks and steps depend on the shape only, and each element of c is summed over all of k in order; units depend
 * on the number of threads too, which changes no bits, as nothing is shared between elements. Last parts are what
 * is left.
 */
#ifndef AH_RUNTIME_DEVICE_CPU_BLOCKING_H
#define AH_RUNTIME_DEVICE_CPU_BLOCKING_H

#include "runtime/device/cpu/matmul.h"
#include "runtime/device/tile/tile.h"

struct ah_blocking {
    uint64_t unit_m; /* multiples of a tile's */
    uint64_t unit_n;
    uint64_t chunk_k;
    uint64_t step_k;
};

struct ah_blocking ah_blocking_of(const struct ah_matmul_shape *shape, const struct ah_tile_kernel *kernel,
                                  unsigned threads);

/* ceil(whole / part) */
uint64_t ah_blocking_parts(uint64_t whole, uint64_t part);

/* Size of part `i`. */
uint64_t ah_blocking_part(uint64_t whole, uint64_t part, uint64_t i);

#endif
