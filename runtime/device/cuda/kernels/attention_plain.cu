/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention, forward and backward, without tensor cores: for fp32 operands, any head_dim and any alignment. The passes
 * are those of attention_forward.cu and attention_backward.cu, but products are in fp32 and nothing is rounded between
 * them, even for bf16 operands.
 *
 * A block of 256 threads holds 64 rows of one head while tiles of 64 rows pass. A thread has 4 x 8 sums and 4 x 4
 * scores: rows y, y + 16, ..., columns x, x + 16, ..., with x = thread % 16, y = thread / 16. Operands come through
 * shared memory, 32 elements of the head at a time for scores, 16 passing rows at a time for sums.
 *
 * A block computes 128 columns of its results. For wider heads, gridDim.y blocks compute the same scores, each for its
 * own columns. One thread computes each result's sum, in ascending order.
 */
#include "runtime/device/cuda/kernels/attention.cuh"

enum { TILE = 64, SIDE = 16, THREADS = SIDE * SIDE, EACH = TILE / SIDE, COLUMNS = 128, OWN = COLUMNS / SIDE };
enum { DEPTH = 32, STEP = 16 };

struct plain_shared {
    float a[TILE][DEPTH + 1];
    union {
        float b[TILE][DEPTH + 1];
        float passing[STEP][COLUMNS];
    } u;
    float p[TILE][TILE + SIDE]; /* the 16 columns of two rows that a warp writes use different banks */
    uint32_t first[TILE];
    float lse[TILE]; /* lse in base 2 */
    float delta[TILE];
    uint32_t last[THREADS / AH_ATTENTION_LANES];
};

/* The rows of a head, from some row on. */
struct plain_rows {
    unsigned char *data;
    uint64_t row_bytes;
    uint32_t element_bytes;
    uint32_t n; /* number of rows up to the sequence's end */
    uint32_t head_dim;
};

/* A block's work. */
struct plain_task {
    uint32_t sequence, head;
    uint32_t row;    /* first row held */
    uint32_t column; /* first column of its results */
};

static __device__ struct plain_task task_of(const struct ah_attention &attention, uint32_t heads)
{
    const uint32_t blocks = ah_attention_sets(attention.seq, TILE);
    return {blockIdx.x / blocks / heads, blockIdx.x / blocks % heads, blockIdx.x % blocks * TILE,
            blockIdx.y * COLUMNS};
}

static __device__ struct plain_rows rows_of(const struct ah_attention &attention,
                                            const struct ah_attention_matrix &matrix, uint32_t sequence,
                                            uint32_t row, uint32_t head)
{
    return {ah_attention_row(attention, matrix, sequence, row, head), matrix.row_bytes, matrix.element_bytes,
            matrix.length - row, attention.head_dim};
}

static __device__ float read(const struct plain_rows &rows, uint32_t row, uint32_t column)
{
    if (row >= rows.n || column >= rows.head_dim)
        return 0;
    return ah_attention_element(rows.data + row * rows.row_bytes, rows.element_bytes, column);
}

static __device__ void write(const struct plain_rows &rows, uint32_t row, uint32_t column, float value)
{
    unsigned char *data = rows.data + row * rows.row_bytes;
    if (row >= rows.n || column >= rows.head_dim)
        return;
    if (rows.element_bytes == 4)
        reinterpret_cast<float *>(data)[column] = value;
    else
        reinterpret_cast<uint16_t *>(data)[column] = static_cast<uint16_t>(ah_mma_pair(value, 0));
}

static __device__ __forceinline__ uint32_t own_row(uint32_t i)
{
    return threadIdx.x / SIDE + i * SIDE;
}

static __device__ __forceinline__ uint32_t own_column(uint32_t j)
{
    return threadIdx.x % SIDE + j * SIDE;
}

/* Computes s = a b^T, with 64 rows of each. */
static __device__ void multiply(float (&s)[EACH][EACH], struct plain_shared &shared,
                                const struct plain_rows &a, const struct plain_rows &b)
{
    for (uint32_t i = 0; i < EACH * EACH; i++)
        s[i / EACH][i % EACH] = 0;
    for (uint32_t begin = 0; begin < a.head_dim; begin += DEPTH) {
        __syncthreads();
        for (uint32_t i = threadIdx.x; i < TILE * DEPTH; i += THREADS) {
            shared.a[i / DEPTH][i % DEPTH] = read(a, i / DEPTH, begin + i % DEPTH);
            shared.u.b[i / DEPTH][i % DEPTH] = read(b, i / DEPTH, begin + i % DEPTH);
        }
        __syncthreads();
#pragma unroll 4
        for (uint32_t d = 0; d < DEPTH; d++)
#pragma unroll
            for (uint32_t i = 0; i < EACH; i++)
#pragma unroll
                for (uint32_t j = 0; j < EACH; j++)
                    s[i][j] = fmaf(shared.a[own_row(i)][d], shared.u.b[own_column(j)][d], s[i][j]);
    }
}

/* Stores p in shared memory for add(). */
static __device__ void share(struct plain_shared &shared, const float (&p)[EACH][EACH])
{
    __syncthreads();
#pragma unroll
    for (uint32_t i = 0; i < EACH; i++)
#pragma unroll
        for (uint32_t j = 0; j < EACH; j++)
            shared.p[own_row(i)][own_column(j)] = p[i][j];
}

/* Computes o += p b, with p from shared memory and the columns of b from `column` on. */
static __device__ void add(float (&o)[EACH][OWN], struct plain_shared &shared, const struct plain_rows &b,
                           uint32_t column)
{
    for (uint32_t begin = 0; begin < TILE; begin += STEP) {
        __syncthreads();
        for (uint32_t i = threadIdx.x; i < STEP * COLUMNS; i += THREADS)
            shared.u.passing[i / COLUMNS][i % COLUMNS] = read(b, begin + i / COLUMNS, column + i % COLUMNS);
        __syncthreads();
#pragma unroll 4
        for (uint32_t k = 0; k < STEP; k++)
#pragma unroll
            for (uint32_t i = 0; i < EACH; i++)
#pragma unroll
                for (uint32_t j = 0; j < OWN; j++)
                    o[i][j] =
                        fmaf(shared.p[own_row(i)][begin + k], shared.u.passing[k][own_column(j)], o[i][j]);
    }
}

static __device__ void store(const struct plain_rows &rows, uint32_t column, const float (&o)[EACH][OWN],
                             float scale)
{
#pragma unroll
    for (uint32_t i = 0; i < EACH; i++)
#pragma unroll
        for (uint32_t j = 0; j < OWN; j++)
            write(rows, own_row(i), column + own_column(j), o[i][j] * scale);
}

/* True if the query at a position sees a key; `first` is the first key that the query sees. */
static __device__ __forceinline__ bool sees(const struct ah_attention &attention, uint32_t position,
                                            uint32_t first, uint32_t key)
{
    return position < attention.keys && key >= first && key <= position;
}

/* Turns scores into tanh(score * by), for a soft cap. */
static __device__ void cap(float (&s)[EACH][EACH], float by)
{
#pragma unroll
    for (uint32_t i = 0; i < EACH * EACH; i++)
        s[i / EACH][i % EACH] = tanhf(s[i / EACH][i % EACH] * by);
}

/* Multiplies d - delta by the slope of the cap at capped scores `s`, whose queries are in rows or in columns. */
template <bool rows>
static __device__ void bend(float (&d)[EACH][EACH], const float (&s)[EACH][EACH],
                            const struct plain_shared &shared)
{
#pragma unroll
    for (uint32_t i = 0; i < EACH; i++)
#pragma unroll
        for (uint32_t j = 0; j < EACH; j++)
            d[i][j] = ah_attention_bent(d[i][j], shared.delta[rows ? own_row(i) : own_column(j)], s[i][j]);
}

/* ---- forward ---- */

struct plain_softmax {
    float most[EACH];
    float sum[EACH];
};

/* Turns scores of keys, from `key` on, into weights, and rescales the sums to the new largest scores. */
static __device__ void weigh(float (&s)[EACH][EACH], struct plain_softmax &softmax, float (&o)[EACH][OWN],
                             const struct plain_shared &shared, const struct ah_attention &attention,
                             uint32_t position, uint32_t key)
{
#pragma unroll
    for (uint32_t i = 0; i < EACH; i++) {
        float most = softmax.most[i], sum = 0;
#pragma unroll
        for (uint32_t j = 0; j < EACH; j++) {
            const bool seen =
                sees(attention, position + own_row(i), shared.first[own_row(i)], key + own_column(j));
            s[i][j] = seen ? s[i][j] * attention.factor : -INFINITY;
            most = fmaxf(most, s[i][j]);
        }
        for (int step = SIDE / 2; step; step /= 2)
            most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, step));
        const float base = most == -INFINITY ? 0.0f : most, decay = exp2f(softmax.most[i] - base);
#pragma unroll
        for (uint32_t j = 0; j < EACH; j++) {
            s[i][j] = exp2f(s[i][j] - base);
            sum += s[i][j];
        }
        softmax.most[i] = most;
        softmax.sum[i] = fmaf(softmax.sum[i], decay, sum);
#pragma unroll
        for (uint32_t j = 0; j < OWN; j++)
            o[i][j] *= decay;
    }
}

static __device__ void finish(struct plain_softmax &softmax, float (&o)[EACH][OWN],
                              const struct ah_attention &attention, const struct plain_task &task)
{
    float *lse = attention.lse + ah_attention_vector(attention, task.sequence, task.head);
#pragma unroll
    for (uint32_t i = 0; i < EACH; i++) {
        float sum = softmax.sum[i];
        for (int step = SIDE / 2; step; step /= 2)
            sum += __shfl_xor_sync(0xffffffffu, sum, step);
        if (own_column(0) == 0 && task.column == 0 && task.row + own_row(i) < attention.seq)
            lse[task.row + own_row(i)] = fmaf(softmax.most[i], AH_ATTENTION_LN_2, logf(sum));
#pragma unroll
        for (uint32_t j = 0; j < OWN; j++)
            o[i][j] /= sum;
    }
    store(rows_of(attention, attention.out, task.sequence, task.row, task.head), task.column, o, 1);
}

static __global__ void __launch_bounds__(THREADS) forward(const struct ah_attention attention)
{
    __shared__ struct plain_shared shared;
    const struct plain_task task = task_of(attention, attention.heads);
    const uint32_t position = attention.past + task.row, end = min(position + TILE, attention.keys),
                   kv_head = task.head / attention.group;
    const struct plain_rows q = rows_of(attention, attention.q, task.sequence, task.row, task.head);
    const struct ah_attention_sight sight =
        ah_attention_look(attention, shared.first, task.sequence, position, TILE);
    struct plain_softmax softmax;
    float o[EACH][OWN] = {}, s[EACH][EACH];
    for (uint32_t i = 0; i < EACH; i++) {
        softmax.most[i] = -INFINITY;
        softmax.sum[i] = 0;
    }
    for (uint32_t key = sight.least / TILE * TILE; key < end; key += TILE) {
        multiply(s, shared, q, rows_of(attention, attention.k, task.sequence, key, kv_head));
        if (attention.soft_cap > 0)
            cap(s, attention.bend);
        weigh(s, softmax, o, shared, attention, position, key);
        share(shared, s);
        add(o, shared, rows_of(attention, attention.v, task.sequence, key, kv_head), task.column);
    }
    finish(softmax, o, attention, task);
}

/* ---- backward ---- */

/* Reads lse and delta of 64 queries; a query beyond the sequence gets the last query's. Put a barrier between the last
 * read of the old values and this call, and another between this call and the first read of the new values. */
static __device__ void read_sums(struct plain_shared &shared, const struct ah_attention &attention,
                                 uint32_t sequence, uint32_t head, uint32_t query)
{
    const uint64_t vector = ah_attention_vector(attention, sequence, head);
    for (uint32_t i = threadIdx.x; i < TILE; i += THREADS) {
        const uint32_t at = min(query + i, attention.seq - 1);
        shared.lse[i] = attention.lse[vector + at] * AH_ATTENTION_LOG2_E;
        shared.delta[i] = attention.delta[vector + at];
    }
}

/* Reads lse, delta and `first`, then passes a barrier. */
static __device__ void read_queries(struct plain_shared &shared, const struct ah_attention &attention,
                                    uint32_t sequence, uint32_t head, uint32_t query)
{
    read_sums(shared, attention, sequence, head, query);
    for (uint32_t i = threadIdx.x; i < TILE; i += THREADS)
        shared.first[i] = ah_attention_first(attention, sequence, min(query + i, attention.seq - 1));
    __syncthreads();
}

static __global__ void __launch_bounds__(THREADS) backward_queries(const struct ah_attention attention)
{
    __shared__ struct plain_shared shared;
    const struct plain_task task = task_of(attention, attention.heads);
    const uint32_t end = min(task.row + TILE, attention.seq), kv_head = task.head / attention.group;
    const struct plain_rows q = rows_of(attention, attention.q, task.sequence, task.row, task.head);
    const struct plain_rows dout = rows_of(attention, attention.dout, task.sequence, task.row, task.head);
    read_sums(shared, attention, task.sequence, task.head, task.row);
    const struct ah_attention_sight sight =
        ah_attention_look(attention, shared.first, task.sequence, task.row, TILE);
    float o[EACH][OWN] = {}, s[EACH][EACH], d[EACH][EACH];
    for (uint32_t key = sight.least / TILE * TILE; key < end; key += TILE) {
        const struct plain_rows k = rows_of(attention, attention.k, task.sequence, key, kv_head);
        multiply(s, shared, q, k);
        multiply(d, shared, dout, rows_of(attention, attention.v, task.sequence, key, kv_head));
        if (attention.soft_cap > 0) {
            cap(s, attention.bend);
            bend<true>(d, s, shared);
        }
        for (uint32_t i = 0; i < EACH; i++)
            for (uint32_t j = 0; j < EACH; j++) {
                const uint32_t row = own_row(i);
                const bool seen = sees(attention, task.row + row, shared.first[row], key + own_column(j));
                const float p = exp2f(fmaf(s[i][j], attention.factor, -shared.lse[row]));
                s[i][j] = seen ? p * (d[i][j] - shared.delta[row]) : 0.0f;
            }
        share(shared, s);
        add(o, shared, k, task.column);
    }
    store(rows_of(attention, attention.dq, task.sequence, task.row, task.head), task.column, o,
          attention.scale);
}

/* Adds to dk and dv what 64 queries of a head, from `query` on, contribute. */
static __device__ void add_queries(float (&dk)[EACH][OWN], float (&dv)[EACH][OWN],
                                   struct plain_shared &shared, const struct ah_attention &attention,
                                   const struct plain_task &task, uint32_t head, uint32_t query)
{
    const struct plain_rows q = rows_of(attention, attention.q, task.sequence, query, head);
    const struct plain_rows dout = rows_of(attention, attention.dout, task.sequence, query, head);
    float s[EACH][EACH], d[EACH][EACH];
    read_queries(shared, attention, task.sequence, head, query);
    multiply(s, shared, rows_of(attention, attention.k, task.sequence, task.row, task.head), q);
    multiply(d, shared, rows_of(attention, attention.v, task.sequence, task.row, task.head), dout);
    if (attention.soft_cap > 0) {
        cap(s, attention.bend);
        bend<false>(d, s, shared);
    }
    for (uint32_t i = 0; i < EACH; i++)
        for (uint32_t j = 0; j < EACH; j++) {
            const uint32_t column = own_column(j);
            const bool seen = sees(attention, query + column, shared.first[column], task.row + own_row(i));
            s[i][j] = seen ? exp2f(fmaf(s[i][j], attention.factor, -shared.lse[column])) : 0.0f;
            d[i][j] = s[i][j] * (d[i][j] - shared.delta[column]);
        }
    share(shared, s);
    add(dv, shared, dout, task.column);
    share(shared, d);
    add(dk, shared, q, task.column);
}

static __global__ void __launch_bounds__(THREADS) backward_keys(const struct ah_attention attention)
{
    __shared__ struct plain_shared shared;
    const struct plain_task task = task_of(attention, attention.kv_heads);
    const uint32_t last = ah_attention_last(attention, shared.last, task.sequence, task.row + TILE - 1);
    float dk[EACH][OWN] = {}, dv[EACH][OWN] = {};
    for (uint32_t i = 0; i < attention.group; i++)
        for (uint32_t query = task.row; query <= last; query += TILE)
            add_queries(dk, dv, shared, attention, task, task.head * attention.group + i, query);
    store(rows_of(attention, attention.dk, task.sequence, task.row, task.head), task.column, dk,
          attention.scale);
    store(rows_of(attention, attention.dv, task.sequence, task.row, task.head), task.column, dv, 1);
}

/* ---- launches ---- */

static cudaError_t grid_of(dim3 *ret_grid, const struct ah_attention *attention, uint32_t heads)
{
    uint32_t blocks = 0;
    cudaError_t rc = ah_attention_blocks(&blocks, attention, heads, TILE);
    *ret_grid = dim3(blocks, ah_attention_sets(attention->head_dim, COLUMNS));
    return rc;
}

cudaError_t ah_attention_plain_forward(const struct ah_attention *attention, cudaStream_t stream)
{
    dim3 grid;
    cudaError_t rc = grid_of(&grid, attention, attention->heads);
    if (!rc)
        rc = AH_LAUNCH(forward, grid, THREADS, 0, stream, *attention);
    return rc;
}

cudaError_t ah_attention_plain_backward(const struct ah_attention *attention, cudaStream_t stream)
{
    dim3 grid;
    cudaError_t rc = grid_of(&grid, attention, attention->heads);
    if (!rc)
        rc = AH_LAUNCH(backward_queries, grid, THREADS, 0, stream, *attention);
    if (!rc)
        rc = grid_of(&grid, attention, attention->kv_heads);
    if (!rc)
        rc = AH_LAUNCH(backward_keys, grid, THREADS, 0, stream, *attention);
    return rc;
}
