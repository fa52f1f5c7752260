/* SPDX-License-Identifier: Apache-2.0
 *
 * A double of the CUDA runtime calls that the plugin makes: what it shall answer is set here.
 */
#ifndef AH_TESTS_DEVICE_CUDA_CUDART_DOUBLE_H
#define AH_TESTS_DEVICE_CUDA_CUDART_DOUBLE_H

#include <cuda_runtime_api.h>

enum { DOUBLE_DEVICES = 4 };

struct double_device {
    const char *name;
    size_t memory_bytes;
    size_t free_bytes;
    int major;
    cudaError_t properties; /* what cudaGetDeviceProperties returns */
    cudaError_t memory;     /* what cudaMemGetInfo returns */
};

struct cudart_double {
    cudaError_t count_error; /* what cudaGetDeviceCount returns; then it leaves the count untouched */
    int driver_version;      /* 0: there is none */
    int n;
    struct double_device devices[DOUBLE_DEVICES];
    int current;
    cudaError_t last; /* the sticky error of this thread */
};

extern struct cudart_double cudart;

#endif
