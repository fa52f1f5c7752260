/* SPDX-License-Identifier: Apache-2.0
 *
 * Cross-entropy: each row's loss, and its gradient in place of the logits or in a separate matrix (cross_entropy.inc).
 */
#include "runtime/device/math/math_kernels_internal.h"

struct task {
    struct ah_cross_entropy_args args;
    ah_kernels_cross_entropy *kernel;
};

static void run_rows(const void *context, uint64_t begin, uint64_t end)
{
    const struct task *task = context;
    task->kernel(&task->args, begin, end);
}

void ah_cross_entropy_run(const struct ah_host *host, const struct ah_op *op)
{
    const struct ah_op_cross_entropy *sizes = &op->u.cross_entropy;
    const struct ah_math_matrix logits = ah_math_matrix(host, op, 1, sizes->vocabulary);
    const struct ah_math_matrix given = ah_math_matrix(host, op, 5, sizes->vocabulary);
    const struct task task = {
        .args =
            {
                .loss = ah_host_operand(host, op, 0),
                .logits = logits,
                .gradient = given.data ? given : logits,
                .targets = ah_host_operand(host, op, 2),
                .mask = ah_host_operand(host, op, 3),
                .scale = ah_host_operand(host, op, 4),
                .vocabulary = sizes->vocabulary,
                .soft_cap = sizes->soft_cap,
            },
        .kernel = ah_math_kernels_of(host->isa)->cross_entropy,
    };
    ah_math_split(host, run_rows, &task, sizes->rows, sizes->vocabulary);
}
