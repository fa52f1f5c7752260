/* SPDX-License-Identifier: Apache-2.0
 *
 * Jobs for tests, from the example models.
 *
 *     struct test_job j;
 *     test_job_open(&j, "llama-2-7b", (struct ah_plan_training){.batch = 1, .micro_batches = 1, .seq = 64});
 *     use(&j.job);
 *     test_job_close(&j);
 */
#ifndef AH_TESTS_PROPERTY_SCHEDULE_JOBS_H
#define AH_TESTS_PROPERTY_SCHEDULE_JOBS_H

#include "runtime/schedule/job.h"
#include "tests/support/documents.h"

#include <string.h>

static const char *const test_models[] = {
    "gpt-10b",    "gpt-12b",    "gpt-16b",       "gpt-22b",    "gpt-2b",     "gpt-4b",      "gpt-6b",
    "gpt-8b",     "gpt2-1.5b",  "gpt2-124m",     "gpt2-355m",  "gpt2-774m",  "llama-2-13b", "llama-2-7b",
    "llama-3-8b", "mistral-7b", "qwen2.5-0.5b",  "qwen2.5-7b", "qwen3-0.6b", "qwen3-8b",    "tiny",
    "olmo-2-7b",  "smollm3-3b", "phi-3-mini-4k", "gemma-2-2b", "gemma-3-1b", "gemma-3-4b",  "phi-4-mini"};
enum { TEST_MODELS = sizeof test_models / sizeof test_models[0] };

static const char *const test_everything[] = {"*"};

struct test_job {
    struct ah_document document;
    struct ah_arena arena;
    struct ah_job job;
};

static inline void test_job_model(struct test_job *ret_job, const char *model)
{
    *ret_job = (struct test_job){0};
    load_example(&ret_job->document, AH_DOCUMENT_MODEL, model);
}

/* Makes a job from an example model. If `training` has no patterns, everything is trained. */
static inline void test_job_start(struct test_job *job, struct ah_plan_training training)
{
    struct ah_error err = {0};
    if (!training.n_trainable) {
        training.trainable = (const char **)(uintptr_t)test_everything;
        training.n_trainable = 1;
    }
    CHECK_OK(ah_job_init(&job->job, job->document.body.model, &training, &job->arena, &err), err);
}

static inline void test_job_open(struct test_job *ret_job, const char *model,
                                 struct ah_plan_training training)
{
    test_job_model(ret_job, model);
    test_job_start(ret_job, training);
}

static inline void test_job_close(struct test_job *job)
{
    ah_arena_release(&job->arena);
    ah_document_release(&job->document);
}

static inline const struct ah_job_group *test_job_group(const struct ah_job *job, enum ah_block_kind kind)
{
    size_t i = 0;
    while (i < job->n_groups && job->groups[i].kind != kind)
        i++;
    assert_true(i < job->n_groups);
    return &job->groups[i];
}

#endif
