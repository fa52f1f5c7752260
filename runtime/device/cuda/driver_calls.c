/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds the driver calls. Each is asked for at the version that introduced its present form, and every later driver has
 * that form. Source: CUDA Runtime API manual, "Driver Entry Point Access".
 */
#include "runtime/device/cuda/driver_calls.h"

#include "runtime/device/cuda/errors.h"

#include <string.h>

struct entry {
    const char *name;
    unsigned version;
    void *to; /* address of a pointer to a function */
};

static int find_entry(const struct entry *entry, struct ah_error *err)
{
    void *function = NULL;
    enum cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
    cudaError_t rc =
        cudaGetDriverEntryPointByVersion(entry->name, &function, entry->version, cudaEnableDefault, &found);
    if (rc != cudaSuccess)
        return ah_cuda_error(err, rc, "cudaGetDriverEntryPointByVersion");
    if (found != cudaDriverEntryPointSuccess || !function)
        return ah_error_set(err, AH_E_MISSING,
                            "the NVIDIA driver lacks '%s' of CUDA %u.%u; upgrade the driver", entry->name,
                            entry->version / 1000, entry->version % 1000 / 10);
    memcpy(entry->to, &function,
           sizeof function); /* C has no cast from a data pointer to a function pointer */
    return AH_OK;
}

int ah_cuda_driver_calls_find(struct ah_cuda_driver_calls *ret_calls, struct ah_error *err)
{
    struct ah_cuda_driver_calls calls = {0};
    const struct entry entries[] = {
        {"cuDeviceGet", 2000, &calls.device_get},
        {"cuDeviceGetAttribute", 2000, &calls.device_attribute},
        {"cuStreamWaitValue64", 11070, &calls.stream_wait_value},
    };
    int rc = AH_OK;
    for (size_t i = 0; i < sizeof entries / sizeof entries[0] && !rc; i++)
        rc = find_entry(&entries[i], err);
    if (!rc)
        *ret_calls = calls;
    return rc;
}
