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

int ah_huggingface_refuse_text(const struct ah_huggingface_conversion *conversion, const char *key,
                               const char *value, const char *what)
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

int ah_huggingface_refuse(const struct ah_huggingface_conversion *conversion, const char *key,
                          const char *what)
{
    return ah_huggingface_refuse_text(conversion, key, NULL, what);
}

static int add_warning(struct ah_huggingface_conversion *conversion, const char *key, const char *what)
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
static int check_architectures(const struct ah_huggingface_conversion *conversion, const cJSON *list,
                               const char *known)
{
    if (!cJSON_IsArray(list) && !cJSON_IsNull(list))
        return ah_huggingface_refuse(conversion, list->string, "is not a list");
    const cJSON *item;
    cJSON_ArrayForEach(item, list)
    {
        char what[64];
        snprintf(what, sizeof what, "is not supported; use %s", known);
        if (!cJSON_IsString(item) || strcmp(item->valuestring, known) != 0)
            return ah_huggingface_refuse_text(conversion, list->string, cJSON_GetStringValue(item), what);
    }
    return AH_OK;
}

/* Finds the family of a model of text. */
static int find_text_family(struct ah_huggingface_conversion *conversion, const char *type)
{
    for (unsigned i = 0; ah_words_family[i]; i++)
        if (strcmp(ah_words_family[i], type) == 0) {
            conversion->family = (enum ah_family)i;
            return AH_OK;
        }
    return ah_huggingface_refuse_text(
        conversion, "model_type", type,
        "is not supported; use gpt2, llama, mistral, qwen2, qwen3, olmo2, smollm3, phi3, gemma2, gemma3 "
        "or gemma3_text");
}

/* Handles a key that no field reads. */
static int meet_other_key(void *context, const struct cJSON *member)
{
    struct ah_huggingface_conversion *conversion = context;
    const struct ah_huggingface_key *key = ah_huggingface_key_find(member->string);
    int effect = key ? ah_huggingface_key_effect(key, conversion->family) : AH_HUGGINGFACE_COMPUTED;
    if (effect == AH_HUGGINGFACE_COMPUTED || effect == AH_HUGGINGFACE_DROPOUT)
        return add_warning(conversion, member->string, "is unknown and was ignored");
    return effect == AH_HUGGINGFACE_CLASS
               ? check_architectures(conversion, member,
                                     ah_huggingface_families[conversion->family].architecture)
               : AH_OK;
}

/* Refuses a key whose value changes the model in a way that is not supported, or warns that it has no effect. */
static int check_key(struct ah_huggingface_conversion *conversion, const cJSON *key, int effect)
{
    if (ah_huggingface_key_refused(effect, key))
        return ah_huggingface_refuse(
            conversion, key->string,
            effect == AH_HUGGINGFACE_QUANTISED
                ? "the weights are quantised, but autohete trains in bf16 or fp32; use the model from "
                  "before quantisation"
                : "this setting changes the model and is not supported");
    if (effect == AH_HUGGINGFACE_CODE)
        return add_warning(conversion, key->string,
                           "the code that it names is not run; the model is that of the family's own class");
    return !cJSON_IsNull(key) && effect == AH_HUGGINGFACE_WARNED
               ? add_warning(conversion, key->string, "has no effect in this family")
               : AH_OK;
}

static int effect_of(const struct ah_huggingface_conversion *conversion, const char *key)
{
    return ah_huggingface_key_effect(ah_huggingface_key_find(key), conversion->family);
}

bool ah_huggingface_has(const struct ah_huggingface_conversion *conversion, const char *key)
{
    return cJSON_GetObjectItemCaseSensitive(conversion->tree, key) != NULL;
}

static bool is_null(const struct ah_huggingface_conversion *conversion, const char *key)
{
    return cJSON_IsNull(cJSON_GetObjectItemCaseSensitive(conversion->tree, key));
}

/* Finds the family, and the object that describes the model of text, in the file or inside it. */
static int find_family(struct ah_huggingface_conversion *conversion)
{
    const cJSON *type = cJSON_GetObjectItemCaseSensitive(conversion->tree, "model_type");
    if (!cJSON_IsString(type))
        return ah_huggingface_refuse(conversion, "model_type", "is not text");
    if (strcmp(type->valuestring, "gemma3") != 0)
        return find_text_family(conversion, type->valuestring);
    conversion->outer = conversion->tree;
    conversion->tree = cJSON_GetObjectItemCaseSensitive(conversion->outer, "text_config");
    conversion->family = AH_FAMILY_GEMMA3;
    type = cJSON_GetObjectItemCaseSensitive(conversion->tree, "model_type");
    if (!cJSON_IsObject(conversion->tree))
        return ah_huggingface_refuse(conversion, "text_config", "is missing; it describes the model of text");
    if (type && (!cJSON_IsString(type) || strcmp(type->valuestring, ah_words_family[AH_FAMILY_GEMMA3]) != 0))
        return ah_huggingface_refuse(conversion, "text_config.model_type", "must be gemma3_text in gemma3");
    return AH_OK;
}

/* Sets the sizes that the text part of gemma3 has if its file leaves them out. Others must state theirs. */
static int fill_sizes(struct ah_huggingface_conversion *conversion)
{
    struct ah_huggingface_config *config = &conversion->config;
    const struct {
        const char *key;
        uint64_t *size, gemma3;
    } sizes[] = {
        {"hidden_size", &config->width, 2304},       {"num_hidden_layers", &config->layers, 26},
        {"num_attention_heads", &config->heads, 8},  {"intermediate_size", &config->mlp_width, 9216},
        {"vocab_size", &config->vocabulary, 262208}, {"max_position_embeddings", &config->positions, 131072}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes && conversion->family != AH_FAMILY_GPT2; i++) {
        if (!*sizes[i].size && !conversion->outer)
            return ah_huggingface_refuse(conversion, sizes[i].key, "is missing");
        if (!*sizes[i].size)
            *sizes[i].size = sizes[i].gemma3;
    }
    return AH_OK;
}

static int read_config(struct ah_huggingface_conversion *conversion)
{
    struct ah_reader reader = {conversion->arena, conversion->name, conversion->err, meet_other_key,
                               conversion};
    for (const cJSON *child = conversion->tree->child; child; child = child->next)
        conversion->max_warnings++;
    for (const cJSON *child = conversion->outer ? conversion->outer->child : NULL; child; child = child->next)
        conversion->max_warnings++;
    conversion->max_warnings += 32; /* room for keys inside rope and for dropout */
    conversion->warnings =
        ah_arena_array(conversion->arena, conversion->max_warnings, sizeof *conversion->warnings);
    if (!conversion->warnings)
        return ah_error_memory(conversion->err);
    const int rc = ah_reader_group(&reader, NULL, ah_huggingface_families[conversion->family].table,
                                   conversion->tree, &conversion->config);
    return rc ? rc : fill_sizes(conversion);
}

/* Checks what a model that reads images has beside its text_config. It decides whether the head is tied. */
static int check_outer(struct ah_huggingface_conversion *conversion)
{
    static const char *const own[] = {"boi_token_index",     "eoi_token_index", "image_token_index",
                                      "mm_tokens_per_image", "text_config",     "vision_config"};
    const cJSON *tied = cJSON_GetObjectItemCaseSensitive(conversion->outer, "tie_word_embeddings");
    int rc = AH_OK;
    if (!conversion->outer)
        return AH_OK;
    for (const cJSON *child = conversion->outer->child; child && !rc; child = child->next) {
        const struct ah_huggingface_key *key = ah_huggingface_key_find(child->string);
        size_t i = 0;
        while (i < sizeof own / sizeof *own && strcmp(own[i], child->string) != 0)
            i++;
        if (i < sizeof own / sizeof *own)
            continue;
        if (!key)
            rc = add_warning(conversion, child->string, "is unknown and was ignored");
        else if (strcmp(key->name, "architectures") == 0)
            rc = check_architectures(conversion, child, "Gemma3ForConditionalGeneration");
        else
            rc = check_key(conversion, child, ah_huggingface_key_effect(key, AH_FAMILY_GEMMA3));
    }
    if (!rc && tied && !cJSON_IsTrue(tied))
        rc = ah_huggingface_refuse(conversion, "tie_word_embeddings", "must be true in gemma3");
    if (!rc && conversion->config.logit_cap > 0)
        rc = ah_huggingface_refuse(conversion, "text_config.final_logit_softcapping",
                                   "is not applied in gemma3");
    return rc ? rc
              : add_warning(
                    conversion, "vision_config",
                    "only the model of text is trained and saved, without the part that reads images");
}

/* Checks every key against the table of keys, whether or not a field reads it. */
static int check_keys(struct ah_huggingface_conversion *conversion)
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
            rc = ah_huggingface_refuse(conversion, child->string, what);
        } else
            rc = check_key(conversion, child, ah_huggingface_key_effect(key, conversion->family));
    }
    return rc;
}

static const struct ah_huggingface_family *family_of(const struct ah_huggingface_conversion *conversion)
{
    return &ah_huggingface_families[conversion->family];
}

/* The key of an activation, what it is if absent, and its values. */
struct activation_key {
    const char *key, *fallback, *instead;
    struct {
        const char *name;
        enum ah_model_activation activation;
    } values[4];
};

static int convert_activation(struct ah_huggingface_conversion *conversion)
{
    static const struct activation_key keys[] = {
        {"activation_function",
         "gelu_new",
         "is not supported; use gelu_new, gelu_pytorch_tanh or gelu",
         {{"gelu_new", AH_MODEL_GELU_TANH},
          {"gelu_pytorch_tanh", AH_MODEL_GELU_TANH},
          {"gelu", AH_MODEL_GELU}}},
        {"hidden_act",
         "silu",
         "is not supported; use silu",
         {{"silu", AH_MODEL_SILU_GATED}, {"swish", AH_MODEL_SILU_GATED}}},
        {"hidden_activation",
         "gelu_pytorch_tanh",
         "is not supported; use gelu_pytorch_tanh",
         {{"gelu_pytorch_tanh", AH_MODEL_GELU_TANH_GATED}, {"gelu_new", AH_MODEL_GELU_TANH_GATED}}},
    };
    const bool gemma = family_of(conversion)->scaled_embedding;
    const struct activation_key *key = &keys[gemma ? 2 : conversion->family != AH_FAMILY_GPT2];
    const char *stated = gemma ? conversion->config.gemma_activation : conversion->config.activation;
    const char *name = stated ? stated : key->fallback;
    for (size_t i = 0; key->values[i].name; i++)
        if (strcmp(key->values[i].name, name) == 0) {
            conversion->model->activation = key->values[i].activation;
            return AH_OK;
        }
    return ah_huggingface_refuse_text(conversion, key->key, name, key->instead);
}

/* Lists the layers of smollm3 that are not rotated: all for which no_rope_layers has 0, or each fourth. */
static int convert_unrotated(struct ah_huggingface_conversion *conversion)
{
    const struct ah_huggingface_config *config = &conversion->config;
    struct ah_model *model = conversion->model;
    if (conversion->family != AH_FAMILY_SMOLLM3)
        return AH_OK;
    if (config->n_no_rope_layers && config->n_no_rope_layers < config->layers)
        return ah_huggingface_refuse(conversion, "no_rope_layers", "does not have one entry for each layer");
    uint64_t *layers = ah_arena_array(conversion->arena, config->layers, sizeof *layers);
    if (!layers)
        return ah_error_memory(conversion->err);
    for (uint64_t i = 0; i < config->layers; i++)
        if (config->n_no_rope_layers ? !config->no_rope_layers[i] : (i + 1) % config->no_rope_interval == 0)
            layers[model->n_unrotated_layers++] = i;
    model->unrotated_layers = model->n_unrotated_layers ? layers : NULL;
    return AH_OK;
}

/* True if the family has a window and the file does not turn it off. */
static bool has_window(const struct ah_huggingface_conversion *conversion)
{
    if (effect_of(conversion, "sliding_window") != AH_HUGGINGFACE_COMPUTED ||
        is_null(conversion, "sliding_window"))
        return false;
    if (effect_of(conversion, "use_sliding_window") == AH_HUGGINGFACE_COMPUTED &&
        !conversion->config.use_sliding_window)
        return false;
    return family_of(conversion)->window || ah_huggingface_has(conversion, "sliding_window");
}

/* True if a layer has the window by default, without layer_types. */
static bool is_windowed(const struct ah_huggingface_conversion *conversion, uint64_t layer)
{
    const struct ah_huggingface_config *config = &conversion->config;
    const enum ah_family family = conversion->family;
    if (family == AH_FAMILY_QWEN2 || family == AH_FAMILY_QWEN3)
        return layer >= config->max_window_layers;
    if (family == AH_FAMILY_SMOLLM3)
        return ah_model_layer_ways(conversion->model, layer).unrotated;
    if (family == AH_FAMILY_GEMMA2)
        return layer % 2 == 0;
    return family != AH_FAMILY_GEMMA3 || (layer + 1) % config->window_pattern != 0;
}

/* Lists the layers that have the window in `ret_layers`, and sets `ret_n` to their number. */
static int list_window_layers(const struct ah_huggingface_conversion *conversion, uint64_t *ret_layers,
                              size_t *ret_n)
{
    const struct ah_huggingface_config *config = &conversion->config;
    const bool listed = ah_huggingface_has(conversion, "layer_types") && !is_null(conversion, "layer_types");
    const bool decides = listed && effect_of(conversion, "layer_types") == AH_HUGGINGFACE_COMPUTED;
    size_t n = 0, n_listed = 0;
    if (listed && config->n_layer_types != config->layers)
        return ah_huggingface_refuse(conversion, "layer_types", "does not have one entry for each layer");
    for (uint64_t i = 0; i < config->layers; i++) {
        const bool slides = listed && strcmp(config->layer_types[i], "sliding_attention") == 0;
        n_listed += slides;
        if (listed && !slides && strcmp(config->layer_types[i], "full_attention") != 0)
            return ah_huggingface_refuse_text(conversion, "layer_types", config->layer_types[i],
                                              "is not supported; use full_attention or sliding_attention");
        if (decides ? slides : has_window(conversion) && is_windowed(conversion, i))
            ret_layers[n++] = i;
    }
    if (n_listed && !(decides && has_window(conversion)))
        return ah_huggingface_refuse(conversion, "layer_types", "has sliding_attention without a window");
    *ret_n = n;
    return AH_OK;
}

/* Checks keys: with layer_types, transformers reads mistral as ministral, which has no defaults for these keys. */
static int check_window(const struct ah_huggingface_conversion *conversion)
{
    if (conversion->family != AH_FAMILY_MISTRAL || !ah_huggingface_has(conversion, "layer_types"))
        return AH_OK;
    if (!conversion->config.head_dim)
        return ah_huggingface_refuse(conversion, "head_dim", "is missing; mistral with layer_types needs it");
    if (!has_window(conversion))
        return ah_huggingface_refuse(conversion, "sliding_window",
                                     "null has no meaning in mistral with layer_types");
    return AH_OK;
}

static int convert_window(struct ah_huggingface_conversion *conversion)
{
    struct ah_model *model = conversion->model;
    uint64_t *layers = ah_arena_array(conversion->arena, model->layers, sizeof *layers);
    size_t n = 0;
    if (!layers)
        return ah_error_memory(conversion->err);
    int rc = check_window(conversion);
    rc = rc ? rc : list_window_layers(conversion, layers, &n);
    if (rc)
        return rc;
    if (!n) {
        model->window_rope = NULL;
        return AH_OK;
    }
    model->window = ah_huggingface_has(conversion, "sliding_window") ? conversion->config.sliding_window
                                                                     : family_of(conversion)->window;
    if (!model->window)
        return ah_huggingface_refuse(conversion, "sliding_window",
                                     "0 leaves no token to attend to; null means no "
                                     "window");
    if (n < model->layers) {
        model->window_layers = layers;
        model->n_window_layers = n;
    }
    return AH_OK;
}

/* Sets the padding token. A negative token counts from the end of the vocabulary, as in torch. */
static int convert_padding(struct ah_huggingface_conversion *conversion)
{
    const bool stated = ah_huggingface_has(conversion, "pad_token_id");
    const double vocabulary = (double)conversion->config.vocabulary;
    const double token = stated ? conversion->config.padding : family_of(conversion)->padding;
    if (is_null(conversion, "pad_token_id") || conversion->family == AH_FAMILY_GPT2 ||
        (!stated && token >= AH_HUGGINGFACE_NO_PADDING))
        return AH_OK;
    if (token >= vocabulary || token < -vocabulary || fabs(token - floor(token)) > 0)
        return ah_huggingface_refuse(conversion, "pad_token_id",
                                     stated
                                         ? "is not a token of the vocabulary"
                                         : "is missing, and the family's default is not in the vocabulary");
    conversion->model->padding_token = (uint64_t)(token < 0 ? token + vocabulary : token);
    return AH_OK;
}

static int convert_heads(struct ah_huggingface_conversion *conversion)
{
    const struct ah_huggingface_config *config = &conversion->config;
    struct ah_model *model = conversion->model;
    bool kv_absent = !ah_huggingface_has(conversion, "num_key_value_heads");
    const struct ah_huggingface_family *family = family_of(conversion);
    uint64_t kv_default = kv_absent && family->kv_heads ? family->kv_heads : config->heads;
    model->heads = config->heads;
    model->kv_heads = config->kv_heads ? config->kv_heads : kv_default;
    if (kv_absent && config->heads % kv_default)
        return ah_huggingface_refuse(
            conversion, "num_key_value_heads",
            "is missing, and the family's default does not divide num_attention_heads");
    model->head_dim = config->head_dim ? config->head_dim : family->head_dim;
    if (model->head_dim && (!family->divides_width || config->width % config->heads == 0))
        return AH_OK;
    if (config->width % config->heads)
        return ah_huggingface_refuse(conversion,
                                     conversion->family == AH_FAMILY_GPT2 ? "n_head" : "num_attention_heads",
                                     model->head_dim ? "does not divide the width, which this family needs"
                                                     : "does not divide the width, and there is no head_dim");
    model->head_dim = config->width / config->heads;
    return AH_OK;
}

static void convert_gemma(struct ah_huggingface_conversion *conversion)
{
    const struct ah_huggingface_config *config = &conversion->config;
    struct ah_model *model = conversion->model;
    const bool gemma2 = conversion->family == AH_FAMILY_GEMMA2;
    model->query_scalar = config->query_scalar;
    if (gemma2)
        model->score_cap = ah_huggingface_has(conversion, "attn_logit_softcapping") ? config->score_cap : 50;
    model->logit_cap =
        gemma2 && !ah_huggingface_has(conversion, "final_logit_softcapping") ? 30 : config->logit_cap;
}

static void convert_plain(struct ah_huggingface_conversion *conversion)
{
    const struct ah_huggingface_config *config = &conversion->config;
    const struct ah_huggingface_family *family = family_of(conversion);
    struct ah_model *model = conversion->model;
    bool gpt2 = conversion->family == AH_FAMILY_GPT2;
    bool attention_bias =
        config->attention_bias && effect_of(conversion, "attention_bias") == AH_HUGGINGFACE_COMPUTED;
    model->generator = "autohete " AUTOHETE_VERSION;
    model->family = conversion->family;
    model->multimodal = conversion->outer != NULL;
    model->layers = config->layers;
    model->width = config->width;
    model->mlp_width = config->mlp_width ? config->mlp_width : 4 * config->width;
    model->vocabulary = config->vocabulary;
    model->max_positions = config->positions;
    model->norm = gpt2 ? AH_MODEL_NORM_LAYER : AH_MODEL_NORM_RMS;
    model->norm_epsilon = ah_huggingface_has(conversion, gpt2 ? "layer_norm_epsilon" : "rms_norm_eps")
                              ? config->norm_epsilon
                              : family->norm_epsilon;
    model->norm_place = family->norm_place;
    model->norm_offset = family->norm_offset;
    model->qkv_bias = family->qkv_bias || attention_bias;
    model->attention_output_bias = gpt2 || attention_bias;
    model->mlp_bias =
        gpt2 || (config->mlp_bias && effect_of(conversion, "mlp_bias") == AH_HUGGINGFACE_COMPUTED);
    model->qk_norm = family->qk_norm;
    model->qk_norm_whole = family->qk_norm_whole;
    model->embedding_scaled = family->scaled_embedding;
    model->tied = ah_huggingface_has(conversion, "tie_word_embeddings") && !conversion->outer ? config->tied
                                                                                              : family->tied;
    model->initializer_range = config->initializer_range;
    model->dropout =
        fmax(config->attention_dropout, effect_of(conversion, "resid_pdrop") == AH_HUGGINGFACE_DROPOUT
                                            ? fmax(config->residual_dropout, config->embedding_dropout)
                                            : 0);
    if (family->scaled_embedding)
        convert_gemma(conversion);
}

/* Sets the name: "dir/llama-2-7b/config.json" -> "llama-2-7b", "dir/mine.json" -> "mine"; else that of the family. */
static int convert_name(struct ah_huggingface_conversion *conversion)
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

static int convert_dropout(struct ah_huggingface_conversion *conversion)
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
    const struct cJSON *inside =
        model->multimodal ? cJSON_GetObjectItemCaseSensitive(tree, "text_config") : tree;
    const struct cJSON *scaling = cJSON_GetObjectItemCaseSensitive(inside, "rope_scaling");
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
    static int (*const steps[])(struct ah_huggingface_conversion *) = {find_family,
                                                                       read_config,
                                                                       check_keys,
                                                                       check_outer,
                                                                       convert_heads,
                                                                       convert_activation,
                                                                       ah_huggingface_convert_rope,
                                                                       convert_unrotated,
                                                                       convert_window,
                                                                       convert_padding,
                                                                       convert_name,
                                                                       NULL};
    struct ah_model model = {.padding_token = AH_MODEL_NO_PADDING};
    struct ah_huggingface_conversion conversion = {
        .arena = arena, .name = name, .tree = tree, .model = &model, .err = err};
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
