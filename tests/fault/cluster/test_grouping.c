/* SPDX-License-Identifier: Apache-2.0
 *
 * Fails each allocation of the grouping bound once: expects an error or the same bound, and no leak.
 */
#include "planner/cluster/bound/bound_raise.h"
#include "tests/property/cluster/problems.h"
#include "tests/support/fault.h"

struct sweep {
    struct ah_cluster_problem problem;
    double bound_us; /* 0: not known yet */
};

static int raise_bound(void *context, struct ah_error *err)
{
    struct sweep *sweep = context;
    struct ah_setting setting = {.problem = sweep->problem, .bound_us = 1};
    int rc = ah_bound_raise(&setting, 1, 1e4, 20000, err);
    if (!rc && sweep->bound_us > 0)
        check_near(setting.bound_us, sweep->bound_us, 0);
    if (!rc)
        sweep->bound_us = setting.bound_us;
    return rc;
}

TEST(grouping, survives_every_failing_allocation)
{
    struct case_problem c;
    uint64_t random = 0x853c49e6748fea9b;
    draw_problem(&c, &random, 7, MOST_UNITS, 9);
    struct sweep sweep = {.problem = c.problem};
    struct ah_error err = {0};
    CHECK_OK(raise_bound(&sweep, &err), err);
    assert_true(sweep.bound_us > 1 && fault_sweep(raise_bound, &sweep, 1) > 8);
}
