/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests that the shards of example models add up to the model, and that a tied table counts once.
 */
#include "planner/recovery/states.h"

#include "runtime/schedule/job.h"
#include "tests/support/documents.h"

static const char *const patterns[] = {"*"};

static struct ah_plan_training training_of(enum ah_dtype dtype, enum ah_dtype state_dtype)
{
    return (struct ah_plan_training){.batch = 8,
                                     .micro_batches = 4,
                                     .seq = 128,
                                     .dtype = dtype,
                                     .state_dtype = state_dtype,
                                     .trainable = (const char **)(uintptr_t)patterns,
                                     .n_trainable = 1};
}

static uint64_t sum_kind(const struct ah_states *states, enum ah_shard_kind kind)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < ah_states_shards(states); i++)
        sum += ah_states_shard(states, i).kind == kind ? ah_states_bytes(states, i) : 0;
    return sum;
}

/* Returns the number of elements in all blocks' vectors, according to the job. */
static uint64_t elements_of(const struct ah_model *model, const struct ah_plan_training *training,
                            struct ah_arena *arena)
{
    struct ah_job job;
    struct ah_error err = {0};
    uint64_t elements = 0;
    CHECK_OK(ah_job_init(&job, model, training, arena, &err), err);
    for (size_t b = 0; b < job.n_blocks; b++)
        elements += ah_job_block(&job, b)->flat_elements;
    return elements;
}

static void check_model(const char *path, enum ah_dtype dtype, enum ah_dtype state_dtype, size_t slices)
{
    struct ah_document model;
    struct ah_arena arena = {0};
    struct ah_error err = {0};
    struct ah_states states;
    struct ah_plan_training training = training_of(dtype, state_dtype);
    load_document(&model, path, AH_DOCUMENT_MODEL);
    CHECK_OK(ah_states_init(&states, model.body.model, &training, slices, &arena, &err), err);
    uint64_t elements = elements_of(model.body.model, &training, &arena);
    assert_true(elements >= ah_model_parameters(model.body.model));
    assert_int_equal(sum_kind(&states, AH_SHARD_WEIGHT), elements * ah_dtype_bytes(dtype));
    assert_int_equal(sum_kind(&states, AH_SHARD_MASTER), dtype == AH_FP32 ? 0 : elements * 4);
    assert_int_equal(sum_kind(&states, AH_SHARD_M), elements * ah_dtype_bytes(state_dtype));
    assert_int_equal(sum_kind(&states, AH_SHARD_V), elements * ah_dtype_bytes(state_dtype));
    uint64_t table = model.body.model->tied ? model.body.model->vocabulary * model.body.model->width : 0;
    assert_int_equal(states.bytes[states.n_blocks][AH_SHARD_WEIGHT], table * ah_dtype_bytes(dtype));
    ah_arena_release(&arena);
    ah_document_release(&model);
}

TEST(states, add_up_to_the_model)
{
    check_model("examples/models/llama-2-7b.json", AH_BF16, AH_FP32, 8);
    check_model("examples/models/gpt2-774m.json", AH_BF16, AH_BF16, 8);
    check_model("examples/models/gpt2-774m.json", AH_FP32, AH_FP32, 3);
    check_model("tests/cli/documents/model-least.json", AH_BF16, AH_FP32, 7);
}

TEST(states, number_shards_and_find_them_again)
{
    struct ah_states states = {.n_blocks = 5, .slices = 3, .tied = true};
    assert_int_equal(ah_states_shards(&states), 6 * 3 * AH_SHARD_KINDS);
    for (size_t i = 0; i < ah_states_shards(&states); i++)
        assert_int_equal(ah_states_index(&states, ah_states_shard(&states, i)), i);
    assert_true(ah_states_covers(&states, 0, 1, 5) && ah_states_covers(&states, 4, 1, 5));
    assert_false(ah_states_covers(&states, 1, 3, 5));
    assert_true(ah_states_covers(&states, 1, 3, 3));
    assert_false(ah_states_covers(&states, 1, 3, 4));
    states.tied = false;
    assert_false(ah_states_covers(&states, 0, 5, 5));
}
