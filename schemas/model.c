/* SPDX-License-Identifier: Apache-2.0
 *
 * The fields of a model document, and what must hold between them.
 */
#include "schemas/model.h"

#include "schemas/kinds_internal.h"
#include "schemas/model_internal.h"
#include "schemas/rows_internal.h"

#include <math.h>
#include <string.h>

#define WORD(value, word) [value] = word,
const char *const ah_words_family[] = {AH_FAMILY_WORDS(WORD) NULL};
const char *const ah_words_position[] = {AH_POSITION_WORDS(WORD) NULL};
const char *const ah_words_rope[] = {AH_ROPE_WORDS(WORD) NULL};
const char *const ah_words_model_norm[] = {AH_MODEL_NORM_WORDS(WORD) NULL};
const char *const ah_words_model_activation[] = {AH_MODEL_ACTIVATION_WORDS(WORD) NULL};
const char *const ah_words_lora_scaling[] = {AH_LORA_SCALING_WORDS(WORD) NULL};
const char *const ah_words_lora[] = {AH_LORA_WORDS(WORD) NULL};

static const char *const kind_words[] = {"model", NULL};

static int rope_check(const void *group, struct ah_error *err)
{
    const struct ah_model_rope *rope = group;
    if (rope->kind == AH_ROPE_LLAMA3 && rope->low_freq_factor >= rope->high_freq_factor)
        return ah_meaning_fail_numbers(err, "low_freq_factor", rope->low_freq_factor,
                                       "must be below high_freq_factor", rope->high_freq_factor);
    return AH_OK;
}

static const struct ah_field rope_fields[] = {
    {.name = "theta",
     AH_NUMBER_AT(ah_model_rope, theta),
     .flags = AH_FIELD_ABOVE,
     .max = 1e15,
     .about = "Base of the frequencies."},
    {.name = "kind",
     AH_WORD_AT(ah_model_rope, kind, ah_words_rope),
     .flags = AH_FIELD_OPTIONAL,
     .about = "How frequencies are scaled."},
    {.name = "factor",
     AH_NUMBER_AT(ah_model_rope, factor),
     .flags = AH_FIELD_OPTIONAL | AH_FIELD_NO_DEFAULT | AH_FIELD_ABOVE,
     .max = 1e6,
     .about = "linear, llama3: divisor of positions."},
    {.name = "low_freq_factor",
     AH_NUMBER_AT(ah_model_rope, low_freq_factor),
     .flags = AH_FIELD_OPTIONAL | AH_FIELD_NO_DEFAULT | AH_FIELD_ABOVE,
     .max = 1e6,
     .about = "llama3: where scaling begins."},
    {.name = "high_freq_factor",
     AH_NUMBER_AT(ah_model_rope, high_freq_factor),
     .flags = AH_FIELD_OPTIONAL | AH_FIELD_NO_DEFAULT | AH_FIELD_ABOVE,
     .max = 1e6,
     .about = "llama3: where scaling is complete."},
    {.name = "original_positions",
     AH_COUNT_AT(ah_model_rope, original_positions),
     .flags = AH_FIELD_OPTIONAL | AH_FIELD_NO_DEFAULT,
     .min = 1,
     .max = 268435456,
     .about = "llama3: positions of the model before scaling."},
    {0}};
#define FACTOR_MISSING "is missing; this kind of rope needs it"
#define FACTOR_SPARE   "does not belong to this kind of rope"
static const struct ah_rule rope_rules[] = {
    {"kind", "default", AH_RULE_FORBIDS, "factor", NULL, FACTOR_SPARE},
    {"kind", "default", AH_RULE_FORBIDS, "low_freq_factor", NULL, FACTOR_SPARE},
    {"kind", "default", AH_RULE_FORBIDS, "high_freq_factor", NULL, FACTOR_SPARE},
    {"kind", "default", AH_RULE_FORBIDS, "original_positions", NULL, FACTOR_SPARE},
    {"kind", "linear", AH_RULE_REQUIRES, "factor", NULL, FACTOR_MISSING},
    {"kind", "linear", AH_RULE_FORBIDS, "low_freq_factor", NULL, FACTOR_SPARE},
    {"kind", "linear", AH_RULE_FORBIDS, "high_freq_factor", NULL, FACTOR_SPARE},
    {"kind", "linear", AH_RULE_FORBIDS, "original_positions", NULL, FACTOR_SPARE},
    {"kind", "llama3", AH_RULE_REQUIRES, "factor", NULL, FACTOR_MISSING},
    {"kind", "llama3", AH_RULE_REQUIRES, "low_freq_factor", NULL, FACTOR_MISSING},
    {"kind", "llama3", AH_RULE_REQUIRES, "high_freq_factor", NULL, FACTOR_MISSING},
    {"kind", "llama3", AH_RULE_REQUIRES, "original_positions", NULL, FACTOR_MISSING},
    {0}};
static const struct ah_field_table rope_table = {.name = "rope",
                                                 .about = "Rotary positions.",
                                                 .bytes = sizeof(struct ah_model_rope),
                                                 .fields = rope_fields,
                                                 .rules = rope_rules,
                                                 .check = rope_check};

static const struct ah_field lora_fields[] = {
    AH_ROW_COUNT(ah_model_lora, rank, 1, AH_LORA_RANK_MAX, "Rows of A and columns of B."),
    {.name = "alpha",
     AH_NUMBER_AT(ah_model_lora, alpha),
     .min = AH_LORA_ALPHA_MIN,
     .max = AH_LORA_ALPHA_MAX,
     .about = "Products of adapters are multiplied by alpha / rank, or by alpha / sqrt(rank)."},
    {.name = "scaling",
     AH_WORD_AT(ah_model_lora, scaling, ah_words_lora_scaling),
     .flags = AH_FIELD_OPTIONAL,
     .about = "standard: alpha / rank; rank_stabilized: alpha / sqrt(rank)."},
    {.name = "on",
     AH_WORDS_AT(ah_model_lora, on, ah_words_lora),
     .flags = AH_FIELD_UNIQUE,
     .min_items = 1,
     .max_items = AH_LORA_MATRICES,
     .about = "The matrices with adapters, in this order."},
    {0}};
static const struct ah_field_table lora_table = {
    .name = "lora", .about = "Adapters.", .bytes = sizeof(struct ah_model_lora), .fields = lora_fields};

static int check_lora(const struct ah_model *model, struct ah_error *err)
{
    static const uint32_t apart = 1u << AH_LORA_Q | 1u << AH_LORA_K | 1u << AH_LORA_V;
    const bool fused = model->family == AH_FAMILY_GPT2, gated = model->activation == AH_MODEL_SILU_GATED;
    const uint32_t lacks = (fused ? apart : 1u << AH_LORA_QKV) | (gated ? 0 : 1u << AH_LORA_GATE);
    const struct ah_model_lora *lora = model->lora;
    for (size_t i = 0; lora && i < lora->n_on; i++) {
        if (lacks >> lora->on[i] & 1)
            return ah_meaning_fail(err, "lora.on", "%s is no matrix of %s in files, so it has no adapter",
                                   ah_words_lora[lora->on[i]], ah_words_family[model->family]);
        if (i && lora->on[i] < lora->on[i - 1])
            return ah_meaning_fail(err, "lora.on", "%s must come before %s", ah_words_lora[lora->on[i]],
                                   ah_words_lora[lora->on[i - 1]]);
    }
    return AH_OK;
}

static int check_heads(const struct ah_model *model, struct ah_error *err)
{
    if (model->heads % model->kv_heads != 0)
        return ah_meaning_fail(err, "kv_heads", "%llu does not divide the %llu heads",
                               (unsigned long long)model->kv_heads, (unsigned long long)model->heads);
    if (model->position == AH_POSITION_ROPE && model->head_dim % 2 != 0)
        return ah_meaning_fail(err, "head_dim", "%llu is odd; rope turns pairs",
                               (unsigned long long)model->head_dim);
    if (model->family != AH_FAMILY_GPT2)
        return AH_OK;
    if (model->kv_heads != model->heads)
        return ah_meaning_fail(err, "kv_heads", "%llu differs from heads %llu, which gpt2 does not have",
                               (unsigned long long)model->kv_heads, (unsigned long long)model->heads);
    if (model->heads * model->head_dim != model->width)
        return ah_meaning_fail(err, "head_dim", "%llu times %llu heads is not the width %llu",
                               (unsigned long long)model->head_dim, (unsigned long long)model->heads,
                               (unsigned long long)model->width);
    return AH_OK;
}

static int model_check(const void *group, struct ah_error *err)
{
    const struct ah_model *model = group;
    uint64_t parameters;
    int rc = check_heads(model, err);
    rc = rc ? rc : check_lora(model, err);
    for (size_t i = 0; i < model->n_window_layers && !rc; i++)
        if (model->window_layers[i] >= model->layers)
            rc = ah_meaning_fail_item(
                err, "window_layers", i, NULL, "%llu is not a layer; the last one is %llu",
                (unsigned long long)model->window_layers[i], (unsigned long long)model->layers - 1);
    if (!rc && model->padding_token != AH_MODEL_NO_PADDING && model->padding_token >= model->vocabulary)
        rc = ah_meaning_fail(err, "padding_token", "%llu is not a token; the last one is %llu",
                             (unsigned long long)model->padding_token,
                             (unsigned long long)model->vocabulary - 1);
    return rc ? rc : ah_model_count(model, &parameters, err);
}

static const struct ah_field model_fields[] = {
    AH_FIELD_HEAD(ah_model, kind_words),
    {.name = "name",
     AH_TEXT_AT(ah_model, name),
     .flags = AH_FIELD_LABEL,
     .form = AH_TEXT_NAME,
     .about = "Short name of the model."},
    AH_ROW_WORD(ah_model, family, ah_words_family, "The family whose weight names and structure it has."),
    AH_ROW_COUNT(ah_model, layers, 1, 10000, "Transformer blocks."),
    AH_ROW_COUNT(ah_model, width, 1, 1048576, "Width of the residual stream."),
    AH_ROW_COUNT(ah_model, heads, 1, 65536, "Query heads."),
    AH_ROW_COUNT(ah_model, kv_heads, 1, 65536, "Key and value heads."),
    AH_ROW_COUNT(ah_model, head_dim, 1, 65536, "Width of a head."),
    AH_ROW_COUNT(ah_model, mlp_width, 1, 16777216, "Inner width of the MLP."),
    AH_ROW_COUNT(ah_model, vocabulary, 1, 268435456, "Rows of the embedding."),
    AH_ROW_COUNT(ah_model, max_positions, 1, 268435456,
                 "Longest sequence; a learned position table has as many rows."),
    AH_ROW_WORD(ah_model, position, ah_words_position, "How positions are encoded."),
    {.name = "rope",
     AH_GROUP_AT(ah_model, rope, &rope_table),
     .flags = AH_FIELD_OPTIONAL,
     .about = "Rotary positions."},
    AH_ROW_WORD(ah_model, norm, ah_words_model_norm, "rms: without mean and bias; layer: with both."),
    {.name = "norm_epsilon",
     AH_NUMBER_AT(ah_model, norm_epsilon),
     .flags = AH_FIELD_ABOVE,
     .max = 1,
     .about = "Added to the variance."},
    AH_ROW_WORD(ah_model, activation, ah_words_model_activation,
                "Activation of the MLP; silu_gated has a gate and an up projection."),
    {.name = "qkv_bias",
     AH_BOOL_AT(ah_model, qkv_bias),
     .flags = AH_FIELD_OPTIONAL,
     .about = "Biases of query, key, value."},
    {.name = "attention_output_bias",
     AH_BOOL_AT(ah_model, attention_output_bias),
     .flags = AH_FIELD_OPTIONAL,
     .about = "Bias of attention's output."},
    {.name = "mlp_bias",
     AH_BOOL_AT(ah_model, mlp_bias),
     .flags = AH_FIELD_OPTIONAL,
     .about = "Biases of the MLP."},
    {.name = "qk_norm",
     AH_BOOL_AT(ah_model, qk_norm),
     .flags = AH_FIELD_OPTIONAL,
     .about = "An rms norm of each query and key head."},
    {.name = "tied",
     AH_BOOL_AT(ah_model, tied),
     .flags = AH_FIELD_OPTIONAL,
     .about = "The head's projection is the embedding's table."},
    {.name = "window",
     AH_COUNT_AT(ah_model, window),
     .flags = AH_FIELD_OPTIONAL,
     .max = 268435456,
     .about = "Tokens that attention sees; 0: all."},
    {.name = "window_layers",
     AH_COUNTS_AT(ah_model, window_layers),
     .flags = AH_FIELD_OPTIONAL | AH_FIELD_UNIQUE,
     .max = 9999,
     .max_items = 10000,
     .about = "Layers (from 0) that have the window; absent: all."},
    {.name = "padding_token",
     AH_COUNT_AT(ah_model, padding_token),
     .flags = AH_FIELD_OPTIONAL | AH_FIELD_NO_DEFAULT,
     .max = AH_MODEL_NO_PADDING - 1,
     .fallback = AH_MODEL_NO_PADDING,
     .about = "The token whose embedding row starts at zero and gets no gradient as an input; absent: none."},
    {.name = "initializer_range",
     AH_NUMBER_AT(ah_model, initializer_range),
     .flags = AH_FIELD_OPTIONAL | AH_FIELD_ABOVE,
     .max = 10,
     .fallback = 0.02,
     .about = "Standard deviation of freshly initialised matrices."},
    {.name = "dropout",
     AH_NUMBER_AT(ah_model, dropout),
     .flags = AH_FIELD_OPTIONAL,
     .max = 1,
     .about = "Largest dropout rate of the original; only recorded: autohete trains without dropout."},
    {.name = "lora",
     AH_GROUP_AT(ah_model, lora, &lora_table),
     .flags = AH_FIELD_OPTIONAL,
     .about = "Adapters (LoRA) beside the layers' matrices."},
    AH_FIELD_ANNOTATIONS(ah_model),
    {0}};

static const struct ah_rule model_rules[] = {
    {"position", "rope", AH_RULE_REQUIRES, "rope", NULL, "is missing; position is rope"},
    {"position", "learned", AH_RULE_FORBIDS, "rope", NULL, "does not go with learned positions"},
    {"window_layers", NULL, AH_RULE_REQUIRES, "window", NULL, "is missing; window_layers needs it"},
    {"family", "gpt2", AH_RULE_IS, "position", "learned", "must be learned in gpt2"},
    {"family", "gpt2", AH_RULE_IS, "norm", "layer", "must be layer in gpt2"},
    {"family", "gpt2", AH_RULE_IS_NOT, "activation", "silu_gated", "must not be gated in gpt2"},
    {"family", "gpt2", AH_RULE_IS, "qkv_bias", "true", "must be true in gpt2"},
    {"family", "gpt2", AH_RULE_IS, "attention_output_bias", "true", "must be true in gpt2"},
    {"family", "gpt2", AH_RULE_IS, "mlp_bias", "true", "must be true in gpt2"},
    {"family", "gpt2", AH_RULE_IS, "qk_norm", "false", "must be false in gpt2"},
#define GATED_FAMILY(name)                                                                                   \
    {"family", name, AH_RULE_IS, "position", "rope", "must be rope in " name},                               \
        {"family", name, AH_RULE_IS, "norm", "rms", "must be rms in " name},                                 \
    {                                                                                                        \
        "family", name, AH_RULE_IS, "activation", "silu_gated", "must be silu_gated in " name                \
    }
    GATED_FAMILY("llama"),
    GATED_FAMILY("mistral"),
    GATED_FAMILY("qwen2"),
    GATED_FAMILY("qwen3"),
    {"family", "llama", AH_RULE_IS, "qk_norm", "false", "must be false in llama"},
    {"family", "mistral", AH_RULE_IS, "qk_norm", "false", "must be false in mistral"},
    {"family", "mistral", AH_RULE_IS, "qkv_bias", "false", "must be false in mistral"},
    {"family", "mistral", AH_RULE_IS, "attention_output_bias", "false", "must be false in mistral"},
    {"family", "mistral", AH_RULE_IS, "mlp_bias", "false", "must be false in mistral"},
    {"family", "qwen2", AH_RULE_IS, "qk_norm", "false", "must be false in qwen2"},
    {"family", "qwen2", AH_RULE_IS, "qkv_bias", "true", "must be true in qwen2"},
    {"family", "qwen2", AH_RULE_IS, "attention_output_bias", "false", "must be false in qwen2"},
    {"family", "qwen2", AH_RULE_IS, "mlp_bias", "false", "must be false in qwen2"},
    {"family", "qwen3", AH_RULE_IS, "qk_norm", "true", "must be true in qwen3"},
    {"family", "qwen3", AH_RULE_IS, "mlp_bias", "false", "must be false in qwen3"},
    {0}};

const struct ah_field_table ah_model_table = {.name = "model",
                                              .about =
                                                  "The shape of a decoder-only transformer, without weights.",
                                              .bytes = sizeof(struct ah_model),
                                              .fields = model_fields,
                                              .rules = model_rules,
                                              .check = model_check};

const struct ah_kind ah_kind_model = {
    .table = &ah_model_table, .alternatives = (const struct ah_field_table *const[]){&ah_model_table, NULL}};
