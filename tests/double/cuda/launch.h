/* SPDX-License-Identifier: Apache-2.0
 *
 * Launch: a kernel's launch, as an argument of the double of the CUDA runtime. The double checks the hardware's limits,
 * as cudaLaunchKernel() does. Then the emulator runs the launch on the stream's thread.
 */
#ifndef AH_TESTS_DOUBLE_CUDA_LAUNCH_H
#define AH_TESTS_DOUBLE_CUDA_LAUNCH_H

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { LAUNCH_ARGUMENTS_MAX = 4096 };

struct launch {
    const char *name;                   /* never freed */
    const void *kernel;                 /* the argument of cudaFuncSetAttribute() */
    void (*run)(const void *arguments); /* runs one thread of the kernel */
    const void *arguments;              /* copied */
    size_t arguments_bytes;
    const void *parameters; /* the arguments, aligned for GPUs; copied; NULL: no kernel */
    size_t parameters_bytes;
    dim3 grid;
    dim3 block;
    size_t shared_bytes;
};

cudaError_t launch_enqueue(const struct launch *launch, cudaStream_t stream);

#ifdef __cplusplus
}
#endif
#endif
