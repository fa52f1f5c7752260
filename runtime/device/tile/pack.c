/* SPDX-License-Identifier: Apache-2.0
 *
 * Packs operands of matrix products (pack.h). If k has the same direction before and after, rows are copied in pieces
 * of 16 words; otherwise squares of 16 x 16 words are transposed. The remaining words are packed one by one. All loops
 * read along the matrix's rows, so that the processor can prefetch.
 */
#include "runtime/device/tile/pack_internal.h"

#include <string.h>

enum { WORD_BYTES = 4, PIECE = AH_PACK_PIECE, PIECE_BYTES = AH_PACK_PIECE_BYTES, LINE_BYTES = 64 };

/* How an operand is packed. */
struct packing {
    const struct ah_pack_matrix *matrix;
    unsigned char *to;
    enum ah_pack_word word;
    uint64_t per_word;    /* elements per word */
    size_t row_bytes;     /* bytes between packed rows */
    size_t pair_bytes;    /* bytes from one pair of pieces to the next in a packed row */
    bool k_in_rows;       /* in the packed form */
    uint64_t rows, width; /* sizes of the packed form; width in words */
    const struct ah_pack_blocks *blocks;
};

#if defined(__x86_64__)
static const struct ah_pack_blocks *const blocks_of[] = {[AH_ISA_PORTABLE] = &ah_pack_blocks_portable,
                                                         [AH_ISA_AVX2] = &ah_pack_blocks_avx2,
                                                         [AH_ISA_AVX512] = &ah_pack_blocks_avx512};
#else
static const struct ah_pack_blocks *const blocks_of[] = {[AH_ISA_PORTABLE] = &ah_pack_blocks_portable};
#endif

uint64_t ah_pack_words(const struct ah_tile_kernel *kernel, uint64_t k)
{
    const uint64_t block = AH_PACK_WORDS * (kernel->words == AH_BF16 ? 2 : 1);
    return (k / block + (k % block != 0)) * AH_PACK_WORDS;
}

static const unsigned char *element(const struct ah_pack_matrix *matrix, uint64_t k, uint64_t other)
{
    uint64_t index = matrix->k_in_rows ? k * matrix->stride + other : other * matrix->stride + k;
    return (const unsigned char *)matrix->data + index * ah_dtype_bytes(matrix->dtype);
}

static size_t bytes_of_row(const struct ah_pack_matrix *matrix)
{
    return matrix->stride * ah_dtype_bytes(matrix->dtype);
}

/* Returns word `word` of row or column `other`; zeros where the matrix has no element. */
static uint32_t edge_word(const struct packing *packing, uint64_t word, uint64_t other)
{
    const struct ah_pack_matrix *matrix = packing->matrix;
    const uint64_t k = word * packing->per_word;
    uint16_t halves[2] = {0};
    uint32_t whole = 0;
    for (uint64_t i = 0; i < packing->per_word && k + i < matrix->k && other < matrix->other; i++)
        memcpy(packing->word == AH_PACK_FP32 ? (void *)&whole : &halves[i], element(matrix, k + i, other),
               ah_dtype_bytes(matrix->dtype));
    if (packing->word == AH_PACK_FP32)
        return whole;
    return packing->word == AH_PACK_PAIRS ? (uint32_t)halves[1] << 16 | halves[0] : (uint32_t)halves[0] << 16;
}

static unsigned char *place_of(const struct packing *packing, uint64_t row, uint64_t column)
{
    return packing->to + row * packing->row_bytes + column / (2 * PIECE) * packing->pair_bytes +
           column % (2 * PIECE) * WORD_BYTES;
}

/* Packs words [begin, end) of a packed row one by one. */
static void pack_edge(const struct packing *packing, uint64_t row, uint64_t begin, uint64_t end)
{
    for (uint64_t i = begin; i < end; i++) {
        uint32_t word = packing->k_in_rows ? edge_word(packing, row, i) : edge_word(packing, i, row);
        memcpy(place_of(packing, row, i), &word, sizeof word);
    }
}

static struct ah_pack_source source_at(const struct packing *packing, uint64_t word, uint64_t other)
{
    const struct ah_pack_matrix *matrix = packing->matrix;
    return (struct ah_pack_source){element(matrix, word * packing->per_word, other), bytes_of_row(matrix),
                                   packing->word, matrix->k_in_rows};
}

/* Packs `pieces` pieces of each of 16 rows, starting at (row, column), in one call if the matrix covers them all. */
static void pack_block(const struct packing *packing, uint64_t row, uint64_t column, uint64_t pieces)
{
    const struct ah_pack_matrix *matrix = packing->matrix;
    const bool turns = packing->k_in_rows != matrix->k_in_rows;
    const uint64_t end_row = row + PIECE, end_column = column + pieces * PIECE;
    const uint64_t end_word = packing->k_in_rows ? end_row : end_column;
    const uint64_t end_other = packing->k_in_rows ? end_column : end_row;
    if (end_word * packing->per_word <= matrix->k && end_other <= matrix->other &&
        pieces == (turns ? 1 : 2)) {
        const struct ah_pack_source source =
            packing->k_in_rows ? source_at(packing, row, column) : source_at(packing, column, row);
        unsigned char *to = place_of(packing, row, column);
        (turns ? packing->blocks->turn : packing->blocks->copy)(to, packing->row_bytes, &source);
        return;
    }
    for (uint64_t i = row; i < end_row && i < packing->rows; i++)
        pack_edge(packing, i, column, end_column);
}

/* Packs rows along k without transposing. */
static void pack_rows(const struct packing *packing)
{
    const uint64_t pieces = packing->matrix->k / packing->per_word / PIECE;
    for (uint64_t row = 0; row < packing->rows; row++) {
        const struct ah_pack_source source = source_at(packing, 0, row);
        packing->blocks->copy_row(place_of(packing, row, 0), &source, pieces);
        pack_edge(packing, row, pieces * PIECE, packing->width);
    }
}

/* Packs rows across k without transposing. */
static void pack_panels(const struct packing *packing)
{
    for (uint64_t row = 0; row < packing->rows; row += PIECE)
        for (uint64_t column = 0; column < packing->width; column += 2 * PIECE)
            pack_block(packing, row, column, 2);
}

/* Packs columns as rows, one column of squares after another. */
static void pack_transposed(const struct packing *packing)
{
    for (uint64_t column = 0; column < packing->width; column += PIECE)
        for (uint64_t row = 0; row < packing->rows; row += PIECE)
            pack_block(packing, row, column, 1);
}

static void pack_matrix(struct packing *packing, const struct ah_tile_kernel *kernel)
{
    const bool pairs = kernel->words == AH_BF16;
    packing->blocks = blocks_of[kernel->isa];
    packing->per_word = pairs ? 2 : 1;
    packing->word = packing->matrix->dtype == AH_FP32 ? AH_PACK_FP32
                    : pairs                           ? AH_PACK_PAIRS
                                                      : AH_PACK_EXPANDED;
    if (packing->k_in_rows != packing->matrix->k_in_rows)
        pack_transposed(packing);
    else if (packing->k_in_rows)
        pack_panels(packing);
    else
        pack_rows(packing);
}

void ah_pack_b(void *dst, const struct ah_tile_kernel *kernel, const struct ah_pack_matrix *b)
{
    const uint64_t words = ah_pack_words(kernel, b->k);
    struct packing packing = {
        .matrix = b,
        .to = dst,
        .row_bytes = (size_t)AH_TILE_COLUMNS * WORD_BYTES,
        .pair_bytes = words * AH_TILE_COLUMNS * WORD_BYTES,
        .k_in_rows = true,
        .rows = words,
        .width = (b->other + AH_TILE_COLUMNS - 1) / AH_TILE_COLUMNS * AH_TILE_COLUMNS,
    };
    pack_matrix(&packing, kernel);
}

void ah_pack_a(void *dst, const struct ah_tile_kernel *kernel, const struct ah_pack_matrix *a)
{
    struct packing packing = {
        .matrix = a,
        .to = dst,
        .row_bytes = (size_t)AH_TILE_WORDS * WORD_BYTES,
        .pair_bytes = (size_t)2 * PIECE_BYTES,
        .rows = a->other,
        .width = ah_pack_words(kernel, a->k),
    };
    pack_matrix(&packing, kernel);
}

void ah_pack_prefetch(const struct ah_pack_matrix *matrix, uint64_t part, uint64_t parts)
{
    const uint64_t rows = matrix->k_in_rows ? matrix->k : matrix->other;
    const uint64_t width = matrix->k_in_rows ? matrix->other : matrix->k;
    const size_t bytes = width * ah_dtype_bytes(matrix->dtype);
    const unsigned char *data = matrix->data;
    for (uint64_t row = part * rows / parts; row < (part + 1) * rows / parts; row++)
        for (size_t at = 0; at < bytes; at += LINE_BYTES)
            __builtin_prefetch(data + row * bytes_of_row(matrix) + at);
}
