/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests the choice of processors near a GPU. The machine has two sockets of 4 cores. Processors 0-3 and 8-11 are on the
 * first socket, the GPU is on the second.
 */
#include "runtime/device/cuda/near.h"
#include "tests/support/check.h"
#include "tests/support/root.h"

#include <stdio.h>

enum { CORES = 8 };

static const char gpu[] = "0000:c1:00.0";
static const unsigned all[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};

static void put_machine(const char *root)
{
    for (unsigned cpu = 0; cpu < 2 * CORES; cpu++) {
        char path[128], siblings[32];
        snprintf(path, sizeof path, "sys/devices/system/cpu/cpu%u/topology/thread_siblings_list", cpu);
        snprintf(siblings, sizeof siblings, "%u,%u\n", cpu % CORES, cpu % CORES + CORES);
        root_put(root, path, siblings);
    }
    root_put(root, "sys/bus/pci/devices/0000:c1:00.0/local_cpulist", "4-7,12-15\n");
}

static struct ah_cuda_near find(const char *root, unsigned threads, const unsigned *cpus, unsigned n)
{
    struct ah_cuda_near near;
    ah_cuda_near_find(&near,
                      &(struct ah_cuda_near_options){
                          .address = gpu, .threads = threads, .root = root, .cpus = cpus, .n_cpus = n});
    return near;
}

static void expect(const struct ah_cuda_near *near, const int *cpus, unsigned n)
{
    assert_int_equal(near->threads, n);
    for (unsigned i = 0; i < n; i++)
        assert_int_equal(near->cpus[i], cpus[i]);
}

TEST_IN(near, takes_cores_of_its_side, root_make, root_remove)
{
    const int three[] = {4, 5, 6}, most[] = {4, 5, 6, 7, 12, 13, 14, 15, 0, 1};
    put_machine(*state);
    struct ah_cuda_near near = find(*state, 0, all, 16); /* four near cores, but one is the submitter's */
    expect(&near, three, 3);
    near = find(*state, 10, all, 16); /* second processors follow, and last the far side */
    expect(&near, most, 10);
}

TEST_IN(near, takes_what_it_may, root_make, root_remove)
{
    static const unsigned some[] = {2, 5, 13, 14};
    const int both[] = {5, 14};
    put_machine(*state);
    struct ah_cuda_near near = find(*state, 2, some, 4); /* 13 is on the same core as 5; 14 is on another */
    expect(&near, both, 2);
    near = find(*state, 0, some, 4);
    expect(&near, both, 1);
    static const unsigned far[] = {0, 1, 2};
    const int two[] = {0, 1};
    near = find(*state, 0, far, 3); /* no processor on the GPU's side */
    expect(&near, two, 2);
}

TEST_IN(near, does_not_pin_more_than_there_are, root_make, root_remove)
{
    put_machine(*state);
    struct ah_cuda_near near = find(*state, 17, all, 16);
    assert_int_equal(near.threads, 17);
    for (unsigned i = 0; i < 17; i++)
        assert_int_equal(near.cpus[i], -1);
    near = find(*state, 1u << 30, all, 16);
    assert_int_equal(near.threads, AH_CUDA_NEAR_MAX);
}

TEST_IN(near, heeds_a_quota, root_make, root_remove)
{
    const int one[] = {4, 5};
    put_machine(*state);
    root_put(*state, "proc/self/cgroup", "0::/\n");
    root_put(*state, "sys/fs/cgroup/cpu.max", "300000 100000\n");
    struct ah_cuda_near near = find(*state, 0, all, 16);
    expect(&near, one, 2);
}

static struct ah_cuda_near find_beside(const char *root, unsigned threads, unsigned n)
{
    struct ah_cuda_near near;
    ah_cuda_near_find(
        &near,
        &(struct ah_cuda_near_options){
            .address = gpu, .threads = threads, .submitter = true, .root = root, .cpus = all, .n_cpus = n});
    return near;
}

TEST_IN(near, keeps_a_core_for_the_submitter, root_make, root_remove)
{
    const int three[] = {4, 5, 6}, four[] = {4, 5, 6, 7}, seven[] = {4, 5, 6, 7, 12, 13, 14};
    put_machine(*state);
    struct ah_cuda_near near = find_beside(*state, 0, 16);
    expect(&near, three, 3);
    assert_int_equal(near.submitter, 7);
    near = find_beside(*state, 4, 16); /* the submitter gets a far core, not a near core's second processor */
    expect(&near, four, 4);
    assert_int_equal(near.submitter, 0);
    near = find_beside(*state, 16, 16); /* threads get no more than all cores but one */
    expect(&near, seven, 7);
    assert_int_equal(near.submitter, 0);
    near = find_beside(*state, 5, 1); /* there is only one core */
    assert_int_equal(near.threads, 1);
    assert_int_equal(near.submitter, -1);
    near = find(*state, 16, all, 16);
    assert_int_equal(near.submitter, -1);
}

TEST_IN(near, lives_with_damaged_files, root_make, root_remove)
{
    static const char *const lists[] = {
        "", "\n", "x", "9999-99999", "7-4", "-3", "1-", "99999999999999999999", "4-7,x"};
    put_machine(*state);
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        root_put(*state, "sys/bus/pci/devices/0000:c1:00.0/local_cpulist", lists[i]);
        root_put(*state, "sys/devices/system/cpu/cpu3/topology/thread_siblings_list", lists[i]);
        struct ah_cuda_near near = find(*state, 0, all, 16);
        assert_true(near.threads >= 1 && near.threads < 16 && near.cpus[0] >= 0);
    }
    struct ah_cuda_near near = find("/nowhere", 0, all, 2);
    const int first[] = {0};
    expect(&near, first, 1);
}

TEST(near, knows_this_machine)
{
    struct ah_cuda_near near = find(NULL, 0, NULL, 0);
    assert_true(near.threads >= 1 && near.cpus[0] >= 0);
}
