/* SPDX-License-Identifier: Apache-2.0
 *
 * Fails each allocation of plan verification once.
 */
#include "planner/verify.h"
#include "tests/property/planner/requests.h"
#include "tests/support/fault.h"

static int verify_inputs(void *context, struct ah_error *err)
{
    const struct test_request *t = context;
    const struct ah_verify_inputs inputs = {.model = t->request.model,
                                            .model_sha256 = test_sha256,
                                            .machine = t->request.machine,
                                            .machine_sha256 = test_sha256};
    return ah_verify_inputs(&t->plan, &inputs, err);
}

static int verify_policy(void *context, struct ah_error *err)
{
    const struct test_request *t = context;
    return ah_verify_policy(&t->plan, err);
}

TEST(verify, without_memory)
{
    struct test_request t;
    test_request_open(&t, "tiny", "rtx4090-64g");
    t.request.training.seq = 64;
    t.request.policy = AH_POLICY_ZERO_OFFLOAD;
    CHECK_OK(test_request_plan(&t), t.err);
    assert_true(fault_sweep(verify_inputs, &t, 0) > 20);
    assert_true(fault_sweep(verify_policy, &t, 0) >= 1);
    test_request_close(&t);
}
