/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests that ranks on GPUs give the bits of one GPU, whatever their plans, with messages moved by NCCL. There are ranks
 * that share all states, stages of one pipeline, and unequal pipelines that add up gradients. If a call of NCCL fails,
 * all ranks must end with a reason.
 */
#include "runtime/device/device_plugin.h"
#include "tests/double/cuda/double.h"
#include "tests/property/train/pipeline.h"

#include <inttypes.h>

enum { STEPS = 3, PLANS_EACH = 10, FAULTY_STEPS = 2, GROUPS_MAX = 4 };

ah_plugin_fn ah_plugin_driver;
ah_comm_plugin_fn ah_comm_plugin;

static struct golden golden;
static struct golden_result first, other;
static struct pipeline pipeline;
static uint64_t draw;

/* What to train, and on how many GPUs. */
struct world {
    const char *name;
    enum ah_dtype dtype, state_dtype;
    uint64_t micro_batches;
    uint64_t sums[GROUPS_MAX]; /* micro-batches of each pipeline; none: there is one pipeline */
    bool shards;
};

static void be_four(void)
{
    struct cuda_double settings = cuda_double_default();
    settings.n = CUDA_DOUBLE_DEVICES;
    cuda_double_set(&settings);
}

static int only_train(void *context, struct ah_trainer *trainer, struct ah_batches *held_out,
                      struct ah_error *err)
{
    const struct ah_observer observer = {.step = golden_keep_record, .context = &other};
    (void)context;
    (void)held_out;
    other.n_records = 0;
    return ah_trainer_run(trainer, golden.steps, &observer, err);
}

static int train(void *context, struct ah_trainer *trainer, struct ah_batches *held_out, struct ah_error *err)
{
    const int rc = only_train(context, trainer, held_out, err);
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

/* Takes any config whose gradients are not added up in the memory of the host, which GPUs refuse. */
static int likes_any_on_device(const struct ah_config *config)
{
    return config->accumulator == AH_ACCUMULATOR_HOST ? 0 : 1 + (int)test_below(&draw, 1000);
}

static size_t count_sums(const struct world *world)
{
    size_t n = 0;
    while (n < GROUPS_MAX && world->sums[n])
        n++;
    return n;
}

/* Trains the world's model on one GPU. */
static void train_alone(const struct world *world)
{
    static uint64_t sums[GROUPS_MAX];
    const size_t n = count_sums(world);
    be_four();
    golden_open_as(&golden, world->name, world->dtype, world->state_dtype);
    golden.steps = STEPS;
    golden.options.driver = ah_plugin_driver();
    memcpy(sums, world->sums, sizeof sums);
    golden_regroup(&golden, world->micro_batches, n ? sums : NULL, n);
    if (!world->shards)
        golden_split(&golden);
    golden_plan_resident(&golden);
    ah_trainer_close(golden_start(&golden, &first));
}

static void open_ranks(const struct world *world, uint64_t k, uint64_t *turn, uint64_t *seed)
{
    const uint64_t micro_batches = golden.c.job.training.micro_batches;
    const uint64_t blocks = ah_model_blocks(&golden.c.model);
    const uint64_t most = world->shards ? micro_batches : blocks;
    const uint64_t n = 2 + k % ((most < CUDA_DOUBLE_DEVICES ? most : CUDA_DOUBLE_DEVICES) - 1);
    pipeline.driver = ah_comm_plugin();
    pipeline.gpus = true;
    pipeline.likes = world->shards || !count_sums(world) ? NULL : likes_any_on_device;
    turn[AH_BLOCK_LAYER] += test_below(seed, 3); /* so that layers do not take configs in step */
    if (world->shards)
        pipeline_open_shards(&pipeline, &golden, n, turn, seed);
    else if (count_sums(world))
        pipeline_open_groups(&pipeline, &golden, world->sums, count_sums(world), CUDA_DOUBLE_DEVICES, turn,
                             seed);
    else
        pipeline_open(&pipeline, &golden, n, turn, seed);
}

/* Trains every world with random plans. Returns the number of plans. */
static uint64_t train_worlds(const struct world *worlds, size_t n, uint64_t *seed)
{
    uint64_t plans = 0;
    for (size_t i = 0; i < n; i++) {
        uint64_t turn[AH_BLOCK_HEAD + 1] = {0};
        train_alone(&worlds[i]);
        for (uint64_t k = 0; k < check_scaled(PLANS_EACH); k++, plans++) {
            open_ranks(&worlds[i], k, turn, seed);
            const uint64_t sent = cuda_double_calls("ncclSend");
            pipeline_run(&pipeline, NULL, train, NULL);
            pipeline_expect_ok(&pipeline);
            expect_same(worlds[i].name, plans);
            expect_no_misuse();
            assert_true(cuda_double_calls("ncclSend") > sent + 10);
            pipeline_close(&pipeline);
        }
        golden_close(&golden);
    }
    print_message("%" PRIu64 " plans\n", plans);
    return plans;
}

TEST(ranks, that_share_states_have_the_bits_of_one_gpu)
{
    static const struct world worlds[] = {
        {"gpt2-untied-odd", AH_FP32, AH_FP32, 6, {0}, true},
        {"llama", AH_BF16, AH_FP32, 4, {0}, true},
        {"gpt2", AH_BF16, AH_FP32, 4, {0}, true},
        {"qwen2-frozen-tensors", AH_BF16, AH_BF16, 4, {0}, true},
    };
    uint64_t seed = check_seed(51);
    train_worlds(worlds, sizeof worlds / sizeof *worlds, &seed);
}

TEST(ranks, of_a_pipeline_have_the_bits_of_one_gpu)
{
    static const struct world worlds[] = {
        {"gpt2-untied-odd", AH_FP32, AH_FP32, 3, {0}, false},
        {"llama", AH_BF16, AH_FP32, 4, {0}, false},
        {"qwen3-layer-types", AH_BF16, AH_FP32, 2, {0}, false},
    };
    uint64_t seed = check_seed(53);
    train_worlds(worlds, sizeof worlds / sizeof *worlds, &seed);
}

TEST(ranks, of_unequal_pipelines_have_the_bits_of_one_gpu)
{
    static const struct world worlds[] = {
        {"gpt2-untied-odd", AH_FP32, AH_FP32, 3, {1, 2}, false},
        {"llama", AH_BF16, AH_FP32, 4, {2, 1, 1}, false},
        {"gpt2", AH_BF16, AH_BF16, 2, {1, 1}, false},
    };
    uint64_t seed = check_seed(57);
    draw = seed;
    train_worlds(worlds, sizeof worlds / sizeof *worlds, &seed);
}

/* ---- failures ---- */

/* Runs with the failure that is set in the double. All ranks must end, with a reason. */
static void expect_all_to_fail(const char *what, uint64_t nth)
{
    struct ah_error err = {0};
    unsigned failed = 0;
    CHECK_OK(pipeline_try(&pipeline, NULL, only_train, NULL, &err), err);
    for (size_t i = 0; i < pipeline.n; i++) {
        const struct pipeline_stage *s = &pipeline.stages[i];
        failed += s->rc != AH_OK;
        if (s->rc && strlen(s->err.text) < 20)
            fail_msg("%s, %" PRIu64 ": rank %zu has the error '%s'", what, nth, i, s->err.text);
    }
    if (failed != pipeline.n)
        fail_msg("%s, %" PRIu64 ": only %u of %zu ranks failed", what, nth, failed, pipeline.n);
    expect_no_misuse();
}

TEST(ranks, end_if_a_call_of_nccl_fails)
{
    static const struct world world = {"llama", AH_BF16, AH_FP32, 4, {0}, true};
    static const char *const calls[] = {"ncclGetUniqueId", "ncclCommInitRankConfig", "ncclCommGetAsyncError",
                                        "ncclGroupStart",  "ncclGroupEnd",           "ncclSend",
                                        "ncclRecv"};
    uint64_t seed = check_seed(59), turn[AH_BLOCK_HEAD + 1] = {0}, counts[sizeof calls / sizeof *calls];
    unsigned faults = 0;
    train_alone(&world);
    golden.steps = FAULTY_STEPS;
    open_ranks(&world, 1, turn, &seed);
    be_four();
    pipeline_run(&pipeline, NULL, only_train, NULL);
    pipeline_expect_ok(&pipeline);
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        counts[i] = cuda_double_calls(calls[i]);
    /* how often ncclCommGetAsyncError() is called depends on time, so late calls are left out */
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        for (uint64_t nth = 1; nth <= counts[i] && nth < counts[i] / 2 + 2;
             nth += 1 + counts[i] / 7, faults++) {
            be_four();
            cuda_double_fail(calls[i], nth, (cudaError_t)3);
            expect_all_to_fail(calls[i], nth);
        }
    for (unsigned at = 10; at <= 70; at += 20, faults++) {
        struct cuda_double settings = cuda_double_default();
        settings.n = CUDA_DOUBLE_DEVICES;
        settings.nccl_fails_at = at;
        cuda_double_set(&settings);
        expect_all_to_fail("an error of the network", at);
    }
    print_message("%u faults\n", faults);
    assert_true(faults >= 20);
    pipeline_close(&pipeline);
    golden_close(&golden);
}
