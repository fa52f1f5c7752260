/* SPDX-License-Identifier: Apache-2.0
 *
 * Quotas of processor time: each test writes the files of a machine into a folder that stands for /. What groups
 * say of memory is tested through its user, test_host_memory.c.
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

static void test_cgroup__nothing_limits_nothing(void **state)
{
    struct ah_cgroup group;
    ah_cgroup_read(&group, *state);
    assert_true(group.processors == 0);
    assert_int_equal(group.memory_limit_bytes, UINT64_MAX);
    assert_int_equal(group.memory_free_bytes, UINT64_MAX);
}

static void test_cgroup__version_2_quota(void **state)
{
    root_put(*state, "proc/self/cgroup", "0::/a/b\n");
    root_put(*state, "sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
    assert_true(processors(*state) == 0);
    root_put(*state, "sys/fs/cgroup/a/cpu.max", "400000 100000\n");
    assert_true(processors(*state) == 4);
    root_put(*state, "sys/fs/cgroup/a/b/cpu.max", "75000 50000\n");
    assert_true(processors(*state) == 1.5);
    root_put(*state, "sys/fs/cgroup/a/b/cpu.max", "800000 100000\n"); /* the group above has less */
    assert_true(processors(*state) == 4);
}

static void test_cgroup__version_1_quota(void **state)
{
    root_put(*state, "proc/self/cgroup", "5:cpuset:/x\n4:cpu,cpuacct:/docker/abc\n");
    root_put(*state, "sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
    root_put(*state, "sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
    assert_true(processors(*state) == 0);
    root_put(*state, "sys/fs/cgroup/cpu/cpu.cfs_quota_us", "200000\n");
    assert_true(processors(*state) == 2);
    root_put(*state, "sys/fs/cgroup/cpu,cpuacct/docker/abc/cpu.cfs_quota_us", "50000\n");
    assert_true(processors(*state) == 2); /* no period: says nothing */
    root_put(*state, "sys/fs/cgroup/cpu,cpuacct/docker/abc/cpu.cfs_period_us", "100000\n");
    assert_true(processors(*state) == 0.5);
}

static void test_cgroup__damaged_quotas_do_not_count(void **state)
{
    static const char *const texts[] = {"",           "\n",         "x 100000\n", "100000\n",
                                        "100000 0\n", "0 100000\n", "-5 -5\n"};
    root_put(*state, "proc/self/cgroup", "0::/\n");
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        root_put(*state, "sys/fs/cgroup/cpu.max", texts[i]);
        assert_true(processors(*state) == 0);
    }
}

/* Longer than any path may be: passed over, not cut. */
static void test_cgroup__long_paths(void **state)
{
    char line[6000];
    memset(line, 'a', sizeof line);
    memcpy(line, "0::/", 4);
    line[sizeof line - 1] = '\0';
    root_put(*state, "proc/self/cgroup", line);
    assert_true(processors(*state) == 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, root_make, root_remove)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_cgroup__nothing_limits_nothing),
        TEST(test_cgroup__version_2_quota),
        TEST(test_cgroup__version_1_quota),
        TEST(test_cgroup__damaged_quotas_do_not_count),
        TEST(test_cgroup__long_paths),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
