/* SPDX-License-Identifier: Apache-2.0
 *
 * Adapters beside a base that does not fit: the plan is at least as fast as the best of a sweep by hand, as people do
 * it where a system has a number of resident layers. The sweep tries every number of layers whose weights stay on the
 * device, the first or the last ones, with every way to treat activations in all layers, three distances of fetching
 * ahead, embedding and head here or there, under the simulator that timed the plan.
 *
 * Where each fetch serves twice the tokens that hide it (rate / bandwidth), a base that is all streamed takes at most a
 * twentieth more time than one that is all resident, with the same recomputation.
 */
#include "planner/planner_internal.h"
#include "tests/property/planner/requests.h"

#include <math.h>
#include <stdlib.h>

struct request {
    const char *model, *machine;
    uint64_t layers, device_mib, batch, micro_batches, seq, rank;
    bool only_attention;
};

static unsigned everything[] = {AH_LORA_Q,    AH_LORA_K,  AH_LORA_V,   AH_LORA_OUTPUT,
                                AH_LORA_GATE, AH_LORA_UP, AH_LORA_DOWN};
static unsigned fused[] = {AH_LORA_QKV, AH_LORA_OUTPUT, AH_LORA_UP, AH_LORA_DOWN};
static const char *trained[] = {"*.lora_*"};

static void open_request(struct test_request *t, const struct request *r, struct ah_model_lora *lora)
{
    test_request_open(t, r->model, r->machine);
    const bool gpt2 = t->model.body.model->family == AH_FAMILY_GPT2;
    *lora = (struct ah_model_lora){.rank = r->rank,
                                   .alpha = 2 * (double)r->rank,
                                   .on = gpt2 ? fused : everything,
                                   .n_on = gpt2                ? 4
                                           : r->only_attention ? 3
                                                               : 7};
    t->model.body.model->layers = r->layers;
    t->model.body.model->lora = lora;
    t->request.device_bytes = r->device_mib * TEST_MIB;
    t->request.host_bytes = 192 * TEST_GIB;
    t->request.effort = 0;
    t->request.training.batch = r->batch;
    t->request.training.micro_batches = r->micro_batches;
    t->request.training.seq = r->seq;
    t->request.training.trainable = trained;
    t->request.training.n_trainable = 1;
}

struct sweep {
    const struct ah_planning *planning;
    struct ah_schedule schedule;
    struct ah_config *configs;
    double best_us; /* 0: nothing fits */
    uint64_t best_resident, fitting;
};

/* One setting: `resident` layers, from the first or the last on. */
struct setting {
    uint64_t resident;
    bool first, ends_here;
    enum ah_activations activations;
    uint32_t ahead;
};

static void set_configs(struct sweep *sweep, const struct setting *setting)
{
    const struct ah_job *job = &sweep->planning->job;
    const uint64_t layers = job->n_blocks - 2;
    for (uint64_t block = 0; block < job->n_blocks; block++) {
        const bool layer = block && block <= layers;
        const uint64_t number = setting->first ? block - 1 : layers - block;
        const bool here = layer ? number < setting->resident : setting->ends_here;
        sweep->configs[block] = (struct ah_config){
            .activations = (uint8_t)(layer ? setting->activations : AH_ACTIVATIONS_KEEP),
            .weights = here ? AH_WEIGHTS_DEVICE : AH_WEIGHTS_HOST,
            .optimizer = !layer ? AH_OPTIMIZER_NONE
                         : here ? AH_OPTIMIZER_DEVICE
                                : AH_OPTIMIZER_HOST,
            .accumulator =
                !layer || job->training.micro_batches == 1 ? AH_ACCUMULATOR_NONE : AH_ACCUMULATOR_DEVICE};
    }
}

static void try_setting(struct sweep *sweep, const struct setting *setting)
{
    const struct ah_evaluator *evaluator = &sweep->planning->splits[0].evaluator;
    const struct ah_evaluator_limits *limits = &evaluator->limits;
    struct ah_choice choice = {.configs = sweep->configs,
                               .knobs = sweep->planning->winner->evaluator.best.knobs,
                               .costs = limits->costs};
    struct ah_score score;
    struct ah_error err = {0};
    set_configs(sweep, setting);
    choice.knobs.fetch_ahead = setting->ahead;
    int rc = ah_schedule_evaluate(&sweep->schedule, &choice, &score, &err);
    if (rc == AH_E_FAILED)
        return;
    CHECK_OK(rc, err);
    if (score.device.peak_bytes > limits->device_bytes ||
        score.pinned_bytes + score.pageable_bytes > limits->host_bytes)
        return;
    sweep->fitting++;
    if (sweep->best_us > 0 && score.period_us >= sweep->best_us)
        return;
    sweep->best_us = score.period_us;
    sweep->best_resident = setting->resident;
}

static void sweep_all(struct sweep *sweep)
{
    static const uint32_t ahead[] = {1, 2, 4};
    const uint64_t layers = sweep->planning->job.n_blocks - 2;
    struct setting setting;
    for (setting.resident = 0; setting.resident <= layers; setting.resident++)
        for (int where = 0; where < 4; where++)
            for (int way = 0; way < AH_ACTIVATIONS_WAYS; way++)
                for (size_t i = 0; i < 3; i++) {
                    setting.first = where & 1;
                    setting.ends_here = where & 2;
                    setting.activations = (enum ah_activations)way;
                    setting.ahead = ahead[i];
                    try_setting(sweep, &setting);
                }
}

static void open_sweep(struct sweep *sweep, struct ah_planning *planning, struct test_request *t)
{
    CHECK_OK(ah_planning_init(planning, &t->request, &t->arena, &t->err), t->err);
    CHECK_OK(ah_planning_solve(planning, &t->err), t->err);
    assert_non_null(planning->winner);
    *sweep = (struct sweep){.planning = planning,
                            .configs = calloc(planning->job.n_blocks, sizeof *sweep->configs)};
    assert_non_null(sweep->configs);
    CHECK_OK(ah_schedule_init(&sweep->schedule, &planning->job, &t->err), t->err);
}

static void close_sweep(struct sweep *sweep, struct ah_planning *planning, struct test_request *t)
{
    ah_schedule_release(&sweep->schedule);
    free(sweep->configs);
    ah_planning_release(planning);
    test_request_close(t);
}

static void check_request(const struct request *r)
{
    struct test_request t;
    struct ah_planning planning;
    struct ah_model_lora lora;
    struct sweep sweep;
    open_request(&t, r, &lora);
    open_sweep(&sweep, &planning, &t);
    sweep_all(&sweep);
    const double found_us = planning.winner->evaluator.best.score.period_us;
    print_message("%s on %s, %llu MiB: plan %.4g s, best of %llu settings that fit %.4g s (%llu resident)\n",
                  r->model, r->machine, (unsigned long long)r->device_mib, found_us / 1e6,
                  (unsigned long long)sweep.fitting, sweep.best_us / 1e6,
                  (unsigned long long)sweep.best_resident);
    if (sweep.best_us > 0 && found_us > sweep.best_us * 1.001)
        fail_msg("the sweep is faster: %g us, the plan %g us", sweep.best_us, found_us);
    close_sweep(&sweep, &planning, &t);
}

TEST(residency, is_no_slower_than_a_sweep_by_hand)
{
    static const struct request requests[] = {
        {"llama-2-70b", "rtx4090-64g", 80, 24000, 4, 2, 2048, 16, false},
        {"llama-3-8b", "rtx4090-64g", 32, 12000, 4, 1, 2048, 16, false},
        {"llama-2-13b", "a100-40g-epyc7713", 40, 24000, 4, 1, 2048, 64, false},
        {"gpt-10b", "a100-40g-epyc7713", 24, 16000, 8, 2, 1024, 8, false},
        {"qwen2.5-7b", "rtx4090-64g", 28, 10000, 2, 1, 2048, 32, true},
        {"llama-2-7b", "rtx4090-64g", 32, 8000, 1, 1, 1024, 16, false},
        {"mistral-7b", "rtx4090-64g", 32, 9000, 2, 1, 4096, 16, false},
        {"qwen3-8b", "h200-16c-128g", 36, 14000, 8, 1, 2048, 16, true},
        {"gpt-22b", "a100-40g-epyc7713", 36, 20000, 4, 1, 1024, 16, false},
        {"llama-30b", "a100-40g-epyc7713", 60, 30000, 4, 1, 1024, 16, false},
        {"gpt2-1.5b", "rtx4090-64g", 48, 2500, 4, 1, 512, 4, false},
        {"llama-3-8b", "h200-16c-128g", 32, 16000, 16, 4, 1024, 128, false},
    };
    for (size_t i = 0; i < check_scaled(sizeof requests / sizeof *requests); i++)
        check_request(&requests[i]);
}

/* Returns the period of a plan whose layers are all resident, or all streamed, and recompute their activations. */
static double period_us(struct sweep *sweep, bool resident)
{
    const struct setting setting = {.resident = resident ? sweep->planning->job.n_blocks - 2 : 0,
                                    .ends_here = resident,
                                    .activations = AH_ACTIVATIONS_RECOMPUTE};
    const struct ah_choice choice = {
        .configs = sweep->configs,
        .knobs = {.tile_elements = sweep->planning->winner->evaluator.best.knobs.tile_elements,
                  .fetch_ahead = 2},
        .costs = sweep->planning->splits[0].evaluator.limits.costs};
    struct ah_score score;
    struct ah_error err = {0};
    set_configs(sweep, &setting);
    CHECK_OK(ah_schedule_evaluate(&sweep->schedule, &choice, &score, &err), err);
    return score.period_us;
}

TEST(residency, streaming_costs_a_twentieth_at_most)
{
    /* rate / bandwidth is 6 thousand tokens on an RTX 4090, 11 thousand on an H100 */
    static const struct request requests[] = {
        {"llama-2-70b", "rtx4090-64g", 80, 24000, 6, 1, 2048, 16, false},
        {"llama-3-8b", "rtx4090-64g", 32, 16000, 6, 1, 2048, 16, false},
        {"llama-3-8b", "h100-16c-128g", 32, 30000, 11, 1, 2048, 16, false},
        {"qwen2.5-7b", "h100-16c-128g", 28, 30000, 11, 1, 2048, 64, true},
    };
    for (size_t i = 0; i < check_scaled(sizeof requests / sizeof *requests); i++) {
        struct sweep sweep;
        struct test_request t;
        struct ah_planning planning;
        struct ah_model_lora lora;
        open_request(&t, &requests[i], &lora);
        open_sweep(&sweep, &planning, &t);
        const double streamed_us = period_us(&sweep, false), resident_us = period_us(&sweep, true);
        print_message("%s on %s: streamed %.4g s, resident %.4g s, the plan in %llu MiB %.4g s\n",
                      requests[i].model, requests[i].machine, streamed_us / 1e6, resident_us / 1e6,
                      (unsigned long long)requests[i].device_mib,
                      planning.winner->evaluator.best.score.period_us / 1e6);
        assert_true(resident_us >= 0.95 * streamed_us);
        close_sweep(&sweep, &planning, &t);
    }
}
