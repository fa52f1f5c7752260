/* SPDX-License-Identifier: Apache-2.0
 *
 * The inner loops of pack.c for each instruction set: pack_portable.c, pack_avx2.c and pack_avx512.c. A piece is 16
 * words that are packed next to each other.
 */
#ifndef AH_RUNTIME_DEVICE_TILE_PACK_INTERNAL_H
#define AH_RUNTIME_DEVICE_TILE_PACK_INTERNAL_H

#include "runtime/device/tile/pack.h"

enum { AH_PACK_PIECE = AH_PACK_WORDS, AH_PACK_PIECE_BYTES = AH_PACK_PIECE * 4 };

/* What a packed word is made from. */
enum ah_pack_word { AH_PACK_FP32, AH_PACK_PAIRS, AH_PACK_EXPANDED };

/* Where pieces start in the matrix: one or two in each of 16 rows, or several in one row. */
struct ah_pack_source {
    const unsigned char *from;
    size_t row_bytes;
    enum ah_pack_word word;
    bool k_in_rows; /* as in the matrix; if true, a pair is made from two rows */
};

struct ah_pack_blocks {
    /* Transposes 16 x 16 words; packed rows are `to_bytes` apart. */
    void (*turn)(unsigned char *to, size_t to_bytes, const struct ah_pack_source *source);
    /* Copies two pieces of each of 16 rows. */
    void (*copy)(unsigned char *to, size_t to_bytes, const struct ah_pack_source *source);
    /* Copies pieces that follow each other in one row, in the matrix and packed. Never makes pairs from two rows. */
    void (*copy_row)(unsigned char *to, const struct ah_pack_source *source, uint64_t pieces);
};

extern const struct ah_pack_blocks ah_pack_blocks_portable;
extern const struct ah_pack_blocks ah_pack_blocks_avx2; /* lacks pairs, which no AVX2 kernel reads */
extern const struct ah_pack_blocks ah_pack_blocks_avx512;

/* True if a word is made from two rows. */
static inline bool ah_pack_is_paired(const struct ah_pack_source *source)
{
    return source->word == AH_PACK_PAIRS && source->k_in_rows;
}

/* Returns the bytes of a piece in a row of the matrix. */
static inline size_t ah_pack_piece_bytes(const struct ah_pack_source *source)
{
    return ah_pack_is_paired(source) || source->word == AH_PACK_EXPANDED ? AH_PACK_PIECE_BYTES / 2
                                                                         : AH_PACK_PIECE_BYTES;
}

#endif
