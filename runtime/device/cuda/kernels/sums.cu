/* SPDX-License-Identifier: Apache-2.0
 *
 * Sums: the canonical reduction (device/host/reduce.h), with the same bits on every device, and clip, which uses it.
 *
 *   1. leaves   a warp sums a leaf of 4096 elements: lane 2 i + h loads half h of rows 16 i to 16 i + 15, all at once.
 *               Row levels 16 -> 1 are added in a lane's registers, the next four between lanes 2, 4, 8 and 16 apart.
 *               Then the columns: 16 -> 8 between neighbouring lanes, 8 -> 1 in registers. src is read once; the leaf
 *               sums, a two-thousandth of it, go to the workspace.
 *   2. total    one block adds the leaf sums in double, in order. Any order will do if no addition rounds: see
 *               exact_step(). Otherwise one thread adds them one after another.
 *
 * A vector with more leaf sums than the workspace holds is summed by several such pairs of kernels.
 */
#include "runtime/device/cuda/kernels/elements.cuh"

namespace
{

enum { LEAF = 4096, LEAF_WARPS = 4, ROWS = 16 };
enum { LEAVES_MAX = AH_CUDA_KERNEL_WORKSPACE_BYTES / sizeof(float) };
enum { TOTAL_THREADS = 256, TOTAL_WARPS = TOTAL_THREADS / 32, TOTAL_EACH = 8 };

struct task {
    struct ah_rows src;
    uint64_t count;
    uint64_t first;  /* first leaf of this pair of kernels */
    uint64_t leaves; /* number of leaves of this pair of kernels */
    float *sums;
    double *dst;
    bool squares, accumulate;
};

/* (1) Sums the lane's eight columns over sixteen rows. */
template <int D> __device__ inline void sum_rows(const struct task *t, uint64_t leaf, float ret_sum[8])
{
    const unsigned lane = threadIdx.x % 32;
    const uint64_t begin = leaf * LEAF + lane / 2 * (16 * ROWS) + lane % 2 * 8;
    struct ah_eight<D> eights[ROWS];
    float rows[ROWS][8];
    for (unsigned r = 0; r < ROWS; r++) {
        const uint64_t i = begin + 16 * r;
        ah_load(&eights[r], ah_row<D>(t->src, 0, 0), i, i < t->count ? t->count - i : 0);
    }
    for (unsigned r = 0; r < ROWS; r++) {
        ah_floats(eights[r], rows[r]);
        for (unsigned j = 0; j < 8; j++)
            rows[r][j] = t->squares ? rows[r][j] * rows[r][j] : rows[r][j];
    }
    for (unsigned left = ROWS / 2; left >= 1; left /= 2)
        for (unsigned r = 0; r < left; r++)
            for (unsigned j = 0; j < 8; j++)
                rows[r][j] = rows[2 * r][j] + rows[2 * r + 1][j];
    for (unsigned j = 0; j < 8; j++)
        ret_sum[j] = rows[0][j];
}

template <int D> __device__ inline float leaf_sum(const struct task *t, uint64_t leaf)
{
    float sum[8];
    sum_rows<D>(t, leaf, sum);
    for (int stride = 2; stride <= 16; stride *= 2)
        for (unsigned j = 0; j < 8; j++)
            sum[j] += __shfl_xor_sync(~0u, sum[j], stride);
    for (unsigned j = 0; j < 8; j++)
        sum[j] += __shfl_xor_sync(~0u, sum[j], 1);
    for (unsigned half = 4; half >= 1; half /= 2)
        for (unsigned j = 0; j < half; j++)
            sum[j] += sum[j + half];
    return sum[0];
}

/* Sums leaves. A whole leaf uses its type's version, a short last leaf uses AH_ANY. */
template <int D> __global__ void __launch_bounds__(32 * LEAF_WARPS) leaves(struct task t)
{
    const uint64_t place = static_cast<uint64_t>(blockIdx.x) * LEAF_WARPS + threadIdx.x / 32;
    const uint64_t leaf = t.first + place;
    if (place >= t.leaves)
        return;
    const float sum = t.count - leaf * LEAF >= LEAF ? leaf_sum<D>(&t, leaf) : leaf_sum<AH_ANY>(&t, leaf);
    if (threadIdx.x % 32 == 0)
        t.sums[place] = sum;
}

/* Returns the sum over the block, in an order that is free because each caller's sum is exact or only a bound. */
__device__ inline double block_sum(double value, double *shared)
{
    for (int bits = 16; bits; bits /= 2)
        value += __shfl_xor_sync(~0u, value, bits);
    if (threadIdx.x % 32 == 0)
        shared[threadIdx.x / 32] = value;
    __syncthreads();
    value = 0;
    for (unsigned warp = 0; warp < TOTAL_WARPS; warp++)
        value += shared[warp];
    return value;
}

/* True if x is an integer times the unit whose inverse is `inverse`, a power of two. */
__device__ inline bool is_multiple(double x, double inverse)
{
    return trunc(x * inverse) == x * inverse;
}

/* (2) Adds `mine` of all threads to *total; returns false, and adds nothing, if a sum would need rounding. Let |total|
 *     + sum |x| < 2^e, where total and every x are integers times 2^(e - 53). Then any partial sum is such an integer
 *     of at most 53 bits, so it is exact, and the order does not matter. Leaf sums that differ by factors below 5000
 *     mostly pass. Adding one after another takes as long as reading the leaves in bf16. */
__device__ inline bool exact_step(const float *mine, double *total, double (*shared)[TOTAL_WARPS])
{
    double sum = 0, size = 0;
    for (unsigned k = 0; k < TOTAL_EACH; k++) {
        sum += static_cast<double>(mine[k]);
        size += fabs(static_cast<double>(mine[k]));
    }
    sum = block_sum(sum, shared[0]);
    size = block_sum(size, shared[1]) + fabs(*total);
    if (!isfinite(size) || size < 0x1p-200) /* leaf sums are 0 or above 2^-150; all threads decide alike */
        return false;
    /* Is one binade above that of `size`, because `size` is rounded. */
    const long long exponent = (__double_as_longlong(size) >> 52) - 1023 + 2;
    const double inverse = __longlong_as_double((53 - exponent + 1023) << 52);
    bool exact = is_multiple(*total, inverse);
    for (unsigned k = 0; k < TOTAL_EACH; k++)
        exact = exact && is_multiple(static_cast<double>(mine[k]), inverse);
    if (!__syncthreads_and(exact))
        return false;
    *total += sum;
    return true;
}

/* Adds `n` sums to `total` one after another. */
__device__ inline double ordered_step(const float *sums, uint64_t n, double total, double *shared)
{
    __syncthreads();
    if (threadIdx.x == 0) {
        for (uint64_t i = 0; i < n; i++)
            total += static_cast<double>(sums[i]);
        *shared = total;
    }
    __syncthreads();
    return *shared;
}

__global__ void __launch_bounds__(TOTAL_THREADS) add_sums(struct task t)
{
    __shared__ double shared[2][TOTAL_WARPS];
    const uint64_t step = TOTAL_THREADS * TOTAL_EACH;
    double total = t.accumulate ? *t.dst : 0.0;
    for (uint64_t first = 0; first < t.leaves; first += step) {
        const uint64_t n = t.leaves - first < step ? t.leaves - first : step;
        float mine[TOTAL_EACH];
        for (unsigned k = 0; k < TOTAL_EACH; k++) {
            const uint64_t i = threadIdx.x + k * TOTAL_THREADS;
            mine[k] = i < n ? t.sums[first + i] : 0.0f;
        }
        if (!exact_step(mine, &total, shared))
            total = ordered_step(t.sums + first, n, total, &shared[0][0]);
        __syncthreads();
    }
    if (threadIdx.x == 0)
        *t.dst = total;
}

/* Launches (1) and (2) for the leaves of `t`. */
cudaError_t add_leaves(cudaStream_t stream, const struct task *t, int version)
{
    void (*const kernel)(struct task) = version == AH_BF16   ? leaves<AH_BF16>
                                        : version == AH_FP32 ? leaves<AH_FP32>
                                                             : leaves<AH_ANY>;
    const unsigned blocks = static_cast<unsigned>((t->leaves + LEAF_WARPS - 1) / LEAF_WARPS);
    cudaError_t rc = AH_LAUNCH(kernel, dim3(blocks), dim3(32 * LEAF_WARPS), 0, stream, *t);
    return rc ? rc : AH_LAUNCH(add_sums, dim3(1), dim3(TOTAL_THREADS), 0, stream, *t);
}

cudaError_t run(const struct ah_cuda_launch *launch, bool squares)
{
    const struct ah_op_sum *op = &launch->op->u.sum;
    const uint64_t all = (op->count + LEAF - 1) / LEAF;
    struct task t = {ah_rows_of(launch, 1, LEAF),
                     op->count,
                     0,
                     0,
                     static_cast<float *>(launch->workspace),
                     static_cast<double *>(launch->arg[0]),
                     squares,
                     op->accumulate};
    cudaError_t rc = launch->workspace ? cudaSuccess : cudaErrorInvalidValue;
    for (; !rc && t.first < all; t.first += t.leaves) {
        t.leaves = all - t.first < LEAVES_MAX ? all - t.first : static_cast<uint64_t>(LEAVES_MAX);
        rc = add_leaves(launch->stream, &t, ah_rows_version(&t.src, LEAF, AH_ANY));
        t.accumulate = true;
    }
    return rc;
}

/* Computes the same as device/host/clip.c, except that a norm that is not finite leaves the factor unchanged. */
__global__ void clip(struct ah_adamw_scalars *scalars, const double *sums, uint64_t n, double limit)
{
    double total = 0;
    for (uint64_t i = 0; i < n; i++)
        total += sums[i];
    const double norm = sqrt(total), factor = limit / (norm + 1e-6);
    scalars->grad_norm = static_cast<float>(norm);
    if (limit > 0 && isfinite(norm))
        scalars->grad_scale = factor < 1 ? static_cast<float>(factor) : 1.0f;
}

} // namespace

cudaError_t ah_cuda_sum(const struct ah_cuda_launch *launch)
{
    return run(launch, false);
}

cudaError_t ah_cuda_sum_squares(const struct ah_cuda_launch *launch)
{
    return run(launch, true);
}

cudaError_t ah_cuda_clip(const struct ah_cuda_launch *launch)
{
    const struct ah_op_clip *op = &launch->op->u.clip;
    return AH_LAUNCH(clip, dim3(1), dim3(1), 0, launch->stream,
                     static_cast<struct ah_adamw_scalars *>(launch->arg[0]),
                     static_cast<const double *>(launch->arg[1]), op->sums, op->limit);
}
