/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests what is found in adapters that the test writes: their names, not their values.
 */
#include "runtime/model/adapter.h"

#include "base/buffer.h"
#include "tests/support/check.h"
#include "tests/support/documents.h"
#include "tests/support/root.h"

#include <string.h>

#define LLAMA "base_model.model.model.layers."
#define GPT2  "base_model.model.transformer."

struct scene {
    struct ah_document model;
    struct ah_arena arena;
    struct ah_adapter_found found;
    struct ah_error err;
};

/* Writes an adapter with tensors of these names, each of one number. The list ends with NULL. */
static void put_adapter(const char *folder, const char *config, const char *const *names)
{
    struct ah_buffer header = {0}, file = {0};
    size_t n = 0;
    for (; names[n]; n++)
        ah_buffer_printf(&header, "%s\"%s\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[%zu,%zu]}",
                         n ? "," : "{", names[n], 4 * n, 4 * n + 4);
    ah_buffer_puts(&header, "}");
    const uint64_t size = header.size;
    ah_buffer_append(&file, &size, sizeof size);
    ah_buffer_append(&file, header.data, header.size);
    for (size_t i = 0; i < n; i++)
        ah_buffer_append(&file, "\0\0\0", 4);
    root_put_bytes(folder, "adapter_model.safetensors", file.data, file.size);
    root_put(folder, "adapter_config.json", config);
    ah_buffer_release(&header);
    ah_buffer_release(&file);
}

static int find(struct scene *scene, const char *folder, const char *model, const char *config,
                const char *const *names)
{
    char path[128];
    *scene = (struct scene){0};
    snprintf(path, sizeof path, "tests/golden/train/%s/config.json", model);
    load_document(&scene->model, path, AH_DOCUMENT_MODEL);
    put_adapter(folder, config, names);
    return ah_adapter_find(scene->model.body.model, folder, &scene->arena, &scene->found, &scene->err);
}

static void release(struct scene *scene)
{
    ah_document_release(&scene->model);
    ah_arena_release(&scene->arena);
}

/* The names of a block's tensors that were found, with spaces between them. */
static void expect_found(const struct scene *scene, uint64_t block, const char *expected)
{
    struct ah_model model = *scene->model.body.model, *with = &model;
    struct ah_model_lora lora = scene->found.lora;
    struct ah_model_tensor tensors[AH_MODEL_TENSORS_MAX];
    char text[1024] = "";
    with->lora = &lora;
    const size_t n = ah_model_tensors(with, ah_model_block_kind(with, block), tensors);
    for (size_t i = 0; i < n; i++)
        if (scene->found.trained[block] >> i & 1) {
            strcat(text, *text ? " " : "");
            strcat(text, tensors[i].name);
        }
    assert_string_equal(text, expected);
}

TEST_IN(adapter_find, finds_layers_and_whole_tensors, root_make, root_remove)
{
    static const char *const names[] = {LLAMA "1.self_attn.q_proj.lora_A.weight",
                                        LLAMA "1.self_attn.q_proj.lora_B.weight",
                                        LLAMA "1.self_attn.v_proj.lora_B.weight",
                                        LLAMA "1.self_attn.v_proj.lora_A.weight",
                                        LLAMA "0.mlp.down_proj.lora_A.weight",
                                        LLAMA "0.mlp.down_proj.lora_B.weight",
                                        LLAMA "0.input_layernorm.weight",
                                        "base_model.model.lm_head.weight",
                                        NULL};
    struct scene scene;
    CHECK_OK(find(&scene, *state, "llama",
                  "{\"peft_type\": \"LORA\", \"r\": 4, \"lora_alpha\": 6, \"target_modules\": \".*\"}",
                  names),
             scene.err);
    const struct ah_model_lora *lora = &scene.found.lora;
    assert_int_equal(lora->rank, 4);
    assert_true(lora->alpha == 6);
    assert_int_equal(lora->scaling, AH_LORA_STANDARD);
    assert_int_equal(lora->n_on, 3);
    assert_int_equal(lora->on[0], AH_LORA_Q);
    assert_int_equal(lora->on[1], AH_LORA_V);
    assert_int_equal(lora->on[2], AH_LORA_DOWN);
    expect_found(&scene, 0, "");
    expect_found(&scene, 1, "attention_norm.weight mlp.down.lora_a mlp.down.lora_b");
    expect_found(&scene, 2, "attention.qkv.lora_a attention.qkv.lora_b");
    expect_found(&scene, 3, "head.weight");
    release(&scene);
}

TEST_IN(adapter_find, finds_fused_matrices_and_rslora, root_make, root_remove)
{
    static const char *const names[] = {
        GPT2 "h.1.attn.c_attn.lora_A.weight", GPT2 "h.1.attn.c_attn.lora_B.weight",
        GPT2 "h.1.mlp.c_fc.lora_A.weight", GPT2 "h.1.mlp.c_fc.lora_B.weight", NULL};
    struct scene scene;
    CHECK_OK(find(&scene, *state, "gpt2", "{\"r\": 2, \"lora_alpha\": 1.5, \"use_rslora\": true}", names),
             scene.err);
    assert_int_equal(scene.found.lora.scaling, AH_LORA_RANK_STABILIZED);
    assert_int_equal(scene.found.lora.n_on, 2);
    assert_int_equal(scene.found.lora.on[0], AH_LORA_QKV);
    assert_int_equal(scene.found.lora.on[1], AH_LORA_UP);
    expect_found(&scene, 1, "");
    expect_found(&scene, 2,
                 "attention.qkv.lora_a attention.qkv.lora_b mlp.gate_up.lora_a mlp.gate_up.lora_b");
    release(&scene);
}

static void check_refused(const char *folder, const char *model, const char *const *names, int code,
                          const char *says)
{
    struct scene scene;
    CHECK_FAILS(find(&scene, folder, model, "{\"r\": 2, \"lora_alpha\": 2}", names), scene.err, code, says);
    check_text_has(scene.err.text, "adapter_model.safetensors: ");
    assert_memory_equal(&scene.found, &(struct ah_adapter_found){0}, sizeof scene.found);
    release(&scene);
}

TEST_IN(adapter_find, refuses_layers_that_lack_a_part, root_make, root_remove)
{
    static const char *const no_v[] = {LLAMA "0.self_attn.q_proj.lora_A.weight",
                                       LLAMA "0.self_attn.q_proj.lora_B.weight",
                                       LLAMA "0.self_attn.v_proj.lora_A.weight",
                                       LLAMA "0.self_attn.v_proj.lora_B.weight",
                                       LLAMA "1.self_attn.q_proj.lora_A.weight",
                                       LLAMA "1.self_attn.q_proj.lora_B.weight",
                                       NULL};
    static const char *const no_b[] = {LLAMA "0.mlp.down_proj.lora_A.weight", NULL};
    static const char *const no_a[] = {LLAMA "0.mlp.down_proj.lora_A.weight",
                                       LLAMA "0.mlp.down_proj.lora_B.weight",
                                       LLAMA "1.mlp.down_proj.lora_B.weight", NULL};
    static const char *const no_q[] = {LLAMA "0.self_attn.k_proj.weight", NULL};
    check_refused(*state, "llama", no_v, AH_E_UNSUPPORTED, "block 2 lacks an adapter or a tensor");
    check_refused(*state, "llama", no_b, AH_E_UNSUPPORTED, "block 1 lacks");
    check_refused(*state, "llama", no_a, AH_E_UNSUPPORTED, "block 2 lacks");
    check_refused(*state, "llama", no_q, AH_E_UNSUPPORTED, "block 1 lacks");
}

TEST_IN(adapter_find, refuses_other_models, root_make, root_remove)
{
    static const char *const of_gpt2[] = {GPT2 "h.1.attn.c_attn.lora_A.weight",
                                          GPT2 "h.1.attn.c_attn.lora_B.weight", NULL};
    static const char *const of_llama[] = {LLAMA "1.self_attn.q_proj.lora_A.weight",
                                           LLAMA "1.self_attn.q_proj.lora_B.weight", NULL};
    static const char *const deeper[] = {LLAMA "7.self_attn.q_proj.lora_A.weight",
                                         LLAMA "7.self_attn.q_proj.lora_B.weight", NULL};
    check_refused(*state, "llama", of_gpt2, AH_E_MISMATCH, "is it an adapter of this model?");
    check_refused(*state, "gpt2", of_llama, AH_E_MISMATCH, "has no tensor of model");
    check_refused(*state, "llama", deeper, AH_E_MISMATCH, "has no tensor of model");
}
