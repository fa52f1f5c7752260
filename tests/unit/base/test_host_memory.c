/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests usable and available memory of synthetic machines. Each test writes its files to a folder in place of /.
 */
#include "base/host_memory.h"

#include "tests/support/check.h"
#include "tests/support/root.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const uint64_t gib = 1ULL << 30;

/* A machine short of memory may reclaim pages during one try, but not during every try. */
TEST(host_memory, resident_grows_with_what_is_touched)
{
    enum { BYTES = 32 << 20, TRIES = 50 };
    uint64_t grown = 0;
    for (int i = 0; i < TRIES && grown < BYTES / 2; i++) { /* the kernel's count lags, by pages per core */
        uint64_t before = ah_host_memory_resident();
        unsigned char *bytes = malloc(BYTES);
        assert_non_null(bytes);
        memset(bytes, 1, BYTES);
        uint64_t after = ah_host_memory_resident();
        assert_int_equal(bytes[BYTES / 2], 1);
        free(bytes);
        assert_true(before > 0);
        assert_true(after < before + 64 * (uint64_t)BYTES); /* a sanitizer touches several times as much */
        grown = after > before ? after - before : 0;
    }
    assert_true(grown >= BYTES / 2);
}

static struct ah_host_memory read_memory(const char *root)
{
    struct ah_error err = {0};
    struct ah_host_memory memory;
    CHECK_OK(ah_host_memory_read(&memory, root, &err), err);
    return memory;
}

static void put_meminfo(const char *root) /* writes a machine with 16 GiB, of which 10 GiB are available */
{
    root_put(
        root, "proc/meminfo",
        "MemTotal:       16777216 kB\nMemFree:         1000000 kB\nMemAvailable:   10485760 kB\nBuffers: 1 "
        "kB\n");
}

TEST_IN(host_memory, without_groups, root_make, root_remove)
{
    put_meminfo(*state);
    struct ah_host_memory memory = read_memory(*state);
    assert_int_equal(memory.total_bytes, 16 * gib);
    assert_int_equal(memory.available_bytes, 10 * gib);
    assert_int_equal(memory.limit_bytes, UINT64_MAX);
    assert_int_equal(memory.usable_bytes, 16 * gib);
}

TEST_IN(host_memory, version_2_takes_the_least_above, root_make, root_remove)
{
    put_meminfo(*state);
    root_put(*state, "proc/self/cgroup", "0::/user.slice/user-1000.slice/app.scope\n");
    root_put(*state, "sys/fs/cgroup/user.slice/user-1000.slice/app.scope/memory.max", "max\n");
    root_put(*state, "sys/fs/cgroup/user.slice/user-1000.slice/memory.max", "4294967296\n");
    root_put(*state, "sys/fs/cgroup/user.slice/memory.max", "8589934592\n");
    struct ah_host_memory memory = read_memory(*state);
    assert_int_equal(memory.limit_bytes, 4 * gib);
    assert_int_equal(memory.usable_bytes, 4 * gib);
    assert_int_equal(memory.total_bytes, 16 * gib);
}

TEST_IN(host_memory, version_2_inside_a_container, root_make, root_remove)
{
    put_meminfo(*state);
    root_put(*state, "proc/self/cgroup", "0::/\n");
    root_put(*state, "sys/fs/cgroup/memory.max", "2147483648\n");
    assert_int_equal(read_memory(*state).usable_bytes, 2 * gib);
}

TEST_IN(host_memory, path_of_the_host_inside_a_container, root_make, root_remove)
{
    put_meminfo(*state);
    root_put(*state, "proc/self/cgroup",
             "5:cpu,cpuacct:/docker/abc\n4:memory:/docker/abc\n0::/system.slice/docker\n");
    root_put(*state, "sys/fs/cgroup/memory/memory.limit_in_bytes", "3221225472\n");
    assert_int_equal(read_memory(*state).usable_bytes, 3 * gib);
}

TEST_IN(host_memory, version_1_and_its_unlimited, root_make, root_remove)
{
    put_meminfo(*state);
    root_put(*state, "proc/self/cgroup", "9:name=systemd:/\n4:hugetlb,memory:/jobs/7\n0::/\n");
    root_put(*state, "sys/fs/cgroup/memory/jobs/7/memory.limit_in_bytes", "9223372036854771712\n");
    root_put(*state, "sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    assert_int_equal(read_memory(*state).usable_bytes, 16 * gib);
    root_put(*state, "sys/fs/cgroup/memory/jobs/memory.limit_in_bytes", "5368709120\n");
    assert_int_equal(read_memory(*state).usable_bytes, 5 * gib);
}

/* The group uses 3 of its 4 GiB, including 1 GiB of reclaimable file pages. Later its parent has less free memory. */
TEST_IN(host_memory, what_a_group_uses_is_not_available, root_make, root_remove)
{
    put_meminfo(*state);
    root_put(*state, "proc/self/cgroup", "0::/a/b\n");
    root_put(*state, "sys/fs/cgroup/a/b/memory.max", "4294967296\n");
    assert_int_equal(read_memory(*state).available_bytes, 4 * gib);
    root_put(*state, "sys/fs/cgroup/a/b/memory.current", "3221225472\n");
    assert_int_equal(read_memory(*state).available_bytes, gib);
    root_put(*state, "sys/fs/cgroup/a/b/memory.stat",
             "anon 2147483648\nfile 1073741824\ninactive_file_x 7\ninactive_file 1073741824\nslab 1\n");
    assert_int_equal(read_memory(*state).available_bytes, 2 * gib);
    root_put(*state, "sys/fs/cgroup/a/memory.max", "8589934592\n");
    root_put(*state, "sys/fs/cgroup/a/memory.current", "8053063680\n");
    assert_int_equal(read_memory(*state).available_bytes, gib / 2);
    assert_int_equal(read_memory(*state).usable_bytes, 4 * gib);
    root_put(*state, "sys/fs/cgroup/a/memory.current",
             "9663676416\n"); /* above the group's limit, which was lowered */
    assert_int_equal(read_memory(*state).available_bytes, 0);
}

TEST_IN(host_memory, version_1_counts_the_groups_below, root_make, root_remove)
{
    put_meminfo(*state);
    root_put(*state, "proc/self/cgroup", "4:memory:/jobs\n");
    root_put(*state, "sys/fs/cgroup/memory/jobs/memory.limit_in_bytes", "4294967296\n");
    root_put(*state, "sys/fs/cgroup/memory/jobs/memory.usage_in_bytes", "3221225472\n");
    root_put(*state, "sys/fs/cgroup/memory/jobs/memory.stat",
             "inactive_file 5\ntotal_inactive_file 1073741824\n");
    assert_int_equal(read_memory(*state).available_bytes, 2 * gib);
}

/* The kernel may count file pages later than the total, so the file pages may exceed the total. */
TEST_IN(host_memory, available_is_at_most_usable, root_make, root_remove)
{
    put_meminfo(*state);
    root_put(*state, "proc/self/cgroup", "0::/\n");
    root_put(*state, "sys/fs/cgroup/memory.max", "4294967296\n");
    root_put(*state, "sys/fs/cgroup/memory.current", "1000\n");
    root_put(*state, "sys/fs/cgroup/memory.stat", "inactive_file 99999999999\n");
    assert_int_equal(read_memory(*state).available_bytes, 4 * gib);
}

TEST_IN(host_memory, both_versions_at_once, root_make, root_remove)
{
    put_meminfo(*state);
    root_put(*state, "proc/self/cgroup", "4:memory:/a\n0::/b\n");
    root_put(*state, "sys/fs/cgroup/memory/a/memory.limit_in_bytes", "7516192768\n");
    root_put(*state, "sys/fs/cgroup/unified/b/memory.max", "6442450944\n");
    assert_int_equal(read_memory(*state).usable_bytes, 6 * gib);
}

TEST_IN(host_memory, other_controllers_do_not_count, root_make, root_remove)
{
    put_meminfo(*state);
    root_put(*state, "proc/self/cgroup", "nonsense\n:\n3:cpuset,xmemory:/a\n2:memoryx:/a\n");
    root_put(*state, "sys/fs/cgroup/memory/a/memory.limit_in_bytes", "1000\n");
    assert_int_equal(read_memory(*state).limit_bytes, UINT64_MAX);
}

TEST_IN(host_memory, damaged_limits_do_not_count, root_make, root_remove)
{
    put_meminfo(*state);
    root_put(*state, "proc/self/cgroup", "0::/a\n");
    root_put(*state, "sys/fs/cgroup/a/memory.max", "\n");
    assert_int_equal(read_memory(*state).limit_bytes, UINT64_MAX);
}

TEST_IN(host_memory, no_total_is_an_error, root_make, root_remove)
{
    struct ah_error err = {0};
    struct ah_host_memory memory;
    CHECK_FAILS(ah_host_memory_read(&memory, *state, &err), err, AH_E_IO, "/proc/meminfo: cannot be read");
    root_put(*state, "proc/meminfo", "MemFree: 1 kB\n");
    CHECK_FAILS(ah_host_memory_read(&memory, *state, &err), err, AH_E_IO, "MemTotal");
}

/* Compares this machine's memory with what the C library says, which asks the kernel in a different way (sysinfo). */
TEST_IN(host_memory, this_machine, root_make, root_remove)
{
    struct ah_host_memory memory = read_memory(NULL);
    uint64_t total = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGE_SIZE);
    assert_int_equal(memory.total_bytes, total);
    assert_true(memory.available_bytes <= memory.total_bytes && memory.usable_bytes <= memory.total_bytes);
}
