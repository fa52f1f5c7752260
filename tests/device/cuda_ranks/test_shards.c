/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests that ranks on GPUs which share all states give the bits of one GPU, whatever their plans. Messages between them
 * are moved by NCCL.
 */
#include "runtime/device/device_plugin.h"
#include "tests/double/cuda/double.h"
#include "tests/property/train/pipeline.h"

#include <inttypes.h>

enum { STEPS = 3, PLANS_EACH = 5 };

ah_plugin_fn ah_plugin_driver;
ah_comm_plugin_fn ah_comm_plugin;

static struct golden golden;
static struct golden_result first, other;
static struct pipeline pipeline;

static void be_four(void)
{
    struct cuda_double settings = cuda_double_default();
    settings.n = CUDA_DOUBLE_DEVICES;
    cuda_double_set(&settings);
}

static int train(void *context, struct ah_trainer *trainer, struct ah_batches *held_out, struct ah_error *err)
{
    const struct ah_observer observer = {.step = golden_keep_record, .context = &other};
    (void)context;
    (void)held_out;
    other.n_records = 0;
    int rc = ah_trainer_run(trainer, golden.steps, &observer, err);
    if (!rc)
        golden_read(&golden, trainer, AH_TRAINER_WEIGHTS, other.weights, &other.n_values);
    return rc;
}

static void expect_same(const char *name, uint64_t plan)
{
    for (size_t i = 0; i < first.n_records; i++) {
        const struct ah_step_record *a = &first.records[i], *b = &other.records[i];
        if (memcmp(&a->loss, &b->loss, sizeof a->loss) != 0 ||
            memcmp(&a->grad_norm, &b->grad_norm, sizeof a->grad_norm) != 0)
            fail_msg("%s, plan %" PRIu64 " of %zu ranks: step %zu has loss %.17g, norm %.9g, not %.17g, %.9g",
                     name, plan, pipeline.n, i + 1, b->loss, b->grad_norm, a->loss, a->grad_norm);
    }
    for (size_t i = 0; i < first.n_values; i++)
        if (memcmp(&first.weights[i], &other.weights[i], sizeof(float)) != 0)
            fail_msg("%s, plan %" PRIu64 " of %zu ranks: value %zu differs", name, plan, pipeline.n, i);
}

static void expect_no_misuse(void)
{
    char report[CUDA_DOUBLE_REPORT_MAX];
    cuda_double_report(report);
    if (cuda_double_misuses())
        fail_msg("%s", report);
}

TEST(shards, on_gpus_have_the_bits_of_one)
{
    static const struct {
        const char *name;
        enum ah_dtype dtype, state_dtype;
    } cases[] = {{"gpt2-untied-odd", AH_FP32, AH_FP32},
                 {"llama", AH_BF16, AH_FP32},
                 {"qwen2-frozen-tensors", AH_BF16, AH_BF16},
                 {"gpt2", AH_BF16, AH_FP32}};
    uint64_t seed = check_seed(51), plans = 0;
    pipeline.driver = ah_comm_plugin();
    pipeline.gpus = true;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint64_t turn[AH_BLOCK_HEAD + 1] = {0};
        be_four();
        golden_open_as(&golden, cases[i].name, cases[i].dtype, cases[i].state_dtype);
        golden.steps = STEPS;
        golden.options.driver = ah_plugin_driver();
        golden_plan_resident(&golden);
        ah_trainer_close(golden_start(&golden, &first));
        const uint64_t micro_batches = golden.c.job.training.micro_batches;
        const uint64_t most = micro_batches < CUDA_DOUBLE_DEVICES ? micro_batches : CUDA_DOUBLE_DEVICES;
        for (uint64_t k = 0; k < check_scaled(PLANS_EACH) && most > 1; k++, plans++) {
            turn[AH_BLOCK_LAYER] += test_below(&seed, 3); /* so that layers do not take configs in step */
            pipeline_open_shards(&pipeline, &golden, 2 + k % (most - 1), turn, &seed);
            pipeline_run(&pipeline, NULL, train, NULL);
            pipeline_expect_ok(&pipeline);
            expect_same(cases[i].name, plans);
            expect_no_misuse();
            pipeline_close(&pipeline);
        }
        golden_close(&golden);
    }
    print_message("%" PRIu64 " plans\n", plans);
}
