/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/device/cpu/placement.h"

#include "base/threads.h"
#include "tests/support/check.h"

static const int cpus[16] = {10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25};

/* The table of placement.h, and what was asked for. */
static void test_placement__follows_its_table(void **state)
{
    static const struct {
        unsigned n_cpus, n_cores, compute, host;
        unsigned n_compute, n_host, n_copy;
        int first_host, first_copy;
    } rows[] = {
        {1, 1, 0, 0, 1, 1, 1, 10, 10},    {2, 2, 0, 0, 1, 1, 1, 11, 11},   {4, 4, 0, 0, 3, 1, 1, 13, 13},
        {16, 16, 0, 0, 12, 4, 4, 22, 22}, {16, 8, 0, 0, 6, 2, 10, 16, 16}, {2, 2, 2, 0, 2, 1, 2, 10, 10},
        {2, 2, 1, 2, 1, 2, 1, 11, 11},    {4, 4, 2, 0, 2, 2, 2, 12, 12},   {2, 2, 3, 3, 3, 3, 2, -1, 10},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct ah_placement placement;
        ah_placement_choose(&placement, cpus, rows[i].n_cpus, rows[i].n_cores, rows[i].compute, rows[i].host);
        assert_int_equal(placement.n_compute, rows[i].n_compute);
        assert_int_equal(placement.n_host, rows[i].n_host);
        assert_int_equal(placement.n_copy, rows[i].n_copy);
        assert_int_equal(placement.host[0], rows[i].first_host);
        assert_int_equal(placement.copy[0], rows[i].first_copy);
        assert_int_equal(placement.compute[0], rows[i].n_compute > rows[i].n_cpus ? -1 : 10);
    }
}

static void test_placement__never_shares_compute_cores_by_default(void **state)
{
    struct ah_placement placement;
    (void)state;
    for (unsigned n = 2; n <= 16; n++) {
        ah_placement_choose(&placement, cpus, n, n, 0, 0);
        for (unsigned i = 0; i < placement.n_compute; i++) {
            for (unsigned j = 0; j < placement.n_host; j++)
                assert_int_not_equal(placement.compute[i], placement.host[j]);
            for (unsigned j = 0; j < placement.n_copy; j++)
                assert_int_not_equal(placement.compute[i], placement.copy[j]);
        }
    }
}

static void test_placement__undoes_its_mask(void **state)
{
    unsigned before[AH_PLACEMENT_MAX];
    unsigned inside[AH_PLACEMENT_MAX];
    unsigned n = ah_threads_cpus(before, AH_PLACEMENT_MAX);
    struct ah_placement placement = {.n_copy = 1, .copy = {(int)before[n - 1]}};
    struct ah_placement_mask mask;
    (void)state;
    ah_placement_enter_copy(&placement, &mask);
    assert_int_equal(ah_threads_cpus(inside, AH_PLACEMENT_MAX), 1);
    assert_int_equal(inside[0], before[n - 1]);
    ah_placement_leave_copy(&mask);
    assert_int_equal(ah_threads_cpus(inside, AH_PLACEMENT_MAX), n);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_placement__follows_its_table),
        cmocka_unit_test(test_placement__never_shares_compute_cores_by_default),
        cmocka_unit_test(test_placement__undoes_its_mask),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
