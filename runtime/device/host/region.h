/* SPDX-License-Identifier: Apache-2.0
 *
 * Region: the memory of one device arena.
 *
 * It is mapped, with huge pages if the system has them, and touched before use: a page fault in the step loop costs
 * more than the work on the page. A page is placed in the memory of the processor that touches it first. So one thread
 * maps a large region, and the threads that will work on it touch it, piece by piece:
 *
 *     rc = ah_region_map(&region, bytes, err);
 *     rc = ah_region_fill(&region, pool, processor, err);
 *     ah_region_lock(&region);
 */
#ifndef AH_RUNTIME_DEVICE_HOST_REGION_H
#define AH_RUNTIME_DEVICE_HOST_REGION_H

#include "base/error.h"
#include "base/pool.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Every region starts at a multiple of this: a huge page. */
#define AH_REGION_ALIGN_BYTES (UINT64_C(1) << 21)

struct ah_region {
    unsigned char *data; /* owned; zeros at first; NULL while empty */
    uint64_t bytes;
    void *mapping; /* the mapping to unmap */
    uint64_t mapping_bytes;
    uint64_t locked_bytes; /* held in memory by mlock(2) */
    bool used;             /* the region no longer holds zeros, so touching a piece zeroes it */
};

/* Takes address space, but no memory yet. 0 bytes: an empty region. AH_E_MEMORY: there is not enough address space. */
int ah_region_map(struct ah_region *region, uint64_t bytes, struct ah_error *err);

/* Returns the number of pieces of a region. Touching a piece takes memory for it. Different threads may touch different
 * pieces at the same time. */
size_t ah_region_pieces(const struct ah_region *region);
void ah_region_touch(const struct ah_region *region, size_t piece);

/* Touches a whole region, which takes memory for it. The pool's threads touch it, because they will work on it. A
 * temporary thread on `processor` (-1: any) replaces the pool's caller, which is a lane's thread and runs only ops.
 * AH_E_FAILED, AH_E_MEMORY: no thread could be started. */
int ah_region_fill(struct ah_region *region, struct ah_pool *pool, int processor, struct ah_error *err);

/* Tries to lock the region with mlock(2). A refusal is no failure; `locked_bytes` tells. Touch the region first,
 * because mlock would otherwise take all of its memory for the calling thread. */
void ah_region_lock(struct ah_region *region);

/* Maps a small region and touches it on the calling thread. */
int ah_region_init(struct ah_region *region, uint64_t bytes, struct ah_error *err);

void ah_region_release(struct ah_region *region);

#endif
