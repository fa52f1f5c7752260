/* SPDX-License-Identifier: Apache-2.0
 *
 * Arenas of a CUDA device: one zeroed piece of the GPU's memory, and two regions of host memory. The host lane's
 * threads run near the GPU (near.h). They touch the regions first, so the regions' memory is near it as well. The
 * runtime locks the pinned region (pinned.c), so that its copies run beside all other work. A pinned arena that cannot
 * be locked is refused, because its copies would block the submitter.
 *
 * ORDER. The pinned arena is taken before the GPU's, because its page tables take GPU memory (about 2 MiB per GiB with
 * pages of 4 KiB). So if memory is short, the GPU's arena is refused. Otherwise the first kernel would fail to load.
 *
 * MEASURED. Once the arenas exist and every kernel has run, nothing takes GPU memory any more. `outside_bytes` is then
 * the context's size, measured at opening, plus all GPU memory taken since, except the arena. Memory that other
 * processes take or free meanwhile is also counted.
 */
#include "base/host_memory.h"
#include "base/units.h"
#include "runtime/device/cuda/cuda_internal.h"
#include "runtime/device/cuda/errors.h"

#include <stdio.h>
#include <string.h>

/* ---- the device arena ---- */

/* Returns how much of the memory reserved for kernel code is unused when `free_bytes` are free. Kernels of prepared
 * products are already loaded. Memory for products, and for page tables of locked memory, is not code. */
static uint64_t code_bytes_left(const struct ah_cuda_device *cuda, uint64_t free_bytes)
{
    const uint64_t others = free_bytes + ah_cuda_products_bytes(cuda->products) + cuda->pinning.table_bytes;
    const uint64_t loaded = cuda->common.info.free_bytes > others ? cuda->common.info.free_bytes - others : 0;
    return loaded < AH_CUDA_CODE_BYTES ? AH_CUDA_CODE_BYTES - loaded : 0;
}

/* Sets the error for a GPU arena that does not fit: how much GPU memory is free, and how large an arena would fit. */
static int device_refused(const struct ah_cuda_device *cuda, uint64_t bytes, struct ah_error *err)
{
    char asked[AH_UNITS_TEXT_MAX], has[AH_UNITS_TEXT_MAX];
    const uint64_t mib = UINT64_C(1) << 20;
    size_t free_bytes = 0, total_bytes = 0;
    if (cudaMemGetInfo(&free_bytes, &total_bytes) != cudaSuccess)
        (void)cudaGetLastError();
    /* `--device-memory` includes the arena and reserve_bytes. */
    const uint64_t code = code_bytes_left(cuda, free_bytes);
    uint64_t fits = free_bytes > code ? (free_bytes - code + cuda->common.reserve_bytes) / mib : 0;
    return ah_error_set(
        err, AH_E_CAPACITY,
        "device 'cuda:%d': an arena of %s was requested, but only %s of GPU memory is free; end other "
        "programs on the GPU, or plan with '--device-memory %lluMiB', which fits now",
        cuda->index, ah_units_print_bytes(asked, bytes), ah_units_print_bytes(has, free_bytes),
        (unsigned long long)fits);
}

static int take_device_arena(struct ah_cuda_device *cuda, uint64_t bytes, struct ah_error *err)
{
    void *arena = NULL;
    size_t free_bytes = 0, total_bytes = 0;
    if (bytes == 0)
        return AH_OK;
    cudaError_t rc = cudaMemGetInfo(&free_bytes, &total_bytes);
    const uint64_t code = code_bytes_left(cuda, free_bytes);
    if (rc == cudaSuccess && (free_bytes < code || bytes > free_bytes - code))
        return device_refused(cuda, bytes, err);
    if (rc == cudaSuccess)
        rc = cudaMalloc(&arena, bytes);
    if (rc == cudaErrorMemoryAllocation) {
        (void)cudaGetLastError();
        return device_refused(cuda, bytes, err);
    }
    if (rc != cudaSuccess)
        return ah_cuda_error(err, rc, "cudaMalloc");
    cuda->device_arena = arena;
    return AH_OK;
}

static int zero_device_arena(const struct ah_cuda_device *cuda, uint64_t bytes, struct ah_error *err)
{
    if (bytes == 0)
        return AH_OK;
    cudaError_t rc = cudaMemset(cuda->device_arena, 0, bytes);
    if (rc == cudaSuccess)
        rc = cudaDeviceSynchronize();
    return ah_cuda_check(err, rc, "cudaMemset");
}

/* Measures how much GPU memory is in use outside the arena. */
static int measure_outside(struct ah_cuda_device *cuda, uint64_t arena_bytes, struct ah_error *err)
{
    size_t free_bytes = 0, total_bytes = 0;
    int rc = ah_cuda_check(err, cudaMemGetInfo(&free_bytes, &total_bytes), "cudaMemGetInfo");
    const uint64_t gone = cuda->common.info.free_bytes > free_bytes + arena_bytes
                              ? cuda->common.info.free_bytes - free_bytes - arena_bytes
                              : 0;
    if (!rc)
        cuda->common.info.outside_bytes =
            cuda->context_bytes + cuda->messages_bytes + ah_cuda_workspace_bytes(cuda) + gone;
    return rc;
}

/* Sets the error for an arena that fitted, but left too little for kernel code. The plan must use less memory. */
static int code_refused(const struct ah_cuda_device *cuda, uint64_t arena_bytes, struct ah_error *err)
{
    char arena[AH_UNITS_TEXT_MAX], reckoned[AH_UNITS_TEXT_MAX], why[AH_ERROR_TEXT_MAX];
    const uint64_t mib = UINT64_C(1) << 20;
    const uint64_t taken = arena_bytes + cuda->common.reserve_bytes;
    const uint64_t fits = taken > AH_CUDA_CODE_BYTES ? (taken - AH_CUDA_CODE_BYTES) / mib : 0;
    snprintf(why, sizeof why, "%s", err ? err->text : "");
    return ah_error_set(
        err, AH_E_CAPACITY,
        "device 'cuda:%d': an arena of %s leaves too little memory for the kernels' code, for which %s were "
        "set aside (%.200s); plan with '--device-memory %lluMiB' or less, or measure again with 'autohete "
        "profile'",
        cuda->index, ah_units_print_bytes(arena, arena_bytes),
        ah_units_print_bytes(reckoned, cuda->common.reserve_bytes), why, (unsigned long long)fits);
}

/* Zeroes the arena, tries kernels on it, and zeroes it again. */
static int fill_device_arena(struct ah_cuda_device *cuda, const uint64_t arena_bytes[AH_ARENA_KINDS],
                             struct ah_error *err)
{
    int rc = zero_device_arena(cuda, arena_bytes[AH_ARENA_DEVICE], err);
    if (!rc)
        rc = ah_cuda_warm_run(cuda, arena_bytes, err);
    if (rc == AH_E_CAPACITY)
        rc = code_refused(cuda, arena_bytes[AH_ARENA_DEVICE], err);
    rc = rc ? rc : zero_device_arena(cuda, arena_bytes[AH_ARENA_DEVICE], err);
    return rc ? rc : measure_outside(cuda, arena_bytes[AH_ARENA_DEVICE], err);
}

/* ---- the host's arenas ---- */

/* Refuses host arenas larger than available memory, because the system itself would map them. */
static int check_host_memory(uint64_t pinned_bytes, uint64_t pageable_bytes, struct ah_error *err)
{
    struct ah_host_memory memory;
    uint64_t bytes;
    int rc = ah_host_memory_read(&memory, NULL, err);
    if (rc)
        return rc;
    if (__builtin_add_overflow(pinned_bytes, pageable_bytes, &bytes))
        bytes = UINT64_MAX;
    if (bytes > memory.available_bytes) {
        char asked[AH_UNITS_TEXT_MAX];
        char has[AH_UNITS_TEXT_MAX];
        return ah_error_set(err, AH_E_CAPACITY,
                            "device 'cuda': host arenas need %s, but this machine has only %s free; plan "
                            "with less '--host-memory'",
                            ah_units_print_bytes(asked, bytes),
                            ah_units_print_bytes(has, memory.available_bytes));
    }
    return AH_OK;
}

/* Takes over the pinned arena of an earlier device, or releases it if the pageable arena needs its memory. */
static int find_host_memory(struct ah_cuda_device *cuda, const uint64_t arena_bytes[AH_ARENA_KINDS],
                            struct ah_error *err)
{
    const uint64_t pinned_bytes = arena_bytes[AH_ARENA_PINNED],
                   pageable_bytes = arena_bytes[AH_ARENA_PAGEABLE];
    const bool kept = ah_cuda_pinned_resume(cuda, pinned_bytes);
    int rc = check_host_memory(kept ? 0 : pinned_bytes, pageable_bytes, err);
    if (rc != AH_E_CAPACITY || !ah_cuda_pinned_forget(cuda))
        return rc;
    return check_host_memory(pinned_bytes, pageable_bytes, err);
}

static int take_pageable(struct ah_cuda_device *cuda, uint64_t bytes, struct ah_error *err)
{
    struct ah_region *region = &cuda->arenas[AH_ARENA_PAGEABLE];
    int rc = ah_region_map(region, bytes, err);
    return rc ? rc : ah_region_fill(region, cuda->host_pool, cuda->near.cpus[0], err);
}

/* ---- functions of the driver's table ---- */

void ah_cuda_release_arenas(struct ah_cuda_device *cuda)
{
    if (cuda->device_arena)
        (void)cudaFree(cuda->device_arena);
    cuda->device_arena = NULL;
    ah_cuda_pinned_leave(cuda);
    ah_region_release(&cuda->arenas[AH_ARENA_PAGEABLE]);
}

int ah_cuda_reserve(struct ah_device *device, const uint64_t arena_bytes[AH_ARENA_KINDS],
                    struct ah_error *err)
{
    struct ah_cuda_device *cuda = ah_cuda_of(device);
    int rc = ah_cuda_check(err, cudaSetDevice(cuda->index), "cudaSetDevice");
    if (!rc)
        rc = find_host_memory(cuda, arena_bytes, err);
    if (!rc)
        rc = ah_cuda_pinned_take(cuda, arena_bytes[AH_ARENA_PINNED], err);
    if (!rc)
        rc = take_pageable(cuda, arena_bytes[AH_ARENA_PAGEABLE], err);
    if (!rc)
        rc = take_device_arena(cuda, arena_bytes[AH_ARENA_DEVICE], err);
    if (!rc)
        rc = fill_device_arena(cuda, arena_bytes, err);
    if (rc) {
        ah_cuda_release_arenas(cuda);
        return rc;
    }
    cuda->host = (struct ah_host){.isa = ah_isa_detect(), .pool = cuda->host_pool};
    for (unsigned arena = AH_ARENA_PINNED; arena < AH_ARENA_KINDS; arena++)
        cuda->host.arenas[arena] = cuda->arenas[arena].data;
    cuda->sums_host = (struct ah_host){.isa = cuda->host.isa};
    memcpy(cuda->sums_host.arenas, cuda->host.arenas, sizeof cuda->host.arenas);
    ah_cuda_near_enter(&cuda->near, &cuda->unpinned);
    return AH_OK;
}

void *ah_cuda_address(struct ah_device *device, enum ah_arena_kind arena)
{
    return ah_cuda_of(device)->arenas[arena].data; /* NULL for the device arena, which the host cannot read */
}
