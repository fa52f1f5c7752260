/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernels: checked against the limits of compute capability 8.0 and later, then run by the emulator on the stream's
 * thread.
 *
 * Source: CUDA C++ Programming Guide, "Technical Specifications per Compute Capability".
 */
#include "tests/double/cuda/crew.h"
#include "tests/double/cuda/double_internal.h"
#include "tests/double/cuda/emulator.h"
#include "tests/double/cuda/launch.h"

#include <stdio.h>
#include <string.h>

enum { SHARED_DEFAULT = 48 << 10, KERNELS_MAX = 256 };
enum { BLOCK_X_MAX = 1024, BLOCK_Z_MAX = 64, GRID_X_MAX = 0x7fffffff, GRID_Z_MAX = 65535 };
enum {
    RESIDENT_THREADS = 2048,
    RESIDENT_BLOCKS = 32,
    RESIDENT_SHARED = 228 << 10,
    SHARED_OF_SYSTEM = 1 << 10
};

/* What cudaFuncSetAttribute() allowed. Under the lock. */
static struct {
    const void *kernel;
    size_t shared_bytes;
} allowed[KERNELS_MAX];

static size_t shared_limit(const void *kernel)
{
    size_t bytes = SHARED_DEFAULT;
    pthread_mutex_lock(&double_lock);
    for (size_t i = 0; i < KERNELS_MAX && allowed[i].kernel; i++)
        if (allowed[i].kernel == kernel && allowed[i].shared_bytes > bytes)
            bytes = allowed[i].shared_bytes;
    pthread_mutex_unlock(&double_lock);
    return bytes;
}

static cudaError_t allow(const void *kernel, int bytes)
{
    size_t i = 0;
    const struct cuda_double settings = double_settings();
    const size_t most = double_shared_bytes(&settings.devices[double_device()]);
    if (bytes < 0 || (size_t)bytes > most)
        return double_misuse(cudaErrorInvalidValue,
                             "a kernel is allowed %d bytes of shared memory; there are %zu", bytes, most);
    pthread_mutex_lock(&double_lock);
    while (i < KERNELS_MAX && allowed[i].kernel && allowed[i].kernel != kernel)
        i++;
    if (i < KERNELS_MAX) {
        allowed[i].kernel = kernel;
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

/* ---- launches ---- */

struct work {
    struct launch launch;
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
        .grid = work->launch.grid,
        .block = work->launch.block,
        .shared_bytes = work->launch.shared_bytes,
        .order = settings.order,
        .next_block = &next_block,
    };
    double_sleep_us(settings.kernel_delay_us);
    return double_lost() ? cudaSuccess : codes[crew_run(&launch, settings.threads, report)];
}

/* NULL, or what no hardware would run. */
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
    if (launch->arguments_bytes > LAUNCH_ARGUMENTS_MAX)
        return "has more than 4096 bytes of arguments";
    return NULL;
}

/* Kernels that were launched: their code is there. Under the lock. */
static const void *loaded[KERNELS_MAX];

/* False where the first launch would load the code, while a stream waits for the host. */
static bool can_load(const void *kernel)
{
    const bool awaits = double_awaits_values();
    size_t i = 0;
    pthread_mutex_lock(&double_lock);
    while (i < KERNELS_MAX && loaded[i] && loaded[i] != kernel)
        i++;
    const bool first = i < KERNELS_MAX && !loaded[i];
    if (first && !awaits)
        loaded[i] = kernel;
    pthread_mutex_unlock(&double_lock);
    return !first || !awaits;
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
    if (!can_load(launch->kernel))
        return double_misuse(
            cudaErrorNotPermitted,
            "kernel '%.200s' is launched for the first time while a stream waits for the host: "
            "loading its code may wait for that stream",
            launch->name);
    struct work work;
    memset(&work, 0, sizeof work);
    work.launch = *launch;
    memcpy(work.arguments, launch->arguments, launch->arguments_bytes);
    const struct double_activity kernel = {.kind = ACTIVITY_KERNEL, .name = launch->name};
    return double_enqueue(
        stream, &(struct double_work){run, &work, offsetof(struct work, arguments) + launch->arguments_bytes,
                                      &kernel});
}

cudaError_t launch_enqueue(const struct launch *launch, cudaStream_t stream)
{
    cudaError_t rc = double_enter("cudaLaunchKernel");
    return double_leave(rc ? rc : enqueue(launch, stream));
}
