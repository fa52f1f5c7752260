/* SPDX-License-Identifier: Apache-2.0
 *
 * Sums columns (columns.cuh). A block has a strip of 16, 32 or 64 columns, wider for wider matrices; a thread adds
 * eight columns of every n-th row, in ascending order, with four rows in flight. Then the threads' sums are added as a
 * tree. The matrix is read once, in pieces of 32 to 128 bytes a row, which neighbouring strips complete to whole lines.
 * Narrow matrices get narrow strips, so that all processors have a block (4096 columns: 128 blocks).
 */
#include "runtime/device/cuda/kernels/columns.cuh"
#include "runtime/device/cuda/kernels/teams.cuh"

namespace
{

enum { THREADS_MAX = 1024, LANES_MAX = 8, AT_ONCE = 4 };

struct task {
    struct ah_rows dst, src;
    uint64_t rows, width;
    unsigned lanes; /* groups of eight columns in a strip */
};

/* Adds up rows first, first + stride, ... for one thread. */
template <int D>
__device__ inline void sum_rows(const struct task *t, uint64_t first, unsigned stride, uint64_t column,
                                float ret_sum[8])
{
    for (unsigned j = 0; j < 8; j++)
        ret_sum[j] = 0;
    for (uint64_t row = first; row < t->rows; row += AT_ONCE * static_cast<uint64_t>(stride)) {
        struct ah_eight<D> eights[AT_ONCE];
        float v[8];
        for (unsigned k = 0; k < AT_ONCE; k++)
            if (row + k * stride < t->rows)
                ah_load(&eights[k], ah_row<D>(t->src, row + k * stride, 0), column, t->width - column);
        for (unsigned k = 0; k < AT_ONCE; k++)
            if (row + k * stride < t->rows) {
                ah_floats(eights[k], v);
                for (unsigned j = 0; j < 8; j++)
                    ret_sum[j] += v[j];
            }
    }
}

template <int D> __global__ void __launch_bounds__(THREADS_MAX) columns(struct task t)
{
    AH_DYNAMIC_SHARED(float, sums); /* (8, threads) */
    const unsigned lane = threadIdx.x % t.lanes, n = blockDim.x;
    const uint64_t column = 8 * (static_cast<uint64_t>(blockIdx.x) * t.lanes + lane);
    float sum[8] = {0, 0, 0, 0, 0, 0, 0, 0};
    if (column < t.width)
        sum_rows<D>(&t, threadIdx.x / t.lanes, n / t.lanes, column, sum);
    for (unsigned j = 0; j < 8; j++)
        sums[j * n + threadIdx.x] = sum[j];
    for (unsigned half = n / 2; half >= t.lanes; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half)
            for (unsigned j = 0; j < 8; j++)
                sums[j * n + threadIdx.x] += sums[j * n + threadIdx.x + half];
    }
    if (threadIdx.x < t.lanes && column < t.width) {
        struct ah_address<AH_ANY> to = {
            t.dst.data, t.dst.dtype
        };
        for (unsigned j = 0; j < 8; j++)
            sum[j] = sums[j * n + threadIdx.x];
        ah_store(to, column, t.width - column, sum);
    }
}

} // namespace

cudaError_t ah_columns_sum(cudaStream_t stream, struct ah_rows dst, struct ah_rows src, uint64_t rows,
                           uint64_t width)
{
    const unsigned lanes = width >= 16384 ? 8 : width >= 2048 ? 4 : 2;
    const unsigned threads = ah_team_size(lanes * rows, THREADS_MAX);
    const uint64_t strip = 8 * lanes;
    const struct task t = {dst, src, rows, width, lanes};
    const int version = ah_rows_version(&src, width, AH_ANY);
    void (*const kernel)(struct task) = version == AH_BF16   ? columns<AH_BF16>
                                        : version == AH_FP32 ? columns<AH_FP32>
                                                             : columns<AH_ANY>;
    return AH_LAUNCH(kernel, dim3(static_cast<unsigned>((width + strip - 1) / strip)), dim3(threads),
                     8 * threads * sizeof(float), stream, t);
}

cudaError_t ah_cuda_column_sum(const struct ah_cuda_launch *launch)
{
    const struct ah_op_rows *op = &launch->op->u.rows;
    return ah_columns_sum(launch->stream, ah_rows_of(launch, 0, op->width), ah_rows_of(launch, 1, op->width),
                          op->rows, op->width);
}
