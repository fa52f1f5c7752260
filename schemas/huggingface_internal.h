/* SPDX-License-Identifier: Apache-2.0
 *
 * The keys of config.json: what they mean (huggingface_keys.c), and the tables that read them (huggingface_config.c).
 * huggingface.c converts them into a model.
 */
#ifndef AH_SCHEMAS_HUGGINGFACE_INTERNAL_H
#define AH_SCHEMAS_HUGGINGFACE_INTERNAL_H

#include "schemas/field.h"
#include "schemas/model.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cJSON;

struct ah_huggingface_rope {
    const char *rope_type;
    const char *type; /* the older spelling of rope_type */
    double rope_theta;
    double factor;
    double low_freq_factor;
    double high_freq_factor;
    uint64_t original_max_position_embeddings;
    double partial_rotary_factor;
};

/* The values of a file, read by either table. Absent sizes are 0. */
struct ah_huggingface_config {
    const char *model_type;
    uint64_t width, layers, heads, kv_heads, head_dim, mlp_width, vocabulary, positions;
    const char *activation;
    double norm_epsilon;
    double initializer_range;
    double padding; /* may be negative */
    bool tied;
    bool attention_bias;
    bool mlp_bias;
    double rope_theta;
    struct ah_huggingface_rope *rope_parameters;
    struct ah_huggingface_rope *rope_scaling;
    bool use_sliding_window;
    uint64_t sliding_window;
    uint64_t max_window_layers;
    const char **layer_types;
    size_t n_layer_types;
    double attention_dropout, residual_dropout, embedding_dropout;
};

/* The table that reads a family's config, and the family's defaults. */
struct ah_huggingface_family {
    const struct ah_field_table *table;
    const char *architecture; /* the only class that we support */
    uint64_t kv_heads;        /* number of kv heads if the key is absent; 0: as many as heads */
    bool qkv_bias;
    bool qk_norm;
};

/* Indexed by enum ah_family. */
extern const struct ah_huggingface_family ah_huggingface_families[];

/* ---- meanings of keys ---- */

enum ah_huggingface_effect {
    AH_HUGGINGFACE_COMPUTED, /* part of the model, as in transformers */
    AH_HUGGINGFACE_DROPOUT,  /* recorded and not applied, with a warning */
    AH_HUGGINGFACE_CLASS,    /* refused unless it is the family's class */
    AH_HUGGINGFACE_NONE,     /* no effect, neither here nor in transformers */
    AH_HUGGINGFACE_WARNED,   /* no effect, with a warning: the key belongs to another family */
    /* refused unless the value changes nothing */
    AH_HUGGINGFACE_UNLESS_EMPTY,
    AH_HUGGINGFACE_UNLESS_FALSE,
    AH_HUGGINGFACE_UNLESS_TRUE,
    AH_HUGGINGFACE_UNLESS_ZERO,
    AH_HUGGINGFACE_UNLESS_ONE,
    AH_HUGGINGFACE_UNLESS_FULL, /* refused unless all layers have full attention */
    AH_HUGGINGFACE_REFUSED,     /* refused unless null */
    AH_HUGGINGFACE_QUANTISED,   /* refused unless null, with the reason */
    AH_HUGGINGFACE_NEVER        /* always refused, even if null */
};

struct ah_huggingface_key {
    const char *name;
    unsigned families; /* bits of enum ah_family: the families that have the key */
    int effect;        /* effect in these families */
    unsigned nullable; /* bits of enum ah_family: the families in which the key may be null */
    int elsewhere;     /* effect in the other families */
};

/* The table of all keys, which ends with a zero row. Keys missing from it are ignored with a warning. */
extern const struct ah_huggingface_key ah_huggingface_keys[];

/* Returns the row of a key; NULL: unknown. */
const struct ah_huggingface_key *ah_huggingface_key_find(const char *name);

/* Returns the key's effect in a family, an enum ah_huggingface_effect. */
int ah_huggingface_key_effect(const struct ah_huggingface_key *key, enum ah_family family);

/* True if a key with this effect and value is refused. */
bool ah_huggingface_key_refused(int effect, const struct cJSON *value);

#endif
