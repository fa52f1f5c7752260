/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention, forward, on tensor cores: out = softmax(scale q k^T) v over the keys that each query sees, and lse, the
 * logarithm of the softmax's denominator. runtime/device/math/attention_forward.c defines it.
 *
 * A block of 4 warps holds 64 * M queries of one head in shared memory. Each warp has 16 * M of these queries; its
 * registers have their sums of out, largest scores and sums of weights. Tiles of N keys pass in ascending order:
 *
 *     wait for k; begin to fetch v              s = q k^T, with a soft cap the tanh of that
 *     wait for v; begin to fetch the next k     m' = max(m, s);  o = o 2^(m - m');  l = l 2^(m - m')
 *                                               p = 2^(s - m');  l = l + p;  o = o + p v;  m = m'
 *
 * So each fetch hides behind half of a tile's work, with only one tile of k and one of v. In a thread, o takes D M / 2
 * registers and s takes N M / 2; with everything else, a thread needs just below 255. Two blocks, 8 warps, fit a
 * multiprocessor, and each warp's products hide the softmax and barriers of others. With M = 2, a load from shared
 * memory serves two products; with M = 1, loading would take longer than multiplying.
 *
 *     D     M   N     o + s   shared
 *     32    2    64      96   16 KiB
 *     64    2   128     192   48 KiB
 *     96    2    64     160   48 KiB
 *     128   2    64     192   64 KiB
 *     256   1    64     160   96 KiB   one block
 *
 * 1. m is the largest score so far. l is the sum of 2^(s - m) over this thread's part of a row, and o the sum of 2^(s -
 *    m) v. Before a row has seen a key, m is -infinity and 0 replaces it, so that unseen keys weigh 2^-infinity = 0.
 * 2. Tiles are fetched only from the first key that any query of the block sees to the block's last query. A warp skips
 *    the products of a tile that none of its queries sees. It masks a tile only if a query misses a key.
 * 3. A query's result depends only on its position and its sequence's keys and `docs`, not on the queries beside it:
 *    tiles start at multiples of N, and N follows from head_dim.
 *
 * Source: Dao, FlashAttention-2 (2023); Milakov and Gimelshein, Online normalizer calculation for softmax (2018).
 */
#include "runtime/device/cuda/kernels/attention.cuh"

enum { WARPS = 4, THREADS = WARPS * AH_ATTENTION_LANES };

template <uint32_t D, uint32_t M, uint32_t N> struct forward_shared {
    unsigned char q[WARPS * M * 16 * D * 2];
    unsigned char k[N * D * 2];
    unsigned char v[N * D * 2];
    uint32_t first[WARPS * M * 16];
};

/* A warp's running sums as tiles pass. */
template <uint32_t D, uint32_t M> struct forward_rows {
    float out[M][D / 8][4];
    float most[M][2];
    float sum[M][2]; /* sum over this lane's columns */
};

template <uint32_t D, uint32_t M>
static __device__ __forceinline__ void begin(struct forward_rows<D, M> &rows)
{
#pragma unroll
    for (uint32_t m = 0; m < M; m++) {
#pragma unroll
        for (uint32_t i = 0; i < D / 2; i++)
            rows.out[m][i / 4][i % 4] = 0;
        rows.most[m][0] = rows.most[m][1] = -INFINITY;
        rows.sum[m][0] = rows.sum[m][1] = 0;
    }
}

/* Returns the largest value of the four lanes of a row. */
static __device__ __forceinline__ float largest(float value)
{
    value = fmaxf(value, __shfl_xor_sync(0xffffffffu, value, 1));
    return fmaxf(value, __shfl_xor_sync(0xffffffffu, value, 2));
}

static __device__ __forceinline__ float total(float value)
{
    value += __shfl_xor_sync(0xffffffffu, value, 1);
    return value + __shfl_xor_sync(0xffffffffu, value, 2);
}

/* Raises the rows' largest scores to those in `s` (as exponents of two in `ret_base`), and rescales the sums. */
template <uint32_t D, uint32_t M, uint32_t N>
static __device__ __forceinline__ void rise(struct forward_rows<D, M> &rows, float (&ret_base)[M][2],
                                            const float (&s)[M][N / 8][4], float factor)
{
#pragma unroll
    for (uint32_t m = 0; m < M; m++)
#pragma unroll
        for (uint32_t half = 0; half < 2; half++) {
            float most = rows.most[m][half];
#pragma unroll
            for (uint32_t i = 0; i < N / 4; i++)
                most = fmaxf(most, s[m][i / 2][2 * half + i % 2]);
            most = largest(most);
            const float base = most == -INFINITY ? 0.0f : most * factor;
            const float decay = ah_mma_exp2(rows.most[m][half] * factor - base);
            rows.sum[m][half] *= decay;
#pragma unroll
            for (uint32_t i = 0; i < D / 4; i++)
                rows.out[m][i / 2][2 * half + i % 2] *= decay;
            rows.most[m][half] = most;
            ret_base[m][half] = base;
        }
}

/* Turns scores into weights and adds the values at `v` with these weights, 16 keys at a time. */
template <uint32_t D, uint32_t M, uint32_t N>
static __device__ __forceinline__ void weigh(struct forward_rows<D, M> &rows, float (&s)[M][N / 8][4],
                                             const float (&base)[M][2], float factor, ah_mma_place v)
{
    const ah_mma_place at = ah_mma_anew(v + ah_attention_lane_a<D>());
#pragma unroll
    for (uint32_t k = 0; k < N / 16; k++) {
        uint32_t p[M][4];
#pragma unroll
        for (uint32_t m = 0; m < M; m++)
#pragma unroll
            for (uint32_t i = 0; i < 8; i++) {
                float &weight = s[m][2 * k + i / 4][i % 4];
                weight = ah_mma_exp2(fmaf(weight, factor, -base[m][i % 4 / 2]));
                rows.sum[m][i % 4 / 2] += weight;
            }
        ah_attention_round<M, N / 8>(p, s, k);
        ah_attention_add<D, M, D / 16>(rows.out, p, at + k * 16 * ah_attention_tile<D>::row_bytes);
    }
}

/* Stores out and lse of the warp's rows. */
template <uint32_t D, uint32_t M>
static __device__ __forceinline__ void finish(struct forward_rows<D, M> &rows,
                                              const struct ah_attention &attention, unsigned char *tile,
                                              const struct ah_attention_task &task, uint32_t warp_row)
{
    const uint32_t query = task.query + warp_row;
    float *lse = attention.lse + ah_attention_vector(attention, task.sequence, task.head) + query;
    const uint32_t n = query < attention.seq ? attention.seq - query : 0;
    float inverse[M][2];
#pragma unroll
    for (uint32_t m = 0; m < M; m++)
#pragma unroll
        for (uint32_t half = 0; half < 2; half++) {
            const uint32_t row = ah_attention_lane_row(m, half);
            const float sum = total(rows.sum[m][half]);
            inverse[m][half] = 1.0f / sum;
            if (threadIdx.x % 4 == 0 && row < n)
                lse[row] = fmaf(rows.most[m][half] * attention.factor, AH_ATTENTION_LN_2, logf(sum));
        }
    unsigned char *out = ah_attention_row(attention, attention.out, task.sequence, n ? query : 0, task.head);
    ah_attention_store<D, M, D>(rows.out, inverse, tile, 0, out, attention.out.row_bytes, n,
                                attention.head_dim * 2);
}

template <uint32_t D, uint32_t M, uint32_t N>
static __global__ void __launch_bounds__(THREADS, D <= 128 ? 2 : 1)
    attend(const struct ah_attention attention)
{
    AH_DYNAMIC_SHARED(unsigned char, memory);
    struct forward_shared<D, M, N> &shared = *reinterpret_cast<struct forward_shared<D, M, N> *>(memory);
    const uint32_t ROWS = WARPS * M * 16, warp_row = ah_attention_warp() * M * 16,
                   bytes = attention.head_dim * 2;
    const struct ah_attention_task task = ah_attention_task_of<ROWS>(attention, blockIdx.x);
    const uint32_t block_position = attention.past + task.query, position = block_position + warp_row,
                   end = min(block_position + ROWS, attention.keys);
    const struct ah_attention_matrix &k = attention.k, &v = attention.v;
    const uint32_t kv_head = task.head / attention.group;
    const unsigned char *keys =
        ah_attention_own<D, THREADS>(ah_attention_row(attention, k, task.sequence, 0, kv_head), k.row_bytes);
    const unsigned char *values =
        ah_attention_own<D, THREADS>(ah_attention_row(attention, v, task.sequence, 0, kv_head), v.row_bytes);
    const ah_mma_place q_at = ah_mma_at(shared.q), k_at = ah_mma_at(shared.k), v_at = ah_mma_at(shared.v);
    struct ah_mma_pipe pipe = {};
    struct forward_rows<D, M> rows;
    float s[M][N / 8][4], base[M][2];

    ah_attention_fetch<D, ROWS, THREADS>(
        pipe, q_at, ah_attention_row(attention, attention.q, task.sequence, task.query, task.head),
        attention.q.row_bytes, end - block_position, bytes);
    const struct ah_attention_sight sight =
        ah_attention_look(attention, shared.first, task.sequence, block_position, ROWS);
    uint32_t key = sight.least / N * N;
    keys += key * k.row_bytes;
    values += key * v.row_bytes;
    ah_attention_fetch_own<D, N, THREADS>(pipe, k_at, keys, k.row_bytes, attention.keys - key, bytes);
    ah_mma_commit(pipe);
    begin(rows);
    for (; key < end; key += N, values += N * v.row_bytes) {
        const bool seen = position < end && key < position + M * 16;
        ah_mma_wait<0>(pipe);
        __syncthreads();
        ah_attention_fetch_own<D, N, THREADS>(pipe, v_at, values, v.row_bytes, attention.keys - key, bytes);
        ah_mma_commit(pipe);
        if (seen)
            ah_attention_multiply<D, M, N>(s, q_at + warp_row * D * 2, k_at);
        ah_mma_wait<0>(pipe);
        __syncthreads();
        keys += N * k.row_bytes;
        if (key + N < end)
            ah_attention_fetch_own<D, N, THREADS>(pipe, k_at, keys, k.row_bytes, attention.keys - key - N,
                                                  bytes);
        ah_mma_commit(pipe);
        if (!seen)
            continue;
        if (attention.soft_cap > 0)
            ah_attention_cap<M, N>(s, attention.twice);
        if (key < sight.most || key + N - 1 > position)
            ah_attention_mask<M, N>(s, attention, shared.first + warp_row, position, key);
        rise<D, M, N>(rows, base, s, attention.factor);
        weigh<D, M, N>(rows, s, base, attention.factor, v_at);
    }
    finish<D, M>(rows, attention, shared.q + warp_row * D * 2,
                 ah_attention_task_of<ROWS>(attention, static_cast<uint32_t>(ah_mma_anew(blockIdx.x))),
                 warp_row);
}

typedef cudaError_t forward_fn(const struct ah_attention *attention, cudaStream_t stream);

template <uint32_t D, uint32_t M, uint32_t N>
static cudaError_t forward(const struct ah_attention *attention, cudaStream_t stream)
{
    const size_t bytes = sizeof(struct forward_shared<D, M, N>);
    uint32_t blocks = 0;
    cudaError_t rc = ah_attention_blocks(&blocks, attention, attention->heads, WARPS * M * 16);
    if (!rc)
        rc = AH_ALLOW_SHARED((attend<D, M, N>), bytes);
    if (!rc)
        rc = AH_LAUNCH((attend<D, M, N>), blocks, THREADS, bytes, stream, *attention);
    return rc;
}

static const struct {
    uint32_t head_dim; /* largest head_dim of this row */
    forward_fn *run;
} shapes[] = {
    {32, forward<32, 2, 64>},   {64, forward<64, 2, 128>},  {96, forward<96, 2, 64>},
    {128, forward<128, 2, 64>}, {256, forward<256, 1, 64>},
};

cudaError_t ah_cuda_attention(const struct ah_cuda_launch *launch)
{
    struct ah_attention attention;
    ah_attention_of(&attention, launch);
    if (!ah_attention_suits(&attention))
        return ah_attention_plain_forward(&attention, launch->stream);
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        if (attention.head_dim <= shapes[i].head_dim)
            return shapes[i].run(&attention, launch->stream);
    return ah_attention_plain_forward(&attention, launch->stream);
}
