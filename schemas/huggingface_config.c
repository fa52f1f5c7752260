/* SPDX-License-Identifier: Apache-2.0
 *
 * Two tables for the keys of config.json that we use: one for gpt2's spelling, one for the spelling shared by llama,
 * mistral, qwen2 and qwen3. huggingface_keys.c says what each key means in each family.
 */
#include "schemas/huggingface_internal.h"

enum { QWEN_MAX_WINDOW_LAYERS = 28 };

#define OPTIONAL (AH_FIELD_OPTIONAL | AH_FIELD_NULLABLE)
#define SIZE(key, member, limit)                                                                             \
    {                                                                                                        \
        .name = key, AH_COUNT_AT(ah_huggingface_config, member), .min = 1, .max = (limit)                    \
    }
#define OPTIONAL_SIZE(key, member, least, limit, absent)                                                     \
    {                                                                                                        \
        .name = key, AH_COUNT_AT(ah_huggingface_config, member), .flags = OPTIONAL, .min = (least),          \
        .max = (limit), .fallback = (absent)                                                                 \
    }
#define OPTIONAL_NUMBER(tag, key, member, limit, absent)                                                     \
    {                                                                                                        \
        .name = key, AH_NUMBER_AT(tag, member), .flags = OPTIONAL, .max = (limit), .fallback = (absent)      \
    }
#define OPTIONAL_POSITIVE(key, member, limit, absent)                                                        \
    {                                                                                                        \
        .name = key, AH_NUMBER_AT(ah_huggingface_config, member), .flags = OPTIONAL | AH_FIELD_ABOVE,        \
        .max = (limit), .fallback = (absent)                                                                 \
    }
#define OPTIONAL_BOOL(key, member, absent)                                                                   \
    {                                                                                                        \
        .name = key, AH_BOOL_AT(ah_huggingface_config, member), .flags = OPTIONAL, .fallback = (absent)      \
    }
#define OPTIONAL_TEXT(key, member)                                                                           \
    {                                                                                                        \
        .name = key, AH_TEXT_AT(ah_huggingface_config, member), .flags = OPTIONAL                            \
    }
#define LAYER_TYPES                                                                                          \
    {                                                                                                        \
        .name = "layer_types", AH_TEXTS_AT(ah_huggingface_config, layer_types), .flags = OPTIONAL,           \
        .max_items = 10000                                                                                   \
    }

static const struct ah_field rope_fields[] = {
    /* null is an error in these four keys, as in transformers 5 */
    {.name = "rope_type", AH_TEXT_AT(ah_huggingface_rope, rope_type), .flags = AH_FIELD_OPTIONAL},
    {.name = "type", AH_TEXT_AT(ah_huggingface_rope, type), .flags = AH_FIELD_OPTIONAL},
    {.name = "rope_theta",
     AH_NUMBER_AT(ah_huggingface_rope, rope_theta),
     .flags = AH_FIELD_OPTIONAL | AH_FIELD_ABOVE,
     .max = 1e15},
    {.name = "partial_rotary_factor",
     AH_NUMBER_AT(ah_huggingface_rope, partial_rotary_factor),
     .flags = AH_FIELD_OPTIONAL,
     .max = 1e6,
     .fallback = 1},
    OPTIONAL_NUMBER(ah_huggingface_rope, "factor", factor, 1e6, 0),
    OPTIONAL_NUMBER(ah_huggingface_rope, "low_freq_factor", low_freq_factor, 1e6, 0),
    OPTIONAL_NUMBER(ah_huggingface_rope, "high_freq_factor", high_freq_factor, 1e6, 0),
    {.name = "original_max_position_embeddings",
     AH_COUNT_AT(ah_huggingface_rope, original_max_position_embeddings),
     .flags = OPTIONAL,
     .max = 268435456},
    {0}};
static const struct ah_field_table rope_table = {
    .name = "rope", .bytes = sizeof(struct ah_huggingface_rope), .fields = rope_fields};

static const struct ah_field gpt2_fields[] = {
    {.name = "model_type", AH_TEXT_AT(ah_huggingface_config, model_type)},
    SIZE("n_embd", width, 1048576),
    SIZE("n_layer", layers, 10000),
    SIZE("n_head", heads, 65536),
    SIZE("n_positions", positions, 268435456),
    SIZE("vocab_size", vocabulary, 268435456),
    OPTIONAL_SIZE("n_inner", mlp_width, 1, 16777216, 0),
    OPTIONAL_TEXT("activation_function", activation),
    OPTIONAL_POSITIVE("layer_norm_epsilon", norm_epsilon, 1, 1e-5),
    OPTIONAL_POSITIVE("initializer_range", initializer_range, 10, 0.02),
    OPTIONAL_BOOL("tie_word_embeddings", tied, 1),
    OPTIONAL_NUMBER(ah_huggingface_config, "resid_pdrop", residual_dropout, 1, 0.1),
    OPTIONAL_NUMBER(ah_huggingface_config, "embd_pdrop", embedding_dropout, 1, 0.1),
    OPTIONAL_NUMBER(ah_huggingface_config, "attn_pdrop", attention_dropout, 1, 0.1),
    LAYER_TYPES,
    {0}};
static const struct ah_field_table gpt2_table = {
    .name = "gpt2", .bytes = sizeof(struct ah_huggingface_config), .fields = gpt2_fields};

static const struct ah_field llama_fields[] = {
    {.name = "model_type", AH_TEXT_AT(ah_huggingface_config, model_type)},
    SIZE("hidden_size", width, 1048576),
    SIZE("num_hidden_layers", layers, 10000),
    SIZE("num_attention_heads", heads, 65536),
    SIZE("intermediate_size", mlp_width, 16777216),
    SIZE("vocab_size", vocabulary, 268435456),
    SIZE("max_position_embeddings", positions, 268435456),
    OPTIONAL_SIZE("num_key_value_heads", kv_heads, 1, 65536, 0),
    OPTIONAL_SIZE("head_dim", head_dim, 1, 65536, 0),
    OPTIONAL_TEXT("hidden_act", activation),
    OPTIONAL_POSITIVE("rms_norm_eps", norm_epsilon, 1, 1e-6),
    OPTIONAL_POSITIVE("initializer_range", initializer_range, 10, 0.02),
    {.name = "pad_token_id",
     AH_NUMBER_AT(ah_huggingface_config, padding),
     .flags = OPTIONAL,
     .min = -AH_FIELD_COUNT_MAX,
     .max = AH_FIELD_COUNT_MAX},
    OPTIONAL_BOOL("tie_word_embeddings", tied, 0),
    OPTIONAL_BOOL("attention_bias", attention_bias, 0),
    OPTIONAL_BOOL("mlp_bias", mlp_bias, 0),
    OPTIONAL_POSITIVE("rope_theta", rope_theta, 1e15, 0),
    {.name = "rope_parameters",
     AH_GROUP_AT(ah_huggingface_config, rope_parameters, &rope_table),
     .flags = OPTIONAL},
    {.name = "rope_scaling",
     AH_GROUP_AT(ah_huggingface_config, rope_scaling, &rope_table),
     .flags = OPTIONAL},
    OPTIONAL_BOOL("use_sliding_window", use_sliding_window, 0),
    OPTIONAL_SIZE("sliding_window", sliding_window, 0, 268435456, 0),
    OPTIONAL_SIZE("max_window_layers", max_window_layers, 0, 10000, QWEN_MAX_WINDOW_LAYERS),
    LAYER_TYPES,
    OPTIONAL_NUMBER(ah_huggingface_config, "attention_dropout", attention_dropout, 1, 0),
    {0}};
static const struct ah_field_table llama_table = {
    .name = "llama", .bytes = sizeof(struct ah_huggingface_config), .fields = llama_fields};

const struct ah_huggingface_family ah_huggingface_families[] = {
    [AH_FAMILY_GPT2] = {&gpt2_table, "GPT2LMHeadModel", 0, true, false},
    [AH_FAMILY_LLAMA] = {&llama_table, "LlamaForCausalLM", 0, false, false},
    [AH_FAMILY_MISTRAL] = {&llama_table, "MistralForCausalLM", 8, false, false},
    [AH_FAMILY_QWEN2] = {&llama_table, "Qwen2ForCausalLM", 32, true, false},
    [AH_FAMILY_QWEN3] = {&llama_table, "Qwen3ForCausalLM", 32, false, true},
};
