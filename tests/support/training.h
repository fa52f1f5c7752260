/* SPDX-License-Identifier: Apache-2.0
 *
 * A small run for tests of saving and loading: a model of two layers, its signature, weights and states. Every value
 * depends on (step, block, vector, place), so that a wrong value is noticed.
 *
 *     struct training run;
 *     training_init(&run, &(struct training_options){.state_dtype = AH_BF16});
 *     rc = ah_checkpoint_save(&run.job, training_at(&run, 7), &run.source, path, err);
 *     rc = ah_checkpoint_load(&run.job, &run.sink, path, &position, err);
 *     assert_string_equal(training_wrong(&run, 7), "");
 *     training_release(&run);
 */
#ifndef AH_TESTS_SUPPORT_TRAINING_H
#define AH_TESTS_SUPPORT_TRAINING_H

#include "base/bf16.h"
#include "runtime/schedule/flat.h"
#include "runtime/schedule/trainable.h"
#include "runtime/train/checkpoint/checkpoints.h"
#include "runtime/train/checkpoint/shared.h"
#include "schemas/document.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TRAINING_BLOCKS = 4, TRAINING_VECTORS = 4 /* the last: weights */, TRAINING_PATTERNS = 2 };

struct training_options {
    enum ah_dtype dtype, state_dtype;
    unsigned vocabulary; /* 0 means 50 */
    const char *frozen;  /* (optional) pattern of the frozen tensors, beginning with '!' */
    uint64_t file_bytes;
    unsigned owners; /* if not 0: ranks that save and load together, blocks in turn */
};

struct training {
    struct ah_document model;
    struct ah_signature_run chosen;
    struct ah_signature signature;
    const char *patterns[TRAINING_PATTERNS];
    struct ah_checkpoint_job job;
    struct ah_checkpoint_source source;
    struct ah_checkpoint_sink sink;
    struct ah_checkpoint_position position;
    struct ah_flat flat[TRAINING_BLOCKS];
    unsigned owners, owner;                                  /* number of owners; the one being played */
    uint64_t step;                                           /* values belong to this step */
    unsigned char *taken[TRAINING_BLOCKS][TRAINING_VECTORS]; /* loaded values, in their stored type */
    uint64_t n_taken[TRAINING_BLOCKS][TRAINING_VECTORS];     /* number of elements loaded */
    char wrong[128];
};

/* Returns 32 bits unique to the place. They are a finite number as fp32, and their upper half is one as bf16. */
static inline uint32_t training_bits(uint64_t step, uint64_t block, uint64_t vector, uint64_t place)
{
    uint64_t x = (step * 8191 + block * 131 + vector * 17 + 1) * UINT64_C(0x9E3779B97F4A7C15) + place;
    x = (x ^ x >> 31) * UINT64_C(0xBF58476D1CE4E5B9);
    x = (x ^ x >> 27) * UINT64_C(0x94D049BB133111EB);
    return (uint32_t)(x >> 32) & 0xBFFFFFFFu; /* clears the exponent's top bit, so the number is finite */
}

static inline float training_weight(uint64_t step, uint64_t block, uint64_t place)
{
    uint32_t bits = training_bits(step, block, 3, place);
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline void training_put(uint64_t step, const struct ah_checkpoint_piece *piece, void *values)
{
    for (uint64_t i = 0; i < piece->n; i++) {
        uint32_t bits = training_bits(step, piece->block, (uint64_t)piece->vector, piece->first + i);
        uint16_t half = (uint16_t)(bits >> 16);
        if (piece->dtype == AH_FP32)
            memcpy((char *)values + 4 * i, &bits, 4);
        else
            memcpy((char *)values + 2 * i, &half, 2);
    }
}

static inline int training_give(void *context, const struct ah_checkpoint_piece *piece, void *ret_values,
                                struct ah_error *err)
{
    (void)err;
    training_put(((struct training *)context)->step, piece, ret_values);
    return AH_OK;
}

static inline int training_give_weights(void *context, const struct ah_weights_piece *piece,
                                        float *ret_values, struct ah_error *err)
{
    (void)err;
    for (uint64_t i = 0; i < piece->n; i++)
        ret_values[i] = training_weight(((struct training *)context)->step, piece->block, piece->element + i);
    return AH_OK;
}

static inline int training_take(void *context, const struct ah_checkpoint_piece *piece, const void *values,
                                struct ah_error *err)
{
    struct training *run = context;
    size_t bytes = ah_dtype_bytes(piece->dtype);
    (void)err;
    memcpy(run->taken[piece->block][piece->vector] + piece->first * bytes, values, piece->n * bytes);
    run->n_taken[piece->block][piece->vector] += piece->n;
    return AH_OK;
}

static inline int training_take_weights(void *context, const struct ah_weights_piece *piece,
                                        const float *values, struct ah_error *err)
{
    struct training *run = context;
    (void)err;
    memcpy(run->taken[piece->block][3] + piece->element * 4, values, piece->n * 4);
    run->n_taken[piece->block][3] += piece->n;
    return AH_OK;
}

/* ---- owners, one after another in this process ---- */

enum { TRAINING_OWNERS_MAX = 4 };

static inline bool training_keeps(const void *context, uint64_t block)
{
    const struct training *run = context;
    return block % run->owners == run->owner;
}

static inline int training_meet(void *context, const char *folder, bool *ret_together, struct ah_error *err)
{
    const struct training *run = context;
    const bool answered[TRAINING_OWNERS_MAX] = {true, true, true, true};
    char token[AH_SHARED_TOKEN_MAX] = "";
    (void)ah_shared_offer(folder, token);
    for (unsigned owner = 1; owner < run->owners; owner++)
        (void)ah_shared_answer(folder, token, owner, 0);
    return ah_shared_check(folder, token, answered, run->owners, ret_together, err);
}

static inline int training_fill(void *context, const struct ah_checkpoint_job *job, const char *folder,
                                struct ah_error *err)
{
    struct training *run = context;
    const struct ah_weights_part part = {training_keeps, run};
    int rc = AH_OK;
    for (run->owner = 0; run->owner < run->owners && !rc; run->owner++)
        rc = ah_checkpoint_fill(job, &run->source, &part, folder, err);
    return rc;
}

static inline int training_hash_given(void *context, const struct ah_checkpoint_job *job, uint64_t block,
                                      struct ah_sha256 *hash, struct ah_error *err)
{
    return ah_checkpoint_hash(job, &((struct training *)context)->source, block, hash, err);
}

static inline int training_same(void *context, const char *folder, const char *sha256, bool *ret_together,
                                struct ah_error *err)
{
    (void)context, (void)err;
    *ret_together = ah_checkpoint_is(folder, sha256);
    return AH_OK;
}

static inline int training_read(void *context, const struct ah_checkpoint_job *job, const char *folder,
                                struct ah_error *err)
{
    struct training *run = context;
    struct ah_checkpoint_sink own = run->sink;
    int rc = AH_OK;
    own.weights.wants = training_keeps;
    for (run->owner = 0; run->owner < run->owners && !rc; run->owner++)
        rc = ah_checkpoint_read(job, &own, folder, err);
    return rc;
}

static inline int training_give_taken(void *context, const struct ah_checkpoint_piece *piece,
                                      void *ret_values, struct ah_error *err)
{
    const struct training *run = context;
    size_t bytes = ah_dtype_bytes(piece->dtype);
    (void)err;
    memcpy(ret_values, run->taken[piece->block][piece->vector] + piece->first * bytes, piece->n * bytes);
    return AH_OK;
}

static inline int training_hash_taken(void *context, const struct ah_checkpoint_job *job, uint64_t block,
                                      struct ah_sha256 *hash, struct ah_error *err)
{
    struct ah_checkpoint_source taken = ((struct training *)context)->source;
    taken.give = training_give_taken;
    return ah_checkpoint_hash(job, &taken, block, hash, err);
}

static inline int training_spread(void *context, struct ah_error *err)
{
    (void)context, (void)err;
    return AH_OK;
}

static inline const struct ah_checkpoint_together *training_together(bool loads)
{
    static const struct ah_checkpoint_together saving = {.meet = training_meet,
                                                         .fill = training_fill,
                                                         .hash = training_hash_given},
                                               loading = {.same = training_same,
                                                          .read = training_read,
                                                          .hash = training_hash_taken,
                                                          .spread = training_spread};
    return loads ? &loading : &saving;
}

/* ---- the run ---- */

static inline void training_require(int holds, const char *what)
{
    if (!holds) {
        fprintf(stderr, "training: %s\n", what);
        abort();
    }
}

static inline void training_parse(struct training *run, unsigned vocabulary)
{
    char text[512];
    struct ah_error err = {0};
    snprintf(text, sizeof text,
             "{\"model_type\":\"qwen3\",\"hidden_size\":24,\"num_hidden_layers\":2,"
             "\"num_attention_heads\":4,\"num_key_value_heads\":2,\"head_dim\":6,\"intermediate_size\":40,"
             "\"vocab_size\":%u,\"max_position_embeddings\":32,\"tie_word_embeddings\":true}",
             vocabulary ? vocabulary : 50);
    training_require(
        !ah_document_parse(&run->model, "config.json", text, strlen(text), AH_DOCUMENT_MODEL, &err),
        err.text);
}

static inline void training_sign(struct training *run, const struct training_options *options)
{
    run->patterns[0] = "*";
    run->patterns[1] = options->frozen;
    run->chosen = (struct ah_signature_run){
        .seed = 42,
        .data_sha256 = "dddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddd",
        .schedule = "cosine",
        .lr = 3e-4,
        .beta1 = 0.9,
        .beta2 = 0.95,
        .epsilon = 1e-8,
        .weight_decay = 0.1,
        .warmup_steps = 3,
        .steps = 100};
    run->signature = (struct ah_signature){
        .model_sha256 = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
        .trainable = run->patterns,
        .n_trainable = options->frozen ? 2 : 1,
        .dtype = options->dtype,
        .state_dtype = options->state_dtype,
        .batch = 8,
        .micro_batches = 2,
        .seq = 16,
        .clip = 1,
        .device = AH_DEVICE_CPU,
        .run = &run->chosen};
}

static inline void training_init(struct training *run, const struct training_options *options)
{
    uint32_t trained[TRAINING_BLOCKS];
    memset(run, 0, sizeof *run);
    training_parse(run, options->vocabulary);
    training_sign(run, options);
    const struct ah_model *model = run->model.body.model;
    training_require(
        !ah_trainable_match(model, run->signature.trainable, run->signature.n_trainable, trained, NULL),
        "no such tensors");
    for (uint64_t b = 0; b < TRAINING_BLOCKS; b++) {
        run->flat[b] = ah_flat_of(model, ah_model_block_kind(model, b), trained[b]);
        for (int v = 0; v < TRAINING_VECTORS; v++) {
            run->taken[b][v] = calloc(run->flat[b].elements + 1, 4);
            training_require(run->taken[b][v] != NULL, "out of memory");
        }
    }
    run->job = (struct ah_checkpoint_job){.model = model,
                                          .signature = &run->signature,
                                          .config = "{\"model_type\": \"qwen3\"}\n",
                                          .file_bytes = options->file_bytes};
    run->owners = options->owners;
    run->source = (struct ah_checkpoint_source){
        {training_give_weights, run}, training_give, run, options->owners ? training_together(false) : NULL};
    run->sink = (struct ah_checkpoint_sink){.weights = {.take = training_take_weights, .context = run},
                                            .take = training_take,
                                            .context = run,
                                            .together = options->owners ? training_together(true) : NULL};
}

/* Returns the position after `step` steps. From now on the run gives that step's values. */
static inline const struct ah_checkpoint_position *training_at(struct training *run, uint64_t step)
{
    run->step = step;
    run->position = (struct ah_checkpoint_position){step, 8 * step, 128 * step - step};
    return &run->position;
}

/* Returns which loaded value differs from those of `step`; "": none does. Forgets the loaded values. */
static inline const char *training_wrong(struct training *run, uint64_t step)
{
    run->wrong[0] = '\0';
    for (uint64_t b = 0; b < TRAINING_BLOCKS; b++)
        for (uint64_t v = 0; v < TRAINING_VECTORS; v++) {
            const struct ah_flat *flat = &run->flat[b];
            enum ah_dtype dtype = v == 1 || v == 2 ? run->signature.state_dtype : AH_FP32;
            uint64_t n = v == 3 ? flat->parameters : flat->trained_elements;
            if (run->n_taken[b][v] != n)
                snprintf(run->wrong, sizeof run->wrong, "block %d vector %d: %llu elements", (int)b, (int)v,
                         (unsigned long long)run->n_taken[b][v]);
            run->n_taken[b][v] = 0;
            for (uint64_t i = 0; i < n && v < 3; i++) {
                uint32_t expected = training_bits(step, b, v, i), has = 0;
                memcpy(&has, run->taken[b][v] + i * ah_dtype_bytes(dtype), ah_dtype_bytes(dtype));
                if (has != (dtype == AH_FP32 ? expected : expected >> 16))
                    snprintf(run->wrong, sizeof run->wrong, "block %d vector %d element %llu", (int)b, (int)v,
                             (unsigned long long)i);
            }
        }
    for (uint64_t b = 0; b < TRAINING_BLOCKS; b++)
        for (size_t t = 0; t < run->flat[b].n; t++)
            for (uint64_t i = 0; i < run->flat[b].tensors[t].elements; i++) {
                uint64_t at = run->flat[b].tensors[t].first + i;
                float expected = training_weight(step, b, at);
                if (run->signature.dtype == AH_BF16)
                    expected = ah_bf16_to_fp32(ah_bf16_from_fp32(expected));
                if (memcmp(&expected, run->taken[b][3] + 4 * at, 4) != 0)
                    snprintf(run->wrong, sizeof run->wrong, "block %d weight %llu", (int)b,
                             (unsigned long long)at);
            }
    return run->wrong;
}

/* Does the work of `--resume path`: finds and loads a checkpoint, an older one if the newest is damaged. */
static inline int training_resume(struct training *run, const char *path,
                                  struct ah_checkpoints_found *ret_found,
                                  struct ah_checkpoint_position *ret_position, struct ah_error *err)
{
    int rc = ah_checkpoints_find(path, ret_found, err);
    if (!rc && !ret_found->path[0])
        rc = ah_error_set(err, AH_E_IO, "%s has no checkpoint in it", path);
    if (!rc)
        rc = ah_checkpoints_resume(&run->job, &run->sink, ret_found, ret_position, err);
    if (rc == AH_E_DOCUMENT && ret_found->again) {
        training_wrong(run, 0); /* forgets the loaded values */
        rc = ah_checkpoints_resume(&run->job, &run->sink, ret_found, ret_position, err);
    }
    return rc;
}

static inline void training_release(struct training *run)
{
    for (int b = 0; b < TRAINING_BLOCKS; b++)
        for (int v = 0; v < TRAINING_VECTORS; v++)
            free(run->taken[b][v]);
    ah_document_release(&run->model);
}

#endif
