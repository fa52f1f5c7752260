/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests quotas of processor time of groups, in a folder that stands for /. test_host_memory.c tests memory limits.
 */
#include "base/cgroup.h"

#include "tests/support/check.h"
#include "tests/support/root.h"

#include <string.h>

static double processors(const char *root)
{
    struct ah_cgroup group;
    ah_cgroup_read(&group, root);
    return group.processors;
}

TEST_IN(cgroup, nothing_limits_nothing, root_make, root_remove)
{
    struct ah_cgroup group;
    ah_cgroup_read(&group, *state);
    assert_true(group.processors == 0);
    assert_int_equal(group.memory_limit_bytes, UINT64_MAX);
    assert_int_equal(group.memory_free_bytes, UINT64_MAX);
}

TEST_IN(cgroup, version_2_quota, root_make, root_remove)
{
    root_put(*state, "proc/self/cgroup", "0::/a/b\n");
    root_put(*state, "sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
    assert_true(processors(*state) == 0);
    root_put(*state, "sys/fs/cgroup/a/cpu.max", "400000 100000\n");
    assert_true(processors(*state) == 4);
    root_put(*state, "sys/fs/cgroup/a/b/cpu.max", "75000 50000\n");
    assert_true(processors(*state) == 1.5);
    root_put(*state, "sys/fs/cgroup/a/b/cpu.max", "800000 100000\n"); /* the parent's quota is smaller */
    assert_true(processors(*state) == 4);
}

TEST_IN(cgroup, version_1_quota, root_make, root_remove)
{
    root_put(*state, "proc/self/cgroup", "5:cpuset:/x\n4:cpu,cpuacct:/docker/abc\n");
    root_put(*state, "sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
    root_put(*state, "sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
    assert_true(processors(*state) == 0);
    root_put(*state, "sys/fs/cgroup/cpu/cpu.cfs_quota_us", "200000\n");
    assert_true(processors(*state) == 2);
    root_put(*state, "sys/fs/cgroup/cpu,cpuacct/docker/abc/cpu.cfs_quota_us", "50000\n");
    assert_true(processors(*state) == 2); /* a quota without a period is ignored */
    root_put(*state, "sys/fs/cgroup/cpu,cpuacct/docker/abc/cpu.cfs_period_us", "100000\n");
    assert_true(processors(*state) == 0.5);
}

TEST_IN(cgroup, damaged_quotas_do_not_count, root_make, root_remove)
{
    static const char *const texts[] = {"",           "\n",         "x 100000\n", "100000\n",
                                        "100000 0\n", "0 100000\n", "-5 -5\n"};
    root_put(*state, "proc/self/cgroup", "0::/\n");
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        root_put(*state, "sys/fs/cgroup/cpu.max", texts[i]);
        assert_true(processors(*state) == 0);
    }
}

/* A path that is too long is skipped, not truncated. */
TEST_IN(cgroup, long_paths, root_make, root_remove)
{
    char line[6000];
    memset(line, 'a', sizeof line);
    memcpy(line, "0::/", 4);
    line[sizeof line - 1] = '\0';
    root_put(*state, "proc/self/cgroup", line);
    assert_true(processors(*state) == 0);
}
