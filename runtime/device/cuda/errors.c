/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of CUDA errors and their sentences. Source: CUDA Runtime API manual, "Error Handling" and "Data types"
 * (enum cudaError).
 */
#include "runtime/device/cuda/errors.h"

#include <stdlib.h>

#define GO_ON "; start again from the last checkpoint ('--resume')"

struct cause {
    cudaError_t code;
    int error; /* enum ah_err */
    bool sticks;
    const char *sentence;
};

/* clang-format off */
static const struct cause causes[] = {
    {cudaErrorInitializationError, AH_E_MISSING, false,
     "the NVIDIA driver is installed but does not start; see 'dmesg' and 'nvidia-smi'"},
    {cudaErrorStubLibrary, AH_E_MISSING, false,
     "the CUDA toolkit's stub of libcuda.so.1 was loaded instead of the driver; remove the toolkit's 'stubs' "
     "folder from LD_LIBRARY_PATH"},
    {cudaErrorInvalidDevice, AH_E_MISSING, false,
     "there is no GPU of this number; see 'nvidia-smi', and CUDA_VISIBLE_DEVICES if it is set"},
    {cudaErrorDevicesUnavailable, AH_E_MISSING, false,
     "every GPU is held by another process in exclusive mode; see 'nvidia-smi'"},
    {cudaErrorSystemNotReady, AH_E_MISSING, false,
     "the GPUs of this machine are not ready; start 'nvidia-fabricmanager'"},
    {cudaErrorSystemDriverMismatch, AH_E_MISSING, false,
     "the NVIDIA kernel module and libcuda.so.1 have different versions; reboot after an upgrade of the driver"},
    {cudaErrorCompatNotSupportedOnDevice, AH_E_MISSING, false,
     "the CUDA forward compatibility package does not support this GPU; upgrade the NVIDIA driver instead"},
    {cudaErrorUnknown, AH_E_MISSING, false,
     "the NVIDIA driver does not start; see 'dmesg', and check that /dev/nvidia* exist and can be opened"},
    {cudaErrorNoKernelImageForDevice, AH_E_MISSING, false,
     "this build has no code for this GPU; build with its architecture in CMAKE_CUDA_ARCHITECTURES"},
    {cudaErrorUnsupportedPtxVersion, AH_E_MISSING, false,
     "the NVIDIA driver is too old to translate this build's code for this GPU; upgrade the driver"},
    {cudaErrorMemoryAllocation, AH_E_CAPACITY, false,
     "the GPU or the locked memory of the host is exhausted; end other processes on it, or plan for less"},
    {cudaErrorIllegalAddress, AH_E_FAILED, true, "it accessed an address outside the GPU's memory" GO_ON},
    {cudaErrorMisalignedAddress, AH_E_FAILED, true, "it accessed a misaligned address" GO_ON},
    {cudaErrorIllegalInstruction, AH_E_FAILED, true, "it ran an instruction that the GPU does not have" GO_ON},
    {cudaErrorInvalidAddressSpace, AH_E_FAILED, true, "it used an address in the wrong kind of memory" GO_ON},
    {cudaErrorInvalidPc, AH_E_FAILED, true, "it jumped outside its program" GO_ON},
    {cudaErrorHardwareStackError, AH_E_FAILED, true, "its stack on the GPU was damaged" GO_ON},
    {cudaErrorAssert, AH_E_FAILED, true, "an assertion of its kernel failed" GO_ON},
    {cudaErrorLaunchFailure, AH_E_FAILED, true, "its kernel ended with an exception" GO_ON},
    {cudaErrorLaunchTimeout, AH_E_FAILED, true,
     "its kernel ran longer than the display on this GPU allows; use a GPU without display" GO_ON},
    {cudaErrorECCUncorrectable, AH_E_FAILED, true,
     "the GPU found an uncorrectable error in its memory; see 'nvidia-smi -q -d ECC'" GO_ON},
    {cudaErrorContained, AH_E_FAILED, true,
     "the GPU isolated an error in its memory by ending this process's work; see 'dmesg'" GO_ON},
    {cudaErrorNvlinkUncorrectable, AH_E_FAILED, true,
     "a link of the GPU failed; see 'nvidia-smi nvlink -e' and 'dmesg'" GO_ON},
    {cudaErrorContextIsDestroyed, AH_E_FAILED, true, "the process's context on the GPU was destroyed" GO_ON},
    {cudaErrorExternalDevice, AH_E_FAILED, true, "another device that the GPU works with has failed; see "
                                                 "'dmesg'" GO_ON},
    {cudaErrorTensorMemoryLeak, AH_E_FAILED, true, "its kernel did not release tensor memory" GO_ON},
    {cudaErrorMpsClientTerminated, AH_E_FAILED, true,
     "another client of the MPS server failed and ended this process's work" GO_ON},
};
/* clang-format on */

static const struct cause *find_cause(cudaError_t code)
{
    for (size_t i = 0; i < sizeof causes / sizeof causes[0]; i++)
        if (causes[i].code == code)
            return &causes[i];
    return NULL;
}

/* Sets the error for cudaErrorInsufficientDriver: "no driver" or "an old driver", as the driver's version tells. */
static int driver_missing(struct ah_error *err)
{
    int version = 0;
    if (cudaDriverGetVersion(&version) != cudaSuccess || version == 0)
        return ah_error_set(
            err, AH_E_MISSING,
            "no NVIDIA driver is installed; install one (Debian: 'apt-get install nvidia-driver' from "
            "non-free) and reboot; in a container, start it with GPU access ('--gpus all')");
    return ah_error_set(
        err, AH_E_MISSING,
        "the NVIDIA driver is too old: it supports CUDA %d.%d, but this build needs %d.%d; upgrade the "
        "driver",
        version / 1000, version % 1000 / 10, CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10);
}

static int no_device(struct ah_error *err)
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

int ah_cuda_error(struct ah_error *err, cudaError_t code, const char *call)
{
    const struct cause *cause = find_cause(code);
    (void)cudaGetLastError();
    if (code == cudaErrorInsufficientDriver)
        return driver_missing(err);
    if (code == cudaErrorNoDevice)
        return no_device(err);
    if (!cause)
        return ah_error_set(err, AH_E_FAILED, "%s failed: %s (%s, %d)", call, cudaGetErrorString(code),
                            cudaGetErrorName(code), (int)code);
    return ah_error_set(err, cause->error, "%s", cause->sentence);
}

int ah_cuda_check(struct ah_error *err, cudaError_t code, const char *call)
{
    return code == cudaSuccess ? AH_OK : ah_cuda_error(err, code, call);
}

bool ah_cuda_error_sticks(cudaError_t code)
{
    const struct cause *cause = find_cause(code);
    return cause && cause->sticks;
}
