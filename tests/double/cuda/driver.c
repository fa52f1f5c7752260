/* SPDX-License-Identifier: Apache-2.0
 *
 * The driver's own calls. The runtime finds them by name.
 */
#include "tests/double/cuda/double_internal.h"

#include <cuda.h>

#include <sched.h>
#include <string.h>

enum { POLLS_BEFORE_SLEEP = 100, POLL_US = 20 };

/* By device, the number of waits, in all its streams, that are not yet met. */
static unsigned waits_enqueued[CUDA_DOUBLE_DEVICES];

bool double_awaits_values(void)
{
    return __atomic_load_n(&waits_enqueued[double_device()], __ATOMIC_ACQUIRE) > 0;
}

cudaError_t double_idle(const char *call)
{
    if (double_lost() || !double_awaits_values())
        return cudaSuccess;
    return double_misuse(cudaErrorNotPermitted,
                         "%s while a stream waits for the host: the driver may wait for an idle GPU", call);
}

struct value {
    uint64_t *place;
    uint64_t value;
    unsigned flags;
    int device;
};

static bool met(const struct value *wait)
{
    uint64_t there = __atomic_load_n(wait->place, __ATOMIC_ACQUIRE);
    switch (wait->flags & 3) {
    case CU_STREAM_WAIT_VALUE_GEQ:
        return (int64_t)(there - wait->value) >= 0;
    case CU_STREAM_WAIT_VALUE_EQ:
        return there == wait->value;
    case CU_STREAM_WAIT_VALUE_AND:
        return (there & wait->value) != 0;
    default:
        return ~(there | wait->value) != 0;
    }
}

static cudaError_t run_wait(void *payload, char *report)
{
    const struct value *wait = payload;
    (void)report;
    for (unsigned polls = 0; !met(wait) && !double_lost(); polls++)
        if (polls < POLLS_BEFORE_SLEEP)
            (void)sched_yield();
        else
            double_sleep_us(POLL_US);
    (void)__atomic_sub_fetch(&waits_enqueued[wait->device], 1, __ATOMIC_RELEASE);
    return cudaSuccess;
}

static cudaError_t run_write(void *payload, char *report)
{
    const struct value *write = payload;
    (void)report;
    if (!double_lost())
        __atomic_store_n(write->place, write->value, __ATOMIC_RELEASE);
    return cudaSuccess;
}

static cudaError_t enqueue(CUstream stream, double_run_fn *run, CUdeviceptr place, uint64_t value,
                           unsigned flags)
{
    struct value work = {.place = (uint64_t *)(uintptr_t)place,
                         .value = value,
                         .flags = flags,
                         .device = double_stream_device(stream)};
    enum double_place found = double_place_of(work.place, sizeof *work.place);
    if (place % sizeof value || (found != PLACE_DEVICE && found != PLACE_PINNED))
        return double_misuse(cudaErrorInvalidValue, "a stream's value lies in %s, or is not aligned",
                             double_place_name(found));
    return double_enqueue(stream, &(struct double_work){run, &work, sizeof work, NULL});
}

static CUresult wait_value(CUstream stream, CUdeviceptr place, cuuint64_t value, unsigned flags)
{
    cudaError_t rc = double_enter("cuStreamWaitValue64");
    if (rc)
        return (CUresult)rc;
    const int device = double_stream_device(stream);
    if (device < 0)
        return (CUresult)cudaErrorInvalidResourceHandle;
    (void)__atomic_add_fetch(&waits_enqueued[device], 1, __ATOMIC_RELAXED);
    rc = enqueue(stream, run_wait, place, value, flags);
    if (rc)
        (void)__atomic_sub_fetch(&waits_enqueued[device], 1, __ATOMIC_RELAXED);
    return (CUresult)rc;
}

static CUresult write_value(CUstream stream, CUdeviceptr place, cuuint64_t value, unsigned flags)
{
    cudaError_t rc = double_enter("cuStreamWriteValue64");
    return (CUresult)(rc ? rc : enqueue(stream, run_write, place, value, flags));
}

static CUresult device_get(CUdevice *device, int ordinal)
{
    cudaError_t rc = double_enter("cuDeviceGet");
    if (!rc && (ordinal < 0 || ordinal >= double_settings().n))
        rc = cudaErrorInvalidDevice;
    if (!rc)
        *device = ordinal;
    return (CUresult)rc;
}

static CUresult device_attribute(int *value, CUdevice_attribute attribute, CUdevice device)
{
    cudaError_t rc = double_enter("cuDeviceGetAttribute");
    (void)device;
    if (!rc)
        *value = attribute == CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID ? -1 : 1;
    return (CUresult)rc;
}

static const struct {
    const char *name;
    void (*function)(void);
} functions[] = {
    {"cuStreamWaitValue64", (void (*)(void))wait_value},
    {"cuStreamWriteValue64", (void (*)(void))write_value},
    {"cuDeviceGet", (void (*)(void))device_get},
    {"cuDeviceGetAttribute", (void (*)(void))device_attribute},
};

static void *find(const char *symbol)
{
    struct cuda_double settings = double_settings();
    union {
        void (*function)(void);
        void *place;
    } found = {NULL};
    for (size_t i = 0; i < CUDA_DOUBLE_FAULTS; i++)
        if (strcmp(settings.missing[i], symbol) == 0)
            return NULL;
    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++)
        if (strcmp(functions[i].name, symbol) == 0)
            found.function = functions[i].function;
    return found.place;
}

cudaError_t CUDARTAPI cudaGetDriverEntryPointByVersion(const char *symbol, void **function, unsigned version,
                                                       unsigned long long flags,
                                                       enum cudaDriverEntryPointQueryResult *status)
{
    cudaError_t rc = double_enter(__func__);
    (void)flags;
    if (!rc) {
        bool newer = version > (unsigned)double_settings().driver_version;
        void *found = newer ? NULL : find(symbol);
        if (found)
            *function = found;
        if (status)
            *status = newer   ? cudaDriverEntryPointVersionNotSufficent
                      : found ? cudaDriverEntryPointSuccess
                              : cudaDriverEntryPointSymbolNotFound;
        rc = found || status ? cudaSuccess : cudaErrorInvalidValue;
    }
    return double_leave(rc);
}
