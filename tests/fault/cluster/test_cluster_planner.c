/* SPDX-License-Identifier: Apache-2.0
 *
 * Every allocation of a cluster plan fails once: an error, or the same plan, as there need not be memory to remember how
 * stages were fitted; no leak.
 */
#include "planner/cluster/cluster_planner.h"

#include "schemas/document.h"
#include "tests/support/check.h"
#include "tests/support/fault.h"

struct sweep {
    struct ah_cluster_request request;
    double step_us; /* of the plan; 0: not known yet */
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

static void test_cluster_planner__survives_every_failing_allocation(void **state)
{
    struct ah_document model, cluster;
    struct ah_error err = {0};
    const char *patterns[] = {"*"};
    (void)state;
    CHECK_OK(ah_document_load(&model, "tests/cli/documents/model-least.json", AH_DOCUMENT_MODEL, &err), err);
    CHECK_OK(
        ah_document_load(&cluster, "examples/clusters/desktops-4090-3090.json", AH_DOCUMENT_CLUSTER, &err),
        err);
    struct sweep sweep = {
        .request = {
            .model = model.body.model,
            .model_sha256 = "m",
            .cluster = cluster.body.cluster,
            .cluster_sha256 = "c",
            .training = {.batch = 2, .micro_batches = 2, .seq = 8, .trainable = patterns, .n_trainable = 1},
            .effort = 1,
            .generator = "test"}};
    CHECK_OK(plan(&sweep, &err), err);
    assert_true(fault_sweep(plan, &sweep, 1) > 50);
    ah_document_release(&cluster);
    ah_document_release(&model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cluster_planner__survives_every_failing_allocation)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
