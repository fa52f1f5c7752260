/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests the order of processors, cores and memory on hwloc's synthetic machines and on this machine.
 */
#include "base/topology.h"

#include "base/threads.h"
#include "tests/support/check.h"
#include "tests/support/root.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static struct ah_topology synthetic(const char *description)
{
    struct ah_error err = {0};
    struct ah_topology topology;
    CHECK_OK(ah_topology_init(&topology, &(struct ah_topology_options){.synthetic = description}, &err), err);
    return topology;
}

static void check_cores(const struct ah_topology *topology, const unsigned *expected)
{
    for (unsigned i = 0; i < topology->threads; i++)
        assert_int_equal(topology->core_of[i], expected[i]);
}

static void check_cpus(const struct ah_topology *topology, const int *expected, unsigned n)
{
    assert_int_equal(topology->threads, n);
    for (unsigned i = 0; i < n; i++)
        assert_int_equal(topology->cpus[i], expected[i]);
}

TEST(topology, siblings_come_last)
{
    struct ah_topology topology = synthetic("pack:2 core:4 pu:2");
    assert_int_equal(topology.sockets, 2);
    assert_int_equal(topology.cores, 8);
    static const int expected[] = {0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15};
    check_cpus(&topology, expected, 16);
    static const unsigned cores[] = {0, 1, 2, 3, 4, 5, 6, 7, 0, 1, 2, 3, 4, 5, 6, 7};
    check_cores(&topology, cores);
    assert_int_equal(topology.busy_threads, 16);
    ah_topology_release(&topology);
}

/* Linux often gives the lowest numbers to the first processor of each core, and the next numbers to the second. */
TEST(topology, numbers_are_the_kernels)
{
    struct ah_topology topology = synthetic("numa:2 core:2 pu:2(indexes=0,4,1,5,2,6,3,7)");
    assert_int_equal(topology.numa_nodes, 2);
    assert_int_equal(topology.cores, 4);
    static const int expected[] = {0, 1, 2, 3, 4, 5, 6, 7};
    check_cpus(&topology, expected, 8);
    ah_topology_release(&topology);
}

TEST(topology, without_siblings)
{
    struct ah_topology topology = synthetic("pack:1 core:3 pu:1");
    static const int expected[] = {0, 1, 2};
    check_cpus(&topology, expected, 3);
    assert_int_equal(topology.cores, 3);
    ah_topology_release(&topology);
}

TEST(topology, without_cores)
{
    struct ah_topology topology = synthetic("pack:1 pu:2");
    assert_int_equal(topology.cores, 2);
    static const int expected[] = {0, 1};
    check_cpus(&topology, expected, 2);
    ah_topology_release(&topology);
}

TEST(topology, four_siblings_and_memory)
{
    struct ah_topology topology = synthetic("pack:2 [numa(memory=3221225472)] core:1 pu:4");
    static const int expected[] = {0, 4, 1, 5, 2, 6, 3, 7};
    static const unsigned cores[] = {0, 1, 0, 1, 0, 1, 0, 1};
    check_cpus(&topology, expected, 8);
    check_cores(&topology, cores);
    assert_int_equal(topology.memory_bytes, 6ULL << 30);
    assert_string_equal(topology.note, "");
    ah_topology_release(&topology);
}

TEST(topology, refuses_nonsense)
{
    struct ah_error err = {0};
    struct ah_topology topology;
    struct ah_topology_options options = {.synthetic = "no such:thing"};
    CHECK_FAILS(ah_topology_init(&topology, &options, &err), err, AH_E_USAGE, "'no such:thing'");
    CHECK_FAILS(ah_topology_init(&topology, &(struct ah_topology_options){.root = "/nowhere"}, &err), err,
                AH_E_IO, "/nowhere/proc/meminfo");
}

/* A container on a machine of 8 processors has a quota of 2.5 processors. */
TEST_IN(topology, a_quota_of_processor_time, root_make, root_remove)
{
    struct ah_error err = {0};
    struct ah_topology topology;
    root_put(*state, "proc/self/cgroup", "0::/\n");
    root_put(*state, "sys/fs/cgroup/cpu.max", "250000 100000\n");
    struct ah_topology_options options = {.synthetic = "core:4 pu:2", .root = *state};
    CHECK_OK(ah_topology_init(&topology, &options, &err), err);
    assert_int_equal(topology.threads, 8);
    assert_int_equal(topology.busy_threads, 3);
    assert_string_equal(topology.note, "a control group limits this process to 2.5 of the 8 processors");
    ah_topology_release(&topology);
}

TEST(topology, this_machine)
{
    struct ah_error err = {0};
    struct ah_topology topology;
    CHECK_OK(ah_topology_init(&topology, NULL, &err), err);
    unsigned n = ah_threads_cpus(NULL, 0);
    unsigned *cpus = calloc(n, sizeof *cpus);
    ah_threads_cpus(cpus, n);
    assert_int_equal(topology.threads, n);
    assert_true(1 <= topology.sockets && topology.sockets <= topology.cores && topology.cores <= n);
    assert_true(topology.numa_nodes >= 1 && topology.cpu_model[0]);
    for (unsigned i = 0; i < n; i++) { /* the same numbers, in a different order */
        unsigned found = 0;
        for (unsigned k = 0; k < n; k++)
            found += topology.cpus[k] == (int)cpus[i];
        assert_int_equal(found, 1);
    }
    struct rlimit limit;
    getrlimit(RLIMIT_MEMLOCK, &limit);
    assert_int_equal(topology.memlock_bytes,
                     limit.rlim_cur == RLIM_INFINITY ? topology.memory_bytes : limit.rlim_cur);
    uint64_t total = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGE_SIZE);
    assert_true(topology.memory_bytes <= total);
    assert_int_equal(topology.isa, ah_isa_detect());
    free(cpus);
    ah_topology_release(&topology);
    ah_topology_release(&topology);
}

TEST(topology, only_the_affinity_mask)
{
    struct ah_error err = {0};
    struct ah_topology topology;
    cpu_set_t before, one;
    unsigned cpus[CPU_SETSIZE];
    unsigned n = ah_threads_cpus(cpus, CPU_SETSIZE);
    assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
    CPU_ZERO(&one);
    CPU_SET(cpus[n - 1], &one);
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    int rc = ah_topology_init(&topology, NULL, &err);
    assert_int_equal(sched_setaffinity(0, sizeof before, &before), 0);
    CHECK_OK(rc, err);
    assert_int_equal(topology.threads, 1);
    assert_int_equal(topology.cores, 1);
    assert_int_equal(topology.sockets, 1);
    assert_int_equal(topology.cpus[0], (int)cpus[n - 1]);
    ah_topology_release(&topology);
}

/* If the kernel and hwloc differ widely, the kernel's number is used and a note says so. */
TEST_IN(topology, a_note_where_memory_differs, root_make, root_remove)
{
    struct ah_error err = {0};
    struct ah_topology topology;
    root_put(*state, "proc/meminfo", "MemTotal: 1099511627776 kB\n"); /* 1 PiB */
    CHECK_OK(ah_topology_init(&topology, &(struct ah_topology_options){.root = *state}, &err), err);
    assert_int_equal(topology.memory_bytes, 1ULL << 50);
    check_text_has(topology.note, "1024.0 TiB");
    ah_topology_release(&topology);
}
