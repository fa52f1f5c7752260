/* SPDX-License-Identifier: Apache-2.0
 *
 * Compares the parts of blocks' tensors with rules for all names, and with the list of names in docs/weights.md.
 */
#include "runtime/model/weight_names.h"

#include "base/buffer.h"
#include "base/file.h"
#include "tests/support/documents.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const models[] = {
    "examples/models/gpt2-124m.json",    "examples/models/llama-3-8b.json", "examples/models/mistral-7b.json",
    "examples/models/qwen2.5-0.5b.json", "examples/models/qwen3-0.6b.json",
};

static void check_block(const struct ah_model *model, uint64_t block)
{
    struct ah_names_part parts[AH_NAMES_PARTS_MAX];
    struct ah_model_tensor tensors[AH_MODEL_TENSORS_MAX];
    size_t n_tensors = ah_model_tensors(model, ah_model_block_kind(model, block), tensors);
    size_t n = ah_names_parts(model, block, parts), at = 0;
    for (size_t t = 0; t < n_tensors; t++) {
        uint64_t row = 0;
        for (; at < n && parts[at].tensor == t; at++) { /* parts in order, without gaps, to the last row */
            const struct ah_names_part *part = &parts[at];
            assert_int_equal(part->row, row);
            assert_int_equal(part->cols, tensors[t].cols);
            assert_int_equal(part->n_shape, tensors[t].matrix ? 2 : 1);
            assert_int_equal(part->shape[part->transposed], part->rows);
            assert_int_equal(part->shape[!part->transposed], part->cols);
            row += part->rows;
        }
        assert_int_equal(row, tensors[t].rows);
    }
    assert_int_equal(at, n);
}

TEST(names, cover_every_tensor_once)
{
    for (size_t m = 0; m < sizeof models / sizeof models[0]; m++) {
        struct ah_document document;
        load_document(&document, models[m], AH_DOCUMENT_MODEL);
        for (uint64_t block = 0; block < ah_model_blocks(document.body.model); block++)
            check_block(document.body.model, block);
        struct ah_model untied = *document.body.model;
        untied.tied = !untied.tied;
        check_block(&untied, untied.layers + 1);
        ah_document_release(&document);
    }
}

TEST(names, are_those_of_the_library)
{
    static const struct {
        const char *model;
        uint64_t block;
        size_t part;
        const char *name;
    } cases[] = {
        {"examples/models/gpt2-124m.json", 0, 1, "transformer.wpe.weight"},
        {"examples/models/gpt2-124m.json", 12, 2, "transformer.h.11.attn.c_attn.weight"},
        {"examples/models/gpt2-124m.json", 13, 1, "transformer.ln_f.bias"},
        {"examples/models/llama-3-8b.json", 1, 3, "model.layers.0.self_attn.v_proj.weight"},
        {"examples/models/llama-3-8b.json", 33, 1, "lm_head.weight"},
        {"examples/models/qwen3-0.6b.json", 28, 4, "model.layers.27.self_attn.q_norm.weight"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct ah_document document;
        struct ah_names_part parts[AH_NAMES_PARTS_MAX];
        load_document(&document, cases[i].model, AH_DOCUMENT_MODEL);
        size_t n = ah_names_parts(document.body.model, cases[i].block, parts);
        assert_true(cases[i].part < n);
        assert_string_equal(parts[cases[i].part].name, cases[i].name);
        ah_document_release(&document);
    }
}

/* A name of a part, each spelling of it that files may have, and the name in files of adapters. */
static void check_spellings(const struct ah_model *model, const char *name, const char *const *spelled,
                            const char *in_adapter)
{
    char text[AH_NAMES_NAME_MAX];
    struct ah_names_part part;
    size_t n = 0;
    for (const struct ah_names_spelling *i = ah_names_spellings(model); i->prefix; i++, n++) {
        ah_names_spell(model, i, name, text);
        assert_string_equal(text, spelled[n]);
        assert_true(ah_names_unspell(model, spelled[n], text));
        assert_string_equal(text, name);
    }
    assert_null(spelled[n]);
    snprintf(part.name, sizeof part.name, "%s", name);
    ah_names_in_adapter(model, &part);
    assert_string_equal(part.name, in_adapter);
}

TEST(names, have_the_spellings_of_files)
{
    const struct ah_model plain = {.family = AH_FAMILY_LLAMA}, gpt2 = {.family = AH_FAMILY_GPT2},
                          images = {.family = AH_FAMILY_GEMMA3, .multimodal = true};
    char text[AH_NAMES_NAME_MAX], longest[2 * AH_NAMES_NAME_MAX];
    check_spellings(&plain, "model.norm.weight",
                    (const char *const[]){"model.norm.weight", "norm.weight", NULL},
                    "base_model.model.model.norm.weight");
    check_spellings(&plain, "lm_head.weight", (const char *const[]){"lm_head.weight", "lm_head.weight", NULL},
                    "base_model.model.lm_head.weight");
    check_spellings(&gpt2, "transformer.h.1.ln_1.bias",
                    (const char *const[]){"transformer.h.1.ln_1.bias", "h.1.ln_1.bias", NULL},
                    "base_model.model.transformer.h.1.ln_1.bias");
    check_spellings(&images, "model.norm.weight",
                    (const char *const[]){"model.language_model.norm.weight",
                                          "language_model.model.norm.weight", "model.norm.weight",
                                          "norm.weight", NULL},
                    "base_model.model.model.language_model.norm.weight");
    check_spellings(&images, "lm_head.weight",
                    (const char *const[]){"lm_head.weight", "language_model.lm_head.weight", "lm_head.weight",
                                          "lm_head.weight", NULL},
                    "base_model.model.lm_head.weight");
    memset(longest, 'x', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    for (size_t i = 0; i < AH_NAMES_NAME_MAX; i++) { /* what is not refused has room in files of adapters */
        struct ah_names_part part;
        if (ah_names_unspell(&images, longest + i, part.name))
            ah_names_in_adapter(&images, &part);
    }
    assert_false(ah_names_unspell(&images, longest, text));
}

TEST(names, know_what_is_outside_of_the_text_part)
{
    const struct ah_model plain = {.family = AH_FAMILY_GEMMA3},
                          images = {.family = AH_FAMILY_GEMMA3, .multimodal = true};
    static const char *const names[] = {"vision_tower.vision_model.head.weight", "model.vision_tower.x",
                                        "multi_modal_projector.mm_soft_emb_norm.weight",
                                        "model.multi_modal_projector.mm_soft_emb_norm.weight"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        assert_true(ah_names_is_outside(&images, names[i]));
        assert_false(ah_names_is_outside(&plain, names[i]));
    }
    assert_false(ah_names_is_outside(&images, "model.language_model.norm.weight"));
    assert_true(ah_names_is_table(&images, "language_model.model.embed_tokens.weight"));
    assert_true(ah_names_is_table(&images, "model.language_model.embed_tokens.weight"));
    assert_true(ah_names_is_table(&plain, "embed_tokens.weight"));
    assert_false(ah_names_is_table(&plain, "model.norm.weight"));
}

TEST(names, know_what_holds_nothing)
{
    assert_true(ah_names_ignorable(AH_FAMILY_GPT2, "h.0.attn.bias"));
    assert_true(ah_names_ignorable(AH_FAMILY_GPT2, "transformer.h.11.attn.masked_bias"));
    assert_false(ah_names_ignorable(AH_FAMILY_GPT2, "h.0.attn.c_attn.bias"));
    assert_false(ah_names_ignorable(AH_FAMILY_GPT2, "layers.0.self_attn.rotary_emb.inv_freq"));
    assert_true(ah_names_ignorable(AH_FAMILY_LLAMA, "model.layers.0.self_attn.rotary_emb.inv_freq"));
    assert_true(ah_names_ignorable(AH_FAMILY_QWEN3, "model.rotary_emb.inv_freq"));
    assert_false(ah_names_ignorable(AH_FAMILY_LLAMA, "h.0.attn.bias"));
    assert_false(ah_names_ignorable(AH_FAMILY_LLAMA, ""));
}

/* Returns the word for the page's "rows" column: which of q, k and v the part is. */
static const char *rows_word(const struct ah_names_part *part, const struct ah_model *model)
{
    uint64_t query = model->heads * model->head_dim, key = model->kv_heads * model->head_dim;
    return part->rows == query && part->row == 0 ? "q" : part->row == query && part->rows == key ? "k" : "v";
}

static void print_part(const struct ah_model *model, uint64_t block, const struct ah_names_part *part,
                       const struct ah_model_tensor *tensor, struct ah_buffer *out)
{
    char name[AH_NAMES_NAME_MAX];
    const char *number =
        ah_model_block_kind(model, block) == AH_BLOCK_LAYER ? strstr(part->name, ".0.") : NULL;
    if (number)
        snprintf(name, sizeof name, "%.*s.N.%s", (int)(number - part->name), part->name, number + 3);
    else
        snprintf(name, sizeof name, "%.95s", part->name);
    ah_buffer_printf(out, "| `%s` | `%s` | %s |\n", tensor->name, name,
                     part->transposed             ? "transposed"
                     : part->rows == tensor->rows ? ""
                                                  : rows_word(part, model));
}

/* Prints a family's table of names: the embedding, one layer, and a head with its own projection. */
static void print_table(const struct ah_model *model, struct ah_buffer *out)
{
    const uint64_t blocks[] = {0, 1, model->layers + 1};
    struct ah_names_part parts[AH_NAMES_PARTS_MAX];
    struct ah_model_tensor tensors[AH_MODEL_TENSORS_MAX];
    ah_buffer_puts(out, "| ours | in files | |\n|---|---|---|\n");
    for (size_t b = 0; b < 3; b++) {
        size_t n = ah_names_parts(model, blocks[b], parts);
        ah_model_tensors(model, ah_model_block_kind(model, blocks[b]), tensors);
        for (size_t i = 0; i < n; i++)
            print_part(model, blocks[b], &parts[i], &tensors[parts[i].tensor], out);
    }
}

/* Checks the page's table of the family, with a model that has every possible tensor. */
static void check_page(const char *page, enum ah_family family)
{
    bool gpt2 = family == AH_FAMILY_GPT2;
    struct ah_model model = {.family = family,
                             .layers = 1,
                             .width = 8,
                             .heads = 4,
                             .kv_heads = gpt2 ? 4 : 2,
                             .head_dim = 2,
                             .mlp_width = 16,
                             .vocabulary = 32,
                             .max_positions = 4,
                             .position = gpt2 ? AH_POSITION_LEARNED : AH_POSITION_ROPE,
                             .norm = gpt2 ? AH_MODEL_NORM_LAYER : AH_MODEL_NORM_RMS,
                             .activation = gpt2 ? AH_MODEL_GELU_TANH : AH_MODEL_SILU_GATED,
                             .qkv_bias = true,
                             .attention_output_bias = true,
                             .mlp_bias = true,
                             .qk_norm = !gpt2};
    struct ah_buffer table = {0};
    print_table(&model, &table);
    if (!strstr(page, table.data))
        fail_msg("docs/weights.md does not have this table:\n%s", table.data);
    ah_buffer_release(&table);
}

/* Checks that the page has the name of each tensor of a layer. */
static void check_layer(const char *page, enum ah_family family, enum ah_norm_place place)
{
    const struct ah_model model = {.family = family,
                                   .layers = 1,
                                   .width = 8,
                                   .heads = 4,
                                   .kv_heads = 2,
                                   .head_dim = 2,
                                   .mlp_width = 16,
                                   .vocabulary = 32,
                                   .position = AH_POSITION_ROPE,
                                   .norm_place = place,
                                   .activation = AH_MODEL_SILU_GATED,
                                   .qk_norm = family != AH_FAMILY_PHI3};
    struct ah_names_part parts[AH_NAMES_PARTS_MAX];
    struct ah_model_tensor tensors[AH_MODEL_TENSORS_MAX];
    const size_t n = ah_names_parts(&model, 1, parts);
    ah_model_tensors(&model, AH_BLOCK_LAYER, tensors);
    for (size_t i = 0; i < n; i++) {
        const char *end = parts[i].name + strlen("model.layers.0.");
        char row[256];
        snprintf(row, sizeof row, "| `%s` | `model.layers.N.%s` |", tensors[parts[i].tensor].name, end);
        if (!strstr(page, row))
            fail_msg("docs/weights.md does not have this row: %s", row);
    }
}

TEST(names, are_as_documented)
{
    struct ah_buffer page = {0};
    struct ah_error err = {0};
    CHECK_OK(ah_file_read("docs/weights.md", 1 << 20, &page, &err), err);
    for (enum ah_family family = AH_FAMILY_GPT2; family <= AH_FAMILY_QWEN3; family++)
        check_page(page.data, family);
    check_layer(page.data, AH_FAMILY_OLMO2, AH_NORM_AFTER);
    check_layer(page.data, AH_FAMILY_SMOLLM3, AH_NORM_BEFORE);
    check_layer(page.data, AH_FAMILY_PHI3, AH_NORM_BEFORE);
    check_layer(page.data, AH_FAMILY_GEMMA2, AH_NORM_AROUND);
    check_layer(page.data, AH_FAMILY_GEMMA3, AH_NORM_AROUND);
    ah_buffer_release(&page);
}
