/* SPDX-License-Identifier: Apache-2.0
 *
 * Blocks of pack.c in plain C.
 */
#include "runtime/device/tile/pack_internal.h"

#include <string.h>

/* Loads the piece of the source's i-th row or, if paired, of its i-th two rows. */
static void load_piece(uint32_t piece[AH_PACK_PIECE], const struct ah_pack_source *source, size_t i)
{
    const bool paired = ah_pack_is_paired(source);
    const unsigned char *from = source->from + (paired ? 2 * i : i) * source->row_bytes;
    uint16_t low[AH_PACK_PIECE] = {0}, high[AH_PACK_PIECE];
    if (source->word != AH_PACK_EXPANDED && !paired) {
        memcpy(piece, from, AH_PACK_PIECE_BYTES);
        return;
    }
    if (paired)
        memcpy(low, from, sizeof low);
    memcpy(high, paired ? from + source->row_bytes : from, sizeof high);
    for (size_t j = 0; j < AH_PACK_PIECE; j++)
        piece[j] = (uint32_t)high[j] << 16 | low[j];
}

static void turn_plain(unsigned char *to, size_t to_bytes, const struct ah_pack_source *source)
{
    uint32_t square[AH_PACK_PIECE][AH_PACK_PIECE];
    uint32_t transposed[AH_PACK_PIECE];
    for (size_t i = 0; i < AH_PACK_PIECE; i++)
        load_piece(square[i], source, i);
    for (size_t i = 0; i < AH_PACK_PIECE; i++) {
        for (size_t j = 0; j < AH_PACK_PIECE; j++)
            transposed[j] = square[j][i];
        memcpy(to + i * to_bytes, transposed, sizeof transposed);
    }
}

static void copy_plain(unsigned char *to, size_t to_bytes, const struct ah_pack_source *source)
{
    struct ah_pack_source second = *source;
    uint32_t piece[AH_PACK_PIECE];
    second.from += ah_pack_piece_bytes(source);
    for (size_t i = 0; i < AH_PACK_PIECE; i++) {
        load_piece(piece, source, i);
        memcpy(to + i * to_bytes, piece, sizeof piece);
        load_piece(piece, &second, i);
        memcpy(to + i * to_bytes + AH_PACK_PIECE_BYTES, piece, sizeof piece);
    }
}

static void copy_row_plain(unsigned char *to, const struct ah_pack_source *source, uint64_t pieces)
{
    struct ah_pack_source from = *source;
    for (uint64_t i = 0; i < pieces; i++, from.from += ah_pack_piece_bytes(source)) {
        uint32_t piece[AH_PACK_PIECE];
        load_piece(piece, &from, 0);
        memcpy(to + i * AH_PACK_PIECE_BYTES, piece, sizeof piece);
    }
}

const struct ah_pack_blocks ah_pack_blocks_portable = {turn_plain, copy_plain, copy_row_plain};
