/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests that no training step allocates, and fails each allocation of opening a trainer once.
 */
#include "tests/golden/train/case.h"
#include "tests/support/fault.h"

static struct golden golden;

TEST(trainer, allocates_nothing_in_its_loop)
{
    uint64_t seed = check_seed(23);
    golden_open(&golden, "gpt2-untied-odd", AH_BF16);
    for (int plan = 0; plan < 8; plan++) {
        struct ah_error err = {0};
        struct ah_trainer *trainer;
        golden_plan_random(&golden, &seed);
        CHECK_OK(ah_trainer_open(&trainer, &golden.options, &err), err);
        assert_true(fault_count() > 0); /* opening allocates, so the counter works */
        CHECK_OK(ah_trainer_run(trainer, 5, NULL, &err), err);
        CHECK_OK(ah_trainer_run(trainer, 2, NULL, &err), err);
        assert_int_equal(fault_count(), 0);
        ah_trainer_close(trainer);
    }
    golden_close(&golden);
}

static int open_and_close(void *context, struct ah_error *err)
{
    struct golden *g = context;
    struct ah_trainer *trainer;
    int rc = ah_trainer_open(&trainer, &g->options, err);
    if (!rc)
        ah_trainer_close(trainer);
    return rc;
}

TEST(trainer, survives_failed_allocations)
{
    uint64_t seed = check_seed(29);
    golden_open(&golden, "qwen2", AH_FP32);
    golden_plan_random(&golden, &seed);
    fault_sweep(open_and_close, &golden, 1);
    golden_close(&golden);
}
