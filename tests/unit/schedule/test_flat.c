/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests the layout of a block's flat vector: offsets and runs by hand, padding as docs/layout.md states it.
 */
#include "runtime/schedule/flat.h"
#include "tests/property/schedule/jobs.h"

static const struct ah_model small = {.width = 10,
                                      .heads = 2,
                                      .kv_heads = 1,
                                      .head_dim = 6,
                                      .mlp_width = 7,
                                      .vocabulary = 13,
                                      .layers = 1,
                                      .norm = AH_MODEL_NORM_RMS,
                                      .activation = AH_MODEL_SILU_GATED,
                                      .position = AH_POSITION_ROPE,
                                      .qkv_bias = true};

/* By hand: the tensors have 10, 240 (24 x 10), 24, 120 (10 x 12), 10, 70, 70, 70 elements, each rounded up to 128. */
TEST(flat, begins_tensors_at_multiples_of_128)
{
    static const uint64_t firsts[] = {0, 128, 384, 512, 640, 768, 896, 1024};
    struct ah_flat flat = ah_flat_of(&small, AH_BLOCK_LAYER, UINT32_MAX);
    assert_int_equal(flat.n, 8);
    for (size_t i = 0; i < flat.n; i++) {
        assert_int_equal(flat.tensors[i].first, firsts[i]);
        assert_int_equal(flat.tensors[i].trained_first, firsts[i]);
        assert_true(flat.tensors[i].trained);
    }
    assert_int_equal(flat.elements, 1152);
    assert_int_equal(flat.trained_elements, 1152);
    assert_int_equal(flat.parameters, 10 + 240 + 24 + 120 + 10 + 3 * 70);
    assert_int_equal(flat.trained_parameters, flat.parameters);
}

TEST(flat, packs_trained_tensors)
{
    struct ah_flat flat = ah_flat_of(&small, AH_BLOCK_LAYER, 1u << 1 | 1u << 3);
    assert_int_equal(flat.elements, 1152);
    assert_int_equal(flat.trained_elements, 256 + 128);
    assert_int_equal(flat.trained_parameters, 240 + 120);
    assert_int_equal(flat.tensors[1].trained_first, 0);
    assert_int_equal(flat.tensors[3].trained_first, 256);
    assert_false(flat.tensors[0].trained);
    assert_int_equal(flat.tensors[3].first, 512);
}

/* By hand, the runs are: norm | qkv | bias | output | norm | three tensors of the MLP. If only tensors 1, 3 and 4 are
 * trained, the two matrices are not adjacent in the whole vector, so they form two runs. The third run is a norm. */
TEST(flat, runs_decay_alike)
{
    struct ah_run_of_elements runs[AH_MODEL_TENSORS_MAX];
    struct ah_flat flat = ah_flat_of(&small, AH_BLOCK_LAYER, UINT32_MAX);
    assert_int_equal(ah_flat_runs(&flat, runs), 6);
    assert_true(runs[0].end == 128 && !runs[0].decay && runs[1].first == 128 && runs[1].decay);
    assert_true(runs[5].first == 768 && runs[5].end == 1152 && runs[5].decay);
    flat = ah_flat_of(&small, AH_BLOCK_LAYER, 1u << 1 | 1u << 3 | 1u << 4);
    assert_int_equal(ah_flat_runs(&flat, runs), 3);
    assert_true(runs[1].first == 256 && runs[1].full_first == 512 && runs[1].end == 384);
    flat = ah_flat_of(&small, AH_BLOCK_LAYER, 0);
    assert_int_equal(ah_flat_runs(&flat, runs), 0);
}

TEST(flat, finds_by_name)
{
    struct ah_flat flat = ah_flat_of(&small, AH_BLOCK_LAYER, 0);
    assert_int_equal(ah_flat_find(&flat, "attention.qkv.bias"), 2);
    assert_int_equal(ah_flat_find(&flat, "attention.qkv"), flat.n);
}

/* The padding of each example is as small as docs/layout.md claims. */
TEST(flat, padding_costs_little)
{
    for (size_t i = 0; i < TEST_MODELS; i++) {
        struct test_job j;
        test_job_open(&j, test_models[i],
                      (struct ah_plan_training){.batch = 1, .micro_batches = 1, .seq = 64, .dtype = AH_BF16});
        uint64_t padding = 0, parameters = 0;
        for (size_t g = 0; g < j.job.n_groups; g++) {
            const struct ah_job_group *group = &j.job.groups[g];
            padding += (group->flat_elements - group->parameters) * group->blocks;
            parameters += group->parameters * group->blocks;
        }
        assert_int_equal(parameters, ah_model_parameters(j.document.body.model));
        assert_int_equal(padding, !strcmp(test_models[i], "tiny")        ? 832
                                  : !strcmp(test_models[i], "gpt2-1.5b") ? 21696
                                                                         : 0);
        test_job_close(&j);
    }
}
