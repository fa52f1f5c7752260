/* SPDX-License-Identifier: Apache-2.0
 *
 * Cuts c into even units that fit the caches, in the way that is fastest by this estimate:
 *
 *     cost of a unit = tiles * cycles of a tile + squares packed * cycles of a square        (per 16 words of k)
 *     finished after ceil(units / threads) rounds of units
 *
 * The constants were measured (bench/bench_matmul.c); the choice is good even if they are wrong by 50 %.
 */
#include "runtime/device/tile/blocking.h"

#include "runtime/device/tile/pack.h"

enum {
    STEP_WORDS = AH_TILE_WORDS,
    CHUNK_STEPS = 4,
    UNIT_N_MOST = 384, /* with the words of a chunk, this makes 768 KiB of packed b */
    UNIT_N_FEW =
        768, /* for an a so large that reading it twice costs more than exceeding the second-level cache */
    LARGE_A = 32 << 20,    /* bytes from which a is large */
    UNIT_M_MOST = 2048,    /* used only if k is one chunk, because then only a strip's sums are kept */
    SUMS_MOST = 256 << 10, /* largest unit, in elements, whose sums are kept from chunk to chunk */
    PARTS_MOST =
        4, /* parts of m are tried up to this many times the fewest; twice as many for a large a, so that some fit */
    PARTS_PER_THREAD = 4 /* this many further parts of m per thread are tried */
};

/* Cycles for packing 16 x 16 words. */
static const double cycles_straight = 200;
static const double cycles_transposed = 250;

/* The time for which other threads wait for the slowest thread, as a fraction of a unit's time. */
static const double wait_share = 0.25;

uint64_t ah_blocking_parts(uint64_t whole, uint64_t part)
{
    return whole / part + (whole % part != 0);
}

uint64_t ah_blocking_part(uint64_t whole, uint64_t part, uint64_t i)
{
    return whole - i * part < part ? whole - i * part : part;
}

/* Returns the size of `parts` even parts of `whole`, rounded up to a multiple of `step`. */
static uint64_t even_part(uint64_t whole, uint64_t parts, uint64_t step)
{
    return ah_blocking_parts(ah_blocking_parts(whole, parts), step) * step;
}

static double unit_cost(const struct ah_matmul_shape *shape, const struct ah_tile_kernel *kernel,
                        const struct ah_blocking *blocking)
{
    double strips = (double)blocking->unit_m / AH_TILE_ROWS,
           panels = (double)blocking->unit_n / AH_TILE_COLUMNS;
    double a = shape->form == AH_MATMUL_TN ? cycles_transposed : cycles_straight;
    double b = shape->form == AH_MATMUL_NT ? cycles_transposed : cycles_straight;
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

struct ah_matmul_shape ah_blocking_shape(const struct ah_op *op)
{
    const struct ah_op_matmul *matmul = &op->u.matmul;
    return (struct ah_matmul_shape){
        .form = (enum ah_matmul_form)matmul->form,
        .in = (enum ah_dtype)op->arg[1].dtype,
        .out = (enum ah_dtype)op->arg[0].dtype,
        .has_bias = matmul->epilogue == AH_EPILOGUE_BIAS,
        .bias = (enum ah_dtype)op->arg[3].dtype,
        .accumulate = matmul->accumulate,
        .m = matmul->m,
        .n = matmul->n,
        .k = matmul->k,
    };
}

/* Reserves `bytes` at `*end`, on whole pages. Returns their offset and moves `*end` behind them. */
static size_t place_pages(size_t *end, size_t bytes)
{
    size_t at = *end;
    *end += (bytes + 4095) / 4096 * 4096;
    return at;
}

bool ah_blocking_keeps_sums(const struct ah_matmul_shape *shape, const struct ah_blocking *blocking)
{
    return blocking->chunk_k < shape->k;
}

struct ah_blocking_memory ah_blocking_memory_of(const struct ah_matmul_shape *shape,
                                                const struct ah_tile_kernel *kernel,
                                                const struct ah_blocking *blocking)
{
    const uint64_t words = ah_pack_words(kernel, blocking->chunk_k);
    const uint64_t rows = ah_blocking_keeps_sums(shape, blocking) ? blocking->unit_m : AH_TILE_ROWS;
    struct ah_blocking_memory memory = {0};
    memory.a = place_pages(&memory.end, sizeof(uint32_t) * AH_TILE_ROWS * AH_TILE_WORDS);
    memory.b = place_pages(&memory.end, sizeof(uint32_t) * blocking->unit_n * words);
    memory.sums = place_pages(&memory.end, sizeof(float) * blocking->unit_n * rows);
    return memory;
}

uint64_t ah_blocking_bytes(const struct ah_matmul_shape *shape, unsigned threads)
{
    uint64_t most = 0;
    for (int level = 0; level < AH_TILE_LEVELS; level++) {
        const struct ah_tile_kernel *kernel = ah_tile_kernel((enum ah_tile_level)level, shape->in);
        const struct ah_blocking blocking = ah_blocking_of(shape, kernel, threads);
        const uint64_t bytes = ah_blocking_memory_of(shape, kernel, &blocking).end;
        most = bytes > most ? bytes : most;
    }
    return most;
}
