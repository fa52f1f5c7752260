/* SPDX-License-Identifier: Apache-2.0
 *
 * Sizes were chosen by measuring (bench/bench_matmul.c): tiles large enough that oneDNN's kernels run at full
 * speed and small enough that 16 threads share a product of 512 tokens; packed groups stay in the last cache.
 */
#include "runtime/device/cpu/blocking.h"

#include "runtime/device/cpu/pack.h"
#include "runtime/device/op.h"

enum {
    TILE_M = 128,
    TILE_M_STEP = 32,
    TILE_N = 768,
    CHUNK_K = 8192,
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

/* As many tiles as fit GROUP_BYTES, at least one. */
static uint64_t group_of(uint64_t tile, uint64_t whole, uint64_t row_bytes)
{
    uint64_t tiles = GROUP_BYTES / (tile * row_bytes);
    uint64_t group = tile * (tiles ? tiles : 1);
    return group < whole ? group : whole;
}

uint64_t ah_blocking_padded_k(const struct ah_matmul_shape *shape, uint64_t k)
{
    return shape->in == AH_BF16 ? ah_pack_padded(AH_BF16, k) : k;
}

struct ah_blocking ah_blocking_of(const struct ah_matmul_shape *shape)
{
    uint64_t element = ah_dtype_bytes(shape->in);
    struct ah_blocking blocking = {
        .tile_m = even_part(shape->m, TILE_M, TILE_M_STEP),
        .tile_n = even_part(shape->n, TILE_N, AH_BLOCKING_PIECE),
        .chunk_k = shape->k <= CHUNK_K_MOST ? shape->k : even_part(shape->k, CHUNK_K, CHUNK_K_STEP),
    };
    blocking.row_k = ah_blocking_padded_k(shape, blocking.chunk_k);
    blocking.packs_a =
        shape->form == AH_MATMUL_TN || blocking.chunk_k < shape->k || blocking.row_k != blocking.chunk_k;
    blocking.group_m = group_of(blocking.tile_m, shape->m, blocking.row_k * element);
    blocking.group_n = group_of(blocking.tile_n, shape->n, blocking.row_k * element);
    return blocking;
}
