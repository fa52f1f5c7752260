/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests that the parts of all ranks together are each block's vector, once, whatever is frozen.
 */
#include "runtime/train/shards.h"
#include "tests/property/schedule/jobs.h"

#include <stdlib.h>

/* Marks the elements of every rank's part, tile by tile, and checks that each element is in one part. */
static void check_block(const struct ah_addresses_block *block, uint64_t shards, uint64_t tile)
{
    uint8_t *times = calloc(block->flat.elements, 1);
    assert_non_null(times);
    for (uint64_t rank = 0; rank < shards; rank++)
        for (uint64_t first = 0; first < block->group->own_flat_elements; first += tile) {
            struct ah_shards_run runs[AH_MODEL_TENSORS_MAX];
            const size_t n =
                ah_shards_runs(block, shards, rank, (struct ah_stretch){first, first + tile}, runs);
            for (size_t i = 0; i < n; i++) {
                assert_true(runs[i].at >= first && runs[i].at + runs[i].n <= first + tile);
                assert_true(runs[i].at + runs[i].n <= block->group->own_flat_elements);
                for (uint64_t k = 0; k < runs[i].n; k++)
                    times[runs[i].full + k]++;
            }
        }
    for (uint64_t i = 0; i < block->flat.elements; i++)
        assert_int_equal(times[i], 1);
    free(times);
}

/* Checks that the ranks' parts of each tensor meet, from its first element to its last. */
static void check_tensors(const struct ah_addresses_block *block, uint64_t shards)
{
    for (size_t tensor = 0; tensor < block->flat.n; tensor++) {
        const uint64_t elements = block->flat.tensors[tensor].elements;
        uint64_t next = 0;
        for (uint64_t rank = 0; rank < shards; rank++) {
            const struct ah_stretch some =
                ah_shards_of_tensor(&block->flat, tensor, shards, rank, 0, elements);
            if (some.end == some.first)
                continue;
            assert_int_equal(some.first, next);
            next = some.end;
        }
        assert_int_equal(next, elements);
    }
}

static void check_job(const struct ah_job *job, uint64_t shards, uint64_t tile)
{
    for (size_t g = 0; g < job->n_groups; g++) {
        const struct ah_job_group *group = &job->groups[g];
        struct ah_addresses_block block = {.group = group,
                                           .flat = ah_flat_of(job->model, group->kind, group->trained)};
        block.n_runs = ah_flat_runs(&block.flat, block.runs);
        check_block(&block, shards, tile);
        check_tensors(&block, shards);
    }
}

TEST(shards, are_all_of_each_vector_once)
{
    static const char *const frozen[][4] = {{"*"},
                                            {"*", "!layer.*.attention.*"},
                                            {"*", "!*.mlp.*", "!embedding.*"},
                                            {"*", "!layer.0.*", "!*norm*"}};
    static const size_t n_frozen[] = {1, 2, 3, 3};
    static const char *const models[] = {"tiny", "gpt2-124m"};
    for (size_t m = 0; m < sizeof models / sizeof *models; m++)
        for (size_t f = 0; f < sizeof n_frozen / sizeof *n_frozen; f++)
            for (uint64_t shards = 2; shards <= 7; shards += shards == 4 ? 3 : 1) {
                struct test_job j;
                struct ah_error err = {0};
                test_job_model(&j, models[m]);
                const struct ah_plan_part part = {
                    .blocks = ah_model_blocks(j.document.body.model), .tp = 1, .stages = 1, .shards = shards};
                const struct ah_plan_training training = {.batch = 1,
                                                          .micro_batches = 1,
                                                          .seq = 16,
                                                          .trainable = (const char **)(uintptr_t)frozen[f],
                                                          .n_trainable = n_frozen[f]};
                CHECK_OK(ah_job_init_part(&j.job, j.document.body.model, &training, &part, &j.arena, &err),
                         err);
                check_job(&j.job, shards, 3 * AH_PLAN_TILE_UNIT);
                test_job_close(&j);
            }
}
