/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests which cores the threads of each lane get, on machines of every kind.
 */
#include "runtime/device/cpu/placement.h"

#include "base/threads.h"
#include "tests/support/check.h"

/* A machine with up to 2 threads per core. Its processors are numbered from 10. */
struct machine {
    struct ah_topology topology;
    int cpus[16];
    unsigned core_of[16];
};

static const struct ah_topology *make(struct machine *machine, unsigned cpus, unsigned cores)
{
    for (unsigned i = 0; i < cpus; i++) {
        machine->cpus[i] = 10 + (int)i;
        machine->core_of[i] = i % cores;
    }
    machine->topology = (struct ah_topology){.threads = cpus,
                                             .busy_threads = cpus,
                                             .cores = cores,
                                             .cpus = machine->cpus,
                                             .core_of = machine->core_of};
    return &machine->topology;
}

/* Tests the rows of the table in placement.h, and explicit requests. */
TEST(placement, follows_its_table)
{
    static const struct {
        unsigned n_cpus, n_cores, compute, host;
        unsigned n_compute, n_host, n_copy;
        int first_host, last_host, first_copy, last_copy;
    } rows[] = {
        {1, 1, 0, 0, 1, 1, 1, 10, 10, 10, 10},    {2, 1, 0, 0, 1, 1, 1, 11, 11, 11, 11},
        {2, 2, 0, 0, 1, 1, 1, 11, 11, 11, 11},    {4, 4, 0, 0, 3, 1, 1, 13, 13, 13, 13},
        {16, 16, 0, 0, 12, 4, 4, 22, 25, 22, 25}, {16, 8, 0, 0, 6, 2, 4, 16, 17, 16, 25},
        {2, 2, 2, 0, 2, 1, 2, 10, 10, 10, 11},    {2, 2, 1, 2, 1, 2, 1, 11, 10, 11, 11},
        {4, 4, 2, 0, 2, 2, 2, 12, 13, 12, 13},    {2, 2, 3, 3, 3, 3, 2, -1, -1, 10, 11},
        {4, 2, 2, 2, 2, 2, 2, 12, 13, 12, 13},    {16, 8, 6, 5, 6, 5, 4, 16, 18, 16, 25},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct ah_placement placement;
        struct machine machine;
        ah_placement_choose(&placement, make(&machine, rows[i].n_cpus, rows[i].n_cores), rows[i].compute,
                            rows[i].host);
        assert_int_equal(placement.n_compute, rows[i].n_compute);
        assert_int_equal(placement.n_host, rows[i].n_host);
        assert_int_equal(placement.n_copy, rows[i].n_copy);
        assert_int_equal(placement.host[0], rows[i].first_host);
        assert_int_equal(placement.host[placement.n_host - 1], rows[i].last_host);
        assert_int_equal(placement.copy[0], rows[i].first_copy);
        assert_int_equal(placement.copy[placement.n_copy - 1], rows[i].last_copy);
        assert_int_equal(placement.compute[0], rows[i].n_compute > rows[i].n_cpus ? -1 : 10);
    }
}

TEST(placement, never_shares_compute_cores_by_default)
{
    struct ah_placement placement;
    struct machine machine;
    for (unsigned cores = 2; cores <= 16; cores++)
        for (unsigned cpus = cores; cpus <= 2 * cores && cpus <= 16; cpus++) {
            ah_placement_choose(&placement, make(&machine, cpus, cores), 0, 0);
            for (unsigned i = 0; i < placement.n_compute; i++) {
                int core = (placement.compute[i] - 10) % (int)cores;
                for (unsigned j = 0; j < placement.n_host; j++)
                    assert_int_not_equal(core, (placement.host[j] - 10) % (int)cores);
                for (unsigned j = 0; j < placement.n_copy; j++)
                    assert_int_not_equal(core, (placement.copy[j] - 10) % (int)cores);
            }
        }
}

/* The machine has 16 cores and a quota of 4 processors. The kernel would only pause any additional threads. */
TEST(placement, keeps_to_a_quota)
{
    struct ah_placement placement;
    struct machine machine;
    make(&machine, 16, 16);
    machine.topology.busy_threads = 4;
    ah_placement_choose(&placement, &machine.topology, 0, 0);
    assert_int_equal(placement.n_compute, 3);
    assert_int_equal(placement.n_host, 1);
    assert_int_equal(placement.host[0], 13);
    machine.topology.busy_threads = 1;
    ah_placement_choose(&placement, &machine.topology, 0, 0);
    assert_int_equal(placement.n_compute, 1);
    assert_int_equal(placement.n_host, 1);
    assert_int_equal(placement.host[0], 11);
}

TEST(placement, undoes_its_mask)
{
    unsigned before[AH_PLACEMENT_MAX];
    unsigned inside[AH_PLACEMENT_MAX];
    unsigned n = ah_threads_cpus(before, AH_PLACEMENT_MAX);
    struct ah_placement placement = {.n_copy = 1, .copy = {(int)before[n - 1]}};
    struct ah_placement_mask mask;
    ah_placement_enter_copy(&placement, &mask);
    assert_int_equal(ah_threads_cpus(inside, AH_PLACEMENT_MAX), 1);
    assert_int_equal(inside[0], before[n - 1]);
    ah_placement_leave_copy(&mask);
    assert_int_equal(ah_threads_cpus(inside, AH_PLACEMENT_MAX), n);
}
