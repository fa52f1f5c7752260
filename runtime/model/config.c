/* SPDX-License-Identifier: Apache-2.0
 *
 * Printing: writes the keys of a family in alphabetical order, as the transformers library does. The text is then read
 * back and compared with the model. If a field differs, no config can express the model, and nothing is printed.
 */
#include "runtime/model/config.h"

#include "base/file.h"
#include "schemas/cursor.h"
#include "schemas/document.h"
#include "schemas/json.h"

#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { CONFIG_BYTES_MAX = 1 << 24, PLACE_MAX = 160 };

/* ---- values ---- */

struct print {
    const struct ah_model *model;
    enum ah_dtype dtype;
    struct ah_buffer *out; /* compact JSON */
};

static void put_key(const struct print *print, const char *key)
{
    ah_buffer_printf(print->out, "%s\"%s\":", print->out->size > 1 ? "," : "", key);
}

static void put_count(const struct print *print, const char *key, uint64_t count)
{
    put_key(print, key);
    ah_buffer_printf(print->out, "%" PRIu64, count);
}

static void put_number(const struct print *print, const char *key, double number)
{
    put_key(print, key);
    ah_json_put_number(print->out, number);
}

static void put_bool(const struct print *print, const char *key, bool value)
{
    put_key(print, key);
    ah_buffer_puts(print->out, value ? "true" : "false");
}

static void put_word(const struct print *print, const char *key, const char *word)
{
    put_key(print, key);
    ah_buffer_printf(print->out, "\"%s\"", word);
}

static void put_architecture(const struct print *print, const char *architecture)
{
    put_key(print, "architectures");
    ah_buffer_printf(print->out, "[\"%s\"]", architecture);
}

static const char *dtype_word(enum ah_dtype dtype)
{
    return dtype == AH_BF16 ? "bfloat16" : "float32";
}

/* ---- families ---- */

static void put_gpt2(const struct print *print)
{
    const struct ah_model *model = print->model;
    put_word(print, "activation_function", model->activation == AH_MODEL_GELU ? "gelu" : "gelu_new");
    put_architecture(print, "GPT2LMHeadModel");
    put_number(print, "attn_pdrop", model->dropout);
    put_number(print, "embd_pdrop", model->dropout);
    put_number(print, "initializer_range", model->initializer_range);
    put_number(print, "layer_norm_epsilon", model->norm_epsilon);
    put_word(print, "model_type", "gpt2");
    put_count(print, "n_embd", model->width);
    put_count(print, "n_head", model->heads);
    put_count(print, "n_inner", model->mlp_width);
    put_count(print, "n_layer", model->layers);
    put_count(print, "n_positions", model->max_positions);
    put_number(print, "resid_pdrop", model->dropout);
    put_bool(print, "tie_word_embeddings", model->tied);
    put_word(print, "torch_dtype", dtype_word(print->dtype));
    put_count(print, "vocab_size", model->vocabulary);
}

enum {
    QWENS = 1U << AH_FAMILY_QWEN2 | 1U << AH_FAMILY_QWEN3,
    GEMMAS = 1U << AH_FAMILY_GEMMA2 | 1U << AH_FAMILY_GEMMA3
};

/* True if the model's family is one of a set. */
static bool is_of(const struct ah_model *model, unsigned families)
{
    return families & 1U << model->family;
}

static void put_layer_types(const struct print *print)
{
    put_key(print, "layer_types");
    for (uint64_t i = 0; i < print->model->layers; i++)
        ah_buffer_printf(print->out, "%s\"%s\"", i ? "," : "[",
                         ah_model_layer_ways(print->model, i).windowed ? "sliding_attention"
                                                                       : "full_attention");
    ah_buffer_puts(print->out, "]");
}

/* Returns the first layer with a window. Older readers support windows only in all layers from one layer on. */
static uint64_t first_windowed(const struct ah_model *model)
{
    uint64_t i = 0;
    while (i < model->layers && !ah_model_layer_ways(model, i).windowed)
        i++;
    return i;
}

static void put_window(const struct print *print)
{
    const struct ah_model *model = print->model;
    put_key(print, "sliding_window");
    if (model->window)
        ah_buffer_printf(print->out, "%" PRIu64, model->window);
    else
        ah_buffer_puts(print->out, "null");
}

static void put_rope_number(const struct print *print, const char *key, double number)
{
    if (!(number > 0))
        return;
    ah_buffer_printf(print->out, "\"%s\":", key);
    ah_json_put_number(print->out, number);
    ah_buffer_puts(print->out, ",");
}

static void put_rope_factors(const struct print *print, const char *key, const double *factors, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (i)
            ah_buffer_puts(print->out, ",");
        else
            ah_buffer_printf(print->out, "\"%s\":[", key);
        ah_json_put_number(print->out, factors[i]);
    }
    ah_buffer_puts(print->out, n ? "]," : "");
}

/* Puts the settings of a rope. phi3 has the original positions outside. */
static void put_rope(const struct print *print, const struct ah_model_rope *rope, bool theta)
{
    struct ah_buffer *out = print->out;
    ah_buffer_puts(out, "{");
    put_rope_number(print, "attention_factor", rope->attention_factor);
    put_rope_number(print, "beta_fast", rope->beta_fast);
    put_rope_number(print, "beta_slow", rope->beta_slow);
    put_rope_number(print, "factor", rope->factor);
    put_rope_number(print, "high_freq_factor", rope->high_freq_factor);
    put_rope_factors(print, "long_factor", rope->long_factors, rope->n_long_factors);
    put_rope_number(print, "low_freq_factor", rope->low_freq_factor);
    if (print->model->family != AH_FAMILY_PHI3)
        put_rope_number(print, "original_max_position_embeddings", (double)rope->original_positions);
    put_rope_number(print, "rope_theta", theta ? rope->theta : 0);
    put_rope_factors(print, "short_factor", rope->short_factors, rope->n_short_factors);
    if (rope->untruncated)
        ah_buffer_puts(out, "\"truncate\":false,");
    ah_buffer_printf(out, "\"rope_type\":\"%s\"}", ah_words_rope[rope->kind]);
}

/* Puts both ropes of gemma3 in the newer spelling, which alone can scale that of layers with a window. */
static void put_rope_pair(const struct print *print)
{
    put_key(print, "rope_parameters");
    ah_buffer_puts(print->out, "{\"full_attention\":");
    put_rope(print, print->model->rope, true);
    ah_buffer_puts(print->out, ",\"sliding_attention\":");
    put_rope(print, print->model->window_rope, true);
    ah_buffer_puts(print->out, "}");
}

static void put_ropes(const struct print *print)
{
    const struct ah_model *model = print->model;
    if (model->window_rope && model->window_rope->kind != AH_ROPE_DEFAULT) {
        put_rope_pair(print);
        return;
    }
    if (model->window_rope)
        put_number(print, "rope_local_base_freq", model->window_rope->theta);
    put_key(print, "rope_scaling");
    if (model->rope->kind == AH_ROPE_DEFAULT)
        ah_buffer_puts(print->out, "null");
    else
        put_rope(print, model->rope, false);
    put_number(print, "rope_theta", model->rope->theta);
}

static void put_cap(const struct print *print, const char *key, double cap)
{
    put_key(print, key);
    if (!(cap > 0)) {
        ah_buffer_puts(print->out, "null");
        return;
    }
    ah_json_put_number(print->out, cap);
    if (!(cap > floor(cap))) /* transformers wants a point */
        ah_buffer_puts(print->out, ".0");
}

static void put_no_rope_layers(const struct print *print)
{
    put_key(print, "no_rope_layers");
    for (uint64_t i = 0; i < print->model->layers; i++)
        ah_buffer_printf(print->out, "%s%d", i ? "," : "[", !ah_model_layer_ways(print->model, i).unrotated);
    ah_buffer_puts(print->out, "]");
}

static const char *const architectures[] = {
    [AH_FAMILY_GPT2] = "GPT2LMHeadModel",       [AH_FAMILY_LLAMA] = "LlamaForCausalLM",
    [AH_FAMILY_MISTRAL] = "MistralForCausalLM", [AH_FAMILY_QWEN2] = "Qwen2ForCausalLM",
    [AH_FAMILY_QWEN3] = "Qwen3ForCausalLM",     [AH_FAMILY_OLMO2] = "Olmo2ForCausalLM",
    [AH_FAMILY_SMOLLM3] = "SmolLM3ForCausalLM", [AH_FAMILY_PHI3] = "Phi3ForCausalLM",
    [AH_FAMILY_GEMMA2] = "Gemma2ForCausalLM",   [AH_FAMILY_GEMMA3] = "Gemma3ForCausalLM",
};

/* Puts the share of a head that turns, so that the number of its elements comes back, which is rounded down. */
static void put_rotated(const struct print *print)
{
    const struct ah_model *model = print->model;
    const double heads = (double)model->head_dim, rotated = (double)ah_model_rotated(model);
    double factor = rotated / heads;
    if (!model->rope || !model->rope->rotated)
        return;
    while (heads * factor < rotated)
        factor = nextafter(factor, 1);
    put_number(print, "partial_rotary_factor", factor);
}

static void put_padding(const struct print *print)
{
    if (print->model->padding_token != AH_MODEL_NO_PADDING)
        put_count(print, "pad_token_id", print->model->padding_token);
    else if (!is_of(print->model, QWENS | 1U << AH_FAMILY_LLAMA | 1U << AH_FAMILY_MISTRAL)) {
        put_key(print, "pad_token_id"); /* these families have a default */
        ah_buffer_puts(print->out, "null");
    }
}

static void put_llama(const struct print *print)
{
    enum {
        LLAMA = 1U << AH_FAMILY_LLAMA,
        MISTRAL = 1U << AH_FAMILY_MISTRAL,
        QWEN3 = 1U << AH_FAMILY_QWEN3,
        OLMO2 = 1U << AH_FAMILY_OLMO2,
        SMOLLM3 = 1U << AH_FAMILY_SMOLLM3,
        PHI3 = 1U << AH_FAMILY_PHI3,
        TYPED = QWENS | SMOLLM3 | GEMMAS /* families with layer_types in any case */
    };
    const struct ah_model *model = print->model;
    put_architecture(print, architectures[model->family]);
    if (is_of(model, LLAMA | QWEN3 | OLMO2 | SMOLLM3 | GEMMAS))
        put_bool(print, "attention_bias", model->qkv_bias);
    put_number(print, "attention_dropout", model->dropout);
    if (is_of(model, 1U << AH_FAMILY_GEMMA2))
        put_cap(print, "attn_logit_softcapping", model->score_cap);
    if (is_of(model, GEMMAS))
        put_cap(print, "final_logit_softcapping", model->logit_cap);
    put_count(print, "head_dim", model->head_dim);
    put_word(print, is_of(model, GEMMAS) ? "hidden_activation" : "hidden_act",
             is_of(model, GEMMAS) ? "gelu_pytorch_tanh" : "silu");
    put_count(print, "hidden_size", model->width);
    put_number(print, "initializer_range", model->initializer_range);
    put_count(print, "intermediate_size", model->mlp_width);
    if (is_of(model, TYPED) || model->n_window_layers)
        put_layer_types(print);
    put_count(print, "max_position_embeddings", model->max_positions);
    if (is_of(model, QWENS))
        put_count(print, "max_window_layers", first_windowed(model));
    if (is_of(model, LLAMA | SMOLLM3))
        put_bool(print, "mlp_bias", model->mlp_bias);
    put_word(print, "model_type", ah_words_family[model->family]);
    if (is_of(model, SMOLLM3))
        put_no_rope_layers(print);
    put_count(print, "num_attention_heads", model->heads);
    put_count(print, "num_hidden_layers", model->layers);
    put_count(print, "num_key_value_heads", model->kv_heads);
    if (is_of(model, PHI3) && model->rope->original_positions)
        put_count(print, "original_max_position_embeddings", model->rope->original_positions);
    put_padding(print);
    put_rotated(print);
    if (is_of(model, GEMMAS))
        put_number(print, "query_pre_attn_scalar",
                   model->query_scalar > 0 ? model->query_scalar : (double)model->head_dim);
    put_number(print, "rms_norm_eps", model->norm_epsilon);
    put_ropes(print);
    if (is_of(model, TYPED | MISTRAL | PHI3) && (model->window || !is_of(model, GEMMAS)))
        put_window(print);
    put_bool(print, "tie_word_embeddings", model->tied);
    put_word(print, "torch_dtype", dtype_word(print->dtype));
    if (is_of(model, QWENS | SMOLLM3))
        put_bool(print, "use_sliding_window", model->window != 0);
    put_count(print, "vocab_size", model->vocabulary);
}

/* ---- comparison with the model ---- */

struct difference {
    char path[PLACE_MAX];
    char a[PLACE_MAX], b[PLACE_MAX];
};

static void keep_first(void *context, const char *path, const char *a, const char *b)
{
    struct difference *first = context;
    if (first->path[0] || strcmp(path, "name") == 0)
        return;
    snprintf(first->path, sizeof first->path, "%s", path);
    snprintf(first->a, sizeof first->a, "%s", *a ? a : "not set");
    snprintf(first->b, sizeof first->b, "%s", *b ? b : "not set");
}

/* Finds the first field in which the config differs from the model. Its path is "" if no field differs. */
static int first_difference(const struct ah_model *model, const char *name, const struct ah_buffer *text,
                            struct difference *ret_first, struct ah_error *err)
{
    struct ah_model copy = *model;
    struct ah_document ours = {.kind = AH_DOCUMENT_MODEL, .body = {.model = &copy}}, config = {0};
    *ret_first = (struct difference){0};
    int rc = ah_document_parse(&config, name, text->data, text->size, AH_DOCUMENT_MODEL, err);
    if (rc)
        return rc;
    if (ah_document_diff(&ours, &config, keep_first, ret_first) == SIZE_MAX)
        rc = ah_error_memory(err);
    ah_document_release(&config);
    return rc;
}

static void append_text(struct ah_buffer *out, const struct ah_buffer *text)
{
    if (text->failed)
        out->failed = true;
    else
        ah_buffer_append(out, text->data, text->size);
}

int ah_config_print(const struct ah_model *model, enum ah_dtype dtype, struct ah_buffer *out,
                    struct ah_error *err)
{
    struct ah_buffer compact = {0}, text = {0};
    struct ah_model alone = *model; /* a text part is saved as a model of its own */
    const struct print print = {model, dtype, &compact};
    struct difference first;
    alone.multimodal = false;
    ah_buffer_puts(&compact, "{");
    if (model->family == AH_FAMILY_GPT2)
        put_gpt2(&print);
    else
        put_llama(&print);
    ah_buffer_puts(&compact, "}");
    if (!compact.failed)
        ah_json_layout(&text, compact.data);
    int rc = compact.failed || text.failed ? ah_error_memory(err)
                                           : first_difference(&alone, "config.json", &text, &first, err);
    if (!rc && first.path[0])
        rc = ah_error_set(
            err, AH_E_UNSUPPORTED,
            "'%s' is %s in the model, but the config.json of a %s model cannot express it; change it to %s, "
            "or save without a config.json",
            first.path, first.a, ah_words_family[model->family], first.b);
    if (!rc) {
        append_text(out, &text);
        rc = out->failed ? ah_error_memory(err) : AH_OK;
    }
    ah_buffer_release(&compact);
    ah_buffer_release(&text);
    return rc;
}

/* ---- an existing config ---- */

/* The text of a key's value in a document; NULL if the key does not exist. */
struct span {
    const char *begin, *end;
};

static int find_value(const struct ah_buffer *text, const char *key, struct span *ret_value)
{
    struct ah_cursor cursor = {text->data, text->data + text->size};
    struct ah_arena arena = {0};
    *ret_value = (struct span){0};
    bool object = ah_cursor_enter(&cursor, '{');
    while (object && ah_cursor_next(&cursor, '}')) {
        const char *found = ah_cursor_key(&cursor, &arena);
        if (!found) {
            ah_arena_release(&arena);
            return AH_E_MEMORY;
        }
        const char *begin = cursor.at;
        ah_cursor_skip(&cursor);
        if (strcmp(found, key) == 0)
            *ret_value = (struct span){begin, cursor.at};
    }
    ah_arena_release(&arena);
    return AH_OK;
}

/* Appends the text with the value of `key`, if it exists, replaced by `value`. */
static int replace_value(const struct ah_buffer *text, const char *key, const char *value,
                         struct ah_buffer *out, struct ah_error *err)
{
    struct span old;
    if (find_value(text, key, &old))
        return ah_error_memory(err);
    if (old.begin) {
        ah_buffer_append(out, text->data, (size_t)(old.begin - text->data));
        ah_buffer_puts(out, value);
        ah_buffer_append(out, old.end, (size_t)(text->data + text->size - old.end));
    } else
        ah_buffer_append(out, text->data, text->size);
    return out->failed ? ah_error_memory(err) : AH_OK;
}

static int check_config(const struct ah_model *model, const char *path, const struct ah_buffer *text,
                        struct ah_error *err)
{
    char shown[AH_DOCUMENT_NAME_MAX];
    struct difference first;
    struct span kind;
    int rc = first_difference(model, path, text, &first, err);
    if (rc)
        return rc;
    path = ah_document_short_name(path, shown);
    if (find_value(text, "kind", &kind))
        return ah_error_memory(err);
    if (kind.begin)
        return ah_error_set(err, AH_E_DOCUMENT, "%s: is a model document; a config.json is expected", path);
    if (!first.path[0])
        return AH_OK;
    return ah_error_set(err, AH_E_MISMATCH,
                        "%s: '%s' is %s, but %s in the model; these weights belong to another model", path,
                        first.path, first.b, first.a);
}

int ah_config_adopt(const struct ah_model *model, const char *path, enum ah_dtype dtype,
                    struct ah_buffer *out, struct ah_error *err)
{
    struct ah_buffer text = {0}, first = {0}, second = {0}, third = {0};
    char value[32];
    snprintf(value, sizeof value, "\"%s\"", dtype_word(dtype));
    int rc = ah_file_check_regular(path, err);
    rc = rc ? rc : ah_file_read(path, CONFIG_BYTES_MAX, &text, err);
    if (!rc)
        rc = check_config(model, path, &text, err);
    if (!rc)
        rc = replace_value(&text, "torch_dtype", value, &first, err);
    if (!rc)
        rc = replace_value(&first, "dtype", value, &second, err);
    if (!rc) /* the files with code that it names are not copied */
        rc = replace_value(&second, "auto_map", "{}", &third, err);
    if (!rc) {
        append_text(out, &third);
        rc = out->failed ? ah_error_memory(err) : AH_OK;
    }
    ah_buffer_release(&text);
    ah_buffer_release(&first);
    ah_buffer_release(&second);
    ah_buffer_release(&third);
    return rc;
}
