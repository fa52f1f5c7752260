/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests names of adapters in files, their shapes, their first values, and adapter_config.json.
 */
#include "runtime/model/adapter.h"

#include "base/file.h"
#include "runtime/model/initial.h"
#include "runtime/model/weight_names.h"
#include "schemas/document.h"
#include "tests/support/check.h"
#include "tests/support/documents.h"
#include "tests/support/root.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static unsigned on_llama[] = {AH_LORA_Q, AH_LORA_V, AH_LORA_OUTPUT, AH_LORA_UP, AH_LORA_DOWN};
static unsigned on_gpt2[] = {AH_LORA_QKV, AH_LORA_OUTPUT, AH_LORA_UP, AH_LORA_DOWN};

/* Loads an example and gives it adapters. */
static void open_model(struct ah_document *document, const char *name, struct ah_model_lora *lora)
{
    char path[64];
    snprintf(path, sizeof path, "examples/models/%s.json", name);
    load_document(document, path, AH_DOCUMENT_MODEL);
    document->body.model->lora = lora;
}

struct expected {
    const char *name;
    uint64_t row, rows, cols;
};

static void check_names(const char *model, struct ah_model_lora *lora, const struct expected *expected,
                        size_t n)
{
    struct ah_document document;
    struct ah_names_part parts[AH_NAMES_PARTS_MAX];
    open_model(&document, model, lora);
    const size_t all = ah_names_parts(document.body.model, 2, parts);
    assert_true(all > n);
    for (size_t i = 0; i < n; i++) {
        const struct ah_names_part *part = &parts[all - n + i];
        assert_string_equal(part->name, expected[i].name);
        assert_int_equal(part->row, expected[i].row);
        assert_int_equal(part->rows, expected[i].rows);
        assert_int_equal(part->cols, expected[i].cols);
        assert_false(part->transposed);
    }
    ah_document_release(&document);
}

/* Those of q, k, v and of gate, up are one above the other; gpt2's are not transposed, unlike its matrices. */
TEST(adapter, has_the_names_of_peft)
{
    struct ah_model_lora lora = {.rank = 8, .alpha = 16, .on = on_llama, .n_on = 5};
#define LLAMA "base_model.model.model.layers.1."
    const struct expected of_llama[] = {{LLAMA "self_attn.q_proj.lora_A.weight", 0, 8, 4096},
                                        {LLAMA "self_attn.v_proj.lora_A.weight", 8, 8, 4096},
                                        {LLAMA "self_attn.q_proj.lora_B.weight", 0, 4096, 8},
                                        {LLAMA "self_attn.v_proj.lora_B.weight", 4096, 1024, 8},
                                        {LLAMA "self_attn.o_proj.lora_A.weight", 0, 8, 4096},
                                        {LLAMA "self_attn.o_proj.lora_B.weight", 0, 4096, 8},
                                        {LLAMA "mlp.up_proj.lora_A.weight", 0, 8, 4096},
                                        {LLAMA "mlp.up_proj.lora_B.weight", 0, 14336, 8},
                                        {LLAMA "mlp.down_proj.lora_A.weight", 0, 8, 14336},
                                        {LLAMA "mlp.down_proj.lora_B.weight", 0, 4096, 8}};
    check_names("llama-3-8b", &lora, of_llama, sizeof of_llama / sizeof *of_llama);
#define GPT2 "base_model.model.transformer.h.1."
    struct ah_model_lora other = {.rank = 2, .alpha = 1, .on = on_gpt2, .n_on = 4};
    const struct expected of_gpt2[] = {
        {GPT2 "attn.c_attn.lora_A.weight", 0, 2, 768}, {GPT2 "attn.c_attn.lora_B.weight", 0, 2304, 2},
        {GPT2 "attn.c_proj.lora_A.weight", 0, 2, 768}, {GPT2 "attn.c_proj.lora_B.weight", 0, 768, 2},
        {GPT2 "mlp.c_fc.lora_A.weight", 0, 2, 768},    {GPT2 "mlp.c_fc.lora_B.weight", 0, 3072, 2},
        {GPT2 "mlp.c_proj.lora_A.weight", 0, 2, 3072}, {GPT2 "mlp.c_proj.lora_B.weight", 0, 768, 2}};
    check_names("gpt2-124m", &other, of_gpt2, sizeof of_gpt2 / sizeof *of_gpt2);
}

/* A is uniform within 1 / sqrt(inputs): mean 0, deviation a root of three below; B is 0. */
TEST(adapter, begins_as_in_peft)
{
    enum { N = 65536 };
    struct ah_model_lora lora = {.rank = 64, .alpha = 16, .on = on_llama, .n_on = 5};
    struct ah_model_tensor tensors[AH_MODEL_TENSORS_MAX];
    struct ah_document document;
    float *values = malloc(N * sizeof *values);
    open_model(&document, "llama-3-8b", &lora);
    const size_t n = ah_model_tensors(document.body.model, AH_BLOCK_LAYER, tensors);
    assert_non_null(values);
    assert_string_equal(tensors[n - 1].name, "mlp.down.lora_b");
    for (size_t i = n - 2; i < n; i++) {
        const struct ah_weights_piece piece = {
            .block = 3, .tensor = i, .first = 0, .element = 128000, .n = N};
        double sum = 0, squares = 0, most = 0;
        ah_initial_fill(document.body.model, 5, &piece, values);
        for (size_t k = 0; k < N; k++) {
            sum += (double)values[k];
            squares += (double)values[k] * (double)values[k];
            most = fmax(most, fabs((double)values[k]));
        }
        const double bound = i == n - 2 ? 1 / sqrt(14336) : 0;
        assert_true(most <= bound && most >= 0.999 * bound);
        assert_true(fabs(sum / N) <= 0.02 * bound);
        assert_true(fabs(sqrt(squares / N) - bound / sqrt(3)) <= 0.02 * bound);
    }
    free(values);
    ah_document_release(&document);
}

static void expect_config(const struct ah_model *model, const uint32_t *trained, const char *base,
                          const char *expected)
{
    struct ah_buffer text = {0};
    struct ah_error err = {0};
    CHECK_OK(ah_adapter_print(model, trained, base, &text, &err), err);
    assert_string_equal(text.data, expected);
    ah_buffer_release(&text);
}

TEST(adapter, has_a_config)
{
    struct ah_model_lora lora = {
        .rank = 2, .alpha = 1.5, .scaling = AH_LORA_RANK_STABILIZED, .on = on_gpt2, .n_on = 4};
    struct ah_document document;
    uint32_t trained[14] = {1, [3] = UINT32_C(0xff) << 12};
    struct ah_error err = {0};
    struct ah_buffer text = {0};
    open_model(&document, "gpt2-124m", &lora);
    expect_config(document.body.model, trained, "/models/\"x\"",
                  "{\n"
                  "  \"base_model_name_or_path\": \"/models/\\\"x\\\"\",\n"
                  "  \"bias\": \"none\",\n"
                  "  \"ensure_weight_tying\": true,\n"
                  "  \"fan_in_fan_out\": true,\n"
                  "  \"inference_mode\": true,\n"
                  "  \"layers_to_transform\": [2],\n"
                  "  \"lora_alpha\": 1.5,\n"
                  "  \"lora_dropout\": 0.0,\n"
                  "  \"modules_to_save\": [\"transformer.wte\", \"lm_head\"],\n"
                  "  \"peft_type\": \"LORA\",\n"
                  "  \"r\": 2,\n"
                  "  \"target_modules\": [\"attn.c_attn\", \"attn.c_proj\", \"mlp.c_fc\", \"mlp.c_proj\"],\n"
                  "  \"task_type\": \"CAUSAL_LM\",\n"
                  "  \"use_rslora\": true\n"
                  "}\n");
    trained[3] |= 1u << 8; /* mlp.up.weight, which also has an adapter */
    CHECK_FAILS(ah_adapter_print(document.body.model, trained, NULL, &text, &err), err, AH_E_UNSUPPORTED,
                "'transformer.h.2.mlp.c_fc.weight' would be trained and have an adapter, too");
    trained[3] = 1; /* attention_norm.weight without its bias, which peft would save beside it */
    CHECK_FAILS(ah_adapter_check_trained(document.body.model, trained, &err), err, AH_E_UNSUPPORTED,
                "'transformer.h.2.ln_1.weight' would be trained without 'transformer.h.2.ln_1.bias'");
    trained[3] = 3;
    CHECK_OK(ah_adapter_check_trained(document.body.model, trained, &err), err);
    ah_buffer_release(&text);
    ah_document_release(&document);
}

static void check_config(const struct ah_model *model, const char *folder, const char *text, int code,
                         const char *says)
{
    char path[256];
    struct ah_error err = {0};
    snprintf(path, sizeof path, "%s/adapter_config.json", folder);
    CHECK_OK(ah_file_write(path, text, strlen(text), &err), err);
    assert_int_equal(ah_adapter_check(model, folder, &err), code);
    if (code && !strstr(err.text, says))
        fail_msg("'%s' does not say '%s'", err.text, says);
    remove(path);
}

TEST(adapter, is_checked_before_it_is_loaded)
{
    char folder[] = "/tmp/ah-adapter-XXXXXX";
    struct ah_model_lora lora = {.rank = 8, .alpha = 8, .on = on_llama, .n_on = 5};
    struct ah_document document;
    assert_non_null(mkdtemp(folder));
    open_model(&document, "llama-3-8b", &lora);
    const struct ah_model *model = document.body.model;
    check_config(model, folder,
                 "{\"peft_type\": \"LORA\", \"r\": 8, \"lora_alpha\": 8.0, \"bias\": \"none\"}", AH_OK, "");
    check_config(model, folder, "{\"rank_pattern\": {}, \"use_dora\": false, \"bias\": null}", AH_OK, "");
    check_config(model, folder, "{\"r\": 16, \"use_rslora\": true}", AH_E_MISMATCH,
                 "plan with '--lora rank=16,alpha=8,scaling=rank_stabilized'");
    check_config(model, folder, "{\"r\": 8, \"lora_alpha\": 16}", AH_E_MISMATCH,
                 "plan with '--lora rank=8,alpha=16'");
    check_config(model, folder, "{\"use_dora\": true}", AH_E_UNSUPPORTED, "use_dora is set");
    check_config(model, folder, "{\"alpha_pattern\": {\"q_proj\": 4}}", AH_E_UNSUPPORTED,
                 "alpha_pattern is set");
    check_config(model, folder, "{\"bias\": \"all\"}", AH_E_UNSUPPORTED, "bias is set");
    check_config(model, folder, "{\"peft_type\": \"IA3\"}", AH_E_UNSUPPORTED, "is not LORA");
    check_config(model, folder, "{\"layer_replication\": [[0, 2]]}", AH_E_UNSUPPORTED,
                 "layer_replication is set");
    check_config(model, folder, "{\"init_lora_weights\": \"pissa_niter_4\"}", AH_E_UNSUPPORTED,
                 "changes the base's weights");
    check_config(model, folder, "{\"init_lora_weights\": \"gaussian\"}", AH_OK, "");
    check_config(model, folder, "{\"r\": null}", AH_E_DOCUMENT, "r must be a number from 1 to 4096");
    check_config(model, folder, "{\"lora_alpha\": 1e300}", AH_E_DOCUMENT, "lora_alpha one above 0");
    check_config(model, folder, "[]", AH_E_DOCUMENT, "is not an object");
    check_config(model, folder, "{\"r\": }", AH_E_DOCUMENT, "adapter_config.json");
    rmdir(folder);
    ah_document_release(&document);
}
