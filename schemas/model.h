/* SPDX-License-Identifier: Apache-2.0
 *
 * The `model` document: the shape of a decoder-only transformer, without weights.
 *
 * Blocks are the embedding, `layers` transformer blocks and the head (final norm and projection). One table of tensors
 * for each kind (ah_model_tensors) gives every count, so a planner's sizes, a checkpoint's layout and a program's
 * operands cannot disagree. Groups are blocks of equal cost and size.
 *
 * A model that ah_document_parse() accepted has fewer than 2^53 parameters, so the functions here cannot overflow.
 *
 *     struct ah_model_tensor tensors[AH_MODEL_TENSORS_MAX];
 *     size_t n = ah_model_tensors(model, AH_BLOCK_LAYER, tensors);
 */
#ifndef AH_SCHEMAS_MODEL_H
#define AH_SCHEMAS_MODEL_H

#include "base/error.h"
#include "schemas/vocabulary.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* clang-format off */
#define AH_FAMILY_WORDS(X)                                                                                   \
    X(AH_FAMILY_GPT2, "gpt2") X(AH_FAMILY_LLAMA, "llama") X(AH_FAMILY_MISTRAL, "mistral")                    \
    X(AH_FAMILY_QWEN2, "qwen2") X(AH_FAMILY_QWEN3, "qwen3") X(AH_FAMILY_OLMO2, "olmo2")                      \
    X(AH_FAMILY_SMOLLM3, "smollm3") X(AH_FAMILY_PHI3, "phi3") X(AH_FAMILY_GEMMA2, "gemma2")                  \
    X(AH_FAMILY_GEMMA3, "gemma3_text")
#define AH_POSITION_WORDS(X) X(AH_POSITION_LEARNED, "learned") X(AH_POSITION_ROPE, "rope")
#define AH_ROPE_WORDS(X)                                                                                     \
    X(AH_ROPE_DEFAULT, "default") X(AH_ROPE_LINEAR, "linear") X(AH_ROPE_LLAMA3, "llama3")                    \
    X(AH_ROPE_YARN, "yarn") X(AH_ROPE_LONGROPE, "longrope")
#define AH_MODEL_NORM_WORDS(X) X(AH_MODEL_NORM_RMS, "rms") X(AH_MODEL_NORM_LAYER, "layer")
#define AH_NORM_PLACE_WORDS(X)                                                                               \
    X(AH_NORM_BEFORE, "before") X(AH_NORM_AFTER, "after") X(AH_NORM_AROUND, "around")
#define AH_MODEL_ACTIVATION_WORDS(X)                                                                         \
    X(AH_MODEL_GELU_TANH, "gelu_tanh") X(AH_MODEL_GELU, "gelu") X(AH_MODEL_SILU_GATED, "silu_gated")         \
    X(AH_MODEL_GELU_TANH_GATED, "gelu_tanh_gated")
#define AH_LORA_SCALING_WORDS(X)                                                                             \
    X(AH_LORA_STANDARD, "standard") X(AH_LORA_RANK_STABILIZED, "rank_stabilized")
#define AH_LORA_WORDS(X)                                                                                     \
    X(AH_LORA_Q, "attention.q") X(AH_LORA_K, "attention.k") X(AH_LORA_V, "attention.v")                      \
    X(AH_LORA_QKV, "attention.qkv") X(AH_LORA_OUTPUT, "attention.output")                                    \
    X(AH_LORA_GATE, "mlp.gate") X(AH_LORA_UP, "mlp.up") X(AH_LORA_GATE_UP, "mlp.gate_up")                    \
    X(AH_LORA_DOWN, "mlp.down")
/* clang-format on */

#define AH_WORD_VALUE(value, word) value,
enum ah_family { AH_FAMILY_WORDS(AH_WORD_VALUE) };
enum ah_position { AH_POSITION_WORDS(AH_WORD_VALUE) };
enum ah_rope { AH_ROPE_WORDS(AH_WORD_VALUE) };
enum ah_model_norm { AH_MODEL_NORM_WORDS(AH_WORD_VALUE) };
enum ah_norm_place { AH_NORM_PLACE_WORDS(AH_WORD_VALUE) };
enum ah_model_activation { AH_MODEL_ACTIVATION_WORDS(AH_WORD_VALUE) };
enum ah_lora_scaling { AH_LORA_SCALING_WORDS(AH_WORD_VALUE) };
enum ah_lora { AH_LORA_WORDS(AH_WORD_VALUE) AH_LORA_MATRICES };
#undef AH_WORD_VALUE

extern const char *const ah_words_family[];
extern const char *const ah_words_position[];
extern const char *const ah_words_rope[];
extern const char *const ah_words_model_norm[];
extern const char *const ah_words_norm_place[];
extern const char *const ah_words_model_activation[];
extern const char *const ah_words_lora_scaling[];
extern const char *const ah_words_lora[];

/* Rotary positions. Angles are position * theta^(-2i/rotated), with frequencies scaled as `kind` says
 * (runtime/train/angles.c). What a kind does not have is 0. */
struct ah_model_rope {
    double theta;
    uint64_t rotated; /* elements of a head that turn, its first ones; 0: all */
    enum ah_rope kind;
    double factor; /* linear, llama3, yarn: positions are divided by it */
    double low_freq_factor;
    double high_freq_factor;
    double beta_fast;            /* yarn: waves that turn more often keep their frequency */
    double beta_slow;            /* yarn: waves that turn less often are scaled in full */
    bool untruncated;            /* yarn: the range between them may end between two pairs */
    double attention_factor;     /* yarn, longrope: multiplies cosines and sines */
    uint64_t original_positions; /* llama3, yarn, longrope: positions of the model before scaling */
    double *short_factors; /* longrope: divisors of frequencies, for sequences up to original_positions */
    size_t n_short_factors;
    double *long_factors; /* longrope: those for longer sequences */
    size_t n_long_factors;
};

/* Adapters (LoRA). Beside a matrix W with an adapter, a layer has A (rank, inputs) and B (outputs, rank), and computes
 * x W^T + scale x A^T B^T, where scale is alpha / rank or alpha / sqrt(rank). */
struct ah_model_lora {
    uint64_t rank;
    double alpha;
    enum ah_lora_scaling scaling;
    unsigned *on; /* the matrices with adapters: enum ah_lora, ascending */
    size_t n_on;
};

struct ah_model {
    const char *generator;
    const char *name;
    enum ah_family family;
    bool multimodal; /* the text part of a model that reads images, too */
    uint64_t layers;
    uint64_t width;
    uint64_t heads;
    uint64_t kv_heads;
    uint64_t head_dim;
    uint64_t mlp_width;
    uint64_t vocabulary;
    uint64_t max_positions;
    enum ah_position position;
    struct ah_model_rope *rope; /* NULL unless position is rope */
    enum ah_model_norm norm;
    enum ah_norm_place norm_place; /* norms before attention and MLP, after them, or around */
    bool norm_offset;              /* the gains of norms are 1 + their weights */
    double norm_epsilon;
    enum ah_model_activation activation;
    bool qkv_bias;
    bool attention_output_bias;
    bool mlp_bias;
    bool qk_norm;            /* an rms norm of each query and key head */
    bool qk_norm_whole;      /* one norm for all query heads together, one for all key heads */
    double query_scalar;     /* scores are divided by its square root; 0: by that of head_dim */
    double score_cap;        /* scores s of attention become cap * tanh(s / cap); 0: no cap */
    double logit_cap;        /* so do logits */
    bool embedding_scaled;   /* rows of the embedding times sqrt(width), rounded to the type of training */
    bool tied;               /* the head's projection is the embedding's table */
    uint64_t window;         /* tokens that attention sees; 0: all */
    uint64_t *window_layers; /* layers with the window; empty: all */
    size_t n_window_layers;
    struct ah_model_rope *window_rope; /* the rotary positions of layers with the window; NULL: `rope` */
    uint64_t *unrotated_layers;        /* layers without rotary positions */
    size_t n_unrotated_layers;
    uint64_t padding_token;   /* token whose row of the embedding has no gradient, or AH_MODEL_NO_PADDING */
    double initializer_range; /* standard deviation of freshly initialised matrices */
    double dropout; /* largest dropout rate of the original; only recorded, since we train without dropout */
    struct ah_model_lora *lora; /* NULL: no adapters */
    struct ah_text_pair *annotations;
    size_t n_annotations;
};

enum ah_block_kind { AH_BLOCK_EMBEDDING, AH_BLOCK_LAYER, AH_BLOCK_HEAD };

enum { AH_MODEL_NO_PADDING = 268435456 /* above every token */, AH_LORA_RANK_MAX = 4096 };
#define AH_LORA_ALPHA_MIN 1e-6
#define AH_LORA_ALPHA_MAX 1e6
enum { AH_MODEL_TENSORS_MAX = 24, AH_MODEL_GROUPS_MAX = 6 };

struct ah_model_tensor {
    const char *name; /* "attention.qkv.weight" */
    uint64_t rows;    /* outputs of a matrix, entries of a table */
    uint64_t cols;    /* inputs; 1: a vector of `rows` */
    bool matrix;      /* two-dimensional: weight decay applies */
    bool adapter;     /* A or B of an adapter. Without training it is not used: B begins at zero. */
};

/* Lists the tensors of a block in flat order and returns their number. Rows are outputs; qkv is q, then k, then v. A
 * tied head has only its norm: the embedding owns the table. Adapters come last, so all other tensors of a block are at
 * the same places with and without them. Those of q, k and v are one above the other in "attention.qkv.lora_a" and
 * "attention.qkv.lora_b", those of gate and up in "mlp.gate_up.lora_a" and "mlp.gate_up.lora_b". */
size_t ah_model_tensors(const struct ah_model *model, enum ah_block_kind kind,
                        struct ah_model_tensor ret_tensors[AH_MODEL_TENSORS_MAX]);

/* Return the matrices with adapters, a bit for each; the factor of adapters. Without adapters, both are 0. */
uint32_t ah_model_adapted(const struct ah_model *model);
double ah_model_lora_scale(const struct ah_model *model);

/* Returns the matrices that may have an adapter, a bit for each: those that are separate in files of the family. */
uint32_t ah_model_adaptable(const struct ah_model *model);

/* Returns the number of outputs of a matrix that may have an adapter. */
uint64_t ah_model_lora_outputs(const struct ah_model *model, enum ah_lora matrix);

/* Returns the number of elements of a head that rope turns; without rope, 0. */
uint64_t ah_model_rotated(const struct ah_model *model);

/* Return the number of parameters. ah_model_count() is for models not read from a document: AH_E_DOCUMENT at 2^53. */
uint64_t ah_model_block_parameters(const struct ah_model *model, enum ah_block_kind kind);
uint64_t ah_model_parameters(const struct ah_model *model);
int ah_model_count(const struct ah_model *model, uint64_t *ret_parameters, struct ah_error *err);

/* Return the number of blocks, layers + 2; the kind of a block: 0 is the embedding, layers + 1 the head. */
uint64_t ah_model_blocks(const struct ah_model *model);
enum ah_block_kind ah_model_block_kind(const struct ah_model *model, uint64_t block);

/* How layers differ: attention sees only a window; queries and keys are not rotated. */
struct ah_model_ways {
    bool windowed;
    bool unrotated;
};

/* Return the ways of a layer (from 0); of all layers, in an array of `layers` items that is zero. */
struct ah_model_ways ah_model_layer_ways(const struct ah_model *model, uint64_t layer);
void ah_model_list_ways(const struct ah_model *model, struct ah_model_ways *ret_ways);

/* True if the MLP has a gate; if gate and up are one matrix in files, and so one of our tensors, "mlp.gate_up.weight";
 * if q, k and v are one matrix in files (they are one tensor of ours in any case). */
bool ah_model_gated(const struct ah_model *model);
bool ah_model_joins_mlp(const struct ah_model *model);
bool ah_model_joins_qkv(const struct ah_model *model);

struct ah_model_group {
    const char *
        name; /* "embedding", "layer", "layer_windowed", "layer_unrotated", "layer_windowed_unrotated", "head" */
    enum ah_block_kind kind;
    struct ah_model_ways ways;
    uint64_t first;      /* its lowest block */
    uint64_t blocks;     /* number of blocks */
    uint64_t parameters; /* per block */
};

/* Lists the groups that have blocks, in order of their first blocks, and returns their number. */
size_t ah_model_groups(const struct ah_model *model, struct ah_model_group ret_groups[AH_MODEL_GROUPS_MAX]);

#endif
