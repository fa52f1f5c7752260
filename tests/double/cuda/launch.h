/* SPDX-License-Identifier: Apache-2.0
 *
 * Launch: a kernel's launch as the double of the CUDA runtime takes it. It is checked against the hardware's limits, as
 * cudaLaunchKernel() does, then run by the emulator on the stream's thread.
 */
#ifndef AH_TESTS_DOUBLE_CUDA_LAUNCH_H
#define AH_TESTS_DOUBLE_CUDA_LAUNCH_H

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { LAUNCH_ARGUMENTS_MAX = 4096 };

struct launch {
    const char *name;                   /* lives forever */
    const void *kernel;                 /* the argument of cudaFuncSetAttribute() */
    void (*run)(const void *arguments); /* runs one thread */
    const void *arguments;              /* copied */
    size_t arguments_bytes;
    const void *parameters; /* the arguments, aligned as GPUs take them; copied; NULL: no kernel */
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
