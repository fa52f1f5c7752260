/* SPDX-License-Identifier: Apache-2.0
 *
 * Embed: each row is the token's row of a table times a scale, plus the position's row of another table; gather has
 * neither scale nor positions. A thread computes eight neighbouring columns of a row, so every row is read and written
 * once.
 */
#include "runtime/device/cuda/kernels/elements.cuh"

namespace
{

enum { THREADS = 256 };

struct task {
    struct ah_rows y, table, positions_table; /* positions_table is absent without positions */
    const uint32_t *tokens;
    const uint32_t *positions; /* NULL: row % seq */
    uint64_t rows, width, seq;
    float scale;
};

template <int D> __global__ void __launch_bounds__(THREADS) embed(struct task t)
{
    const uint64_t i = 8 * (static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x), n = t.width - i;
    if (i >= t.width)
        return;
    for (uint64_t row = blockIdx.y; row < t.rows; row += gridDim.y) {
        struct ah_eight<D> token, position;
        float a[8], b[8];
        ah_load(&token, ah_row<D>(t.table, t.tokens[row], 0), i, n);
        ah_floats(token, a);
        for (unsigned j = 0; j < 8; j++)
            a[j] *= t.scale;
        if (t.positions_table.data) {
            ah_load(&position, ah_row<D>(t.positions_table, t.positions ? t.positions[row] : row % t.seq, 0),
                    i, n);
            ah_floats(position, b);
            for (unsigned j = 0; j < 8; j++)
                a[j] += b[j];
        }
        ah_store(ah_row<D>(t.y, row, 0), i, n, a);
    }
}

cudaError_t run(const struct ah_cuda_launch *launch, struct task *t)
{
    const struct ah_op_embed *op = &launch->op->u.embed;
    const struct ah_rows_grid shape = ah_rows_grid(op->rows, op->width);
    t->y = ah_rows_of(launch, 0, op->width);
    t->table = ah_rows_of(launch, 1, op->width);
    t->rows = op->rows;
    t->width = op->width;
    t->seq = op->seq;
    t->scale = op->scale > 0 ? op->scale : 1.0f;
    const struct ah_rows *const operands[] = {&t->table, &t->y, &t->positions_table};
    const int version = ah_rows_versions(operands, 3, op->width);
    void (*const kernel)(struct task) = version == AH_BF16   ? embed<AH_BF16>
                                        : version == AH_FP32 ? embed<AH_FP32>
                                                             : embed<AH_ANY>;
    return AH_LAUNCH(kernel, shape.grid, shape.block, 0, launch->stream, *t);
}

} // namespace

cudaError_t ah_cuda_embed(const struct ah_cuda_launch *launch)
{
    struct task t = {};
    t.positions_table = ah_rows_of(launch, 2, launch->op->u.embed.width);
    t.tokens = static_cast<const uint32_t *>(launch->arg[3]);
    t.positions = static_cast<const uint32_t *>(launch->arg[4]);
    return run(launch, &t);
}

cudaError_t ah_cuda_gather(const struct ah_cuda_launch *launch)
{
    struct task t = {};
    t.tokens = static_cast<const uint32_t *>(launch->arg[2]);
    return run(launch, &t);
}
