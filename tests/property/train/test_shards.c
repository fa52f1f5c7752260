/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests that ranks which share all states give the bits of one process: losses, gradient norms, moments after the first
 * step, weights at the end, and the held-out loss; runs that are resumed with another number of ranks, too. Two, three
 * and four ranks run plans whose blocks go through every config. Messages come late and in another order, and their
 * places are filled with 0xFF when a receive is posted. At full scale every config that a block can have must occur.
 */
#include "runtime/train/persist.h"
#include "tests/property/train/pipeline.h"
#include "tests/support/root.h"

#include <inttypes.h>
#include <limits.h>

enum { STEPS = 4, PLANS_EACH = 20, DELAY_US = 60 };

static struct golden golden;
static struct golden_result first, other;
static struct pipeline pipeline;
static uint64_t plans;

struct configs {
    bool of[AH_BLOCK_HEAD + 1][AH_ACTIVATIONS_WAYS][AH_WEIGHTS_GATHERED + 1][AH_OPTIMIZER_NONE + 1];
};
static struct configs possible, had;

static void see(enum ah_block_kind kind, const struct ah_config *config, bool taken)
{
    (taken ? &had : &possible)->of[kind][config->activations][config->weights][config->optimizer] = true;
}

static int train(void *context, struct ah_trainer *trainer, struct ah_batches *held_out, struct ah_error *err)
{
    const struct ah_observer observer = {.step = golden_keep_record, .context = &other};
    struct ah_trainer_evaluation *evaluation = context;
    other.n_records = 0;
    int rc = ah_trainer_run(trainer, 1, &observer, err);
    if (rc)
        return rc;
    golden_first_gradient(&golden, trainer, &other);
    rc = ah_trainer_run(trainer, golden.steps - 1, &observer, err);
    if (rc)
        return rc;
    golden_read(&golden, trainer, AH_TRAINER_WEIGHTS, other.weights, &other.n_values);
    return ah_trainer_evaluate(trainer, held_out, NULL, evaluation, err);
}

static void expect_same(const char *name)
{
    for (size_t i = 0; i < first.n_records; i++) {
        const struct ah_step_record *a = &first.records[i], *b = &other.records[i];
        if (memcmp(&a->loss, &b->loss, sizeof a->loss) != 0 ||
            memcmp(&a->grad_norm, &b->grad_norm, sizeof a->grad_norm) != 0)
            fail_msg("%s, plan %" PRIu64 " of %zu ranks: step %zu has loss %.17g, norm %.9g, not %.17g, %.9g",
                     name, plans, pipeline.n, i + 1, b->loss, b->grad_norm, a->loss, a->grad_norm);
    }
    for (size_t i = 0; i < first.n_values; i++)
        if (memcmp(&first.gradients[i], &other.gradients[i], sizeof(float)) != 0 ||
            memcmp(&first.weights[i], &other.weights[i], sizeof(float)) != 0)
            fail_msg("%s, plan %" PRIu64 " of %zu ranks: value %zu differs", name, plans, pipeline.n, i);
}

static void expect_as_planned(void)
{
    for (size_t i = 0; i < pipeline.n; i++) {
        const struct pipeline_stage *s = &pipeline.stages[i];
        const uint64_t planned = s->options.plan->memory.device_bytes,
                       touched = s->facts.touched_bytes[AH_ARENA_DEVICE];
        if (touched > planned)
            fail_msg("plan %" PRIu64 ": rank %zu touches %" PRIu64 " bytes, its plan has %" PRIu64, plans, i,
                     touched, planned);
    }
}

static void run_plan(const char *name, uint64_t ranks, double expected, uint64_t *turn, uint64_t *seed)
{
    struct ah_trainer_evaluation evaluation = {0};
    turn[AH_BLOCK_LAYER] += test_below(seed, 3); /* so that layers do not take configs in step */
    pipeline_open_shards(&pipeline, &golden, ranks, turn, seed);
    pipeline_run(
        &pipeline,
        &(struct ah_comm_hub_options){.poisons = true, .most_delay_us = DELAY_US, .seed = check_random(seed)},
        train, &evaluation);
    pipeline_expect_ok(&pipeline);
    expect_same(name);
    expect_as_planned();
    assert_memory_equal(&evaluation.loss, &expected, sizeof expected);
    pipeline_close(&pipeline);
    plans++;
}

TEST(shards, have_the_bits_of_one_process)
{
    static const struct {
        const char *name;
        enum ah_dtype dtype, state_dtype;
    } cases[] = {{"gpt2-untied-odd", AH_FP32, AH_FP32},
                 {"llama", AH_BF16, AH_FP32},
                 {"llama-frozen-below", AH_BF16, AH_FP32},
                 {"mistral-documents", AH_BF16, AH_BF16},
                 {"qwen2-frozen-tensors", AH_FP32, AH_FP32},
                 {"qwen2-frozen-tensors", AH_BF16, AH_BF16},
                 {"llama-masked", AH_BF16, AH_BF16},
                 {"qwen3-norms-only", AH_FP32, AH_FP32},
                 {"gpt2", AH_FP32, AH_BF16},
                 {"gpt2", AH_BF16, AH_FP32},
                 {"qwen3", AH_BF16, AH_FP32},
                 {"gpt2-documents", AH_BF16, AH_FP32}};
    uint64_t seed = check_seed(43);
    pipeline.chosen = see;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint64_t turn[AH_BLOCK_HEAD + 1] = {0};
        golden_open_as(&golden, cases[i].name, cases[i].dtype, cases[i].state_dtype);
        golden.steps = STEPS;
        golden_plan_resident(&golden);
        struct ah_trainer *alone = golden_start(&golden, &first);
        const double expected = golden_held_out_loss(&golden, alone);
        ah_trainer_close(alone);
        const uint64_t most =
            golden.c.job.training.micro_batches < 4 ? golden.c.job.training.micro_batches : 4;
        for (uint64_t k = 0; k < check_scaled(PLANS_EACH) && most > 1; k++)
            run_plan(cases[i].name, 2 + k % (most - 1), expected, turn, &seed);
        golden_close(&golden);
    }
    print_message("%" PRIu64 " plans\n", plans);
    if (check_scaled(PLANS_EACH) == PLANS_EACH)
        assert_memory_equal(&had, &possible, sizeof had);
}

/* ---- resumes ---- */

enum { LEGS = 4, CHAINS_EACH = 4 };

struct leg {
    const char *from, *to; /* checkpoints; NULL: none */
    uint64_t before, steps;
};

static int run_leg(void *context, struct ah_trainer *trainer, struct ah_batches *held_out,
                   struct ah_error *err)
{
    static const char sha256[] = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
    const struct leg *leg = context;
    const struct ah_observer observer = {.step = golden_keep_record, .context = &other};
    struct ah_signature_run run = {.data_sha256 = sha256, .schedule = "cosine"};
    struct ah_signature signature = golden.options.plan->numeric_signature;
    signature.run = &run;
    const struct ah_checkpoint_job job = {.model = golden.model.body.model, .signature = &signature};
    struct ah_checkpoint_position position = {.step = leg->before + leg->steps};
    const struct ah_checkpoint_sink sink = ah_persist_sink(trainer);
    const struct ah_checkpoint_source source = ah_persist_source(trainer);
    int rc = leg->from ? ah_checkpoint_load(&job, &sink, leg->from, &position, err) : AH_OK;
    (void)held_out;
    rc = rc ? rc : ah_trainer_run(trainer, leg->steps, &observer, err);
    position.step = leg->before + leg->steps;
    rc = rc || !leg->to ? rc : ah_checkpoint_save(&job, &position, &source, leg->to, err);
    if (!rc)
        golden_read(&golden, trainer, AH_TRAINER_WEIGHTS, other.weights, &other.n_values);
    return rc;
}

static void run_ranks(struct leg *leg, uint64_t ranks, uint64_t *turn, uint64_t *seed)
{
    struct ah_error err = {0};
    struct ah_trainer *trainer;
    golden.options.steps_before = leg->before;
    if (ranks > 1) {
        pipeline_open_shards(&pipeline, &golden, ranks, turn, seed);
        pipeline_run(&pipeline, &(struct ah_comm_hub_options){.poisons = true}, run_leg, leg);
        pipeline_expect_ok(&pipeline);
        pipeline_close(&pipeline);
        return;
    }
    golden_plan_random(&golden, seed);
    CHECK_OK(ah_trainer_open(&trainer, &golden.options, &err), err);
    CHECK_OK(run_leg(leg, trainer, NULL, &err), err);
    ah_trainer_close(trainer);
}

static void run_chain(const char *folder, unsigned number, uint64_t *turn, uint64_t *seed)
{
    static const uint64_t ranks[LEGS] = {4, 2, 1, 4}, steps[LEGS] = {1, 2, 1, 2};
    char paths[2][PATH_MAX];
    uint64_t before = 0;
    other.n_records = 0;
    for (unsigned i = 0; i < LEGS; before += steps[i++]) {
        snprintf(paths[i % 2], PATH_MAX, "%s/chain-%u-%u", folder, number, i);
        struct leg leg = {i ? paths[1 - i % 2] : NULL, i + 1 < LEGS ? paths[i % 2] : NULL, before, steps[i]};
        run_ranks(&leg, ranks[i], turn, seed);
    }
    for (size_t step = 0; step < first.n_records; step++) {
        assert_memory_equal(&first.records[step].loss, &other.records[step].loss, sizeof(double));
        assert_memory_equal(&first.records[step].grad_norm, &other.records[step].grad_norm, sizeof(double));
    }
    assert_int_equal(other.n_records, first.n_records);
    assert_memory_equal(first.weights, other.weights, first.n_values * sizeof *first.weights);
}

/* Four ranks save, then two, one and four again go on. */
TEST_IN(shards, resume_with_any_number, root_make, root_remove)
{
    static const struct {
        const char *name;
        enum ah_dtype dtype, state_dtype;
    } cases[] = {{"llama-masked", AH_BF16, AH_BF16},
                 {"qwen2-frozen-tensors", AH_FP32, AH_BF16},
                 {"gpt2-untied-odd", AH_FP32, AH_FP32},
                 {"qwen3", AH_BF16, AH_FP32}};
    uint64_t seed = check_seed(47);
    unsigned number = 0;
    pipeline.chosen = NULL;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint64_t turn[AH_BLOCK_HEAD + 1] = {0};
        golden_open_as(&golden, cases[i].name, cases[i].dtype, cases[i].state_dtype);
        golden.steps = 6;
        golden_plan_resident(&golden);
        ah_trainer_close(golden_start(&golden, &first));
        for (size_t k = 0; k < check_scaled(CHAINS_EACH); k++)
            run_chain(*state, number++, turn, &seed);
        golden_close(&golden);
    }
}
