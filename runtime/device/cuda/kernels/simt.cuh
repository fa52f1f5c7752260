/* SPDX-License-Identifier: Apache-2.0
 *
 * Simt: how kernels are launched and find dynamic shared memory, for both compilers. nvcc compiles them for GPUs. In
 * tests the host's compiler compiles the same source, and tests/double/cuda runs it on the CPU; this header then also
 * defines CUDA's own names (simt_double.cuh lists them).
 *
 *     __global__ void __launch_bounds__(256) row_sums(float *out, const float *__restrict__ in, unsigned width)
 *     {
 *         __shared__ float partial[8];                  static: plain names as in CUDA
 *         AH_DYNAMIC_SHARED(float, row);                dynamic: float *row, aligned to 128
 *         for (unsigned i = threadIdx.x; i < width; i += blockDim.x)
 *             row[i] = in[blockIdx.x * width + i];
 *         __syncthreads();
 *         ...
 *     }
 *
 *     cudaError_t rc = AH_ALLOW_SHARED(row_sums, width * sizeof(float));       above 48 KiB, once before
 *     if (!rc)
 *         rc = AH_LAUNCH(row_sums, rows, 256, width * sizeof(float), stream, out, in, width);
 *
 * A template's name goes in parentheses if it has a comma: AH_LAUNCH((copy<float, 4>), ...).
 *
 * So that a kernel runs with both compilers, a thread may wait for others of its block (barriers, functions of the warp
 * with any masks), but never for another block. Only the mask decides which lanes take part in a function of the warp,
 * because threads do not run in lockstep. A kernel's arguments are plain values.
 */
#ifndef AH_RUNTIME_DEVICE_CUDA_KERNELS_SIMT_CUH
#define AH_RUNTIME_DEVICE_CUDA_KERNELS_SIMT_CUH

#include <cuda_runtime_api.h>

#include <stddef.h>
#include <stdint.h>

/* A parameter of type T that accepts any argument convertible to T. */
template <class T> struct ah_simt_value {
    typedef T type;
};

#ifdef __CUDACC__

#define AH_DYNAMIC_SHARED(type, name)                                                                        \
    extern __shared__ __align__(128) unsigned char ah_simt_dynamic_shared[];                                 \
    type *const name = reinterpret_cast<type *>(ah_simt_dynamic_shared)

template <class... P>
inline cudaError_t ah_simt_launch(const char *, void (*kernel)(P...), dim3 grid, dim3 block,
                                  size_t shared_bytes, cudaStream_t stream,
                                  typename ah_simt_value<P>::type... arguments)
{
    void *places[] = {static_cast<void *>(&arguments)..., nullptr};
    return cudaLaunchKernel(reinterpret_cast<const void *>(kernel), grid, block, places, shared_bytes,
                            stream);
}

#else
#include <simt_double.cuh> /* from tests/double/cuda: the double's build names that folder */
#endif

#define AH_LAUNCH(kernel, ...) ah_simt_launch(#kernel, kernel, __VA_ARGS__)

#define AH_ALLOW_SHARED(kernel, bytes)                                                                       \
    cudaFuncSetAttribute(reinterpret_cast<const void *>(kernel),                                             \
                         cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes))

#endif
