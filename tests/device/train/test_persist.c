/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests loading a trainer's checkpoint in another trainer with another plan. The resumed run gives equal bits.
 */
#include "runtime/train/persist.h"

#include "tests/golden/train/case.h"
#include "tests/support/root.h"

#include <limits.h>

static struct golden golden;
static struct golden_result first, other;

static struct ah_signature signature_of(const struct golden *g, struct ah_signature_run *run)
{
    static const char sha256[] = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
    struct ah_signature signature = g->options.plan->numeric_signature;
    *run = (struct ah_signature_run){.data_sha256 = sha256, .schedule = "cosine"};
    signature.run = run;
    return signature;
}

static void save(struct golden *g, struct ah_trainer *trainer, const char *path)
{
    struct ah_error err = {0};
    struct ah_signature_run run;
    const struct ah_signature signature = signature_of(g, &run);
    const struct ah_checkpoint_job job = {.model = g->model.body.model, .signature = &signature};
    const struct ah_checkpoint_position position = {.step = ah_trainer_facts(trainer).steps};
    const struct ah_checkpoint_source source = ah_persist_source(trainer);
    CHECK_OK(ah_checkpoint_save(&job, &position, &source, path, &err), err);
}

static void load(struct golden *g, struct ah_trainer *trainer, const char *path)
{
    struct ah_error err = {0};
    struct ah_signature_run run;
    struct ah_checkpoint_position position;
    const struct ah_signature signature = signature_of(g, &run);
    const struct ah_checkpoint_job job = {.model = g->model.body.model, .signature = &signature};
    const struct ah_checkpoint_sink sink = ah_persist_sink(trainer);
    CHECK_OK(ah_checkpoint_load(&job, &sink, path, &position, &err), err);
    assert_int_equal(position.step, ah_trainer_facts(trainer).steps);
}

/* Stops the run after 9 steps and resumes it with another trainer and plan. */
static void train_in_two(struct golden *g, const char *path, uint64_t *seed)
{
    struct ah_error err = {0};
    struct ah_trainer *trainer;
    const struct ah_observer observer = {.step = golden_keep_record, .context = &other};
    other.n_records = 0;
    g->options.steps_before = 0;
    CHECK_OK(ah_trainer_open(&trainer, &g->options, &err), err);
    CHECK_OK(ah_trainer_run(trainer, 9, &observer, &err), err);
    save(g, trainer, path);
    ah_trainer_close(trainer);
    golden_plan_random(g, seed);
    g->options.steps_before = 9;
    CHECK_OK(ah_trainer_open(&trainer, &g->options, &err), err);
    load(g, trainer, path);
    CHECK_OK(ah_trainer_run(trainer, g->steps - 9, &observer, &err), err);
    golden_read(g, trainer, AH_TRAINER_WEIGHTS, other.weights, &other.n_values);
    ah_trainer_close(trainer);
}

TEST_IN(persist, goes_on_to_the_same_bits, root_make, root_remove)
{
    static const struct {
        const char *name;
        enum ah_dtype dtype, state_dtype;
    } cases[] = {{"gpt2", AH_FP32, AH_FP32},
                 {"qwen3", AH_BF16, AH_FP32},
                 {"llama-masked", AH_BF16, AH_BF16},
                 {"gpt2-frozen-table", AH_BF16, AH_BF16},
                 {"qwen2-frozen-tensors", AH_FP32, AH_BF16},
                 {"gpt2-untied-odd", AH_BF16, AH_FP32}};
    uint64_t seed = check_seed(29);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char path[PATH_MAX];
        snprintf(path, sizeof path, "%s/%zu", (const char *)*state, i);
        golden_open_as(&golden, cases[i].name, cases[i].dtype, cases[i].state_dtype);
        golden_plan_resident(&golden);
        ah_trainer_close(golden_start(&golden, &first));
        golden_plan_random(&golden, &seed);
        train_in_two(&golden, path, &seed);
        assert_int_equal(other.n_records, golden.steps);
        for (size_t step = 0; step < golden.steps; step++)
            assert_memory_equal(&first.records[step].loss, &other.records[step].loss, sizeof(double));
        assert_memory_equal(first.weights, other.weights, first.n_values * sizeof *first.weights);
        golden_close(&golden);
    }
}
