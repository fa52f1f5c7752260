/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests that more is never worse, on random pairs of instances in which one has some faster rates.
 *
 * 1. The bound never rises, not by one bit. The emitted period, which a search finds, never rises by more than 1 %.
 * 2. With more device memory, at budgets of 256 MiB doubled again and again, no period rises.
 * 3. No period is below the work of a lane, or below the bound.
 */
#include "planner/search/optimize.h"
#include "tests/property/planner/instances.h"
#include "tests/property/planner/requests.h"

#include <stdlib.h>

#define WORST 1.01

struct outcome {
    bool infeasible, found;
    double bound_us, period_us;
};

static struct outcome optimize(const struct instance *it, const struct ah_costs *costs, uint64_t device_bytes,
                               uint64_t host_bytes)
{
    struct ah_arena arena = {0};
    struct ah_error err;
    struct ah_evaluator evaluator;
    struct ah_optimize_result result;
    const struct ah_evaluator_limits limits = {
        .job = &it->job, .costs = costs, .device_bytes = device_bytes, .host_bytes = host_bytes};
    CHECK_OK(ah_evaluator_init(&evaluator, &limits, &err), err);
    const struct ah_optimize o = {.evaluator = &evaluator};
    CHECK_OK(ah_optimize_run(&o, &arena, &result, &err), err);
    struct outcome outcome = {result.infeasible, evaluator.found, result.bound_us,
                              evaluator.found ? evaluator.best.score.period_us : 0};
    for (size_t lane = 0; lane < 4 && evaluator.found; lane++)
        assert_true(evaluator.best.score.work_us[lane] <= outcome.period_us * (1 + 1e-9));
    assert_true(!evaluator.found || outcome.bound_us <= outcome.period_us);
    ah_evaluator_release(&evaluator);
    ah_arena_release(&arena);
    return outcome;
}

/* Returns the time itself, or the time at a rate up to twice as fast. */
static double faster(uint64_t *random, double time)
{
    return instance_below(random, 2) ? time : time * (0.5 + 0.5 * check_uniform(random));
}

struct costs {
    struct ah_costs costs;
    struct ah_cost_group groups[INSTANCE_GROUPS];
};

static void speed_up(const struct instance *it, uint64_t *random, struct costs *ret_faster)
{
    ret_faster->costs = it->costs;
    struct ah_costs *c = &ret_faster->costs;
    double *times[] = {&c->h2d_latency_us,       &c->h2d_us_per_byte,  &c->d2h_latency_us,
                       &c->d2h_us_per_byte,      &c->host_adam_us,     &c->host_accumulate_us,
                       &c->device_adam_us,       &c->host_squares_us,  &c->device_squares_us,
                       &c->device_accumulate_us, &c->host_us_per_byte, &c->norm_us};
    for (size_t i = 0; i < sizeof times / sizeof *times; i++)
        *times[i] = faster(random, *times[i]);
    c->groups = ret_faster->groups;
    memcpy(ret_faster->groups, it->groups, sizeof it->groups);
    double compute = faster(random, 1);
    for (size_t g = 0; g < it->job.n_groups; g++) {
        ret_faster->groups[g].forward_us *= compute;
        for (size_t way = 0; way < AH_ACTIVATIONS_WAYS; way++)
            ret_faster->groups[g].backward_us[way] *= compute;
    }
}

/* Returns device memory at fraction `share` from a lean to a lavish choice. From 0.83 on, it exceeds both needs. */
static uint64_t device_between(const struct instance *it, double share)
{
    struct ah_schedule schedule = {0};
    struct ah_error err;
    struct ah_config configs[INSTANCE_BLOCKS], all[AH_CONFIGS_MAX];
    uint64_t bytes[2];
    CHECK_OK(ah_schedule_init(&schedule, &it->job, &err), err);
    for (int lavish = 0; lavish < 2; lavish++) {
        struct ah_score score;
        for (size_t block = 0; block < it->job.n_blocks; block++) {
            size_t n = ah_configs(&it->job, ah_job_block(&it->job, block), all);
            configs[block] = all[lavish ? 0 : n - 1];
        }
        const struct ah_choice choice = {.configs = configs,
                                         .costs = &it->costs,
                                         .knobs = {.tile_elements = AH_PLAN_TILE_UNIT,
                                                   .fetch_ahead = 1,
                                                   .send_behind = 1,
                                                   .device_state_tiles = 1}};
        CHECK_OK(ah_schedule_measure(&schedule, &choice, &score, &err), err);
        bytes[lavish] = score.device.peak_bytes;
    }
    ah_schedule_release(&schedule);
    uint64_t low = bytes[0] < bytes[1] ? bytes[0] : bytes[1], high = bytes[0] + bytes[1] - low;
    return low + (uint64_t)(share * 1.2 * (double)(high - low));
}

TEST(monotone, faster_rates_are_never_slower)
{
    int pairs = (int)check_scaled(5), planned = 0, equal = 0, slower = 0;
    double worst = 1;
    uint64_t random = check_seed(20261122);
    for (int i = 0; i < pairs;) {
        struct instance it;
        struct costs other;
        if (!instance_open(&it, &random, 1 + instance_below(&random, 4)))
            continue;
        i++;
        uint64_t device = device_between(&it, check_uniform(&random)), host = UINT64_C(1) << 40;
        speed_up(&it, &random, &other);
        struct outcome slow = optimize(&it, &it.costs, device, host);
        struct outcome fast = optimize(&it, &other.costs, device, host);
        assert_int_equal(slow.infeasible, fast.infeasible);
        assert_int_equal(slow.found, fast.found);
        if (fast.bound_us > slow.bound_us)
            fail_msg("pair %d: the bound rose from %.17g to %.17g us", i, slow.bound_us, fast.bound_us);
        if (fast.period_us > slow.period_us * WORST)
            fail_msg("pair %d: the period rose from %.9g to %.9g us", i, slow.period_us, fast.period_us);
        if (slow.found && fast.period_us > slow.period_us * (1 + 1e-9))
            print_message("pair %d, %zu blocks: %.9g us, with faster rates %.9g us (%+.3f %%)\n", i,
                          it.job.n_blocks, slow.period_us, fast.period_us,
                          (fast.period_us / slow.period_us - 1) * 100);
        planned += slow.found;
        equal += slow.found && fast.period_us == slow.period_us;
        slower += slow.found && fast.period_us > slow.period_us * (1 + 1e-9);
        if (slow.found && fast.period_us / slow.period_us > worst)
            worst = fast.period_us / slow.period_us;
        instance_close(&it);
    }
    print_message("%d pairs planned, %d equal, %d slower, by at most %.3f %%\n", planned, equal, slower,
                  (worst - 1) * 100);
    assert_true(planned > pairs / 2 && equal <= planned / 2);
}

TEST(monotone, more_device_memory_is_never_slower)
{
    static const struct {
        const char *model, *machine;
        uint64_t layers;
    } cases[] = {
        {"gpt2-124m", "rtx4090-64g", 12}, {"gpt2-355m", "a100-40g-epyc7713", 6}, {"tiny", "rtx4090-64g", 6}};
    for (size_t i = 0; i < check_scaled(sizeof cases / sizeof *cases); i++) {
        double before = 0;
        size_t planned = 0;
        for (uint64_t device = 256 * TEST_MIB; device <= 16 * TEST_GIB; device *= 2) {
            struct test_request t;
            test_request_open(&t, cases[i].model, cases[i].machine);
            t.model.body.model->layers = cases[i].layers;
            t.request.device_bytes = device;
            t.request.effort = 0;
            if (device <= t.request.machine->device.reserve_bytes) {
                test_request_close(&t);
                continue;
            }
            int rc = test_request_plan(&t);
            if (before > 0 && rc)
                fail_msg("%s: no plan with %llu bytes", cases[i].model, (unsigned long long)device);
            if (before > 0 && t.plan.time.step_us > before * (1 + 1e-9))
                fail_msg("%s: %g us with %llu bytes, %g us with half of them", cases[i].model,
                         t.plan.time.step_us, (unsigned long long)device, before);
            before = rc ? before : t.plan.time.step_us;
            planned += !rc;
            test_request_close(&t);
        }
        assert_true(planned >= 4);
    }
}
