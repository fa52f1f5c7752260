/* SPDX-License-Identifier: Apache-2.0
 *
 * What forward and backward of attention share: the op with its operands, strips of queries and what they see,
 * packing, and the steps between products for each instruction set.
 *
 * SHAPES. A strip is 32 queries of one head, a tile 32 keys, both at multiples of 32 from the beginning of their
 * sequence; a block is 4 tiles. Everything between products is TURNED: a row for each key (or element of a head), a
 * column for each query of the strip, as tiles hold their sums (tile.h). So what belongs to a query (its largest
 * score, its sum, its log) is a lane, nothing is summed across lanes, and weights come out of a product in the order
 * in which the next one reads its operand.
 *
 * SIGHT. Query q of a sequence sees keys max(docs[q], q - window + 1) to q, both included.
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
    AH_ATTENTION_A_BYTES = AH_TILE_ROWS * AH_TILE_ROW_BYTES /* a packed a of a product's step */
};

_Static_assert((int)AH_ATTENTION_STRIP == (int)AH_ATTENTION_TILE, "strips and tiles meet on the diagonal");
_Static_assert((int)AH_ATTENTION_BLOCK == (int)AH_TILE_WORDS, "a block's keys are at most a step's words");

/* Keys that each query of a strip sees, counted from the first key of a tile. */
struct ah_attention_limits {
    float first[AH_ATTENTION_STRIP];
    float last[AH_ATTENTION_STRIP];
};

/* Between the products of backward: a tile of scores and of gradients of weights, both (keys, queries). */
struct ah_attention_slopes {
    const float *scores;
    const float *dweights;
    float factor;                             /* of scores, into powers of two */
    float scale;                              /* of gradients of weights */
    const float *lse;                         /* of each query, in powers of two */
    const float *delta;                       /* of each query: -scale times the sum of dout * out */
    const struct ah_attention_limits *limits; /* NULL: every query sees every key */
    void *weights;                            /* out, as an a: (keys, queries) */
    void *dscores;                            /* out, the same */
    void *dscores_b;                          /* out, as a b: words along the keys */
};

/* Steps between products. Rows of 32 floats, a lane for each query. */
struct ah_attention_steps {
    /* A tile of scores *= factor; -infinity where a query does not see (limits NULL: it sees all); max = what is
     * larger. */
    void (*scale)(float *scores, float factor, const struct ah_attention_limits *limits, float *max);
    /* Scores become 2^(score - max), as words of a b along the keys, and are added to the sum. `keys` is even. */
    void (*weigh)(float *scores, uint64_t keys, const float *max, float *sum);
    /* factor = 2^(old - new) */
    void (*decay)(float *factor, const float *old_max, const float *new_max);
    /* rows *= factor, lane by lane */
    void (*rescale)(float *rows, uint64_t n, const float *factor);
    /* inverse = 1 / sum; lse = ln(2) (max + log2(sum)), for sums of at least 1 */
    void (*finish)(float *inverse, float *lse, const float *max, const float *sum);
    /* weights = 2^(scores * factor - lse); dscores = weights (scale dweights + delta); both 0 where not seen */
    void (*slopes)(const struct ah_attention_slopes *slopes);
    /* The sum of a[i] * b[i] over a row of `n`. */
    float (*dot)(const void *a, enum ah_dtype a_dtype, const void *b, enum ah_dtype b_dtype, uint64_t n);
};

extern const struct ah_attention_steps ah_attention_portable;
extern const struct ah_attention_steps ah_attention_avx2;
extern const struct ah_attention_steps ah_attention_avx512;
extern const struct ah_attention_steps ah_attention_pairs; /* words are pairs of bf16 */

/* An op, as its units of work see it. */
struct ah_attention {
    struct ah_op_attention sizes;
    const struct ah_tile_kernel *kernel;
    const struct ah_tile_kernel *single; /* for words of one fp32 */
    const struct ah_attention_steps *steps;
    struct ah_math_matrix out, dout, q, k, v, dq, dk, dv; /* dout and what begins with d: backward's */
    float *lse;
    float *delta;             /* backward's scratch */
    const uint32_t *docs;     /* NULL: documents begin at 0 */
    unsigned char *workspace; /* of thread 0 */
    uint64_t workspace_bytes; /* of a thread */
    uint64_t group;           /* heads of a head of k and v */
    uint64_t strips;          /* of a sequence; as many tiles */
    uint64_t panels;          /* 32 elements of a head each */
    uint64_t words;           /* a head's elements are packed into */
    uint64_t steps_per_head;  /* of AH_TILE_WORDS words */
    float factor;             /* scale * log2(e) */
};

/* What a strip sees. */
struct ah_attention_sight {
    uint64_t strip;
    uint64_t first_tile;                /* that any query sees; the last one is tile `strip` */
    uint64_t masked_tiles;              /* tiles below this are not seen by all queries */
    uint64_t first[AH_ATTENTION_STRIP]; /* key that each query sees */
};

/* Rows of a head: tokens of one sequence. */
struct ah_attention_rows {
    const struct ah_math_matrix *matrix;
    uint64_t sequence;
    uint64_t head;
    uint64_t first;
    uint64_t count;
};

/* What is the same for both kinds; `in` is the type that products read. */
void ah_attention_begin(struct ah_attention *ret_attention, const struct ah_host *host,
                        const struct ah_op *op, enum ah_dtype in);

/* Operand `arg`, of `heads` heads. */
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

/* What strip `strip` of a sequence sees; queries beyond the sequence see what its last one does. */
void ah_attention_look(struct ah_attention_sight *ret_sight, const struct ah_attention *attention,
                       uint64_t sequence, uint64_t strip);

/* Limits of the strip's queries in a tile; NULL where all see all of it. */
const struct ah_attention_limits *ah_attention_limit(struct ah_attention_limits *limits,
                                                     const struct ah_attention_sight *sight, uint64_t tile);

/* Tokens of tiles (or strips) [first, end): the last one of a sequence may be short. */
static inline uint64_t ah_attention_between(const struct ah_attention *attention, uint64_t first,
                                            uint64_t end)
{
    const uint64_t last = end * AH_ATTENTION_TILE, seq = attention->sizes.seq;
    return (last < seq ? last : seq) - first * AH_ATTENTION_TILE;
}

/* Where what is seen of a block ends, for who sees nothing after tile `last`. */
static inline uint64_t ah_attention_end(uint64_t block, uint64_t last)
{
    const uint64_t end = block + AH_ATTENTION_BLOCK_TILES;
    return last + 1 < end ? last + 1 : end;
}

/* Index of the first of rows in what is (batch, heads, seq). */
static inline uint64_t ah_attention_query(const struct ah_attention *attention,
                                          const struct ah_attention_rows *rows)
{
    return (rows->sequence * attention->sizes.heads + rows->head) * attention->sizes.seq + rows->first;
}

/* Words that `n` elements along k are packed into, in whole. */
static inline uint64_t ah_attention_words(const struct ah_attention *attention, uint64_t n)
{
    return ah_pack_words(attention->kernel, n);
}

/* Packs at most 32 rows as an a, k along the head: `steps_per_head` parts of AH_ATTENTION_A_BYTES. */
void ah_attention_pack_a(unsigned char *dst, const struct ah_attention *attention,
                         const struct ah_attention_rows *rows);

/* Packs at most 128 rows as an a of the head's elements, k along the tokens: `panels` parts of
 * AH_ATTENTION_A_BYTES. */
void ah_attention_pack_a_turned(unsigned char *dst, const struct ah_attention *attention,
                                const struct ah_attention_rows *rows);

/* Packs at most 32 rows as a b of one panel, k along the head. */
void ah_attention_pack_b_turned(uint32_t *dst, const struct ah_attention *attention,
                                const struct ah_attention_rows *rows);

/* Packs at most 128 rows as a b, k along the tokens: `panels` panels. */
void ah_attention_pack_b(uint32_t *dst, const struct ah_attention *attention,
                         const struct ah_attention_rows *rows);

/* sums (32, 32) = a b, k along the head, a and b as packed by the first and third of these. */
void ah_attention_multiply(float *sums, const struct ah_attention *attention, const unsigned char *a,
                           uint64_t rows, const uint32_t *b);

/* Stores `panels` tiles of sums (elements of the head, queries) as rows of `to`; `turned` is room for a tile. */
void ah_attention_store_turned(const struct ah_attention *attention, const struct ah_attention_rows *to,
                               const float *sums, float *turned);

/* Stores `panels` tiles of sums (keys, elements of the head) as rows of `to`. */
void ah_attention_store(const struct ah_attention *attention, const struct ah_attention_rows *to,
                        const float *sums);

/* Elements of the head in panel `panel`. */
static inline uint64_t ah_attention_panel(const struct ah_attention *attention, uint64_t panel)
{
    uint64_t left = attention->sizes.head_dim - panel * AH_TILE_ROWS;
    return left < AH_TILE_ROWS ? left : AH_TILE_ROWS;
}

/* A workspace that is handed out in whole cache lines, or, where `memory` is NULL, counted only. */
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

/* Bytes of workspace that a thread needs for an op, whatever the kernel; for a shape, forward and backward. */
uint64_t ah_attention_bytes(const struct ah_op *op);
uint64_t ah_attention_forward_bytes(const struct ah_attention *shape);
uint64_t ah_attention_backward_bytes(const struct ah_attention *shape);

#endif
