/* SPDX-License-Identifier: Apache-2.0
 *
 * Philox on a GPU: computes the ten rounds of base/philox.h, whose functions are for the host.
 */
#ifndef AH_RUNTIME_DEVICE_CUDA_KERNELS_PHILOX_CUH
#define AH_RUNTIME_DEVICE_CUDA_KERNELS_PHILOX_CUH

#include "base/philox.h"
#include "runtime/device/cuda/kernels/simt.cuh"

static __device__ inline uint4 ah_philox_four(uint4 counter, uint2 key)
{
    for (int round = 0; round < AH_PHILOX_ROUNDS; round++) {
        const unsigned high0 = __umulhi(AH_PHILOX_M0, counter.x), low0 = AH_PHILOX_M0 * counter.x;
        const unsigned high1 = __umulhi(AH_PHILOX_M1, counter.z), low1 = AH_PHILOX_M1 * counter.z;
        counter = make_uint4(high1 ^ counter.y ^ key.x, low1, high0 ^ counter.w ^ key.y, low0);
        key = make_uint2(key.x + AH_PHILOX_W0, key.y + AH_PHILOX_W1);
    }
    return counter;
}

#endif
