/* SPDX-License-Identifier: Apache-2.0
 *
 * Teams: 2^k threads of a block, neighbours by threadIdx.x, that work on one vector. Blocks are one-dimensional and
 * made of whole teams. A sum over a team is added as a fixed tree, and all its threads get it.
 */
#ifndef AH_RUNTIME_DEVICE_CUDA_KERNELS_TEAMS_CUH
#define AH_RUNTIME_DEVICE_CUDA_KERNELS_TEAMS_CUH

#include "runtime/device/cuda/kernels/simt.cuh"

enum { AH_WARPS_MAX = 32 };

/* Returns the smallest power of two >= n, but at most `most`, which is a power of two. */
static inline unsigned ah_team_size(uint64_t n, unsigned most)
{
    unsigned size = 1;
    while (size < n && size < most)
        size *= 2;
    return size;
}

/* Returns the sum over each min(team, 32) neighbouring lanes. */
static __device__ inline float ah_warp_sum(float value, unsigned team)
{
    for (unsigned bits = team < 32 ? team / 2 : 16; bits; bits /= 2)
        value += __shfl_xor_sync(~0u, value, static_cast<int>(bits));
    return value;
}

static __device__ inline float ah_warp_most(float value)
{
    for (unsigned bits = 16; bits; bits /= 2)
        value = fmaxf(value, __shfl_xor_sync(~0u, value, static_cast<int>(bits)));
    return value;
}

/* Returns the sum over each team; all threads of the block must call it. `partial` is shared, one float per warp of the
 * block. A team above a warp passes one barrier, so a second sum needs another `partial` while this one may be read. */
static __device__ inline float ah_team_sum(float value, unsigned team, float *partial)
{
    const unsigned lane = threadIdx.x % 32, warps = team / 32;
    value = ah_warp_sum(value, team);
    if (team <= 32)
        return value;
    if (lane == 0)
        partial[threadIdx.x / 32] = value;
    __syncthreads();
    value = lane < warps ? partial[threadIdx.x / team * warps + lane] : 0.0f;
    return ah_warp_sum(value, 32);
}

#endif
