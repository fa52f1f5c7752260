/* SPDX-License-Identifier: Apache-2.0
 *
 * What every call does first and last, with counts, faults, the broken device and the last error.
 *
 * 1. An error that breaks a device on hardware (`sticky`) breaks it here, no matter which call returns it. 2.
 * cudaGetLastError() is per thread, and cannot clear an error that broke the device.
 */
#include "tests/double/cuda/double_internal.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { CALLS_MAX = 128 };

pthread_mutex_t double_lock = PTHREAD_MUTEX_INITIALIZER;
pthread_cond_t double_changed = PTHREAD_COND_INITIALIZER;

static struct {
    const char *names[CALLS_MAX];
    uint64_t counts[CALLS_MAX];
    unsigned n;
    uint64_t all;
    unsigned misuses;
    char report[CUDA_DOUBLE_REPORT_MAX];
} calls;

static cudaError_t broken; /* read without the lock */

static bool goes_on;               /* if true, nothing hangs any more; under the lock */
static unsigned hanging;           /* under the lock */
static __thread uint64_t nth_call; /* number of the thread's last call, among calls of its name */
static __thread bool hangs_next;   /* true: the work of that call hangs */

static __thread cudaError_t last_error;

static bool sticky(cudaError_t code)
{
    static const cudaError_t codes[] = {
        cudaErrorECCUncorrectable,   cudaErrorIllegalAddress,
        cudaErrorLaunchTimeout,      cudaErrorAssert,
        cudaErrorHardwareStackError, cudaErrorIllegalInstruction,
        cudaErrorMisalignedAddress,  cudaErrorInvalidAddressSpace,
        cudaErrorInvalidPc,          cudaErrorLaunchFailure,
        cudaErrorExternalDevice,     cudaErrorNvlinkUncorrectable,
    };
    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++)
        if (codes[i] == code)
            return true;
    return false;
}

/* Counts the call, and returns its number among calls of its name. Call with the lock held. */
static uint64_t count_call(const char *call)
{
    unsigned i = 0;
    calls.all++;
    while (i < calls.n && strcmp(calls.names[i], call) != 0)
        i++;
    if (i == CALLS_MAX)
        return 0;
    if (i == calls.n) {
        calls.names[i] = call;
        calls.counts[i] = 0;
        calls.n++;
    }
    return nth_call = ++calls.counts[i];
}

/* Breaks the device. Call with the lock held. */
static void lose(cudaError_t code, const char *why)
{
    if (double_lost())
        return;
    __atomic_store_n(&broken, code, __ATOMIC_RELEASE);
    (void)snprintf(calls.report, sizeof calls.report, "%s", why);
    pthread_cond_broadcast(&double_changed);
}

static cudaError_t enter(const char *call)
{
    struct cuda_double settings = double_settings();
    pthread_mutex_lock(&double_lock);
    uint64_t nth = count_call(call);
    cudaError_t rc = double_lost() ? double_lost() : settings.count_error;
    for (size_t i = 0; i < CUDA_DOUBLE_FAULTS && !rc; i++) {
        const struct cuda_double_fault *fault = &settings.faults[i];
        if (fault->nth && fault->nth == (strcmp(fault->call, "any") == 0  ? calls.all
                                         : strcmp(fault->call, call) == 0 ? nth
                                                                          : 0))
            rc = fault->code;
    }
    if (sticky(rc))
        lose(rc, "a call was told to fail");
    pthread_mutex_unlock(&double_lock);
    return rc;
}

/* True if the call enqueues work. If such a call must hang, its work hangs in the stream, and the caller continues. */
static bool enqueues(const char *call)
{
    static const char *const names[] = {"cudaMemcpyAsync",     "cudaMemsetAsync",     "cudaLaunchKernel",
                                        "cudaStreamWaitEvent", "cuStreamWaitValue64", "cudaEventRecord",
                                        "ncclGroupEnd"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(names[i], call) == 0)
            return true;
    return false;
}

bool double_hangs(void)
{
    const bool now = hangs_next;
    hangs_next = false;
    return now;
}

void double_hang(void)
{
    pthread_mutex_lock(&double_lock);
    hanging++;
    while (!goes_on)
        pthread_cond_wait(&double_changed, &double_lock);
    hanging--;
    pthread_mutex_unlock(&double_lock);
}

unsigned cuda_double_hanging(void)
{
    pthread_mutex_lock(&double_lock);
    const unsigned n = hanging;
    pthread_mutex_unlock(&double_lock);
    return n;
}

void cuda_double_go_on(void)
{
    pthread_mutex_lock(&double_lock);
    goes_on = true;
    pthread_cond_broadcast(&double_changed);
    pthread_mutex_unlock(&double_lock);
}

static bool told_to_hang(const char *call, uint64_t nth)
{
    const struct cuda_double settings = double_settings();
    bool told = false;
    for (size_t i = 0; i < CUDA_DOUBLE_FAULTS; i++)
        told = told || (settings.hangs[i].nth == nth && strcmp(settings.hangs[i].call, call) == 0);
    return told;
}

cudaError_t double_enter(const char *call)
{
    const cudaError_t rc = enter(call);
    hangs_next = told_to_hang(call, nth_call);
    if (hangs_next && !enqueues(call) && double_hangs())
        double_hang();
    return rc;
}

cudaError_t double_leave(cudaError_t code)
{
    if (code != cudaSuccess)
        last_error = code;
    return code;
}

cudaError_t double_lost(void)
{
    return __atomic_load_n(&broken, __ATOMIC_ACQUIRE);
}

void double_lose(cudaError_t code, const char *why)
{
    pthread_mutex_lock(&double_lock);
    if (!double_lost())
        fprintf(stderr, "CUDA double: %s\n", why);
    lose(code, why);
    pthread_mutex_unlock(&double_lock);
}

cudaError_t double_misuse(cudaError_t code, const char *format, ...)
{
    va_list arguments;
    char text[CUDA_DOUBLE_REPORT_MAX];
    va_start(arguments, format);
    (void)vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    fprintf(stderr, "CUDA double: %s\n", text);
    pthread_mutex_lock(&double_lock);
    calls.misuses++;
    memcpy(calls.report, text, sizeof text);
    pthread_mutex_unlock(&double_lock);
    return code;
}

void double_forget_calls(void)
{
    pthread_mutex_lock(&double_lock);
    memset(&calls, 0, sizeof calls);
    goes_on = false;
    __atomic_store_n(&broken, cudaSuccess, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&double_lock);
    last_error = cudaSuccess;
}

/* ---- for the program ---- */

cudaError_t CUDARTAPI cudaPeekAtLastError(void)
{
    cudaError_t lost = double_lost();
    return lost ? lost : last_error;
}

cudaError_t CUDARTAPI cudaGetLastError(void)
{
    cudaError_t last = cudaPeekAtLastError();
    last_error = cudaSuccess;
    return last;
}

/* ---- for tests ---- */

void cuda_double_fail(const char *call, uint64_t nth, cudaError_t code)
{
    (void)double_settings();
    pthread_mutex_lock(&double_lock);
    double_add_fault(call, nth, code);
    pthread_mutex_unlock(&double_lock);
}

uint64_t cuda_double_calls(const char *call)
{
    pthread_mutex_lock(&double_lock);
    uint64_t n = strcmp(call, "any") == 0 ? calls.all : 0;
    for (unsigned i = 0; i < calls.n; i++)
        n += strcmp(calls.names[i], call) == 0 ? calls.counts[i] : 0;
    pthread_mutex_unlock(&double_lock);
    return n;
}

const char *cuda_double_called(unsigned i)
{
    pthread_mutex_lock(&double_lock);
    const char *name = i < calls.n ? calls.names[i] : NULL;
    pthread_mutex_unlock(&double_lock);
    return name;
}

unsigned cuda_double_misuses(void)
{
    pthread_mutex_lock(&double_lock);
    unsigned n = calls.misuses;
    pthread_mutex_unlock(&double_lock);
    return n;
}

void cuda_double_report(char ret_text[CUDA_DOUBLE_REPORT_MAX])
{
    pthread_mutex_lock(&double_lock);
    memcpy(ret_text, calls.report, sizeof calls.report);
    pthread_mutex_unlock(&double_lock);
}

struct cuda_double_alive cuda_double_alive(void)
{
    return (struct cuda_double_alive){
        .device_bytes = double_device_bytes(),
        .pinned_ranges = double_pinned_ranges(),
        .streams = double_streams(),
        .events = double_events(),
    };
}
