/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests that a group's digest changes if and only if the work of the group's ops changes.
 */
#include "runtime/schedule/program.h"

#include "tests/property/schedule/jobs.h"

struct digests {
    char text[3][AH_SHA256_HEX_MAX]; /* digests, by kind of block */
};

static const struct ah_plan_training usual = {
    .batch = 4, .micro_batches = 1, .seq = 64, .dtype = AH_FP32, .state_dtype = AH_FP32};

static struct digests digests_of(const struct ah_job *job)
{
    struct digests digests;
    struct ah_error err = {0};
    for (int kind = AH_BLOCK_EMBEDDING; kind <= AH_BLOCK_HEAD; kind++)
        CHECK_OK(
            ah_program_digest(job, test_job_group(job, (enum ah_block_kind)kind), digests.text[kind], &err),
            err);
    return digests;
}

static struct digests digests_with(void (*change)(struct ah_model *model), struct ah_plan_training training)
{
    struct test_job job;
    test_job_model(&job, "tiny");
    if (change)
        change(job.document.body.model);
    test_job_start(&job, training);
    struct digests digests = digests_of(&job.job);
    test_job_close(&job);
    return digests;
}

static void rename_model(struct ah_model *model)
{
    model->name = "another";
    model->layers += 2;
    model->initializer_range = 0.5;
    model->rope->theta = 5e5;
    model->max_positions *= 2;
    model->padding_token = 7;
}

TEST(program_digest, does_not_know_name_or_depth)
{
    struct ah_plan_training clipped = usual;
    clipped.clip = 1;
    clipped.state_dtype = AH_BF16;
    clipped.batch = 12; /* three micro-batches of the same size */
    clipped.micro_batches = 3;
    struct digests a = digests_with(NULL, usual), b = digests_with(rename_model, clipped);
    assert_memory_equal(&a, &b, sizeof a);
    for (int kind = 1; kind < 3; kind++)
        assert_string_not_equal(a.text[kind], a.text[kind - 1]);
}

static void use_window(struct ah_model *model)
{
    model->window = 16;
}

static void use_wider_mlp(struct ah_model *model)
{
    model->mlp_width += 64;
}

static void use_fewer_heads(struct ah_model *model)
{
    model->heads = 3; /* fewer but larger heads, with equal matrices */
    model->kv_heads = 1;
    model->head_dim *= 2;
}

static void use_layer_norm(struct ah_model *model)
{
    model->norm = AH_MODEL_NORM_LAYER;
}

TEST(program_digest, knows_what_layers_do)
{
    void (*const changes[])(struct ah_model *) = {use_window, use_wider_mlp, use_fewer_heads, use_layer_norm};
    struct digests usually = digests_with(NULL, usual);
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        struct digests changed = digests_with(changes[i], usual);
        assert_string_not_equal(changed.text[AH_BLOCK_LAYER], usually.text[AH_BLOCK_LAYER]);
        assert_string_equal(changed.text[AH_BLOCK_EMBEDDING], usually.text[AH_BLOCK_EMBEDDING]);
    }
}

TEST(program_digest, knows_the_micro_batch)
{
    static const char *const head_only[] = {"head.*"};
    struct ah_plan_training trainings[] = {usual, usual, usual, usual, usual};
    trainings[0].batch = 2;
    trainings[1].micro_batches = 2;
    trainings[2].seq = 32;
    trainings[2].batch = 8; /* the same number of tokens */
    trainings[3].dtype = AH_BF16;
    trainings[4].trainable = (const char **)(uintptr_t)head_only;
    trainings[4].n_trainable = 1;
    struct digests usually = digests_with(NULL, usual);
    for (size_t i = 0; i < sizeof trainings / sizeof *trainings; i++) {
        struct digests changed = digests_with(NULL, trainings[i]);
        assert_string_not_equal(changed.text[AH_BLOCK_LAYER], usually.text[AH_BLOCK_LAYER]);
    }
}
