/* SPDX-License-Identifier: Apache-2.0
 *
 * A plan that is made again from its inputs: every allocation fails once, and nothing else is said of the plan.
 */
#include "planner/cluster/cluster_verify.h"

#include "planner/cluster/cluster_planner.h"
#include "schemas/document.h"
#include "tests/support/check.h"
#include "tests/support/fault.h"

#define SHA256 "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

struct verifying {
    struct ah_cluster_plan plan;
    struct ah_cluster_verify_inputs inputs;
};

static int verify(void *context, struct ah_error *err)
{
    const struct verifying *v = context;
    int rc = ah_cluster_verify(&v->plan, &v->inputs, err);
    assert_true(rc == AH_OK || rc == AH_E_MEMORY);
    return rc;
}

static void test_cluster_verify__survives_every_failing_allocation(void **state)
{
    struct ah_document model, cluster;
    struct ah_error err = {0};
    struct ah_arena arena = {0};
    struct ah_cluster_shortage shortage;
    struct verifying v;
    const char *patterns[] = {"*"};
    (void)state;
    CHECK_OK(ah_document_load(&model, "tests/cli/documents/model-least.json", AH_DOCUMENT_MODEL, &err), err);
    CHECK_OK(
        ah_document_load(&cluster, "examples/clusters/desktops-4090-3090.json", AH_DOCUMENT_CLUSTER, &err),
        err);
    const struct ah_cluster_request request = {
        .model = model.body.model,
        .model_sha256 = SHA256,
        .cluster = cluster.body.cluster,
        .cluster_sha256 = SHA256,
        .training = {.batch = 2, .micro_batches = 2, .seq = 8, .trainable = patterns, .n_trainable = 1},
        .effort = 1,
        .generator = "test"};
    CHECK_OK(ah_cluster_planner_plan(&request, &arena, &v.plan, &shortage, &err), err);
    v.inputs = (struct ah_cluster_verify_inputs){model.body.model, SHA256, cluster.body.cluster, SHA256};
    assert_true(fault_sweep(verify, &v, 0) > 20);
    ah_arena_release(&arena);
    ah_document_release(&cluster);
    ah_document_release(&model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cluster_verify__survives_every_failing_allocation)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
