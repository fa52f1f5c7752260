/* SPDX-License-Identifier: Apache-2.0
 *
 * Fails each allocation of a plan, a comparison and a diagnosis once.
 */
#include "tests/property/planner/requests.h"
#include "tests/support/fault.h"

struct sweep {
    struct test_request t;
    int (*plan)(const struct sweep *sweep, struct ah_arena *arena, struct ah_error *err);
};

static int plan(const struct sweep *sweep, struct ah_arena *arena, struct ah_error *err)
{
    struct ah_plan ignored;
    struct ah_diagnosis diagnosis;
    int rc = ah_planner_plan(&sweep->t.request, arena, &ignored, &diagnosis, err);
    return rc == AH_E_INFEASIBLE || rc == AH_E_NO_PLAN ? AH_OK : rc;
}

static int compare(const struct sweep *sweep, struct ah_arena *arena, struct ah_error *err)
{
    struct ah_comparison rows[AH_POLICIES];
    return ah_planner_compare(&sweep->t.request, arena, rows, err);
}

static int run(void *context, struct ah_error *err)
{
    const struct sweep *sweep = context;
    struct ah_arena arena = {0};
    int rc = sweep->plan(sweep, &arena, err);
    ah_arena_release(&arena);
    if (rc)
        assert_int_equal(rc, AH_E_MEMORY);
    return rc;
}

static void open_sweep(struct sweep *sweep, uint64_t layers)
{
    test_request_open(&sweep->t, "tiny", "rtx4090-64g");
    sweep->t.model.body.model->layers = layers;
    sweep->t.request.training.batch = 2;
    sweep->t.request.training.seq = 64;
    sweep->t.request.effort = AH_EFFORT_QUICK;
}

TEST(planner, plans)
{
    struct sweep sweep = {.plan = plan};
    open_sweep(&sweep, 1);
    assert_true(fault_sweep(run, &sweep, 0) > 50);
    test_request_close(&sweep.t);
}

TEST(planner, compares)
{
    struct sweep sweep = {.plan = compare};
    open_sweep(&sweep, 1);
    assert_true(fault_sweep(run, &sweep, 0) > 100);
    test_request_close(&sweep.t);
}

TEST(planner, diagnoses)
{
    struct sweep sweep = {.plan = plan};
    open_sweep(&sweep, 1);
    sweep.t.request.device_bytes = sweep.t.request.machine->device.reserve_bytes + TEST_MIB;
    sweep.t.request.policy = AH_POLICY_STREAM; /* has few settings; a diagnosis makes many plans */
    assert_true(fault_sweep(run, &sweep, 0) > 100);
    test_request_close(&sweep.t);
}
