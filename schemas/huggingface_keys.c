/* SPDX-License-Identifier: Apache-2.0
 *
 * Defines what every key of a config.json means in every family; nothing else does. docs/huggingface.md shows this
 * table, and tests/tools/config_keys.py compares the shown table with transformers.
 *
 * Source: transformers 5.24, configuration_*.py and modeling_*.py of the families, configuration_utils.py,
 * modeling_rope_utils.py, masking_utils.py. In these files every key becomes an attribute of the configuration, so a
 * key that a family does not declare may still have an effect: `is_causal` can make any of them see the future, and in
 * gpt2 `hidden_size` is another name of `n_embd`.
 */
#include "schemas/huggingface_internal.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <string.h>

#define IN(family) (1U << AH_FAMILY_##family)

/* clang-format off */
enum {
    GPT2 = IN(GPT2), LLAMA = IN(LLAMA), MISTRAL = IN(MISTRAL), QWEN3 = IN(QWEN3), QWENS = IN(QWEN2) | IN(QWEN3),
    OLMO2 = IN(OLMO2), SMOLLM3 = IN(SMOLLM3), PHI3 = IN(PHI3), GEMMA2 = IN(GEMMA2), GEMMA3 = IN(GEMMA3),
    GEMMAS = GEMMA2 | GEMMA3, SILUS = LLAMA | MISTRAL | QWENS | OLMO2 | SMOLLM3 | PHI3, ROPED = SILUS | GEMMAS,
    WINDOWED = MISTRAL | QWENS | SMOLLM3 | GEMMAS, ALL = GPT2 | ROPED,
    COMPUTED = AH_HUGGINGFACE_COMPUTED, DROPOUT = AH_HUGGINGFACE_DROPOUT, CLASS = AH_HUGGINGFACE_CLASS,
    NONE = AH_HUGGINGFACE_NONE, WARNED = AH_HUGGINGFACE_WARNED,
    UNLESS_EMPTY = AH_HUGGINGFACE_UNLESS_EMPTY, UNLESS_FALSE = AH_HUGGINGFACE_UNLESS_FALSE,
    UNLESS_TRUE = AH_HUGGINGFACE_UNLESS_TRUE, UNLESS_ZERO = AH_HUGGINGFACE_UNLESS_ZERO,
    UNLESS_ONE = AH_HUGGINGFACE_UNLESS_ONE, UNLESS_FULL = AH_HUGGINGFACE_UNLESS_FULL, CODE = AH_HUGGINGFACE_CODE, REFUSED = AH_HUGGINGFACE_REFUSED,
    QUANTISED = AH_HUGGINGFACE_QUANTISED, NEVER = AH_HUGGINGFACE_NEVER,
};

const struct ah_huggingface_key ah_huggingface_keys[] = {
    /* key, families that have it, its effect in them, families that accept null, its effect in other families */
    {"model_type", ALL, COMPUTED, 0, NONE},
    {"vocab_size", ALL, COMPUTED, 0, NONE},
    {"initializer_range", ALL, COMPUTED, 0, NONE},
    {"tie_word_embeddings", ALL, COMPUTED, 0, NONE},
    {"architectures", ALL, CLASS, ALL, NONE},
    {"n_embd", GPT2, COMPUTED, 0, WARNED},
    {"n_layer", GPT2, COMPUTED, 0, WARNED},
    {"n_head", GPT2, COMPUTED, 0, WARNED},
    {"n_positions", GPT2, COMPUTED, 0, WARNED},
    {"n_inner", GPT2, COMPUTED, GPT2, WARNED},
    {"activation_function", GPT2, COMPUTED, 0, WARNED},
    {"layer_norm_epsilon", GPT2, COMPUTED, 0, WARNED},
    {"resid_pdrop", GPT2 | PHI3, DROPOUT, 0, WARNED},
    {"embd_pdrop", GPT2 | PHI3, DROPOUT, 0, WARNED},
    {"attn_pdrop", GPT2, DROPOUT, 0, WARNED},
    {"hidden_size", ROPED, COMPUTED, 0, NEVER}, /* gpt2: other names of n_embd, n_layer, n_head, n_positions */
    {"num_hidden_layers", ROPED, COMPUTED, 0, NEVER},
    {"num_attention_heads", ROPED, COMPUTED, 0, NEVER},
    {"max_position_embeddings", ROPED, COMPUTED, 0, NEVER},
    {"intermediate_size", ROPED, COMPUTED, 0, WARNED},
    {"num_key_value_heads", ROPED, COMPUTED, LLAMA | QWENS | OLMO2 | SMOLLM3 | PHI3, WARNED},
    {"head_dim", ROPED, COMPUTED, LLAMA | MISTRAL, WARNED},
    {"hidden_act", SILUS, COMPUTED, 0, WARNED},
    {"hidden_activation", GEMMAS, COMPUTED, 0, WARNED},
    {"rms_norm_eps", ROPED, COMPUTED, 0, WARNED},
    {"rope_theta", ROPED, COMPUTED, 0, WARNED},
    {"rope_parameters", ROPED, COMPUTED, ROPED, UNLESS_EMPTY},
    {"rope_scaling", ROPED, COMPUTED, ROPED, UNLESS_EMPTY},
    {"rope_local_base_freq", GEMMA3, COMPUTED, 0, WARNED},
    {"original_max_position_embeddings", PHI3, COMPUTED, 0, NEVER},
    {"partial_rotary_factor", PHI3, COMPUTED, 0, UNLESS_ONE},
    {"attention_dropout", ROPED, DROPOUT, LLAMA | GEMMAS, WARNED},
    {"pad_token_id", ROPED, COMPUTED, ROPED, NONE},
    {"attention_bias", LLAMA | QWEN3 | OLMO2 | SMOLLM3 | GEMMAS, COMPUTED, 0, WARNED},
    {"mlp_bias", LLAMA | SMOLLM3, COMPUTED, 0, WARNED},
    {"sliding_window", WINDOWED | PHI3, COMPUTED, MISTRAL | QWENS | SMOLLM3 | PHI3, WARNED},
    {"sliding_window_pattern", GEMMA3, COMPUTED, 0, WARNED},
    {"use_sliding_window", QWENS | SMOLLM3, COMPUTED, 0, WARNED},
    {"max_window_layers", QWENS, COMPUTED, 0, WARNED},
    {"layer_types", WINDOWED, COMPUTED, WINDOWED, UNLESS_FULL},
    {"no_rope_layers", SMOLLM3, COMPUTED, SMOLLM3, REFUSED},
    {"no_rope_layer_interval", SMOLLM3, COMPUTED, 0, WARNED},
    {"query_pre_attn_scalar", GEMMAS, COMPUTED, 0, WARNED},
    {"attn_logit_softcapping", GEMMA2, COMPUTED, GEMMA2, REFUSED},
    {"final_logit_softcapping", GEMMAS, COMPUTED, GEMMAS, REFUSED},
    /* keys of other models or other programs */
    {"add_cross_attention", 0, NONE, 0, UNLESS_FALSE},
    {"attention_chunk_size", 0, NONE, 0, REFUSED},
    {"attention_multiplier", 0, NONE, 0, REFUSED},
    {"auto_map", 0, NONE, 0, CODE},
    {"compression_config", 0, NONE, 0, QUANTISED},
    {"decoder", 0, NONE, 0, REFUSED},
    {"decoder_sparse_step", 0, NONE, 0, UNLESS_ZERO},
    {"embedding_multiplier", 0, NONE, 0, UNLESS_ONE},
    {"generator", 0, NONE, 0, REFUSED},
    {"is_causal", 0, NONE, 0, UNLESS_TRUE},
    {"is_encoder_decoder", 0, NONE, 0, UNLESS_FALSE},
    {"logit_scale", 0, NONE, 0, UNLESS_ONE},
    {"logit_softcapping", 0, NONE, 0, REFUSED},
    {"logits_scaling", 0, NONE, 0, UNLESS_ONE},
    {"moe_intermediate_size", 0, NONE, 0, UNLESS_ZERO},
    {"n_routed_experts", 0, NONE, 0, UNLESS_ZERO},
    {"num_experts", 0, NONE, 0, UNLESS_ZERO},
    {"num_experts_per_tok", 0, NONE, 0, UNLESS_ZERO},
    {"num_local_experts", 0, NONE, 0, UNLESS_ZERO},
    {"per_layer_config", 0, NONE, 0, UNLESS_EMPTY},
    {"pruned_heads", 0, NONE, 0, UNLESS_EMPTY},
    {"quantization", 0, NONE, 0, QUANTISED},
    {"quantization_config", 0, NONE, 0, QUANTISED},
    {"residual_multiplier", 0, NONE, 0, UNLESS_ONE},
    {"rope_interleaved", 0, NONE, 0, UNLESS_FALSE},
    {"scale_attn_by_inverse_layer_idx", 0, NONE, 0, UNLESS_FALSE},
    {"scale_attn_weights", 0, NONE, 0, UNLESS_TRUE},
    {"text_config", 0, NONE, 0, REFUSED},
    {"use_bidirectional_attention", 0, NONE, 0, UNLESS_FALSE},
    {"use_mrope", 0, NONE, 0, UNLESS_FALSE},
    /* Settings for output, tasks, tools and other frameworks, and for generation (GenerationConfig), which older files
     * keep here. pretraining_tp and chunk_size_feed_forward compute the same sums in parts. reorder_and_upcast_attn
     * asks for scores and softmax in fp32, which our attention uses anyway (docs/numerics.md). */
    {"_attn_implementation", 0, NONE, 0, NONE},
    {"_attn_implementation_autoset", 0, NONE, 0, NONE},
    {"_commit_hash", 0, NONE, 0, NONE},
    {"_name_or_path", 0, NONE, 0, NONE},
    {"_num_labels", 0, NONE, 0, NONE},
    {"_sliding_window_pattern", 0, NONE, 0, NONE}, /* Gemma 3's is written, and not read */
    {"attn_implementation", 0, NONE, 0, NONE},
    {"bad_words_ids", 0, NONE, 0, NONE},
    {"begin_suppress_tokens", 0, NONE, 0, NONE},
    {"bos_token_id", 0, NONE, 0, NONE},
    {"chunk_size_feed_forward", 0, NONE, 0, NONE},
    {"cross_attention_hidden_size", 0, NONE, 0, NONE},
    {"decoder_start_token_id", 0, NONE, 0, NONE},
    {"diversity_penalty", 0, NONE, 0, NONE},
    {"do_sample", 0, NONE, 0, NONE},
    {"dtype", 0, NONE, 0, NONE},
    {"early_stopping", 0, NONE, 0, NONE},
    {"encoder_no_repeat_ngram_size", 0, NONE, 0, NONE},
    {"eos_token_id", 0, NONE, 0, NONE},
    {"exponential_decay_length_penalty", 0, NONE, 0, NONE},
    {"finetuning_task", 0, NONE, 0, NONE},
    {"forced_bos_token_id", 0, NONE, 0, NONE},
    {"forced_eos_token_id", 0, NONE, 0, NONE},
    {"full_attn_mod", 0, NONE, 0, NONE},
    {"gradient_checkpointing", 0, NONE, 0, NONE},
    {"id2label", 0, NONE, 0, NONE},
    {"interpolate_factor", 0, NONE, 0, NONE},
    {"is_decoder", 0, NONE, 0, NONE},
    {"is_llama_config", 0, NONE, 0, NONE},
    {"label2id", 0, NONE, 0, NONE},
    {"length_penalty", 0, NONE, 0, NONE},
    {"lm_head_bias", 0, NONE, 0, UNLESS_FALSE},
    {"max_length", 0, NONE, 0, NONE},
    {"max_new_tokens", 0, NONE, 0, NONE},
    {"max_sequence_length", 0, NONE, 0, NONE},
    {"min_length", 0, NONE, 0, NONE},
    {"model_max_length", 0, NONE, 0, NONE},
    {"n_ctx", 0, NONE, 0, NONE},
    {"n_special", 0, NONE, 0, NONE},
    {"name_or_path", 0, NONE, 0, NONE},
    {"no_repeat_ngram_size", 0, NONE, 0, NONE},
    {"num_beam_groups", 0, NONE, 0, NONE},
    {"num_beams", 0, NONE, 0, NONE},
    {"num_labels", 0, NONE, 0, NONE},
    {"num_return_sequences", 0, NONE, 0, NONE},
    {"output_attentions", 0, NONE, 0, NONE},
    {"output_hidden_states", 0, NONE, 0, NONE},
    {"output_past", 0, NONE, 0, NONE},
    {"output_scores", 0, NONE, 0, NONE},
    {"predict_special_tokens", 0, NONE, 0, NONE},
    {"prefix", 0, NONE, 0, NONE},
    {"pretraining_tp", 0, NONE, 0, NONE},
    {"problem_type", 0, NONE, 0, NONE},
    {"remove_invalid_values", 0, NONE, 0, NONE},
    {"reorder_and_upcast_attn", 0, NONE, 0, NONE},
    {"repetition_penalty", 0, NONE, 0, NONE},
    {"return_dict", 0, NONE, 0, NONE},
    {"return_dict_in_generate", 0, NONE, 0, NONE},
    {"sep_token_id", 0, NONE, 0, NONE},
    {"summary_activation", 0, NONE, 0, NONE},
    {"summary_first_dropout", 0, NONE, 0, NONE},
    {"summary_proj_to_labels", 0, NONE, 0, NONE},
    {"summary_type", 0, NONE, 0, NONE},
    {"summary_use_proj", 0, NONE, 0, NONE},
    {"suppress_tokens", 0, NONE, 0, NONE},
    {"task_specific_params", 0, NONE, 0, NONE},
    {"temperature", 0, NONE, 0, NONE},
    {"tf_legacy_loss", 0, NONE, 0, NONE},
    {"tie_encoder_decoder", 0, NONE, 0, NONE},
    {"tokenizer_class", 0, NONE, 0, NONE},
    {"top_k", 0, NONE, 0, NONE},
    {"top_p", 0, NONE, 0, NONE},
    {"torch_dtype", 0, NONE, 0, NONE},
    {"torchscript", 0, NONE, 0, NONE},
    {"transformers.js_config", 0, NONE, 0, NONE},
    {"transformers_version", 0, NONE, 0, NONE},
    {"typical_p", 0, NONE, 0, NONE},
    {"unk_token_id", 0, NONE, 0, NONE},
    {"unsloth_fixed", 0, NONE, 0, NONE},
    {"unsloth_version", 0, NONE, 0, NONE},
    {"use_bfloat16", 0, NONE, 0, NONE},
    {"use_cache", 0, NONE, 0, NONE},
    {0}};
/* clang-format on */

const struct ah_huggingface_key *ah_huggingface_key_find(const char *name)
{
    for (const struct ah_huggingface_key *key = ah_huggingface_keys; key->name; key++)
        if (strcmp(key->name, name) == 0)
            return key;
    return NULL;
}

int ah_huggingface_key_effect(const struct ah_huggingface_key *key, enum ah_family family)
{
    return key->families & 1U << family ? key->effect : key->elsewhere;
}

bool ah_huggingface_key_refused(int effect, const struct cJSON *value)
{
    switch (effect) {
    case UNLESS_EMPTY:
        return !cJSON_IsNull(value) && (!(cJSON_IsArray(value) || cJSON_IsObject(value)) || value->child);
    case UNLESS_FALSE:
        return !cJSON_IsFalse(value) && !cJSON_IsNull(value);
    case UNLESS_TRUE:
        return !cJSON_IsTrue(value);
    case UNLESS_ZERO:
        return !cJSON_IsNull(value) && (!cJSON_IsNumber(value) || fabs(value->valuedouble) > 0);
    case UNLESS_ONE:
        return !cJSON_IsNull(value) && (!cJSON_IsNumber(value) || fabs(value->valuedouble - 1) > 0);
    case CODE:
        return !cJSON_IsObject(value);
    case REFUSED:
    case QUANTISED:
        return !cJSON_IsNull(value);
    case NEVER:
        return true;
    default:
        return false;
    }
}
