/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests which threads take the memory of a device's arenas, as page faults of threads and mincore(2) tell. This process
 * has no huge pages, so that every page counts.
 */
#include "runtime/device/device.h"
#include "tests/support/check.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>

enum { PAGE_BYTES = 4096, ARENA_PAGES = 4096 };

/* The page faults allowed to the thread that opens a device of three arenas. The thread sanitizer writes memory of its
 * own for every page that a thread maps. */
#if defined(__SANITIZE_THREAD__)
enum { FAULTS_MAX = 100 * ARENA_PAGES };
#else
enum { FAULTS_MAX = ARENA_PAGES / 2 };
#endif

static size_t resident_pages(void *data)
{
    static unsigned char map[ARENA_PAGES];
    size_t resident = 0;
    assert_int_equal(mincore(data, (size_t)ARENA_PAGES * PAGE_BYTES, map), 0);
    for (size_t i = 0; i < ARENA_PAGES; i++)
        resident += map[i] & 1;
    return resident;
}

static long faults_of_this_thread(void)
{
    struct rusage usage;
    getrusage(RUSAGE_THREAD, &usage);
    return usage.ru_minflt;
}

/* The thread that reserves arenas must not touch them first, because their pages would be near the wrong processor.
 * After ah_device_reserve(), every page is resident. */
TEST(arenas, are_touched_by_the_pools)
{
    struct ah_device *device = NULL;
    struct ah_error err = {0};
    struct ah_device_options options = {0};
    uint64_t arena_bytes[AH_ARENA_KINDS] = {0};
    for (unsigned arena = 1; arena < AH_ARENA_KINDS; arena++)
        arena_bytes[arena] = ARENA_PAGES * PAGE_BYTES;
    long before = faults_of_this_thread();
    CHECK_OK(ah_device_open(&device, ah_device_cpu(), &options, &err), err);
    CHECK_OK(ah_device_reserve(device, arena_bytes, &err), err);
    assert_true(faults_of_this_thread() - before < FAULTS_MAX);
    for (unsigned arena = 1; arena < AH_ARENA_KINDS; arena++)
        assert_int_equal(resident_pages(ah_device_pointer(device, (struct ah_ref){arena, AH_FP32, 0, 0})),
                         ARENA_PAGES);
    ah_device_close(device);
}
