/* SPDX-License-Identifier: Apache-2.0
 *
 * Fails each allocation of verifying a cluster plan once: expects out of memory, never a verdict against the plan.
 */
#include "planner/cluster/cluster_verify.h"

#include "tests/support/fault.h"
#include "tests/support/least_cluster.h"

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

TEST(cluster_verify, survives_every_failing_allocation)
{
    static struct least_cluster least;
    struct ah_error err = {0};
    struct ah_arena arena = {0};
    struct ah_cluster_shortage shortage;
    struct verifying v;
    least_cluster_open(&least);
    const struct ah_cluster_request *request = &least.request;
    CHECK_OK(ah_cluster_planner_plan(request, &arena, &v.plan, &shortage, &err), err);
    v.inputs =
        (struct ah_cluster_verify_inputs){request->model, LEAST_SHA256, request->cluster, LEAST_SHA256};
    assert_true(fault_sweep(verify, &v, 0) > 20);
    ah_arena_release(&arena);
    least_cluster_close(&least);
}
