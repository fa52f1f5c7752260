/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs op.h's activation and activation_backward on rows. activation.inc has the arithmetic.
 */
#include "runtime/device/math/math_kernels_internal.h"

struct task {
    struct ah_activation_args args;
    ah_kernels_activation *kernel;
};

static void run_rows(const void *context, uint64_t begin, uint64_t end)
{
    const struct task *task = context;
    task->kernel(&task->args, begin, end);
}

void ah_activation_run(const struct ah_host *host, const struct ah_op *op)
{
    const struct ah_op_rows *rows = &op->u.rows;
    const struct task task = {
        .args =
            {
                .y = ah_math_matrix(host, op, 0, rows->width),
                .x = ah_math_matrix(host, op, 1, rows->width),
                .up = ah_math_matrix(host, op, 2, rows->width),
                .width = rows->width,
            },
        .kernel = ah_math_kernels_of(host->isa)->activation[rows->kind],
    };
    ah_math_split(host, run_rows, &task, rows->rows, rows->width);
}

void ah_activation_run_backward(const struct ah_host *host, const struct ah_op *op)
{
    const struct ah_op_rows *rows = &op->u.rows;
    const struct task task = {
        .args =
            {
                .dx = ah_math_matrix(host, op, 0, rows->width),
                .dup = ah_math_matrix(host, op, 1, rows->width),
                .dy = ah_math_matrix(host, op, 2, rows->width),
                .x = ah_math_matrix(host, op, 3, rows->width),
                .up = ah_math_matrix(host, op, 4, rows->width),
                .width = rows->width,
            },
        .kernel = ah_math_kernels_of(host->isa)->activation_backward[rows->kind],
    };
    ah_math_split(host, run_rows, &task, rows->rows, rows->width);
}
