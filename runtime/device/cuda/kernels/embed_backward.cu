/* SPDX-License-Identifier: Apache-2.0
 *
 * Embed, backward: adds rows of dy to the tables, deterministically.
 *
 * A row of a table becomes the sum of its rows of dy plus its old value, rounded once. The sum of a token's rows is
 * first multiplied by the op's scale, in fp32. Rows that no token selects are not touched, nor is the padding token's.
 * Three kernels:
 *
 *   1. ranks: sorts row numbers by token, then row. A row's place is the number of rows before it, which a block
 *      counts by looking at all tokens: n^2 comparisons, two instructions each, on all processors. That takes 5 us for
 *      8192 rows, 75 us for 32768, a fraction of the time of (2). The scratch holds the places.
 *   2. tokens: adds up RUNS, each being the rows of one token. A block has a window of sorted places and a strip of
 *      columns. Its warps share the runs that begin there, and add rows in ascending order. If the last run of a window
 *      is LONG, each warp adds every 8th row of it, and the warps' sums are added in order. dy is read once; of the
 *      table, rows with a run are read and written once.
 *   3. positions: a block has a position and a strip, and adds the position's rows in ascending order. It finds these
 *      by looking at all positions, or computes them where positions repeat. dy is read a second time.
 */
#include "runtime/device/cuda/kernels/elements.cuh"
#include "runtime/device/cuda/kernels/teams.cuh"

namespace
{

enum {
    THREADS = 256,
    WARPS = THREADS / 32,
    STRIP = 8 * 32
}; /* the columns of a strip: eight for each lane of a warp */
enum { WINDOW = 32, LONG = 64, AT_ONCE = 4 };
enum { RANKED = 32, TILE = 1024 }; /* rows that a block ranks; tokens that it looks at between two barriers */

struct task {
    struct ah_rows table, dy;
    const uint32_t *tokens; /* tokens, or positions */
    uint32_t *sorted;       /* row numbers by token */
    uint64_t rows, width, seq, padding;
    uint64_t strips; /* strips of columns; blocks are numbered strip by strip of a window, or of a position */
    float scale;     /* multiplies each sum; 1 for positions */
};

/* Returns the number of tokens in the warp's part of a tile that sort before `row`, whose token is `token`. Equal
 * tokens sort by row. All rows of the block are in one tile, so only there equal tokens are compared one by one. */
__device__ inline uint32_t rank_in_tile(const uint32_t *tile, uint64_t begin, uint64_t row, uint32_t token)
{
    const unsigned part = threadIdx.x / 32 * (TILE / WARPS);
    const uint64_t block = row / RANKED * RANKED;
    const uint32_t limit = begin < block ? token + 1 : token;
    uint32_t count = 0;
    if (begin <= block && block < begin + TILE) {
        for (unsigned i = part; i < part + TILE / WARPS; i++)
            count += tile[i] < token || (tile[i] == token && begin + i < row);
        return count;
    }
    for (unsigned i = part; i < part + TILE / WARPS; i += 4) {
        const uint4 four = *reinterpret_cast<const uint4 *>(tile + i);
        count += four.x < limit;
        count += four.y < limit;
        count += four.z < limit;
        count += four.w < limit;
    }
    return count;
}

/* (1) Ranks RANKED rows a block; in every warp, a lane counts for one row. */
__global__ void __launch_bounds__(THREADS) ranks(struct task t)
{
    __shared__ uint32_t counts[WARPS][RANKED];
    __shared__ __align__(16) uint32_t tile[TILE];
    const uint64_t row = static_cast<uint64_t>(blockIdx.x) * RANKED + threadIdx.x % RANKED;
    const uint32_t token = row < t.rows ? t.tokens[row] : 0;
    uint32_t count = 0;
    for (uint64_t begin = 0; begin < t.rows; begin += TILE) {
        __syncthreads();
        for (unsigned i = threadIdx.x; i < TILE; i += THREADS)
            tile[i] = begin + i < t.rows ? t.tokens[begin + i] : UINT32_MAX;
        __syncthreads();
        count += rank_in_tile(tile, begin, row, token);
    }
    counts[threadIdx.x / RANKED][threadIdx.x % RANKED] = count;
    __syncthreads();
    if (threadIdx.x >= RANKED || row >= t.rows)
        return;
    for (unsigned warp = 1; warp < WARPS; warp++)
        count += counts[warp][threadIdx.x];
    t.sorted[count] = static_cast<uint32_t>(row);
}

/* Adds eight columns of the rows at places begin, begin + stride, ... below end. */
template <int D>
__device__ inline void add_rows(const struct task *t, const uint32_t *places, uint64_t begin, uint64_t end,
                                unsigned stride, uint64_t column, float sum[8])
{
    for (uint64_t place = begin; place < end; place += AT_ONCE * stride) {
        struct ah_eight<D> eights[AT_ONCE];
        float v[8];
        for (unsigned k = 0; k < AT_ONCE; k++)
            if (place + k * stride < end)
                ah_load(&eights[k], ah_row<D>(t->dy, places[place + k * stride], 0), column,
                        t->width - column);
        for (unsigned k = 0; k < AT_ONCE; k++)
            if (place + k * stride < end) {
                ah_floats(eights[k], v);
                for (unsigned j = 0; j < 8; j++)
                    sum[j] += v[j];
            }
    }
}

/* Loads eight columns of the table's row whose sum is being computed. */
template <int D>
__device__ inline void table_load(const struct task *t, uint64_t row, uint64_t column,
                                  struct ah_eight<D> *ret_before)
{
    ah_load(ret_before, ah_row<D>(t->table, row, 0), column, t->width - column);
}

template <int D>
__device__ inline void table_add(const struct task *t, uint64_t row, uint64_t column,
                                 const struct ah_eight<D> &before, const float sum[8])
{
    float v[8];
    ah_floats(before, v);
    for (unsigned j = 0; j < 8; j++)
        v[j] += t->scale * sum[j];
    ah_store(ah_row<D>(t->table, row, 0), column, t->width - column, v);
}

__device__ inline uint32_t token_at(const struct task *t, uint64_t place)
{
    return t->tokens[t->sorted[place]];
}

/* Returns the end of the run of `token` around `place`. A warp looks at 32 places at once. */
__device__ inline uint64_t run_end(const struct task *t, uint64_t place, uint32_t token)
{
    for (;; place += 32) {
        const uint64_t mine = place + threadIdx.x % 32;
        const unsigned same = __ballot_sync(~0u, mine < t->rows && token_at(t, mine) == token);
        if (~same)
            return place + static_cast<unsigned>(__ffs(static_cast<int>(~same))) - 1;
    }
}

/* Sums a long run with all warps of the block; `shared` has the shape (WARPS, 8, 32). */
template <int D>
__device__ inline void add_long_run(const struct task *t, uint64_t begin, uint64_t end, uint64_t column,
                                    float (*shared)[8][32])
{
    const unsigned warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    float sum[8] = {0, 0, 0, 0, 0, 0, 0, 0};
    if (column < t->width)
        add_rows<D>(t, t->sorted, begin + warp, end, WARPS, column, sum);
    for (unsigned j = 0; j < 8; j++)
        shared[warp][j][lane] = sum[j];
    __syncthreads();
    if (warp != 0 || column >= t->width)
        return;
    for (unsigned other = 1; other < WARPS; other++)
        for (unsigned j = 0; j < 8; j++)
            sum[j] += shared[other][j][lane];
    struct ah_eight<D> before;
    table_load(t, token_at(t, begin), column, &before);
    table_add(t, token_at(t, begin), column, before, sum);
}

/* Sums a run with one warp. */
template <int D>
__device__ inline void add_run(const struct task *t, uint64_t begin, uint64_t end, uint64_t column)
{
    const uint32_t token = token_at(t, begin);
    struct ah_eight<D> before;
    float sum[8] = {0, 0, 0, 0, 0, 0, 0, 0};
    table_load(t, token, column, &before);
    add_rows<D>(t, t->sorted, begin, end, 1, column, sum);
    table_add(t, token, column, before, sum);
}

/* (2) Adds the runs of a window. All warps of a block find the same runs. */
template <int D> __global__ void __launch_bounds__(THREADS) tokens(struct task t)
{
    __shared__ float shared[WARPS][8][32];
    const unsigned warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const uint64_t window = blockIdx.x / t.strips * WINDOW, mine = window + lane;
    const uint64_t column = blockIdx.x % t.strips * STRIP + 8 * lane;
    const bool begins = mine < t.rows && (mine == 0 || token_at(&t, mine - 1) != token_at(&t, mine));
    unsigned begin = __ballot_sync(~0u, begins);
    for (unsigned run = 0; begin; run++, begin &= begin - 1) {
        const uint64_t first = window + static_cast<unsigned>(__ffs(static_cast<int>(begin))) - 1;
        const unsigned next = begin & (begin - 1);
        const uint64_t end = next ? window + static_cast<unsigned>(__ffs(static_cast<int>(next))) - 1
                                  : run_end(&t, first, token_at(&t, first));
        if (token_at(&t, first) + 1ull == t.padding)
            continue;
        if (end - first > LONG)
            add_long_run<D>(&t, first, end, column, shared);
        else if (run % WARPS == warp && column < t.width)
            add_run<D>(&t, first, end, column);
    }
}

/* Lists, in ascending order, those of THREADS candidates that have the position, and returns their number. The
 * candidates are all rows or, if positions repeat every seq rows, the rows of this position. */
__device__ inline unsigned find_rows(const struct task *t, uint64_t position, uint64_t first, uint32_t *list,
                                     unsigned *counts)
{
    const unsigned warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const uint64_t row = t->tokens ? first + threadIdx.x : position + (first + threadIdx.x) * t->seq;
    const bool found = row < t->rows && (!t->tokens || t->tokens[row] == position);
    const unsigned all = __ballot_sync(~0u, found);
    unsigned before = 0, total = 0;
    if (lane == 0)
        counts[warp] = static_cast<unsigned>(__popc(all));
    __syncthreads();
    for (unsigned other = 0; other < WARPS; other++) {
        before += other < warp ? counts[other] : 0;
        total += counts[other];
    }
    if (found)
        list[before + static_cast<unsigned>(__popc(all & ((1u << lane) - 1)))] = static_cast<uint32_t>(row);
    __syncthreads();
    return total;
}

/* (3) Adds the rows of a position. A strip has eight columns for each thread. */
template <int D> __global__ void __launch_bounds__(THREADS) positions(struct task t)
{
    __shared__ uint32_t list[THREADS];
    __shared__ unsigned counts[WARPS];
    const uint64_t position = blockIdx.x / t.strips;
    const uint64_t column = 8 * (blockIdx.x % t.strips * THREADS + threadIdx.x);
    const uint64_t candidates = t.tokens ? t.rows : (t.rows + t.seq - 1) / t.seq;
    float sum[8] = {0, 0, 0, 0, 0, 0, 0, 0};
    bool any = false;
    for (uint64_t first = 0; first < candidates; first += THREADS) {
        const unsigned n = find_rows(&t, position, first, list, counts);
        any = any || n;
        if (column < t.width)
            add_rows<D>(&t, list, 0, n, 1, column, sum);
    }
    if (any && column < t.width) {
        struct ah_eight<D> before;
        table_load(&t, position, column, &before);
        table_add(&t, position, column, before, sum);
    }
}

typedef void table_kernel(struct task);

int version_of(const struct task *t)
{
    const struct ah_rows *const operands[] = {&t->dy, &t->table};
    return ah_rows_versions(operands, 2, t->width);
}

cudaError_t add_tokens(cudaStream_t stream, struct task *t)
{
    const int version = version_of(t);
    table_kernel *const kernel = version == AH_BF16   ? tokens<AH_BF16>
                                 : version == AH_FP32 ? tokens<AH_FP32>
                                                      : tokens<AH_ANY>;
    t->strips = (t->width + STRIP - 1) / STRIP;
    const uint64_t blocks = (t->rows + WINDOW - 1) / WINDOW * t->strips;
    if (blocks > INT32_MAX)
        return cudaErrorInvalidConfiguration;
    cudaError_t rc = AH_LAUNCH(ranks, dim3(static_cast<unsigned>((t->rows + RANKED - 1) / RANKED)),
                               dim3(THREADS), 0, stream, *t);
    return rc ? rc : AH_LAUNCH(kernel, dim3(static_cast<unsigned>(blocks)), dim3(THREADS), 0, stream, *t);
}

/* Adds the gradients of all positions below `n`. */
cudaError_t add_positions(cudaStream_t stream, struct task *t, uint64_t n)
{
    const int version = version_of(t);
    table_kernel *const kernel = version == AH_BF16   ? positions<AH_BF16>
                                 : version == AH_FP32 ? positions<AH_FP32>
                                                      : positions<AH_ANY>;
    t->strips = (t->width + 8 * THREADS - 1) / (8 * THREADS);
    const uint64_t blocks = n * t->strips;
    if (blocks > INT32_MAX)
        return cudaErrorInvalidConfiguration;
    return AH_LAUNCH(kernel, dim3(static_cast<unsigned>(blocks)), dim3(THREADS), 0, stream, *t);
}

} // namespace

cudaError_t ah_cuda_embed_backward(const struct ah_cuda_launch *launch)
{
    const struct ah_op_embed *op = &launch->op->u.embed;
    struct task t = {ah_rows_of(launch, 0, op->width),
                     ah_rows_of(launch, 2, op->width),
                     static_cast<const uint32_t *>(launch->arg[3]),
                     static_cast<uint32_t *>(launch->arg[5]),
                     op->rows,
                     op->width,
                     op->seq,
                     op->padding,
                     1,
                     op->scale > 0 ? op->scale : 1.0f};
    cudaError_t rc =
        op->rows > INT32_MAX || op->vocabulary > INT32_MAX ? cudaErrorInvalidConfiguration : cudaSuccess;
    if (!rc && t.table.data)
        rc = add_tokens(launch->stream, &t);
    t.table = ah_rows_of(launch, 1, op->width);
    t.scale = 1.0f;
    t.tokens = static_cast<const uint32_t *>(launch->arg[4]);
    if (!rc && t.table.data)
        rc = add_positions(launch->stream, &t, op->seq && op->seq < op->positions ? op->seq : op->positions);
    return rc;
}
