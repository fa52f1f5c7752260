/* SPDX-License-Identifier: Apache-2.0
 *
 * Blocking: how a matrix product is cut, from its shape alone (and whether the
 * processor has AMX), so that its bits do not depend on threads.
 *
 *     tile     what one primitive computes: rows x columns of c
 *     unit     what one thread does at a time: packs the columns of b that a tile needs into memory of its own, and
 *              computes the tiles of several rows with them while they are in its cache
 *     chunk    the part of k that is multiplied at once; more than one only for very long k, added in order
 *     group    the rows of a that are packed into the workspace together
 *
 * Last tiles, units, chunks and groups are what is left. A group is whole units, a unit whole tiles.
 */
#ifndef AH_RUNTIME_DEVICE_CPU_BLOCKING_H
#define AH_RUNTIME_DEVICE_CPU_BLOCKING_H

#include "runtime/device/cpu/matmul.h"

struct ah_blocking {
    uint64_t tile_m;
    uint64_t tile_n;
    uint64_t chunk_k;
    uint64_t unit_m;
    uint64_t group_m;
    uint64_t row_k; /* of a packed a: chunk_k, padded where the last chunk is */
    bool packs_a;   /* a is not rows of chunk_k as it lies */
};

/* `pads`: products of bf16 take whole blocks of k only (pack.h), as AMX needs it. */
struct ah_blocking ah_blocking_of(const struct ah_matmul_shape *shape, bool pads);

/* Elements of k that are multiplied for a chunk of `k`. */
uint64_t ah_blocking_padded_k(const struct ah_matmul_shape *shape, bool pads, uint64_t k);

/* ceil(whole / part) */
uint64_t ah_blocking_parts(uint64_t whole, uint64_t part);

/* Size of part `i`. */
uint64_t ah_blocking_part(uint64_t whole, uint64_t part, uint64_t i);

#endif
