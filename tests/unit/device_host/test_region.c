/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests which calls make pages of a region resident, with mincore(2). Huge pages are off, so single pages count.
 */
#include "runtime/device/host/region.h"

#include "tests/support/check.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>

enum { PAGE_BYTES = 4096 };

static size_t resident_pages(const struct ah_region *region)
{
    size_t pages = (region->bytes + PAGE_BYTES - 1) / PAGE_BYTES;
    size_t resident = 0;
    unsigned char *map = calloc(pages, 1);
    assert_non_null(map);
    assert_int_equal(mincore(region->data, region->bytes, map), 0);
    for (size_t i = 0; i < pages; i++)
        resident += map[i] & 1;
    free(map);
    return resident;
}

TEST(region, memory_comes_piece_by_piece)
{
    struct ah_region region;
    struct ah_error err = {0};
    const uint64_t pages = 5000; /* two pieces of 8 MiB and part of a third */
    CHECK_OK(ah_region_map(&region, pages * PAGE_BYTES - 7, &err), err);
    assert_int_equal((uintptr_t)region.data % AH_REGION_ALIGN_BYTES, 0);
    assert_int_equal(resident_pages(&region), 0);
    assert_int_equal(ah_region_pieces(&region), 3);
    ah_region_touch(&region, 2);
    assert_int_equal(resident_pages(&region), 5000 - 4096);
    ah_region_touch(&region, 0);
    assert_int_equal(resident_pages(&region), 5000 - 2048);
    ah_region_touch(&region, 1);
    assert_int_equal(resident_pages(&region), 5000);
    ah_region_release(&region);
    CHECK_OK(ah_region_init(&region, PAGE_BYTES * 100, &err), err);
    assert_int_equal(resident_pages(&region), 100);
    assert_int_equal(region.locked_bytes, 0);
    ah_region_lock(&region);
    assert_true(region.locked_bytes == 0 || region.locked_bytes == PAGE_BYTES * 100);
    ah_region_release(&region);
}

TEST(region, is_filled_by_a_pool)
{
    struct ah_region region;
    struct ah_pool *pool = NULL;
    struct ah_error err = {0};
    const uint64_t pages = 5000;
    CHECK_OK(ah_pool_new(&pool, &(struct ah_pool_options){.threads = 2}, &err), err);
    CHECK_OK(ah_region_map(&region, pages * PAGE_BYTES - 7, &err), err);
    CHECK_OK(ah_region_fill(&region, pool, -1, &err), err);
    assert_int_equal(resident_pages(&region), pages);
    ah_region_release(&region);
    CHECK_OK(ah_region_fill(&region, pool, -1, &err), err);
    ah_pool_free(pool);
}

TEST(region, empty_and_impossible)
{
    struct ah_region region;
    struct ah_error err = {0};
    CHECK_OK(ah_region_init(&region, 0, &err), err);
    assert_null(region.data);
    assert_int_equal(ah_region_pieces(&region), 0);
    ah_region_release(&region);
    CHECK_FAILS(ah_region_map(&region, UINT64_MAX - 5, &err), err, AH_E_MEMORY, "plan for less memory");
    CHECK_FAILS(ah_region_map(&region, UINT64_C(1) << 60, &err), err, AH_E_MEMORY, "1048576.0 TiB");
}
