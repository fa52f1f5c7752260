/* SPDX-License-Identifier: Apache-2.0
 *
 * Embeddings: looks up each token's row in a table and adds its position's row; backward adds rows of dy to the tables.
 * With a scale, a token's row is first multiplied by it in fp32; in backward, the sum of the token's rows of dy is.
 *
 * ORDER OF SUMS. Each row of a table gets the sum of its rows of dy, in ascending order and in fp32. A token's rows are
 * added in groups of 64, then the group sums in order; a position's rows are added one after another. The total is
 * added to the table's row and rounded once. Rows without dy and the padding token's row are not touched.
 *
 * A stable radix sort of row numbers by token, in the two halves of the scratch, brings a token's rows together as a
 * RUN. Threads get pieces of the sorted rows and strips of columns; a run belongs to the piece in which it begins.
 * Positions need no scratch: each piece of the position table searches all rows for rows with its positions.
 */
#include "runtime/device/host/convert.h"
#include "runtime/device/math/math_internal.h"

enum {
    STRIP = 512,      /* columns of a strip */
    PIECE_ROWS = 256, /* sorted rows of a piece */
    GROUP = 64,       /* rows of a run that are summed as a group; then the group sums are added */
    DIGIT_BITS = 8,
    DIGITS = 1 << DIGIT_BITS,
    POSITIONS = 16 /* positions of a piece; their strips take 32 KiB of a thread's stack */
};

struct embed {
    enum ah_isa isa;
    struct ah_math_matrix y;                      /* y or dy */
    struct ah_math_matrix table, positions_table; /* the tables or their gradients */
    const uint32_t *tokens;
    const uint32_t *positions; /* NULL: row % seq */
    const uint32_t *sorted;    /* rows sorted by token */
    uint64_t rows, width, table_positions, seq, padding;
    uint64_t strips; /* number of strips of columns */
    float scale;
};

static struct ah_convert_out out(const struct ah_math_matrix *matrix, uint64_t row, uint64_t column)
{
    return (struct ah_convert_out){ah_math_at(matrix, row, column), matrix->dtype};
}

static struct ah_convert_in in(const struct ah_math_matrix *matrix, uint64_t row, uint64_t column)
{
    return (struct ah_convert_in){ah_math_at(matrix, row, column), matrix->dtype};
}

/* Sets the fields that the three ops share; the caller sets y and the tables. */
static struct embed embed_of(const struct ah_host *host, const struct ah_op *op)
{
    const struct ah_op_embed *sizes = &op->u.embed;
    return (struct embed){
        .isa = host->isa,
        .tokens = ah_host_operand(host, op, 3),
        .positions = ah_host_operand(host, op, 4),
        .rows = sizes->rows,
        .width = sizes->width,
        .table_positions = sizes->positions,
        .seq = sizes->seq,
        .padding = sizes->padding,
        .scale = sizes->scale > 0 ? sizes->scale : 1,
    };
}

static bool scales(const struct embed *e)
{
    return e->scale < 1 || e->scale > 1;
}

/* Computes a row whose token's row is scaled. A strip is converted to fp32, scaled, then rounded or added to the
 * position's. */
static void run_scaled(const struct embed *e, uint64_t row, uint64_t position)
{
    float strip[STRIP];
    for (uint64_t column = 0; column < e->width; column += STRIP) {
        const uint64_t n = e->width - column < STRIP ? e->width - column : STRIP;
        const struct ah_convert_out y = out(&e->y, row, column);
        const struct ah_convert_in scaled = {strip, AH_FP32};
        ah_convert_cast(e->isa, (struct ah_convert_out){strip, AH_FP32},
                        in(&e->table, e->tokens[row], column), 0, n);
        ah_convert_scale(e->isa, strip, e->scale, 0, n);
        if (e->positions_table.data)
            ah_convert_add(e->isa, y, scaled, in(&e->positions_table, position, column), 0, n);
        else
            ah_convert_cast(e->isa, y, scaled, 0, n);
    }
}

static void run_rows(const void *context, uint64_t begin, uint64_t end)
{
    const struct embed *e = context;
    for (uint64_t row = begin; row < end; row++) {
        const struct ah_convert_out y = out(&e->y, row, 0);
        const struct ah_convert_in token = in(&e->table, e->tokens[row], 0);
        const uint64_t position = e->positions ? e->positions[row] : e->seq ? row % e->seq : 0;
        if (scales(e))
            run_scaled(e, row, position);
        else if (e->positions_table.data)
            ah_convert_add(e->isa, y, token, in(&e->positions_table, position, 0), 0, e->width);
        else
            ah_convert_cast(e->isa, y, token, 0, e->width);
    }
}

void ah_embed_run(const struct ah_host *host, const struct ah_op *op)
{
    struct embed e = embed_of(host, op);
    e.y = ah_math_matrix(host, op, 0, e.width);
    e.table = ah_math_matrix(host, op, 1, e.width);
    e.positions_table = ah_math_matrix(host, op, 2, e.width);
    ah_math_split(host, run_rows, &e, e.rows, e.width);
}

void ah_embed_run_gather(const struct ah_host *host, const struct ah_op *op)
{
    struct embed e = embed_of(host, op);
    e.y = ah_math_matrix(host, op, 0, e.width);
    e.table = ah_math_matrix(host, op, 1, e.width);
    e.tokens = ah_host_operand(host, op, 2);
    ah_math_split(host, run_rows, &e, e.rows, e.width);
}

/* Does one pass of the sort, by the digit of tokens that begins at bit `shift`. */
static void sort_by_digit(const uint32_t *tokens, const uint32_t *from, uint32_t *to, uint64_t rows,
                          unsigned shift)
{
    uint64_t next[DIGITS] = {0}, sum = 0;
    for (uint64_t i = 0; i < rows; i++)
        next[tokens[i] >> shift & (DIGITS - 1)]++;
    for (unsigned digit = 0; digit < DIGITS; digit++) {
        const uint64_t count = next[digit];
        next[digit] = sum;
        sum += count;
    }
    for (uint64_t i = 0; i < rows; i++)
        to[next[tokens[from[i]] >> shift & (DIGITS - 1)]++] = from[i];
}

/* Sorts row numbers by token. Returns the half of `scratch` with the result. */
static const uint32_t *sort_rows(const uint32_t *tokens, uint32_t *scratch, uint64_t rows,
                                 uint64_t vocabulary)
{
    uint32_t *from = scratch, *to = scratch + rows;
    for (uint64_t i = 0; i < rows; i++)
        from[i] = (uint32_t)i;
    for (unsigned shift = 0; shift < 32 && (vocabulary - 1) >> shift; shift += DIGIT_BITS) {
        sort_by_digit(tokens, from, to, rows, shift);
        uint32_t *sorted = to;
        to = from;
        from = sorted;
    }
    return from;
}

static uint64_t token_at(const struct embed *e, uint64_t place)
{
    return e->tokens[e->sorted[place]];
}

static uint64_t run_end(const struct embed *e, uint64_t place)
{
    const uint64_t token = token_at(e, place);
    while (place < e->rows && token_at(e, place) == token)
        place++;
    return place;
}

/* Adds up columns [column, column + n) of the rows at places [begin, end), at least two rows. */
static void add_rows(const struct embed *e, float *ret_sum, uint64_t begin, uint64_t end, uint64_t column,
                     uint64_t n)
{
    const struct ah_convert_out to = {ret_sum, AH_FP32};
    const struct ah_convert_in from = {ret_sum, AH_FP32};
    ah_convert_add(e->isa, to, in(&e->y, e->sorted[begin], column), in(&e->y, e->sorted[begin + 1], column),
                   0, n);
    for (uint64_t i = begin + 2; i < end; i++)
        ah_convert_add(e->isa, to, from, in(&e->y, e->sorted[i], column), 0, n);
}

/* Adds columns [column, column + n) of a run's rows to the table. */
static void add_run(const struct embed *e, uint64_t begin, uint64_t end, uint64_t column, uint64_t n)
{
    float sum[STRIP], group[STRIP];
    const uint64_t token = token_at(e, begin);
    struct ah_convert_in total = in(&e->y, e->sorted[begin], column);
    for (uint64_t first = begin; first < end; first += GROUP) {
        const uint64_t stop = end - first < GROUP ? end : first + GROUP;
        struct ah_convert_in more = in(&e->y, e->sorted[first], column);
        if (stop - first > 1) {
            add_rows(e, first == begin ? sum : group, first, stop, column, n);
            more = (struct ah_convert_in){first == begin ? sum : group, AH_FP32};
        }
        if (first > begin)
            ah_convert_add(e->isa, (struct ah_convert_out){sum, AH_FP32}, total, more, 0, n);
        else
            total = more;
    }
    if (scales(e)) {
        if (total.data != sum)
            ah_convert_cast(e->isa, (struct ah_convert_out){sum, AH_FP32}, total, 0, n);
        ah_convert_scale(e->isa, sum, e->scale, 0, n);
        total = (struct ah_convert_in){sum, AH_FP32};
    }
    ah_convert_add(e->isa, out(&e->table, token, column), in(&e->table, token, column), total, 0, n);
}

/* Computes pieces [begin, end). Piece number p has rows number p / strips and strip number p % strips. */
static void run_pieces(const void *context, uint64_t begin, uint64_t end)
{
    const struct embed *e = context;
    for (uint64_t piece = begin; piece < end; piece++) {
        const uint64_t column = piece % e->strips * STRIP;
        const uint64_t n = e->width - column < STRIP ? e->width - column : STRIP;
        const uint64_t first = piece / e->strips * PIECE_ROWS;
        const uint64_t stop = e->rows - first < PIECE_ROWS ? e->rows : first + PIECE_ROWS;
        uint64_t place = first;
        if (place && token_at(e, place - 1) == token_at(e, place))
            place = run_end(e, place);
        while (place < stop) {
            const uint64_t next = run_end(e, place);
            if (token_at(e, place) + 1 != e->padding)
                add_run(e, place, next, column, n);
            place = next;
        }
    }
}

static void add_tokens(const struct ah_host *host, const struct ah_op *op, struct embed *e)
{
    e->table = ah_math_matrix(host, op, 0, e->width);
    e->sorted = sort_rows(e->tokens, ah_host_operand(host, op, 5), e->rows, op->u.embed.vocabulary);
    e->strips = (e->width + STRIP - 1) / STRIP;
    ah_math_split(host, run_pieces, e, (e->rows + PIECE_ROWS - 1) / PIECE_ROWS * e->strips,
                  (uint64_t)PIECE_ROWS * STRIP);
}

/* Adds columns [column, column + n) of dy to positions [first, first + POSITIONS) of the position table. */
static void add_positions(const struct embed *e, uint64_t first, uint64_t column, uint64_t n)
{
    float sums[POSITIONS][STRIP];
    bool found[POSITIONS] = {false};
    uint64_t next = 0;
    for (uint64_t row = 0; row < e->rows; row++) {
        const uint64_t p = (e->positions ? e->positions[row] : next) - first;
        next = next + 1 == e->seq ? 0 : next + 1;
        if (p >= POSITIONS)
            continue;
        const struct ah_convert_out to = {sums[p], AH_FP32};
        if (found[p])
            ah_convert_add(e->isa, to, (struct ah_convert_in){sums[p], AH_FP32}, in(&e->y, row, column), 0,
                           n);
        else
            ah_convert_cast(e->isa, to, in(&e->y, row, column), 0, n);
        found[p] = true;
    }
    for (uint64_t p = 0; p < POSITIONS; p++)
        if (found[p])
            ah_convert_add(e->isa, out(&e->positions_table, first + p, column),
                           in(&e->positions_table, first + p, column),
                           (struct ah_convert_in){sums[p], AH_FP32}, 0, n);
}

static void run_position_pieces(const void *context, uint64_t begin, uint64_t end)
{
    const struct embed *e = context;
    for (uint64_t piece = begin; piece < end; piece++) {
        const uint64_t column = piece % e->strips * STRIP;
        add_positions(e, piece / e->strips * POSITIONS, column,
                      e->width - column < STRIP ? e->width - column : STRIP);
    }
}

void ah_embed_run_backward(const struct ah_host *host, const struct ah_op *op)
{
    struct embed e = embed_of(host, op);
    e.y = ah_math_matrix(host, op, 2, e.width);
    if (ah_host_operand(host, op, 0))
        add_tokens(host, op, &e);
    e.positions_table = ah_math_matrix(host, op, 1, e.width);
    e.strips = (e.width + STRIP - 1) / STRIP;
    if (e.positions_table.data)
        ah_math_split(host, run_position_pieces, &e,
                      (e.table_positions + POSITIONS - 1) / POSITIONS * e.strips,
                      (uint64_t)POSITIONS * STRIP);
}
