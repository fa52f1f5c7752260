/* SPDX-License-Identifier: Apache-2.0
 *
 * What the host's compiler needs to compile kernels: CUDA's keywords and built-in variables here, functions of the warp
 * in simt_warp.cuh, arithmetic, memory and atomics in simt_intrinsics.cuh. Only simt.cuh includes this file.
 *
 * Each thread of the system has one static shared memory, because it runs its blocks one after another.
 */
#ifndef AH_TESTS_DOUBLE_CUDA_SIMT_DOUBLE_CUH
#define AH_TESTS_DOUBLE_CUDA_SIMT_DOUBLE_CUH

#include "tests/double/cuda/emulator.h"
#include "tests/double/cuda/launch.h"

#include <cuda_runtime_api.h>
#include <string.h>
#include <vector_functions.h>

#undef __global__
#undef __device__
#undef __host__
#undef __shared__
#undef __constant__
#define __global__
#define __device__
#define __host__
#define __shared__ static __thread
#define __constant__
#define __launch_bounds__(...)
#define __noinline__ __attribute__((noinline))

#define threadIdx (emulator_self->index)
#define blockIdx  (emulator_self->block->index)
#define blockDim  (emulator_self->block->size)
#define gridDim   (emulator_self->block->grid)
#define warpSize  32

#include "tests/double/cuda/simt_intrinsics.cuh"
#include "tests/double/cuda/simt_warp.cuh"

#define AH_DYNAMIC_SHARED(type, name)                                                                        \
    type *const name = reinterpret_cast<type *>(static_cast<void *>(emulator_self->block->shared))

/* Appends a parameter where a kernel's code expects it. */
template <class T> inline void ah_simt_put(unsigned char *places, size_t *n, const T &value)
{
    const size_t at = (*n + alignof(T) - 1) / alignof(T) * alignof(T);
    *n = at + sizeof value;
    if (*n <= LAUNCH_ARGUMENTS_MAX)
        memcpy(places + at, &value, sizeof value);
}

/* A launch's arguments, copied when it is enqueued. */
template <class... P>
inline cudaError_t ah_simt_launch(const char *name, void (*kernel)(P...), dim3 grid, dim3 block,
                                  size_t shared_bytes, cudaStream_t stream,
                                  typename ah_simt_value<P>::type... arguments)
{
    auto thread = [=] { kernel(arguments...); };
    alignas(64) unsigned char parameters[LAUNCH_ARGUMENTS_MAX];
    size_t parameters_bytes = 0;
    const int each[] = {0, (ah_simt_put(parameters, &parameters_bytes, arguments), 0)...};
    (void)each;
    struct launch launch = {};
    launch.name = name;
    launch.kernel = reinterpret_cast<const void *>(kernel);
    launch.run = [](const void *closure) { (*static_cast<decltype(thread) const *>(closure))(); };
    launch.arguments = &thread;
    launch.arguments_bytes = sizeof thread;
    launch.parameters = parameters;
    launch.parameters_bytes = parameters_bytes;
    launch.grid = grid;
    launch.block = block;
    launch.shared_bytes = shared_bytes;
    return launch_enqueue(&launch, stream);
}

#endif
