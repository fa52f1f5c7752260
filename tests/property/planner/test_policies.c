/* SPDX-License-Identifier: Apache-2.0
 *
 * Compares each policy's search with the policy's whole family, under one simulator.
 *
 * 1. Small models: within 0.5 % of the best setting with any order of the policy; it finds nothing only if no setting
 *    fits.
 * 2. 24 blocks: within 0.5 % of the best setting with the orders that the plan has.
 * 3. `optimal` is never slower than any of them: the paper's family of three numbers is tried whole over 24 blocks.
 */
#include "planner/planner_internal.h"
#include "planner/policies/policies.h"
#include "tests/property/planner/requests.h"

#include <stdlib.h>

struct family {
    const struct ah_planning *planning;
    enum ah_policy policy;
    struct ah_schedule schedule;
    struct ah_config *configs;
    struct ah_knobs knobs;
    double best_us; /* 0: nothing fits */
    size_t fitting;
    struct ah_error err;
};

static void try_setting(struct family *f, const uint32_t numbers[AH_PLAN_POLICY_NUMBERS])
{
    const struct ah_evaluator_limits *limits = &f->planning->splits[0].evaluator.limits;
    struct ah_choice choice = {.configs = f->configs, .knobs = f->knobs, .costs = limits->costs};
    struct ah_score score;
    if (!ah_policies_configs(limits->job, f->policy, numbers, f->configs))
        return;
    int rc = ah_schedule_evaluate(&f->schedule, &choice, &score, &f->err);
    if (rc == AH_E_FAILED)
        return;
    CHECK_OK(rc, f->err);
    if (score.device.peak_bytes > limits->device_bytes ||
        score.pinned_bytes + score.pageable_bytes > limits->host_bytes)
        return;
    f->fitting++;
    if (!f->best_us || score.period_us < f->best_us)
        f->best_us = score.period_us;
}

static void try_family(struct family *f)
{
    uint32_t sizes[AH_PLAN_POLICY_NUMBERS], at[AH_PLAN_POLICY_NUMBERS];
    ah_policies_sizes(&f->planning->job, f->policy, sizes);
    for (at[0] = 0; at[0] < sizes[0]; at[0]++)
        for (at[1] = 0; at[1] < sizes[1]; at[1]++)
            for (at[2] = 0; at[2] < sizes[2]; at[2]++)
                try_setting(f, at);
}

static void open_family(struct family *f, const struct ah_planning *planning, enum ah_policy policy)
{
    *f = (struct family){.planning = planning, .policy = policy};
    f->configs = calloc(planning->job.n_blocks, sizeof *f->configs);
    assert_non_null(f->configs);
    CHECK_OK(ah_schedule_init(&f->schedule, &planning->job, &f->err), f->err);
}

static void close_family(struct family *f)
{
    free(f->configs);
    ah_schedule_release(&f->schedule);
}

/* Returns the best period over all orders or, if `knobs` is given, with these knobs only. Returns 0 if nothing fits. */
static double best_of_family(const struct ah_planning *planning, enum ah_policy policy,
                             const struct ah_knobs *knobs, size_t *ret_fitting)
{
    struct family f;
    open_family(&f, planning, policy);
    if (knobs) {
        f.knobs = *knobs;
        try_family(&f);
    } else {
        for (size_t i = 0; ah_policies_knobs(&planning->job, policy, AH_SCHEDULING_PRIORITY, i, &f.knobs);
             i++)
            try_family(&f);
    }
    close_family(&f);
    *ret_fitting = f.fitting;
    return f.best_us;
}

struct request {
    const char *model, *machine;
    uint64_t layers, device_mib, host_mib, batch, micro_batches, seq;
};

static void open_request(struct test_request *t, const struct request *r, enum ah_policy policy)
{
    test_request_open(t, r->model, r->machine);
    t->model.body.model->layers = r->layers;
    t->request.policy = policy;
    t->request.device_bytes = r->device_mib * TEST_MIB;
    t->request.host_bytes = r->host_mib * TEST_MIB;
    t->request.training.batch = r->batch;
    t->request.training.micro_batches = r->micro_batches;
    t->request.training.seq = r->seq;
}

static void check_policy(const struct request *r, enum ah_policy policy, bool all_orders, double optimal_us)
{
    struct test_request t;
    struct ah_planning planning;
    size_t fitting = 0;
    open_request(&t, r, policy);
    CHECK_OK(ah_planning_init(&planning, &t.request, &t.arena, &t.err), t.err);
    CHECK_OK(ah_planning_solve(&planning, &t.err), t.err);
    const struct ah_evaluator *evaluator = &planning.splits[0].evaluator;
    double best = best_of_family(&planning, policy,
                                 all_orders || !evaluator->found ? NULL : &evaluator->best.knobs, &fitting);
    if (getenv("AH_TEST_VERBOSE"))
        printf("%s %s: %zu fit, best %g, found %g, optimal %g\n", r->model, ah_words_policy[policy], fitting,
               best, evaluator->found ? evaluator->best.score.period_us : 0, optimal_us);
    if (evaluator->found != (best > 0))
        fail_msg("%s, %s: %s, though %zu settings fit", r->model, ah_words_policy[policy],
                 evaluator->found ? "a plan" : "no plan", fitting);
    if (!evaluator->found) { /* if so, the rest of the family has no plan */
        CHECK_OK(ah_planning_exhaust(&planning, &t.err), t.err);
        assert_true(planning.exhausted && !planning.winner);
    }
    if (evaluator->found && evaluator->best.score.period_us > best * 1.005)
        fail_msg("%s, %s: %g us were found, %g us are there", r->model, ah_words_policy[policy],
                 evaluator->best.score.period_us, best);
    if (best > 0 && (optimal_us <= 0 || optimal_us > best * (1 + 1e-9)))
        fail_msg("%s: optimal takes %g us, %s %g us", r->model, optimal_us, ah_words_policy[policy], best);
    ah_planning_release(&planning);
    test_request_close(&t);
}

static double optimal_period(const struct request *r)
{
    struct test_request t;
    open_request(&t, r, AH_POLICY_OPTIMAL);
    t.request.effort = 0;
    int rc = test_request_plan(&t);
    double us = rc ? 0 : t.plan.time.step_us;
    test_request_close(&t);
    return us;
}

static void check_request(const struct request *r, bool all_orders)
{
    double optimal_us = optimal_period(r);
    for (int policy = 0; policy < AH_POLICY_OPTIMAL; policy++)
        check_policy(r, (enum ah_policy)policy, all_orders, optimal_us);
}

TEST(policies, find_the_best_of_small_families)
{
    static const struct request requests[] = {
        {"tiny", "rtx4090-64g", 3, 0, 0, 2, 1, 128},
        {"tiny", "rtx4090-64g", 3, 510, 0, 2, 1, 128},
        {"tiny", "a100-40g-epyc7713", 4, 620, 8, 4, 2, 256},
        {"gpt2-124m", "h200-16c-128g", 2, 1500, 0, 4, 1, 256},
        {"gpt2-124m", "rtx4090-64g", 3, 1400, 700, 4, 4, 512},
        {"tiny", "rtx4090-64g", 3, 501, 0, 2, 1, 64},
    };
    for (size_t i = 0; i < check_scaled(sizeof requests / sizeof *requests); i++)
        check_request(&requests[i], true);
}

TEST(policies, find_the_best_of_24_blocks)
{
    static const struct request requests[] = {
        {"gpt-4b", "a100-40g-epyc7713", 22, 0, 0, 8, 1, 1024},
        {"gpt2-355m", "rtx4090-64g", 22, 5000, 0, 8, 1, 1024},
        {"gpt-10b", "a100-40g-epyc7713", 22, 0, 0, 8, 1, 1024},
    };
    for (size_t i = 0; i < check_scaled(sizeof requests / sizeof *requests); i++)
        check_request(&requests[i], false);
}
