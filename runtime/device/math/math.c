/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs an op with a table of functions by kind (math.h).
 */
#include "runtime/device/math/math.h"

#include "runtime/device/math/math_internal.h"

enum { PIECE_ELEMENTS = 8192 };

static ah_math_fn *const run_of_kind[AH_OP_KINDS] = {
    [AH_OP_NORM] = ah_norm_run,
    [AH_OP_NORM_BACKWARD] = ah_norm_run_backward,
    [AH_OP_ROPE] = ah_rope_run,
    [AH_OP_ACTIVATION] = ah_activation_run,
    [AH_OP_ACTIVATION_BACKWARD] = ah_activation_run_backward,
    [AH_OP_EMBED] = ah_embed_run,
    [AH_OP_EMBED_BACKWARD] = ah_embed_run_backward,
    [AH_OP_GATHER] = ah_embed_run_gather,
    [AH_OP_CROSS_ENTROPY] = ah_cross_entropy_run,
    [AH_OP_ATTENTION] = ah_attention_run,
    [AH_OP_ATTENTION_BACKWARD] = ah_attention_run_backward,
};

struct ah_math_matrix ah_math_matrix(const struct ah_host *host, const struct ah_op *op, size_t arg,
                                     uint64_t width)
{
    const struct ah_ref *ref = &op->arg[arg];
    return (struct ah_math_matrix){ah_host_operand(host, op, arg), (enum ah_dtype)ref->dtype,
                                   ref->row_stride ? ref->row_stride : width};
}

struct split {
    ah_math_rows_fn *fn;
    const void *task;
    uint64_t rows, piece;
};

static void split_piece(void *context, size_t chunk, unsigned worker)
{
    const struct split *split = context;
    const uint64_t begin = chunk * split->piece;
    (void)worker;
    split->fn(split->task, begin, split->rows - begin > split->piece ? begin + split->piece : split->rows);
}

void ah_math_split(const struct ah_host *host, ah_math_rows_fn *fn, const void *task, uint64_t rows,
                   uint64_t row_elements)
{
    struct split split = {fn, task, rows, row_elements < PIECE_ELEMENTS ? PIECE_ELEMENTS / row_elements : 1};
    ah_pool_run(host->pool, split_piece, &split, rows / split.piece + (rows % split.piece != 0));
}

bool ah_math_does(enum ah_op_kind kind)
{
    return run_of_kind[kind] != NULL;
}

void ah_math_run(const struct ah_host *host, const struct ah_op *op)
{
    run_of_kind[op->kind](host, op);
}
