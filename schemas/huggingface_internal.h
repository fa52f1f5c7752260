/* SPDX-License-Identifier: Apache-2.0
 *
 * The keys of config.json (huggingface_config.c) for their conversion into a model (huggingface.c).
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

/* What a family takes from the shared table; a key that it does not have is inert there. */
struct ah_huggingface_family {
    const struct ah_field_table *table;
    const char *architecture; /* the only class that is meant by it */
    uint64_t kv_heads;        /* when the key is absent; 0: as many as heads */
    bool qkv_bias;
    bool qk_norm;
    const char *inert; /* keys of the shared table that this family ignores, each between spaces */
};

/* Indexed by enum ah_family. */
extern const struct ah_huggingface_family ah_huggingface_families[];

/* What a key outside the tables means. */
enum ah_huggingface_key {
    AH_HUGGINGFACE_UNKNOWN,
    AH_HUGGINGFACE_INERT,
    AH_HUGGINGFACE_REFUSED,
    AH_HUGGINGFACE_QUANTISED
};
enum ah_huggingface_key ah_huggingface_key_of(const struct cJSON *member);

#endif
