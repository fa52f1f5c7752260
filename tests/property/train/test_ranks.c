/* SPDX-License-Identifier: Apache-2.0
 *
 * A pipeline gives the bits of one process: losses, gradient norms, moments after the first step and weights at the end, for
 * stages cut anywhere whose blocks go through every config, over channels whose messages come late and in another order, and
 * whose places are full of 0xFF from the moment that a receive is posted. At full scale every config that a stage can have
 * must have been had.
 */
#include "runtime/comm/loop/loop.h"
#include "runtime/schedule/messages.h"
#include "tests/golden/train/case.h"

#include <inttypes.h>
#include <pthread.h>

enum { STEPS = 4, PLANS_EACH = 12, STAGES_MOST = 8, DELAY_US = 60 };

struct stage {
    struct test_case c;
    struct ah_schedule schedule;
    struct ah_document document;
    struct ah_dataset *data; /* one thread at a time uses one */
    struct ah_batches batches;
    struct ah_trainer_options options;
    struct ah_trainer_rank rank;
    struct ah_comm_hub *hub;
    struct ah_error err;
    int rc;
};

static struct golden golden;
static struct golden_result first, other;
static struct stage stages[STAGES_MOST];
static uint32_t owner[TEST_BLOCKS_MAX];
static uint64_t plans;

struct configs {
    bool of[AH_BLOCK_HEAD + 1][AH_ACTIVATIONS_WAYS][AH_WEIGHTS_HOST + 1][AH_OPTIMIZER_NONE + 1]
           [AH_ACCUMULATOR_HOST + 1];
};
static struct {
    struct configs possible, had;
    uint64_t stages[STAGES_MOST + 1], dtypes[2], clipped[2];
} seen;

static void see(struct configs *configs, enum ah_block_kind kind, const struct ah_config *config)
{
    configs->of[kind][config->activations][config->weights][config->optimizer][config->accumulator] = true;
}

/* ---- plans ---- */

/* The order of some choices cannot run: rings too small for it. */
static void plan_stage(struct stage *s, uint64_t *turn, uint64_t *seed)
{
    struct ah_config options[AH_CONFIGS_MAX];
    struct ah_error err = {0};
    struct ah_score score;
    int rc = AH_E_FAILED;
    for (size_t block = 0; block < s->c.job.n_blocks; block++) {
        const struct ah_job_group *group = ah_job_block(&s->c.job, block);
        const size_t n = ah_configs(&s->c.job, group, options);
        s->c.configs[block] = options[turn[group->kind]++ % n];
        see(&seen.had, group->kind, &s->c.configs[block]);
        for (size_t i = 0; i < n; i++)
            see(&seen.possible, group->kind, &options[i]);
    }
    while (rc == AH_E_FAILED) {
        test_case_knobs(&s->c, seed);
        s->c.choice.knobs.tile_elements = AH_PLAN_TILE_UNIT;
        rc = ah_schedule_evaluate(&s->schedule, &s->c.choice, &score, &err);
    }
    CHECK_OK(rc, err);
    test_case_emit(&s->c, &s->schedule, &s->document);
}

static void open_stage(const struct golden *g, struct stage *s, struct ah_plan_part part, uint64_t *turn,
                       uint64_t *seed)
{
    struct ah_error err = {0};
    memset(s, 0, sizeof *s);
    s->c.model = g->c.model;
    s->c.part = part;
    s->c.job.training = g->c.job.training;
    test_case_cut(&s->c, g->c.job.training.micro_batches, seed);
    CHECK_OK(ah_schedule_init(&s->schedule, &s->c.job, &err), err);
    plan_stage(s, turn, seed);
    s->rank = (struct ah_trainer_rank){.rank = (uint32_t)part.stage,
                                       .ranks = (uint32_t)part.stages,
                                       .before = (uint32_t)part.stage - 1,
                                       .behind = (uint32_t)part.stage + 1,
                                       .owner = owner};
    s->options = g->options;
    s->options.device = (struct ah_device_options){.compute_threads = 1, .host_threads = 1, .shared = true};
    s->options.plan = s->document.body.plan;
    s->options.rank = &s->rank;
    s->options.batches = &s->batches;
    golden_open_dataset(g, "data", &s->data);
    struct ah_batches_options batches = g->batches.options;
    batches.data = s->data;
    CHECK_OK(ah_batches_init(&s->batches, &batches, &err), err);
    for (uint64_t block = 0; block < part.blocks; block++)
        owner[part.first_block + block] = (uint32_t)part.stage;
}

static size_t open_pipeline(const struct golden *g, uint64_t *turn, uint64_t *seed)
{
    const uint64_t blocks = ah_model_blocks(&g->c.model), most = blocks < STAGES_MOST ? blocks : STAGES_MOST;
    const uint64_t n = 2 + test_below(seed, most - 1);
    uint64_t begin = 0;
    for (uint64_t i = 0; i < n; i++) {
        const uint64_t end = i + 1 < n ? begin + 1 + test_below(seed, blocks - begin - (n - 1 - i)) : blocks;
        open_stage(g, &stages[i], (struct ah_plan_part){begin, end - begin, 1, i, n}, turn, seed);
        begin = end;
    }
    return n;
}

static void close_pipeline(size_t n)
{
    for (size_t i = 0; i < n; i++) {
        ah_batches_release(&stages[i].batches);
        ah_dataset_close(stages[i].data);
        ah_document_release(&stages[i].document);
        ah_schedule_release(&stages[i].schedule);
        test_case_close(&stages[i].c);
    }
}

/* ---- runs ---- */

static int join(struct stage *s)
{
    return ah_comm_open(
        &s->rank.comm,
        &(struct ah_comm_options){
            .driver = ah_comm_loop(), .rank = s->rank.rank, .ranks = s->rank.ranks, .boot = s->hub},
        &s->err);
}

static void *follow(void *context)
{
    struct stage *s = context;
    struct ah_trainer *trainer = NULL;
    s->rc = join(s);
    s->rc = s->rc ? s->rc : ah_trainer_open(&trainer, &s->options, &s->err);
    s->rc = s->rc ? s->rc : ah_trainer_follow(trainer, NULL, &s->err);
    ah_trainer_close(trainer);
    ah_comm_close(s->rank.comm);
    return NULL;
}

static void run_pipeline(size_t n, uint64_t seed)
{
    static struct golden lead;
    struct ah_error err = {0};
    struct ah_comm_hub *hub;
    pthread_t threads[STAGES_MOST];
    const struct ah_comm_hub_options world = {.poisons = true, .most_delay_us = DELAY_US, .seed = seed};
    CHECK_OK(ah_comm_hub_new(&hub, (uint32_t)n, &world, &err), err);
    for (size_t i = 0; i < n; i++) {
        stages[i].hub = hub;
        if (i)
            assert_int_equal(pthread_create(&threads[i], NULL, follow, &stages[i]), 0);
    }
    CHECK_OK(join(&stages[0]), stages[0].err);
    lead = golden;
    lead.options = stages[0].options;
    ah_trainer_close(golden_start(&lead, &other));
    for (size_t i = 1; i < n; i++) {
        pthread_join(threads[i], NULL);
        CHECK_OK(stages[i].rc, stages[i].err);
    }
    ah_comm_close(stages[0].rank.comm);
    ah_comm_hub_free(hub);
}

static void expect_same(const char *name, size_t n)
{
    for (size_t i = 0; i < first.n_records; i++) {
        const struct ah_step_record *a = &first.records[i], *b = &other.records[i];
        if (memcmp(&a->loss, &b->loss, sizeof a->loss) != 0 ||
            memcmp(&a->grad_norm, &b->grad_norm, sizeof a->grad_norm) != 0)
            fail_msg("%s, plan %" PRIu64
                     " of %zu stages: step %zu has loss %.17g, norm %.9g, not %.17g, %.9g",
                     name, plans, n, i + 1, b->loss, b->grad_norm, a->loss, a->grad_norm);
    }
    for (size_t i = 0; i < first.n_values; i++)
        if (memcmp(&first.gradients[i], &other.gradients[i], sizeof(float)) != 0 ||
            memcmp(&first.weights[i], &other.weights[i], sizeof(float)) != 0)
            fail_msg("%s, plan %" PRIu64 " of %zu stages: value %zu differs", name, plans, n, i);
}

struct signature {
    const char *name;
    enum ah_dtype dtype, state_dtype;
};

static void run_signature(const struct signature *signature, uint64_t *seed)
{
    uint64_t turn[AH_BLOCK_HEAD + 1] = {0};
    golden_open_as(&golden, signature->name, signature->dtype, signature->state_dtype);
    golden.steps = STEPS;
    golden_plan_resident(&golden);
    ah_trainer_close(golden_start(&golden, &first));
    for (uint64_t i = 0; i < check_scaled(PLANS_EACH); i++, plans++) {
        const size_t n = open_pipeline(&golden, turn, seed);
        run_pipeline(n, check_random(seed));
        expect_same(signature->name, n);
        seen.stages[n]++;
        seen.dtypes[signature->dtype == AH_BF16]++;
        seen.clipped[golden.c.job.training.clip > 0]++;
        close_pipeline(n);
    }
    golden_close(&golden);
}

TEST(ranks, have_the_bits_of_one_process)
{
    static const struct signature signatures[] = {
        {"gpt2-untied-odd", AH_FP32, AH_FP32},   {"llama", AH_BF16, AH_FP32},
        {"llama-linear", AH_FP32, AH_FP32},      {"llama-frozen-below", AH_BF16, AH_FP32},
        {"mistral-documents", AH_BF16, AH_BF16}, {"qwen2-frozen-tensors", AH_FP32, AH_FP32},
        {"qwen3-layer-types", AH_BF16, AH_FP32}, {"llama-masked", AH_BF16, AH_BF16},
        {"qwen3-norms-only", AH_FP32, AH_FP32}};
    uint64_t seed = check_seed(41);
    for (size_t i = 0; i < sizeof signatures / sizeof *signatures; i++)
        run_signature(&signatures[i], &seed);
    print_message("%" PRIu64 " pipelines; of 2 to 5 stages: %" PRIu64 ", %" PRIu64 ", %" PRIu64 ", %" PRIu64
                  "\n",
                  plans, seen.stages[2], seen.stages[3], seen.stages[4], seen.stages[5]);
    if (check_scaled(PLANS_EACH) < PLANS_EACH)
        return;
    assert_memory_equal(&seen.had, &seen.possible, sizeof seen.had);
    assert_true(seen.stages[2] && seen.stages[3] && seen.stages[4] && seen.stages[5]);
    assert_true(seen.dtypes[0] && seen.dtypes[1] && seen.clipped[0] && seen.clipped[1]);
}
