/* SPDX-License-Identifier: Apache-2.0
 *
 * The CUDA driver of device.h, as the plugin libautohete_cuda.so: lists the GPUs and says what keeps them
 * from being used.
 *
 * 1. Linked with the static CUDA runtime and never with libcuda.so.1: the runtime loads the driver itself, so
 *    the plugin loads where there is none, and cudaGetDeviceCount() then returns cudaErrorInsufficientDriver.
 * 2. No op is run here: `supports` is false for every kind and open() refuses.
 *
 * Source: CUDA Runtime API manual, "Error Handling", "Device Management", "Version Management".
 */
#include "runtime/device/plugin.h"

#include <cuda_runtime_api.h>

#include <stdlib.h>
#include <string.h>

static const struct {
    cudaError_t code;
    const char *sentence;
} cuda_causes[] = {
    {cudaErrorInitializationError,
     "the NVIDIA driver is installed but does not start; see 'dmesg' and 'nvidia-smi'"},
    {cudaErrorStubLibrary,
     "the stub of libcuda.so.1 from the CUDA toolkit is loaded in place of the driver; take the "
     "toolkit's 'stubs' folder out of LD_LIBRARY_PATH"},
    {cudaErrorDevicesUnavailable, "every GPU is held by another process in exclusive mode; see 'nvidia-smi'"},
    {cudaErrorSystemNotReady, "the GPUs of this machine are not ready; start 'nvidia-fabricmanager'"},
    {cudaErrorSystemDriverMismatch,
     "the NVIDIA kernel module and libcuda.so.1 have different versions; reboot after an "
     "upgrade of the driver"},
    {cudaErrorCompatNotSupportedOnDevice,
     "the CUDA forward compatibility package does not support this GPU; upgrade the "
     "NVIDIA driver instead"},
    {cudaErrorUnknown,
     "the NVIDIA driver does not start; see 'dmesg', and that /dev/nvidia* exist and can be opened"},
};

/* cudaErrorInsufficientDriver means both "no driver" and "an old one"; the driver's version tells which. */
static int cuda_driver_missing(struct ah_error *err)
{
    int version = 0;
    if (cudaDriverGetVersion(&version) != cudaSuccess || version == 0)
        return ah_error_set(
            err, AH_E_MISSING,
            "no NVIDIA driver is installed; install one (Debian: 'apt-get install nvidia-driver' from "
            "non-free) and reboot; in a container, start it with GPU access ('--gpus all')");
    return ah_error_set(
        err, AH_E_MISSING,
        "the NVIDIA driver is too old: it supports CUDA %d.%d and this build needs %d.%d; upgrade the "
        "driver",
        version / 1000, version % 1000 / 10, CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10);
}

static int cuda_no_device(struct ah_error *err)
{
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    if (visible)
        return ah_error_set(
            err, AH_E_MISSING,
            "CUDA_VISIBLE_DEVICES is '%.64s', which leaves no GPU visible; unset it or name one ('0')",
            visible);
    return ah_error_set(err, AH_E_MISSING,
                        "the NVIDIA driver finds no GPU; see 'nvidia-smi' and whether 'lspci' lists one");
}

/* Turns a failure of `call` into a code and a sentence. */
static int cuda_error(struct ah_error *err, cudaError_t code, const char *call)
{
    if (code == cudaErrorInsufficientDriver)
        return cuda_driver_missing(err);
    if (code == cudaErrorNoDevice)
        return cuda_no_device(err);
    for (size_t i = 0; i < sizeof cuda_causes / sizeof cuda_causes[0]; i++)
        if (cuda_causes[i].code == code)
            return ah_error_set(err, AH_E_MISSING, "%s", cuda_causes[i].sentence);
    return ah_error_set(err, AH_E_FAILED, "%s failed: %s (%s, %d)", call, cudaGetErrorString(code),
                        cudaGetErrorName(code), (int)code);
}

/* Free memory can only be asked of a device with a context. None can be made where others use all memory:
 * that device is listed, with nothing free. Leaves `device` current. */
static int cuda_free_bytes(int device, uint64_t *ret_bytes, struct ah_error *err)
{
    size_t free_bytes = 0;
    size_t total_bytes = 0;
    cudaError_t rc = cudaSetDevice(device);
    if (rc == cudaSuccess)
        rc = cudaMemGetInfo(&free_bytes, &total_bytes);
    if (rc != cudaSuccess)
        (void)cudaGetLastError(); /* the runtime would report it again from the next call */
    if (rc != cudaSuccess && rc != cudaErrorMemoryAllocation)
        return ah_error_prefix(err, cuda_error(err, rc, "cudaMemGetInfo"), "GPU %d", device);
    *ret_bytes = free_bytes;
    return AH_OK;
}

static int cuda_describe(int device, struct ah_device_info *ret_info, struct ah_error *err)
{
    struct cudaDeviceProp properties;
    cudaError_t rc = cudaGetDeviceProperties(&properties, device);
    if (rc != cudaSuccess)
        return ah_error_prefix(err, cuda_error(err, rc, "cudaGetDeviceProperties"), "GPU %d", device);
    struct ah_device_info info = {.kind = AH_DEVICE_CUDA};
    memcpy(info.name, properties.name, sizeof info.name - 1);
    info.name[strnlen(properties.name, sizeof info.name - 1)] = '\0';
    info.memory_bytes = properties.totalGlobalMem;
    info.bf16 = properties.major >= 8; /* matrix units take bf16 from Ampere on */
    int failed = cuda_free_bytes(device, &info.free_bytes, err);
    if (failed)
        return failed;
    *ret_info = info;
    return AH_OK;
}

static int cuda_probe(struct ah_device_info *ret_infos, size_t max, size_t *ret_n, struct ah_error *err)
{
    int n = 0;
    cudaError_t rc = cudaGetDeviceCount(&n);
    if (rc == cudaSuccess && n == 0)
        rc = cudaErrorNoDevice;
    if (rc != cudaSuccess)
        return cuda_error(err, rc, "cudaGetDeviceCount");
    int current = 0;
    int known = cudaGetDevice(&current) == cudaSuccess;
    int failed = AH_OK;
    for (int device = 0; device < n && (size_t)device < max && !failed; device++)
        failed = cuda_describe(device, &ret_infos[device], err);
    if (known)
        (void)cudaSetDevice(current);
    if (!failed)
        *ret_n = (size_t)n;
    return failed;
}

static int cuda_open(struct ah_device **ret_device, const struct ah_device_options *options,
                     struct ah_error *err)
{
    (void)ret_device;
    return ah_error_set(
        err, AH_E_UNSUPPORTED,
        "device 'cuda:%u': this build lists GPUs and does not run ops on them; use the device 'cpu'",
        options->index);
}

static void cuda_close(struct ah_device *device)
{
    (void)device; /* open() makes none */
}

/* The slots left out work on an open device, and there is none. */
static const struct ah_device_driver cuda_driver = {
    .abi = AH_DEVICE_ABI,
    .layout = AH_DEVICE_LAYOUT,
    .name = "cuda",
    .probe = cuda_probe,
    .open = cuda_open,
    .close = cuda_close,
};

/* The one symbol of the plugin: AH_PLUGIN_SYMBOL. */
__attribute__((visibility("default"))) ah_plugin_fn ah_plugin_driver;

const struct ah_device_driver *ah_plugin_driver(void)
{
    return &cuda_driver;
}
