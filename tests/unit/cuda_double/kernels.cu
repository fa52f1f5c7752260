/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernels whose results the tests compute themselves (kernels.h).
 */
#include "runtime/device/cuda/kernels/simt.cuh"
#include "tests/unit/cuda_double/kernels.h"

static __device__ unsigned thread_number(void)
{
    return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
}

static __device__ unsigned block_threads(void)
{
    return blockDim.x * blockDim.y * blockDim.z;
}

static __device__ unsigned block_number(void)
{
    return blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
}

static __global__ void places(unsigned *out)
{
    out[block_number() * block_threads() + thread_number()] =
        threadIdx.x + 100 * threadIdx.y + 10000 * threadIdx.z + 1000000 * block_number();
}

static __global__ void around(unsigned *out, unsigned rounds)
{
    AH_DYNAMIC_SHARED(unsigned, row);
    const unsigned i = thread_number(), n = block_threads();
    unsigned value = i;
    for (unsigned round = 0; round < rounds; round++) {
        row[i] = value;
        __syncthreads();
        value = row[(i + 1) % n] + 1;
        __syncthreads();
    }
    out[block_number() * n + i] = value;
}

static __global__ void block_sums(unsigned *out)
{
    __shared__ unsigned partial[32];
    const unsigned i = thread_number(), warps = (block_threads() + 31) / 32;
    unsigned sum = i;
    for (int step = 16; step; step /= 2)
        sum += __shfl_xor_sync(0xffffffffu, sum, step);
    if (i % 32 == 0)
        partial[i / 32] = sum;
    __syncthreads();
    if (i == 0) {
        unsigned total = 0;
        for (unsigned warp = 0; warp < warps; warp++)
            total += partial[warp];
        out[block_number()] = total;
    }
}

static __global__ void shuffles(unsigned *out, int width)
{
    const unsigned i = thread_number(), all = 0xffffffffu;
    unsigned *mine = out + 8 * i;
    mine[0] = __shfl_sync(all, i, 5, width);
    mine[1] = __shfl_xor_sync(all, i, 3, width);
    mine[2] = __shfl_up_sync(all, i, 2, width);
    mine[3] = __shfl_down_sync(all, i, 2, width);
    mine[4] = static_cast<unsigned>(__shfl_xor_sync(all, i * 0x100000001ull, 1, width) >> 32);
    mine[5] = __float_as_uint(__shfl_sync(all, static_cast<float>(i), 31, width));
    mine[6] = static_cast<unsigned>(__shfl_down_sync(all, static_cast<double>(i), 1, width));
    mine[7] = __shfl_sync(all, i, static_cast<int>(i * 7), width);
}

static __global__ void votes(unsigned *out)
{
    const unsigned i = thread_number(), mask = i % 2 ? 0xaaaaaaaau : 0x55555555u;
    unsigned *mine = out + 5 * i;
    if (i % 2) { /* odd lanes vote at the same time as even lanes, but apart */
        mine[0] = __ballot_sync(mask, i % 3 == 0);
        mine[1] = static_cast<unsigned>(__any_sync(mask, i % 32 == 1));
        mine[2] = static_cast<unsigned>(__all_sync(mask, i % 32 != 1));
    } else {
        mine[2] = static_cast<unsigned>(__all_sync(mask, 1));
        mine[1] = static_cast<unsigned>(__any_sync(mask, 0));
        mine[0] = __ballot_sync(mask, i % 3 == 0);
    }
    mine[3] = __reduce_add_sync(mask, i % 3);
    mine[4] = __match_any_sync(mask, i % 3);
}

static __global__ void diverges(unsigned *out)
{
    const unsigned i = thread_number();
    unsigned sum = 0;
    if (i % 2)
        for (unsigned step = 0; step < 5; step++)
            sum += __shfl_sync(0xaaaaaaaau, i, static_cast<int>(2 * step + 1));
    else
        for (unsigned step = 0; step < 3; step++)
            sum += __shfl_sync(0x55555555u, i, static_cast<int>(2 * step));
    __syncwarp();
    out[i] = sum + 1000 * __shfl_xor_sync(0xffffffffu, sum, 1);
}

static __global__ void returns_early(unsigned *out, unsigned leaves)
{
    const unsigned i = thread_number();
    if (i >= leaves)
        return;
    const int first = __syncthreads_count(i % 2 == 0);
    const int second =
        __syncthreads_or(i == leaves - 1) + 2 * __syncthreads_and(i < leaves) + 4 * __syncthreads_and(i != 0);
    out[i] = static_cast<unsigned>(1000 * second + first);
}

static __global__ void looks_at_shared(unsigned *out)
{
    __shared__ unsigned fixed[1024];
    AH_DYNAMIC_SHARED(unsigned, dynamic);
    const unsigned i = thread_number();
    unsigned *mine = out + 2 * (block_number() * block_threads() + i);
    mine[0] = dynamic[i];
    mine[1] = fixed[i];
    dynamic[i] = 0;
    fixed[i] = 0;
}

static __global__ void sticks(void)
{
    if (threadIdx.x % 2 == 0)
        __syncthreads();
    else
        (void)__shfl_sync(0xffffffffu, 1, 0);
}

static __global__ void disagrees(void)
{
    __syncwarp(threadIdx.x ? 0xffffffffu : 3u);
}

static __global__ void traps(unsigned thread)
{
    if (thread_number() == thread)
        __trap();
    __syncthreads();
}

static __global__ void misaligned(const unsigned *out)
{
    const unsigned char *odd = reinterpret_cast<const unsigned char *>(out) + 4;
    (void)__ldg(reinterpret_cast<const uint4 *>(odd));
}

static __global__ void mask_without_itself(void)
{
    __syncwarp(0xfffffffeu);
}

static __global__ void counts(unsigned *out)
{
    out[1 + block_number() * block_threads() + thread_number()] = atomicAdd(out, 1u);
}

static __global__ void writes(unsigned *out, unsigned value, unsigned n)
{
    for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        out[i] = value;
}

static __global__ void intrinsics(unsigned *out)
{
    unsigned n = 0;
    out[n++] = __byte_perm(0x33221100u, 0x77665544u, 0x7250u);
    out[n++] = __byte_perm(0x00000080u, 0, 0x8888u);
    out[n++] = __funnelshift_l(0x80000000u, 1u, 1);
    out[n++] = __funnelshift_r(0x80000000u, 1u, 1);
    out[n++] = __umulhi(0x80000000u, 6u);
    out[n++] = static_cast<unsigned>(__popc(0xf0f0u));
    out[n++] = static_cast<unsigned>(__clz(1));
    out[n++] = static_cast<unsigned>(__ffs(8));
    out[n++] = __float_as_uint(__fmaf_rn(1 + 0x1p-12f, 1 + 0x1p-12f, -1.0f));
    out[n++] = __float_as_uint(__fdiv_rn(1.0f, 3.0f));
    out[n++] = __float_as_uint(__fsqrt_rn(2.0f));
    out[n++] = static_cast<unsigned>(__float2int_rn(2.5f) * 10 + __float2int_rn(3.5f));
    out[30] = 7;
    out[n++] = atomicMax(&out[30], 9u) * 10 + atomicMin(&out[30], 4u);
    out[n++] = atomicCAS(&out[30], 4u, 20u) * 100 + atomicInc(&out[30], 20u);
    out[n++] = atomicExch(&out[30], 5u) * 10 + atomicAdd(&out[30], 1u);
    out[n] = out[30];
}

#define LAUNCH(kernel, ...) AH_LAUNCH(kernel, c->grid, c->block, c->shared_bytes, c->stream, __VA_ARGS__)

cudaError_t kernel_places(const struct kernel_case *c)
{
    return LAUNCH(places, c->out);
}

cudaError_t kernel_around(const struct kernel_case *c, unsigned rounds)
{
    return LAUNCH(around, c->out, rounds);
}

cudaError_t kernel_block_sums(const struct kernel_case *c)
{
    return LAUNCH(block_sums, c->out);
}

cudaError_t kernel_shuffles(const struct kernel_case *c, int width)
{
    return LAUNCH(shuffles, c->out, width);
}

cudaError_t kernel_votes(const struct kernel_case *c)
{
    return LAUNCH(votes, c->out);
}

cudaError_t kernel_diverges(const struct kernel_case *c)
{
    return LAUNCH(diverges, c->out);
}

cudaError_t kernel_returns_early(const struct kernel_case *c, unsigned leaves)
{
    return LAUNCH(returns_early, c->out, leaves);
}

cudaError_t kernel_looks_at_shared(const struct kernel_case *c)
{
    return LAUNCH(looks_at_shared, c->out);
}

cudaError_t kernel_sticks(const struct kernel_case *c)
{
    return AH_LAUNCH(sticks, c->grid, c->block, c->shared_bytes, c->stream);
}

cudaError_t kernel_disagrees(const struct kernel_case *c)
{
    return AH_LAUNCH(disagrees, c->grid, c->block, c->shared_bytes, c->stream);
}

cudaError_t kernel_traps(const struct kernel_case *c, unsigned thread)
{
    return LAUNCH(traps, thread);
}

cudaError_t kernel_misaligned(const struct kernel_case *c)
{
    return LAUNCH(misaligned, c->out);
}

cudaError_t kernel_mask_without_itself(const struct kernel_case *c)
{
    return AH_LAUNCH(mask_without_itself, c->grid, c->block, c->shared_bytes, c->stream);
}

cudaError_t kernel_counts(const struct kernel_case *c)
{
    return LAUNCH(counts, c->out);
}

cudaError_t kernel_writes(const struct kernel_case *c, unsigned value, unsigned n)
{
    return LAUNCH(writes, c->out, value, n);
}

cudaError_t kernel_intrinsics(const struct kernel_case *c)
{
    return LAUNCH(intrinsics, c->out);
}

cudaError_t kernel_allow_shared(size_t bytes)
{
    return AH_ALLOW_SHARED(looks_at_shared, bytes);
}
