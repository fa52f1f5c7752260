/* SPDX-License-Identifier: Apache-2.0
 *
 * The keys of config.json, what they mean (huggingface_keys.c) and how they are read (huggingface_config.c), for
 * their conversion into a model (huggingface.c).
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

/* The values of a file, by either table. Absent sizes are 0. */
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

/* What a family takes from the shared table, and its defaults. */
struct ah_huggingface_family {
    const struct ah_field_table *table;
    const char *architecture; /* the only class that is accepted */
    uint64_t kv_heads;        /* if the key is absent; 0: as many as heads */
    bool qkv_bias;
    bool qk_norm;
};

/* Indexed by enum ah_family. */
extern const struct ah_huggingface_family ah_huggingface_families[];

/* ---- what a key means ---- */

enum ah_huggingface_effect {
    AH_HUGGINGFACE_COMPUTED, /* part of the model, as in transformers */
    AH_HUGGINGFACE_DROPOUT,  /* recorded and not applied, with a warning */
    AH_HUGGINGFACE_CLASS,    /* refused unless it is the family's class */
    AH_HUGGINGFACE_NONE,     /* no effect, in transformers or here */
    AH_HUGGINGFACE_TOLD,     /* no effect, with a warning: another family has it */
    /* refused unless the value changes nothing */
    AH_HUGGINGFACE_UNLESS_EMPTY,
    AH_HUGGINGFACE_UNLESS_FALSE,
    AH_HUGGINGFACE_UNLESS_TRUE,
    AH_HUGGINGFACE_UNLESS_ZERO,
    AH_HUGGINGFACE_UNLESS_ONE,
    AH_HUGGINGFACE_UNLESS_FULL, /* unless all layers have full attention */
    AH_HUGGINGFACE_REFUSED,     /* unless null */
    AH_HUGGINGFACE_QUANTISED,   /* the same, and the error says why */
    AH_HUGGINGFACE_NEVER        /* refused even if null */
};

struct ah_huggingface_key {
    const char *name;
    unsigned families; /* bits of enum ah_family: those that have the key */
    int effect;        /* in them */
    unsigned nullable; /* those of them in which null means absent, or is a value */
    int elsewhere;     /* effect in the others */
};

/* Ends with a zero row. A key that is not in it is unknown: ignored with a warning. */
extern const struct ah_huggingface_key ah_huggingface_keys[];

/* The row of a key; NULL: unknown. */
const struct ah_huggingface_key *ah_huggingface_key_find(const char *name);

/* The effect of a key in a family: an enum ah_huggingface_effect. */
int ah_huggingface_key_effect(const struct ah_huggingface_key *key, enum ah_family family);

/* Is this value of a key with this effect refused? */
bool ah_huggingface_key_refused(int effect, const struct cJSON *value);

#endif
