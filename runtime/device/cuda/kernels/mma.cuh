/* SPDX-License-Identifier: Apache-2.0
 *
 * Mma: matrix-unit operations for which CUDA C++ has no function. These are products of 16 x 8 x 16 tiles of bf16,
 * loads of their operands from shared memory, background copies into shared memory, and the two conversions in between.
 * For GPUs since Ampere (sm_80); in the tests' double, mma_double.cuh does the same on the CPU.
 *
 *     __shared__ __align__(128) uint16_t a[16 * 16], b[8 * 16];      rows of 16: (m, k), (n, k)
 *     struct ah_mma_pipe pipe = {};
 *     ah_mma_copy(pipe, ah_mma_at(a) + threadIdx.x * 16, from, 16);
 *     ah_mma_commit(pipe);
 *     ah_mma_wait<0>(pipe);
 *     __syncthreads();
 *
 * With g = lane / 4 and t = lane % 4, a lane of the warp holds these pairs of neighbouring elements of a tile:
 *
 *     a (16, 16): [0] row g, columns 2t and 2t + 1;  [1] row g + 8;  [2] row g, columns 2t + 8, + 9;  [3] row g + 8
 *     b (16, 8):  [0] rows 2t and 2t + 1, column g;  [1] rows 2t + 8, + 9
 *     c (16, 8):  [0] [1] row g, columns 2t and 2t + 1;  [2] [3] row g + 8; fp32
 *
 * So two tiles of c, side by side and rounded, form one of a: the result of one product is an operand of the next.
 *
 * All lanes of a warp call multiply and load together. Source: PTX ISA, "Warp Level Matrix Instructions", "cp.async".
 */
#ifndef AH_RUNTIME_DEVICE_CUDA_KERNELS_MMA_CUH
#define AH_RUNTIME_DEVICE_CUDA_KERNELS_MMA_CUH

#include "runtime/device/cuda/kernels/simt.cuh"

#ifndef __CUDACC__
#include <mma_double.cuh> /* from tests/double/cuda */
#else

/* An address in shared memory, in bytes. */
typedef uint32_t ah_mma_place;

/* A thread's background copies. Empty on a GPU, where the hardware keeps track of them. */
struct ah_mma_pipe {
};

static __device__ __forceinline__ ah_mma_place ah_mma_at(const void *shared)
{
    return static_cast<uint32_t>(__cvta_generic_to_shared(shared));
}

/* Returns `place`, but hides its value from the compiler. So a loop computes addresses anew instead of keeping them in
 * registers. */
static __device__ __forceinline__ ah_mma_place ah_mma_anew(ah_mma_place place)
{
    asm volatile("" : "+r"(place));
    return place;
}

/* Computes c += a b. */
static __device__ __forceinline__ void ah_mma_multiply(float (&c)[4], const uint32_t (&a)[4], uint32_t b0,
                                                       uint32_t b1)
{
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
        "{%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/* Loads four 8 x 8 tiles. Lane i passes the place of row i % 8 of tile i / 8: 16 bytes at a multiple of 16, with the
 * rows of a tile in different banks. A lane gets elements 2t and 2t + 1 of row g of each tile. With
 * ah_mma_load_transposed(), it gets rows 2t and 2t + 1 of column g. */
static __device__ __forceinline__ void ah_mma_load(uint32_t (&ret_tiles)[4], ah_mma_place row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(ret_tiles[0]), "=r"(ret_tiles[1]), "=r"(ret_tiles[2]), "=r"(ret_tiles[3])
                 : "r"(row)
                 : "memory");
}

static __device__ __forceinline__ void ah_mma_load_transposed(uint32_t (&ret_tiles)[4], ah_mma_place row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(ret_tiles[0]), "=r"(ret_tiles[1]), "=r"(ret_tiles[2]), "=r"(ret_tiles[3])
                 : "r"(row)
                 : "memory");
}

/* Starts copying `bytes` (at most 16) from global memory, and zeroes the rest of the 16 bytes at `to`. Both addresses
 * are multiples of 16. If `bytes` is 0, nothing is read, whatever `from` is. */
static __device__ __forceinline__ void ah_mma_copy(struct ah_mma_pipe &, ah_mma_place to, const void *from,
                                                   uint32_t bytes)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to),
                 "l"(__cvta_generic_to_global(from)), "r"(bytes)
                 : "memory");
}

/* Starts copying `bytes` (at most 4), and zeroes the rest of the 4 bytes at `to`. Both addresses are multiples of 4. */
static __device__ __forceinline__ void ah_mma_copy_word(struct ah_mma_pipe &, ah_mma_place to,
                                                        const void *from, uint32_t bytes)
{
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(to),
                 "l"(__cvta_generic_to_global(from)), "r"(bytes)
                 : "memory");
}

/* Makes the copies started since the last call one group. */
static __device__ __forceinline__ void ah_mma_commit(struct ah_mma_pipe &)
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}

/* Waits for all groups of this thread except the latest `groups`. Other threads see the copies after a barrier. */
template <unsigned groups> static __device__ __forceinline__ void ah_mma_wait(struct ah_mma_pipe &)
{
    asm volatile("cp.async.wait_group %0;" ::"n"(groups) : "memory");
}

/* Returns two numbers as bf16, rounded to nearest even, `low` in the lower half. */
static __device__ __forceinline__ uint32_t ah_mma_pair(float low, float high)
{
    uint32_t pair;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    return pair;
}

/* Return 1 / x (0 for x above 2^126) and the binary logarithm, within 2^-22; of the logarithm's size where that is more
 * than 1. Denormals count as 0. */
static __device__ __forceinline__ float ah_mma_reciprocal(float x)
{
    float inverse;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(x));
    return inverse;
}

static __device__ __forceinline__ float ah_mma_log2(float x)
{
    float exponent;
    asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(exponent) : "f"(x));
    return exponent;
}

/* Returns 2^x within 2 units of the last place; results below 2^-126 become 0. */
static __device__ __forceinline__ float ah_mma_exp2(float x)
{
    float power;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
    return power;
}

#endif
#endif
