/* SPDX-License-Identifier: Apache-2.0
 *
 * No step by priorities at run time allocates; opening and retiming survive each allocation's failure.
 */
#include "tests/golden/train/case.h"
#include "tests/support/fault.h"

static struct golden golden;

static void plan_dynamic(struct golden *g, uint64_t *seed)
{
    golden_plan_random(g, seed);
    g->plan.body.plan->scheduling = AH_SCHEDULING_DYNAMIC;
}

static void test_dynamic__allocates_nothing_in_its_loop(void **state)
{
    uint64_t seed = check_seed(23);
    (void)state;
    golden_open(&golden, "gpt2-untied-odd", AH_BF16);
    for (int plan = 0; plan < 8; plan++) {
        struct ah_error err = {0};
        struct ah_trainer *trainer;
        plan_dynamic(&golden, &seed);
        CHECK_OK(ah_trainer_open(&trainer, &golden.options, &err), err);
        assert_true(fault_count() > 0); /* opening does: the count works */
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

static void test_dynamic__survives_failed_allocations(void **state)
{
    uint64_t seed = check_seed(31);
    (void)state;
    golden_open(&golden, "qwen2", AH_FP32);
    plan_dynamic(&golden, &seed);
    fault_sweep(open_and_close, &golden, 1);
    golden_close(&golden);
}

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
static void test_dynamic__retiming_survives_failed_allocations(void **state)
{
    static struct retiming retiming;
    uint64_t seed = check_seed(37);
    struct ah_error err = {0};
    (void)state;
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dynamic__allocates_nothing_in_its_loop),
        cmocka_unit_test(test_dynamic__survives_failed_allocations),
        cmocka_unit_test(test_dynamic__retiming_survives_failed_allocations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
