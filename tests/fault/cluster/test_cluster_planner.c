/* SPDX-License-Identifier: Apache-2.0
 *
 * Fails each allocation of cluster planning once: expects no leak, and an error or the same plan. The same plan is
 * possible because the planner works even if it cannot store fitted stages.
 */
#include "tests/support/fault.h"
#include "tests/support/least_cluster.h"

struct sweep {
    struct ah_cluster_request request;
    double step_us; /* the plan's step time; 0: not known yet */
};

static int plan(void *context, struct ah_error *err)
{
    struct sweep *sweep = context;
    struct ah_arena arena = {0};
    struct ah_cluster_plan plan;
    struct ah_cluster_shortage shortage;
    int rc = ah_cluster_planner_plan(&sweep->request, &arena, &plan, &shortage, err);
    if (!rc && sweep->step_us > 0)
        check_near(plan.predicted.step_us, sweep->step_us, 0);
    if (!rc)
        sweep->step_us = plan.predicted.step_us;
    ah_arena_release(&arena);
    return rc;
}

TEST(cluster_planner, survives_every_failing_allocation)
{
    static struct least_cluster least;
    struct ah_error err = {0};
    least_cluster_open(&least);
    struct sweep sweep = {.request = least.request};
    CHECK_OK(plan(&sweep, &err), err);
    assert_true(fault_sweep(plan, &sweep, 1) > 50);
    least_cluster_close(&least);
}
