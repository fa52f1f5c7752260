/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests that a pipeline gives the bits of one process: losses, gradient norms, moments after the first step, and
 * weights at the end. Stages are cut anywhere, and their blocks go through every config. Messages come late and in
 * another order, and their places are filled with 0xFF when a receive is posted. In one world of three, messages go one
 * at a time. At full scale every config that a stage can have must occur.
 */
#include "runtime/schedule/graph.h"
#include "runtime/schedule/messages.h"
#include "runtime/train/links.h"
#include "tests/property/train/pipeline.h"
#include "tests/support/hooked.h"

#include <inttypes.h>
#include <math.h>
#include <unistd.h>

enum { STEPS = 4, PLANS_EACH = 12, LATE_EACH = 10, DELAY_US = 60, DEEP_DATA_BYTES = 1200 };

static struct golden golden;
static struct golden_result first, other;
static struct pipeline pipeline;
static uint64_t plans;
static bool (*wanted)(void); /* NULL: any pipeline */
/* With slow copies, messages arrive early, while others have not been sent yet. */
static const struct ah_device_throttle slow_copies = {.d2h_bytes_per_s = 2e7};

struct configs {
    bool of[AH_BLOCK_HEAD + 1][AH_ACTIVATIONS_WAYS][AH_WEIGHTS_HOST + 1][AH_OPTIMIZER_NONE + 1]
           [AH_ACCUMULATOR_HOST + 1];
};
static struct {
    struct configs possible, had;
    uint64_t stages[PIPELINE_STAGES + 1], dtypes[2], clipped[2];
} seen;

static void see(enum ah_block_kind kind, const struct ah_config *config, bool had)
{
    struct configs *configs = had ? &seen.had : &seen.possible;
    configs->of[kind][config->activations][config->weights][config->optimizer][config->accumulator] = true;
}

/* Trains like golden_start(), but with an open trainer, and then computes the held-out loss. */
static int train(void *context, struct ah_trainer *trainer, struct ah_batches *held_out, struct ah_error *err)
{
    struct golden *g = &golden;
    const struct ah_observer observer = {.step = golden_keep_record, .context = &other};
    struct ah_trainer_evaluation *evaluation = context;
    other.n_records = 0;
    int rc = ah_trainer_run(trainer, 1, &observer, err);
    if (rc)
        return rc;
    golden_first_gradient(g, trainer, &other);
    rc = ah_trainer_run(trainer, g->steps - 1, &observer, err);
    if (rc)
        return rc;
    golden_read(g, trainer, AH_TRAINER_WEIGHTS, other.weights, &other.n_values);
    return ah_trainer_evaluate(trainer, held_out, NULL, evaluation, err);
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

static void expect_as_planned(void)
{
    for (size_t i = 0; i < pipeline.n; i++) {
        const struct pipeline_stage *s = &pipeline.stages[i];
        const uint64_t planned = s->options.plan->memory.device_bytes,
                       touched = s->facts.touched_bytes[AH_ARENA_DEVICE];
        if (touched > planned || planned - touched >= AH_LAYOUT_ALIGN)
            fail_msg("plan %" PRIu64 ": rank %zu touches %" PRIu64 " bytes, its plan has %" PRIu64, plans, i,
                     touched, planned);
        assert_int_equal(s->facts.steps, golden.steps);
    }
}

/* micro-batches of each pipeline; none: there is one pipeline */
static const uint64_t *groups;
static size_t n_groups;

static void open_ranks(uint64_t *turn, uint64_t *seed)
{
    if (n_groups)
        pipeline_open_groups(&pipeline, &golden, groups, n_groups, PIPELINE_STAGES, turn, seed);
    else
        pipeline_open(&pipeline, &golden, 0, turn, seed);
}

static void run_plan(const char *name, double expected, uint64_t *turn, uint64_t *seed)
{
    struct ah_trainer_evaluation evaluation = {0};
    open_ranks(turn, seed);
    for (int k = 0; wanted && !wanted(); k++) {
        assert_true(k < 1000);
        pipeline_close(&pipeline);
        open_ranks(turn, seed);
    }
    for (size_t i = 0; i < pipeline.n && pipeline.likes; i++)
        pipeline.stages[i].options.device.throttle = slow_copies;
    pipeline_run(&pipeline,
                 &(struct ah_comm_hub_options){.poisons = true,
                                               .most_delay_us = DELAY_US,
                                               .seed = check_random(seed),
                                               .is_serial = plans % 3 == 2,
                                               .serial_purposes = AH_LINKS_CONTROL},
                 train, &evaluation);
    pipeline_expect_ok(&pipeline);
    expect_same(name, pipeline.n);
    expect_as_planned();
    assert_memory_equal(&evaluation.loss, &expected, sizeof expected);
    pipeline_close(&pipeline);
    plans++;
}

/* Trains in one process. The case must be open. */
static double train_alone(void)
{
    golden.steps = STEPS;
    golden_split(&golden);
    golden_plan_resident(&golden);
    struct ah_trainer *alone = golden_start(&golden, &first);
    const double held_out_loss = golden_held_out_loss(&golden, alone);
    ah_trainer_close(alone);
    return held_out_loss;
}

static double run_alone(const struct signature *signature)
{
    golden_open_as(&golden, signature->name, signature->dtype, signature->state_dtype);
    return train_alone();
}

static void run_signature(const struct signature *signature, uint64_t *seed)
{
    uint64_t turn[AH_BLOCK_HEAD + 1] = {0};
    const double expected = run_alone(signature);
    for (uint64_t i = 0; i < check_scaled(PLANS_EACH); i++) {
        run_plan(signature->name, expected, turn, seed);
        seen.stages[pipeline.n]++;
        seen.dtypes[signature->dtype == AH_BF16]++;
        seen.clipped[golden.c.job.training.clip > 0]++;
    }
    golden_close(&golden);
}

TEST(ranks, have_the_bits_of_one_process)
{
    static const struct signature signatures[] = {{"gpt2-untied-odd", AH_FP32, AH_FP32},
                                                  {"llama", AH_BF16, AH_FP32},
                                                  {"llama-linear", AH_FP32, AH_FP32},
                                                  {"llama-frozen-below", AH_BF16, AH_FP32},
                                                  {"mistral-documents", AH_BF16, AH_BF16},
                                                  {"qwen2-frozen-tensors", AH_FP32, AH_FP32},
                                                  {"qwen3-layer-types", AH_BF16, AH_FP32},
                                                  {"llama-masked", AH_BF16, AH_BF16},
                                                  {"qwen3-norms-only", AH_FP32, AH_FP32},
                                                  {"gpt2", AH_FP32, AH_BF16},
                                                  {"qwen2", AH_BF16, AH_BF16},
                                                  {"gpt2-documents", AH_BF16, AH_FP32}};
    uint64_t seed = check_seed(41);
    pipeline.chosen = see;
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

/* Prefers updates on the device between the first forwards of a step, by gradients of the step before. */
static int likes_streamed(const struct ah_config *config)
{
    return config->optimizer == AH_OPTIMIZER_STREAMED;
}

/* True if some rank has an update by the last step's gradients where a message of the next step may arrive. */
static bool has_late_update(void)
{
    struct ah_error err = {0};
    bool has = false;
    for (size_t i = 1; i < pipeline.n; i++) {
        struct ah_arena arena = {0};
        struct ah_messages messages;
        struct ah_graph graph;
        CHECK_OK(ah_messages_read(pipeline.stages[i].options.plan, &arena, &messages, &err), err);
        CHECK_OK(ah_graph_read(pipeline.stages[i].options.plan, &arena, &graph, &err), err);
        for (uint32_t p = messages.of[AH_CHANNEL_OUTPUT_IN][0].from; p < graph.positions; p++)
            has = has || graph.items[p].of_before;
        ah_arena_release(&arena);
    }
    return has;
}

/* Prefers gradients that are copied to the host and summed and squared on the host. */
static int likes_host(const struct ah_config *config)
{
    return (config->optimizer == AH_OPTIMIZER_HOST) + (config->accumulator == AH_ACCUMULATOR_HOST);
}

TEST(ranks, have_them_where_all_is_late)
{
    static const struct signature signatures[] = {{"gpt2-untied-odd", AH_FP32, AH_FP32},
                                                  {"llama-masked", AH_BF16, AH_BF16}};
    uint64_t seed = check_seed(79);
    pipeline.chosen = NULL;
    for (size_t i = 0; i < sizeof signatures / sizeof *signatures; i++) {
        uint64_t turn[AH_BLOCK_HEAD + 1] = {0};
        const double expected = run_alone(&signatures[i]);
        for (int k = 0; k < 2 * LATE_EACH; k++) {
            pipeline.likes = k % 2 ? likes_streamed : likes_host;
            wanted = k % 2 ? has_late_update : NULL;
            run_plan(signatures[i].name, expected, turn, &seed);
        }
        golden_close(&golden);
    }
    pipeline.likes = NULL;
    wanted = NULL;
}

/* ---- more stages than golden cases have blocks ---- */

static const struct deep {
    const char *layers, *micro_batches, *clip, *trainable;
    enum ah_dtype dtype, state_dtype;
} depths[] = {
    {"8", "8", "0.5", "[\"*\"]", AH_BF16, AH_BF16},
    {"7", "4", "0.0", "[\"*\", \"!embedding.*\", \"!layer.0.*\", \"!layer.1.*\"]", AH_FP32, AH_FP32},
    {"8", "2", "100.0", "[\"*\", \"!layer.3.*\", \"!head.*\"]", AH_BF16, AH_FP32},
};

static void replace(char *text, size_t bytes, const char *key, const char *value)
{
    char quoted[64];
    snprintf(quoted, sizeof quoted, "\"%s\": ", key);
    char *at = strstr(text, quoted);
    assert_non_null(at);
    at += strlen(quoted);
    char *end = *at == '[' ? strchr(at, ']') + 1 : at + strcspn(at, ",\n");
    const size_t rest = strlen(end) + 1, length = strlen(value);
    assert_true((size_t)(at - text) + length + rest <= bytes);
    memmove(at + length, end, rest);
    memcpy(at, value, length);
}

static void read_text(const char *name, char *ret_text, size_t bytes)
{
    char path[GOLDEN_PATH_MAX];
    struct ah_buffer text = {0};
    struct ah_error err = {0};
    snprintf(path, sizeof path, "tests/golden/train/llama-linear/%s", name);
    CHECK_OK(ah_file_read(path, bytes - 1, &text, &err), err);
    memcpy(ret_text, text.data, text.size);
    ret_text[text.size] = '\0';
    ah_buffer_release(&text);
}

static void write_text(const char *folder, const char *name, const char *text, size_t bytes)
{
    char path[GOLDEN_PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, bytes, file), bytes);
    assert_int_equal(fclose(file), 0);
}

/* Opens a golden case with the layers that `deep` lists, and fresh weights. */
static void open_deep(const struct deep *deep, char *folder)
{
    static const char *const names[] = {"config.json", "training.json", "data.bin"};
    static char text[1 << 16];
    struct ah_buffer data = {0};
    struct ah_error err = {0};
    assert_non_null(mkdtemp(folder));
    read_text("config.json", text, sizeof text);
    replace(text, sizeof text, "num_hidden_layers", deep->layers);
    write_text(folder, "config.json", text, strlen(text));
    read_text("training.json", text, sizeof text);
    replace(text, sizeof text, "batch", "8");
    replace(text, sizeof text, "micro_batches", deep->micro_batches);
    replace(text, sizeof text, "clip", deep->clip);
    replace(text, sizeof text, "trainable", deep->trainable);
    write_text(folder, "training.json", text, strlen(text));
    CHECK_OK(ah_file_read("tests/golden/train/llama-linear/data.bin", 1 << 24, &data, &err), err);
    write_text(folder, "data.bin", data.data, data.size < DEEP_DATA_BYTES ? data.size : DEEP_DATA_BYTES);
    ah_buffer_release(&data);
    golden_open_folder(&golden, folder, deep->dtype, deep->state_dtype);
    golden.options.weights = NULL;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(text, sizeof text, "%s/%s", folder, names[i]);
        if (i < 2) /* data are only read when they are needed */
            (void)unlink(text);
    }
}

static void remove_deep(const char *folder)
{
    char path[GOLDEN_PATH_MAX];
    snprintf(path, sizeof path, "%s/data.bin", folder);
    (void)unlink(path);
    (void)rmdir(folder);
}

TEST(ranks, have_them_in_up_to_eight_stages)
{
    uint64_t seed = check_seed(97);
    pipeline.chosen = NULL;
    memset(&seen, 0, sizeof seen);
    for (size_t i = 0; i < sizeof depths / sizeof *depths; i++) {
        uint64_t turn[AH_BLOCK_HEAD + 1] = {0};
        char folder[] = "/tmp/autohete-deep-XXXXXX";
        open_deep(&depths[i], folder);
        const double expected = train_alone();
        for (uint64_t k = 0; k < check_scaled(PLANS_EACH); k++) {
            run_plan(depths[i].layers, expected, turn, &seed);
            seen.stages[pipeline.n]++;
        }
        golden_close(&golden);
        remove_deep(folder);
    }
    for (size_t n = 2; n <= PIPELINE_STAGES && check_scaled(PLANS_EACH) >= PLANS_EACH; n++)
        assert_true(seen.stages[n] > 0);
}

/* ---- several pipelines ---- */

enum { GROUPS_MAX = 4, SHARED_PLANS_EACH = 8 };

struct shared {
    struct signature signature;
    uint64_t sums[GROUPS_MAX];
    uint64_t piece; /* elements summed at a time */
};

static void run_shared(const struct shared *shared, uint64_t *seed)
{
    uint64_t turn[AH_BLOCK_HEAD + 1] = {0}, sums[GROUPS_MAX], micro_batches = 0;
    memcpy(sums, shared->sums, sizeof sums);
    for (n_groups = 0; n_groups < GROUPS_MAX && sums[n_groups]; n_groups++)
        micro_batches += sums[n_groups];
    groups = sums;
    pipeline.share_piece = shared->piece;
    golden_open_as(&golden, shared->signature.name, shared->signature.dtype, shared->signature.state_dtype);
    bool apart = false; /* false: the groups are added in the order of a single group */
    for (size_t i = 1; i < n_groups; i++)
        apart = apart || sums[i] > 1;
    golden_regroup(&golden, micro_batches, apart ? sums : NULL, apart ? n_groups : 0);
    const double expected = train_alone();
    for (uint64_t i = 0; i < check_scaled(SHARED_PLANS_EACH); i++)
        run_plan(shared->signature.name, expected, turn, seed);
    golden_close(&golden);
    n_groups = 0;
}

TEST(ranks, of_several_pipelines_have_the_bits_of_one_process)
{
    static const struct shared all[] = {{{"gpt2-untied-odd", AH_FP32, AH_FP32}, {3, 3}, 0},
                                        {{"gpt2-untied-odd", AH_FP32, AH_FP32}, {1, 3, 2}, 512},
                                        {{"llama-linear", AH_FP32, AH_FP32}, {1, 1, 1, 1}, 0},
                                        {{"llama-linear", AH_FP32, AH_FP32}, {2, 2}, 1024},
                                        {{"llama", AH_BF16, AH_FP32}, {2, 2}, 0},
                                        {{"llama-frozen-below", AH_BF16, AH_FP32}, {1, 3}, 0},
                                        {{"mistral-documents", AH_BF16, AH_BF16}, {1, 1}, 640},
                                        {{"qwen2-frozen-tensors", AH_FP32, AH_FP32}, {2, 1, 1}, 0},
                                        {{"llama-masked", AH_BF16, AH_BF16}, {3, 1}, 0},
                                        {{"qwen3-norms-only", AH_FP32, AH_FP32}, {1, 1}, 0},
                                        {{"gpt2", AH_FP32, AH_FP32}, {2, 2}, 2048},
                                        {{"gpt2", AH_BF16, AH_BF16}, {1, 2, 1}, 384},
                                        {{"qwen3", AH_BF16, AH_FP32}, {1, 1, 1, 1}, 0},
                                        {{"llama-padding", AH_FP32, AH_FP32}, {1, 1}, 128},
                                        {{"gpt2-frozen-table", AH_BF16, AH_FP32}, {1, 3}, 0}};
    uint64_t seed = check_seed(47);
    plans = 0;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        run_shared(&all[i], &seed);
    print_message("%" PRIu64 " worlds of 2 to 4 pipelines\n", plans);
}

/* ---- gradients of -0.0 ---- */

/* Turns what the compute lane copies or adds to the sum of a block with this many elements into -0.0. If a sum began
 * with +0.0, it would stay +0.0, and so would the moment that should be -0.0. */
static void make_negative_zero(void *context, const struct hooked_op *op)
{
    const uint64_t *elements = context;
    const bool adds = op->op->kind == AH_OP_CAST || op->op->kind == AH_OP_ACCUMULATE;
    if (!adds || op->lane != AH_LANE_COMPUTE || op->op->u.elements.count != *elements)
        return;
    const struct ah_ref *ref = &op->op->arg[1];
    float *values = (float *)(void *)(op->arenas[ref->arena] + ref->offset_bytes);
    for (uint64_t i = 0; i < *elements; i++)
        values[i] = -0.0F;
}

struct zeros {
    uint64_t block;
    float values[GOLDEN_VALUES_MAX];
    size_t n;
};

static int move_moments(struct ah_trainer *trainer, struct zeros *zeros, bool writes, struct ah_error *err)
{
    const struct ah_flat flat =
        ah_flat_of(&golden.c.model, ah_job_block(&golden.c.job, zeros->block)->kind, UINT32_MAX);
    int rc = AH_OK;
    zeros->n = 0;
    for (size_t i = 0; i < flat.n && !rc; i++) {
        const struct ah_weights_piece piece = {.block = zeros->block,
                                               .tensor = i,
                                               .element = flat.tensors[i].first,
                                               .n = flat.tensors[i].elements};
        float *values = zeros->values + zeros->n;
        for (uint64_t k = 0; k < piece.n && writes; k++)
            values[k] = -0.0F;
        rc = writes ? ah_trainer_write(trainer, AH_TRAINER_M, &piece, values, err)
                    : ah_trainer_read(trainer, AH_TRAINER_M, &piece, values, err);
        zeros->n += piece.n;
    }
    return rc;
}

static int train_on_zeros(void *context, struct ah_trainer *trainer, struct ah_batches *held_out,
                          struct ah_error *err)
{
    struct zeros *zeros = context;
    (void)held_out;
    int rc = move_moments(trainer, zeros, true, err);
    rc = rc ? rc : ah_trainer_run(trainer, 2, NULL, err);
    return rc ? rc : move_moments(trainer, zeros, false, err);
}

static void expect_negative(const struct zeros *zeros, const char *who)
{
    assert_true(zeros->n > 0);
    for (size_t i = 0; i < zeros->n; i++)
        if (zeros->values[i] != 0 || !signbit(zeros->values[i]))
            fail_msg("%s: moment %zu of block %" PRIu64 " is %g", who, i, zeros->block,
                     (double)zeros->values[i]);
}

/* Prefers sums made on the device. */
static int likes_device_sums(const struct ah_config *config)
{
    return config->accumulator == AH_ACCUMULATOR_DEVICE;
}

TEST(ranks, keep_the_sign_of_gradients_that_are_negative_zeros)
{
    static struct zeros alone, together;
    static uint64_t sums[GROUPS_MAX];
    static const uint64_t groupings[][GROUPS_MAX] = {{2, 2}, {1, 1, 2}, {1, 3}};
    uint64_t seed = check_seed(53), turn[AH_BLOCK_HEAD + 1] = {0};
    pipeline.chosen = NULL;
    pipeline.likes = likes_device_sums;
    pipeline.share_piece = 512;
    for (size_t i = 0; i < sizeof groupings / sizeof *groupings; i++) {
        struct ah_error err = {0};
        struct ah_trainer *trainer;
        memcpy(sums, groupings[i], sizeof sums);
        golden_open_as(&golden, "llama-linear", AH_FP32, AH_FP32);
        golden_regroup(&golden, 4, sums, sums[2] ? 3 : 2);
        golden_plan_resident(&golden);
        alone.block = together.block = golden.c.job.n_blocks - 1; /* the head has a unique length */
        uint64_t elements = ah_job_block(&golden.c.job, alone.block)->trained_elements;
        hooked_set(&(struct hooked_hooks){.before = make_negative_zero, .context = &elements});
        golden.options.driver = hooked_driver();
        CHECK_OK(ah_trainer_open(&trainer, &golden.options, &err), err);
        CHECK_OK(train_on_zeros(&alone, trainer, NULL, &err), err);
        ah_trainer_close(trainer);
        golden.options.driver = ah_device_cpu();
        pipeline_open_groups(&pipeline, &golden, sums, sums[2] ? 3 : 2, PIPELINE_STAGES, turn, &seed);
        for (size_t rank = 0; rank < pipeline.n; rank++)
            pipeline.stages[rank].options.driver = hooked_driver();
        pipeline_run(&pipeline, &(struct ah_comm_hub_options){.poisons = true}, train_on_zeros, &together);
        pipeline_expect_ok(&pipeline);
        expect_negative(&alone, "one process");
        expect_negative(&together, "pipelines");
        assert_memory_equal(alone.values, together.values, alone.n * sizeof *alone.values);
        pipeline_close(&pipeline);
        golden_close(&golden);
    }
    pipeline.likes = NULL;
    pipeline.share_piece = 0;
}
