/* SPDX-License-Identifier: Apache-2.0
 *
 * Converts the values of a config.json into a model, by the rules of its family.
 *
 * Source: configuration_*.py and modeling_rope_utils.py of huggingface/transformers, 5.x (huggingface_keys.c).
 */
#include "schemas/huggingface.h"

#include "schemas/huggingface_internal.h"
#include "schemas/json.h"
#include "schemas/reader_internal.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { DEFAULT_WINDOW = 4096, QWEN3_HEAD_DIM = 128, DEFAULT_THETA = 10000 };

struct conversion {
    struct ah_arena *arena;
    const char *name;
    const struct cJSON *tree;
    struct ah_huggingface_config config;
    enum ah_family family;
    struct ah_model *model;
    const char **warnings;
    size_t n_warnings, max_warnings;
    struct ah_error *err;
};

/* Refuses a key or value. It comes from the file, so it is printed in a form that is safe in a message. */
static int refuse_text(const struct conversion *conversion, const char *key, const char *value,
                       const char *what)
{
    struct ah_buffer sentence = {0};
    ah_json_put_plain(&sentence, key);
    ah_buffer_puts(&sentence, ": ");
    if (value) {
        ah_buffer_puts(&sentence, "\"");
        ah_json_put_plain(&sentence, value);
        ah_buffer_puts(&sentence, "\" ");
    }
    int rc = sentence.failed ? ah_error_memory(conversion->err)
                             : ah_error_set(conversion->err, AH_E_DOCUMENT, "%s: %s%s", conversion->name,
                                            sentence.data, what);
    ah_buffer_release(&sentence);
    return rc;
}

static int refuse_key(const struct conversion *conversion, const char *key, const char *what)
{
    return refuse_text(conversion, key, NULL, what);
}

static int add_warning(struct conversion *conversion, const char *key, const char *what)
{
    struct ah_buffer sentence = {0};
    if (conversion->n_warnings == conversion->max_warnings)
        return AH_OK;
    ah_json_put_plain(&sentence, key);
    ah_buffer_printf(&sentence, ": %s", what);
    const char *copy = sentence.failed ? NULL : ah_arena_strdup(conversion->arena, sentence.data);
    ah_buffer_release(&sentence);
    if (!copy)
        return ah_error_memory(conversion->err);
    conversion->warnings[conversion->n_warnings++] = copy;
    return AH_OK;
}

/* Refuses model classes with another head, which have other tensors. null and [] mean the family's own class. */
static int check_architectures(const struct conversion *conversion, const cJSON *list)
{
    const char *known = ah_huggingface_families[conversion->family].architecture;
    if (!cJSON_IsArray(list) && !cJSON_IsNull(list))
        return refuse_key(conversion, list->string, "is not a list");
    const cJSON *item;
    cJSON_ArrayForEach(item, list)
    {
        char what[64];
        snprintf(what, sizeof what, "is not supported; use %s", known);
        if (!cJSON_IsString(item) || strcmp(item->valuestring, known) != 0)
            return refuse_text(conversion, list->string, cJSON_GetStringValue(item), what);
    }
    return AH_OK;
}

/* Handles a key that no field reads. */
static int meet_other_key(void *context, const struct cJSON *member)
{
    struct conversion *conversion = context;
    const struct ah_huggingface_key *key = ah_huggingface_key_find(member->string);
    int effect = key ? ah_huggingface_key_effect(key, conversion->family) : AH_HUGGINGFACE_COMPUTED;
    if (effect == AH_HUGGINGFACE_COMPUTED || effect == AH_HUGGINGFACE_DROPOUT)
        return add_warning(conversion, member->string, "is unknown and was ignored");
    if (effect == AH_HUGGINGFACE_CLASS)
        return check_architectures(conversion, member);
    if (ah_huggingface_key_refused(effect, member))
        return refuse_key(
            conversion, member->string,
            effect == AH_HUGGINGFACE_QUANTISED
                ? "the weights are quantised, but autohete trains in bf16 or fp32; use the model from before "
                  "quantisation"
                : "this setting changes the model and is not supported");
    return AH_OK;
}

static int effect_of(const struct conversion *conversion, const char *key)
{
    return ah_huggingface_key_effect(ah_huggingface_key_find(key), conversion->family);
}

static bool has_key(const struct conversion *conversion, const char *key)
{
    return cJSON_GetObjectItemCaseSensitive(conversion->tree, key) != NULL;
}

static bool is_null(const struct conversion *conversion, const char *key)
{
    return cJSON_IsNull(cJSON_GetObjectItemCaseSensitive(conversion->tree, key));
}

static int find_family(struct conversion *conversion)
{
    const cJSON *type = cJSON_GetObjectItemCaseSensitive(conversion->tree, "model_type");
    if (!cJSON_IsString(type))
        return refuse_key(conversion, "model_type", "is not text");
    for (unsigned i = 0; ah_words_family[i]; i++)
        if (strcmp(ah_words_family[i], type->valuestring) == 0) {
            conversion->family = (enum ah_family)i;
            return AH_OK;
        }
    return refuse_text(conversion, "model_type", type->valuestring,
                       "is not supported; use gpt2, llama, mistral, qwen2 or qwen3");
}

static int read_config(struct conversion *conversion)
{
    struct ah_reader reader = {conversion->arena, conversion->name, conversion->err, meet_other_key,
                               conversion};
    for (const cJSON *child = conversion->tree->child; child; child = child->next)
        conversion->max_warnings++;
    conversion->max_warnings += 32; /* room for keys inside rope and for dropout */
    conversion->warnings =
        ah_arena_array(conversion->arena, conversion->max_warnings, sizeof *conversion->warnings);
    if (!conversion->warnings)
        return ah_error_memory(conversion->err);
    return ah_reader_group(&reader, NULL, ah_huggingface_families[conversion->family].table, conversion->tree,
                           &conversion->config);
}

/* Checks every key against the table of keys, whether or not a field reads it. */
static int check_keys(struct conversion *conversion)
{
    int rc = AH_OK;
    for (const cJSON *child = conversion->tree->child; child && !rc; child = child->next) {
        const struct ah_huggingface_key *key = ah_huggingface_key_find(child->string);
        unsigned family = 1U << conversion->family;
        char what[64];
        if (!key)
            continue;
        if (cJSON_IsNull(child) && key->families & family & ~key->nullable) {
            snprintf(what, sizeof what, "null has no meaning in %s", ah_words_family[conversion->family]);
            rc = refuse_key(conversion, child->string, what);
        } else if (!cJSON_IsNull(child) && effect_of(conversion, child->string) == AH_HUGGINGFACE_WARNED)
            rc = add_warning(conversion, child->string, "has no effect in this family");
    }
    return rc;
}

struct activation_name {
    const char *name;
    bool gated; /* the family's MLP has a gate */
    enum ah_model_activation activation;
};

static int convert_activation(struct conversion *conversion)
{
    static const struct activation_name names[] = {
        {"gelu_new", false, AH_MODEL_GELU_TANH}, {"gelu_pytorch_tanh", false, AH_MODEL_GELU_TANH},
        {"gelu", false, AH_MODEL_GELU},          {"silu", true, AH_MODEL_SILU_GATED},
        {"swish", true, AH_MODEL_SILU_GATED},
    };
    bool gated = conversion->family != AH_FAMILY_GPT2;
    const char *name = conversion->config.activation;
    if (!name)
        name = gated ? "silu" : "gelu_new";
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(names[i].name, name) == 0 && names[i].gated == gated) {
            conversion->model->activation = names[i].activation;
            return AH_OK;
        }
    return refuse_text(conversion, gated ? "hidden_act" : "activation_function", name,
                       gated ? "is not supported; use silu"
                             : "is not supported; use gelu_new, gelu_pytorch_tanh or gelu");
}

static int convert_rope_kind(struct conversion *conversion, const char *key,
                             const struct ah_huggingface_rope *from, struct ah_model_rope *rope)
{
    const char *type = from->rope_type ? from->rope_type : from->type ? from->type : "default";
    if (fabs(from->partial_rotary_factor - 1) > 0)
        return refuse_key(conversion, key, "partial_rotary_factor other than 1 is not supported");
    if (strcmp(type, "default") == 0)
        return AH_OK;
    if (strcmp(type, "linear") != 0 && strcmp(type, "llama3") != 0)
        return refuse_text(conversion, key, type,
                           "is not a supported kind of rope; use default, linear or llama3");
    if (!(from->factor > 0))
        return refuse_key(conversion, key, "factor is missing or zero");
    rope->factor = from->factor;
    rope->kind = AH_ROPE_LINEAR;
    if (strcmp(type, "linear") == 0)
        return AH_OK;
    rope->kind = AH_ROPE_LLAMA3;
    if (!(from->low_freq_factor > 0) || !(from->high_freq_factor > 0) ||
        !from->original_max_position_embeddings)
        return refuse_key(conversion, key,
                          "llama3 needs low_freq_factor, high_freq_factor and "
                          "original_max_position_embeddings");
    rope->low_freq_factor = from->low_freq_factor;
    rope->high_freq_factor = from->high_freq_factor;
    rope->original_positions = from->original_max_position_embeddings;
    return AH_OK;
}

/* True if `key` is an object with rope settings in it; {} counts as null. */
static bool has_rope(const struct conversion *conversion, const char *key)
{
    const cJSON *object = cJSON_GetObjectItemCaseSensitive(conversion->tree, key);
    return object && object->child;
}

static int convert_rope_object(struct conversion *conversion, const char *key,
                               const struct ah_huggingface_rope *from, struct ah_model_rope *rope)
{
    const cJSON *child;
    cJSON_ArrayForEach(child, cJSON_GetObjectItemCaseSensitive(conversion->tree, key))
    {
        if (cJSON_IsObject(child))
            return refuse_text(conversion, key, child->string,
                               "gives some layers their own rope, which is not supported");
    }
    /* If rope_scaling does not state its kind, some versions reject it and others ignore it. */
    if (!from->rope_type && !from->type && (strcmp(key, "rope_scaling") == 0 || from->factor > 0))
        return refuse_key(conversion, key, "rope_type is missing; it names the kind of rope");
    *rope = (struct ah_model_rope){.theta = rope->theta};
    if (from->rope_theta > 0)
        rope->theta = from->rope_theta;
    return convert_rope_kind(conversion, key, from, rope);
}

static bool same_rope(const struct ah_model_rope *a, const struct ah_model_rope *b)
{
    const double one[] = {a->theta, a->factor, a->low_freq_factor, a->high_freq_factor};
    const double other[] = {b->theta, b->factor, b->low_freq_factor, b->high_freq_factor};
    return a->kind == b->kind && a->original_positions == b->original_positions &&
           memcmp(one, other, sizeof one) == 0;
}

/* Converts the rope. rope_parameters is the newer spelling of rope_scaling. If a file has both, transformers 5 prefers
 * rope_scaling; 4 knows only that. If they differ, the file is refused. A theta inside either overrides the top one. */
static int convert_rope_settings(struct conversion *conversion, struct ah_model_rope *rope)
{
    const struct ah_huggingface_config *config = &conversion->config;
    bool older = has_rope(conversion, "rope_scaling");
    bool newer = has_rope(conversion, "rope_parameters");
    struct ah_model_rope parameters = *rope;
    int rc = AH_OK;
    if (newer)
        rc = convert_rope_object(conversion, "rope_parameters", config->rope_parameters, &parameters);
    if (!rc && older)
        rc = convert_rope_object(conversion, "rope_scaling", config->rope_scaling, rope);
    if (!rc && newer && older && !same_rope(rope, &parameters))
        rc = refuse_key(conversion, "rope_scaling",
                        "and rope_parameters describe different ropes; leave one "
                        "out");
    if (!rc && newer)
        *rope = parameters;
    return rc;
}

static int convert_rope(struct conversion *conversion)
{
    if (conversion->family == AH_FAMILY_GPT2)
        return AH_OK;
    struct ah_model_rope *rope = ah_arena_alloc(conversion->arena, sizeof *rope);
    if (!rope)
        return ah_error_memory(conversion->err);
    conversion->model->position = AH_POSITION_ROPE;
    conversion->model->rope = rope;
    rope->theta = conversion->config.rope_theta > 0 ? conversion->config.rope_theta : DEFAULT_THETA;
    return convert_rope_settings(conversion, rope);
}

/* True if the family has a window and the file does not turn it off. */
static bool has_window(const struct conversion *conversion)
{
    bool qwen = conversion->family == AH_FAMILY_QWEN2 || conversion->family == AH_FAMILY_QWEN3;
    return (conversion->family == AH_FAMILY_MISTRAL || (qwen && conversion->config.use_sliding_window)) &&
           !is_null(conversion, "sliding_window");
}

/* True if a layer has the window by default, without layer_types. */
static bool is_windowed(const struct conversion *conversion, uint64_t layer)
{
    return has_window(conversion) &&
           (conversion->family == AH_FAMILY_MISTRAL || layer >= conversion->config.max_window_layers);
}

/* Lists the layers that have the window in `ret_layers`, and sets `ret_n` to their number. */
static int list_window_layers(const struct conversion *conversion, uint64_t *ret_layers, size_t *ret_n)
{
    const struct ah_huggingface_config *config = &conversion->config;
    bool listed = has_key(conversion, "layer_types") && !is_null(conversion, "layer_types");
    size_t n = 0;
    if (listed && config->n_layer_types != config->layers)
        return refuse_key(conversion, "layer_types", "does not have one entry for each layer");
    for (uint64_t i = 0; i < config->layers; i++) {
        bool sliding =
            listed ? strcmp(config->layer_types[i], "sliding_attention") == 0 : is_windowed(conversion, i);
        if (listed && !sliding && strcmp(config->layer_types[i], "full_attention") != 0)
            return refuse_text(conversion, "layer_types", config->layer_types[i],
                               "is not supported; use full_attention or sliding_attention");
        if (sliding)
            ret_layers[n++] = i;
    }
    if (n && !has_window(conversion))
        return refuse_key(conversion, "layer_types", "has sliding_attention without a window");
    *ret_n = n;
    return AH_OK;
}

/* Checks keys: with layer_types, transformers reads mistral as ministral, which has no defaults for these keys. */
static int check_ministral(const struct conversion *conversion)
{
    if (conversion->family != AH_FAMILY_MISTRAL || !has_key(conversion, "layer_types"))
        return AH_OK;
    if (!conversion->config.head_dim)
        return refuse_key(conversion, "head_dim", "is missing; mistral with layer_types needs it");
    if (!has_window(conversion))
        return refuse_key(conversion, "sliding_window", "null has no meaning in mistral with layer_types");
    return AH_OK;
}

static int convert_window(struct conversion *conversion)
{
    struct ah_model *model = conversion->model;
    uint64_t *layers = ah_arena_array(conversion->arena, model->layers, sizeof *layers);
    size_t n = 0;
    if (!layers)
        return ah_error_memory(conversion->err);
    int rc = check_ministral(conversion);
    rc = rc ? rc : list_window_layers(conversion, layers, &n);
    if (rc || !n)
        return rc;
    model->window =
        has_key(conversion, "sliding_window") ? conversion->config.sliding_window : DEFAULT_WINDOW;
    if (!model->window)
        return refuse_key(conversion, "sliding_window",
                          "0 leaves no token to attend to; null means no "
                          "window");
    if (n < model->layers) {
        model->window_layers = layers;
        model->n_window_layers = n;
    }
    return AH_OK;
}

/* Sets the padding token. A negative token counts from the end of the vocabulary, as in torch. */
static int convert_padding(struct conversion *conversion)
{
    double token = conversion->config.padding, vocabulary = (double)conversion->config.vocabulary;
    if (!has_key(conversion, "pad_token_id") || is_null(conversion, "pad_token_id") ||
        conversion->family == AH_FAMILY_GPT2)
        return AH_OK;
    if (token >= vocabulary || token < -vocabulary || fabs(token - floor(token)) > 0)
        return refuse_key(conversion, "pad_token_id", "is not a token of the vocabulary");
    conversion->model->padding_token = (uint64_t)(token < 0 ? token + vocabulary : token);
    return AH_OK;
}

static int convert_heads(struct conversion *conversion)
{
    const struct ah_huggingface_config *config = &conversion->config;
    struct ah_model *model = conversion->model;
    bool kv_absent = !has_key(conversion, "num_key_value_heads");
    uint64_t kv_default = kv_absent && ah_huggingface_families[conversion->family].kv_heads
                              ? ah_huggingface_families[conversion->family].kv_heads
                              : config->heads;
    model->heads = config->heads;
    model->kv_heads = config->kv_heads ? config->kv_heads : kv_default;
    if (kv_absent && config->heads % kv_default)
        return refuse_key(conversion, "num_key_value_heads",
                          "is missing, and the family's default does not divide num_attention_heads");
    model->head_dim = config->head_dim;
    if (model->head_dim && (conversion->family != AH_FAMILY_LLAMA || config->width % config->heads == 0))
        return AH_OK;
    if (conversion->family == AH_FAMILY_QWEN3) {
        model->head_dim = QWEN3_HEAD_DIM;
        return AH_OK;
    }
    if (config->width % config->heads)
        return refuse_key(conversion, conversion->family == AH_FAMILY_GPT2 ? "n_head" : "num_attention_heads",
                          model->head_dim ? "does not divide the width, which llama needs"
                                          : "does not divide the width, and there is no head_dim");
    model->head_dim = config->width / config->heads;
    return AH_OK;
}

static void convert_plain(struct conversion *conversion)
{
    const struct ah_huggingface_config *config = &conversion->config;
    struct ah_model *model = conversion->model;
    bool gpt2 = conversion->family == AH_FAMILY_GPT2;
    bool attention_bias =
        config->attention_bias && effect_of(conversion, "attention_bias") == AH_HUGGINGFACE_COMPUTED;
    model->generator = "autohete " AUTOHETE_VERSION;
    model->family = conversion->family;
    model->layers = config->layers;
    model->width = config->width;
    model->mlp_width = config->mlp_width ? config->mlp_width : 4 * config->width;
    model->vocabulary = config->vocabulary;
    model->max_positions = config->positions;
    model->norm = gpt2 ? AH_MODEL_NORM_LAYER : AH_MODEL_NORM_RMS;
    model->norm_epsilon = config->norm_epsilon;
    model->qkv_bias = ah_huggingface_families[conversion->family].qkv_bias || attention_bias;
    model->attention_output_bias = gpt2 || attention_bias;
    model->mlp_bias =
        gpt2 || (config->mlp_bias && effect_of(conversion, "mlp_bias") == AH_HUGGINGFACE_COMPUTED);
    model->qk_norm = ah_huggingface_families[conversion->family].qk_norm;
    model->tied = config->tied;
    model->initializer_range = config->initializer_range;
    model->dropout =
        fmax(config->attention_dropout, fmax(config->residual_dropout, config->embedding_dropout));
}

/* Sets the name: "dir/llama-2-7b/config.json" -> "llama-2-7b", "dir/mine.json" -> "mine"; else that of the family. */
static int convert_name(struct conversion *conversion)
{
    char name[129] = "";
    const char *end = conversion->name + strlen(conversion->name);
    size_t length = (size_t)(end - conversion->name);
    if (length > 12 && strcmp(end - 12, "/config.json") == 0)
        end -= 12;
    else if (length > 5 && strcmp(end - 5, ".json") == 0)
        end -= 5;
    const char *begin = end;
    while (begin > conversion->name && begin[-1] != '/')
        begin--;
    if ((size_t)(end - begin) < sizeof name) {
        memcpy(name, begin, (size_t)(end - begin));
        name[end - begin] = '\0';
    }
    bool usable = ah_field_fits_text(AH_TEXT_NAME, name) && strcmp(name, "config") != 0;
    conversion->model->name =
        ah_arena_strdup(conversion->arena, usable ? name : ah_words_family[conversion->family]);
    return conversion->model->name ? AH_OK : ah_error_memory(conversion->err);
}

static int convert_dropout(struct conversion *conversion)
{
    if (!(conversion->model->dropout > 0))
        return AH_OK;
    return add_warning(conversion, "dropout", "autohete trains without dropout; the rate is only recorded");
}

/* The config's names of those fields of the model that occur in errors. */
struct other_name {
    const char *ours, *gpt2, *llama;
};

static const char *their_name(const struct ah_model *model, const struct cJSON *tree, const char *ours,
                              size_t length)
{
    static const struct other_name names[] = {{"kv_heads", "n_head", "num_key_value_heads"},
                                              {"layers", "n_layer", "num_hidden_layers"}};
    const struct cJSON *scaling = cJSON_GetObjectItemCaseSensitive(tree, "rope_scaling");
    if (length == strlen("rope") && strncmp(ours, "rope", length) == 0)
        return scaling && scaling->child ? "rope_scaling" : "rope_parameters";
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strlen(names[i].ours) == length && strncmp(names[i].ours, ours, length) == 0)
            return model->family == AH_FAMILY_GPT2 ? names[i].gpt2 : names[i].llama;
    return NULL;
}

void ah_huggingface_rename(const struct ah_model *model, const struct cJSON *tree, struct ah_error *err)
{
    size_t length = err ? strcspn(err->text, ".:") : 0;
    const char *name = err ? their_name(model, tree, err->text, length) : NULL;
    if (!name)
        return;
    char rest[AH_ERROR_TEXT_MAX];
    memcpy(rest, err->text + length, sizeof rest - length);
    ah_error_set(err, err->code, "%s%s", name, rest);
}

bool ah_huggingface_recognises(const struct cJSON *tree)
{
    return cJSON_IsObject(tree) && !cJSON_GetObjectItemCaseSensitive(tree, "kind") &&
           cJSON_GetObjectItemCaseSensitive(tree, "model_type");
}

int ah_huggingface_read(struct ah_arena *arena, const char *name, const struct cJSON *tree,
                        struct ah_model *ret_model, const char ***ret_warnings, size_t *ret_n_warnings,
                        struct ah_error *err)
{
    static int (*const steps[])(struct conversion *) = {
        find_family,  read_config,    check_keys,      convert_heads, convert_activation,
        convert_rope, convert_window, convert_padding, convert_name,  NULL};
    struct ah_model model = {.padding_token = AH_MODEL_NO_PADDING};
    struct conversion conversion = {.arena = arena, .name = name, .tree = tree, .model = &model, .err = err};
    int rc = AH_OK;
    for (size_t i = 0; steps[i] && !rc; i++) {
        rc = steps[i](&conversion);
        if (i == 1 && !rc)
            convert_plain(&conversion);
    }
    if (!rc)
        rc = convert_dropout(&conversion);
    if (rc)
        return rc;
    *ret_model = model;
    *ret_warnings = conversion.warnings;
    *ret_n_warnings = conversion.n_warnings;
    return AH_OK;
}
