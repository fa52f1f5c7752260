/* SPDX-License-Identifier: Apache-2.0
 *
 * The devices' properties, versions, and names of errors.
 */
#include "tests/double/cuda/double_internal.h"
#include "tests/double/cuda/emulator.h"

#include <stdio.h>
#include <string.h>

static __thread int current;

int double_device(void)
{
    return current;
}

void double_forget_device(void)
{
    current = 0;
}

size_t double_shared_bytes(const struct cuda_double_device *device)
{
    return device->shared_bytes ? device->shared_bytes : EMULATOR_SHARED_MAX;
}

cudaError_t CUDARTAPI cudaGetDeviceCount(int *n)
{
    cudaError_t rc = double_enter(__func__);
    if (!rc)
        *n = double_settings().n;
    return double_leave(rc);
}

cudaError_t CUDARTAPI cudaDriverGetVersion(int *version)
{
    *version = double_settings().driver_version;
    return cudaSuccess;
}

cudaError_t CUDARTAPI cudaRuntimeGetVersion(int *version)
{
    *version = CUDART_VERSION;
    return cudaSuccess;
}

cudaError_t CUDARTAPI cudaGetDevice(int *device)
{
    cudaError_t rc = double_enter(__func__);
    if (!rc)
        *device = current;
    return double_leave(rc);
}

static cudaError_t check_device(int device)
{
    return device >= 0 && device < double_settings().n ? cudaSuccess : cudaErrorInvalidDevice;
}

cudaError_t CUDARTAPI cudaSetDevice(int device)
{
    cudaError_t rc = double_enter(__func__);
    rc = rc ? rc : check_device(device);
    if (!rc)
        current = device;
    return double_leave(rc);
}

static cudaError_t describe(struct cudaDeviceProp *properties, int number)
{
    cudaError_t rc = check_device(number);
    if (rc)
        return rc;
    struct cuda_double settings = double_settings();
    const struct cuda_double_device *device = &settings.devices[number];
    memset(properties, 0, sizeof *properties);
    (void)snprintf(properties->name, sizeof properties->name, "%s", device->name);
    properties->totalGlobalMem = device->memory_bytes;
    properties->major = device->major;
    properties->minor = device->minor;
    properties->multiProcessorCount = device->processors;
    properties->warpSize = EMULATOR_WARP;
    properties->maxThreadsPerBlock = EMULATOR_THREADS_MAX;
    properties->sharedMemPerBlock = 48 << 10;
    properties->sharedMemPerBlockOptin = double_shared_bytes(device);
    properties->unifiedAddressing = 1;
    properties->canMapHostMemory = 1;
    properties->asyncEngineCount = 2;
    properties->pciBusID = number + 1;
    return device->properties;
}

cudaError_t CUDARTAPI cudaGetDeviceProperties(struct cudaDeviceProp *properties, int device)
{
    cudaError_t rc = double_enter(__func__);
    return double_leave(rc ? rc : describe(properties, device));
}

static cudaError_t attribute_of(int *ret_value, enum cudaDeviceAttr attribute, int number)
{
    cudaError_t rc = check_device(number);
    if (rc)
        return rc;
    struct cuda_double settings = double_settings();
    const struct cuda_double_device *device = &settings.devices[number];
    const struct {
        enum cudaDeviceAttr attribute;
        int value;
    } values[] = {
        {cudaDevAttrComputeCapabilityMajor, device->major},
        {cudaDevAttrComputeCapabilityMinor, device->minor},
        {cudaDevAttrMultiProcessorCount, device->processors},
        {cudaDevAttrWarpSize, EMULATOR_WARP},
        {cudaDevAttrMaxThreadsPerBlock, EMULATOR_THREADS_MAX},
        {cudaDevAttrMaxSharedMemoryPerBlock, 48 << 10},
        {cudaDevAttrMaxSharedMemoryPerBlockOptin, (int)double_shared_bytes(device)},
        {cudaDevAttrCanMapHostMemory, 1},
        {cudaDevAttrUnifiedAddressing, 1},
        {cudaDevAttrConcurrentKernels, 1},
        {cudaDevAttrAsyncEngineCount, 2},
        {cudaDevAttrL2CacheSize, 32 << 20},
        {cudaDevAttrClockRate, 1000000},
        {cudaDevAttrPciBusId, number + 1},
        {cudaDevAttrPciDeviceId, 0},
        {cudaDevAttrPciDomainId, 0},
        {cudaDevAttrComputeMode, cudaComputeModeDefault},
        {cudaDevAttrHostNumaId, -1},
    };
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++)
        if (values[i].attribute == attribute) {
            *ret_value = values[i].value;
            return cudaSuccess;
        }
    return double_misuse(cudaErrorInvalidValue, "attribute %d of a device is asked, which the double has not",
                         (int)attribute);
}

cudaError_t CUDARTAPI cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int device)
{
    cudaError_t rc = double_enter(__func__);
    return double_leave(rc ? rc : attribute_of(value, attribute, device));
}

cudaError_t CUDARTAPI cudaDeviceGetPCIBusId(char *id, int length, int device)
{
    cudaError_t rc = double_enter(__func__);
    rc = rc ? rc : check_device(device);
    if (!rc && snprintf(id, (size_t)length, "0000:%02X:00.0", (unsigned)device + 1) >= length)
        rc = cudaErrorInvalidValue;
    return double_leave(rc);
}

/* clang-format off */
#define ERRORS(X) \
    X(cudaSuccess, "no error") X(cudaErrorInvalidValue, "invalid argument") \
    X(cudaErrorMemoryAllocation, "out of memory") X(cudaErrorInitializationError, "initialization error") \
    X(cudaErrorInvalidConfiguration, "invalid configuration argument") \
    X(cudaErrorInvalidMemcpyDirection, "invalid copy direction for memcpy") \
    X(cudaErrorStubLibrary, "CUDA driver is a stub library") \
    X(cudaErrorInsufficientDriver, "CUDA driver version is insufficient for CUDA runtime version") \
    X(cudaErrorDevicesUnavailable, "CUDA-capable device(s) is/are busy or unavailable") \
    X(cudaErrorNoDevice, "no CUDA-capable device is detected") X(cudaErrorInvalidDevice, "invalid device ordinal") \
    X(cudaErrorECCUncorrectable, "uncorrectable ECC error encountered") \
    X(cudaErrorInvalidResourceHandle, "invalid resource handle") X(cudaErrorNotReady, "device not ready") \
    X(cudaErrorIllegalAddress, "an illegal memory access was encountered") \
    X(cudaErrorLaunchOutOfResources, "too many resources requested for launch") \
    X(cudaErrorLaunchTimeout, "the launch timed out and was terminated") \
    X(cudaErrorHostMemoryAlreadyRegistered, "part or all of the requested memory range is already mapped") \
    X(cudaErrorHostMemoryNotRegistered, "pointer does not correspond to a registered memory region") \
    X(cudaErrorLaunchFailure, "unspecified launch failure") X(cudaErrorNotSupported, "operation not supported") \
    X(cudaErrorSystemNotReady, "system not yet initialized") \
    X(cudaErrorSystemDriverMismatch, "system has unsupported display driver / cuda driver combination") \
    X(cudaErrorUnknown, "unknown error")
/* clang-format on */

static const struct {
    cudaError_t code;
    const char *name;
    const char *text;
} errors[] = {
#define ERROR_ROW(code, text) {code, #code, text},
    ERRORS(ERROR_ROW)
#undef ERROR_ROW
};

const char *CUDARTAPI cudaGetErrorName(cudaError_t code)
{
    for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++)
        if (errors[i].code == code)
            return errors[i].name;
    return "cudaErrorOfTheDouble";
}

const char *CUDARTAPI cudaGetErrorString(cudaError_t code)
{
    for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++)
        if (errors[i].code == code)
            return errors[i].text;
    return "an error that the double has no words for";
}
