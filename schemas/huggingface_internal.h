/* SPDX-License-Identifier: Apache-2.0
 *
 * The keys of config.json: what they mean (huggingface_keys.c), and the tables that read them (huggingface_config.c).
 * huggingface.c
 * and huggingface_rope.c convert them into a model.
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
    double partial_rotary_factor;  /* below 0: absent */
    double beta_fast, beta_slow;   /* 0: null or absent */
    double attention_factor;       /* below 0: null or absent */
    double mscale, mscale_all_dim; /* 0: null or absent */
    bool truncate;
    double *short_factor;
    size_t n_short_factor;
    double *long_factor;
    size_t n_long_factor;
    struct ah_huggingface_rope *full_attention, *sliding_attention; /* gemma3: those of its layers */
};

/* The values of a file, read by either table. Absent sizes are 0. */
struct ah_huggingface_config {
    const char *model_type;
    uint64_t width, layers, heads, kv_heads, head_dim, mlp_width, vocabulary, positions;
    const char *activation, *gemma_activation;
    double norm_epsilon;
    double initializer_range;
    double padding; /* may be negative */
    bool tied;
    bool attention_bias;
    bool mlp_bias;
    double rope_theta;
    double local_theta;
    uint64_t original_positions;
    double partial_rotary_factor;
    struct ah_huggingface_rope *rope_parameters;
    struct ah_huggingface_rope *rope_scaling;
    bool use_sliding_window;
    uint64_t sliding_window;
    uint64_t max_window_layers;
    const char **layer_types;
    size_t n_layer_types;
    uint64_t window_pattern;
    uint64_t *no_rope_layers; /* for each layer: 0 if it is not rotated */
    size_t n_no_rope_layers;
    uint64_t no_rope_interval;
    double query_scalar, score_cap, logit_cap; /* 0: null */
    double attention_dropout, residual_dropout, embedding_dropout;
};

enum { AH_HUGGINGFACE_NO_PADDING = 1 << 29 /* no token */ };

/* The table that reads a family's config, and what the family has if the file does not say it. */
struct ah_huggingface_family {
    const struct ah_field_table *table;
    const char *architecture; /* the only class that we support */
    uint64_t kv_heads;        /* 0: as many as heads */
    uint64_t head_dim;        /* 0: width / heads */
    double norm_epsilon;
    double theta;
    uint64_t window; /* 0: none */
    double padding;  /* AH_HUGGINGFACE_NO_PADDING: none */
    bool tied;
    bool divides_width; /* heads must divide the width, even if head_dim is given */
    bool qkv_bias;      /* always */
    bool qk_norm;
    bool qk_norm_whole;
    bool scaled_embedding, norm_offset; /* as all of Gemma */
    enum ah_norm_place norm_place;
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
    AH_HUGGINGFACE_CODE,    /* refused unless an object; the code that it names is not run, with a warning */
    AH_HUGGINGFACE_REFUSED, /* refused unless null */
    AH_HUGGINGFACE_QUANTISED, /* refused unless null, with the reason */
    AH_HUGGINGFACE_NEVER      /* always refused, even if null */
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

/* ---- conversion ---- */

/* A file on its way to a model. */
struct ah_huggingface_conversion {
    struct ah_arena *arena;
    const char *name;
    const struct cJSON *tree;  /* the object that describes the model of text */
    const struct cJSON *outer; /* the whole file's object if the model also reads images; else NULL */
    struct ah_huggingface_config config;
    enum ah_family family;
    struct ah_model *model;
    const char **warnings;
    size_t n_warnings, max_warnings;
    struct ah_error *err;
};

/* Refuse a key, or a value of it. Both come from the file, so they are printed in a form that is safe in a message. */
int ah_huggingface_refuse(const struct ah_huggingface_conversion *conversion, const char *key,
                          const char *what);
int ah_huggingface_refuse_text(const struct ah_huggingface_conversion *conversion, const char *key,
                               const char *value, const char *what);

/* True if the file has the key. */
bool ah_huggingface_has(const struct ah_huggingface_conversion *conversion, const char *key);

/* Sets the model's rotary positions. */
int ah_huggingface_convert_rope(struct ah_huggingface_conversion *conversion);

#endif
