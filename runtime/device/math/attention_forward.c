/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention, forward: out = softmax(scale q k^T) v over the keys that each query sees, and lse, the logarithm of the
 * softmax's denominator.
 *
 * A UNIT is at most ITEMS strips: consecutive strips of heads that share a head of k and v. One thread computes it:
 *
 *     pack q of every strip
 *     for each block of keys that a strip of the unit sees, ascending
 *         pack k; pack v transposed
 *         for each strip of the unit that sees the block
 *             s = k q^T, tile by tile, for the tiles that the strip sees; with a soft cap, its tanh
 *             m' = max(m, s);  p = 2^(s - m');  l = l 2^(m - m') + p;  o = o 2^(m - m') + v^T p;  m = m'
 *     out = o / l, transposed back;  lse = ln 2 (m + log2 l)
 *
 * Scores are in powers of two: scaled by scale * log2(e), with a soft cap by cap * log2(e) after the tanh. Invariants,
 * for every query and after every block:
 *
 * 1. m is the largest score so far. It starts at the finite -FLT_MAX, so 2^(s - m) of a masked key is 0, never NaN.
 * 2. l is the sum of 2^(s - m) over the keys so far, o that of 2^(s - m) v. So l >= 1 once a key was seen.
 * 3. A query's result depends only on its strip, its sequence's keys and `docs`: blocks start at multiples of 128 keys,
 *    not at the unit's beginning. So bits depend neither on units nor on threads. If a query sees no key of a tile, it
 *    adds zeros there.
 * 4. Tiles that no query of the strip sees are not multiplied; blocks that no strip of the unit sees are not packed.
 *
 * Source: Dao et al., FlashAttention (2022); Milakov and Gimelshein, Online normalizer calculation for softmax (2018).
 */
#include "runtime/device/math/attention_internal.h"

#include <float.h>

enum { ITEMS = 16, LANES = AH_ATTENTION_STRIP };

/* A strip of a head, and its sums over the blocks so far. */
struct item {
    struct ah_attention_sight sight;
    uint64_t head;
    float *max;      /* (LANES) */
    float *sum;      /* (LANES) */
    uint32_t *query; /* packed */
    float *out;      /* (panels, 32, LANES): sums */
};

struct unit {
    const struct ah_attention *attention;
    uint64_t sequence;
    uint64_t kv_head;
    uint64_t n; /* number of items */
    struct item items[ITEMS];
    unsigned char *key;   /* (tiles of a block, steps): packed */
    unsigned char *value; /* (panels): packed */
    float *scores;        /* (keys of a block, LANES) */
    uint64_t first_tile;  /* first and last tile that an item sees */
    uint64_t last_tile;
};

static void place_unit(struct unit *unit, struct ah_attention_room *room, const struct ah_attention *shape)
{
    unit->key =
        ah_attention_take(room, shape->steps_per_head * AH_ATTENTION_BLOCK_TILES * AH_ATTENTION_A_BYTES);
    unit->value = ah_attention_take(room, shape->panels * AH_ATTENTION_A_BYTES);
    unit->scores = ah_attention_take(room, sizeof(float) * AH_ATTENTION_BLOCK * LANES);
    for (uint64_t i = 0; i < ITEMS; i++) {
        unit->items[i].query = ah_attention_take(room, sizeof(uint32_t) * shape->words * LANES);
        unit->items[i].out = ah_attention_take(room, sizeof(float) * shape->panels * AH_TILE_SUMS);
        unit->items[i].max = ah_attention_take(room, sizeof(float) * LANES);
        unit->items[i].sum = ah_attention_take(room, sizeof(float) * LANES);
    }
}

uint64_t ah_attention_forward_bytes(const struct ah_attention *shape)
{
    struct unit unit;
    struct ah_attention_room room = {0};
    place_unit(&unit, &room, shape);
    return room.used;
}

/* Returns the packed keys of tile `i` of the block. */
static unsigned char *key_of(const struct unit *unit, uint64_t i)
{
    return unit->key + i * unit->attention->steps_per_head * AH_ATTENTION_A_BYTES;
}

/* The cut of heads and strips into units. */
struct cut {
    uint64_t heads;  /* per unit */
    uint64_t strips; /* per unit */
    uint64_t head_sets;
    uint64_t strip_sets;
};

static uint64_t parts(uint64_t whole, uint64_t part)
{
    return (whole + part - 1) / part;
}

static struct cut cut_of(const struct ah_attention *attention)
{
    struct cut cut;
    cut.heads = attention->group < ITEMS ? attention->group : ITEMS;
    cut.strips = ITEMS / cut.heads;
    cut.head_sets = parts(attention->group, cut.heads);
    cut.strip_sets = parts(attention->strips, cut.strips);
    return cut;
}

static struct ah_attention_rows strip_rows(const struct unit *unit, const struct item *item,
                                           const struct ah_math_matrix *matrix)
{
    const uint64_t strip = item->sight.strip, seq = unit->attention->sizes.seq;
    return (struct ah_attention_rows){matrix,
                                      seq,
                                      unit->sequence,
                                      item->head,
                                      strip * AH_ATTENTION_STRIP,
                                      ah_attention_between(seq, strip, strip + 1)};
}

static void begin_item(struct unit *unit, struct item *item, uint64_t head, uint64_t strip)
{
    const struct ah_attention *attention = unit->attention;
    item->head = head;
    ah_attention_look(&item->sight, attention, unit->sequence, strip);
    const struct ah_attention_rows rows = strip_rows(unit, item, &attention->q);
    ah_attention_pack_b_transposed(item->query, attention, &rows);
    for (uint64_t i = 0; i < LANES; i++)
        item->max[i] = -FLT_MAX;
    memset(item->sum, 0, sizeof(float) * LANES);
    if (item->sight.first_tile < unit->first_tile)
        unit->first_tile = item->sight.first_tile;
    if (item->sight.last_tile > unit->last_tile)
        unit->last_tile = item->sight.last_tile;
}

static void begin_unit(struct unit *unit, const struct cut *cut, uint64_t number)
{
    const struct ah_attention *attention = unit->attention;
    const uint64_t strip_set =
        cut->strip_sets - 1 - number % cut->strip_sets; /* units with the most work first */
    const uint64_t head_set = number / cut->strip_sets % cut->head_sets;
    const uint64_t kv = number / cut->strip_sets / cut->head_sets;
    unit->sequence = kv / attention->sizes.kv_heads;
    unit->kv_head = kv % attention->sizes.kv_heads;
    unit->first_tile = UINT64_MAX;
    const uint64_t end = strip_set * cut->strips + cut->strips;
    for (uint64_t strip = strip_set * cut->strips; strip < end && strip < attention->strips; strip++)
        for (uint64_t head = head_set * cut->heads;
             head < (head_set + 1) * cut->heads && head < attention->group; head++)
            begin_item(unit, &unit->items[unit->n++], unit->kv_head * attention->group + head, strip);
}

/* Packs keys and values of the block that begins with tile `block`, as far as the unit sees them. */
static void pack_block(const struct unit *unit, uint64_t block)
{
    const struct ah_attention *attention = unit->attention;
    const uint64_t end = ah_attention_end(block, unit->last_tile);
    struct ah_attention_rows rows = {&attention->k, attention->keys, unit->sequence, unit->kv_head, 0, 0};
    for (uint64_t tile = block > unit->first_tile ? block : unit->first_tile; tile < end; tile++) {
        rows.first = tile * AH_ATTENTION_TILE;
        rows.count = ah_attention_between(attention->keys, tile, tile + 1);
        ah_attention_pack_a(key_of(unit, tile - block), attention, &rows);
    }
    rows.matrix = &attention->v;
    rows.first = block * AH_ATTENTION_TILE;
    rows.count = ah_attention_between(attention->keys, block, end);
    ah_attention_pack_a_transposed(unit->value, attention, &rows);
}

/* Computes the scaled and masked scores of tiles [`first`, `end`), and the item's new largest scores in `ret_max`. */
static void score_tiles(const struct unit *unit, const struct item *item, uint64_t block, uint64_t first,
                        uint64_t end, float *ret_max)
{
    const struct ah_attention *attention = unit->attention;
    struct ah_attention_limits limits;
    memcpy(ret_max, item->max, sizeof(float) * LANES);
    for (uint64_t tile = first; tile < end; tile++) {
        float *scores = unit->scores + (tile - first) * AH_TILE_SUMS;
        ah_attention_multiply(scores, attention, key_of(unit, tile - block),
                              ah_attention_between(attention->keys, tile, tile + 1), item->query);
        if (attention->sizes.soft_cap > 0)
            attention->steps->cap(scores, attention->bend);
        attention->steps->scale(scores, attention->factor, ah_attention_limit(&limits, &item->sight, tile),
                                ret_max);
    }
}

/* Rescales the item's sums to new largest scores. Before the first block there are no sums. */
static void rescale_sums(const struct ah_attention *attention, const struct item *item, const float *max,
                         bool is_first)
{
    float factor[LANES];
    if (!is_first && memcmp(item->max, max, sizeof factor) != 0) {
        attention->steps->decay(factor, item->max, max);
        attention->steps->rescale(item->sum, 1, factor);
        attention->steps->rescale(item->out, attention->sizes.head_dim, factor);
    }
    memcpy(item->max, max, sizeof factor);
}

/* Adds a block, as far as an item sees it, to the item's sums. */
static void attend_block(const struct unit *unit, const struct item *item, uint64_t block)
{
    const struct ah_attention *attention = unit->attention;
    const uint64_t first = block > item->sight.first_tile ? block : item->sight.first_tile;
    const uint64_t end = ah_attention_end(block, item->sight.last_tile);
    float max[LANES];
    if (first >= end)
        return;
    score_tiles(unit, item, block, first, end, max);
    const bool is_first = first == item->sight.first_tile;
    rescale_sums(attention, item, max, is_first);
    attention->steps->weigh(unit->scores, (end - first) * AH_ATTENTION_TILE, item->max, item->sum);
    const uint64_t before = ah_attention_words(attention, (first - block) * AH_ATTENTION_TILE);
    struct ah_tile_operands operands = {
        .a_bytes = AH_TILE_ROW_BYTES,
        .b = unit->scores,
        .words = ah_attention_words(attention, ah_attention_between(attention->keys, first, end)),
    };
    for (uint64_t panel = 0; panel < attention->panels; panel++) {
        operands.a = unit->value + panel * AH_ATTENTION_A_BYTES + before * sizeof(uint32_t);
        operands.rows = ah_attention_panel(attention, panel);
        attention->kernel->multiply(item->out + panel * AH_TILE_SUMS, &operands, is_first);
    }
}

static void end_item(const struct unit *unit, const struct item *item)
{
    const struct ah_attention *attention = unit->attention;
    const struct ah_attention_rows rows = strip_rows(unit, item, &attention->out);
    float inverse[LANES], lse[LANES];
    attention->steps->finish(inverse, lse, item->max, item->sum);
    attention->steps->rescale(item->out, attention->sizes.head_dim, inverse);
    ah_attention_store_transposed(attention, &rows, item->out, unit->scores);
    memcpy(attention->lse + ah_attention_query(attention, &rows), lse, sizeof(float) * rows.count);
}

static void run_unit(void *context, size_t number, unsigned worker)
{
    const struct ah_attention *attention = context;
    const struct cut cut = cut_of(attention);
    struct ah_attention_room room = {attention->workspace + worker * attention->workspace_bytes, 0};
    struct unit unit = {.attention = attention};
    place_unit(&unit, &room, attention);
    ah_attention_kernel_begin(attention);
    begin_unit(&unit, &cut, number);
    for (uint64_t tile = unit.first_tile / AH_ATTENTION_BLOCK_TILES * AH_ATTENTION_BLOCK_TILES;
         tile <= unit.last_tile; tile += AH_ATTENTION_BLOCK_TILES) {
        pack_block(&unit, tile);
        for (uint64_t i = 0; i < unit.n; i++)
            attend_block(&unit, &unit.items[i], tile);
    }
    for (uint64_t i = 0; i < unit.n; i++)
        end_item(&unit, &unit.items[i]);
    ah_attention_kernel_end(attention);
}

void ah_attention_run(const struct ah_host *host, const struct ah_op *op)
{
    struct ah_attention attention;
    const struct ah_op_attention *sizes = &op->u.attention;
    ah_attention_begin(&attention, host, op, (enum ah_dtype)op->arg[2].dtype);
    attention.out = ah_attention_matrix(host, op, 0, sizes->heads);
    attention.lse = ah_host_operand(host, op, 1);
    attention.q = ah_attention_matrix(host, op, 2, sizes->heads);
    attention.k = ah_attention_matrix(host, op, 3, sizes->kv_heads);
    attention.v = ah_attention_matrix(host, op, 4, sizes->kv_heads);
    attention.docs = ah_host_operand(host, op, 5);
    const struct cut cut = cut_of(&attention);
    ah_pool_run(host->pool, run_unit, &attention,
                (size_t)sizes->batch * sizes->kv_heads * cut.head_sets * cut.strip_sets);
}
