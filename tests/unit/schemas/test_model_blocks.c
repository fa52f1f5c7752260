/* SPDX-License-Identifier: Apache-2.0
 *
 * Compares shapes, parameter counts and groups of blocks of known models with the published sizes.
 */
#include "schemas/model.h"
#include "tests/support/check.h"

#include <string.h>

/* Models like GPT-2 small and Qwen3, with the sizes of the published weights. */
static struct ah_model gpt2(void)
{
    return (struct ah_model){.family = AH_FAMILY_GPT2,
                             .layers = 12,
                             .width = 768,
                             .heads = 12,
                             .kv_heads = 12,
                             .head_dim = 64,
                             .mlp_width = 3072,
                             .vocabulary = 50257,
                             .max_positions = 1024,
                             .position = AH_POSITION_LEARNED,
                             .norm = AH_MODEL_NORM_LAYER,
                             .norm_epsilon = 1e-5,
                             .activation = AH_MODEL_GELU_TANH,
                             .qkv_bias = true,
                             .attention_output_bias = true,
                             .mlp_bias = true,
                             .tied = true};
}

static struct ah_model qwen3(void)
{
    return (struct ah_model){.family = AH_FAMILY_QWEN3,
                             .layers = 28,
                             .width = 1024,
                             .heads = 16,
                             .kv_heads = 8,
                             .head_dim = 128,
                             .mlp_width = 3072,
                             .vocabulary = 151936,
                             .max_positions = 40960,
                             .position = AH_POSITION_ROPE,
                             .norm = AH_MODEL_NORM_RMS,
                             .norm_epsilon = 1e-6,
                             .activation = AH_MODEL_SILU_GATED,
                             .qk_norm = true,
                             .tied = true};
}

static void check_tensor(const struct ah_model *model, enum ah_block_kind kind, const char *name,
                         uint64_t rows, uint64_t cols, bool matrix)
{
    struct ah_model_tensor tensors[AH_MODEL_TENSORS_MAX];
    size_t n = ah_model_tensors(model, kind, tensors);
    for (size_t i = 0; i < n; i++)
        if (strcmp(tensors[i].name, name) == 0) {
            assert_int_equal(tensors[i].rows, rows);
            assert_int_equal(tensors[i].cols, cols);
            assert_int_equal(tensors[i].matrix, matrix);
            return;
        }
    if (rows)
        fail_msg("there is no tensor '%s'", name);
}

TEST(model_blocks, tensors_have_their_shapes)
{
    struct ah_model a = gpt2();
    struct ah_model b = qwen3();
    check_tensor(&a, AH_BLOCK_EMBEDDING, "embedding.weight", 50257, 768, true);
    check_tensor(&a, AH_BLOCK_EMBEDDING, "position.weight", 1024, 768, true);
    check_tensor(&a, AH_BLOCK_LAYER, "attention.qkv.weight", 2304, 768, true);
    check_tensor(&a, AH_BLOCK_LAYER, "attention.qkv.bias", 2304, 1, false);
    check_tensor(&a, AH_BLOCK_LAYER, "mlp_norm.bias", 768, 1, false);
    check_tensor(&a, AH_BLOCK_LAYER, "mlp.gate.weight", 0, 0, false);
    check_tensor(&a, AH_BLOCK_HEAD, "head.weight", 0, 0, false);
    check_tensor(&b, AH_BLOCK_EMBEDDING, "position.weight", 0, 0, false);
    check_tensor(&b, AH_BLOCK_LAYER, "attention.qkv.weight", 4096, 1024, true);
    check_tensor(&b, AH_BLOCK_LAYER, "attention.output.weight", 1024, 2048, true);
    check_tensor(&b, AH_BLOCK_LAYER, "attention.q_norm.weight", 128, 1, false);
    check_tensor(&b, AH_BLOCK_LAYER, "mlp.gate.weight", 3072, 1024, true);
    check_tensor(&b, AH_BLOCK_LAYER, "attention.qkv.bias", 0, 0, false);
    b.tied = false;
    check_tensor(&b, AH_BLOCK_HEAD, "head.weight", 151936, 1024, true);
}

TEST(model_blocks, counts_are_exact)
{
    struct ah_model a = gpt2();
    struct ah_model b = qwen3();
    uint64_t n = 0;
    struct ah_error err = {0};
    assert_int_equal(ah_model_parameters(&a), 124439808);
    assert_int_equal(ah_model_parameters(&b), 596049920);
    CHECK_OK(ah_model_count(&b, &n, &err), err);
    assert_int_equal(n, 596049920);
    assert_int_equal(ah_model_blocks(&a), 14);
    assert_int_equal(ah_model_block_kind(&a, 0), AH_BLOCK_EMBEDDING);
    assert_int_equal(ah_model_block_kind(&a, 12), AH_BLOCK_LAYER);
    assert_int_equal(ah_model_block_kind(&a, 13), AH_BLOCK_HEAD);
}

TEST(model_blocks, refuses_counts_that_overflow)
{
    uint64_t n = 7;
    struct ah_error err = {0};
    struct ah_model model = gpt2();
    model.layers = UINT64_C(1) << 40;
    CHECK_FAILS(ah_model_count(&model, &n, &err), err, AH_E_DOCUMENT, "2^53 parameters");
    model = gpt2();
    model.vocabulary = UINT64_MAX;
    CHECK_FAILS(ah_model_count(&model, &n, &err), err, AH_E_DOCUMENT, "2^53 parameters");
    model = gpt2();
    model.heads = UINT64_C(1) << 62;
    CHECK_FAILS(ah_model_count(&model, &n, &err), err, AH_E_DOCUMENT, "2^53 parameters");
    model = gpt2();
    model.mlp_width = UINT64_C(1) << 63;
    CHECK_FAILS(ah_model_count(&model, &n, &err), err, AH_E_DOCUMENT, "2^53 parameters");
    assert_int_equal(n, 7);
}

TEST(model_blocks, groups_are_of_equal_blocks)
{
    uint64_t windowed[] = {0, 27};
    struct ah_model model = qwen3();
    struct ah_model_group groups[AH_MODEL_GROUPS_MAX];
    assert_int_equal(ah_model_groups(&model, groups), 3);
    assert_int_equal(groups[1].blocks, 28);
    model.window = 128;
    assert_int_equal(ah_model_groups(&model, groups), 3);
    assert_string_equal(groups[1].name, "layer_windowed");
    model.window_layers = windowed;
    model.n_window_layers = 2;
    assert_int_equal(ah_model_groups(&model, groups), 4);
    assert_int_equal(groups[1].blocks, 2);
    assert_int_equal(groups[2].blocks, 26);
    assert_int_equal(groups[2].first, 2);
    assert_true(ah_model_layer_ways(&model, 27).windowed);
    assert_false(ah_model_layer_ways(&model, 26).windowed);
    uint64_t sum = 0;
    for (size_t i = 0; i < 4; i++)
        sum += groups[i].blocks * groups[i].parameters;
    assert_int_equal(sum, ah_model_parameters(&model));
}
