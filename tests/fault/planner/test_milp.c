/* SPDX-License-Identifier: Apache-2.0
 *
 * Fails each allocation of pricing and of the bound once: expects an error and no leak.
 */
#include "planner/bound/milp.h"
#include "planner/cost/pricing.h"
#include "tests/property/schedule/jobs.h"
#include "tests/support/documents.h"
#include "tests/support/fault.h"

struct setting {
    struct test_job job;
    struct ah_document machine;
    uint64_t device_bytes;
};

static int price_and_solve(void *context, struct ah_error *err)
{
    const struct setting *s = context;
    struct ah_arena arena = {0};
    struct ah_costs costs;
    struct ah_milp_result result;
    int rc = ah_pricing_fill(s->machine.body.machine, &s->job.job, NULL, &arena, &costs, err);
    struct ah_milp_input input = {.job = &s->job.job,
                                  .costs = &costs,
                                  .device_bytes = s->device_bytes,
                                  .host_bytes = UINT64_C(64) << 30};
    rc = rc ? rc : ah_milp_solve(&input, &arena, &result, err);
    ah_arena_release(&arena);
    return rc;
}

static int weigh(void *context, struct ah_error *err)
{
    const struct setting *s = context;
    struct ah_arena arena = {0};
    struct ah_costs costs;
    struct ah_config configs[32], all[AH_CONFIGS_MAX];
    struct ah_milp_needs needs;
    for (size_t block = 0; block < s->job.job.n_blocks; block++) {
        ah_configs(&s->job.job, ah_job_block(&s->job.job, block), all);
        configs[block] = all[0];
    }
    int rc = ah_pricing_fill(s->machine.body.machine, &s->job.job, NULL, &arena, &costs, err);
    struct ah_milp_input input = {.job = &s->job.job, .costs = &costs};
    rc = rc ? rc : ah_milp_needs(&input, configs, &needs, err);
    ah_arena_release(&arena);
    return rc;
}

static void open_setting(struct setting *s, const char *model)
{
    memset(s, 0, sizeof *s);
    load_document(&s->machine, "examples/machines/rtx4090-64g.json", AH_DOCUMENT_MACHINE);
    test_job_open(&s->job, model,
                  (struct ah_plan_training){
                      .batch = 8, .micro_batches = 1, .seq = 256, .dtype = AH_BF16, .state_dtype = AH_FP32});
}

static void close_setting(struct setting *s)
{
    test_job_close(&s->job);
    ah_document_release(&s->machine);
}

TEST(milp, survives_every_failing_allocation)
{
    static const char *const models[] = {"tiny", "gpt2-124m"}; /* solved exactly; solved as a relaxation */
    for (size_t i = 0; i < 2; i++) {
        struct setting s;
        open_setting(&s, models[i]);
        s.device_bytes = UINT64_C(2) << 30;
        assert_true(fault_sweep(price_and_solve, &s, 0) > 0);
        s.device_bytes = 1000; /* too few bytes for any choice */
        assert_true(fault_sweep(price_and_solve, &s, 0) > 0);
        assert_true(fault_sweep(weigh, &s, 0) > 0);
        close_setting(&s);
    }
}
