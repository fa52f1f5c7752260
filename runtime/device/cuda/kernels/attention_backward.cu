/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention, backward, on tensor cores: dq, dk, dv from dout, q, k, v, out, lse. Recomputes the scores, tile by tile:
 *
 *     p = 2^(s - lse)      s = scale q k^T, lse: both are exponents of 2
 *     d = p (dout v^T - delta)      delta = the sum of dout * out of each query, kept in the op's scratch
 *     dq = scale d k       dk = scale d^T q       dv = p^T dout
 *
 * With a soft cap, s = cap t, t = tanh(scale q k^T / cap), and d is also multiplied by 1 - t^2.
 *
 * in three kernels: delta; dq, whose blocks hold queries while keys pass; dk and dv, whose blocks hold keys while the
 * queries of all heads that share these keys pass (attention.cuh). No sum is shared between blocks, so bits are the
 * same in every run.
 *
 * COST. The kernels compute seven products where five would do, because both passes compute s and dout v^T. With five,
 * each block that holds keys would have a part of dq, and the parts would have to be added. FlashAttention-2 adds them
 * by atomics, in an order that differs from run to run. Its deterministic mode keeps a copy of dq in fp32 for each of
 * several sets of blocks and adds the copies afterwards. Other implementations let blocks wait for each other. All
 * these need dq in fp32, 4 bytes where the gradient has 2, in memory that is outside the arena and not counted by
 * plans. Seven products need neither memory nor waiting.
 *
 * dq is computed like forward (attention_forward.cu), with dout beside q. A tile takes three products, in the order
 * dout v^T, s, d k. v is free after the first, and k is needed only from the second on. So with one tile of each, every
 * fetch hides behind products. In a thread, dq takes D M / 2 registers, scores N M; two blocks fit a multiprocessor.
 *
 * dk and dv have sums that take D M registers, so M is 1 for D >= 96, with 8 warps a block. There are two sets of tiles
 * of q and dout, one in use while the other is fetched, so a tile costs one barrier. Above D = 128, two warps share 16
 * keys, each with half of the columns of dk and dv; both compute the scores, so there are nine products. Where a GPU
 * has too little shared memory for a shape (99 KiB on 8.6, 8.9 and 12.0), the next row of `key_shapes` has shorter
 * tiles, with the same sums in the same order.
 *
 *     dq:   D     M   N   registers   shared      dk, dv:   D     M   N    registers   shared
 *           32    2   64     32 + 128   24 KiB              32    2   32     64 + 64    24 KiB + 1
 *           64    2   64     64 + 128   48 KiB              64    2   32    128 + 64    48 KiB + 1
 *           96    2   32     96 +  64   60 KiB              96    1   64     96 + 64    96 KiB + 2
 *           128   2   32    128 +  64   80 KiB              128   1   64    128 + 64   128 KiB + 2
 *           256   1   32    128 +  32   96 KiB              256   1   32    128 + 32   128 KiB + 1
 *
 * 1. One warp computes the sum of an element, in ascending order, 16 terms at a time. An element of dq is summed over
 *    keys, an element of dk or dv over heads, then queries. Tiles that are skipped would have added zeros.
 * 2. A query has p = 0 for keys that it does not see. Rows beyond the sequence are zero in every tile, as are their lse
 *    and delta. So they add nothing, whatever their p, and are not stored.
 *
 * Source: Dao, FlashAttention-2 (2023), section 3.
 */
#include "runtime/device/cuda/kernels/attention.cuh"

typedef cudaError_t backward_fn(const struct ah_attention *attention, cudaStream_t stream);

/* ---- dq ---- */

enum { QUERY_WARPS = 4, QUERY_THREADS = QUERY_WARPS * AH_ATTENTION_LANES };

template <uint32_t D, uint32_t M, uint32_t N> struct query_shared {
    unsigned char q[QUERY_WARPS * M * 16 * D * 2];
    unsigned char dout[QUERY_WARPS * M * 16 * D * 2];
    unsigned char k[N * D * 2];
    unsigned char v[N * D * 2];
    uint32_t first[QUERY_WARPS * M * 16];
};

/* The lse in base 2, and delta, for each row of a lane. */
template <uint32_t M> struct query_rows {
    float lse[M][2];
    float delta[M][2];
};

template <uint32_t M>
static __device__ __forceinline__ void read_rows(struct query_rows<M> &ret_rows,
                                                 const struct ah_attention &attention,
                                                 const struct ah_attention_task &task, uint32_t query)
{
    const uint64_t vector = ah_attention_vector(attention, task.sequence, task.head);
#pragma unroll
    for (uint32_t m = 0; m < M; m++)
#pragma unroll
        for (uint32_t half = 0; half < 2; half++) {
            const uint32_t row = min(query + ah_attention_lane_row(m, half), attention.seq - 1);
            ret_rows.lse[m][half] = attention.lse[vector + row] * AH_ATTENTION_LOG2_E;
            ret_rows.delta[m][half] = attention.delta[vector + row];
        }
}

/* Turns scores `s` and gradients `d` of weights into gradients of scores, without the scale. */
template <uint32_t M, uint32_t N>
static __device__ __forceinline__ void slope(float (&s)[M][N / 8][4], const float (&d)[M][N / 8][4],
                                             const struct query_rows<M> &rows, float factor)
{
#pragma unroll
    for (uint32_t m = 0; m < M; m++)
#pragma unroll
        for (uint32_t n = 0; n < N / 8; n++)
#pragma unroll
            for (uint32_t i = 0; i < 4; i++)
                s[m][n][i] = ah_mma_exp2(fmaf(s[m][n][i], factor, -rows.lse[m][i / 2])) *
                             (d[m][n][i] - rows.delta[m][i / 2]);
}

/* Multiplies what slope() makes of gradients `d` by the slope of the cap at capped scores `s`. */
template <uint32_t M, uint32_t N>
static __device__ __forceinline__ void bend(float (&d)[M][N / 8][4], const float (&s)[M][N / 8][4],
                                            const struct query_rows<M> &rows)
{
#pragma unroll
    for (uint32_t m = 0; m < M; m++)
#pragma unroll
        for (uint32_t n = 0; n < N / 8; n++)
#pragma unroll
            for (uint32_t i = 0; i < 4; i++)
                d[m][n][i] = ah_attention_bent(d[m][n][i], rows.delta[m][i / 2], s[m][n][i]);
    __syncwarp(); /* ends this before slope() begins: both at once would take more registers than there are */
}

template <uint32_t D, uint32_t M>
static __device__ __forceinline__ void store_queries(const float (&sums)[M][D / 8][4],
                                                     const struct ah_attention &attention,
                                                     unsigned char *tile,
                                                     const struct ah_attention_task &task, uint32_t query)
{
    float scale[M][2];
#pragma unroll
    for (uint32_t m = 0; m < M; m++)
        scale[m][0] = scale[m][1] = attention.scale;
    const uint32_t n = query < attention.seq ? attention.seq - query : 0;
    unsigned char *dq = ah_attention_row(attention, attention.dq, task.sequence, n ? query : 0, task.head);
    ah_attention_store<D, M, D>(sums, scale, tile, 0, dq, attention.dq.row_bytes, n, attention.head_dim * 2);
}

template <uint32_t D, uint32_t M, uint32_t N>
static __global__ void __launch_bounds__(QUERY_THREADS, D <= 128 ? 2 : 1)
    query_pass(const struct ah_attention attention)
{
    AH_DYNAMIC_SHARED(unsigned char, memory);
    struct query_shared<D, M, N> &shared = *reinterpret_cast<struct query_shared<D, M, N> *>(memory);
    const uint32_t ROWS = QUERY_WARPS * M * 16, warp_row = ah_attention_warp() * M * 16;
    const uint32_t bytes = attention.head_dim * 2;
    const struct ah_attention_task task = ah_attention_task_of<ROWS>(attention, blockIdx.x);
    const uint32_t query = task.query + warp_row, end_query = min(task.query + ROWS, attention.seq);
    const struct ah_attention_matrix &k = attention.k, &v = attention.v;
    const unsigned char *keys = ah_attention_row(attention, k, task.sequence, 0, task.head / attention.group);
    const unsigned char *values =
        ah_attention_row(attention, v, task.sequence, 0, task.head / attention.group);
    const ah_mma_place k_at = ah_mma_at(shared.k), v_at = ah_mma_at(shared.v);
    const ah_mma_place q_at = ah_mma_at(shared.q), dout_at = ah_mma_at(shared.dout);
    struct ah_mma_pipe pipe = {};
    struct query_rows<M> rows;
    float sums[M][D / 8][4] = {}, s[M][N / 8][4], d[M][N / 8][4];

    ah_attention_fetch<D, ROWS, QUERY_THREADS>(
        pipe, q_at, ah_attention_row(attention, attention.q, task.sequence, task.query, task.head),
        attention.q.row_bytes, end_query - task.query, bytes);
    ah_attention_fetch<D, ROWS, QUERY_THREADS>(
        pipe, dout_at, ah_attention_row(attention, attention.dout, task.sequence, task.query, task.head),
        attention.dout.row_bytes, end_query - task.query, bytes);
    const struct ah_attention_sight sight =
        ah_attention_look(attention, shared.first, task.sequence, task.query, ROWS);
    uint32_t key = sight.least / N * N;
    ah_attention_fetch<D, N, QUERY_THREADS>(pipe, v_at, values + key * v.row_bytes, v.row_bytes,
                                            attention.seq - key, bytes);
    ah_mma_commit(pipe);
    ah_attention_fetch<D, N, QUERY_THREADS>(pipe, k_at, keys + key * k.row_bytes, k.row_bytes,
                                            attention.seq - key, bytes);
    ah_mma_commit(pipe);
    read_rows(rows, attention, task, query);
    for (; key < end_query; key += N) {
        const bool seen = query < attention.seq && key < query + M * 16;
        const uint32_t next = key + N;
        ah_mma_wait<1>(pipe);
        __syncthreads();
        if (seen)
            ah_attention_multiply<D, M, N>(d, dout_at + warp_row * D * 2, v_at);
        ah_mma_wait<0>(pipe);
        __syncthreads();
        if (next < end_query)
            ah_attention_fetch<D, N, QUERY_THREADS>(pipe, v_at, values + next * v.row_bytes, v.row_bytes,
                                                    attention.seq - next, bytes);
        ah_mma_commit(pipe);
        if (seen) {
            ah_attention_multiply<D, M, N>(s, q_at + warp_row * D * 2, k_at);
            if (attention.soft_cap > 0) {
                ah_attention_cap<M, N>(s, attention.twice);
                bend<M, N>(d, s, rows);
            }
            if (key < sight.most || next - 1 > query)
                ah_attention_mask<M, N>(s, attention, shared.first + warp_row, query, key);
            slope<M, N>(s, d, rows, attention.factor);
            ah_attention_accumulate<D, M, N, D>(sums, s, k_at);
        }
        __syncthreads();
        if (next < end_query)
            ah_attention_fetch<D, N, QUERY_THREADS>(pipe, k_at, keys + next * k.row_bytes, k.row_bytes,
                                                    attention.seq - next, bytes);
        ah_mma_commit(pipe);
    }
    store_queries<D, M>(sums, attention, shared.q + warp_row * D * 2, task, query);
}

template <uint32_t D, uint32_t M, uint32_t N>
static cudaError_t queries(const struct ah_attention *attention, cudaStream_t stream)
{
    const size_t bytes = sizeof(struct query_shared<D, M, N>);
    uint32_t blocks = 0;
    cudaError_t rc = ah_attention_blocks(&blocks, attention, attention->heads, QUERY_WARPS * M * 16);
    if (!rc)
        rc = AH_ALLOW_SHARED((query_pass<D, M, N>), bytes);
    if (!rc)
        rc = AH_LAUNCH((query_pass<D, M, N>), blocks, QUERY_THREADS, bytes, stream, *attention);
    return rc;
}

static const struct {
    uint32_t head_dim; /* largest head_dim of this row */
    backward_fn *run;
} query_shapes[] = {
    {32, queries<32, 2, 64>},   {64, queries<64, 2, 64>},   {96, queries<96, 2, 32>},
    {128, queries<128, 2, 32>}, {256, queries<256, 1, 32>},
};

/* ---- dk and dv ---- */

/* The shape of a block: W sets of M * 16 keys, each with P warps for parts of the columns. N queries pass at a time. */
template <uint32_t D, uint32_t M, uint32_t W, uint32_t P, uint32_t N> struct key_shape {
    static const uint32_t threads = W * P * AH_ATTENTION_LANES;
    static const uint32_t keys = W * M * 16;
    static const uint32_t columns = D / P; /* columns of dk and dv that one warp computes */
};

/* A tile of passing queries. */
template <uint32_t D, uint32_t N> struct key_tile {
    unsigned char q[N * D * 2];
    unsigned char dout[N * D * 2];
    float lse[N];
    float delta[N];
    uint32_t docs[N];
    uint32_t padding[N]; /* makes the size a multiple of 128 bytes for each N */
};

template <uint32_t D, uint32_t KEYS, uint32_t N> struct key_shared {
    unsigned char k[KEYS * D * 2];
    unsigned char v[KEYS * D * 2];
    struct key_tile<D, N> tiles[2];
    uint32_t last[AH_ATTENTION_LANES];
};

struct key_task {
    uint32_t sequence, kv_head;
    uint32_t key;   /* the block's first key */
    uint32_t tiles; /* number of tiles of a head, from the first key on */
};

/* Starts fetching tile `number` of a block, counted through all its heads, one head after the other. */
template <uint32_t D, uint32_t N, uint32_t THREADS>
static __device__ __forceinline__ void fetch_queries(struct ah_mma_pipe &pipe, struct key_tile<D, N> &tile,
                                                     const struct ah_attention &attention,
                                                     const struct key_task &task, uint32_t number)
{
    const uint32_t head = task.kv_head * attention.group + number / task.tiles;
    const uint32_t query = task.key + number % task.tiles * N, n = attention.seq - query, i = threadIdx.x;
    const uint32_t bytes = i < n ? sizeof(float) : 0;
    const uint64_t at = ah_attention_vector(attention, task.sequence, head) + query;
    ah_attention_fetch<D, N, THREADS>(pipe, ah_mma_at(tile.q),
                                      ah_attention_row(attention, attention.q, task.sequence, query, head),
                                      attention.q.row_bytes, n, attention.head_dim * 2);
    ah_attention_fetch<D, N, THREADS>(pipe, ah_mma_at(tile.dout),
                                      ah_attention_row(attention, attention.dout, task.sequence, query, head),
                                      attention.dout.row_bytes, n, attention.head_dim * 2);
    if (i < N) {
        ah_mma_copy_word(pipe, ah_mma_at(tile.lse + i), attention.lse + at + i, bytes);
        ah_mma_copy_word(pipe, ah_mma_at(tile.delta + i), attention.delta + at + i, bytes);
        if (attention.docs)
            ah_mma_copy_word(
                pipe, ah_mma_at(tile.docs + i),
                attention.docs + static_cast<uint64_t>(task.sequence) * attention.seq + query + i, bytes);
    }
}

/* True if all N queries starting with `query` see all of the `n` keys starting with `key`. */
template <uint32_t D, uint32_t N>
static __device__ __forceinline__ bool sees_all(const struct key_tile<D, N> &tile,
                                                const struct ah_attention &attention, uint32_t query,
                                                uint32_t key, uint32_t n)
{
    if (query + 1 < key + n || ah_attention_window(attention, query + N - 1) > key)
        return false;
    bool begins_later = false;
    for (uint32_t i = threadIdx.x % AH_ATTENTION_LANES; attention.docs && i < N; i += AH_ATTENTION_LANES)
        begins_later = begins_later || tile.docs[i] > key;
    return !__any_sync(0xffffffffu, begins_later);
}

/* Masks transposed scores with -infinity. Rows: keys from `key` on; columns: queries from `query` on. */
template <uint32_t D, uint32_t M, uint32_t N>
static __device__ __forceinline__ void mask_transposed(float (&s)[M][N / 8][4],
                                                       const struct key_tile<D, N> &tile,
                                                       const struct ah_attention &attention, uint32_t query,
                                                       uint32_t key)
{
#pragma unroll
    for (uint32_t n = 0; n < N / 8; n++)
#pragma unroll
        for (uint32_t odd = 0; odd < 2; odd++) {
            const uint32_t column = ah_attention_lane_column(n, odd), own = query + column;
            uint32_t first = ah_attention_window(attention, own);
            if (attention.docs)
                first = max(first, tile.docs[column]);
            const uint32_t span = own - first;
#pragma unroll
            for (uint32_t m = 0; m < M; m++)
#pragma unroll
                for (uint32_t half = 0; half < 2; half++)
                    if (key + ah_attention_lane_row(m, half) - first > span)
                        s[m][n][2 * half + odd] = -INFINITY;
        }
}

/* Turns transposed scores into weights. */
template <uint32_t D, uint32_t M, uint32_t N>
static __device__ __forceinline__ void weigh_transposed(float (&s)[M][N / 8][4],
                                                        const struct key_tile<D, N> &tile, float factor)
{
#pragma unroll
    for (uint32_t n = 0; n < N / 8; n++)
#pragma unroll
        for (uint32_t odd = 0; odd < 2; odd++) {
            const float lse = tile.lse[ah_attention_lane_column(n, odd)] * AH_ATTENTION_LOG2_E;
#pragma unroll
            for (uint32_t m = 0; m < M; m++)
#pragma unroll
                for (uint32_t half = 0; half < 2; half++) {
                    float &p = s[m][n][2 * half + odd];
                    p = ah_mma_exp2(fmaf(p, factor, -lse));
                }
        }
}

/* Turns transposed weights `p` and their gradients `d` into gradients of scores, without the scale. Finds capped scores
 * again from their weights, because keeping them would take registers. Where a weight is 0, any slope of the tanh will
 * do. `inverse` is 1 / factor. */
template <uint32_t D, uint32_t M, uint32_t N, bool capped>
static __device__ __forceinline__ void slope_transposed(float (&p)[M][N / 8][4],
                                                        const float (&d)[M][N / 8][4],
                                                        const struct key_tile<D, N> &tile, float inverse)
{
#pragma unroll
    for (uint32_t n = 0; n < N / 8; n++)
#pragma unroll
        for (uint32_t odd = 0; odd < 2; odd++) {
            if (capped)
                __syncwarp(); /* one column at a time: all at once would take more registers than there are */
            const float delta = tile.delta[ah_attention_lane_column(n, odd)];
            const float lse =
                capped ? tile.lse[ah_attention_lane_column(n, odd)] * AH_ATTENTION_LOG2_E : 0.0f;
#pragma unroll
            for (uint32_t m = 0; m < M; m++)
#pragma unroll
                for (uint32_t half = 0; half < 2; half++) {
                    float &weight = p[m][n][2 * half + odd];
                    const float t = capped ? fmaxf((ah_mma_log2(weight) + lse) * inverse, -1.0f) : 0.0f;
                    if (capped)
                        weight *= fmaf(-t, t, 1.0f);
                    weight *= d[m][n][2 * half + odd] - delta;
                }
        }
}

/* A warp's sums. */
template <uint32_t M, uint32_t COLUMNS> struct key_sums {
    float dk[M][COLUMNS / 8][4];
    float dv[M][COLUMNS / 8][4];
};

/* Adds what a tile of queries, from `query` on, contributes to the warp's keys, from `key` on, in columns from `column`
 * on. The keys' k and v are at `k_at` and `v_at`. */
template <uint32_t D, uint32_t M, uint32_t N, uint32_t COLUMNS>
static __device__ __forceinline__ void add_tile(struct key_sums<M, COLUMNS> &sums,
                                                const struct key_tile<D, N> &tile,
                                                const struct ah_attention &attention, uint32_t query,
                                                uint32_t key, ah_mma_place k_at, ah_mma_place v_at,
                                                uint32_t column)
{
    float s[M][N / 8][4], d[M][N / 8][4];
    const ah_mma_place q_at = ah_mma_at(tile.q), dout_at = ah_mma_at(tile.dout);
    ah_attention_multiply<D, M, N>(s, k_at, q_at);
    if (attention.soft_cap > 0)
        ah_attention_cap<M, N>(s, attention.twice);
    if (!sees_all(tile, attention, query, key, M * 16))
        mask_transposed<D, M, N>(s, tile, attention, query, key);
    weigh_transposed<D, M, N>(s, tile, attention.factor);
    ah_attention_accumulate<D, M, N, COLUMNS>(sums.dv, s, dout_at + column * 2);
    ah_attention_multiply<D, M, N>(d, v_at, dout_at);
    if (attention.soft_cap > 0)
        slope_transposed<D, M, N, true>(s, d, tile, attention.inverse);
    else
        slope_transposed<D, M, N, false>(s, d, tile, 0);
    ah_attention_accumulate<D, M, N, COLUMNS>(sums.dk, s, q_at + column * 2);
}

template <uint32_t D, uint32_t M, uint32_t COLUMNS>
static __device__ __forceinline__ void store_keys(const struct key_sums<M, COLUMNS> &sums,
                                                  const struct ah_attention &attention, unsigned char *k_tile,
                                                  unsigned char *v_tile, const struct key_task &task,
                                                  uint32_t key, uint32_t column)
{
    const uint32_t n = key < attention.seq ? attention.seq - key : 0, row = n ? key : 0,
                   bytes = attention.head_dim * 2;
    float scale[M][2], one[M][2];
#pragma unroll
    for (uint32_t m = 0; m < M; m++) {
        scale[m][0] = scale[m][1] = attention.scale;
        one[m][0] = one[m][1] = 1;
    }
    ah_attention_store<D, M, COLUMNS>(
        sums.dk, scale, k_tile, column,
        ah_attention_row(attention, attention.dk, task.sequence, row, task.kv_head), attention.dk.row_bytes,
        n, bytes);
    ah_attention_store<D, M, COLUMNS>(
        sums.dv, one, v_tile, column,
        ah_attention_row(attention, attention.dv, task.sequence, row, task.kv_head), attention.dv.row_bytes,
        n, bytes);
}

template <uint32_t D, uint32_t M, uint32_t W, uint32_t P, uint32_t N>
static __global__ void __launch_bounds__(W *P *AH_ATTENTION_LANES, W *P == 4 ? 2 : 1)
    key_pass(const struct ah_attention attention)
{
    const uint32_t KEYS = W * M * 16, THREADS = W * P * AH_ATTENTION_LANES, COLUMNS = D / P;
    AH_DYNAMIC_SHARED(unsigned char, memory);
    struct key_shared<D, KEYS, N> &shared = *reinterpret_cast<struct key_shared<D, KEYS, N> *>(memory);
    const uint32_t blocks = ah_attention_sets(attention.seq, KEYS);
    struct key_task task = {blockIdx.x / blocks / attention.kv_heads,
                            blockIdx.x / blocks % attention.kv_heads, blockIdx.x % blocks * KEYS,
                            0}; /* the blocks with most work first */
    const uint32_t warp_row = ah_attention_warp() / P * M * 16, column = ah_attention_warp() % P * COLUMNS;
    const uint32_t key = task.key + warp_row, at = warp_row * D * 2;
    struct ah_mma_pipe pipe = {};
    struct key_sums<M, COLUMNS> sums = {
    };

    ah_attention_fetch<D, KEYS, THREADS>(
        pipe, ah_mma_at(shared.k),
        ah_attention_row(attention, attention.k, task.sequence, task.key, task.kv_head),
        attention.k.row_bytes, attention.seq - task.key, attention.head_dim * 2);
    ah_attention_fetch<D, KEYS, THREADS>(
        pipe, ah_mma_at(shared.v),
        ah_attention_row(attention, attention.v, task.sequence, task.key, task.kv_head),
        attention.v.row_bytes, attention.seq - task.key, attention.head_dim * 2);
    const uint32_t last = ah_attention_last(attention, shared.last, task.sequence, task.key + KEYS - 1);
    task.tiles = (last - task.key) / N + 1;
    fetch_queries<D, N, THREADS>(pipe, shared.tiles[0], attention, task, 0);
    ah_mma_commit(pipe);
    for (uint32_t number = 0; number < task.tiles * attention.group; number++) {
        const uint32_t query = task.key + number % task.tiles * N;
        ah_mma_wait<0>(pipe);
        __syncthreads();
        if (number + 1 < task.tiles * attention.group)
            fetch_queries<D, N, THREADS>(pipe, shared.tiles[(number + 1) % 2], attention, task, number + 1);
        ah_mma_commit(pipe);
        if (key < query + N)
            add_tile<D, M, N, COLUMNS>(sums, shared.tiles[number % 2], attention, query, key,
                                       ah_mma_at(shared.k) + at, ah_mma_at(shared.v) + at, column);
    }
    __syncthreads();
    store_keys<D, M, COLUMNS>(sums, attention, shared.k + at, shared.v + at, task, key, column);
}

template <uint32_t D, uint32_t M, uint32_t W, uint32_t P, uint32_t N>
static cudaError_t keys(const struct ah_attention *attention, cudaStream_t stream)
{
    const size_t bytes = sizeof(struct key_shared<D, W * M * 16, N>);
    uint32_t blocks = 0;
    cudaError_t rc = ah_attention_blocks(&blocks, attention, attention->kv_heads, W * M * 16);
    if (!rc)
        rc = AH_ALLOW_SHARED((key_pass<D, M, W, P, N>), bytes);
    if (!rc)
        rc = AH_LAUNCH((key_pass<D, M, W, P, N>), blocks, W * P * AH_ATTENTION_LANES, bytes, stream,
                       *attention);
    return rc;
}

#define KEY_SHAPE(d, m, w, p, n)                                                                             \
    {                                                                                                        \
        d, sizeof(struct key_shared<d, w * m * 16, n>), keys<d, m, w, p, n>                                  \
    }

static const struct {
    uint32_t head_dim; /* largest head_dim of this row */
    size_t shared_bytes;
    backward_fn *run;
} key_shapes[] = {
    KEY_SHAPE(32, 2, 4, 1, 32),  KEY_SHAPE(64, 2, 4, 1, 32),  KEY_SHAPE(96, 1, 8, 1, 64),
    KEY_SHAPE(128, 1, 8, 1, 64), KEY_SHAPE(128, 1, 8, 1, 32), KEY_SHAPE(256, 1, 4, 2, 32),
    KEY_SHAPE(256, 1, 4, 2, 16),
};

/* ---- the op ---- */

static cudaError_t run_queries(const struct ah_attention *attention, cudaStream_t stream)
{
    for (size_t i = 0; i < sizeof query_shapes / sizeof *query_shapes; i++)
        if (attention->head_dim <= query_shapes[i].head_dim)
            return query_shapes[i].run(attention, stream);
    return cudaErrorInvalidValue;
}

static cudaError_t run_keys(const struct ah_attention *attention, size_t shared_bytes, cudaStream_t stream)
{
    for (size_t i = 0; i < sizeof key_shapes / sizeof *key_shapes; i++)
        if (attention->head_dim <= key_shapes[i].head_dim && key_shapes[i].shared_bytes <= shared_bytes)
            return key_shapes[i].run(attention, stream);
    return cudaErrorInvalidValue;
}

cudaError_t ah_cuda_attention_backward(const struct ah_cuda_launch *launch)
{
    struct ah_attention attention;
    int device = 0, shared_bytes = 0;
    ah_attention_of(&attention, launch);
    cudaError_t rc = ah_attention_delta(&attention, launch->stream);
    if (!rc && !ah_attention_suits(&attention))
        return ah_attention_plain_backward(&attention, launch->stream);
    if (!rc)
        rc = cudaGetDevice(&device);
    if (!rc)
        rc = cudaDeviceGetAttribute(&shared_bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
    if (!rc)
        rc = run_queries(&attention, launch->stream);
    if (!rc)
        rc = run_keys(&attention, (size_t)shared_bytes, launch->stream);
    return rc;
}
