/* SPDX-License-Identifier: Apache-2.0
 *
 * Device memory and pinned ranges of the host.
 *
 * 1. Every allocation begins at a multiple of ALIGN and takes a multiple of ALIGN bytes of its device's memory. 2. The
 * code of kernels is never freed, and is not an allocation of the program. 3. Freed ranges are remembered while there
 * is room, to report a use after free as such.
 */
#include "tests/double/cuda/double_internal.h"
#include "tests/double/cuda/emulator.h"

#include <stdlib.h>
#include <string.h>

enum { ALIGN = 512, RANGES_MAX = 4096 };

struct range {
    unsigned char *begin;
    size_t bytes;
    enum double_place place;
    int device;
    bool ours; /* pinned memory allocated by cudaHostAlloc() */
};

static struct range ranges[RANGES_MAX];
static size_t n_ranges;
static size_t code_bytes[CUDA_DOUBLE_DEVICES];

static size_t rounded(size_t bytes)
{
    return (bytes + ALIGN - 1) / ALIGN * ALIGN;
}

/* Returns the bytes in use. Call this and all functions up to the CUDA calls with the lock held. */
static size_t used_bytes(int device)
{
    size_t bytes = 0;
    for (size_t i = 0; i < n_ranges; i++)
        if (ranges[i].place == PLACE_DEVICE && (device < 0 || ranges[i].device == device))
            bytes += rounded(ranges[i].bytes);
    return bytes;
}

/* Returns the size of page tables. They take this much memory of every device. */
static size_t table_bytes(const struct cuda_double *settings)
{
    size_t bytes = 0;
    for (size_t i = 0; i < n_ranges; i++)
        if (ranges[i].place == PLACE_PINNED)
            bytes += ranges[i].bytes / (1 << 20) * settings->page_bytes;
    return bytes;
}

static size_t free_bytes_of(const struct cuda_double *settings, int device)
{
    const struct cuda_double_device *own = &settings->devices[device];
    const size_t used = own->others_bytes + code_bytes[device] + table_bytes(settings) + used_bytes(device);
    return own->memory_bytes > used ? own->memory_bytes - used : 0;
}

bool double_take_code(const struct cuda_double *settings, int device)
{
    if (settings->kernel_bytes > free_bytes_of(settings, device))
        return false;
    code_bytes[device] += settings->kernel_bytes;
    return true;
}

void double_forget_code(void)
{
    memset(code_bytes, 0, sizeof code_bytes);
}

static bool overlap(const struct range *range, const unsigned char *begin, size_t bytes)
{
    return begin < range->begin + range->bytes && range->begin < begin + bytes;
}

/* Returns a new range. Forgets freed ranges overlapping [begin, begin + bytes), and the oldest if the table is full. */
static struct range *new_range(const unsigned char *begin, size_t bytes)
{
    size_t kept = 0;
    for (size_t i = 0; i < n_ranges; i++) {
        bool forget = ranges[i].place == PLACE_FREED &&
                      (overlap(&ranges[i], begin, bytes) || n_ranges - i + kept >= RANGES_MAX);
        if (!forget)
            ranges[kept++] = ranges[i];
    }
    n_ranges = kept;
    return n_ranges < RANGES_MAX ? &ranges[n_ranges++] : NULL;
}

static struct range *range_at(const void *begin, enum double_place place)
{
    for (size_t i = 0; i < n_ranges; i++)
        if (ranges[i].begin == begin && ranges[i].place == place)
            return &ranges[i];
    return NULL;
}

enum double_place double_place_of(const void *place, size_t bytes)
{
    const unsigned char *begin = place;
    enum double_place found = PLACE_UNKNOWN;
    pthread_mutex_lock(&double_lock);
    for (size_t i = 0; i < n_ranges; i++) {
        const struct range *range = &ranges[i];
        if (!overlap(range, begin, bytes ? bytes : 1))
            continue;
        bool inside = begin >= range->begin && begin + bytes <= range->begin + range->bytes;
        if (range->place == PLACE_FREED && found != PLACE_UNKNOWN)
            continue;
        found = inside || range->place == PLACE_FREED ? range->place : PLACE_PARTLY;
    }
    pthread_mutex_unlock(&double_lock);
    return found;
}

const char *double_place_name(enum double_place place)
{
    static const char *const names[] = {
        [PLACE_UNKNOWN] = "memory that is neither the device's nor pinned",
        [PLACE_DEVICE] = "device memory",
        [PLACE_PINNED] = "pinned memory",
        [PLACE_FREED] = "memory that was freed or is no longer pinned",
        [PLACE_PARTLY] = "memory that reaches over the end of its allocation",
    };
    return names[place];
}

size_t double_device_bytes(void)
{
    pthread_mutex_lock(&double_lock);
    size_t bytes = used_bytes(-1);
    pthread_mutex_unlock(&double_lock);
    return bytes;
}

size_t double_pinned_ranges(void)
{
    size_t n = 0;
    pthread_mutex_lock(&double_lock);
    for (size_t i = 0; i < n_ranges; i++)
        n += ranges[i].place == PLACE_PINNED;
    pthread_mutex_unlock(&double_lock);
    return n;
}

/* Begins a call that takes or frees memory. The driver may wait for all streams ("Implicit Synchronization"). */
static cudaError_t enter(const char *call)
{
    cudaError_t rc = double_enter(call);
    return rc ? rc : double_idle(call);
}

static cudaError_t take(void **ret_place, size_t bytes)
{
    struct cuda_double settings = double_settings();
    int device = double_device();
    if (!ret_place)
        return cudaErrorInvalidValue;
    if (!bytes) {
        *ret_place = NULL;
        return cudaSuccess;
    }
    void *place = NULL;
    pthread_mutex_lock(&double_lock);
    size_t free_bytes = free_bytes_of(&settings, device);
    if (bytes <= free_bytes && rounded(bytes) <= free_bytes && !posix_memalign(&place, ALIGN, bytes)) {
        struct range *range = new_range(place, bytes);
        if (range)
            *range = (struct range){place, bytes, PLACE_DEVICE, device, true};
    }
    pthread_mutex_unlock(&double_lock);
    if (!place)
        return cudaErrorMemoryAllocation;
    memset(place, EMULATOR_POISON, bytes);
    *ret_place = place;
    return cudaSuccess;
}

cudaError_t CUDARTAPI cudaMalloc(void **place, size_t bytes)
{
    cudaError_t rc = enter(__func__);
    return double_leave(rc ? rc : take(place, bytes));
}

static cudaError_t give_back(void *place, enum double_place kind)
{
    if (!place)
        return cudaSuccess;
    double_wait_for_all_streams(); /* as cudaFree() does */
    pthread_mutex_lock(&double_lock);
    struct range *range = range_at(place, kind);
    if (range)
        range->place = PLACE_FREED;
    pthread_mutex_unlock(&double_lock);
    if (!range)
        return double_misuse(cudaErrorInvalidValue, "what is freed begins no allocation: %s",
                             double_place_name(double_place_of(place, 1)));
    free(place);
    return cudaSuccess;
}

/* Frees memory even on a broken device, for tests that look for leaks. */
cudaError_t CUDARTAPI cudaFree(void *place)
{
    cudaError_t rc = enter(__func__);
    bool lost = double_lost() != cudaSuccess;
    cudaError_t freed = !rc || lost ? give_back(place, PLACE_DEVICE) : cudaSuccess;
    return double_leave(rc ? rc : freed);
}

cudaError_t CUDARTAPI cudaMemGetInfo(size_t *free_bytes, size_t *total_bytes)
{
    cudaError_t rc = double_enter(__func__);
    struct cuda_double settings = double_settings();
    const struct cuda_double_device *own = &settings.devices[double_device()];
    rc = rc ? rc : own->memory;
    if (!rc) {
        pthread_mutex_lock(&double_lock);
        *free_bytes = free_bytes_of(&settings, double_device());
        pthread_mutex_unlock(&double_lock);
        *total_bytes = own->memory_bytes;
    }
    return double_leave(rc);
}

static cudaError_t pin(void *place, size_t bytes, bool ours)
{
    cudaError_t rc = cudaSuccess;
    if (!place || !bytes)
        return cudaErrorInvalidValue;
    pthread_mutex_lock(&double_lock);
    for (size_t i = 0; i < n_ranges && !rc; i++)
        if (ranges[i].place == PLACE_PINNED && overlap(&ranges[i], place, bytes))
            rc = cudaErrorHostMemoryAlreadyRegistered;
    struct range *range = rc ? NULL : new_range(place, bytes);
    if (range)
        *range = (struct range){place, bytes, PLACE_PINNED, -1, ours};
    else if (!rc)
        rc = cudaErrorMemoryAllocation;
    pthread_mutex_unlock(&double_lock);
    return rc;
}

cudaError_t CUDARTAPI cudaHostRegister(void *place, size_t bytes, unsigned flags)
{
    cudaError_t rc = enter(__func__);
    const size_t most = double_settings().devices[double_device()].pin_bytes;
    (void)flags;
    if (!rc && most && bytes > most)
        rc = cudaErrorMemoryAllocation;
    return double_leave(rc ? rc : pin(place, bytes, false));
}

static cudaError_t unpin(void *place)
{
    double_wait_for_all_streams();
    pthread_mutex_lock(&double_lock);
    struct range *range = range_at(place, PLACE_PINNED);
    bool registered = range && !range->ours;
    if (registered)
        range->place = PLACE_FREED;
    pthread_mutex_unlock(&double_lock);
    return registered ? cudaSuccess
                      : double_misuse(cudaErrorHostMemoryNotRegistered, "cudaHostUnregister() of %s",
                                      double_place_name(double_place_of(place, 1)));
}

cudaError_t CUDARTAPI cudaHostUnregister(void *place)
{
    cudaError_t rc = enter(__func__);
    cudaError_t done = !rc || double_lost() ? unpin(place) : cudaSuccess;
    return double_leave(rc ? rc : done);
}

static cudaError_t take_pinned(void **ret_place, size_t bytes)
{
    void *place = NULL;
    if (!bytes || posix_memalign(&place, ALIGN, bytes))
        return cudaErrorMemoryAllocation;
    memset(place, EMULATOR_POISON, bytes);
    cudaError_t rc = pin(place, bytes, true);
    if (rc)
        free(place);
    else
        *ret_place = place;
    return rc;
}

cudaError_t CUDARTAPI cudaHostAlloc(void **place, size_t bytes, unsigned flags)
{
    cudaError_t rc = enter(__func__);
    (void)flags;
    return double_leave(rc ? rc : take_pinned(place, bytes));
}

cudaError_t CUDARTAPI cudaMallocHost(void **place, size_t bytes)
{
    cudaError_t rc = enter(__func__);
    return double_leave(rc ? rc : take_pinned(place, bytes));
}

cudaError_t CUDARTAPI cudaFreeHost(void *place)
{
    cudaError_t rc = enter(__func__);
    cudaError_t freed = !rc || double_lost() ? give_back(place, PLACE_PINNED) : cudaSuccess;
    return double_leave(rc ? rc : freed);
}

cudaError_t CUDARTAPI cudaPointerGetAttributes(struct cudaPointerAttributes *ret_attributes,
                                               const void *place)
{
    cudaError_t rc = double_enter(__func__);
    if (rc)
        return double_leave(rc);
    const enum double_place found = double_place_of(place, 1);
    *ret_attributes =
        (struct cudaPointerAttributes){.type = found == PLACE_DEVICE   ? cudaMemoryTypeDevice
                                               : found == PLACE_PINNED ? cudaMemoryTypeHost
                                                                       : cudaMemoryTypeUnregistered};
    return double_leave(cudaSuccess);
}

cudaError_t CUDARTAPI cudaHostGetDevicePointer(void **device_place, void *place, unsigned flags)
{
    cudaError_t rc = double_enter(__func__);
    if (!rc && (flags || double_place_of(place, 1) != PLACE_PINNED))
        rc = double_misuse(cudaErrorInvalidValue, "cudaHostGetDevicePointer() of %s",
                           double_place_name(double_place_of(place, 1)));
    if (!rc)
        *device_place = place;
    return double_leave(rc);
}
