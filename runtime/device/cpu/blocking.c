/* SPDX-License-Identifier: Apache-2.0
 *
 * Sizes were chosen by measuring (bench/bench_matmul.c). A unit's packed columns must stay in a core's cache, and
 * packing must be small against its tiles, which wants many rows; enough units must be left for many threads.
 */
#include "runtime/device/cpu/blocking.h"

#include "runtime/device/cpu/pack.h"
#include "runtime/device/op.h"

enum {
    TILE_M = 128,
    TILE_M_STEP = 32,
    SHORT_ROW_BYTES = 2048,
    TILE_N = 768,
    TILE_N_LEAST = 192,
    TILE_N_STEP = 64,
    COLUMNS_STEP = 4,
    PACKED_BYTES = 768 << 10, /* wanted at most, of a unit's columns of b */
    UNITS = 8, /* wanted at least, where units keep UNIT_M_LEAST rows and TILE_N_LEAST columns */
    UNIT_M_LEAST = 512,
    UNIT_M_MOST = 2048,
    NARROW_BYTES = 1200 << 10, /* a packed b that a core keeps whole */
    NARROW_M_LEAST = 768,
    CHUNK_K = 4096,
    CHUNK_K_MOST = 16384, /* a k up to here is not cut */
    CHUNK_K_STEP = 64,
    GROUP_BYTES = 16 << 20
};

uint64_t ah_blocking_parts(uint64_t whole, uint64_t part)
{
    return whole / part + (whole % part != 0);
}

uint64_t ah_blocking_part(uint64_t whole, uint64_t part, uint64_t i)
{
    return whole - i * part < part ? whole - i * part : part;
}

/* The size of equal parts, at most `most`, all but the last multiples of `step`. */
static uint64_t even_part(uint64_t whole, uint64_t most, uint64_t step)
{
    uint64_t parts = ah_blocking_parts(whole, most);
    uint64_t part = ah_blocking_parts(ah_blocking_parts(whole, parts), step) * step;
    return part < whole ? part : whole;
}

static uint64_t at_least_one(uint64_t n)
{
    return n ? n : 1;
}

static uint64_t lesser(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Units that the rows alone can make. */
static uint64_t row_units(const struct ah_matmul_shape *shape)
{
    return at_least_one(shape->m / UNIT_M_LEAST);
}

/* All columns in one tile: it needs no store of its own, and a thread packs b once for all its units. */
static bool is_narrow(const struct ah_blocking *blocking, const struct ah_matmul_shape *shape)
{
    return shape->n <= TILE_N && shape->m >= NARROW_M_LEAST &&
           shape->n * blocking->row_k * ah_dtype_bytes(shape->in) <= NARROW_BYTES;
}

/* Short rows: more of them in a tile, for fewer primitives. */
static uint64_t tile_m_most(const struct ah_blocking *blocking, const struct ah_matmul_shape *shape)
{
    bool is_short = blocking->row_k * ah_dtype_bytes(shape->in) <= SHORT_ROW_BYTES;
    return is_short && !is_narrow(blocking, shape) ? 2 * TILE_M : TILE_M;
}

/* Columns of a tile: as many as stay in the cache and leave enough units. */
static uint64_t tile_n_of(const struct ah_blocking *blocking, const struct ah_matmul_shape *shape)
{
    uint64_t cached = PACKED_BYTES / (blocking->row_k * ah_dtype_bytes(shape->in));
    uint64_t shared = shape->n / ah_blocking_parts(UNITS, row_units(shape));
    uint64_t most = lesser(lesser(cached, shared), TILE_N);
    if (is_narrow(blocking, shape))
        return shape->n;
    uint64_t parts = ah_blocking_parts(shape->n, most < TILE_N_LEAST ? TILE_N_LEAST : most);
    if (parts > 1) /* threads share them evenly more often */
        parts = ah_blocking_parts(parts, COLUMNS_STEP) * COLUMNS_STEP;
    return even_part(shape->n, ah_blocking_parts(shape->n, parts), TILE_N_STEP);
}

/* Tiles of rows whose packed a, and fp32 sums where k is cut, fit GROUP_BYTES. */
static uint64_t tiles_of_group(const struct ah_blocking *blocking, const struct ah_matmul_shape *shape)
{
    uint64_t row_bytes = blocking->row_k * ah_dtype_bytes(shape->in);
    if (blocking->chunk_k < shape->k)
        row_bytes += shape->n * sizeof(float);
    return at_least_one(GROUP_BYTES / (blocking->tile_m * row_bytes));
}

/* Rows of a unit: many, unless that leaves too few units or a group would not hold it. */
static uint64_t unit_m_of(const struct ah_blocking *blocking, const struct ah_matmul_shape *shape)
{
    uint64_t wanted = ah_blocking_parts(UNITS, ah_blocking_parts(shape->n, blocking->tile_n));
    uint64_t tiles = ah_blocking_parts(shape->m, blocking->tile_m);
    uint64_t unit = ah_blocking_parts(tiles, lesser(wanted, row_units(shape)));
    if (is_narrow(blocking, shape))
        return blocking->tile_m;
    unit = lesser(unit, UNIT_M_MOST / blocking->tile_m);
    if (blocking->packs_a)
        unit = lesser(unit, tiles_of_group(blocking, shape));
    return unit * blocking->tile_m;
}

/* Rows of a group: as many units as it holds, at least one; all where nothing is packed. */
static uint64_t group_m_of(const struct ah_blocking *blocking, const struct ah_matmul_shape *shape)
{
    uint64_t unit_tiles = blocking->unit_m / blocking->tile_m;
    uint64_t group = tiles_of_group(blocking, shape) / unit_tiles * blocking->unit_m;
    return blocking->packs_a && group < shape->m ? group : shape->m;
}

uint64_t ah_blocking_padded_k(const struct ah_matmul_shape *shape, bool pads, uint64_t k)
{
    return pads && shape->in == AH_BF16 ? ah_pack_padded(AH_BF16, k) : k;
}

struct ah_blocking ah_blocking_of(const struct ah_matmul_shape *shape, bool pads)
{
    struct ah_blocking blocking = {
        .chunk_k = shape->k <= CHUNK_K_MOST ? shape->k : even_part(shape->k, CHUNK_K, CHUNK_K_STEP),
    };
    blocking.row_k = ah_blocking_padded_k(shape, pads, blocking.chunk_k);
    blocking.packs_a =
        shape->form == AH_MATMUL_TN || blocking.chunk_k < shape->k || blocking.row_k != blocking.chunk_k;
    blocking.tile_m = even_part(shape->m, tile_m_most(&blocking, shape), TILE_M_STEP);
    blocking.tile_n = tile_n_of(&blocking, shape);
    blocking.unit_m = unit_m_of(&blocking, shape);
    blocking.group_m = group_m_of(&blocking, shape);
    return blocking;
}
