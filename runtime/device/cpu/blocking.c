/* SPDX-License-Identifier: Apache-2.0
 *
 * Of all ways to cut c into even units that fit the caches, the one that is done first is taken, by an estimate:
 *
 *     cost of a unit = tiles * cycles of a tile + squares packed * cycles of a square        (per 16 words of k)
 *     done after ceil(units / threads) units
 *
 * The constants were measured (bench/bench_matmul.c); the choice is good where they are wrong by half.
 */
#include "runtime/device/cpu/blocking.h"

enum {
    STEP_WORDS = AH_TILE_WORDS,
    CHUNK_STEPS = 4,
    UNIT_N_MOST = 384,     /* with a chunk's words: 768 KiB of packed b */
    UNIT_N_FEW = 768,      /* where a is so large that reading it twice costs more than a full second cache */
    LARGE_A = 32 << 20,    /* bytes */
    UNIT_M_MOST = 2048,    /* where k is one chunk, and sums are a strip's only */
    SUMS_MOST = 256 << 10, /* elements of a unit whose sums are kept from chunk to chunk */
    PARTS_MOST =
        4, /* of what a unit may have of m, and twice that where it may have twice of n: then some fit */
    PARTS_PER_THREAD = 4 /* of m that are tried */
};

/* Cycles for packing 16 x 16 words. */
static const double cycles_straight = 200;
static const double cycles_turned = 250;

/* Of a unit: how long the others wait for the slowest thread. */
static const double wait_share = 0.25;

uint64_t ah_blocking_parts(uint64_t whole, uint64_t part)
{
    return whole / part + (whole % part != 0);
}

uint64_t ah_blocking_part(uint64_t whole, uint64_t part, uint64_t i)
{
    return whole - i * part < part ? whole - i * part : part;
}

/* The size of `parts` parts that are even but for whole multiples of `step`. */
static uint64_t even_part(uint64_t whole, uint64_t parts, uint64_t step)
{
    return ah_blocking_parts(ah_blocking_parts(whole, parts), step) * step;
}

static double unit_cost(const struct ah_matmul_shape *shape, const struct ah_tile_kernel *kernel,
                        const struct ah_blocking *blocking)
{
    double strips = (double)blocking->unit_m / AH_TILE_ROWS,
           panels = (double)blocking->unit_n / AH_TILE_COLUMNS;
    double a = shape->form == AH_MATMUL_TN ? cycles_turned : cycles_straight;
    double b = shape->form == AH_MATMUL_NT ? cycles_turned : cycles_straight;
    return strips * panels * kernel->tile_cycles + 2 * strips * a + 2 * panels * b;
}

static double cost(const struct ah_matmul_shape *shape, const struct ah_tile_kernel *kernel,
                   const struct ah_blocking *blocking, unsigned threads)
{
    uint64_t units =
        ah_blocking_parts(shape->m, blocking->unit_m) * ah_blocking_parts(shape->n, blocking->unit_n);
    return ((double)ah_blocking_parts(units, threads) + wait_share) * unit_cost(shape, kernel, blocking);
}

static bool fits(const struct ah_matmul_shape *shape, const struct ah_blocking *blocking)
{
    return blocking->unit_m <= UNIT_M_MOST &&
           (blocking->chunk_k >= shape->k || blocking->unit_m * blocking->unit_n <= SUMS_MOST);
}

struct ah_blocking ah_blocking_of(const struct ah_matmul_shape *shape, const struct ah_tile_kernel *kernel,
                                  unsigned threads)
{
    const uint64_t step_k = (uint64_t)STEP_WORDS * (kernel->words == AH_BF16 ? 2 : 1);
    struct ah_blocking blocking = {.step_k = step_k};
    blocking.chunk_k = even_part(shape->k, ah_blocking_parts(shape->k, CHUNK_STEPS * step_k), step_k);
    struct ah_blocking best = blocking;
    double best_cost = -1;
    const bool is_large = shape->m * shape->k * ah_dtype_bytes(shape->in) > LARGE_A;
    const uint64_t n_least = ah_blocking_parts(shape->n, is_large ? UNIT_N_FEW : UNIT_N_MOST);
    const uint64_t m_least = ah_blocking_parts(shape->m, UNIT_M_MOST);
    const uint64_t m_tried = is_large ? 2 * PARTS_MOST : PARTS_MOST;
    const uint64_t m_most = m_tried * m_least + (uint64_t)PARTS_PER_THREAD * threads;
    for (uint64_t n_parts = n_least; n_parts < n_least + UNIT_N_MOST / AH_TILE_COLUMNS; n_parts++)
        for (uint64_t m_parts = m_least; m_parts < m_most; m_parts++) {
            blocking.unit_n = even_part(shape->n, n_parts, AH_TILE_COLUMNS);
            blocking.unit_m = even_part(shape->m, m_parts, AH_TILE_ROWS);
            double this_cost = cost(shape, kernel, &blocking, threads);
            if (fits(shape, &blocking) && (best_cost < 0 || this_cost < best_cost)) {
                best = blocking;
                best_cost = this_cost;
            }
        }
    return best;
}
