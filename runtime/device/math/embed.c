/* SPDX-License-Identifier: Apache-2.0
 *
 * Embeddings: rows of tables by token (op.h: gather).
 */
#include "runtime/device/host/convert.h"
#include "runtime/device/math/math_internal.h"

enum { PIECE_ROWS = 16 };

struct gather {
    enum ah_isa isa;
    struct ah_math_matrix dst, table;
    const uint32_t *tokens;
    uint64_t rows, width;
};

static void gather_piece(void *context, size_t chunk, unsigned worker)
{
    const struct gather *g = context;
    const uint64_t begin = chunk * PIECE_ROWS;
    const uint64_t end = g->rows - begin < PIECE_ROWS ? g->rows : begin + PIECE_ROWS;
    (void)worker;
    for (uint64_t row = begin; row < end; row++)
        ah_convert_cast(g->isa, (struct ah_convert_out){ah_math_at(&g->dst, row, 0), g->dst.dtype},
                        (struct ah_convert_in){ah_math_at(&g->table, g->tokens[row], 0), g->table.dtype}, 0,
                        g->width);
}

void ah_embed_gather(const struct ah_host *host, const struct ah_op *op)
{
    const struct ah_op_embed *embed = &op->u.embed;
    struct gather g = {
        .isa = host->isa,
        .dst = ah_math_matrix(host, op, 0, embed->width),
        .table = ah_math_matrix(host, op, 1, embed->width),
        .tokens = ah_host_operand(host, op, 2),
        .rows = embed->rows,
        .width = embed->width,
    };
    ah_pool_run(host->pool, gather_piece, &g, (embed->rows + PIECE_ROWS - 1) / PIECE_ROWS);
}
