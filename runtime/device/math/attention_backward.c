/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention, backward: dq, dk, dv from dout, q, k, v, out and lse, in one pass, which recomputes the scores:
 *
 *     p = 2^(s - lse)      s = scale k q^T; s and lse are in powers of two
 *     g = v dout^T         the gradient of p
 *     d = p scale (g - delta)    delta = each query's sum of dout * out, kept in the op's scratch
 *                                with a soft cap: s = cap t, t = tanh(scale k q^T / cap), and d also times 1 - t^2
 *     dv += p dout         dk += d q         dq^T += k^T d
 *
 * A UNIT is one head of k and v of one sequence, with all query heads that share it. One thread computes it; sums of dk
 * and dv for the whole sequence are in its workspace:
 *
 *     for each head, chunk of queries
 *         pack q and dout of the chunk, also transposed; compute delta
 *         for each block of keys that the chunk sees, ascending
 *             pack k, v, and k transposed
 *             for each block of 128 queries of the chunk
 *                 for each tile of keys: s, g, p, d of its strips; dv += p dout, dk += d q
 *                 for each strip: dq^T += k^T d
 *         store dq
 *     store dk, dv
 *
 * 1. One thread sums each element of dq over keys, and each of dk and dv over heads, then queries, all in ascending
 *    order. So bits do not depend on threads. Each pair of query and key costs five products.
 * 2. A strip that sees nothing of a tile is skipped, unless it lies between strips that see the tile (possible if
 *    `docs` do not ascend). If it does, its masked keys add zeros.
 * 3. p and d of keys beyond the sequence are 0, and packed queries beyond it are 0, so neither changes a sum.
 */
#include "runtime/device/math/attention_internal.h"

enum {
    LANES = AH_ATTENTION_STRIP,
    BLOCK_STRIPS = AH_ATTENTION_BLOCK_TILES,
    CHUNK_BLOCKS = 2,
    CHUNK_STRIPS = CHUNK_BLOCKS * BLOCK_STRIPS
};

struct strip {
    struct ah_attention_sight sight;
    uint32_t *query; /* packed like operand `b`; k runs along the head */
    uint32_t *dout;
    float *dquery;  /* (panels, 32, LANES): sums */
    float *dscores; /* (keys of a block, LANES), as a b */
    float lse[LANES];
    float delta[LANES]; /* delta times -scale */
};

/* A block of 128 queries. */
struct queries {
    struct strip strips[BLOCK_STRIPS];
    uint64_t n;      /* number of strips */
    uint32_t *query; /* packed as a b, k along the queries */
    uint32_t *dout;
    uint64_t panel_words; /* number of words from one panel to the next */
};

struct unit {
    const struct ah_attention *attention;
    uint64_t sequence;
    uint64_t kv_head;
    uint64_t head;
    struct queries queries[CHUNK_BLOCKS];
    uint64_t n;          /* number of blocks of queries */
    uint64_t first_tile; /* the first and the last tile that the chunk sees */
    uint64_t last_tile;
    unsigned char *key;            /* (tiles of a block, steps): packed keys */
    unsigned char *value;          /* (tiles of a block, steps): packed values */
    unsigned char *key_transposed; /* (panels): packed keys, transposed */
    unsigned char *weights;        /* weights for a tile, packed like operand `a` */
    unsigned char *dscores;        /* slopes for a tile, packed like operand `a` */
    float *sums;                   /* two tiles: scores and gradients of weights */
    float *dkey;                   /* (tiles, panels, 32, 32): sums */
    float *dvalue;                 /* (tiles, panels, 32, 32): sums */
};

static void place_queries(struct queries *queries, struct ah_attention_room *room,
                          const struct ah_attention *shape)
{
    const uint64_t block_bytes = sizeof(uint32_t) * shape->panels * AH_ATTENTION_BLOCK * AH_TILE_COLUMNS;
    queries->query = ah_attention_take(room, block_bytes);
    queries->dout = ah_attention_take(room, block_bytes);
    for (uint64_t i = 0; i < BLOCK_STRIPS; i++) {
        struct strip *strip = &queries->strips[i];
        strip->query = ah_attention_take(room, sizeof(uint32_t) * shape->words * LANES);
        strip->dout = ah_attention_take(room, sizeof(uint32_t) * shape->words * LANES);
        strip->dquery = ah_attention_take(room, sizeof(float) * shape->panels * AH_TILE_SUMS);
    }
}

static void place_unit(struct unit *unit, struct ah_attention_room *room, const struct ah_attention *shape)
{
    const uint64_t keys_bytes = shape->steps_per_head * AH_ATTENTION_BLOCK_TILES * AH_ATTENTION_A_BYTES;
    const uint64_t sums_bytes = sizeof(float) * shape->strips * shape->panels * AH_TILE_SUMS;
    unit->key = ah_attention_take(room, keys_bytes);
    unit->value = ah_attention_take(room, keys_bytes);
    unit->key_transposed = ah_attention_take(room, shape->panels * AH_ATTENTION_A_BYTES);
    unit->weights = ah_attention_take(room, AH_ATTENTION_A_BYTES);
    unit->dscores = ah_attention_take(room, AH_ATTENTION_A_BYTES);
    unit->sums = ah_attention_take(room, sizeof(float) * 2 * AH_TILE_SUMS);
    for (uint64_t i = 0; i < BLOCK_STRIPS; i++) {
        float *dscores = ah_attention_take(room, sizeof(float) * AH_ATTENTION_BLOCK * LANES);
        for (uint64_t block = 0; block < CHUNK_BLOCKS; block++)
            unit->queries[block].strips[i].dscores = dscores;
    }
    for (uint64_t block = 0; block < CHUNK_BLOCKS; block++)
        place_queries(&unit->queries[block], room, shape);
    unit->dkey = ah_attention_take(room, sums_bytes);
    unit->dvalue = ah_attention_take(room, sums_bytes);
}

uint64_t ah_attention_backward_bytes(const struct ah_attention *shape)
{
    struct unit unit;
    struct ah_attention_room room = {0};
    place_unit(&unit, &room, shape);
    return room.used;
}

static struct ah_attention_rows query_rows(const struct unit *unit, const struct ah_math_matrix *matrix,
                                           uint64_t strip, uint64_t end)
{
    const uint64_t seq = unit->attention->keys;
    return (struct ah_attention_rows){matrix,
                                      seq,
                                      unit->sequence,
                                      unit->head,
                                      strip * AH_ATTENTION_STRIP,
                                      ah_attention_between(seq, strip, end)};
}

static struct ah_attention_rows key_rows(const struct unit *unit, const struct ah_math_matrix *matrix,
                                         uint64_t tile, uint64_t end)
{
    const uint64_t seq = unit->attention->keys;
    return (struct ah_attention_rows){matrix,
                                      seq,
                                      unit->sequence,
                                      unit->kv_head,
                                      tile * AH_ATTENTION_TILE,
                                      ah_attention_between(seq, tile, end)};
}

static void pack_strip(const struct unit *unit, const struct strip *strip)
{
    const struct ah_attention *attention = unit->attention;
    const uint64_t number = strip->sight.strip;
    const struct ah_attention_rows query = query_rows(unit, &attention->q, number, number + 1);
    const struct ah_attention_rows dout = query_rows(unit, &attention->dout, number, number + 1);
    ah_attention_pack_b_transposed(strip->query, attention, &query);
    ah_attention_pack_b_transposed(strip->dout, attention, &dout);
}

/* Stores delta in the op's scratch; sets the strip's delta (times -scale) and lse (base 2), both 0 beyond the end. */
static void prepare_lanes(const struct unit *unit, struct strip *strip)
{
    const struct ah_attention *attention = unit->attention;
    const struct ah_op_attention *sizes = &attention->sizes;
    const struct ah_attention_rows rows =
        query_rows(unit, &attention->dout, strip->sight.strip, strip->sight.strip + 1);
    const uint64_t at = ah_attention_query(attention, &rows), column = unit->head * sizes->head_dim;
    memset(strip->lse, 0, sizeof strip->lse);
    memset(strip->delta, 0, sizeof strip->delta);
    for (uint64_t i = 0; i < rows.count; i++) {
        const uint64_t row = unit->sequence * sizes->seq + rows.first + i;
        strip->delta[i] = attention->steps->dot(
            ah_math_at(&attention->dout, row, column), attention->dout.dtype,
            ah_math_at(&attention->out, row, column), attention->out.dtype, sizes->head_dim);
        strip->lse[i] = attention->lse[at + i] * 0x1.715476p+0f;
    }
    memcpy(attention->delta + at, strip->delta, sizeof(float) * rows.count);
    for (uint64_t i = 0; i < rows.count; i++)
        strip->delta[i] *= -sizes->scale;
}

static void begin_strip(struct unit *unit, struct strip *strip, uint64_t number)
{
    const struct ah_attention *attention = unit->attention;
    ah_attention_look(&strip->sight, attention, unit->sequence, number);
    pack_strip(unit, strip);
    prepare_lanes(unit, strip);
    if (strip->sight.first_tile < unit->first_tile)
        unit->first_tile = strip->sight.first_tile;
    unit->last_tile = number;
}

/* Prepares up to 128 queries, starting with strip `first`. */
static void begin_queries(struct unit *unit, struct queries *queries, uint64_t first)
{
    const struct ah_attention *attention = unit->attention;
    const uint64_t left = attention->strips - first;
    queries->n = left < BLOCK_STRIPS ? left : BLOCK_STRIPS;
    const struct ah_attention_rows query = query_rows(unit, &attention->q, first, first + queries->n);
    const struct ah_attention_rows dout = query_rows(unit, &attention->dout, first, first + queries->n);
    ah_attention_pack_b(queries->query, attention, &query);
    ah_attention_pack_b(queries->dout, attention, &dout);
    queries->panel_words = ah_attention_words(attention, query.count) * AH_TILE_COLUMNS;
    for (uint64_t i = 0; i < queries->n; i++)
        begin_strip(unit, &queries->strips[i], first + i);
}

static void begin_chunk(struct unit *unit, uint64_t first)
{
    unit->first_tile = UINT64_MAX;
    unit->n = 0;
    for (uint64_t strip = first; strip < first + CHUNK_STRIPS && strip < unit->attention->strips;
         strip += BLOCK_STRIPS)
        begin_queries(unit, &unit->queries[unit->n++], strip);
}

/* Returns the offset in bytes of a block's tile `i` in packed k or v. */
static uint64_t tile_at(const struct unit *unit, uint64_t i)
{
    return i * unit->attention->steps_per_head * AH_ATTENTION_A_BYTES;
}

/* Packs the keys of the block that begins with tile `block`, as far as the chunk sees them. */
static void pack_keys(const struct unit *unit, uint64_t block)
{
    const struct ah_attention *attention = unit->attention;
    const uint64_t end = ah_attention_end(block, unit->last_tile);
    const struct ah_attention_rows whole = key_rows(unit, &attention->k, block, end);
    ah_attention_pack_a_transposed(unit->key_transposed, attention, &whole);
    for (uint64_t tile = block > unit->first_tile ? block : unit->first_tile; tile < end; tile++) {
        const struct ah_attention_rows key = key_rows(unit, &attention->k, tile, tile + 1);
        const struct ah_attention_rows value = key_rows(unit, &attention->v, tile, tile + 1);
        ah_attention_pack_a(unit->key + tile_at(unit, tile - block), attention, &key);
        ah_attention_pack_a(unit->value + tile_at(unit, tile - block), attention, &value);
    }
}

/* Computes weights and slopes of a tile for strip `i` of `queries`, and packs them as operands. */
static void compute_slopes(const struct unit *unit, const struct queries *queries, uint64_t i, uint64_t block,
                           uint64_t tile)
{
    const struct ah_attention *attention = unit->attention;
    const struct strip *strip = &queries->strips[i];
    const uint64_t rows = ah_attention_between(attention->keys, tile, tile + 1);
    const uint64_t words = ah_attention_words(attention, AH_ATTENTION_TILE);
    struct ah_attention_limits limits;
    ah_attention_multiply(unit->sums, attention, unit->key + tile_at(unit, tile - block), rows, strip->query);
    ah_attention_multiply(unit->sums + AH_TILE_SUMS, attention, unit->value + tile_at(unit, tile - block),
                          rows, strip->dout);
    if (attention->sizes.soft_cap > 0)
        attention->steps->cap(unit->sums, attention->bend);
    const struct ah_attention_slopes slopes = {
        .scores = unit->sums,
        .dweights = unit->sums + AH_TILE_SUMS,
        .factor = attention->factor,
        .capped = attention->sizes.soft_cap > 0,
        .scale = attention->sizes.scale,
        .lse = strip->lse,
        .delta = strip->delta,
        .limits = ah_attention_limit(&limits, &strip->sight, tile),
        .weights = unit->weights + i * words * sizeof(uint32_t),
        .dscores = unit->dscores + i * words * sizeof(uint32_t),
        .dscores_b = strip->dscores + (tile - block) * words * AH_TILE_COLUMNS,
    };
    attention->steps->slopes(&slopes);
}

static bool sees(const struct strip *strip, uint64_t tile)
{
    return tile >= strip->sight.first_tile && tile <= strip->sight.strip;
}

/* Adds to a tile's dv and dk the contribution of the `queries` that see the tile. */
static void add_keys(const struct unit *unit, const struct queries *queries, uint64_t block, uint64_t tile)
{
    const struct ah_attention *attention = unit->attention;
    const uint64_t first_strip = queries->strips[0].sight.strip;
    uint64_t first = 0, end = queries->n;
    while (first < end && !sees(&queries->strips[first], tile))
        first++;
    while (first < end && !sees(&queries->strips[end - 1], tile))
        end--;
    if (first == end)
        return;
    for (uint64_t i = first; i < end; i++)
        compute_slopes(unit, queries, i, block, tile);
    /* The strip on the diagonal, in the unit's first head, is the first to add to a tile. */
    const bool is_first = first_strip + first == tile && unit->head == unit->kv_head * attention->group;
    const uint64_t before = ah_attention_words(attention, first * AH_ATTENTION_STRIP);
    struct ah_tile_operands operands = {
        .a_bytes = AH_TILE_ROW_BYTES,
        .rows = ah_attention_between(attention->keys, tile, tile + 1),
        .words = ah_attention_words(
            attention, ah_attention_between(attention->keys, first_strip + first, first_strip + end)),
    };
    for (uint64_t panel = 0; panel < attention->panels; panel++) {
        const uint64_t b = panel * queries->panel_words + before * AH_TILE_COLUMNS;
        const uint64_t sums = (tile * attention->panels + panel) * AH_TILE_SUMS;
        operands.a = unit->weights + before * sizeof(uint32_t);
        operands.b = queries->dout + b;
        attention->kernel->multiply(unit->dvalue + sums, &operands, is_first);
        operands.a = unit->dscores + before * sizeof(uint32_t);
        operands.b = queries->query + b;
        attention->kernel->multiply(unit->dkey + sums, &operands, is_first);
    }
}

/* Adds to a strip's dq the contribution of the block's keys, as far as the strip sees them. */
static void add_queries(const struct unit *unit, const struct strip *strip, uint64_t block)
{
    const struct ah_attention *attention = unit->attention;
    const uint64_t first = block > strip->sight.first_tile ? block : strip->sight.first_tile;
    const uint64_t end = ah_attention_end(block, strip->sight.strip);
    if (first >= end)
        return;
    const uint64_t before = ah_attention_words(attention, (first - block) * AH_ATTENTION_TILE);
    struct ah_tile_operands operands = {
        .a_bytes = AH_TILE_ROW_BYTES,
        .b = strip->dscores + before * AH_TILE_COLUMNS,
        .words = ah_attention_words(attention, ah_attention_between(attention->keys, first, end)),
    };
    for (uint64_t panel = 0; panel < attention->panels; panel++) {
        operands.a = unit->key_transposed + panel * AH_ATTENTION_A_BYTES + before * sizeof(uint32_t);
        operands.rows = ah_attention_panel(attention, panel);
        attention->kernel->multiply(strip->dquery + panel * AH_TILE_SUMS, &operands,
                                    first == strip->sight.first_tile);
    }
}

static void end_chunk(const struct unit *unit)
{
    const struct ah_attention *attention = unit->attention;
    for (uint64_t block = 0; block < unit->n; block++)
        for (uint64_t i = 0; i < unit->queries[block].n; i++) {
            const struct strip *strip = &unit->queries[block].strips[i];
            const struct ah_attention_rows rows =
                query_rows(unit, &attention->dq, strip->sight.strip, strip->sight.strip + 1);
            ah_attention_store_transposed(attention, &rows, strip->dquery, unit->sums);
        }
}

static void run_chunk(struct unit *unit, uint64_t first)
{
    begin_chunk(unit, first);
    for (uint64_t block = unit->first_tile / AH_ATTENTION_BLOCK_TILES * AH_ATTENTION_BLOCK_TILES;
         block <= unit->last_tile; block += AH_ATTENTION_BLOCK_TILES) {
        pack_keys(unit, block);
        for (uint64_t i = 0; i < unit->n; i++) {
            const struct queries *queries = &unit->queries[i];
            for (uint64_t tile = block; tile < ah_attention_end(block, unit->last_tile); tile++)
                add_keys(unit, queries, block, tile);
            for (uint64_t s = 0; s < queries->n; s++)
                add_queries(unit, &queries->strips[s], block);
        }
    }
    end_chunk(unit);
}

static void store_keys(const struct unit *unit)
{
    const struct ah_attention *attention = unit->attention;
    for (uint64_t tile = 0; tile < attention->strips; tile++) {
        const uint64_t sums = tile * attention->panels * AH_TILE_SUMS;
        const struct ah_attention_rows dkey = key_rows(unit, &attention->dk, tile, tile + 1);
        const struct ah_attention_rows dvalue = key_rows(unit, &attention->dv, tile, tile + 1);
        ah_attention_store(attention, &dkey, unit->dkey + sums);
        ah_attention_store(attention, &dvalue, unit->dvalue + sums);
    }
}

static void run_unit(void *context, size_t number, unsigned worker)
{
    const struct ah_attention *attention = context;
    struct ah_attention_room room = {attention->workspace + worker * attention->workspace_bytes, 0};
    struct unit unit = {
        .attention = attention,
        .sequence = number / attention->sizes.kv_heads,
        .kv_head = number % attention->sizes.kv_heads,
    };
    place_unit(&unit, &room, attention);
    ah_attention_kernel_begin(attention);
    for (uint64_t i = 0; i < attention->group; i++) {
        unit.head = unit.kv_head * attention->group + i;
        for (uint64_t strip = 0; strip < attention->strips; strip += CHUNK_STRIPS)
            run_chunk(&unit, strip);
    }
    ah_attention_kernel_end(attention);
    store_keys(&unit);
}

/* Returns the type of elements that products read: bf16 only if all operands are bf16. */
static enum ah_dtype type_of(const struct ah_op *op)
{
    return op->arg[3].dtype == AH_BF16 && op->arg[4].dtype == AH_BF16 ? AH_BF16 : AH_FP32;
}

void ah_attention_run_backward(const struct ah_host *host, const struct ah_op *op)
{
    struct ah_attention attention;
    const struct ah_op_attention *sizes = &op->u.attention;
    ah_attention_begin(&attention, host, op, type_of(op));
    attention.dq = ah_attention_matrix(host, op, 0, sizes->heads);
    attention.dk = ah_attention_matrix(host, op, 1, sizes->kv_heads);
    attention.dv = ah_attention_matrix(host, op, 2, sizes->kv_heads);
    attention.dout = ah_attention_matrix(host, op, 3, sizes->heads);
    attention.q = ah_attention_matrix(host, op, 4, sizes->heads);
    attention.k = ah_attention_matrix(host, op, 5, sizes->kv_heads);
    attention.v = ah_attention_matrix(host, op, 6, sizes->kv_heads);
    attention.out = ah_attention_matrix(host, op, 7, sizes->heads);
    attention.lse = ah_host_operand(host, op, 8);
    attention.docs = ah_host_operand(host, op, 9);
    attention.delta = ah_host_operand(host, op, 10);
    ah_pool_run(host->pool, run_unit, &attention, (size_t)sizes->batch * sizes->kv_heads);
}
