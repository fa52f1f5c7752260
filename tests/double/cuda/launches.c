/* SPDX-License-Identifier: Apache-2.0
 *
 * Checks launches against the limits of compute capability 8.0 and later. The emulator runs them on stream threads.
 *
 * Source: CUDA C++ Programming Guide, "Technical Specifications per Compute Capability".
 */
#include "tests/double/cuda/crew.h"
#include "tests/double/cuda/double_internal.h"
#include "tests/double/cuda/emulator.h"
#include "tests/double/cuda/launch.h"
#include "tests/double/cuda/ptx/ptx.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SHARED_DEFAULT = 48 << 10, KERNELS_MAX = 256 };
enum { BLOCK_X_MAX = 1024, BLOCK_Z_MAX = 64, GRID_X_MAX = 0x7fffffff, GRID_Z_MAX = 65535 };
enum {
    RESIDENT_THREADS = 2048,
    RESIDENT_BLOCKS = 32,
    RESIDENT_SHARED = 228 << 10,
    SHARED_OF_SYSTEM = 1 << 10
};

/* Shared memory allowed by cudaFuncSetAttribute() on the current device. Use with the lock held. */
static struct {
    const void *kernel;
    int device;
    size_t shared_bytes;
} allowed[KERNELS_MAX];

/* Returns the index of a kernel with more shared memory allowed, or the next free index. Call with the lock held. */
static size_t find_allowed(const void *kernel, int device)
{
    size_t i = 0;
    while (i < KERNELS_MAX && allowed[i].kernel &&
           (allowed[i].kernel != kernel || allowed[i].device != device))
        i++;
    return i;
}

static size_t shared_limit(const void *kernel)
{
    size_t bytes = SHARED_DEFAULT;
    const int device = double_device();
    pthread_mutex_lock(&double_lock);
    const size_t i = find_allowed(kernel, device);
    if (i < KERNELS_MAX && allowed[i].shared_bytes > bytes)
        bytes = allowed[i].shared_bytes;
    pthread_mutex_unlock(&double_lock);
    return bytes;
}

static cudaError_t allow(const void *kernel, int bytes)
{
    const struct cuda_double settings = double_settings();
    const int device = double_device();
    const size_t most = double_shared_bytes(&settings.devices[device]);
    if (bytes < 0 || (size_t)bytes > most)
        return double_misuse(cudaErrorInvalidValue,
                             "a kernel is allowed %d bytes of shared memory; there are %zu", bytes, most);
    pthread_mutex_lock(&double_lock);
    const size_t i = find_allowed(kernel, device);
    if (i < KERNELS_MAX) {
        allowed[i].kernel = kernel;
        allowed[i].device = device;
        allowed[i].shared_bytes = (size_t)bytes;
    }
    pthread_mutex_unlock(&double_lock);
    return i < KERNELS_MAX ? cudaSuccess : cudaErrorMemoryAllocation;
}

cudaError_t CUDARTAPI cudaFuncSetAttribute(const void *kernel, enum cudaFuncAttribute attribute, int value)
{
    cudaError_t rc = double_enter(__func__);
    if (!rc && attribute == cudaFuncAttributeMaxDynamicSharedMemorySize)
        rc = allow(kernel, value);
    return double_leave(rc);
}

cudaError_t CUDARTAPI cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *n, const void *kernel, int threads,
                                                                    size_t shared_bytes)
{
    cudaError_t rc = double_enter(__func__);
    if (!rc && (threads < 1 || threads > EMULATOR_THREADS_MAX || shared_bytes > shared_limit(kernel)))
        rc = cudaErrorInvalidValue;
    if (!rc) {
        size_t by_shared = RESIDENT_SHARED / (shared_bytes + SHARED_OF_SYSTEM);
        size_t most = (size_t)(RESIDENT_THREADS / threads);
        most = most < RESIDENT_BLOCKS ? most : RESIDENT_BLOCKS;
        *n = (int)(by_shared < most ? by_shared : most);
    }
    return double_leave(rc);
}

struct work {
    struct launch launch;
    const struct ptx_kernel *code;
    _Alignas(64) unsigned char parameters[LAUNCH_ARGUMENTS_MAX];
    _Alignas(64) unsigned char arguments[LAUNCH_ARGUMENTS_MAX];
};

static cudaError_t run(void *payload, char *report)
{
    static const cudaError_t codes[] = {
        [EMULATOR_DONE] = cudaSuccess,
        [EMULATOR_STUCK] = cudaErrorLaunchTimeout,
        [EMULATOR_TRAPPED] = cudaErrorLaunchFailure,
        [EMULATOR_NO_MEMORY] = cudaErrorLaunchFailure,
    };
    const struct work *work = payload;
    struct cuda_double settings = double_settings();
    uint64_t next_block = 0;
    const struct emulator_launch launch = {
        .name = work->launch.name,
        .run = work->launch.run,
        .arguments = work->arguments,
        .code = work->code,
        .parameters = work->parameters,
        .parameters_bytes = work->launch.parameters_bytes,
        .grid = work->launch.grid,
        .block = work->launch.block,
        .shared_bytes = work->launch.shared_bytes,
        .order = settings.order,
        .next_block = &next_block,
    };
    double_sleep_us(settings.kernel_delay_us);
    const bool skipped = settings.skip[0] && strstr(work->launch.name, settings.skip);
    return skipped || double_lost() ? cudaSuccess : codes[crew_run(&launch, settings.threads, report)];
}

/* Returns why no hardware would run the launch, or NULL. */
static const char *wrong_launch(const struct launch *launch)
{
    dim3 b = launch->block, g = launch->grid;
    if (!b.x || !b.y || !b.z || !g.x || !g.y || !g.z)
        return "has no threads";
    if (b.x > BLOCK_X_MAX || b.y > BLOCK_X_MAX || b.z > BLOCK_Z_MAX || b.x * b.y * b.z > EMULATOR_THREADS_MAX)
        return "has more than 1024 threads in a block (64 along z)";
    if (g.x > GRID_X_MAX || g.y > GRID_Z_MAX || g.z > GRID_Z_MAX)
        return "has more blocks than a grid may (2^31 - 1 along x, 65535 along y and z)";
    if (launch->shared_bytes > shared_limit(launch->kernel))
        return "asks for more shared memory than it was allowed (48 KiB, or AH_ALLOW_SHARED)";
    if (launch->arguments_bytes > LAUNCH_ARGUMENTS_MAX || launch->parameters_bytes > LAUNCH_ARGUMENTS_MAX)
        return "has more than 4096 bytes of arguments";
    return NULL;
}

/* The kernels launched so far, by device. The device has loaded their code. Use with the lock held. */
static struct {
    const void *kernel;
    int device;
} loaded[KERNELS_MAX];

void double_forget_kernels(void)
{
    pthread_mutex_lock(&double_lock);
    memset(loaded, 0, sizeof loaded);
    memset(allowed, 0, sizeof allowed);
    double_forget_code();
    pthread_mutex_unlock(&double_lock);
}

/* Loads the kernel's code at its first launch. This takes memory, and no stream may be waiting for the host. */
static cudaError_t load(const struct launch *launch)
{
    const struct cuda_double settings = double_settings();
    const bool awaits = double_awaits_values();
    const int device = double_device();
    bool has_room = true;
    size_t i = 0;
    pthread_mutex_lock(&double_lock);
    while (i < KERNELS_MAX && loaded[i].kernel &&
           (loaded[i].kernel != launch->kernel || loaded[i].device != device))
        i++;
    const bool first = i < KERNELS_MAX && !loaded[i].kernel;
    if (first && !awaits)
        has_room = double_take_code(&settings, device);
    if (first && !awaits && has_room) {
        loaded[i].kernel = launch->kernel;
        loaded[i].device = device;
    }
    pthread_mutex_unlock(&double_lock);
    if (first && awaits)
        return double_misuse(cudaErrorNotPermitted,
                             "kernel '%.200s' is launched for the first time while a stream waits for the "
                             "host: loading its code may wait for that stream",
                             launch->name);
    return has_room ? cudaSuccess : cudaErrorMemoryAllocation;
}

static void write_counts(void)
{
    struct cuda_double settings = double_settings();
    if (ptx_counts(settings.counts))
        fprintf(stderr, "CUDA double: %s cannot be written\n", settings.counts);
}

static void count_once(void)
{
    struct cuda_double settings = double_settings();
    if (settings.counts[0])
        (void)atexit(write_counts);
}

/* Finds nvcc's code of the kernel, if such code is to be run. Kernels of libraries have no parameters and no code. */
static cudaError_t find_code(const struct launch *launch, const struct ptx_kernel **ret_code)
{
    char report[EMULATOR_REPORT_MAX];
    struct cuda_double settings = double_settings();
    const bool wanted = settings.code[0] && launch->parameters;
    static pthread_once_t counted = PTHREAD_ONCE_INIT;
    if (wanted)
        (void)pthread_once(&counted, count_once);
    *ret_code = wanted ? ptx_find(settings.code, launch->kernel, report) : NULL;
    if (wanted && !*ret_code)
        return double_misuse(cudaErrorInvalidDeviceFunction, "kernel '%.200s': %.600s", launch->name, report);
    return cudaSuccess;
}

/* Checks that static and dynamic shared memory are within their common limit, if the kernel's code is known. */
static cudaError_t check_shared(const struct launch *launch, const struct ptx_kernel *code)
{
    const struct cuda_double settings = double_settings();
    const size_t fixed = code ? ptx_static_shared_bytes(code) : 0;
    const size_t most = shared_limit(launch->kernel) > SHARED_DEFAULT
                            ? double_shared_bytes(&settings.devices[double_device()])
                            : (size_t)SHARED_DEFAULT;
    if (fixed + launch->shared_bytes <= most)
        return cudaSuccess;
    return double_misuse(cudaErrorInvalidValue,
                         "kernel '%.200s' has %zu bytes of static and asks for %zu of dynamic shared memory; "
                         "both together may be %zu",
                         launch->name, fixed, launch->shared_bytes, most);
}

static cudaError_t enqueue(const struct launch *launch, cudaStream_t stream)
{
    const char *wrong = wrong_launch(launch);
    if (wrong)
        return double_misuse(
            wrong[0] == 'a' ? cudaErrorInvalidValue : cudaErrorInvalidConfiguration,
            "kernel '%.200s', grid (%u, %u, %u), block (%u, %u, %u), %zu bytes of shared memory: it %s",
            launch->name, launch->grid.x, launch->grid.y, launch->grid.z, launch->block.x, launch->block.y,
            launch->block.z, launch->shared_bytes, wrong);
    cudaError_t rc = load(launch);
    struct work work;
    memset(&work, 0, sizeof work);
    if (!rc)
        rc = find_code(launch, &work.code);
    rc = rc ? rc : check_shared(launch, work.code);
    if (rc)
        return rc;
    work.launch = *launch;
    if (launch->parameters)
        memcpy(work.parameters, launch->parameters, launch->parameters_bytes);
    memcpy(work.arguments, launch->arguments, launch->arguments_bytes);
    const struct double_activity kernel = {.kind = ACTIVITY_KERNEL, .name = launch->name};
    return double_enqueue(
        stream, &(struct double_work){run, &work, offsetof(struct work, arguments) + launch->arguments_bytes,
                                      &kernel});
}

cudaError_t launch_enqueue(const struct launch *launch, cudaStream_t stream)
{
    cudaError_t rc = double_enter("cudaLaunchKernel");
    rc = rc ? rc : double_check_device(stream, double_device(), "a launch");
    return double_leave(rc ? rc : enqueue(launch, stream));
}
