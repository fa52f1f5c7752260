/* SPDX-License-Identifier: Apache-2.0
 *
 * Passes over large arrays. bandwidth.h says which bytes are counted.
 *
 * Kernels are written once in plain C and compiled for each instruction set. Their loops are simple enough for any
 * compiler to vectorise. A key is mixed in, so that no loop becomes memcpy() or memset(), whose streaming stores would
 * change the meaning of "write" and "copy".
 */
#include "profiler/bandwidth.h"

#include "base/threads.h"
#include "profiler/bandwidth_internal.h"
#include "runtime/device/host/convert.h"

#include <errno.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* The second array starts SKEW bytes into its mapping: arrays at equal offsets in their pages conflict in caches. */
enum { SLICE = AH_BANDWIDTH_SLICE_BYTES, WORDS = SLICE / 8, ARRAYS = 2, SKEW = 5 * 4096 + 2048 };

#define GATHER_NS 20000000u

struct ah_bandwidth {
    unsigned char *maps[ARRAYS]; /* owned; map_bytes each */
    uint64_t map_bytes;
    unsigned char *arrays[ARRAYS]; /* the beginning of each array's slices */
    uint64_t slices;               /* number of slices of one array */
    uint64_t cursor;               /* the slice at which the next pass begins */
    struct ah_pool *pool;
    const struct ah_bandwidth_kernels *kernels;
    enum ah_isa isa;
    atomic_uint gathered; /* number of participants that are awake */
    cpu_set_t caller;     /* the caller's affinity before it was pinned */
    bool pinned;
};

uint64_t ah_bandwidth_slice_bytes(enum ah_memory_pattern pattern)
{
    return pattern == AH_MEMORY_READ || pattern == AH_MEMORY_WRITE ? SLICE : 2 * (uint64_t)SLICE;
}

struct pass {
    struct ah_bandwidth *bandwidth;
    enum ah_memory_pattern pattern;
    uint64_t first; /* the slice of chunk 0 */
};

static void run_slice(void *context, size_t chunk, unsigned worker)
{
    const struct pass *pass = context;
    struct ah_bandwidth *bandwidth = pass->bandwidth;
    uint64_t offset = (pass->first + chunk) % bandwidth->slices * SLICE;
    unsigned char *a = bandwidth->arrays[0] + offset;
    (void)worker;
    if (pass->pattern == AH_MEMORY_SCALE)
        ah_convert_scale(bandwidth->isa, (void *)a, 1.0f, 0, SLICE / sizeof(float));
    else
        bandwidth->kernels->run[pass->pattern](a, bandwidth->arrays[1] + offset, WORDS);
}

/* Makes a participant wait until all are awake, but no longer than GATHER_NS. */
static void wait_for_all(void *context, size_t chunk, unsigned worker)
{
    struct ah_bandwidth *bandwidth = context;
    uint64_t begin_ns = ah_threads_now_ns();
    (void)chunk, (void)worker;
    atomic_fetch_add(&bandwidth->gathered, 1);
    while (atomic_load(&bandwidth->gathered) < ah_pool_threads(bandwidth->pool) &&
           ah_threads_now_ns() - begin_ns < GATHER_NS)
        ;
}

static unsigned char *map_array(uint64_t bytes)
{
    void *array = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (array == MAP_FAILED)
        return NULL;
    madvise(array, bytes, MADV_HUGEPAGE); /* a hint that the kernel may ignore */
    return array;
}

int ah_bandwidth_new(struct ah_bandwidth **ret_bandwidth, uint64_t array_bytes, struct ah_error *err)
{
    struct ah_bandwidth *bandwidth = calloc(1, sizeof *bandwidth);
    if (!bandwidth)
        return ah_error_memory(err);
    bandwidth->slices = array_bytes / SLICE + (array_bytes % SLICE != 0);
    if (bandwidth->slices == 0)
        bandwidth->slices = 1;
    bandwidth->map_bytes = bandwidth->slices * SLICE + SKEW;
    bandwidth->isa = ah_isa_detect();
    bandwidth->kernels = ah_bandwidth_kernels(bandwidth->isa);
    for (int i = 0; i < ARRAYS; i++) {
        bandwidth->maps[i] = map_array(bandwidth->map_bytes);
        if (!bandwidth->maps[i]) {
            ah_bandwidth_free(bandwidth);
            return ah_error_memory(err);
        }
        bandwidth->arrays[i] = bandwidth->maps[i] + i * SKEW;
    }
    struct pass touch = {bandwidth, AH_MEMORY_WRITE, 0};
    for (uint64_t slice = 0; slice < bandwidth->slices; slice++)
        run_slice(&touch, slice, 0);
    memcpy(bandwidth->arrays[1], bandwidth->arrays[0], bandwidth->slices * SLICE);
    *ret_bandwidth = bandwidth;
    return AH_OK;
}

void ah_bandwidth_rest(struct ah_bandwidth *bandwidth)
{
    ah_pool_free(bandwidth->pool);
    bandwidth->pool = NULL;
    if (bandwidth->pinned)
        sched_setaffinity(0, sizeof bandwidth->caller, &bandwidth->caller);
    bandwidth->pinned = false;
}

int ah_bandwidth_use(struct ah_bandwidth *bandwidth, unsigned threads, const int *cpus, struct ah_error *err)
{
    ah_bandwidth_rest(bandwidth);
    if (threads == 0 || threads > AH_BANDWIDTH_THREADS_MAX)
        return ah_error_set(err, AH_E_USAGE, "memory passes by %u threads", threads);
    if (sched_getaffinity(0, sizeof bandwidth->caller, &bandwidth->caller))
        return ah_error_set(err, AH_E_FAILED, "the processors of this thread: %s", strerror(errno));
    bandwidth->pinned = true;
    struct ah_pool_options options = {.threads = threads, .cpus = cpus};
    int rc = ah_pool_new(&bandwidth->pool, &options, err);
    if (rc == AH_OK)
        ah_threads_pin(cpus[0]); /* a refusal only costs speed */
    return rc;
}

int ah_bandwidth_run(struct ah_bandwidth *bandwidth, enum ah_memory_pattern pattern, uint64_t slices,
                     double *ret_seconds, struct ah_error *err)
{
    struct pass pass = {bandwidth, pattern, bandwidth->cursor};
    if (slices == 0 || slices > UINT32_MAX - 1)
        return ah_error_set(err, AH_E_FAILED, "a pass over %llu slices", (unsigned long long)slices);
    /* waking a worker may take longer than a pass if the processor is busy */
    atomic_store(&bandwidth->gathered, 0);
    ah_pool_run(bandwidth->pool, wait_for_all, bandwidth, ah_pool_threads(bandwidth->pool));
    uint64_t begin_ns = ah_threads_now_ns();
    ah_pool_run(bandwidth->pool, run_slice, &pass, (size_t)slices);
    *ret_seconds = (double)(ah_threads_now_ns() - begin_ns) * 1e-9;
    bandwidth->cursor = (bandwidth->cursor + slices) % bandwidth->slices;
    return AH_OK;
}

void ah_bandwidth_free(struct ah_bandwidth *bandwidth)
{
    if (!bandwidth)
        return;
    ah_bandwidth_rest(bandwidth);
    for (int i = 0; i < ARRAYS; i++)
        if (bandwidth->maps[i])
            munmap(bandwidth->maps[i], bandwidth->map_bytes);
    free(bandwidth);
}
