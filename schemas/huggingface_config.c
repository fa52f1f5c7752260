/* SPDX-License-Identifier: Apache-2.0
 *
 * The keys of config.json that matter, in two tables: gpt2's own spelling, and the one that llama, mistral, qwen2
 * and qwen3 share. Every other key is looked up in `other_keys`: inert, refused because it changes the
 * mathematics, or, when it is not there, unknown.
 */
#include "schemas/huggingface_internal.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <string.h>

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
#define OPTIONAL_POSITIVE(tag, key, member, limit, absent)                                                   \
    {                                                                                                        \
        .name = key, AH_NUMBER_AT(tag, member), .flags = OPTIONAL | AH_FIELD_ABOVE, .max = (limit),          \
        .fallback = (absent)                                                                                 \
    }
#define OPTIONAL_BOOL(key, member, absent)                                                                   \
    {                                                                                                        \
        .name = key, AH_BOOL_AT(ah_huggingface_config, member), .flags = OPTIONAL, .fallback = (absent)      \
    }
#define OPTIONAL_TEXT(tag, key, member)                                                                      \
    {                                                                                                        \
        .name = key, AH_TEXT_AT(tag, member), .flags = OPTIONAL                                              \
    }

static const struct ah_field rope_fields[] = {
    OPTIONAL_TEXT(ah_huggingface_rope, "rope_type", rope_type),
    OPTIONAL_TEXT(ah_huggingface_rope, "type", type),
    OPTIONAL_POSITIVE(ah_huggingface_rope, "rope_theta", rope_theta, 1e15, 0),
    OPTIONAL_NUMBER(ah_huggingface_rope, "factor", factor, 1e6, 0),
    OPTIONAL_NUMBER(ah_huggingface_rope, "low_freq_factor", low_freq_factor, 1e6, 0),
    OPTIONAL_NUMBER(ah_huggingface_rope, "high_freq_factor", high_freq_factor, 1e6, 0),
    {.name = "original_max_position_embeddings",
     AH_COUNT_AT(ah_huggingface_rope, original_max_position_embeddings),
     .flags = OPTIONAL,
     .max = 268435456},
    OPTIONAL_NUMBER(ah_huggingface_rope, "partial_rotary_factor", partial_rotary_factor, 1e6, 1),
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
    OPTIONAL_TEXT(ah_huggingface_config, "activation_function", activation),
    OPTIONAL_POSITIVE(ah_huggingface_config, "layer_norm_epsilon", norm_epsilon, 1, 1e-5),
    OPTIONAL_POSITIVE(ah_huggingface_config, "initializer_range", initializer_range, 10, 0.02),
    OPTIONAL_BOOL("tie_word_embeddings", tied, 1),
    OPTIONAL_NUMBER(ah_huggingface_config, "resid_pdrop", residual_dropout, 1, 0.1),
    OPTIONAL_NUMBER(ah_huggingface_config, "embd_pdrop", embedding_dropout, 1, 0.1),
    OPTIONAL_NUMBER(ah_huggingface_config, "attn_pdrop", attention_dropout, 1, 0.1),
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
    OPTIONAL_TEXT(ah_huggingface_config, "hidden_act", activation),
    OPTIONAL_POSITIVE(ah_huggingface_config, "rms_norm_eps", norm_epsilon, 1, 1e-6),
    OPTIONAL_POSITIVE(ah_huggingface_config, "initializer_range", initializer_range, 10, 0.02),
    OPTIONAL_BOOL("tie_word_embeddings", tied, 0),
    OPTIONAL_BOOL("attention_bias", attention_bias, 0),
    OPTIONAL_BOOL("mlp_bias", mlp_bias, 0),
    OPTIONAL_POSITIVE(ah_huggingface_config, "rope_theta", rope_theta, 1e15, 0),
    {.name = "rope_parameters",
     AH_GROUP_AT(ah_huggingface_config, rope_parameters, &rope_table),
     .flags = OPTIONAL},
    {.name = "rope_scaling",
     AH_GROUP_AT(ah_huggingface_config, rope_scaling, &rope_table),
     .flags = OPTIONAL},
    OPTIONAL_BOOL("use_sliding_window", use_sliding_window, 0),
    OPTIONAL_SIZE("sliding_window", sliding_window, 0, 268435456, 0),
    OPTIONAL_SIZE("max_window_layers", max_window_layers, 0, 10000, QWEN_MAX_WINDOW_LAYERS),
    {.name = "layer_types",
     AH_TEXTS_AT(ah_huggingface_config, layer_types),
     .flags = OPTIONAL,
     .max_items = 10000},
    OPTIONAL_NUMBER(ah_huggingface_config, "attention_dropout", attention_dropout, 1, 0),
    {0}};
static const struct ah_field_table llama_table = {
    .name = "llama", .bytes = sizeof(struct ah_huggingface_config), .fields = llama_fields};

const struct ah_huggingface_family ah_huggingface_families[] = {
    [AH_FAMILY_GPT2] = {&gpt2_table, "GPT2LMHeadModel", 0, true, false, ""},
    [AH_FAMILY_LLAMA] = {&llama_table, "LlamaForCausalLM", 0, false, false,
                         " use_sliding_window sliding_window max_window_layers layer_types "},
    [AH_FAMILY_MISTRAL] = {&llama_table, "MistralForCausalLM", 8, false, false,
                           " attention_bias mlp_bias use_sliding_window max_window_layers layer_types "},
    [AH_FAMILY_QWEN2] = {&llama_table, "Qwen2ForCausalLM", 32, true, false, " attention_bias mlp_bias "},
    [AH_FAMILY_QWEN3] = {&llama_table, "Qwen3ForCausalLM", 32, false, true, " mlp_bias "},
};

/* Keys outside the tables. REFUSED unless the value is null or the harmless one. */
enum other {
    INERT,
    REFUSED_UNLESS_EMPTY,
    REFUSED_UNLESS_FALSE,
    REFUSED_UNLESS_TRUE,
    REFUSED_UNLESS_ZERO,
    REFUSED_UNLESS_ONE,
    REFUSED_QUANTISED,
    REFUSED
};
struct other_key {
    const char *name;
    enum other what;
};

static const struct other_key other_keys[] = {
    {"torch_dtype", INERT},
    {"dtype", INERT},
    {"transformers_version", INERT},
    {"bos_token_id", INERT},
    {"eos_token_id", INERT},
    {"pad_token_id", INERT},
    {"use_cache", INERT},
    {"_name_or_path", INERT},
    {"task_specific_params", INERT},
    {"n_ctx", INERT},
    {"summary_activation", INERT},
    {"summary_first_dropout", INERT},
    {"summary_proj_to_labels", INERT},
    {"summary_type", INERT},
    {"summary_use_proj", INERT},
    {"output_attentions", INERT},
    {"output_hidden_states", INERT},
    {"return_dict", INERT},
    {"id2label", INERT},
    {"_num_labels", INERT},
    {"n_special", INERT},
    {"predict_special_tokens", INERT},
    {"output_past", INERT},
    {"label2id", INERT},
    {"is_decoder", INERT},
    /* PretrainedConfig of transformers 4: tasks, tools and other frameworks */
    {"_commit_hash", INERT},
    {"_attn_implementation", INERT},
    {"_attn_implementation_autoset", INERT},
    {"attn_implementation", INERT},
    {"cross_attention_hidden_size", INERT},
    {"decoder_start_token_id", INERT},
    {"finetuning_task", INERT},
    {"gradient_checkpointing", INERT},
    {"is_llama_config", INERT},
    {"max_sequence_length", INERT},
    {"model_max_length", INERT},
    {"name_or_path", INERT},
    {"num_labels", INERT},
    {"prefix", INERT},
    {"problem_type", INERT},
    {"sep_token_id", INERT},
    {"tf_legacy_loss", INERT},
    {"tie_encoder_decoder", INERT},
    {"tokenizer_class", INERT},
    {"torchscript", INERT},
    {"transformers.js_config", INERT},
    {"unk_token_id", INERT},
    {"unsloth_fixed", INERT},
    {"unsloth_version", INERT},
    {"use_bfloat16", INERT},
    /* what it generates with (GenerationConfig), which older files have here */
    {"bad_words_ids", INERT},
    {"begin_suppress_tokens", INERT},
    {"diversity_penalty", INERT},
    {"do_sample", INERT},
    {"early_stopping", INERT},
    {"encoder_no_repeat_ngram_size", INERT},
    {"exponential_decay_length_penalty", INERT},
    {"forced_bos_token_id", INERT},
    {"forced_eos_token_id", INERT},
    {"length_penalty", INERT},
    {"max_length", INERT},
    {"max_new_tokens", INERT},
    {"min_length", INERT},
    {"no_repeat_ngram_size", INERT},
    {"num_beam_groups", INERT},
    {"num_beams", INERT},
    {"num_return_sequences", INERT},
    {"output_scores", INERT},
    {"remove_invalid_values", INERT},
    {"repetition_penalty", INERT},
    {"return_dict_in_generate", INERT},
    {"suppress_tokens", INERT},
    {"temperature", INERT},
    {"top_k", INERT},
    {"top_p", INERT},
    {"typical_p", INERT},
    {"is_encoder_decoder", REFUSED_UNLESS_FALSE},
    {"use_mrope", REFUSED_UNLESS_FALSE},
    {"add_cross_attention", REFUSED_UNLESS_FALSE},
    {"scale_attn_by_inverse_layer_idx", REFUSED_UNLESS_FALSE},
    {"scale_attn_weights", REFUSED_UNLESS_TRUE},
    {"pretraining_tp", INERT} /* splits products, which are the same */,
    {"chunk_size_feed_forward", INERT} /* the same sums, a part of the sequence at a time */,
    /* gpt2: scores and their softmax in fp32 and the scale applied to the product (GPT2Attention
     * ._upcast_and_reordered_attn); attention does both here whatever the value (docs/numerics.md) */
    {"reorder_and_upcast_attn", INERT},
    {"pruned_heads", REFUSED_UNLESS_EMPTY},
    {"per_layer_config", REFUSED_UNLESS_EMPTY},
    {"rope_interleaved", REFUSED_UNLESS_FALSE},
    {"partial_rotary_factor", REFUSED_UNLESS_ONE},
    {"quantization_config", REFUSED_QUANTISED},
    {"compression_config", REFUSED_QUANTISED},
    {"quantization", REFUSED_QUANTISED},
    {"auto_map", REFUSED},
    {"original_max_position_embeddings", REFUSED},
    {"final_logit_softcapping", REFUSED},
    {"attn_logit_softcapping", REFUSED},
    {"logit_softcapping", REFUSED},
    {"num_experts", REFUSED_UNLESS_ZERO},
    {"num_local_experts", REFUSED_UNLESS_ZERO},
    {"n_routed_experts", REFUSED_UNLESS_ZERO},
    {"num_experts_per_tok", REFUSED_UNLESS_ZERO},
    {"moe_intermediate_size", REFUSED_UNLESS_ZERO},
    {"decoder_sparse_step", REFUSED_UNLESS_ZERO},
    {"no_rope_layers", REFUSED},
    {"attention_chunk_size", REFUSED},
    {"logits_scaling", REFUSED_UNLESS_ONE},
    {"logit_scale", REFUSED_UNLESS_ONE},
    {"residual_multiplier", REFUSED_UNLESS_ONE},
    {"embedding_multiplier", REFUSED_UNLESS_ONE},
    {"attention_multiplier", REFUSED},
};

static bool harmless(const cJSON *value, enum other what)
{
    switch (what) {
    case INERT:
        return true;
    case REFUSED_UNLESS_EMPTY:
        return cJSON_IsNull(value) || ((cJSON_IsArray(value) || cJSON_IsObject(value)) && !value->child);
    case REFUSED_UNLESS_FALSE:
        return cJSON_IsFalse(value) || cJSON_IsNull(value);
    case REFUSED_UNLESS_TRUE:
        return cJSON_IsTrue(value) || cJSON_IsNull(value);
    case REFUSED_UNLESS_ZERO:
        return cJSON_IsNull(value) || (cJSON_IsNumber(value) && !(fabs(value->valuedouble) > 0));
    case REFUSED_UNLESS_ONE:
        return cJSON_IsNull(value) || (cJSON_IsNumber(value) && !(fabs(value->valuedouble - 1) > 0));
    case REFUSED_QUANTISED:
    case REFUSED:
        break;
    }
    return cJSON_IsNull(value);
}

enum ah_huggingface_key ah_huggingface_key_of(const struct cJSON *member)
{
    for (size_t i = 0; i < sizeof other_keys / sizeof other_keys[0]; i++)
        if (strcmp(other_keys[i].name, member->string) == 0)
            return harmless(member, other_keys[i].what)      ? AH_HUGGINGFACE_INERT
                   : other_keys[i].what == REFUSED_QUANTISED ? AH_HUGGINGFACE_QUANTISED
                                                             : AH_HUGGINGFACE_REFUSED;
    return AH_HUGGINGFACE_UNKNOWN;
}
