/* SPDX-License-Identifier: Apache-2.0
 *
 * Maps, fills, locks and releases large regions of host memory (region.h).
 */
#include "runtime/device/host/region.h"

#include "base/lane.h"
#include "base/units.h"

#include <string.h>
#include <sys/mman.h>

enum { PIECE_BYTES = 8 << 20, PAGE_BYTES = 4096 };

static int region_refused(uint64_t bytes, struct ah_error *err)
{
    char text[AH_UNITS_TEXT_MAX];
    return ah_error_set(err, AH_E_MEMORY, "the system refused an arena of %s; plan for less memory",
                        ah_units_print_bytes(text, bytes));
}

int ah_region_map(struct ah_region *region, uint64_t bytes, struct ah_error *err)
{
    *region = (struct ah_region){0};
    if (bytes == 0)
        return AH_OK;
    uint64_t mapping_bytes;
    if (__builtin_add_overflow(bytes, 2 * AH_REGION_ALIGN_BYTES, &mapping_bytes))
        return region_refused(bytes, err);
    void *mapping = mmap(NULL, mapping_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapping == MAP_FAILED)
        return region_refused(bytes, err);
    uint64_t skip = AH_REGION_ALIGN_BYTES - (uint64_t)(uintptr_t)mapping % AH_REGION_ALIGN_BYTES;
    region->mapping = mapping;
    region->mapping_bytes = mapping_bytes;
    region->data = (unsigned char *)mapping + skip;
    region->bytes = bytes;
    (void)madvise(region->data, bytes, MADV_HUGEPAGE); /* a failure only costs speed */
    return AH_OK;
}

size_t ah_region_pieces(const struct ah_region *region)
{
    return (size_t)((region->bytes + PIECE_BYTES - 1) / PIECE_BYTES);
}

void ah_region_touch(const struct ah_region *region, size_t piece)
{
    uint64_t at = (uint64_t)piece * PIECE_BYTES;
    uint64_t end = region->bytes - at > PIECE_BYTES ? at + PIECE_BYTES : region->bytes;
    if (region->used) {
        memset(region->data + at, 0, end - at);
        return;
    }
    for (; at < end; at += PAGE_BYTES)
        *(volatile unsigned char *)(region->data + at) = 0;
}

struct filling {
    struct ah_region *region;
    struct ah_pool *pool;
};

static void touch_piece(void *context, size_t piece, unsigned worker)
{
    (void)worker;
    ah_region_touch(context, piece);
}

static void touch_region(void *payload)
{
    const struct filling *filling = payload;
    ah_pool_run(filling->pool, touch_piece, filling->region, ah_region_pieces(filling->region));
}

int ah_region_fill(struct ah_region *region, struct ah_pool *pool, int processor, struct ah_error *err)
{
    struct ah_lane *lane;
    const struct ah_lane_options options = {.name = "fill", .cpu = processor, .queue = 1, .spans = 1};
    struct filling filling = {region, pool};
    const struct ah_lane_job job = {
        .run = touch_region, .payload = &filling, .payload_bytes = sizeof filling};
    if (region->bytes == 0)
        return AH_OK;
    int rc = ah_lane_new(&lane, &options, err);
    if (rc)
        return rc;
    rc = ah_lane_submit(lane, &job, NULL);
    ah_lane_free(lane);
    return rc;
}

void ah_region_lock(struct ah_region *region)
{
    if (region->bytes && mlock(region->data, region->bytes) == 0)
        region->locked_bytes = region->bytes;
}

int ah_region_init(struct ah_region *region, uint64_t bytes, struct ah_error *err)
{
    int rc = ah_region_map(region, bytes, err);
    if (rc)
        return rc;
    for (size_t piece = 0; piece < ah_region_pieces(region); piece++)
        ah_region_touch(region, piece);
    return AH_OK;
}

void ah_region_release(struct ah_region *region)
{
    if (region->mapping)
        munmap(region->mapping, region->mapping_bytes);
    *region = (struct ah_region){0};
}
