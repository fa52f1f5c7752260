/* SPDX-License-Identifier: Apache-2.0
 *
 * Where k lies as it is packed, rows are copied, in pieces of 16 words; else squares of 16 x 16 words are turned. What
 * does not fill a piece or a square goes word by word. Everything runs along the rows as they lie, so that the
 * processor sees what comes next.
 */
#include "runtime/device/cpu/pack.h"

#include <string.h>

enum { WORD_BYTES = 4, PIECE = AH_PACK_WORDS, PIECE_BYTES = PIECE * WORD_BYTES, LINE_BYTES = 64 };

/* What a word is made of. */
enum words { WORDS_FP32, WORDS_PAIRS, WORDS_EXPANDED };

/* How an operand is packed. */
struct packing {
    const struct ah_pack_matrix *matrix;
    unsigned char *to;
    enum words words;
    uint64_t per_word;    /* elements */
    size_t row_bytes;     /* from packed row to row */
    size_t pair_bytes;    /* in a packed row, from two pieces to the next two */
    bool k_in_rows;       /* as it is packed */
    uint64_t rows, width; /* as it is packed; width in words */
    enum ah_isa isa;
};

/* Pieces of 16 words from (word, other) on: one of each of `n` rows, or `n` of one row. */
struct source {
    const unsigned char *from;
    size_t row_bytes;
    enum words words;
    bool k_in_rows; /* as it lies: then a word of a pair is made from two rows */
};

typedef void block_fn(unsigned char *to, size_t to_bytes, const struct source *source);

/* Piece `i` of a column of pieces. */
static void load_piece(uint32_t piece[PIECE], const struct source *source, size_t i)
{
    const bool paired = source->words == WORDS_PAIRS && source->k_in_rows;
    const unsigned char *from = source->from + (paired ? 2 * i : i) * source->row_bytes;
    uint16_t low[PIECE] = {0}, high[PIECE];
    if (source->words != WORDS_EXPANDED && !paired) {
        memcpy(piece, from, PIECE_BYTES);
        return;
    }
    if (paired)
        memcpy(low, from, sizeof low);
    memcpy(high, paired ? from + source->row_bytes : from, sizeof high);
    for (size_t j = 0; j < PIECE; j++)
        piece[j] = (uint32_t)high[j] << 16 | low[j];
}

static void turn_plain(unsigned char *to, size_t to_bytes, const struct source *source)
{
    uint32_t square[PIECE][PIECE];
    uint32_t turned[PIECE];
    for (size_t i = 0; i < PIECE; i++)
        load_piece(square[i], source, i);
    for (size_t i = 0; i < PIECE; i++) {
        for (size_t j = 0; j < PIECE; j++)
            turned[j] = square[j][i];
        memcpy(to + i * to_bytes, turned, sizeof turned);
    }
}

/* Bytes that a piece takes in the row as it lies. */
static size_t bytes_of_piece(const struct source *source)
{
    const bool paired = source->words == WORDS_PAIRS && source->k_in_rows;
    return paired || source->words == WORDS_EXPANDED ? PIECE_BYTES / 2 : PIECE_BYTES;
}

static void copy_plain(unsigned char *to, size_t to_bytes, const struct source *source)
{
    struct source second = *source;
    uint32_t piece[PIECE];
    second.from += bytes_of_piece(source);
    for (size_t i = 0; i < PIECE; i++) {
        load_piece(piece, source, i);
        memcpy(to + i * to_bytes, piece, sizeof piece);
        load_piece(piece, &second, i);
        memcpy(to + i * to_bytes + PIECE_BYTES, piece, sizeof piece);
    }
}

/* Pieces that follow each other in one row, as they lie and as they are packed. */
static void copy_row_plain(unsigned char *to, const struct source *source, uint64_t pieces)
{
    struct source from = *source;
    for (uint64_t i = 0; i < pieces; i++, from.from += bytes_of_piece(source)) {
        uint32_t piece[PIECE];
        load_piece(piece, &from, 0);
        memcpy(to + i * PIECE_BYTES, piece, sizeof piece);
    }
}

#if defined(__x86_64__)
#include <immintrin.h>

#define PACK_TARGET __attribute__((target("avx512f,avx512bw")))
#define PACK_INLINE static inline __attribute__((always_inline)) PACK_TARGET

/* Rows become columns: 16 x 16 words. */
PACK_INLINE void transpose(__m512i row[16])
{
    __m512i t[16];
    for (int i = 0; i < 16; i += 4) {
        __m512i low01 = _mm512_unpacklo_epi32(row[i], row[i + 1]);
        __m512i high01 = _mm512_unpackhi_epi32(row[i], row[i + 1]);
        __m512i low23 = _mm512_unpacklo_epi32(row[i + 2], row[i + 3]);
        __m512i high23 = _mm512_unpackhi_epi32(row[i + 2], row[i + 3]);
        t[i] = _mm512_unpacklo_epi64(low01, low23);
        t[i + 1] = _mm512_unpackhi_epi64(low01, low23);
        t[i + 2] = _mm512_unpacklo_epi64(high01, high23);
        t[i + 3] = _mm512_unpackhi_epi64(high01, high23);
    }
    /* t[4 g + c] holds columns c, c + 4, c + 8, c + 12 of rows 4 g to 4 g + 3, a quarter each. */
    for (int c = 0; c < 4; c++) {
        __m512i low01 = _mm512_shuffle_i32x4(t[c], t[4 + c], 0x88);
        __m512i high01 = _mm512_shuffle_i32x4(t[c], t[4 + c], 0xdd);
        __m512i low23 = _mm512_shuffle_i32x4(t[8 + c], t[12 + c], 0x88);
        __m512i high23 = _mm512_shuffle_i32x4(t[8 + c], t[12 + c], 0xdd);
        row[c] = _mm512_shuffle_i32x4(low01, low23, 0x88);
        row[8 + c] = _mm512_shuffle_i32x4(low01, low23, 0xdd);
        row[4 + c] = _mm512_shuffle_i32x4(high01, high23, 0x88);
        row[12 + c] = _mm512_shuffle_i32x4(high01, high23, 0xdd);
    }
}

PACK_INLINE __m512i load_halves(const unsigned char *from)
{
    return _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(const void *)from));
}

/* load_piece() in a register. */
PACK_INLINE __m512i load_register(const unsigned char *from, size_t row_bytes, enum words words, bool paired)
{
    if (words == WORDS_EXPANDED)
        return _mm512_slli_epi32(load_halves(from), 16);
    if (!paired)
        return _mm512_loadu_si512(from);
    return _mm512_or_si512(load_halves(from), _mm512_slli_epi32(load_halves(from + row_bytes), 16));
}

PACK_INLINE void turn_of(unsigned char *to, size_t to_bytes, const struct source *source, enum words words,
                         bool paired)
{
    __m512i row[PIECE];
    const size_t step = paired ? 2 * source->row_bytes : source->row_bytes;
    for (size_t i = 0; i < PIECE; i++)
        row[i] = load_register(source->from + i * step, source->row_bytes, words, paired);
    transpose(row);
    for (size_t i = 0; i < PIECE; i++)
        _mm512_storeu_si512(to + i * to_bytes, row[i]);
}

PACK_TARGET static void turn_avx512(unsigned char *to, size_t to_bytes, const struct source *source)
{
    if (source->words == WORDS_EXPANDED)
        turn_of(to, to_bytes, source, WORDS_EXPANDED, false);
    else if (source->words == WORDS_PAIRS && source->k_in_rows)
        turn_of(to, to_bytes, source, WORDS_PAIRS, true);
    else
        turn_of(to, to_bytes, source, WORDS_FP32, false);
}

PACK_INLINE void copy_of(unsigned char *to, size_t to_bytes, const struct source *source, enum words words)
{
    const size_t second = words == WORDS_EXPANDED ? PIECE_BYTES / 2 : PIECE_BYTES;
#pragma GCC unroll 16
    for (size_t i = 0; i < PIECE; i++) {
        const unsigned char *from = source->from + i * source->row_bytes;
        _mm512_storeu_si512(to + i * to_bytes, load_register(from, 0, words, false));
        _mm512_storeu_si512(to + i * to_bytes + PIECE_BYTES, load_register(from + second, 0, words, false));
    }
}

/* Two rows become one of pairs. Each load has its own place in the code: the processor foresees them by that. */
PACK_INLINE void interleave(unsigned char *to, size_t to_bytes, const struct source *source)
{
    const __m512i low = _mm512_set_epi16(47, 15, 46, 14, 45, 13, 44, 12, 43, 11, 42, 10, 41, 9, 40, 8, 39, 7,
                                         38, 6, 37, 5, 36, 4, 35, 3, 34, 2, 33, 1, 32, 0);
    const __m512i high = _mm512_add_epi16(low, _mm512_set1_epi16(16));
#pragma GCC unroll 16
    for (size_t i = 0; i < PIECE; i++) {
        const unsigned char *from = source->from + 2 * i * source->row_bytes;
        const __m512i even = _mm512_loadu_si512(from);
        const __m512i odd = _mm512_loadu_si512(from + source->row_bytes);
        _mm512_storeu_si512(to + i * to_bytes, _mm512_permutex2var_epi16(even, low, odd));
        _mm512_storeu_si512(to + i * to_bytes + PIECE_BYTES, _mm512_permutex2var_epi16(even, high, odd));
    }
}

PACK_TARGET static void copy_avx512(unsigned char *to, size_t to_bytes, const struct source *source)
{
    if (source->words == WORDS_EXPANDED)
        copy_of(to, to_bytes, source, WORDS_EXPANDED);
    else if (source->words == WORDS_PAIRS && source->k_in_rows)
        interleave(to, to_bytes, source);
    else
        copy_of(to, to_bytes, source, WORDS_FP32);
}
PACK_TARGET static void copy_row_avx512(unsigned char *to, const struct source *source, uint64_t pieces)
{
    const bool expands = source->words == WORDS_EXPANDED;
    const unsigned char *from = source->from;
    for (uint64_t i = 0; i < pieces; i++, from += expands ? PIECE_BYTES / 2 : PIECE_BYTES)
        _mm512_storeu_si512(to + i * PIECE_BYTES, expands ? load_register(from, 0, WORDS_EXPANDED, false)
                                                          : _mm512_loadu_si512(from));
}
#else
#define copy_row_avx512 copy_row_plain
#define turn_avx512     turn_plain
#define copy_avx512     copy_plain
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

/* The word `word` of `other`; zeros where there is no element. */
static uint32_t edge_word(const struct packing *packing, uint64_t word, uint64_t other)
{
    const struct ah_pack_matrix *matrix = packing->matrix;
    const uint64_t k = word * packing->per_word;
    uint16_t halves[2] = {0};
    uint32_t whole = 0;
    for (uint64_t i = 0; i < packing->per_word && k + i < matrix->k && other < matrix->other; i++)
        memcpy(packing->words == WORDS_FP32 ? (void *)&whole : &halves[i], element(matrix, k + i, other),
               ah_dtype_bytes(matrix->dtype));
    if (packing->words == WORDS_FP32)
        return whole;
    return packing->words == WORDS_PAIRS ? (uint32_t)halves[1] << 16 | halves[0] : (uint32_t)halves[0] << 16;
}

static unsigned char *place(const struct packing *packing, uint64_t row, uint64_t column)
{
    return packing->to + row * packing->row_bytes + column / (2 * PIECE) * packing->pair_bytes +
           column % (2 * PIECE) * WORD_BYTES;
}

/* Words [begin, end) of a packed row. */
static void pack_edge(const struct packing *packing, uint64_t row, uint64_t begin, uint64_t end)
{
    for (uint64_t i = begin; i < end; i++) {
        uint32_t word = packing->k_in_rows ? edge_word(packing, row, i) : edge_word(packing, i, row);
        memcpy(place(packing, row, i), &word, sizeof word);
    }
}

static struct source source_at(const struct packing *packing, uint64_t word, uint64_t other)
{
    const struct ah_pack_matrix *matrix = packing->matrix;
    return (struct source){element(matrix, word * packing->per_word, other), bytes_of_row(matrix),
                           packing->words, matrix->k_in_rows};
}

/* Words of 16 rows, `pieces` of 16, from (row, column) on: in whole where the matrix fills them. */
static void pack_block(const struct packing *packing, uint64_t row, uint64_t column, uint64_t pieces)
{
    const struct ah_pack_matrix *matrix = packing->matrix;
    const bool turns = packing->k_in_rows != matrix->k_in_rows, wide = packing->isa == AH_ISA_AVX512;
    const uint64_t end_row = row + PIECE, end_column = column + pieces * PIECE;
    const uint64_t end_word = packing->k_in_rows ? end_row : end_column;
    const uint64_t end_other = packing->k_in_rows ? end_column : end_row;
    if (end_word * packing->per_word <= matrix->k && end_other <= matrix->other &&
        pieces == (turns ? 1 : 2)) {
        const struct source source =
            packing->k_in_rows ? source_at(packing, row, column) : source_at(packing, column, row);
        block_fn *const blocks[2][2] = {{copy_plain, copy_avx512}, {turn_plain, turn_avx512}};
        blocks[turns][wide](place(packing, row, column), packing->row_bytes, &source);
        return;
    }
    for (uint64_t i = row; i < end_row && i < packing->rows; i++)
        pack_edge(packing, i, column, end_column);
}

/* Rows along k that lie as they are packed. */
static void pack_rows(const struct packing *packing)
{
    const uint64_t pieces = packing->matrix->k / packing->per_word / PIECE;
    for (uint64_t row = 0; row < packing->rows; row++) {
        const struct source source = source_at(packing, 0, row);
        if (packing->isa == AH_ISA_AVX512)
            copy_row_avx512(place(packing, row, 0), &source, pieces);
        else
            copy_row_plain(place(packing, row, 0), &source, pieces);
        pack_edge(packing, row, pieces * PIECE, packing->width);
    }
}

/* Rows across k that lie as they are packed. */
static void pack_panels(const struct packing *packing)
{
    for (uint64_t row = 0; row < packing->rows; row += PIECE)
        for (uint64_t column = 0; column < packing->width; column += 2 * PIECE)
            pack_block(packing, row, column, 2);
}

/* Columns are packed as rows: one column of squares after another. */
static void pack_turned(const struct packing *packing)
{
    for (uint64_t column = 0; column < packing->width; column += PIECE)
        for (uint64_t row = 0; row < packing->rows; row += PIECE)
            pack_block(packing, row, column, 1);
}

static void pack(struct packing *packing, const struct ah_tile_kernel *kernel)
{
    const bool pairs = kernel->words == AH_BF16;
    packing->isa = kernel->isa;
    packing->per_word = pairs ? 2 : 1;
    packing->words = packing->matrix->dtype == AH_FP32 ? WORDS_FP32 : pairs ? WORDS_PAIRS : WORDS_EXPANDED;
    if (packing->k_in_rows != packing->matrix->k_in_rows)
        pack_turned(packing);
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
    pack(&packing, kernel);
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
    pack(&packing, kernel);
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
