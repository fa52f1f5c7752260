/* SPDX-License-Identifier: Apache-2.0
 *
 * From an op to what runs it: a table by kind (math.h).
 */
#include "runtime/device/math/math.h"

#include "runtime/device/math/math_internal.h"

static ah_math_fn *const run_of_kind[AH_OP_KINDS] = {
    [AH_OP_GATHER] = ah_embed_gather,
};

struct ah_math_matrix ah_math_matrix(const struct ah_host *host, const struct ah_op *op, size_t arg,
                                     uint64_t width)
{
    const struct ah_ref *ref = &op->arg[arg];
    return (struct ah_math_matrix){ah_host_operand(host, op, arg), (enum ah_dtype)ref->dtype,
                                   ref->row_stride ? ref->row_stride : width};
}

bool ah_math_does(enum ah_op_kind kind)
{
    return run_of_kind[kind] != NULL;
}

void ah_math_run(const struct ah_host *host, const struct ah_op *op)
{
    run_of_kind[op->kind](host, op);
}
