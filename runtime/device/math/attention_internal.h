/* SPDX-License-Identifier: Apache-2.0
 *
 * Shared by attention's forward and backward: the op with its operands, strips of queries and the keys they see,
 * packing, and the steps between matrix products for each instruction set.
 *
 * SHAPES. A strip is 32 queries of one head, a tile 32 keys, both at multiples of 32 in their sequence; a block is 4
 * tiles. Between products, data is transposed: one row per key (or element of a head), one column per query of the
 * strip, as tile.h lays out sums of tiles. So each query's numbers (largest score, sum, log) are in one lane, nothing
 * is summed across lanes, and one product writes weights in the order that the next one needs.
 *
 * SIGHT. The query at position q sees keys max(docs[q], q - window + 1) to q, both included. Query i of a sequence has
 * position past + i.
 */
#ifndef AH_RUNTIME_DEVICE_MATH_ATTENTION_INTERNAL_H
#define AH_RUNTIME_DEVICE_MATH_ATTENTION_INTERNAL_H

#include "runtime/device/math/math_internal.h"
#include "runtime/device/math/workspace.h"
#include "runtime/device/tile/pack.h"
#include "runtime/device/tile/tile.h"

#include <string.h>

enum {
    AH_ATTENTION_STRIP = AH_TILE_COLUMNS, /* queries */
    AH_ATTENTION_TILE = AH_TILE_ROWS,     /* keys */
    AH_ATTENTION_BLOCK_TILES = 4,
    AH_ATTENTION_BLOCK = AH_ATTENTION_BLOCK_TILES * AH_ATTENTION_TILE,
    AH_ATTENTION_A_BYTES =
        AH_TILE_ROWS * AH_TILE_ROW_BYTES /* bytes of a packed a for one step of a product */
};

_Static_assert((int)AH_ATTENTION_STRIP == (int)AH_ATTENTION_TILE, "strips and tiles meet on the diagonal");
_Static_assert((int)AH_ATTENTION_BLOCK == (int)AH_TILE_WORDS, "a block's keys are at most a step's words");

/* The first and the last key that each query of a strip sees, counted from the first key of a tile. */
struct ah_attention_limits {
    float first[AH_ATTENTION_STRIP];
    float last[AH_ATTENTION_STRIP];
};

/* The operands of the step between backward's products, for a tile. Scores and weights' gradients: (keys, queries). */
struct ah_attention_slopes {
    const float *scores;
    const float *dweights;
    float factor;                             /* turns scores into exponents of 2 */
    bool capped;                              /* scores passed through `cap`: their tanh has a slope, too */
    float scale;                              /* factor for gradients of weights */
    const float *lse;                         /* each query's log-sum-exp in base 2 */
    const float *delta;                       /* for each query: -scale times the sum of dout * out */
    const struct ah_attention_limits *limits; /* NULL: every query sees every key */
    void *weights;                            /* output, packed as an a: (keys, queries) */
    void *dscores;                            /* output, packed in the same way */
    void *dscores_b;                          /* output, packed as a b: words along the keys */
};

/* The steps between products. Arrays are rows of 32 floats, with a lane for each query. */
struct ah_attention_steps {
    /* Replaces scores by tanh(score * bend), for ops with a soft cap. */
    void (*cap)(float *scores, float bend);
    /* Multiplies scores by factor, sets those of unseen keys to -infinity (limits NULL: none), and updates max. */
    void (*scale)(float *scores, float factor, const struct ah_attention_limits *limits, float *max);
    /* Replaces scores by 2^(score - max), stored as words of a b along the keys; adds them to sum. `keys` is even. */
    void (*weigh)(float *scores, uint64_t keys, const float *max, float *sum);
    /* Sets factor = 2^(old_max - new_max). */
    void (*decay)(float *factor, const float *old_max, const float *new_max);
    /* Multiplies n rows by factor, lane by lane. */
    void (*rescale)(float *rows, uint64_t n, const float *factor);
    /* Sets inverse = 1 / sum and lse = ln(2) (max + log2(sum)), for sums of at least 1. */
    void (*finish)(float *inverse, float *lse, const float *max, const float *sum);
    /* Sets weights = 2^(scores * factor - lse), dscores = weights (scale dweights + delta), times 1 - score^2 if scores
     * are capped; 0 for unseen keys. */
    void (*slopes)(const struct ah_attention_slopes *slopes);
    /* Returns the sum of a[i] * b[i] over `n` elements. */
    float (*dot)(const void *a, enum ah_dtype a_dtype, const void *b, enum ah_dtype b_dtype, uint64_t n);
};

extern const struct ah_attention_steps ah_attention_portable;
extern const struct ah_attention_steps ah_attention_avx2;
extern const struct ah_attention_steps ah_attention_avx512;
extern const struct ah_attention_steps ah_attention_pairs; /* for words that are pairs of bf16 */

/* An op as its units of work see it. */
struct ah_attention {
    struct ah_op_attention sizes;
    const struct ah_tile_kernel *kernel;
    const struct ah_tile_kernel *single; /* the kernel whose words hold one fp32 */
    const struct ah_attention_steps *steps;
    struct ah_math_matrix out, dout, q, k, v, dq, dk, dv; /* the names with d are for backward only */
    float *lse;
    float *delta;             /* backward's scratch */
    const uint32_t *docs;     /* NULL: documents begin at 0 */
    unsigned char *workspace; /* workspace of thread 0 */
    uint64_t workspace_bytes; /* per thread */
    uint64_t group;           /* heads that share a head of k and v */
    uint64_t keys;            /* per sequence: past + seq */
    uint64_t strips;          /* strips per sequence; without past also its number of tiles */
    uint64_t panels;          /* panels of 32 elements per head */
    uint64_t words;           /* packed words per head */
    uint64_t steps_per_head;  /* steps of AH_TILE_WORDS words */
    float factor;             /* turns scores into exponents of 2: scale * log2(e), or soft_cap * log2(e) */
    float bend; /* scale / soft_cap: with a soft cap, scores become tanh(score * bend); 0: none */
};

/* The keys that a strip sees. */
struct ah_attention_sight {
    uint64_t strip;
    uint64_t position;                  /* of the strip's first query */
    uint64_t first_tile, last_tile;     /* first and last tile that any query sees */
    uint64_t masked_tiles;              /* in tiles before this one, some query misses a key */
    uint64_t first[AH_ATTENTION_STRIP]; /* first key that each query sees */
};

/* The `count` rows of a head from token `first` of one sequence on. */
struct ah_attention_rows {
    const struct ah_math_matrix *matrix;
    uint64_t length; /* rows per sequence: of queries or of keys */
    uint64_t sequence;
    uint64_t head;
    uint64_t first;
    uint64_t count;
};

/* Sets the fields that forward and backward share; `in` is the type that products read. */
void ah_attention_begin(struct ah_attention *ret_attention, const struct ah_host *host,
                        const struct ah_op *op, enum ah_dtype in);

/* Returns operand `arg` as a matrix; its rows have `heads` heads. */
struct ah_math_matrix ah_attention_matrix(const struct ah_host *host, const struct ah_op *op, size_t arg,
                                          uint32_t heads);

static inline void ah_attention_kernel_begin(const struct ah_attention *attention)
{
    if (attention->kernel->begin)
        attention->kernel->begin();
}

static inline void ah_attention_kernel_end(const struct ah_attention *attention)
{
    if (attention->kernel->end)
        attention->kernel->end();
}

/* Finds the keys that strip `strip` of a sequence sees. A query beyond the sequence sees what the last query sees. */
void ah_attention_look(struct ah_attention_sight *ret_sight, const struct ah_attention *attention,
                       uint64_t sequence, uint64_t strip);

/* Returns the limits of the strip's queries in a tile, in `limits`, or NULL if all queries see the whole tile. */
const struct ah_attention_limits *ah_attention_limit(struct ah_attention_limits *limits,
                                                     const struct ah_attention_sight *sight, uint64_t tile);

/* Returns the number of tokens in tiles (or strips) [first, end) of `length` tokens; the last tile may be short. */
static inline uint64_t ah_attention_between(uint64_t length, uint64_t first, uint64_t end)
{
    const uint64_t last = end * AH_ATTENTION_TILE;
    return (last < length ? last : length) - first * AH_ATTENTION_TILE;
}

/* Returns the end of a block's seen tiles, `last` being the last tile seen. */
static inline uint64_t ah_attention_end(uint64_t block, uint64_t last)
{
    const uint64_t end = block + AH_ATTENTION_BLOCK_TILES;
    return last + 1 < end ? last + 1 : end;
}

/* Returns the index of the first of `rows` in an array of shape (batch, heads, seq). */
static inline uint64_t ah_attention_query(const struct ah_attention *attention,
                                          const struct ah_attention_rows *rows)
{
    return (rows->sequence * attention->sizes.heads + rows->head) * attention->sizes.seq + rows->first;
}

/* Returns the number of words for `n` elements packed along k. */
static inline uint64_t ah_attention_words(const struct ah_attention *attention, uint64_t n)
{
    return ah_pack_words(attention->kernel, n);
}

/* Packs at most 32 rows as an a, k along the head: `steps_per_head` parts of AH_ATTENTION_A_BYTES. */
void ah_attention_pack_a(unsigned char *dst, const struct ah_attention *attention,
                         const struct ah_attention_rows *rows);

/* Packs at most 128 rows as an a of the head's elements, k along tokens: `panels` parts of AH_ATTENTION_A_BYTES. */
void ah_attention_pack_a_transposed(unsigned char *dst, const struct ah_attention *attention,
                                    const struct ah_attention_rows *rows);

/* Packs at most 32 rows as a b of one panel, k along the head. */
void ah_attention_pack_b_transposed(uint32_t *dst, const struct ah_attention *attention,
                                    const struct ah_attention_rows *rows);

/* Packs at most 128 rows as a b, k along the tokens: `panels` panels. */
void ah_attention_pack_b(uint32_t *dst, const struct ah_attention *attention,
                         const struct ah_attention_rows *rows);

/* Computes sums (32, 32) = a b, k along the head, of ah_attention_pack_a() and ah_attention_pack_b_transposed(). */
void ah_attention_multiply(float *sums, const struct ah_attention *attention, const unsigned char *a,
                           uint64_t rows, const uint32_t *b);

/* Stores `panels` tiles of sums (elements of the head, queries), transposed, as rows of `to`. `transposed` is room for
 * one tile. */
void ah_attention_store_transposed(const struct ah_attention *attention, const struct ah_attention_rows *to,
                                   const float *sums, float *transposed);

/* Stores `panels` tiles of sums (keys, elements of the head) as rows of `to`. */
void ah_attention_store(const struct ah_attention *attention, const struct ah_attention_rows *to,
                        const float *sums);

/* Returns the number of the head's elements in panel `panel`. */
static inline uint64_t ah_attention_panel(const struct ah_attention *attention, uint64_t panel)
{
    uint64_t left = attention->sizes.head_dim - panel * AH_TILE_ROWS;
    return left < AH_TILE_ROWS ? left : AH_TILE_ROWS;
}

/* A workspace that hands out whole cache lines. If `memory` is NULL, it only counts bytes. */
struct ah_attention_room {
    unsigned char *memory;
    uint64_t used;
};

static inline void *ah_attention_take(struct ah_attention_room *room, uint64_t bytes)
{
    unsigned char *at = room->memory ? room->memory + room->used : NULL;
    room->used += (bytes + 63) / 64 * 64;
    return at;
}

/* Return the bytes of workspace per thread: for an op with any kernel; for forward or backward of a shape. */
uint64_t ah_attention_bytes(const struct ah_op *op);
uint64_t ah_attention_forward_bytes(const struct ah_attention *shape);
uint64_t ah_attention_backward_bytes(const struct ah_attention *shape);

#endif
