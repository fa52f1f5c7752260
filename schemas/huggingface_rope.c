/* SPDX-License-Identifier: Apache-2.0
 *
 * Converts the rotary positions of a config.json.
 *
 * rope_parameters is the newer spelling of rope_scaling. If a file has both, transformers 5 prefers rope_scaling; 4
 * knows only that. If they differ, the file is refused. A theta inside either overrides the one outside.
 *
 * gemma3 has two ropes. The one of layers with a window is rope_parameters.sliding_attention or has the theta
 * rope_local_base_freq; the other is rope_parameters.full_attention, or rope_theta and rope_scaling.
 *
 * Source: modeling_rope_utils.py and configuration_*.py of huggingface/transformers, 5.x (huggingface_keys.c).
 */
#include "base/arena.h"
#include "schemas/huggingface_internal.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <string.h>

enum { BETA_FAST = 32, BETA_SLOW = 1 };

/* What is being converted: a rope of the file, under this key. */
struct source {
    struct ah_huggingface_conversion *conversion;
    const char *key;
    const struct cJSON *object;
    const struct ah_huggingface_rope *from;
};

static int refuse(const struct source *source, const char *what)
{
    return ah_huggingface_refuse(source->conversion, source->key, what);
}

/* Returns the positions before scaling. phi3 has them outside, and everyone may leave them out. */
static uint64_t original_positions(const struct source *source)
{
    const struct ah_huggingface_config *config = &source->conversion->config;
    if (source->conversion->family == AH_FAMILY_PHI3)
        return config->original_positions;
    const uint64_t inside = source->from->original_max_position_embeddings;
    return inside ? inside : config->positions;
}

/* Returns the share of a head that turns: that inside the rope, else that outside. */
static double factor_of(const struct ah_huggingface_conversion *conversion,
                        const struct ah_huggingface_rope *from)
{
    return from && from->partial_rotary_factor >= 0 ? from->partial_rotary_factor
                                                    : conversion->config.partial_rotary_factor;
}

/* Sets what turns of a head, rounded down as in transformers. */
static int convert_factor(const struct source *source, struct ah_model_rope *rope)
{
    const double factor = factor_of(source->conversion, source->from);
    const double rotated = floor((double)source->conversion->model->head_dim * factor);
    const bool phi3 = source->conversion->family == AH_FAMILY_PHI3;
    rope->rotated = 0;
    if (!(fabs(factor - 1) > 0))
        return AH_OK;
    if (!phi3)
        return refuse(source, "partial_rotary_factor other than 1 is not supported");
    if (factor > 1 || rotated < 2 || (uint64_t)rotated % 2)
        return refuse(source, "partial_rotary_factor must leave an even number of a head's elements to turn");
    rope->rotated = (uint64_t)rotated;
    return AH_OK;
}

static int convert_linear(const struct source *source, struct ah_model_rope *rope)
{
    rope->factor = source->from->factor;
    return rope->factor > 0 ? AH_OK : refuse(source, "factor is missing or zero");
}

static int convert_llama3(const struct source *source, struct ah_model_rope *rope)
{
    const struct ah_huggingface_rope *from = source->from;
    if (!(from->low_freq_factor > 0) || !(from->high_freq_factor > 0) ||
        !from->original_max_position_embeddings)
        return refuse(source, "llama3 needs low_freq_factor, high_freq_factor and "
                              "original_max_position_embeddings");
    rope->low_freq_factor = from->low_freq_factor;
    rope->high_freq_factor = from->high_freq_factor;
    rope->original_positions = original_positions(source);
    return convert_linear(source, rope);
}

static double yarn_scale(double factor, double mscale)
{
    return factor > 1 ? 0.1 * mscale * log(factor) + 1 : 1;
}

static int convert_yarn(const struct source *source, struct ah_model_rope *rope)
{
    const struct ah_huggingface_rope *from = source->from;
    const bool both = from->mscale > 0 && from->mscale_all_dim > 0;
    rope->beta_fast = from->beta_fast > 0 ? from->beta_fast : BETA_FAST;
    rope->beta_slow = from->beta_slow > 0 ? from->beta_slow : BETA_SLOW;
    rope->untruncated = !from->truncate;
    rope->original_positions = original_positions(source);
    rope->attention_factor = from->attention_factor;
    if (from->attention_factor < 0)
        rope->attention_factor =
            both ? yarn_scale(from->factor, from->mscale) / yarn_scale(from->factor, from->mscale_all_dim)
                 : yarn_scale(from->factor, 1);
    return convert_linear(source, rope);
}

static int convert_longrope(const struct source *source, struct ah_model_rope *rope)
{
    const struct ah_huggingface_rope *from = source->from;
    const uint64_t original = original_positions(source), positions = source->conversion->config.positions;
    const double factor = from->factor > 0 ? from->factor : (double)positions / (double)original;
    if (!from->n_short_factor || !from->n_long_factor)
        return refuse(source, "longrope needs short_factor and long_factor");
    const struct ah_huggingface_config *config = &source->conversion->config;
    const double rotated = (double)(config->width / config->heads) * factor_of(source->conversion, from);
    if (source->conversion->family == AH_FAMILY_PHI3 && from->n_short_factor != (uint64_t)rotated / 2)
        return refuse(source,
                      "short_factor and long_factor need a number for each pair of width / heads that turns");
    if (original < 2 && from->attention_factor < 0)
        return refuse(source, "longrope needs original_max_position_embeddings above 1, or attention_factor");
    rope->short_factors = from->short_factor;
    rope->n_short_factors = from->n_short_factor;
    rope->long_factors = from->long_factor;
    rope->n_long_factors = from->n_long_factor;
    rope->original_positions = original;
    rope->attention_factor = from->attention_factor;
    if (from->attention_factor < 0)
        rope->attention_factor = factor > 1 ? sqrt(1 + log(factor) / log((double)original)) : 1;
    return AH_OK;
}

static int convert_default(const struct source *source, struct ah_model_rope *rope)
{
    (void)source;
    (void)rope;
    return AH_OK;
}

static const struct kind_row {
    const char *word;
    enum ah_rope kind;
    int (*convert)(const struct source *source, struct ah_model_rope *rope);
} kind_rows[] = {{"default", AH_ROPE_DEFAULT, convert_default},
                 {"linear", AH_ROPE_LINEAR, convert_linear},
                 {"llama3", AH_ROPE_LLAMA3, convert_llama3},
                 {"yarn", AH_ROPE_YARN, convert_yarn},
                 {"longrope", AH_ROPE_LONGROPE, convert_longrope}};

/* Returns the row of a kind. phi3 knows longrope by older names, too, and only that kind; NULL: unknown. */
static const struct kind_row *find_kind(enum ah_family family, const char *word)
{
    const bool phi3 = family == AH_FAMILY_PHI3;
    if (phi3 && (strcmp(word, "su") == 0 || strcmp(word, "yarn") == 0))
        word = "longrope";
    for (size_t i = 0; i < sizeof kind_rows / sizeof *kind_rows; i++)
        if (strcmp(kind_rows[i].word, word) == 0)
            return phi3 && kind_rows[i].kind != AH_ROPE_DEFAULT && kind_rows[i].kind != AH_ROPE_LONGROPE
                       ? NULL
                       : &kind_rows[i];
    return NULL;
}

static int convert_object(const struct source *source, struct ah_model_rope *rope)
{
    const struct ah_huggingface_rope *from = source->from;
    const enum ah_family family = source->conversion->family;
    const char *word = from->rope_type ? from->rope_type : from->type ? from->type : "default";
    const cJSON *child;
    cJSON_ArrayForEach(child, source->object)
    {
        if (cJSON_IsObject(child))
            return ah_huggingface_refuse_text(source->conversion, source->key, child->string,
                                              "gives some layers their own rope, which is not supported");
    }
    /* If rope_scaling does not state its kind, some versions reject it and others ignore it. */
    if (!from->rope_type && !from->type && (strcmp(source->key, "rope_scaling") == 0 || from->factor > 0))
        return refuse(source, "rope_type is missing; it names the kind of rope");
    *rope = (struct ah_model_rope){.theta = from->rope_theta > 0 ? from->rope_theta : rope->theta};
    const int rc = convert_factor(source, rope);
    if (rc)
        return rc;
    const struct kind_row *row = find_kind(family, word);
    if (!row)
        return ah_huggingface_refuse_text(
            source->conversion, source->key, word,
            family == AH_FAMILY_PHI3
                ? "is not a kind of rope that phi3 has; use default or longrope"
                : "is not a supported kind of rope; use default, linear, llama3, yarn or longrope");
    rope->kind = row->kind;
    return row->convert(source, rope);
}

/* Returns the object with rope settings under `key`; NULL: there is none. {} counts as null. */
static const cJSON *find_rope(const struct ah_huggingface_conversion *conversion, const char *key)
{
    const cJSON *object = cJSON_GetObjectItemCaseSensitive(conversion->tree, key);
    return object && object->child ? object : NULL;
}

static bool same_numbers(const double *a, size_t n_a, const double *b, size_t n_b)
{
    return n_a == n_b && (!n_a || memcmp(a, b, n_a * sizeof *a) == 0);
}

static bool same_rope(const struct ah_model_rope *a, const struct ah_model_rope *b)
{
    const double one[] = {a->theta,     a->factor,    a->low_freq_factor, a->high_freq_factor,
                          a->beta_fast, a->beta_slow, a->attention_factor};
    const double other[] = {b->theta,     b->factor,    b->low_freq_factor, b->high_freq_factor,
                            b->beta_fast, b->beta_slow, b->attention_factor};
    return a->kind == b->kind && a->rotated == b->rotated && a->original_positions == b->original_positions &&
           a->untruncated == b->untruncated && memcmp(one, other, sizeof one) == 0 &&
           same_numbers(a->short_factors, a->n_short_factors, b->short_factors, b->n_short_factors) &&
           same_numbers(a->long_factors, a->n_long_factors, b->long_factors, b->n_long_factors);
}

/* Converts the one rope of a family. */
static int convert_settings(struct ah_huggingface_conversion *conversion, struct ah_model_rope *rope)
{
    const struct ah_huggingface_config *config = &conversion->config;
    const struct source older = {conversion, "rope_scaling", find_rope(conversion, "rope_scaling"),
                                 config->rope_scaling};
    const struct source newer = {conversion, "rope_parameters", find_rope(conversion, "rope_parameters"),
                                 config->rope_parameters};
    const struct source outside = {conversion, "partial_rotary_factor", NULL, NULL};
    struct ah_model_rope parameters = *rope;
    int rc = newer.object || older.object ? AH_OK : convert_factor(&outside, rope);
    if (newer.object)
        rc = convert_object(&newer, &parameters);
    if (!rc && older.object)
        rc = convert_object(&older, rope);
    if (!rc && newer.object && older.object && !same_rope(rope, &parameters))
        rc = ah_huggingface_refuse(conversion, "rope_scaling",
                                   "and rope_parameters describe different ropes; leave one out");
    if (!rc && newer.object)
        *rope = parameters;
    return rc;
}

/* Converts the two ropes of gemma3. */
static int convert_pair(struct ah_huggingface_conversion *conversion, struct ah_model_rope *rope,
                        struct ah_model_rope *window)
{
    const struct ah_huggingface_config *config = &conversion->config;
    const cJSON *older = find_rope(conversion, "rope_scaling"),
                *newer = find_rope(conversion, "rope_parameters");
    const cJSON *child;
    const cJSON *stated = cJSON_GetObjectItemCaseSensitive(conversion->tree, "rope_parameters");
    if (older && stated &&
        !cJSON_IsNull(stated)) /* even if it is empty, transformers looks for the other in it */
        return ah_huggingface_refuse(conversion, "rope_scaling",
                                     "stands beside rope_parameters; leave one out");
    cJSON_ArrayForEach(child, newer)
    {
        const bool known =
            strcmp(child->string, "full_attention") == 0 || strcmp(child->string, "sliding_attention") == 0;
        if (!known || (!cJSON_IsObject(child) && !cJSON_IsNull(child)))
            return ah_huggingface_refuse_text(conversion, "rope_parameters", child->string,
                                              "is not full_attention or sliding_attention with settings");
    }
    const struct source sources[] = {
        {conversion, "rope_scaling", older, config->rope_scaling},
        {conversion, "rope_parameters", cJSON_GetObjectItemCaseSensitive(newer, "full_attention"),
         newer ? config->rope_parameters->full_attention : NULL},
        {conversion, "rope_parameters", cJSON_GetObjectItemCaseSensitive(newer, "sliding_attention"),
         newer ? config->rope_parameters->sliding_attention : NULL}};
    int rc = AH_OK;
    for (size_t i = 0; i < 3 && !rc; i++)
        if (sources[i].object && sources[i].from)
            rc = convert_object(&sources[i], i == 2 ? window : rope);
    return rc;
}

int ah_huggingface_convert_rope(struct ah_huggingface_conversion *conversion)
{
    const struct ah_huggingface_config *config = &conversion->config;
    const bool pair = conversion->family == AH_FAMILY_GEMMA3;
    if (conversion->family == AH_FAMILY_GPT2)
        return AH_OK;
    struct ah_model_rope *rope = ah_arena_array(conversion->arena, pair ? 2 : 1, sizeof *rope);
    if (!rope)
        return ah_error_memory(conversion->err);
    conversion->model->position = AH_POSITION_ROPE;
    conversion->model->rope = rope;
    rope->theta =
        config->rope_theta > 0 ? config->rope_theta : ah_huggingface_families[conversion->family].theta;
    if (!pair)
        return convert_settings(conversion, rope);
    conversion->model->window_rope = rope + 1;
    rope[1].theta = config->local_theta;
    return convert_pair(conversion, rope, rope + 1);
}
