/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests reading config.json of each family: what is accepted, what is refused by name, and what gives a warning.
 */
#include "base/file.h"
#include "schemas/document.h"
#include "schemas/huggingface_internal.h"
#include "schemas/model.h"
#include "tests/support/check.h"

#include <stdio.h>
#include <string.h>

#define GPT2_SIZES                                                                                           \
    "\"model_type\":\"gpt2\",\"n_embd\":64,\"n_layer\":2,\"n_head\":4,\"n_positions\":32,\"vocab_size\":100"
#define SIZES                                                                                                \
    "\"hidden_size\":64,\"num_hidden_layers\":4,\"num_attention_heads\":4,\"intermediate_size\":96,"         \
    "\"vocab_size\":100,\"max_position_embeddings\":32"
#define FAMILY(name, more) "{\"model_type\":\"" name "\"," SIZES more "}"
#define LLAMA(more)        FAMILY("llama", more)

static struct ah_document parsed(const char *text)
{
    struct ah_document document;
    struct ah_error err = {0};
    CHECK_OK(
        ah_document_parse(&document, "dir/some-model/config.json", text, strlen(text), AH_DOCUMENT_ANY, &err),
        err);
    assert_int_equal(document.kind, AH_DOCUMENT_MODEL);
    return document;
}

static void check_refused(const char *text, const char *part)
{
    struct ah_document document;
    struct ah_error err = {0};
    CHECK_FAILS(ah_document_parse(&document, "config.json", text, strlen(text), AH_DOCUMENT_ANY, &err), err,
                AH_E_DOCUMENT, part);
    check_text_has(err.text, "config.json: ");
}

TEST(huggingface, gpt2_takes_its_defaults)
{
    struct ah_document document = parsed("{" GPT2_SIZES "}");
    const struct ah_model *model = document.body.model;
    assert_string_equal(model->name, "some-model");
    assert_int_equal(model->family, AH_FAMILY_GPT2);
    assert_int_equal(model->kv_heads, 4);
    assert_int_equal(model->head_dim, 16);
    assert_int_equal(model->mlp_width, 256);
    assert_int_equal(model->position, AH_POSITION_LEARNED);
    assert_null(model->rope);
    assert_int_equal(model->norm, AH_MODEL_NORM_LAYER);
    check_near(model->norm_epsilon, 1e-5, 0);
    assert_int_equal(model->activation, AH_MODEL_GELU_TANH);
    assert_true(model->tied && model->qkv_bias && model->attention_output_bias && model->mlp_bias);
    check_near(model->dropout, 0.1, 0);
    assert_int_equal(document.n_warnings, 1);
    check_text_has(document.warnings[0], "dropout: autohete trains without dropout");
    ah_document_release(&document);
}

TEST(huggingface, gpt2_takes_its_settings)
{
    struct ah_document document = parsed(
        "{" GPT2_SIZES ",\"n_inner\":128,\"activation_function\":\"gelu\",\"tie_word_embeddings\":false,"
        "\"resid_pdrop\":0,\"embd_pdrop\":0.0,\"attn_pdrop\":0}");
    assert_int_equal(document.body.model->mlp_width, 128);
    assert_int_equal(document.body.model->activation, AH_MODEL_GELU);
    assert_false(document.body.model->tied);
    assert_int_equal(document.n_warnings, 0);
    ah_document_release(&document);
    document = parsed("{" GPT2_SIZES ",\"n_inner\":null,\"architectures\":null}");
    assert_int_equal(document.body.model->mlp_width, 256);
    ah_document_release(&document);
}

TEST(huggingface, families_take_their_defaults)
{
    static const struct {
        const char *text;
        uint64_t kv_heads, head_dim, window;
        bool qkv_bias, output_bias, mlp_bias, qk_norm, tied;
    } rows[] = {
        {LLAMA(""), 4, 16, 0, false, false, false, false, false},
        {LLAMA(",\"num_key_value_heads\":null,\"head_dim\":null"), 4, 16, 0, false, false, false, false,
         false},
        {LLAMA(",\"num_key_value_heads\":2,\"head_dim\":8,\"attention_bias\":true,\"mlp_bias\":true,"
               "\"tie_word_embeddings\":true"),
         2, 8, 0, true, true, true, false, true},
        {FAMILY("mistral", ",\"num_key_value_heads\":4,\"head_dim\":null"), 4, 16, 4096, false, false, false,
         false, false},
        {FAMILY("mistral", ",\"num_key_value_heads\":1,\"sliding_window\":null"), 1, 16, 0, false, false,
         false, false, false},
        {FAMILY("mistral", ",\"num_key_value_heads\":1,\"sliding_window\":16"), 1, 16, 16, false, false,
         false, false, false},
        {FAMILY("qwen2", ",\"num_key_value_heads\":2,\"sliding_window\":16"), 2, 16, 0, true, false, false,
         false, false},
        {FAMILY("qwen2",
                ",\"num_key_value_heads\":2,\"tie_word_embeddings\":true,\"use_sliding_window\":true"),
         2, 16, 0, true, false, false, false, true},
        {FAMILY("qwen3", ",\"num_key_value_heads\":2"), 2, 128, 0, false, false, false, true, false},
        {FAMILY("qwen3", ",\"num_key_value_heads\":2,\"head_dim\":16,\"attention_bias\":true"), 2, 16, 0,
         true, true, false, true, false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct ah_document document = parsed(rows[i].text);
        const struct ah_model *model = document.body.model;
        print_message("%s\n", rows[i].text);
        assert_int_equal(model->kv_heads, rows[i].kv_heads);
        assert_int_equal(model->head_dim, rows[i].head_dim);
        assert_int_equal(model->window, rows[i].window);
        assert_int_equal(model->n_window_layers, 0);
        assert_int_equal(model->qkv_bias, rows[i].qkv_bias);
        assert_int_equal(model->attention_output_bias, rows[i].output_bias);
        assert_int_equal(model->mlp_bias, rows[i].mlp_bias);
        assert_int_equal(model->qk_norm, rows[i].qk_norm);
        assert_int_equal(model->tied, rows[i].tied);
        assert_int_equal(model->norm, AH_MODEL_NORM_RMS);
        check_near(model->norm_epsilon, 1e-6, 0);
        check_near(model->rope->theta, 10000, 0);
        ah_document_release(&document);
    }
}

static void check_rope(const char *more, enum ah_rope kind, double theta, double factor)
{
    char text[1024];
    snprintf(text, sizeof text, LLAMA("%s"), more);
    struct ah_document document = parsed(text);
    const struct ah_model_rope *rope = document.body.model->rope;
    assert_int_equal(rope->kind, kind);
    check_near(rope->theta, theta, 0);
    check_near(rope->factor, factor, 0);
    assert_int_equal(rope->original_positions, kind == AH_ROPE_LLAMA3 ? 8192 : 0);
    ah_document_release(&document);
}

TEST(huggingface, reads_both_spellings_of_rope)
{
    check_rope(",\"rope_theta\":5e5", AH_ROPE_DEFAULT, 5e5, 0);
    check_rope(",\"rope_theta\":5e5,\"rope_scaling\":null", AH_ROPE_DEFAULT, 5e5, 0);
    check_rope(",\"rope_parameters\":{\"rope_theta\":5e5,\"rope_type\":\"default\"}", AH_ROPE_DEFAULT, 5e5,
               0);
    check_rope(",\"rope_parameters\":{\"rope_theta\":1e6},\"rope_theta\":7", AH_ROPE_DEFAULT, 1e6, 0);
    check_rope(",\"rope_parameters\":{\"rope_type\":\"linear\",\"factor\":2},\"rope_theta\":7",
               AH_ROPE_LINEAR, 7, 2);
    check_rope(",\"rope_scaling\":{},\"rope_parameters\":{\"rope_type\":\"linear\",\"factor\":2}",
               AH_ROPE_LINEAR, 10000, 2);
    check_rope(
        ",\"rope_scaling\":{\"type\":\"linear\",\"factor\":2},\"rope_parameters\":{\"rope_type\":\"linear\","
        "\"factor\":2}",
        AH_ROPE_LINEAR, 10000, 2);
    check_rope(",\"rope_theta\":7,\"rope_scaling\":{\"type\":\"default\",\"rope_theta\":5e5}",
               AH_ROPE_DEFAULT, 5e5, 0);
    check_rope(",\"rope_scaling\":{\"type\":\"linear\",\"factor\":4.0}", AH_ROPE_LINEAR, 10000, 4);
    check_rope(",\"rope_scaling\":{\"type\":\"linear\",\"rope_type\":\"linear\",\"factor\":4.0}",
               AH_ROPE_LINEAR, 10000, 4);
#define LLAMA3                                                                                               \
    "\"factor\":8.0,\"low_freq_factor\":1.0,\"high_freq_factor\":4.0,\"original_max_position_embeddings\":"  \
    "8192,"                                                                                                  \
    "\"rope_type\":\"llama3\""
    check_rope(",\"rope_theta\":500000.0,\"rope_scaling\":{" LLAMA3 "}", AH_ROPE_LLAMA3, 5e5, 8);
    check_rope(",\"rope_parameters\":{\"rope_theta\":500000.0," LLAMA3 "}", AH_ROPE_LLAMA3, 5e5, 8);
}

TEST(huggingface, refuses_by_name_what_changes_the_model)
{
    static const struct {
        const char *more, *part;
    } rows[] = {
        {",\"rope_scaling\":{\"type\":\"yarn\"}", "rope_scaling: factor is missing"},
        {",\"rope_parameters\":{\"rope_type\":\"longrope\",\"long_factor\":[1,2]}",
         "rope_parameters: longrope needs short_factor and long_factor"},
        {",\"rope_parameters\":{\"rope_type\":\"longrope\",\"long_factor\":[1,2],\"short_factor\":[1,2]}",
         "rope_parameters: short_factors has 2 factors, but 8 pairs of a head turn"},
        {",\"rope_scaling\":{\"rope_type\":\"dynamic\",\"factor\":2}", "\"dynamic\""},
        {",\"rope_scaling\":{\"type\":\"linear\"}", "rope_scaling: factor is missing"},
        {",\"rope_scaling\":{\"type\":\"llama3\",\"factor\":8}",
         "rope_scaling: llama3 needs low_freq_factor"},
        {",\"rope_parameters\":{\"rope_theta\":1e4,\"partial_rotary_factor\":0.5}", "partial_rotary_factor"},
        {",\"partial_rotary_factor\":0.5", "partial_rotary_factor: this setting"},
        {",\"quantization_config\":{\"bits\":4}", "quantization_config: the weights are quantised"},
        {",\"num_local_experts\":8", "num_local_experts"},
        {",\"num_experts\":4", "num_experts"},
        {",\"final_logit_softcapping\":30", "final_logit_softcapping"},
        {",\"add_cross_attention\":true", "add_cross_attention"},
        {",\"hidden_act\":\"gelu\"", "hidden_act: \"gelu\" is not supported; use silu"},
        {",\"num_key_value_heads\":3", "num_key_value_heads: 3 does not divide the 4 heads"},
        {",\"num_key_value_heads\":0", "num_key_value_heads: 0 is not an integer from 1"},
        {",\"head_dim\":\"64\"", "head_dim: \"64\" is not an integer"},
        {",\"rms_norm_eps\":0", "rms_norm_eps: 0 is not a number above 0"},
        {",\"rope_theta\":\"big\"", "rope_theta: \"big\" is not a number"},
        {",\"rope_scaling\":[]", "rope_scaling: a list is not an object"},
        {",\"attention_dropout\":1.5", "attention_dropout: 1.5"},
        {",\"rope_theta\":0", "rope_theta: 0 is not a number above 0"},
        {",\"rope_parameters\":{\"rope_theta\":0}", "rope_parameters.rope_theta: 0 is not a number above 0"},
        {",\"rope_scaling\":{\"factor\":2}", "rope_scaling: rope_type is missing"},
        {",\"rope_parameters\":{\"factor\":2}", "rope_parameters: rope_type is missing"},
        {",\"rope_parameters\":{\"full_attention\":{\"rope_type\":\"default\"}}",
         "rope_parameters: \"full_attention\" gives some layers their own rope"},
        {",\"rope_scaling\":{\"type\":\"linear\",\"factor\":2},\"rope_parameters\":{\"rope_type\":\"linear\","
         "\"factor\":4}",
         "rope_scaling: and rope_parameters describe different ropes"},
        {",\"rope_scaling\":{\"type\":\"linear\",\"factor\":2},\"rope_parameters\":{\"rope_theta\":5e5}",
         "describe different ropes"},
        {",\"rope_scaling\":{\"type\":\"linear\",\"factor\":2},\"rope_parameters\":{\"rope_type\":\"yarn\"}",
         "rope_parameters: factor is missing"},
        {",\"rope_scaling\":{\"type\":\"llama3\",\"factor\":8,\"low_freq_factor\":4,\"high_freq_factor\":1,"
         "\"original_max_position_embeddings\":64}",
         "rope_scaling.low_freq_factor: 4 must be below"},
        {",\"rope_parameters\":{\"rope_type\":\"llama3\",\"factor\":8,\"low_freq_factor\":4,\"high_freq_"
         "factor\":1,\"original_max_position_embeddings\":64}",
         "rope_parameters.low_freq_factor: 4 must be below"},
        {",\"architectures\":[\"LlamaForSequenceClassification\"]",
         "architectures: \"LlamaForSequenceClassification\" is not supported; use LlamaForCausalLM"},
        {",\"architectures\":[\"LlamaForCausalLM\",\"Other\"]", "architectures: \"Other\""},
        {",\"architectures\":\"LlamaForCausalLM\"", "architectures: is not a list"},
        {",\"architectures\":[7]", "architectures: is not supported"},
        {",\"auto_map\":null", "auto_map: this setting"},
        {",\"auto_map\":\"modeling_x.X\"", "auto_map: this setting"},
        {",\"compression_config\":{}", "compression_config: the weights are quantised"},
        {",\"quantization\":{}", "quantization: the weights are quantised"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char text[1024];
        snprintf(text, sizeof text, LLAMA("%s"), rows[i].more);
        check_refused(text, rows[i].part);
    }
    check_refused("{\"model_type\":\"gemma\"}", "model_type: \"gemma\" is not supported; use gpt2");
    check_refused("{\"model_type\":\"mixtral\"," SIZES "}", "model_type: \"mixtral\"");
    check_refused("{\"model_type\":7}", "model_type: is not text");
    check_refused("{\"model_type\":\"llama\",\"hidden_size\":64}", "num_hidden_layers: is missing");
    check_refused("{" GPT2_SIZES ",\"scale_attn_by_inverse_layer_idx\":true}",
                  "scale_attn_by_inverse_layer_idx");
    check_refused("{" GPT2_SIZES ",\"scale_attn_weights\":false}", "scale_attn_weights");
    check_refused("{" GPT2_SIZES ",\"activation_function\":\"relu\"}", "activation_function: \"relu\"");
    check_refused("{\"model_type\":\"gpt2\",\"n_embd\":65,\"n_layer\":2,\"n_head\":4,\"n_positions\":32,"
                  "\"vocab_size\":9}",
                  "n_head: does not divide the width");
    check_refused(FAMILY("qwen3", ",\"num_key_value_heads\":2,\"head_dim\":null"),
                  "head_dim: null has no meaning in qwen3");
    check_refused(FAMILY("mistral", ""),
                  "num_key_value_heads: is missing, and the family's default does not divide");
    check_refused(
        "{\"model_type\":\"llama\",\"hidden_size\":1048576,\"num_hidden_layers\":10000,\"num_attention_"
        "heads\":1,"
        "\"intermediate_size\":16777216,\"vocab_size\":9,\"max_position_embeddings\":32,\"head_dim\":2}",
        "num_hidden_layers: the model has 2^53 parameters or more");
}

TEST(huggingface, windows_follow_the_family)
{
    struct ah_document document;
    document =
        parsed(FAMILY("qwen2", ",\"num_key_value_heads\":2,\"use_sliding_window\":true,\"sliding_window\":8,"
                               "\"max_window_layers\":3"));
    assert_int_equal(document.body.model->window, 8);
    assert_int_equal(document.body.model->n_window_layers, 1);
    assert_int_equal(document.body.model->window_layers[0], 3);
    ah_document_release(&document);
    document =
        parsed(FAMILY("qwen3", ",\"num_key_value_heads\":2,\"use_sliding_window\":true,\"sliding_window\":8,"
                               "\"max_window_layers\":0"));
    assert_int_equal(document.body.model->window, 8);
    assert_int_equal(document.body.model->n_window_layers, 0);
    ah_document_release(&document);
    document = parsed(
        FAMILY("qwen3", ",\"num_key_value_heads\":2,\"use_sliding_window\":true,\"sliding_window\":8,"
                        "\"layer_types\":[\"sliding_attention\",\"full_attention\",\"sliding_attention\","
                        "\"full_attention\"]"));
    assert_int_equal(document.body.model->n_window_layers, 2);
    assert_int_equal(document.body.model->window_layers[1], 2);
    struct ah_model_group groups[AH_MODEL_GROUPS_MAX];
    assert_int_equal(ah_model_groups(document.body.model, groups), 4);
    assert_string_equal(groups[1].name, "layer_windowed");
    assert_int_equal(groups[1].blocks, 2);
    assert_string_equal(groups[2].name, "layer");
    assert_int_equal(groups[2].first, 2);
    ah_document_release(&document);
    document = parsed(FAMILY("qwen2", ",\"num_key_value_heads\":2,\"use_sliding_window\":true,"
                                      "\"max_window_layers\":0"));
    assert_int_equal(document.body.model->window, 4096);
    ah_document_release(&document);
    document = parsed(FAMILY("qwen2", ",\"num_key_value_heads\":2,\"use_sliding_window\":true,"
                                      "\"max_window_layers\":0,\"sliding_window\":null"));
    assert_int_equal(document.body.model->window, 0);
    ah_document_release(&document);
    document = parsed(
        FAMILY("qwen3", ",\"num_key_value_heads\":2,\"use_sliding_window\":true,"
                        "\"layer_types\":[\"sliding_attention\",\"full_attention\",\"sliding_attention\","
                        "\"full_attention\"]"));
    assert_int_equal(document.body.model->window, 4096);
    assert_int_equal(document.body.model->n_window_layers, 2);
    ah_document_release(&document);
    check_refused(FAMILY("qwen3", ",\"num_key_value_heads\":2,\"layer_types\":[\"full_attention\"]"),
                  "layer_types: does not have one entry");
    check_refused(
        FAMILY("qwen3",
               ",\"num_key_value_heads\":2,\"layer_types\":[\"full_attention\",\"chunked_attention\","
               "\"full_attention\",\"full_attention\"]"),
        "layer_types: \"chunked_attention\" is not supported");
    check_refused(
        FAMILY("qwen3",
               ",\"num_key_value_heads\":2,\"layer_types\":[\"full_attention\",\"sliding_attention\","
               "\"full_attention\",\"full_attention\"]"),
        "layer_types: has sliding_attention without a window");
}

/* transformers takes a mistral with layer_types for a different model, and gives an error for a window of 0. */
TEST(huggingface, mistral_takes_layer_types)
{
#define MISTRAL(more) FAMILY("mistral", ",\"num_key_value_heads\":2" more)
#define TYPES(a, b)   ",\"layer_types\":[\"" a "\",\"" b "\",\"" a "\",\"" b "\"]"
    static const char sliding[] = "sliding_attention";
    struct ah_document document =
        parsed(MISTRAL(",\"head_dim\":16,\"sliding_window\":8" TYPES("full_attention", "sliding_attention")));
    const struct ah_model *model = document.body.model;
    assert_int_equal(model->window, 8);
    assert_int_equal(model->n_window_layers, 2);
    assert_int_equal(model->window_layers[0], 1);
    assert_int_equal(document.n_warnings, 0);
    ah_document_release(&document);
    static const struct {
        const char *more;
        uint64_t window;
    } rows[] = {{",\"sliding_window\":8" TYPES("sliding_attention", "sliding_attention"), 8},
                {",\"sliding_window\":8" TYPES("full_attention", "full_attention"), 0},
                {",\"sliding_window\":0" TYPES("full_attention", "full_attention"), 0},
                {TYPES("sliding_attention", "sliding_attention"), 4096},
                {",\"sliding_window\":8,\"layer_types\":null", 8}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char text[1024];
        snprintf(text, sizeof text, MISTRAL(",\"head_dim\":16%s"), rows[i].more);
        document = parsed(text);
        assert_int_equal(document.body.model->window, rows[i].window);
        assert_int_equal(document.body.model->n_window_layers, 0);
        ah_document_release(&document);
    }
    check_refused(MISTRAL(TYPES("full_attention", "full_attention")), "head_dim: is missing; mistral with");
    check_refused(MISTRAL(",\"layer_types\":null"), "head_dim: is missing; mistral with layer_types");
    check_refused(
        MISTRAL(",\"head_dim\":16,\"sliding_window\":null" TYPES("full_attention", "full_attention")),
        "sliding_window: null has no meaning in mistral with layer_types");
    check_refused(MISTRAL(",\"head_dim\":16,\"layer_types\":[]"), "layer_types: does not have one entry");
    check_refused(LLAMA(TYPES("full_attention", "sliding_attention") ",\"sliding_window\":8"), sliding);
    check_refused("{" GPT2_SIZES ",\"layer_types\":[\"full_attention\",\"sliding_attention\"]}", sliding);
    check_refused(LLAMA(",\"layer_types\":[\"full_attention\"]"), "layer_types: does not have one entry");
}

TEST(huggingface, refuses_a_window_of_nothing)
{
    static const char what[] = "sliding_window: 0 leaves no token to attend to; null means no window";
    check_refused(MISTRAL(",\"sliding_window\":0"), what);
    check_refused(FAMILY("qwen2",
                         ",\"num_key_value_heads\":2,\"use_sliding_window\":true,\"sliding_window\":0,"
                         "\"max_window_layers\":1"),
                  what);
    check_refused(
        FAMILY("qwen3", ",\"num_key_value_heads\":2,\"use_sliding_window\":true,\"sliding_window\":0" TYPES(
                            "sliding_attention", "full_attention")),
        what);
    static const char *const unused[] = {
        LLAMA(",\"sliding_window\":0"), FAMILY("qwen2", ",\"num_key_value_heads\":2,\"sliding_window\":0"),
        FAMILY("qwen3", ",\"num_key_value_heads\":2,\"use_sliding_window\":true,\"sliding_window\":0")};
    for (size_t i = 0; i < sizeof unused / sizeof unused[0]; i++) {
        struct ah_document document = parsed(unused[i]);
        assert_int_equal(document.body.model->window, 0);
        ah_document_release(&document);
    }
}

/* transformers refuses null in some fields. Some keys have an effect although the family does not declare them. */
TEST(huggingface, refuses_what_transformers_reads_otherwise)
{
#define QWEN2(more) FAMILY("qwen2", ",\"num_key_value_heads\":2" more)
    static const struct {
        const char *text, *part;
    } rows[] = {
        {"{" GPT2_SIZES ",\"tie_word_embeddings\":null}", "tie_word_embeddings: null has no meaning in gpt2"},
        {"{" GPT2_SIZES ",\"scale_attn_weights\":null}", "scale_attn_weights: this setting"},
        {"{" GPT2_SIZES ",\"attn_pdrop\":null}", "attn_pdrop: null has no meaning in gpt2"},
        {"{" GPT2_SIZES ",\"hidden_size\":128}", "hidden_size: this setting changes the model"},
        {"{" GPT2_SIZES ",\"num_hidden_layers\":null}", "num_hidden_layers: this setting"},
        {"{" GPT2_SIZES ",\"rope_scaling\":{\"type\":\"linear\"}}", "rope_scaling: this setting"},
        {LLAMA(",\"hidden_act\":null"), "hidden_act: null has no meaning in llama"},
        {LLAMA(",\"attention_bias\":null"), "attention_bias: null has no meaning in llama"},
        {LLAMA(",\"rope_theta\":null"), "rope_theta: null has no meaning in llama"},
        {LLAMA(",\"rope_parameters\":{\"rope_theta\":null}"),
         "rope_parameters.rope_theta: null is not a number"},
        {LLAMA(",\"rope_scaling\":{\"type\":null}"), "rope_scaling.type: null is not"},
        {LLAMA(",\"is_causal\":false"), "is_causal: this setting changes the model"},
        {LLAMA(",\"text_config\":{}"), "text_config: this setting"},
        {LLAMA(",\"original_max_position_embeddings\":null"),
         "original_max_position_embeddings: this setting"},
        {LLAMA(",\"pad_token_id\":100"), "pad_token_id: is not a token of the vocabulary"},
        {LLAMA(",\"pad_token_id\":-101"), "pad_token_id: is not a token of the vocabulary"},
        {LLAMA(",\"pad_token_id\":1.5"), "pad_token_id: is not a token of the vocabulary"},
        {"{\"model_type\":\"llama\",\"hidden_size\":65,\"num_hidden_layers\":1,\"num_attention_heads\":4,"
         "\"head_dim\":16,\"intermediate_size\":9,\"vocab_size\":9,\"max_position_embeddings\":9}",
         "num_attention_heads: does not divide the width, which this family needs"},
        {FAMILY("mistral", ",\"num_key_value_heads\":null"),
         "num_key_value_heads: null has no meaning in mistral"},
        {QWEN2(",\"head_dim\":null"), "head_dim: null has no meaning in qwen2"},
        {QWEN2(",\"max_window_layers\":null"), "max_window_layers: null has no meaning in qwen2"},
        {QWEN2(",\"attention_dropout\":null"), "attention_dropout: null has no meaning in qwen2"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        check_refused(rows[i].text, rows[i].part);
    struct ah_document document = parsed(LLAMA(
        ",\"attention_dropout\":null,\"is_causal\":true,\"head_dim\":null,\"use_sliding_window\":null"));
    assert_int_equal(document.n_warnings, 0);
    ah_document_release(&document);
    static const struct {
        const char *text;
        uint64_t token;
    } paddings[] = {
        {LLAMA(",\"pad_token_id\":0"), 0},
        {LLAMA(",\"pad_token_id\":99"), 99},
        {LLAMA(",\"pad_token_id\":-1"), 99},
        {LLAMA(",\"pad_token_id\":-100"), 0},
        {LLAMA(",\"pad_token_id\":null"), AH_MODEL_NO_PADDING},
        {LLAMA(""), AH_MODEL_NO_PADDING},
    };
    for (size_t i = 0; i < sizeof paddings / sizeof paddings[0]; i++) {
        document = parsed(paddings[i].text);
        assert_int_equal(document.n_warnings, 0);
        assert_int_equal(document.body.model->padding_token, paddings[i].token);
        ah_document_release(&document);
    }
    document =
        parsed("{" GPT2_SIZES ",\"attn_pdrop\":0,\"embd_pdrop\":0,\"resid_pdrop\":0,\"pad_token_id\":1,"
               "\"sliding_window\":4}");
    assert_int_equal(document.n_warnings, 1);
    assert_string_equal(document.warnings[0], "sliding_window: has no effect in this family");
    assert_int_equal(document.body.model->padding_token, AH_MODEL_NO_PADDING);
    ah_document_release(&document);
}

static void check_rotated(const char *text, uint64_t rotated)
{
    struct ah_document document = parsed(text);
    assert_int_equal(document.n_warnings, 0);
    assert_int_equal(document.body.model->rope->rotated, rotated);
    assert_int_equal(ah_model_rotated(document.body.model), rotated ? rotated : 16);
    ah_document_release(&document);
}

#define PHI3(more)  FAMILY("phi3", ",\"pad_token_id\":null" more)
#define SHARE(text) "\"partial_rotary_factor\":" text

TEST(huggingface, phi3_turns_a_share_of_a_head)
{
    check_rotated(PHI3(), 0);
    check_rotated(PHI3("," SHARE("1.0")), 0);
    check_rotated(PHI3("," SHARE("0.5")), 8);
    check_rotated(PHI3("," SHARE("0.8")), 12);
    check_rotated(PHI3("," SHARE("0.5") ",\"rope_parameters\":{" SHARE("0.75") ",\"rope_theta\":9}"), 12);
    check_rotated(PHI3("," SHARE("0.5") ",\"rope_scaling\":{\"type\":\"longrope\",\"short_factor\":[1,2,3,4],"
                                        "\"long_factor\":[1,2,3,4]},\"original_max_position_embeddings\":16"),
                  8);
    check_refused(PHI3("," SHARE("0.95")), "partial_rotary_factor must leave an even number");
    check_refused(PHI3("," SHARE("0.1")), "partial_rotary_factor must leave an even number");
    check_refused(PHI3("," SHARE("2")), "partial_rotary_factor must leave an even number");
    check_refused(PHI3("," SHARE("null")), "partial_rotary_factor: null has no meaning in phi3");
    check_refused(
        PHI3("," SHARE("0.5") ",\"rope_scaling\":{\"type\":\"longrope\",\"short_factor\":[1,2,3,4,5,6,7,"
                              "8],\"long_factor\":[1,2,3,4,5,6,7,8]}"),
        "need a number for each pair of width / heads that turns");
}

/* The published file of a model with 4 billion parameters, which leaves out what its class has by default. */
#define IMAGES(more, text)                                                                                   \
    "{\"architectures\":[\"Gemma3ForConditionalGeneration\"],\"boi_token_index\":255999,"                    \
    "\"eoi_token_index\":256000,\"eos_token_id\":[1,106],\"image_token_index\":262144,"                      \
    "\"initializer_range\":0.02,\"mm_tokens_per_image\":256,\"model_type\":\"gemma3\",\"text_config\":{"     \
    "\"hidden_size\":2560,\"intermediate_size\":10240," text "\"num_hidden_layers\":34,\"rope_scaling\":{"   \
    "\"factor\":8.0,\"rope_type\":\"linear\"},\"sliding_window\":1024},\"torch_dtype\":\"bfloat16\"," more   \
    "\"vision_config\":{\"hidden_size\":1152,\"model_type\":\"siglip_vision_model\"}}"

TEST(huggingface, of_a_model_with_images_only_the_text_part_is_read)
{
    struct ah_document document = parsed(IMAGES("", "\"model_type\":\"gemma3_text\","));
    const struct ah_model *model = document.body.model;
    assert_int_equal(model->family, AH_FAMILY_GEMMA3);
    assert_true(model->multimodal && model->tied);
    assert_int_equal(model->width, 2560);
    assert_int_equal(model->layers, 34);
    assert_int_equal(model->heads, 8);
    assert_int_equal(model->kv_heads, 4);
    assert_int_equal(model->head_dim, 256);
    assert_int_equal(model->vocabulary, 262208);
    assert_int_equal(model->max_positions, 131072);
    assert_int_equal(model->rope->kind, AH_ROPE_LINEAR);
    assert_int_equal(model->n_window_layers, 29);
    assert_int_equal(ah_model_parameters(model), 3880263168); /* 262208 x 2560 + 34 x 94382592 + 2560 */
    assert_int_equal(document.n_warnings, 1);
    check_text_has(document.warnings[0], "vision_config: only the model of text is trained");
    ah_document_release(&document);
}

TEST(huggingface, a_model_with_images_is_refused_if_it_is_another)
{
    static const struct {
        const char *text, *part;
    } cases[] = {
        {"{\"model_type\":\"gemma3\"}", "text_config: is missing; it describes"},
        {"{\"model_type\":\"gemma3\",\"text_config\":[]}", "text_config: is missing"},
        {IMAGES("", "\"model_type\":\"gemma2\","), "text_config.model_type: must be gemma3_text"},
        {IMAGES("", "\"model_type\":null,"), "text_config.model_type: must be gemma3_text"},
        {IMAGES("", "\"num_attention_heads\":0,"), "num_attention_heads"},
        {IMAGES("", "\"use_bidirectional_attention\":true,"), "use_bidirectional_attention: this setting"},
        {IMAGES("", "\"quantization_config\":{},"), "quantization_config: the weights are quantised"},
        {IMAGES("\"quantization_config\":{},", ""), "quantization_config: the weights are quantised"},
        {IMAGES("\"tie_word_embeddings\":false,", ""), "tie_word_embeddings: must be true in gemma3"},
        {IMAGES("\"is_causal\":false,", ""), "is_causal: this setting"},
        {IMAGES("", "\"final_logit_softcapping\":30,"),
         "text_config.final_logit_softcapping: is not applied in"},
        {"{\"model_type\":\"gemma3\",\"text_config\":{},\"architectures\":[\"Gemma3ForCausalLM\"]}",
         "architectures: \"Gemma3ForCausalLM\" is not supported; use Gemma3ForConditionalGeneration"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check_refused(cases[i].text, cases[i].part);
}

/* The table of keys lists exactly the fields that are read. */
TEST(huggingface, what_is_read_is_in_the_table_of_keys)
{
    for (unsigned family = 0; ah_words_family[family]; family++) {
        const struct ah_field_table *table = ah_huggingface_families[family].table;
        for (const struct ah_field *field = table->fields; field->name; field++)
            if (!ah_huggingface_key_find(field->name))
                fail_msg("'%s' is read and not in the table", field->name);
        for (const struct ah_huggingface_key *key = ah_huggingface_keys; key->name; key++) {
            int effect = ah_huggingface_key_effect(key, (enum ah_family)family);
            if ((effect == AH_HUGGINGFACE_COMPUTED || effect == AH_HUGGINGFACE_DROPOUT) &&
                !ah_field_find(table, key->name))
                fail_msg("'%s' is in the table and not read in %s", key->name, ah_words_family[family]);
            assert_ptr_equal(ah_huggingface_key_find(key->name), key); /* no key occurs twice */
        }
    }
}

static const char *const effects[] = {[AH_HUGGINGFACE_COMPUTED] = "computed",
                                      [AH_HUGGINGFACE_DROPOUT] = "not applied",
                                      [AH_HUGGINGFACE_CLASS] = "the family's class",
                                      [AH_HUGGINGFACE_NONE] = "no effect",
                                      [AH_HUGGINGFACE_WARNED] = "warning",
                                      [AH_HUGGINGFACE_UNLESS_EMPTY] = "only empty",
                                      [AH_HUGGINGFACE_UNLESS_FALSE] = "only false",
                                      [AH_HUGGINGFACE_UNLESS_TRUE] = "only true",
                                      [AH_HUGGINGFACE_UNLESS_ZERO] = "only 0",
                                      [AH_HUGGINGFACE_UNLESS_ONE] = "only 1",
                                      [AH_HUGGINGFACE_UNLESS_FULL] = "only full attention",
                                      [AH_HUGGINGFACE_CODE] = "an object, with a warning",
                                      [AH_HUGGINGFACE_REFUSED] = "refused",
                                      [AH_HUGGINGFACE_QUANTISED] = "refused",
                                      [AH_HUGGINGFACE_NEVER] = "refused, null too"};

static void put_row(struct ah_buffer *out, const struct ah_huggingface_key *key)
{
    ah_buffer_printf(out, "| `%s` |", key->name);
    for (unsigned family = 0; ah_words_family[family]; family++) {
        const char *null = key->families & 1U << family & key->nullable ? ", null" : "";
        ah_buffer_printf(out, " %s%s |", effects[ah_huggingface_key_effect(key, (enum ah_family)family)],
                         null);
    }
    ah_buffer_puts(out, "\n");
}

/* docs/huggingface.md must contain the table. If it does not, the test prints the right text. */
TEST(huggingface, docs_show_the_table_of_keys)
{
    struct ah_buffer page = {0}, out = {0};
    struct ah_error err = {0};
    ah_buffer_puts(&out, "| key |");
    for (unsigned family = 0; ah_words_family[family]; family++)
        ah_buffer_printf(&out, " %s |", ah_words_family[family]);
    ah_buffer_puts(&out, "\n|---|");
    for (unsigned family = 0; ah_words_family[family]; family++)
        ah_buffer_puts(&out, "---|");
    ah_buffer_puts(&out, "\n");
    for (const struct ah_huggingface_key *key = ah_huggingface_keys; key->name; key++)
        put_row(&out, key);
    CHECK_OK(ah_file_read("docs/huggingface.md", 1 << 20, &page, &err), err);
    if (!strstr(page.data, out.data)) {
        fputs(out.data, stdout);
        fail_msg("docs/huggingface.md does not show the table of keys, which is printed above");
    }
    ah_buffer_release(&page);
    ah_buffer_release(&out);
}

TEST(huggingface, warns_once_of_each_key_without_effect)
{
    struct ah_document document = parsed(LLAMA(
        ",\"sliding_window\":16,\"auto_map\":{\"AutoConfig\":\"x.X\"},\"my_key\":{\"a\":[1]},"
        "\"architectures\":[\"LlamaForCausalLM\"],"
        "\"use_cache\":false,\"quantization_config\":null,\"pretraining_tp\":2,\"attention_dropout\":0.25"));
    assert_int_equal(document.body.model->window, 0);
    assert_int_equal(document.n_warnings, 4);
    assert_string_equal(document.warnings[0], "my_key: is unknown and was ignored");
    assert_string_equal(document.warnings[1], "sliding_window: has no effect in this family");
    check_text_has(document.warnings[2], "auto_map: the code that it names is not run");
    check_text_has(document.warnings[3], "dropout");
    check_near(document.body.model->dropout, 0.25, 0);
    ah_document_release(&document);
}

/* Keys without effect, written into config.json by transformers' base class, generation settings and common tools. */
TEST(huggingface, common_keys_without_effect_need_no_word)
{
    static const char base[] =
        ",\"chunk_size_feed_forward\":0,\"pruned_heads\":{},\"torchscript\":false,\"use_bfloat16\":false,"
        "\"tie_encoder_decoder\":false,\"finetuning_task\":null,\"problem_type\":null,\"prefix\":null,"
        "\"tokenizer_class\":\"PreTrainedTokenizerFast\",\"max_length\":20,\"do_sample\":false,\"top_p\":1.0,"
        "\"temperature\":1.0,\"repetition_penalty\":1.0,\"num_beams\":1,\"max_sequence_length\":2048,"
        "\"_attn_implementation_autoset\":true,\"unsloth_fixed\":true,\"gradient_checkpointing\":false,"
        "\"sep_token_id\":null,\"per_layer_config\":{},\"rope_interleaved\":false";
    static const char gpt2[] =
        "{\"model_type\":\"gpt2\",\"n_embd\":64,\"n_layer\":2,\"n_head\":4,\"n_positions\":32,"
        "\"vocab_size\":100,\"resid_pdrop\":0,\"embd_pdrop\":0,\"attn_pdrop\":0,"
        "\"reorder_and_upcast_attn\":%s,\"scale_attn_by_inverse_layer_idx\":false}";
    char text[2048];
    for (int i = 0; i < 3; i++) {
        if (i < 2)
            snprintf(text, sizeof text, gpt2, i ? "true" : "false");
        else
            snprintf(text, sizeof text, LLAMA("%s"), base);
        struct ah_document document = parsed(text);
        if (document.n_warnings)
            fail_msg("'%s'", document.warnings[0]);
        ah_document_release(&document);
    }
    check_refused(LLAMA(",\"pruned_heads\":{\"0\":[1]}"), "pruned_heads: this setting changes the model");
    check_refused(LLAMA(",\"per_layer_config\":{\"0\":{\"head_dim\":8}}"), "per_layer_config: this setting");
    check_refused(LLAMA(",\"rope_interleaved\":true"), "rope_interleaved: this setting changes the model");
}

TEST(huggingface, names_come_from_the_path)
{
    static const char *const rows[][2] = {
        {"a/llama-2-7b/config.json", "llama-2-7b"}, {"mine.json", "mine"},       {"config.json", "llama"},
        {"x/sp ace/config.json", "llama"},          {"standard input", "llama"}, {"/config.json", "llama"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct ah_document document;
        struct ah_error err = {0};
        CHECK_OK(
            ah_document_parse(&document, rows[i][0], LLAMA(""), strlen(LLAMA("")), AH_DOCUMENT_MODEL, &err),
            err);
        assert_string_equal(document.body.model->name, rows[i][1]);
        ah_document_release(&document);
    }
}

/* The model read from any config can be printed as a model document, and our reader accepts that document. */
TEST(huggingface, prints_a_model_of_ours)
{
    static const char *const texts[] = {"{" GPT2_SIZES "}", LLAMA(",\"attention_bias\":true"),
                                        FAMILY("mistral", ",\"num_key_value_heads\":1"),
                                        FAMILY("qwen2", ",\"num_key_value_heads\":1"),
                                        FAMILY("qwen3", ",\"num_key_value_heads\":1")};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        struct ah_document document = parsed(texts[i]), again;
        struct ah_buffer out = {0};
        struct ah_error err = {0};
        CHECK_OK(ah_document_print(&document, &out, &err), err);
        CHECK_OK(ah_document_parse(&again, "printed", out.data, out.size, AH_DOCUMENT_MODEL, &err), err);
        assert_int_equal(ah_document_diff(&document, &again, NULL, NULL), 0);
        ah_buffer_release(&out);
        ah_document_release(&document);
        ah_document_release(&again);
    }
}
