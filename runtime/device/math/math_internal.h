/* SPDX-License-Identifier: Apache-2.0
 *
 * Shared by the ops in this folder: their functions, which math.c's table lists, and operands as matrices.
 */
#ifndef AH_RUNTIME_DEVICE_MATH_MATH_INTERNAL_H
#define AH_RUNTIME_DEVICE_MATH_MATH_INTERNAL_H

#include "runtime/device/host/host.h"

#include <stddef.h>
#include <stdint.h>

/* Runs one op. Each function is defined in the file of its name. */
typedef void ah_math_fn(const struct ah_host *host, const struct ah_op *op);

ah_math_fn ah_activation_run;
ah_math_fn ah_activation_run_backward;
ah_math_fn ah_attention_run;
ah_math_fn ah_attention_run_backward;
ah_math_fn ah_cross_entropy_run;
ah_math_fn ah_embed_run;
ah_math_fn ah_embed_run_backward;
ah_math_fn ah_embed_run_gather;
ah_math_fn ah_norm_run;
ah_math_fn ah_norm_run_backward;
ah_math_fn ah_rope_run;

/* An operand with rows; its stride is never 0. */
struct ah_math_matrix {
    unsigned char *data; /* NULL if the operand is absent */
    enum ah_dtype dtype;
    uint64_t stride; /* elements from row to row */
};

/* Returns operand `arg` as a matrix; its rows have `width` elements. */
struct ah_math_matrix ah_math_matrix(const struct ah_host *host, const struct ah_op *op, size_t arg,
                                     uint64_t width);

/* Returns the address of element `column` of row `row`; NULL if the operand is absent. */
static inline void *ah_math_at(const struct ah_math_matrix *matrix, uint64_t row, uint64_t column)
{
    if (!matrix->data)
        return NULL;
    return matrix->data + (row * matrix->stride + column) * ah_dtype_bytes(matrix->dtype);
}

/* Computes rows [begin, end) of a task. */
typedef void ah_math_rows_fn(const void *task, uint64_t begin, uint64_t end);

/* Splits `rows` rows of about `row_elements` each over the pool, in pieces of a few thousand elements. */
void ah_math_split(const struct ah_host *host, ah_math_rows_fn *fn, const void *task, uint64_t rows,
                   uint64_t row_elements);

#endif
