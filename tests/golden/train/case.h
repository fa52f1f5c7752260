/* SPDX-License-Identifier: Apache-2.0
 *
 * A golden training case (README.md here), run by the trainer on the CPU device under plans made of choices.
 *
 *     static struct golden golden;
 *     golden_open(&golden, "gpt2", AH_FP32);
 *     golden_plan_resident(&golden);              // or golden_plan_random(&golden, &seed)
 *     golden_train(&golden, &result);             // losses of all steps, weights and first gradient
 *     golden_close(&golden);
 */
#ifndef AH_TESTS_GOLDEN_TRAIN_CASE_H
#define AH_TESTS_GOLDEN_TRAIN_CASE_H

#include "base/file.h"
#include "runtime/schedule/flat.h"
#include "runtime/train/trainer.h"
#include "tests/property/schedule/choices.h"
#include "tests/support/documents.h"

#include <stdio.h>
#include <stdlib.h>

enum { GOLDEN_STEPS_MAX = 200, GOLDEN_VALUES_MAX = 1 << 16, GOLDEN_PATH_MAX = 512 };

struct golden {
    char folder[GOLDEN_PATH_MAX];
    char *text; /* contents of training.json */
    struct ah_document model;
    struct ah_model_lora lora; /* used if the case has adapters */
    unsigned lora_on[AH_LORA_MATRICES];
    struct test_case c;
    struct ah_schedule schedule;
    struct ah_document plan;
    bool is_planned;
    struct ah_dataset *data;
    struct ah_batches batches;
    struct ah_trainer_options options;
    uint64_t steps;
};

struct golden_result {
    struct ah_step_record records[GOLDEN_STEPS_MAX];
    size_t n_records;
    float weights[GOLDEN_VALUES_MAX];
    float gradients[GOLDEN_VALUES_MAX]; /* of the first step, before clipping */
    size_t n_values;
};

/* ---- the case ---- */

static inline const char *golden_find(const struct golden *g, const char *key)
{
    char quoted[64];
    snprintf(quoted, sizeof quoted, "\"%s\": ", key);
    const char *at = strstr(g->text, quoted);
    assert_non_null(at);
    return at + strlen(quoted);
}

static inline double golden_number(const struct golden *g, const char *key)
{
    return strtod(golden_find(g, key), NULL);
}

/* Reads a list of texts, which are in the arena, and returns their number. */
static inline size_t golden_list(struct golden *g, const char *key, const char **ret_items, size_t max)
{
    const char *at = golden_find(g, key), *end = strchr(at, ']');
    size_t n = 0;
    while ((at = strchr(at, '"')) && at < end) {
        const char *close = strchr(at + 1, '"');
        assert_true(n < max);
        ret_items[n++] = ah_arena_strndup(&g->c.arena, at + 1, (size_t)(close - at - 1));
        at = close + 1;
    }
    return n;
}

/* Gives the model the case's adapters, if it has any. */
static inline void golden_read_lora(struct golden *g)
{
    const char *words[AH_LORA_MATRICES];
    if (!strstr(g->text, "\"lora_rank\": "))
        return;
    bool standard = !strncmp(golden_find(g, "lora_scaling"), "\"standard\"", 10);
    g->lora = (struct ah_model_lora){.rank = (uint64_t)golden_number(g, "lora_rank"),
                                     .alpha = golden_number(g, "lora_alpha"),
                                     .scaling = standard ? AH_LORA_STANDARD : AH_LORA_RANK_STABILIZED,
                                     .on = g->lora_on};
    g->lora.n_on = golden_list(g, "lora_on", words, AH_LORA_MATRICES);
    for (size_t i = 0; i < g->lora.n_on; i++)
        while (strcmp(words[i], ah_words_lora[g->lora_on[i]]) != 0)
            assert_true(++g->lora_on[i] < AH_LORA_MATRICES);
    g->model.body.model->lora = &g->lora;
    g->options.adapter = g->folder;
}

static inline void golden_read_training(struct golden *g)
{
    struct ah_trainer_options *options = &g->options;
    bool cosine = !strncmp(golden_find(g, "schedule"), "\"cosine\"", 8);
    g->steps = (uint64_t)golden_number(g, "steps");
    options->rate = (struct ah_rate){.schedule = cosine ? AH_RATE_COSINE : AH_RATE_CONSTANT,
                                     .lr = golden_number(g, "lr"),
                                     .floor = golden_number(g, "floor"),
                                     .warmup_steps = (uint64_t)golden_number(g, "warmup_steps"),
                                     .steps = g->steps};
    options->beta1 = golden_number(g, "beta1");
    options->beta2 = golden_number(g, "beta2");
    options->epsilon = golden_number(g, "epsilon");
    options->weight_decay = golden_number(g, "weight_decay");
    options->seed = (uint64_t)golden_number(g, "seed");
}

static inline void golden_string(const struct golden *g, const char *key, char ret_text[GOLDEN_PATH_MAX])
{
    const char *at = golden_find(g, key);
    assert_int_equal(*at++, '"');
    snprintf(ret_text, GOLDEN_PATH_MAX, "%.*s", (int)strcspn(at, "\""), at);
}

/* Opens the tokens named by a key of training.json. A .txt file has bytes, data.bin 16-bit numbers, any other file a
 * header. */
static inline void golden_open_dataset(const struct golden *g, const char *key, struct ah_dataset **ret_data)
{
    struct ah_error err = {0};
    char name[GOLDEN_PATH_MAX], path[2 * GOLDEN_PATH_MAX + 1];
    const char *paths[] = {path};
    golden_string(g, key, name);
    snprintf(path, sizeof path, "%s/%s", g->folder, name);
    CHECK_OK(
        ah_dataset_open(ret_data,
                        &(struct ah_dataset_options){.paths = paths,
                                                     .n_paths = 1,
                                                     .format = strstr(name, ".txt")       ? AH_DATASET_BYTES
                                                               : strcmp(name, "data.bin") ? AH_DATASET_HEADED
                                                                                          : AH_DATASET_U16,
                                                     .vocabulary = g->c.model.vocabulary},
                        &err),
        err);
}

static inline void golden_open_data(struct golden *g)
{
    struct ah_error err = {0};
    golden_open_dataset(g, "data", &g->data);
    CHECK_OK(ah_batches_init(&g->batches,
                             &(struct ah_batches_options){.data = g->data,
                                                          .seq = g->c.job.training.seq,
                                                          .batch = g->c.job.training.batch,
                                                          .seed = g->options.seed},
                             &err),
             err);
}

/* How a step is divided. A batch of 0 means as in the case. */
struct golden_batch {
    uint64_t batch, micro_batches;
};

static inline void golden_open_batch(struct golden *g, const char *folder, enum ah_dtype dtype,
                                     enum ah_dtype state_dtype, struct golden_batch batch)
{
    struct ah_error err = {0};
    char path[GOLDEN_PATH_MAX + 16];
    struct ah_buffer text = {0};
    memset(g, 0, sizeof *g);
    snprintf(g->folder, sizeof g->folder, "%s", folder);
    snprintf(path, sizeof path, "%s/config.json", g->folder);
    load_document(&g->model, path, AH_DOCUMENT_MODEL);
    snprintf(path, sizeof path, "%s/training.json", g->folder);
    CHECK_OK(ah_file_read(path, 1 << 20, &text, &err), err);
    g->text = calloc(text.size + 1, 1);
    assert_non_null(g->text);
    memcpy(g->text, text.data, text.size);
    ah_buffer_release(&text);
    golden_read_lora(g);
    g->c.model = *g->model.body.model;
    golden_read_training(g);
    if (!batch.batch)
        batch = (struct golden_batch){(uint64_t)golden_number(g, "batch"),
                                      (uint64_t)golden_number(g, "micro_batches")};
    test_case_job(&g->c,
                  (struct ah_plan_training){.batch = batch.batch,
                                            .micro_batches = batch.micro_batches,
                                            .seq = (uint64_t)golden_number(g, "seq"),
                                            .dtype = dtype,
                                            .state_dtype = state_dtype,
                                            .clip = golden_number(g, "clip")},
                  golden_list(g, "trainable", g->c.patterns, TEST_PATTERNS_MAX));
    test_case_costs(&g->c, 100, 100, 200);
    CHECK_OK(ah_schedule_init(&g->schedule, &g->c.job, &err), err);
    golden_open_data(g);
    g->options.model = g->model.body.model;
    g->options.driver = ah_device_cpu();
    g->options.device = (struct ah_device_options){.compute_threads = 1, .host_threads = 1};
    g->options.batches = &g->batches;
    g->options.weights = g->folder;
}

static inline void golden_open_folder(struct golden *g, const char *folder, enum ah_dtype dtype,
                                      enum ah_dtype state_dtype)
{
    golden_open_batch(g, folder, dtype, state_dtype, (struct golden_batch){0});
}

static inline void golden_open_as(struct golden *g, const char *name, enum ah_dtype dtype,
                                  enum ah_dtype state_dtype)
{
    char folder[GOLDEN_PATH_MAX];
    snprintf(folder, sizeof folder, "tests/golden/train/%s", name);
    golden_open_folder(g, folder, dtype, state_dtype);
}

static inline void golden_open(struct golden *g, const char *name, enum ah_dtype dtype)
{
    golden_open_as(g, name, dtype, AH_FP32);
}

/* Divides the batch into `micro_batches`, summed in these groups. `sums` stays borrowed. */
static inline void golden_regroup(struct golden *g, uint64_t micro_batches, uint64_t *sums, size_t n_sums)
{
    struct ah_plan_training training = g->c.job.training;
    training.micro_batches = micro_batches;
    training.sums = sums;
    training.n_sums = n_sums;
    test_case_job(&g->c, training, training.n_trainable);
    test_case_costs(&g->c, 100, 100, 200);
}

/* If a trained table is tied, splits it into one for the embedding and one for the head, as ranks do. */
static inline void golden_split(struct golden *g)
{
    struct ah_plan_training training = g->c.job.training;
    if (!g->c.model.tied || !g->c.job.table_trained)
        return;
    training.tied = AH_TIED_SPLIT;
    test_case_job(&g->c, training, training.n_trainable);
    test_case_costs(&g->c, 100, 100, 200);
}

static inline void golden_close(struct golden *g)
{
    if (g->is_planned)
        ah_document_release(&g->plan);
    ah_batches_release(&g->batches);
    ah_dataset_close(g->data);
    ah_schedule_release(&g->schedule);
    test_case_close(&g->c);
    ah_document_release(&g->model);
    free(g->text);
}

/* ---- plans ---- */

/* Plans g->c.choice. Returns false if the order of the choice cannot run. */
static inline bool golden_plan(struct golden *g)
{
    struct ah_error err = {0};
    struct ah_score score;
    int rc = ah_schedule_evaluate(&g->schedule, &g->c.choice, &score, &err);
    if (rc == AH_E_FAILED)
        return false;
    CHECK_OK(rc, err);
    if (g->is_planned)
        ah_document_release(&g->plan);
    test_case_emit(&g->c, &g->schedule, &g->plan);
    g->is_planned = true;
    g->options.plan = g->plan.body.plan;
    return true;
}

/* Plans everything on the device, with nothing recomputed. */
static inline void golden_plan_resident(struct golden *g)
{
    struct ah_config options[AH_CONFIGS_MAX];
    for (size_t block = 0; block < g->c.job.n_blocks; block++) {
        ah_configs(&g->c.job, ah_job_block(&g->c.job, block), options);
        g->c.configs[block] = options[0];
    }
    g->c.choice.knobs = (struct ah_knobs){.tile_elements = AH_PLAN_TILE_UNIT};
    assert_true(golden_plan(g));
}

/* Chooses the next config for each block, counted by the kind of block, so that plans go through all configs. */
static inline void golden_choose_next(struct golden *g, uint64_t *turn)
{
    struct ah_config options[AH_CONFIGS_MAX];
    for (size_t block = 0; block < g->c.job.n_blocks; block++) {
        const struct ah_job_group *group = ah_job_block(&g->c.job, block);
        size_t n = ah_configs(&g->c.job, group, options);
        g->c.configs[block] = options[(turn[group->kind] + block) % n];
    }
    for (int kind = 0; kind <= AH_BLOCK_HEAD; kind++)
        turn[kind]++;
}

/* Plans random configs for all blocks, and random knobs. */
static inline void golden_plan_random(struct golden *g, uint64_t *seed)
{
    do {
        test_case_choose(&g->c, seed);
        g->c.choice.knobs.tile_elements = AH_PLAN_TILE_UNIT;
    } while (!golden_plan(g));
}

/* ---- training ---- */

static inline bool golden_keep_record(void *context, const struct ah_step_record *record)
{
    struct golden_result *result = context;
    result->records[result->n_records++] = *record;
    return true;
}

/* Appends every parameter of a block, in flat order, to the parameters of the blocks before it. */
static inline int golden_read_block(struct golden *g, struct ah_trainer *trainer,
                                    enum ah_trainer_vector vector, uint64_t block, float *values, size_t *n,
                                    struct ah_error *err)
{
    struct ah_flat flat = ah_flat_of(&g->c.model, ah_job_block(&g->c.job, block)->kind, UINT32_MAX);
    int rc = AH_OK;
    *n = block ? *n : 0;
    for (size_t i = 0; i < flat.n && !rc; i++) {
        const struct ah_weights_piece piece = {
            .block = block, .tensor = i, .element = flat.tensors[i].first, .n = flat.tensors[i].elements};
        assert_true(*n + piece.n <= GOLDEN_VALUES_MAX);
        rc = ah_trainer_read(trainer, vector, &piece, values + *n, err);
        *n += piece.n;
    }
    return rc;
}

static inline void golden_read(struct golden *g, struct ah_trainer *trainer, enum ah_trainer_vector vector,
                               float *values, size_t *ret_n)
{
    struct ah_error err = {0};
    for (uint64_t block = 0; block < g->c.job.n_blocks; block++)
        CHECK_OK(golden_read_block(g, trainer, vector, block, values, ret_n, &err), err);
}

/* Computes the first gradient. The first moment after the first step is (1 - beta1) times the clipped gradient. */
static inline void golden_first_gradient(struct golden *g, struct ah_trainer *trainer,
                                         struct golden_result *result)
{
    double clip = g->c.job.training.clip, norm = result->records[0].grad_norm;
    double factor = clip > 0 && clip < norm + 1e-6 ? clip / (norm + 1e-6) : 1;
    double rest = (double)(1.0F - (float)g->options.beta1);
    golden_read(g, trainer, AH_TRAINER_M, result->gradients, &result->n_values);
    for (size_t i = 0; i < result->n_values; i++)
        result->gradients[i] = (float)((double)result->gradients[i] / rest / factor);
}

/* Runs the first step separately, so that its gradient can be read, and then the other steps. */
static inline struct ah_trainer *golden_start(struct golden *g, struct golden_result *result)
{
    struct ah_error err = {0};
    struct ah_trainer *trainer;
    const struct ah_observer observer = {.step = golden_keep_record, .context = result};
    result->n_records = 0;
    CHECK_OK(ah_trainer_open(&trainer, &g->options, &err), err);
    CHECK_OK(ah_trainer_run(trainer, 1, &observer, &err), err);
    golden_first_gradient(g, trainer, result);
    CHECK_OK(ah_trainer_run(trainer, g->steps - 1, &observer, &err), err);
    golden_read(g, trainer, AH_TRAINER_WEIGHTS, result->weights, &result->n_values);
    assert_int_equal(result->n_records, g->steps);
    return trainer;
}

/* Returns the held-out loss on `data`, in order. */
static inline double golden_loss_of(struct golden *g, struct ah_trainer *trainer, struct ah_dataset *data)
{
    struct ah_error err = {0};
    struct ah_batches batches;
    struct ah_trainer_evaluation evaluation;
    CHECK_OK(ah_batches_init(&batches,
                             &(struct ah_batches_options){.data = data,
                                                          .seq = g->c.job.training.seq,
                                                          .batch = g->c.job.training.batch,
                                                          .held_out = true},
                             &err),
             err);
    CHECK_OK(ah_trainer_evaluate(trainer, &batches, NULL, &evaluation, &err), err);
    ah_batches_release(&batches);
    return evaluation.loss;
}

static inline double golden_held_out_loss(struct golden *g, struct ah_trainer *trainer)
{
    return golden_loss_of(g, trainer, g->data);
}

#endif
