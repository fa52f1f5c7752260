/* SPDX-License-Identifier: Apache-2.0
 *
 * The pinned arena of a CUDA device: a region of host memory that the driver locks.
 *
 * PIECES. Drivers since 580 lock less than 512 GiB per call, even if more is free. If the first piece is refused,
 * pieces of half the size are tried; if a later piece is refused, no more memory can be locked. A copy that crosses
 * from one piece into the next is split in two (cuda_dispatch.c), because CUDA refuses the whole copy.
 *
 * KEPT. Locking takes seconds per 10 GiB. A device opened with a `keep` stores its locked region there when it closes.
 * The next device on the same GPU takes the region if it is large enough, and zeroes it like a new one. The driver's
 * context, with the code of all loaded kernels, also stays. The context's size before any kernels were loaded is stored
 * with the region. So every plan sees the same reserve, and code and page tables count as outside the arena.
 *
 * Source: github.com/NVIDIA/open-gpu-kernel-modules, pull request 1234.
 */
#include "base/units.h"
#include "runtime/device/cuda/cuda_internal.h"
#include "runtime/device/cuda/errors.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

/* ---- lock ---- */

static int pin_refused(const struct ah_region *region, cudaError_t code, struct ah_error *err)
{
    char asked[AH_UNITS_TEXT_MAX], limit[AH_UNITS_TEXT_MAX] = "none";
    struct rlimit lock;
    if (getrlimit(RLIMIT_MEMLOCK, &lock) == 0 && lock.rlim_cur != RLIM_INFINITY)
        ah_units_print_bytes(limit, lock.rlim_cur);
    (void)cudaGetLastError();
    return ah_error_set(
        err, AH_E_CAPACITY,
        "device 'cuda': the driver could not lock %s of host memory: %s (cudaHostRegister; 'ulimit -l' is "
        "%s); plan for less locked memory, or raise the limit",
        ah_units_print_bytes(asked, region->bytes), cudaGetErrorString(code), limit);
}

/* Unlocks the pieces before `end`. */
static void unpin_pieces(const struct ah_region *region, uint64_t piece_bytes, uint64_t end)
{
    for (uint64_t at = 0; at < end; at += piece_bytes)
        (void)cudaHostUnregister(region->data + at);
}

static void unpin(struct ah_region *region, struct ah_cuda_pinning *pinning)
{
    if (pinning->piece_bytes)
        unpin_pieces(region, pinning->piece_bytes, pinning->bytes);
    *pinning = (struct ah_cuda_pinning){0};
    ah_region_release(region);
}

/* Locks all pieces or none. Sets `ret_bytes` to how much was locked before a piece was refused. */
static cudaError_t pin_pieces(const struct ah_region *region, uint64_t piece_bytes, uint64_t *ret_bytes)
{
    cudaError_t rc = cudaSuccess;
    uint64_t at = 0;
    while (at < region->bytes) {
        const uint64_t left = region->bytes - at;
        rc = cudaHostRegister(region->data + at, left < piece_bytes ? left : piece_bytes,
                              cudaHostRegisterDefault);
        if (rc != cudaSuccess)
            break;
        at += piece_bytes;
    }
    if (rc != cudaSuccess)
        unpin_pieces(region, piece_bytes, at);
    *ret_bytes = at;
    return rc;
}

static int pin_region(struct ah_cuda_device *cuda, const struct ah_region *region, struct ah_error *err)
{
    uint64_t pages = (region->bytes + AH_REGION_ALIGN_BYTES - 1) / AH_REGION_ALIGN_BYTES, locked = 0;
    cudaError_t rc = pages ? pin_pieces(region, pages * AH_REGION_ALIGN_BYTES, &locked) : cudaSuccess;
    while (rc != cudaSuccess && !ah_cuda_error_sticks(rc) && locked == 0 && pages > 1) {
        (void)cudaGetLastError();
        pages = (pages + 1) / 2;
        rc = pin_pieces(region, pages * AH_REGION_ALIGN_BYTES, &locked);
    }
    if (rc != cudaSuccess)
        return ah_cuda_error_sticks(rc) ? ah_cuda_error(err, rc, "cudaHostRegister")
                                        : pin_refused(region, rc, err);
    cuda->pinning =
        (struct ah_cuda_pinning){.bytes = region->bytes, .piece_bytes = pages * AH_REGION_ALIGN_BYTES};
    return AH_OK;
}

static uint64_t free_device_bytes(void)
{
    size_t free_bytes = 0, total_bytes = 0;
    if (cudaMemGetInfo(&free_bytes, &total_bytes) != cudaSuccess)
        (void)cudaGetLastError();
    return free_bytes;
}

static int lock(struct ah_cuda_device *cuda, const struct ah_region *region, struct ah_error *err)
{
    const uint64_t before = free_device_bytes();
    int rc = pin_region(cuda, region, err);
    const uint64_t after = rc ? before : free_device_bytes();
    cuda->pinning.table_bytes = before > after ? before - after : 0;
    return rc;
}

int ah_cuda_pinned_take(struct ah_cuda_device *cuda, uint64_t bytes, struct ah_error *err)
{
    struct ah_region *region = &cuda->arenas[AH_ARENA_PINNED];
    const bool locked = cuda->pinning.piece_bytes != 0;
    int rc = locked ? AH_OK : ah_region_map(region, bytes, err);
    if (!rc)
        rc = ah_region_fill(region, cuda->host_pool, cuda->near.cpus[0], err);
    if (!rc && !locked)
        rc = lock(cuda, region, err);
    if (!rc)
        cuda->common.info.locked_bytes = bytes;
    return rc;
}

/* ---- keep ---- */

static void release_kept(void *memory)
{
    struct ah_cuda_kept *kept = memory;
    (void)cudaSetDevice(kept->index);
    unpin(&kept->region, &kept->pinning);
    (void)cudaGetLastError();
    free(kept);
}

struct ah_cuda_kept *ah_cuda_kept_find(struct ah_device_keep *keep, int index)
{
    struct ah_cuda_kept *kept = keep->memory;
    if (kept && kept->index == index)
        return kept;
    ah_device_keep_release(keep);
    kept = calloc(1, sizeof *kept); /* if this fails, nothing is kept */
    if (!kept)
        return NULL;
    kept->index = index;
    *keep = (struct ah_device_keep){.memory = kept, .release = release_kept};
    return kept;
}

bool ah_cuda_pinned_resume(struct ah_cuda_device *cuda, uint64_t bytes)
{
    struct ah_cuda_kept *kept = cuda->kept;
    if (!kept || bytes == 0)
        return false;
    if (kept->pinning.bytes < bytes) {
        unpin(&kept->region, &kept->pinning);
        return false;
    }
    cuda->arenas[AH_ARENA_PINNED] = kept->region;
    cuda->arenas[AH_ARENA_PINNED].bytes = bytes;
    cuda->arenas[AH_ARENA_PINNED].used = true;
    cuda->pinning = kept->pinning;
    kept->region = (struct ah_region){0};
    kept->pinning = (struct ah_cuda_pinning){0};
    return true;
}

bool ah_cuda_pinned_forget(struct ah_cuda_device *cuda)
{
    const bool any = cuda->pinning.piece_bytes || (cuda->kept && cuda->kept->pinning.piece_bytes);
    unpin(&cuda->arenas[AH_ARENA_PINNED], &cuda->pinning);
    if (cuda->kept)
        unpin(&cuda->kept->region, &cuda->kept->pinning);
    return any;
}

void ah_cuda_pinned_leave(struct ah_cuda_device *cuda)
{
    struct ah_cuda_kept *kept = cuda->kept;
    cuda->common.info.locked_bytes = 0;
    if (!kept || !cuda->pinning.piece_bytes || atomic_load(&cuda->failed)) {
        unpin(&cuda->arenas[AH_ARENA_PINNED], &cuda->pinning);
        return;
    }
    kept->region = cuda->arenas[AH_ARENA_PINNED];
    kept->pinning = cuda->pinning;
    cuda->arenas[AH_ARENA_PINNED] = (struct ah_region){0};
    cuda->pinning = (struct ah_cuda_pinning){0};
}
