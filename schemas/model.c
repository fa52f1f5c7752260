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
const char *const ah_words_norm_place[] = {AH_NORM_PLACE_WORDS(WORD) NULL};
const char *const ah_words_model_activation[] = {AH_MODEL_ACTIVATION_WORDS(WORD) NULL};
const char *const ah_words_lora_scaling[] = {AH_LORA_SCALING_WORDS(WORD) NULL};
const char *const ah_words_lora[] = {AH_LORA_WORDS(WORD) NULL};

enum { ROPE_FACTORS_MAX = 32768 /* pairs of the widest head */ };

static const char *const kind_words[] = {"model", NULL};

static int rope_check(const void *group, struct ah_error *err)
{
    const struct ah_model_rope *rope = group;
    if (rope->kind == AH_ROPE_LLAMA3 && rope->low_freq_factor >= rope->high_freq_factor)
        return ah_meaning_fail_numbers(err, "low_freq_factor", rope->low_freq_factor,
                                       "must be below high_freq_factor", rope->high_freq_factor);
    if (rope->n_short_factors != rope->n_long_factors)
        return ah_meaning_fail_numbers(err, "short_factors", (double)rope->n_short_factors,
                                       "factors, but long_factors has", (double)rope->n_long_factors);
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
    {.name = "rotated",
     AH_COUNT_AT(ah_model_rope, rotated),
     .flags = AH_FIELD_OPTIONAL | AH_FIELD_NO_DEFAULT,
     .max = 65536,
     .about = "The elements of a head that turn, its first ones; absent: all."},
#define ROPE_NUMBER(member, about_)                                                                          \
    {                                                                                                        \
        .name = #member, AH_NUMBER_AT(ah_model_rope, member),                                                \
        .flags = AH_FIELD_OPTIONAL | AH_FIELD_NO_DEFAULT | AH_FIELD_ABOVE, .max = 1e6, .about = (about_)     \
    }
#define ROPE_FACTORS(member, about_)                                                                         \
    {                                                                                                        \
        .name = #member, AH_NUMBERS_AT(ah_model_rope, member), .flags = AH_FIELD_OPTIONAL | AH_FIELD_ABOVE,  \
        .max = 1e6, .max_items = ROPE_FACTORS_MAX, .about = (about_)                                         \
    }
    ROPE_NUMBER(factor, "linear, llama3, yarn: divisor of positions."),
    ROPE_NUMBER(low_freq_factor, "llama3: where scaling begins."),
    ROPE_NUMBER(high_freq_factor, "llama3: where scaling is complete."),
    ROPE_NUMBER(beta_fast, "yarn: turns within the original positions above which a frequency is kept."),
    ROPE_NUMBER(beta_slow, "yarn: turns within the original positions below which scaling is complete."),
    {.name = "untruncated",
     AH_BOOL_AT(ah_model_rope, untruncated),
     .flags = AH_FIELD_OPTIONAL,
     .about = "yarn: the range between beta_fast and beta_slow may end between two pairs."},
    ROPE_NUMBER(attention_factor, "yarn, longrope: multiplies cosines and sines."),
    {.name = "original_positions",
     AH_COUNT_AT(ah_model_rope, original_positions),
     .flags = AH_FIELD_OPTIONAL | AH_FIELD_NO_DEFAULT,
     .min = 1,
     .max = 268435456,
     .about = "llama3, yarn, longrope: positions of the model before scaling."},
    ROPE_FACTORS(short_factors,
                 "longrope: divisors of each pair's frequency, for sequences up to original_positions."),
    ROPE_FACTORS(long_factors, "longrope: divisors of each pair's frequency, for longer sequences."),
    {0}};
#define NEEDS(kind, field)                                                                                   \
    {                                                                                                        \
        "kind", kind, AH_RULE_REQUIRES, field, NULL, "is missing; this kind of rope needs it"                \
    }
#define SPARE(kind, field)                                                                                   \
    {                                                                                                        \
        "kind", kind, AH_RULE_FORBIDS, field, NULL, "does not belong to this kind of rope"                   \
    }
#define NO_WAVES(kind) SPARE(kind, "low_freq_factor"), SPARE(kind, "high_freq_factor")
#define NO_BETAS(kind) SPARE(kind, "beta_fast"), SPARE(kind, "beta_slow")
#define NO_LISTS(kind) SPARE(kind, "short_factors"), SPARE(kind, "long_factors")
static const struct ah_rule rope_rules[] = {SPARE("default", "factor"),
                                            NO_WAVES("default"),
                                            NO_BETAS("default"),
                                            SPARE("default", "attention_factor"),
                                            SPARE("default", "original_positions"),
                                            NO_LISTS("default"),
                                            NEEDS("linear", "factor"),
                                            NO_WAVES("linear"),
                                            NO_BETAS("linear"),
                                            SPARE("linear", "attention_factor"),
                                            SPARE("linear", "original_positions"),
                                            NO_LISTS("linear"),
                                            NEEDS("llama3", "factor"),
                                            NEEDS("llama3", "low_freq_factor"),
                                            NEEDS("llama3", "high_freq_factor"),
                                            NEEDS("llama3", "original_positions"),
                                            NO_BETAS("llama3"),
                                            SPARE("llama3", "attention_factor"),
                                            NO_LISTS("llama3"),
                                            NEEDS("yarn", "factor"),
                                            NEEDS("yarn", "beta_fast"),
                                            NEEDS("yarn", "beta_slow"),
                                            NEEDS("yarn", "attention_factor"),
                                            NEEDS("yarn", "original_positions"),
                                            NO_WAVES("yarn"),
                                            NO_LISTS("yarn"),
                                            SPARE("longrope", "factor"),
                                            NO_WAVES("longrope"),
                                            NO_BETAS("longrope"),
                                            NEEDS("longrope", "attention_factor"),
                                            NEEDS("longrope", "original_positions"),
                                            NEEDS("longrope", "short_factors"),
                                            NEEDS("longrope", "long_factors"),
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
    const struct ah_model_lora *lora = model->lora;
    for (size_t i = 0; lora && i < lora->n_on; i++) {
        if (!(ah_model_adaptable(model) >> lora->on[i] & 1))
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

static int check_layers(const struct ah_model *model, const char *field, const uint64_t *layers, size_t n,
                        struct ah_error *err)
{
    for (size_t i = 0; i < n; i++)
        if (layers[i] >= model->layers)
            return ah_meaning_fail_item(err, field, i, NULL, "%llu is not a layer; the last one is %llu",
                                        (unsigned long long)layers[i], (unsigned long long)model->layers - 1);
    return AH_OK;
}

/* Checks what turns: pairs, and for longrope as many as it has factors. */
static int check_pairs(const struct ah_model *model, const char *field, const struct ah_model_rope *rope,
                       struct ah_error *err)
{
    const unsigned long long pairs = ah_model_rotated(model) / 2;
    if (rope && rope->rotated &&
        (rope->rotated % 2 || rope->rotated > model->head_dim || model->family != AH_FAMILY_PHI3))
        return ah_meaning_fail(err, field,
                               "rotated is %llu; in phi3 an even number up to head_dim, absent in others",
                               (unsigned long long)rope->rotated);
    if (!rope || rope->kind != AH_ROPE_LONGROPE || rope->n_short_factors == pairs)
        return AH_OK;
    return ah_meaning_fail(err, field, "short_factors has %zu factors, but %llu pairs of a head turn",
                           rope->n_short_factors, pairs);
}

static int model_check(const void *group, struct ah_error *err)
{
    const struct ah_model *model = group;
    uint64_t parameters;
    int rc = check_heads(model, err);
    rc = rc ? rc : check_lora(model, err);
    rc = rc ? rc : check_layers(model, "window_layers", model->window_layers, model->n_window_layers, err);
    rc =
        rc ? rc
           : check_layers(model, "unrotated_layers", model->unrotated_layers, model->n_unrotated_layers, err);
    rc = rc ? rc : check_pairs(model, "rope", model->rope, err);
    rc = rc ? rc : check_pairs(model, "window_rope", model->window_rope, err);
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
    {.name = "multimodal",
     AH_BOOL_AT(ah_model, multimodal),
     .flags = AH_FIELD_OPTIONAL,
     .about =
         "It is the text part of a model that reads images, too; files of adapters name its tensors so."},
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
    {.name = "norm_place",
     AH_WORD_AT(ah_model, norm_place, ah_words_norm_place),
     .flags = AH_FIELD_OPTIONAL,
     .about = "Where a layer's norms are: before attention and MLP, after them, or both (around)."},
    {.name = "norm_offset",
     AH_BOOL_AT(ah_model, norm_offset),
     .flags = AH_FIELD_OPTIONAL,
     .about = "The gains of norms are 1 + their weights."},
    {.name = "norm_epsilon",
     AH_NUMBER_AT(ah_model, norm_epsilon),
     .flags = AH_FIELD_ABOVE,
     .max = 1,
     .about = "Added to the variance."},
    AH_ROW_WORD(ah_model, activation, ah_words_model_activation,
                "Activation of the MLP; a gated one has a gate and an up projection."),
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
    {.name = "qk_norm_whole",
     AH_BOOL_AT(ah_model, qk_norm_whole),
     .flags = AH_FIELD_OPTIONAL,
     .about = "qk_norm has one norm for all query heads together, and one for all key heads."},
    {.name = "query_scalar",
     AH_NUMBER_AT(ah_model, query_scalar),
     .flags = AH_FIELD_OPTIONAL | AH_FIELD_NO_DEFAULT | AH_FIELD_ABOVE,
     .max = 1e9,
     .about = "Attention divides scores by its square root; absent: by that of head_dim."},
    {.name = "score_cap",
     AH_NUMBER_AT(ah_model, score_cap),
     .flags = AH_FIELD_OPTIONAL | AH_FIELD_NO_DEFAULT | AH_FIELD_ABOVE,
     .max = 1e6,
     .about = "Scores s of attention become cap * tanh(s / cap); absent: no cap."},
    {.name = "logit_cap",
     AH_NUMBER_AT(ah_model, logit_cap),
     .flags = AH_FIELD_OPTIONAL | AH_FIELD_NO_DEFAULT | AH_FIELD_ABOVE,
     .max = 1e6,
     .about = "Logits x become cap * tanh(x / cap); absent: no cap."},
    {.name = "embedding_scaled",
     AH_BOOL_AT(ah_model, embedding_scaled),
     .flags = AH_FIELD_OPTIONAL,
     .about = "Rows of the embedding are multiplied by sqrt(width), rounded to the type of training."},
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
    {.name = "window_rope",
     AH_GROUP_AT(ah_model, window_rope, &rope_table),
     .flags = AH_FIELD_OPTIONAL,
     .about = "Rotary positions of the layers with the window; absent: those of rope."},
    {.name = "unrotated_layers",
     AH_COUNTS_AT(ah_model, unrotated_layers),
     .flags = AH_FIELD_OPTIONAL | AH_FIELD_UNIQUE,
     .max = 9999,
     .max_items = 10000,
     .about = "Layers (from 0) without rotary positions; absent: none."},
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
    {"position", "learned", AH_RULE_FORBIDS, "unrotated_layers", NULL, "does not go with learned positions"},
    {"window_layers", NULL, AH_RULE_REQUIRES, "window", NULL, "is missing; window_layers needs it"},
    {"window_rope", NULL, AH_RULE_REQUIRES, "window", NULL, "is missing; window_rope needs it"},
    {"window_rope", NULL, AH_RULE_REQUIRES, "rope", NULL, "is missing; window_rope needs it"},
    {"qk_norm_whole", "true", AH_RULE_IS, "qk_norm", "true", "must be true; qk_norm_whole needs it"},
    {"multimodal", "true", AH_RULE_IS, "family", "gemma3_text", "must be gemma3_text; multimodal needs it"},
#define IS(family, field, word)                                                                              \
    {                                                                                                        \
        "family", family, AH_RULE_IS, field, word, "must be " word " in " family                             \
    }
#define NOT(family, field, word)                                                                             \
    {                                                                                                        \
        "family", family, AH_RULE_IS_NOT, field, word, "must not be " word " in " family                     \
    }
#define NONE(family, field)                                                                                  \
    {                                                                                                        \
        "family", family, AH_RULE_FORBIDS, field, NULL, "does not belong to " family                         \
    }
/* rms norms, before attention and MLP, without offset; rotary positions; no biases but those allowed later */
#define PLAIN_NORMS(family) IS(family, "norm_place", "before"), IS(family, "norm_offset", "false")
#define NO_CAPS(family)                                                                                      \
    NONE(family, "query_scalar"), NONE(family, "score_cap"), NONE(family, "logit_cap"),                      \
        IS(family, "embedding_scaled", "false"), NONE(family, "window_rope")
#define ROPED(family)       IS(family, "position", "rope"), IS(family, "norm", "rms")
#define SILU(family)        ROPED(family), IS(family, "activation", "silu_gated"), NO_CAPS(family)
#define PER_HEAD(family)    IS(family, "qk_norm_whole", "false")
#define NO_QK_NORM(family)  IS(family, "qk_norm", "false")
#define NO_MLP_BIAS(family) IS(family, "mlp_bias", "false")
#define NO_BIASES(family)                                                                                    \
    IS(family, "qkv_bias", "false"), IS(family, "attention_output_bias", "false"), NO_MLP_BIAS(family)
#define ALL_ROTATED(family) NONE(family, "unrotated_layers")
    IS("gpt2", "position", "learned"),
    IS("gpt2", "norm", "layer"),
    NOT("gpt2", "activation", "silu_gated"),
    NOT("gpt2", "activation", "gelu_tanh_gated"),
    IS("gpt2", "qkv_bias", "true"),
    IS("gpt2", "attention_output_bias", "true"),
    IS("gpt2", "mlp_bias", "true"),
    NO_QK_NORM("gpt2"),
    PLAIN_NORMS("gpt2"),
    NO_CAPS("gpt2"),
    SILU("llama"),
    PLAIN_NORMS("llama"),
    NO_QK_NORM("llama"),
    ALL_ROTATED("llama"),
    SILU("mistral"),
    PLAIN_NORMS("mistral"),
    NO_QK_NORM("mistral"),
    NO_BIASES("mistral"),
    ALL_ROTATED("mistral"),
    SILU("qwen2"),
    PLAIN_NORMS("qwen2"),
    NO_QK_NORM("qwen2"),
    IS("qwen2", "qkv_bias", "true"),
    IS("qwen2", "attention_output_bias", "false"),
    NO_MLP_BIAS("qwen2"),
    ALL_ROTATED("qwen2"),
    SILU("qwen3"),
    PLAIN_NORMS("qwen3"),
    IS("qwen3", "qk_norm", "true"),
    PER_HEAD("qwen3"),
    NO_MLP_BIAS("qwen3"),
    ALL_ROTATED("qwen3"),
    SILU("olmo2"),
    IS("olmo2", "norm_place", "after"),
    IS("olmo2", "norm_offset", "false"),
    IS("olmo2", "qk_norm", "true"),
    IS("olmo2", "qk_norm_whole", "true"),
    NO_MLP_BIAS("olmo2"),
    NONE("olmo2", "window"),
    ALL_ROTATED("olmo2"),
    SILU("smollm3"),
    PLAIN_NORMS("smollm3"),
    NO_QK_NORM("smollm3"),
    SILU("phi3"),
    PLAIN_NORMS("phi3"),
    NO_QK_NORM("phi3"),
    NO_BIASES("phi3"),
    NONE("phi3", "window_layers"),
    ALL_ROTATED("phi3"),
#define GEMMA(family)                                                                                        \
    ROPED(family), IS(family, "activation", "gelu_tanh_gated"), IS(family, "norm_place", "around"),          \
        IS(family, "norm_offset", "true"), IS(family, "embedding_scaled", "true"), NO_MLP_BIAS(family),      \
        ALL_ROTATED(family)
    GEMMA("gemma2"),
    NO_QK_NORM("gemma2"),
    NONE("gemma3_text", "score_cap"),
    NONE("gemma2", "window_rope"),
    GEMMA("gemma3_text"),
    IS("gemma3_text", "qk_norm", "true"),
    PER_HEAD("gemma3_text"),
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
