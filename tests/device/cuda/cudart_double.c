/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/device/cuda/cudart_double.h"

#include <stdio.h>
#include <string.h>

struct cudart_double cudart;

static cudaError_t answer(cudaError_t code)
{
    if (code != cudaSuccess)
        cudart.last = code;
    return code;
}

cudaError_t CUDARTAPI cudaGetDeviceCount(int *count)
{
    if (cudart.count_error == cudaSuccess)
        *count = cudart.n;
    return answer(cudart.count_error);
}

cudaError_t CUDARTAPI cudaDriverGetVersion(int *version)
{
    *version = cudart.driver_version;
    return cudaSuccess;
}

cudaError_t CUDARTAPI cudaGetDevice(int *device)
{
    *device = cudart.current;
    return cudaSuccess;
}

cudaError_t CUDARTAPI cudaSetDevice(int device)
{
    if (device < 0 || device >= cudart.n)
        return answer(cudaErrorInvalidDevice);
    cudart.current = device;
    return cudaSuccess;
}

cudaError_t CUDARTAPI cudaMemGetInfo(size_t *free_bytes, size_t *total_bytes)
{
    const struct double_device *device = &cudart.devices[cudart.current];
    if (device->memory == cudaSuccess) {
        *free_bytes = device->free_bytes;
        *total_bytes = device->memory_bytes;
    }
    return answer(device->memory);
}

cudaError_t CUDARTAPI cudaGetDeviceProperties(struct cudaDeviceProp *properties, int number)
{
    const struct double_device *device = &cudart.devices[number];
    memset(properties, 0, sizeof *properties);
    snprintf(properties->name, sizeof properties->name, "%s", device->name);
    properties->totalGlobalMem = device->memory_bytes;
    properties->major = device->major;
    return answer(device->properties);
}

cudaError_t CUDARTAPI cudaGetLastError(void)
{
    cudaError_t last = cudart.last;
    cudart.last = cudaSuccess;
    return last;
}

const char *CUDARTAPI cudaGetErrorName(cudaError_t code)
{
    (void)code;
    return "cudaErrorOfTheDouble";
}

const char *CUDARTAPI cudaGetErrorString(cudaError_t code)
{
    (void)code;
    return "words of the runtime";
}
