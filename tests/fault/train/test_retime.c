/* SPDX-License-Identifier: Apache-2.0
 *
 * Retiming survives each allocation's failure, and so does the run.
 */
#include "tests/golden/train/case.h"
#include "tests/support/fault.h"

static struct golden golden;

struct retiming {
    struct ah_trainer *trainer;
    double op_us[4096];
};

static int retime(void *context, struct ah_error *err)
{
    struct retiming *retiming = context;
    struct ah_trainer_retimed retimed;
    int rc = ah_trainer_retime(retiming->trainer, retiming->op_us, &retimed, err);
    struct ah_error of_run = {0};
    CHECK_OK(ah_trainer_run(retiming->trainer, 1, NULL, &of_run), of_run);
    return rc;
}

/* Whatever failed, the trainer goes on. */
TEST(retime, survives_failed_allocations)
{
    static struct retiming retiming;
    uint64_t seed = check_seed(37);
    struct ah_error err = {0};
    golden_open(&golden, "llama", AH_FP32);
    golden_plan_random(&golden, &seed);
    CHECK_OK(ah_trainer_open(&retiming.trainer, &golden.options, &err), err);
    assert_true(golden.options.plan->n_ops <= 4096);
    for (size_t op = 0; op < golden.options.plan->n_ops; op++)
        retiming.op_us[op] = golden.options.plan->ops[op].us * 3 * check_uniform(&seed);
    fault_sweep(retime, &retiming, 1);
    ah_trainer_close(retiming.trainer);
    golden_close(&golden);
}
