/* SPDX-License-Identifier: Apache-2.0
 *
 * Pack: brings operands of matrix products into the order in which tiles read them (tile.h). The words are the
 * kernel's: fp32, pairs of bf16 along k, or fp32 made from bf16.
 *
 * A packed b is panels of AH_TILE_COLUMNS columns; a panel is rows of one word of each column. A packed a is
 * AH_TILE_ROWS rows of AH_TILE_WORDS words. What the matrix does not have (columns of the last panel, k up to 16
 * whole words) becomes zeros in b and, in the rows that are there, in a.
 *
 * Pure functions; nothing need be aligned. Strides make the matrix: nothing outside its elements is read.
 */
#ifndef AH_RUNTIME_DEVICE_TILE_PACK_H
#define AH_RUNTIME_DEVICE_TILE_PACK_H

#include "runtime/device/tile/tile.h"

enum { AH_PACK_WORDS = 16 };

/* An operand of `k` by `other` elements: `other` is n of b, m of a. */
struct ah_pack_matrix {
    const void *data;
    enum ah_dtype dtype;
    uint64_t k;
    uint64_t other;
    uint64_t stride; /* elements from row to row, as it lies */
    bool k_in_rows;  /* each row is a k, with `other` elements; else each row has k elements */
};

/* Words that `k` elements of an operand are packed into: a multiple of AH_PACK_WORDS. */
uint64_t ah_pack_words(const struct ah_tile_kernel *kernel, uint64_t k);

/* Packs b; panels follow each other. */
void ah_pack_b(void *dst, const struct ah_tile_kernel *kernel, const struct ah_pack_matrix *b);

/* Packs a, of at most AH_TILE_ROWS rows and k of AH_TILE_WORDS words. */
void ah_pack_a(void *dst, const struct ah_tile_kernel *kernel, const struct ah_pack_matrix *a);

/* Asks for part `part` of `parts` of what is packed soon. */
void ah_pack_prefetch(const struct ah_pack_matrix *matrix, uint64_t part, uint64_t parts);

#endif
