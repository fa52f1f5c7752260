/* SPDX-License-Identifier: Apache-2.0
 *
 * Blocking: how a matrix product is cut into parts.
 *
 *     tile     32 x 32 elements of c, which a kernel computes (tile.h)
 *     strip    32 rows of c
 *     unit     a rectangle of c that a thread computes at a time; it packs columns of b and strips of a only once
 *     step     the part of k that one call of a kernel multiplies, so that a and b stay in the first-level cache
 *     chunk    the part of k for which a unit's packed columns of b stay in the second-level cache; whole steps
 *
 * Chunks and steps depend on the shape only, and each element of c is summed over all of k in order. Units also depend
 * on the number of threads, which changes no bits, as elements share nothing. The last part may be smaller.
 *
 * A thread's memory for packing follows from the blocking. All functions are pure, so plans use them as well.
 */
#ifndef AH_RUNTIME_DEVICE_TILE_BLOCKING_H
#define AH_RUNTIME_DEVICE_TILE_BLOCKING_H

#include "runtime/device/op.h"
#include "runtime/device/tile/tile.h"

struct ah_matmul_shape {
    enum ah_matmul_form form;
    enum ah_dtype in;  /* of a and b */
    enum ah_dtype out; /* of c */
    bool has_bias;
    enum ah_dtype bias;
    bool accumulate;
    uint64_t m, n, k;
};

struct ah_blocking {
    uint64_t unit_m; /* unit_m and unit_n are multiples of the tile's sizes */
    uint64_t unit_n;
    uint64_t chunk_k;
    uint64_t step_k;
};

struct ah_blocking ah_blocking_of(const struct ah_matmul_shape *shape, const struct ah_tile_kernel *kernel,
                                  unsigned threads);

/* Offsets in a thread's memory: packed a, packed b, and sums. */
struct ah_blocking_memory {
    size_t a;
    size_t b;
    size_t sums;
    size_t end; /* number of bytes in all */
};

/* Returns the shape of an op of kind `matmul`. */
struct ah_matmul_shape ah_blocking_shape(const struct ah_op *op);

struct ah_blocking_memory ah_blocking_memory_of(const struct ah_matmul_shape *shape,
                                                const struct ah_tile_kernel *kernel,
                                                const struct ah_blocking *blocking);

/* Returns an upper bound, for the kernels of any processor, on the bytes that each of `threads` threads needs. */
uint64_t ah_blocking_bytes(const struct ah_matmul_shape *shape, unsigned threads);

/* True if all sums of a unit are kept from chunk to chunk; otherwise only those of a strip are kept. */
bool ah_blocking_keeps_sums(const struct ah_matmul_shape *shape, const struct ah_blocking *blocking);

/* Returns ceil(whole / part). */
uint64_t ah_blocking_parts(uint64_t whole, uint64_t part);

/* Returns the size of part `i`; the last part may be smaller. */
uint64_t ah_blocking_part(uint64_t whole, uint64_t part, uint64_t i);

#endif
