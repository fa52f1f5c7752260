/* SPDX-License-Identifier: Apache-2.0
 *
 * Every allocation of the bound by grouping fails once: an error or no proof, no leak.
 */
#include "planner/cluster/certificate.h"
#include "tests/property/cluster/instances.h"
#include "tests/support/fault.h"

static int raise_bound(void *context, struct ah_error *err)
{
    struct ah_setting setting = {.instance = *(const struct ah_instance *)context, .bound_us = 1};
    return ah_certificate_raise(&setting, 1, 1e4, 20000, err);
}

static void test_grouping__survives_every_failing_allocation(void **state)
{
    struct case_instance c;
    uint64_t random = 0x853c49e6748fea9b;
    (void)state;
    draw_instance(&c, &random, 7, MOST_UNITS, 9);
    assert_true(fault_sweep(raise_bound, &c.instance, 0) > 8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_grouping__survives_every_failing_allocation)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
