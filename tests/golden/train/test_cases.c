/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests golden cases under many plans. All plans of a case give equal bits. With $AH_TRAIN_RUNS, a folder, each case
 * writes its run there, for tests/tools/oracle.py --compare, and no other plans are tried (tests/tools/train_oracle.py
 * does both).
 */
#include "runtime/model/adapter.h"
#include "runtime/model/safetensors.h"
#include "runtime/schedule/graph.h"
#include "runtime/schedule/trainable.h"
#include "tests/golden/train/case.h"
#include "tests/support/hooked.h"

#include <math.h>
#include <sys/stat.h>

static const char *const names[] = {
    "gpt2",
    "gpt2-untied-odd",
    "gpt2-documents",
    "gpt2-frozen-table",
    "llama",
    "llama-biases",
    "llama-linear",
    "llama-llama3",
    "llama-masked",
    "llama-frozen-below",
    "llama-padding",
    "mistral-window",
    "mistral-documents",
    "qwen2",
    "qwen2-window-above",
    "qwen2-frozen-tensors",
    "qwen3",
    "qwen3-layer-types",
    "qwen3-norms-only",
    "gpt2-packed",
    "llama-packed",
    "llama-yarn",
    "qwen2-yarn",
    "olmo2",
    "olmo2-odd",
    "smollm3",
    "smollm3-windows",
    "phi3",
    "phi3-longrope",
    "phi3-partial",
    "gemma2",
    "gemma2-odd",
    "gemma3",
    "gemma3-odd",
    "gpt2-lora",
    "llama-lora",
    "qwen3-lora",
    "olmo2-lora",
    "smollm3-lora",
    "phi3-lora",
    "gemma2-lora",
    "gemma3-lora",
};

static struct golden golden;
static struct golden_result first, other;

/* ---- logits, which no run saves ---- */

enum { LOGITS_MAX = 1 << 13 };

/* The logits of the first sequence before the first step, in the chunks read by the loss. */
static struct {
    float values[LOGITS_MAX];
    uint64_t rows, vocabulary;
} logits;

static void keep_logits(void *context, const struct hooked_op *op)
{
    const struct ah_ref *from = &op->op->arg[1];
    const struct golden *g = context;
    if (op->op->kind != AH_OP_CROSS_ENTROPY || from->dtype != AH_FP32)
        return;
    logits.vocabulary = op->op->u.cross_entropy.vocabulary;
    assert_true(g->c.job.training.seq * logits.vocabulary <= LOGITS_MAX);
    uint64_t stride = from->row_stride ? from->row_stride : logits.vocabulary;
    const unsigned char *at = op->arenas[from->arena] + from->offset_bytes;
    const float cap = op->op->u.cross_entropy.soft_cap;
    for (uint64_t row = 0; row < op->op->u.cross_entropy.rows && logits.rows < g->c.job.training.seq; row++) {
        float *to = logits.values + logits.rows++ * logits.vocabulary;
        memcpy(to, at + row * stride * sizeof(float), logits.vocabulary * sizeof(float));
        for (uint64_t i = 0; cap > 0 && i < logits.vocabulary; i++)
            to[i] = cap * tanhf(to[i] / cap); /* the loss caps them itself */
    }
}

static void write_logits(const char *folder)
{
    char path[2 * GOLDEN_PATH_MAX];
    struct ah_safetensors_writer writer;
    struct ah_error err = {0};
    const struct ah_safetensors_spec spec = {
        .name = "logits", .shape = {logits.rows, logits.vocabulary}, .n_shape = 2};
    snprintf(path, sizeof path, "%s/logits.safetensors", folder);
    CHECK_OK(ah_safetensors_create(&writer, path, AH_FP32, &spec, 1, &err), err);
    CHECK_OK(ah_safetensors_write(&writer, 0, 0, logits.values, logits.rows * logits.vocabulary, &err), err);
    CHECK_OK(ah_safetensors_finish(&writer, &err), err);
    ah_safetensors_abandon(&writer);
}

/* ---- the run of a case, as files ---- */

struct values {
    const float *of;
    const struct golden *golden;
};

/* Gives the values of a piece. Each piece of a block begins where the previous one ends, without padding. */
static int give(void *context, const struct ah_weights_piece *piece, float *ret_values, struct ah_error *err)
{
    const struct values *values = context;
    const struct golden *g = values->golden;
    size_t at = piece->first;
    (void)err;
    for (uint64_t block = 0; block <= piece->block; block++) {
        struct ah_flat flat = ah_flat_of(&g->c.model, ah_job_block(&g->c.job, block)->kind, UINT32_MAX);
        for (size_t i = 0; i < (block < piece->block ? flat.n : piece->tensor); i++)
            at += flat.tensors[i].elements;
    }
    memcpy(ret_values, values->of + at, piece->n * sizeof *ret_values);
    return AH_OK;
}

/* Saves the model, or what is trained of it, and renames the file. */
static void save_as(const struct golden *g, const float *of, const uint32_t *adapter_of, const char *folder,
                    const char *name)
{
    char from[2 * GOLDEN_PATH_MAX], to[2 * GOLDEN_PATH_MAX];
    struct values values = {of, g};
    const struct ah_weights_source source = {give, &values};
    const struct ah_weights_options options = {.dtype = AH_FP32, .adapter_of = adapter_of};
    struct ah_error err = {0};
    CHECK_OK(ah_weights_save(&g->c.model, &source, &options, folder, &err), err);
    snprintf(from, sizeof from, "%s/%s", folder, adapter_of ? AH_WEIGHTS_ADAPTER : "model.safetensors");
    snprintf(to, sizeof to, "%s/%s%s.safetensors", folder, name, adapter_of ? "_adapter" : "");
    assert_int_equal(rename(from, to), 0);
}

static void find_trained(const struct golden *g, uint32_t ret_trained[TEST_BLOCKS_MAX])
{
    const struct ah_plan_training *training = &g->c.job.training;
    struct ah_error err = {0};
    CHECK_OK(ah_trainable_match(&g->c.model, training->trainable, training->n_trainable, ret_trained, &err),
             err);
}

static void save(const struct golden *g, const float *of, const char *folder, const char *name)
{
    uint32_t trained[TEST_BLOCKS_MAX];
    save_as(g, of, NULL, folder, name);
    if (!g->c.model.lora)
        return;
    find_trained(g, trained);
    save_as(g, of, trained, folder, name);
}

static void write_run(const struct golden *g, const struct golden_result *result, const char *name)
{
    char folder[GOLDEN_PATH_MAX], path[2 * GOLDEN_PATH_MAX];
    const char *runs = getenv("AH_TRAIN_RUNS");
    if (!runs)
        return;
    snprintf(folder, sizeof folder, "%s/%s", runs, name);
    assert_int_equal(mkdir(folder, 0777), 0);
    save(g, result->gradients, folder, "gradients");
    save(g, result->weights, folder, "final");
    write_logits(folder);
    snprintf(path, sizeof path, "%s/log.ndjson", folder);
    FILE *log = fopen(path, "w");
    assert_non_null(log);
    for (size_t i = 0; i < result->n_records; i++) {
        const struct ah_step_record *record = &result->records[i];
        fprintf(log, "{\"line\": \"step\", \"loss\": %.17g, \"lr\": %.17g, \"tokens\": %llu", record->loss,
                record->rate, (unsigned long long)record->tokens);
        if (g->c.job.training.clip > 0)
            fprintf(log, ", \"grad_norm\": %.17g", record->grad_norm);
        fprintf(log, "}\n");
    }
    assert_int_equal(fclose(log), 0);
}

/* ---- plans ---- */

static void describe(const struct golden *g, char *text, size_t size)
{
    const struct ah_knobs *knobs = &g->c.choice.knobs;
    size_t at =
        (size_t)snprintf(text, size, "%s, order %d, ahead %u, behind %u, rings %u %u %u:", g->folder,
                         (int)knobs->micro_order, knobs->fetch_ahead, knobs->send_behind,
                         knobs->host_gradient_tiles, knobs->host_weight_tiles, knobs->device_state_tiles);
    for (size_t block = 0; block < g->c.job.n_blocks && at < size; block++) {
        const struct ah_plan_block *it = &g->options.plan->blocks[block];
        at += (size_t)snprintf(text + at, size - at, " %s/%s/%s/%s", ah_words_activations[it->activations],
                               ah_words_weights[it->weights], ah_words_optimizer[it->optimizer],
                               ah_words_accumulator[it->accumulator]);
    }
}

static void expect_same(const struct golden *g)
{
    char text[2048];
    describe(g, text, sizeof text);
    for (size_t i = 0; i < first.n_values; i++)
        if (memcmp(&first.gradients[i], &other.gradients[i], sizeof(float)) != 0)
            fail_msg("gradient %zu: %.9g, resident %.9g; %s", i, (double)other.gradients[i],
                     (double)first.gradients[i], text);
    for (size_t i = 0; i < first.n_records; i++)
        if (memcmp(&first.records[i].loss, &other.records[i].loss, sizeof(double)) != 0)
            fail_msg("step %zu: loss %.17g, resident %.17g; %s", i + 1, other.records[i].loss,
                     first.records[i].loss, text);
    for (size_t i = 0; i < first.n_values; i++)
        if (memcmp(&first.weights[i], &other.weights[i], sizeof(float)) != 0)
            fail_msg("weight %zu: %.9g, resident %.9g; %s", i, (double)other.weights[i],
                     (double)first.weights[i], text);
}

static uint64_t how_many(void)
{
    return getenv("AH_TRAIN_RUNS") ? 0 : check_scaled(4);
}

/* Counts of what random plans contained. They show that equal results come from different plans. */
static struct {
    uint64_t activations[AH_ACTIVATIONS_RECOMPUTE + 1], weights[AH_WEIGHTS_HOST + 1];
    uint64_t optimizers[AH_OPTIMIZER_NONE + 1], accumulators[AH_ACCUMULATOR_HOST + 1];
    uint64_t orders[AH_BLOCK_MAJOR + 1], ops[AH_PLAN_GATHER + 1], rings[AH_GRAPH_RINGS], clipped;
} seen;

static void see(const struct ah_plan *plan)
{
    for (size_t i = 0; i < plan->n_blocks; i++) {
        seen.activations[plan->blocks[i].activations]++;
        seen.weights[plan->blocks[i].weights]++;
        seen.optimizers[plan->blocks[i].optimizer]++;
        seen.accumulators[plan->blocks[i].accumulator]++;
    }
    for (size_t i = 0; i < plan->n_ops; i++)
        seen.ops[plan->ops[i].op]++;
    seen.orders[plan->micro_batch_order] += plan->training.micro_batches > 1;
    seen.clipped += plan->training.clip > 0;
    seen.rings[AH_GRAPH_HOST_GRADIENTS] += plan->staging.host_gradient_tiles > 0;
    seen.rings[AH_GRAPH_HOST_WEIGHTS] += plan->staging.host_weight_tiles > 0;
    seen.rings[AH_GRAPH_DEVICE_STATES] += plan->staging.device_state_tiles > 0;
}

static void expect_all_seen(void)
{
    const uint64_t *counts = (const uint64_t *)(const void *)&seen;
    for (size_t i = 0; i < sizeof seen / sizeof *counts && how_many() >= 4; i++)
        if (!counts[i])
            fail_msg("count %zu of what plans have is 0", i);
    memset(&seen, 0, sizeof seen);
}

static void run_case(const char *name, enum ah_dtype dtype, bool writes, uint64_t plans, uint64_t *seed)
{
    bool narrow_states = dtype == AH_BF16 && *seed & 1;
    golden_open_as(&golden, name, dtype, narrow_states ? AH_BF16 : AH_FP32);
    golden_plan_resident(&golden);
    logits.rows = 0;
    hooked_set(&(struct hooked_hooks){.before = keep_logits, .context = &golden});
    golden.options.driver = writes ? hooked_driver() : ah_device_cpu();
    ah_trainer_close(golden_start(&golden, &first));
    golden.options.driver = ah_device_cpu();
    if (writes)
        write_run(&golden, &first, name);
    for (uint64_t i = 0; i < plans; i++) {
        golden_plan_random(&golden, seed);
        see(golden.options.plan);
        ah_trainer_close(golden_start(&golden, &other));
        expect_same(&golden);
    }
    golden_close(&golden);
}

TEST(cases, all_plans_give_the_same_bits)
{
    uint64_t seed = check_seed(20261121);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        run_case(names[i], AH_FP32, true, how_many(), &seed);
    expect_all_seen();
}

TEST(cases, all_plans_give_the_same_bits_in_bf16)
{
    uint64_t seed = check_seed(7);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        run_case(names[i], AH_BF16, false, how_many(), &seed);
    expect_all_seen();
}

TEST(cases, adapters_have_the_config_that_would_be_saved)
{
    uint64_t n = 0;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[GOLDEN_PATH_MAX + 32];
        uint32_t trained[TEST_BLOCKS_MAX];
        struct ah_buffer printed = {0}, file = {0};
        struct ah_error err = {0};
        golden_open(&golden, names[i], AH_FP32);
        if (golden.c.model.lora) {
            find_trained(&golden, trained);
            snprintf(path, sizeof path, "%s/" AH_WEIGHTS_ADAPTER_CONFIG, golden.folder);
            CHECK_OK(ah_adapter_print(&golden.c.model, trained, NULL, &printed, &err), err);
            CHECK_OK(ah_file_read(path, 1 << 20, &file, &err), err);
            assert_int_equal(printed.size, file.size);
            assert_memory_equal(printed.data, file.data, file.size);
            ah_buffer_release(&printed);
            ah_buffer_release(&file);
            n++;
        }
        golden_close(&golden);
    }
    assert_true(n > 0);
}
