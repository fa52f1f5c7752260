/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests writing config.json: reading it gives each example model unchanged. A file of another model is refused.
 */
#include "runtime/model/config.h"

#include "tests/support/documents.h"
#include "tests/support/root.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void parse(struct ah_document *ret_document, const char *text)
{
    struct ah_error err = {0};
    CHECK_OK(ah_document_parse(ret_document, "config.json", text, strlen(text), AH_DOCUMENT_MODEL, &err),
             err);
}

/* Checks that printing and reading the model changes nothing, and that the reader knows every printed key. */
static void check_example(const char *path)
{
    struct ah_document model, again;
    struct ah_buffer out = {0};
    struct ah_error err = {0};
    char digest[AH_DOCUMENT_DIGEST_MAX], digest_again[AH_DOCUMENT_DIGEST_MAX];
    load_document(&model, path, AH_DOCUMENT_MODEL);
    CHECK_OK(ah_config_print(model.body.model, AH_BF16, &out, &err), err);
    parse(&again, out.data);
    model.body.model->multimodal = false; /* a text part is saved as a model of its own */
    CHECK_OK(ah_document_digest(&model, digest, &err), err);
    CHECK_OK(ah_document_digest(&again, digest_again, &err), err);
    assert_string_equal(digest, digest_again);
    for (size_t i = 0; i < again.n_warnings; i++)
        if (!strstr(again.warnings[i], "dropout"))
            fail_msg("%s: %s", path, again.warnings[i]);
    check_text_has(out.data, "\"torch_dtype\": \"bfloat16\"");
    ah_buffer_release(&out);
    ah_document_release(&model);
    ah_document_release(&again);
}

TEST(config, says_every_example)
{
    char path[PATH_MAX];
    unsigned n = 0;
    DIR *folder = opendir("examples/models");
    assert_non_null(folder);
    for (struct dirent *entry; (entry = readdir(folder));)
        if (strstr(entry->d_name, ".json")) {
            snprintf(path, sizeof path, "examples/models/%s", entry->d_name);
            check_example(path);
            n++;
        }
    closedir(folder);
    assert_true(n > 15);
}

/* transformers refuses integers where it declares a float. */
TEST(config, writes_caps_with_a_point)
{
    struct ah_document model;
    struct ah_buffer out = {0};
    struct ah_error err = {0};
    load_document(&model, "examples/models/gemma-2-2b.json", AH_DOCUMENT_MODEL);
    CHECK_OK(ah_config_print(model.body.model, AH_BF16, &out, &err), err);
    check_text_has(out.data, "\"attn_logit_softcapping\": 50.0,");
    check_text_has(out.data, "\"final_logit_softcapping\": 30.0,");
    ah_buffer_release(&out);
    ah_document_release(&model);
}

TEST(config, says_the_models_of_every_golden_case)
{
    char path[PATH_MAX];
    unsigned n = 0;
    DIR *folder = opendir("tests/golden/train");
    assert_non_null(folder);
    for (struct dirent *entry; (entry = readdir(folder));) {
        snprintf(path, sizeof path, "tests/golden/train/%s/config.json", entry->d_name);
        if (access(path, R_OK) == 0) {
            check_example(path);
            n++;
        }
    }
    closedir(folder);
    assert_true(n > 35);
}

#define SIZES                                                                                                \
    "\"hidden_size\":24,\"num_hidden_layers\":4,\"num_attention_heads\":4,\"num_key_value_heads\":2,"        \
    "\"intermediate_size\":40,\"vocab_size\":50,\"max_position_embeddings\":32"

TEST(config, says_windows_ropes_and_biases)
{
    static const char *const texts[] = {
        "{\"model_type\":\"mistral\"," SIZES ",\"sliding_window\":8}",
        "{\"model_type\":\"mistral\"," SIZES ",\"sliding_window\":null}",
        "{\"model_type\":\"mistral\"," SIZES ",\"head_dim\":6,\"sliding_window\":8,\"layer_types\":["
        "\"full_attention\",\"sliding_attention\",\"full_attention\",\"sliding_attention\"]}",
        "{\"model_type\":\"qwen2\"," SIZES ",\"use_sliding_window\":true,\"sliding_window\":8,"
        "\"max_window_layers\":2}",
        "{\"model_type\":\"qwen3\"," SIZES
        ",\"use_sliding_window\":true,\"sliding_window\":8,\"layer_types\":["
        "\"full_attention\",\"sliding_attention\",\"full_attention\",\"sliding_attention\"]}",
        "{\"model_type\":\"qwen3\"," SIZES ",\"attention_bias\":true,\"head_dim\":10}",
        "{\"model_type\":\"llama\"," SIZES ",\"attention_bias\":true,\"mlp_bias\":true,"
        "\"rope_scaling\":{\"type\":\"linear\",\"factor\":2.5}}",
        "{\"model_type\":\"llama\"," SIZES ",\"rope_theta\":5e5,\"rope_scaling\":{\"rope_type\":\"llama3\","
        "\"factor\":8,\"low_freq_factor\":1,\"high_freq_factor\":4,\"original_max_position_embeddings\":16}}",
        "{\"model_type\":\"llama\"," SIZES ",\"pad_token_id\":0}",
        "{\"model_type\":\"qwen2\"," SIZES ",\"pad_token_id\":-1}",
        "{\"model_type\":\"gpt2\",\"n_embd\":24,\"n_layer\":2,\"n_head\":4,\"n_positions\":32,\"vocab_size\":"
        "50,"
        "\"activation_function\":\"gelu\",\"tie_word_embeddings\":false,\"attn_pdrop\":0,\"embd_pdrop\":0,"
        "\"resid_pdrop\":0}",
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        struct ah_document model;
        struct ah_buffer out = {0};
        struct ah_error err = {0};
        parse(&model, texts[i]);
        CHECK_OK(ah_config_print(model.body.model, AH_FP32, &out, &err), err); /* also reads it back */
        ah_buffer_release(&out);
        ah_document_release(&model);
    }
}

TEST(config, names_what_it_cannot_say)
{
    struct ah_document document;
    struct ah_buffer out = {0};
    struct ah_error err = {0};
    parse(&document, "{\"model_type\":\"llama\"," SIZES "}");
    struct ah_model model = *document.body.model;
    model.qkv_bias = true;
    CHECK_FAILS(
        ah_config_print(&model, AH_FP32, &out, &err), err, AH_E_UNSUPPORTED,
        "'attention_output_bias' is not set in the model, but the config.json of a llama model cannot "
        "express it");
    model.qkv_bias = false;
    model.window = 8;
    CHECK_FAILS(ah_config_print(&model, AH_FP32, &out, &err), err, AH_E_UNSUPPORTED, "'window' is 8");
    assert_int_equal(out.size, 0);
    ah_document_release(&document);
}

static const char *put(const char *root, const char *text)
{
    static char path[PATH_MAX];
    root_put(root, "config.json", text);
    snprintf(path, sizeof path, "%s/config.json", root);
    return path;
}

TEST_IN(config, keeps_what_was_there, root_make, root_remove)
{
    static const char before[] =
        "{\n  \"torch_dtype\" :\"float16\", \"model_type\":\"llama\", \"auto_map\":{\"A\": \"b.C\"},\n" SIZES
        ",\t\"dtype\":null }\n";
    static const char after[] =
        "{\n  \"torch_dtype\" :\"bfloat16\", \"model_type\":\"llama\", \"auto_map\":{},\n" SIZES
        ",\t\"dtype\":\"bfloat16\" }\n";
    struct ah_document document;
    struct ah_buffer out = {0};
    struct ah_error err = {0};
    parse(&document, before);
    CHECK_OK(ah_config_adopt(document.body.model, put(*state, before), AH_BF16, &out, &err), err);
    assert_string_equal(out.data, after);
    ah_buffer_release(&out);
    CHECK_OK(ah_config_adopt(document.body.model, put(*state, "{\"model_type\":\"llama\"," SIZES "}"),
                             AH_BF16, &out, &err),
             err);
    assert_string_equal(out.data, "{\"model_type\":\"llama\"," SIZES "}");
    ah_buffer_release(&out);
    ah_document_release(&document);
}

TEST_IN(config, refuses_another_models, root_make, root_remove)
{
    struct ah_document document;
    struct ah_buffer out = {0};
    struct ah_error err = {0};
    parse(&document, "{\"model_type\":\"llama\"," SIZES "}");
    const struct ah_model *model = document.body.model;
    CHECK_FAILS(
        ah_config_adopt(model, put(*state, "{\"model_type\":\"mistral\"," SIZES "}"), AH_FP32, &out, &err),
        err, AH_E_MISMATCH, "config.json: 'family' is \"mistral\", but \"llama\" in the model");
    CHECK_FAILS(ah_config_adopt(model, put(*state, "{\"model_type\":\"llama\"," SIZES ",\"rope_theta\":5}"),
                                AH_FP32, &out, &err),
                err, AH_E_MISMATCH, "'rope.theta' is 5, but 10000 in the model");
    CHECK_FAILS(ah_config_adopt(model, put(*state, "{\"model_type\":"), AH_FP32, &out, &err), err,
                AH_E_DOCUMENT, "config.json:1:15");
    CHECK_FAILS(ah_config_adopt(model, "/no/such/config.json", AH_FP32, &out, &err), err, AH_E_IO,
                "/no/such/config.json: cannot be read");
    struct ah_buffer ours = {0};
    CHECK_OK(ah_document_print(&document, &ours, &err), err);
    CHECK_FAILS(ah_config_adopt(model, put(*state, ours.data), AH_FP32, &out, &err), err, AH_E_DOCUMENT,
                "is a model document; a config.json is expected");
    assert_int_equal(out.size, 0);
    ah_buffer_release(&ours);
    ah_document_release(&document);
}
