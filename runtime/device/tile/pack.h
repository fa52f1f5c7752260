/* SPDX-License-Identifier: Apache-2.0
 *
 * Pack: copies operands of matrix products into the order in which tiles read them (tile.h). The kernel decides what a
 * word is: fp32, a pair of bf16 along k, or fp32 made from bf16.
 *
 * A packed b is panels of AH_TILE_COLUMNS columns; a row of a panel holds one word of each column. A packed a is
 * AH_TILE_ROWS rows of AH_TILE_WORDS words. Packing fills missing elements with zeros: k up to a multiple of 16 words
 * and, in b, the last panel's columns. It does not fill missing rows of a.
 *
 * Pure functions; nothing need be aligned. Nothing outside the matrix's elements is read.
 */
#ifndef AH_RUNTIME_DEVICE_TILE_PACK_H
#define AH_RUNTIME_DEVICE_TILE_PACK_H

#include "runtime/device/tile/tile.h"

enum { AH_PACK_WORDS = 16 };

/* An operand of `k` by `other` elements: `other` is n for b and m for a. */
struct ah_pack_matrix {
    const void *data;
    enum ah_dtype dtype;
    uint64_t k;
    uint64_t other;
    uint64_t stride; /* elements from row to row */
    bool k_in_rows;  /* true: k rows of `other` elements; false: `other` rows of k elements */
};

/* Returns the number of words into which `k` elements are packed: a multiple of AH_PACK_WORDS. */
uint64_t ah_pack_words(const struct ah_tile_kernel *kernel, uint64_t k);

/* Packs b, panel after panel. */
void ah_pack_b(void *dst, const struct ah_tile_kernel *kernel, const struct ah_pack_matrix *b);

/* Packs a: at most AH_TILE_ROWS rows, with k of at most AH_TILE_WORDS words. */
void ah_pack_a(void *dst, const struct ah_tile_kernel *kernel, const struct ah_pack_matrix *a);

/* Prefetches part `part` of `parts` of a matrix that will be packed soon. */
void ah_pack_prefetch(const struct ah_pack_matrix *matrix, uint64_t part, uint64_t parts);

#endif
