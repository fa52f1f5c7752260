/* SPDX-License-Identifier: Apache-2.0
 *
 * Rope: rotates the heads of rows in place by their positions' angles. rope.inc has the arithmetic.
 */
#include "runtime/device/math/math_kernels_internal.h"

struct task {
    struct ah_rope_args args;
    ah_kernels_rope *kernel;
};

static void run_rows(const void *context, uint64_t begin, uint64_t end)
{
    const struct task *task = context;
    task->kernel(&task->args, begin, end);
}

void ah_rope_run(const struct ah_host *host, const struct ah_op *op)
{
    const struct ah_op_rope *rope = &op->u.rope;
    const uint64_t width = (uint64_t)rope->heads * rope->head_dim;
    const struct task task = {
        .args =
            {
                .x = ah_math_matrix(host, op, 0, width),
                .table = ah_host_operand(host, op, 1),
                .positions = ah_host_operand(host, op, 2),
                .heads = rope->heads,
                .head_dim = rope->head_dim,
                .rotated = rope->rotated ? rope->rotated : rope->head_dim,
                .seq = rope->seq,
                .inverse = rope->inverse,
            },
        .kernel = ah_math_kernels_of(host->isa)->rope,
    };
    ah_math_split(host, run_rows, &task, rope->rows, width);
}
