/* SPDX-License-Identifier: Apache-2.0
 *
 * Two tables for the keys of config.json that we use: one for gpt2's spelling, one for the spelling that all other
 * families share. huggingface_keys.c says what each key means in each family.
 */
#include "schemas/huggingface_internal.h"

enum { QWEN_MAX_WINDOW_LAYERS = 28 };

#define OPTIONAL (AH_FIELD_OPTIONAL | AH_FIELD_NULLABLE)
#define SIZE(key, member, limit)                                                                             \
    {                                                                                                        \
        .name = key, AH_COUNT_AT(ah_huggingface_config, member), .min = 1, .max = (limit)                    \
    }
/* one without which only the text part of gemma3 has a default (huggingface.c) */
#define PERHAPS_SIZE(key, member, limit)                                                                     \
    {                                                                                                        \
        .name = key, AH_COUNT_AT(ah_huggingface_config, member), .flags = AH_FIELD_OPTIONAL, .min = 1,       \
        .max = (limit)                                                                                       \
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

#define FACTORS(key)                                                                                         \
    {                                                                                                        \
        .name = #key, AH_NUMBERS_AT(ah_huggingface_rope, key), .flags = OPTIONAL | AH_FIELD_ABOVE,           \
        .max = 1e6, .max_items = 32768                                                                       \
    }

static const struct ah_field_table rope_table;
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
     .fallback = -1},
    OPTIONAL_NUMBER(ah_huggingface_rope, "factor", factor, 1e6, 0),
    OPTIONAL_NUMBER(ah_huggingface_rope, "low_freq_factor", low_freq_factor, 1e6, 0),
    OPTIONAL_NUMBER(ah_huggingface_rope, "high_freq_factor", high_freq_factor, 1e6, 0),
    {.name = "original_max_position_embeddings",
     AH_COUNT_AT(ah_huggingface_rope, original_max_position_embeddings),
     .flags = OPTIONAL,
     .max = 268435456},
    OPTIONAL_NUMBER(ah_huggingface_rope, "beta_fast", beta_fast, 1e6, 0),
    OPTIONAL_NUMBER(ah_huggingface_rope, "beta_slow", beta_slow, 1e6, 0),
    OPTIONAL_NUMBER(ah_huggingface_rope, "attention_factor", attention_factor, 1e6, -1),
    OPTIONAL_NUMBER(ah_huggingface_rope, "mscale", mscale, 1e6, 0),
    OPTIONAL_NUMBER(ah_huggingface_rope, "mscale_all_dim", mscale_all_dim, 1e6, 0),
    {.name = "truncate",
     AH_BOOL_AT(ah_huggingface_rope, truncate),
     .flags = AH_FIELD_OPTIONAL,
     .fallback = 1},
    FACTORS(short_factor),
    FACTORS(long_factor),
    {.name = "full_attention",
     AH_GROUP_AT(ah_huggingface_rope, full_attention, &rope_table),
     .flags = OPTIONAL},
    {.name = "sliding_attention",
     AH_GROUP_AT(ah_huggingface_rope, sliding_attention, &rope_table),
     .flags = OPTIONAL},
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
    {.name = "model_type", AH_TEXT_AT(ah_huggingface_config, model_type), .flags = AH_FIELD_OPTIONAL},
    PERHAPS_SIZE("hidden_size", width, 1048576),
    PERHAPS_SIZE("num_hidden_layers", layers, 10000),
    PERHAPS_SIZE("num_attention_heads", heads, 65536),
    PERHAPS_SIZE("intermediate_size", mlp_width, 16777216),
    PERHAPS_SIZE("vocab_size", vocabulary, 268435456),
    PERHAPS_SIZE("max_position_embeddings", positions, 268435456),
    OPTIONAL_SIZE("num_key_value_heads", kv_heads, 1, 65536, 0),
    OPTIONAL_SIZE("head_dim", head_dim, 1, 65536, 0),
    OPTIONAL_TEXT("hidden_act", activation),
    OPTIONAL_TEXT("hidden_activation", gemma_activation),
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
    OPTIONAL_POSITIVE("rope_local_base_freq", local_theta, 1e15, 1e4),
    OPTIONAL_NUMBER(ah_huggingface_config, "partial_rotary_factor", partial_rotary_factor, 1e6, 1),
    OPTIONAL_SIZE("original_max_position_embeddings", original_positions, 1, 268435456, 4096),
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
    OPTIONAL_SIZE("sliding_window_pattern", window_pattern, 1, 10000, 6),
    {.name = "no_rope_layers",
     AH_COUNTS_AT(ah_huggingface_config, no_rope_layers),
     .flags = OPTIONAL,
     .max = 1,
     .max_items = 10000},
    OPTIONAL_SIZE("no_rope_layer_interval", no_rope_interval, 1, 10000, 4),
    OPTIONAL_POSITIVE("query_pre_attn_scalar", query_scalar, 1e9, 256),
    OPTIONAL_POSITIVE("attn_logit_softcapping", score_cap, 1e6, 0),
    OPTIONAL_POSITIVE("final_logit_softcapping", logit_cap, 1e6, 0),
    OPTIONAL_NUMBER(ah_huggingface_config, "attention_dropout", attention_dropout, 1, 0),
    OPTIONAL_NUMBER(ah_huggingface_config, "resid_pdrop", residual_dropout, 1, 0),
    OPTIONAL_NUMBER(ah_huggingface_config, "embd_pdrop", embedding_dropout, 1, 0),
    {0}};
static const struct ah_field_table llama_table = {
    .name = "llama", .bytes = sizeof(struct ah_huggingface_config), .fields = llama_fields};

#define NO_PADDING AH_HUGGINGFACE_NO_PADDING
const struct ah_huggingface_family ah_huggingface_families[] = {
    [AH_FAMILY_GPT2] = {&gpt2_table, "GPT2LMHeadModel", .norm_epsilon = 1e-5, .padding = NO_PADDING,
                        .tied = true, .qkv_bias = true},
    [AH_FAMILY_LLAMA] = {&llama_table, "LlamaForCausalLM", .norm_epsilon = 1e-6, .theta = 1e4,
                         .padding = NO_PADDING, .divides_width = true},
    [AH_FAMILY_MISTRAL] = {&llama_table, "MistralForCausalLM", .kv_heads = 8, .norm_epsilon = 1e-6,
                           .theta = 1e4, .window = 4096, .padding = NO_PADDING},
    [AH_FAMILY_QWEN2] = {&llama_table, "Qwen2ForCausalLM", .kv_heads = 32, .norm_epsilon = 1e-6, .theta = 1e4,
                         .window = 4096, .padding = NO_PADDING, .qkv_bias = true},
    [AH_FAMILY_QWEN3] = {&llama_table, "Qwen3ForCausalLM", .kv_heads = 32, .head_dim = 128,
                         .norm_epsilon = 1e-6, .theta = 1e4, .window = 4096, .padding = NO_PADDING,
                         .qk_norm = true},
    [AH_FAMILY_OLMO2] = {&llama_table, "Olmo2ForCausalLM", .norm_epsilon = 1e-5, .theta = 1e4, .padding = 1,
                         .qk_norm = true, .qk_norm_whole = true, .norm_place = AH_NORM_AFTER},
    [AH_FAMILY_SMOLLM3] = {&llama_table, "SmolLM3ForCausalLM", .kv_heads = 4, .norm_epsilon = 1e-6,
                           .theta = 2e6, .padding = 128004, .tied = true},
    [AH_FAMILY_PHI3] = {&llama_table, "Phi3ForCausalLM", .norm_epsilon = 1e-5, .theta = 1e4,
                        .padding = 32000},
    [AH_FAMILY_GEMMA2] = {&llama_table, "Gemma2ForCausalLM", .kv_heads = 4, .head_dim = 256,
                          .norm_epsilon = 1e-6, .theta = 1e4, .window = 4096, .padding = 0, .tied = true,
                          .divides_width = true, .scaled_embedding = true, .norm_offset = true,
                          .norm_place = AH_NORM_AROUND},
    [AH_FAMILY_GEMMA3] = {&llama_table, "Gemma3ForCausalLM", .kv_heads = 4, .head_dim = 256,
                          .norm_epsilon = 1e-6, .theta = 1e6, .window = 4096, .padding = 0, .tied = true,
                          .divides_width = true, .qk_norm = true, .scaled_embedding = true,
                          .norm_offset = true, .norm_place = AH_NORM_AROUND},
};
