/* SPDX-License-Identifier: Apache-2.0
 *
 * Blocking: how a matrix product is cut, from its shape alone, so that its bits do not depend on threads.
 *
 *     tile     what one thread computes at a time: rows x columns of c
 *     chunk    the part of k that is multiplied at once; more than one only for very long k, added in order
 *     group    the rows of a, or columns of b, that are packed into the workspace together
 *
 * Last tiles, chunks and groups are what is left. A group is a whole number of tiles.
 */
#ifndef AH_RUNTIME_DEVICE_CPU_BLOCKING_H
#define AH_RUNTIME_DEVICE_CPU_BLOCKING_H

#include "runtime/device/cpu/matmul.h"

/* Packed columns are brought in by pieces of so many: a multiple of every block oneDNN packs in. */
enum { AH_BLOCKING_PIECE = 192, AH_BLOCKING_PIECES = 16 };

struct ah_blocking {
    uint64_t tile_m;
    uint64_t tile_n; /* <= AH_BLOCKING_PIECE * AH_BLOCKING_PIECES */
    uint64_t chunk_k;
    uint64_t group_m;
    uint64_t group_n;
    uint64_t row_k; /* of a packed a: chunk_k, padded where the last chunk is */
    bool packs_a;   /* a is not rows of chunk_k as it lies */
};

struct ah_blocking ah_blocking_of(const struct ah_matmul_shape *shape);

/* Elements of k that are multiplied for a chunk of `k`: bf16 is padded with zeros to whole blocks (pack.h). */
uint64_t ah_blocking_padded_k(const struct ah_matmul_shape *shape, uint64_t k);

/* ceil(whole / part) */
uint64_t ah_blocking_parts(uint64_t whole, uint64_t part);

/* Size of part `i`. */
uint64_t ah_blocking_part(uint64_t whole, uint64_t part, uint64_t i);

#endif
