/* SPDX-License-Identifier: Apache-2.0
 *
 * Norms, forward and backward. norm.inc has the arithmetic.
 *
 * The gradients of gain and bias are sums over all vectors. Each group of AH_OP_NORM_GROUP vectors stores a partial sum
 * in its own row of the scratch; then ah_convert_column_sum() adds the rows. So bits do not depend on threads.
 */
#include "runtime/device/host/convert.h"
#include "runtime/device/math/math_kernels_internal.h"

enum { PIECE_COLUMNS = 128 };

struct forward {
    struct ah_norm_args args;
    ah_kernels_norm *kernel;
};

struct backward {
    struct ah_norm_args args;
    ah_kernels_norm_backward *kernel;
};

/* The task of adding up one gradient from its partial sums. */
struct columns {
    enum ah_isa isa;
    struct ah_convert_out dst;
    struct ah_convert_matrix partials;
};

/* Returns the arguments that both directions share; rms norms have no means. */
static struct ah_norm_args args_of(const struct ah_op *op, float *stats)
{
    const struct ah_op_norm *norm = &op->u.norm;
    const uint64_t heads = norm->heads ? norm->heads : 1, vectors = norm->rows * heads;
    const bool layer = norm->kind == AH_NORM_LAYER;
    return (struct ah_norm_args){
        .mean = layer ? stats : NULL,
        .scale = layer ? stats + vectors : stats,
        .vectors = vectors,
        .heads = heads,
        .width = norm->width,
        .epsilon = norm->epsilon,
        .offset = ah_op_gain_offset(norm),
    };
}

static void run_vectors(const void *context, uint64_t begin, uint64_t end)
{
    const struct forward *task = context;
    task->kernel(&task->args, begin, end);
}

void ah_norm_run(const struct ah_host *host, const struct ah_op *op)
{
    struct forward task = {args_of(op, ah_host_operand(host, op, 4)), ah_math_kernels_of(host->isa)->norm};
    const uint64_t row_width = task.args.heads * task.args.width;
    task.args.y = ah_math_matrix(host, op, 0, row_width);
    task.args.x = ah_math_matrix(host, op, 1, row_width);
    task.args.gain = ah_math_matrix(host, op, 2, task.args.width);
    task.args.bias = ah_math_matrix(host, op, 3, task.args.width);
    ah_math_split(host, run_vectors, &task, task.args.vectors, task.args.width);
}

static void run_groups(const void *context, uint64_t begin, uint64_t end)
{
    const struct backward *task = context;
    for (uint64_t group = begin; group < end; group++)
        task->kernel(&task->args, group);
}

static void run_columns(const void *context, uint64_t begin, uint64_t end)
{
    const struct columns *task = context;
    const uint64_t width = task->partials.stride;
    ah_convert_column_sum(task->isa, task->dst, &task->partials, begin * PIECE_COLUMNS,
                          end * PIECE_COLUMNS < width ? end * PIECE_COLUMNS : width);
}

/* Sums `partials` (groups, width) into operand `arg`; does nothing if `partials` is NULL. */
static void add_groups(const struct ah_host *host, const struct ah_op *op, size_t arg, const float *partials,
                       uint64_t groups)
{
    const uint64_t width = op->u.norm.width;
    const struct columns task = {
        .isa = host->isa,
        .dst = {ah_host_operand(host, op, arg), (enum ah_dtype)op->arg[arg].dtype},
        .partials = {{partials, AH_FP32}, groups, width},
    };
    if (partials)
        ah_math_split(host, run_columns, &task, (width + PIECE_COLUMNS - 1) / PIECE_COLUMNS,
                      groups * PIECE_COLUMNS);
}

void ah_norm_run_backward(const struct ah_host *host, const struct ah_op *op)
{
    struct backward task = {args_of(op, ah_host_operand(host, op, 6)),
                            ah_math_kernels_of(host->isa)->norm_backward};
    struct ah_norm_args *args = &task.args;
    const uint64_t row_width = args->heads * args->width;
    const uint64_t groups = (args->vectors + AH_OP_NORM_GROUP - 1) / AH_OP_NORM_GROUP;
    float *scratch = ah_host_operand(host, op, 7);
    args->dx = ah_math_matrix(host, op, 0, row_width);
    args->dy = ah_math_matrix(host, op, 3, row_width);
    args->x = ah_math_matrix(host, op, 4, row_width);
    args->gain = ah_math_matrix(host, op, 5, args->width);
    args->dgain = ah_host_operand(host, op, 1) ? scratch : NULL;
    args->dbias = ah_host_operand(host, op, 2) ? scratch + groups * args->width : NULL;
    ah_math_split(host, run_groups, &task, groups, AH_OP_NORM_GROUP * args->width);
    add_groups(host, op, 1, args->dgain, groups);
    add_groups(host, op, 2, args->dbias, groups);
}
