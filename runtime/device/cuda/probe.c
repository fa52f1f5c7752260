/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds the GPUs, or says why they cannot be used.
 *
 * The plugin is linked with the static CUDA runtime, never with libcuda.so.1, which the runtime loads itself. So the
 * plugin also loads on a machine without a driver, where cudaGetDeviceCount() returns cudaErrorInsufficientDriver.
 *
 * Source: CUDA Runtime API manual, "Device Management", "Version Management".
 */
#include "runtime/device/cuda/cuda_internal.h"
#include "runtime/device/cuda/errors.h"

#include <string.h>

int ah_cuda_count(int *ret_n, struct ah_error *err)
{
    int n = 0;
    cudaError_t rc = cudaGetDeviceCount(&n);
    if (rc == cudaSuccess && n == 0)
        rc = cudaErrorNoDevice;
    if (rc == cudaSuccess)
        *ret_n = n;
    return ah_cuda_check(err, rc, "cudaGetDeviceCount");
}

int ah_cuda_describe(int index, struct ah_device_info *ret_info, struct cudaDeviceProp *ret_properties,
                     struct ah_error *err)
{
    int rc = ah_cuda_check(err, cudaGetDeviceProperties(ret_properties, index), "cudaGetDeviceProperties");
    if (rc)
        return rc;
    struct ah_device_info info = {.kind = AH_DEVICE_CUDA};
    memcpy(info.name, ret_properties->name, sizeof info.name - 1);
    info.name[strnlen(ret_properties->name, sizeof info.name - 1)] = '\0';
    info.memory_bytes = ret_properties->totalGlobalMem;
    info.bf16 = ret_properties->major >= 8; /* matrix units support bf16 since Ampere */
    for (unsigned kind = 0; kind < AH_OP_KINDS; kind++)
        info.supports[kind] = ah_cuda_supports((enum ah_op_kind)kind);
    *ret_info = info;
    return AH_OK;
}

/* Finds the free memory of GPU `index` and makes it current. Only a GPU with a context knows its free memory. If other
 * processes use all memory, no context can be made, and the GPU is listed with no free memory. */
static int find_free_bytes(int index, uint64_t *ret_bytes, struct ah_error *err)
{
    size_t free_bytes = 0, total_bytes = 0;
    cudaError_t rc = cudaSetDevice(index);
    if (rc == cudaSuccess)
        rc = cudaMemGetInfo(&free_bytes, &total_bytes);
    if (rc == cudaErrorMemoryAllocation)
        (void)cudaGetLastError(); /* the next call must not report this error a second time */
    else if (rc != cudaSuccess)
        return ah_cuda_error(err, rc, "cudaMemGetInfo");
    *ret_bytes = free_bytes;
    return AH_OK;
}

static int list_one(int index, struct ah_device_info *ret_info, struct ah_error *err)
{
    struct cudaDeviceProp properties;
    struct ah_device_info info;
    int rc = ah_cuda_describe(index, &info, &properties, err);
    if (!rc)
        rc = find_free_bytes(index, &info.free_bytes, err);
    if (rc)
        return ah_error_prefix(err, rc, "GPU %d", index);
    *ret_info = info;
    return AH_OK;
}

int ah_cuda_probe(struct ah_device_info *ret_infos, size_t max, size_t *ret_n, struct ah_error *err)
{
    int n = 0, current = 0;
    int rc = ah_cuda_count(&n, err);
    if (rc)
        return rc;
    bool known = cudaGetDevice(&current) == cudaSuccess;
    for (int index = 0; index < n && (size_t)index < max && !rc; index++)
        rc = list_one(index, &ret_infos[index], err);
    if (known)
        (void)cudaSetDevice(current);
    if (!rc)
        *ret_n = (size_t)n;
    return rc;
}
