/* SPDX-License-Identifier: Apache-2.0
 *
 * What the attention kernels share: the op as kernels see it, which keys a query sees, and tiles of bf16 in shared
 * memory with their products. The tensor-core kernels are attention_forward.cu and attention_backward.cu;
 * attention_plain.cu computes the ops that these cannot.
 *
 * HELD AND PASSING. A block holds some rows (queries, or keys) and loads tiles of the other kind one by one. Each warp
 * has 16 * M of the held rows to itself, from their scores to their sums, so nothing is added across warps:
 *
 *     forward        holds q           passing k, v       s = q k^T                     o += p v
 *     dq             holds q, dout     passing k, v       s = q k^T,  d = dout v^T      dq += (d p) k
 *     dk and dv      holds k, v        passing q, dout    s = k q^T,  d = v dout^T      dv += p dout,  dk += (d p) q
 *
 * A product leaves scores in the layout of the next product's first operand (mma.cuh), so p never goes through shared
 * memory. For that, dk and dv compute their scores transposed.
 *
 * TILES. A row of a tile is D elements, in chunks of 16 bytes. Chunk c of row r is stored at chunk c ^ (r % 8) if D is
 * a multiple of 64, and at c ^ (r / 2 % 4) if D is only a multiple of 32. A quarter warp loads or stores the same chunk
 * of eight rows, so its accesses use different banks. Rows beyond the sequence and columns beyond head_dim are zero.
 *
 * head_dim may be any multiple of 8. Each kernel has a table of D; the op uses the smallest D >= head_dim.
 */
#ifndef AH_RUNTIME_DEVICE_CUDA_KERNELS_ATTENTION_CUH
#define AH_RUNTIME_DEVICE_CUDA_KERNELS_ATTENTION_CUH

#include "runtime/device/cuda/kernels/mma.cuh"

#include "runtime/device/cuda/kernels/kernels.h"

#include <math.h>

#define AH_ATTENTION_LOG2_E 0x1.715476p+0f
#define AH_ATTENTION_LN_2   0x1.62e430p-1f

/* A matrix of heads: (batch * length, heads, head_dim). */
struct ah_attention_matrix {
    unsigned char *data;
    uint64_t row_bytes; /* from token to token */
    uint32_t element_bytes;
    uint32_t length; /* rows of a sequence */
};

struct ah_attention {
    struct ah_attention_matrix out, q, k, v, dout, dq, dk, dv;
    float *lse;           /* (batch, heads, seq) */
    float *delta;         /* (batch, heads, seq): sums of dout * out; backward only */
    const uint32_t *docs; /* (batch, seq); NULL: no documents */
    uint32_t batch, seq, heads, kv_heads, head_dim, window;
    uint32_t past;  /* position of a sequence's first query; 0 in backward and with documents */
    uint32_t keys;  /* of a sequence: past + seq */
    uint32_t group; /* heads / kv_heads */
    float scale;
    float soft_cap; /* 0: none */
    float factor;   /* scale * log2(e): scores are powers of two; with a soft cap, cap * log2(e) */
    float bend;     /* with a soft cap: scale / soft_cap, so that scores become tanh(score * bend) */
    float twice;    /* 2 bend log2(e) */
    float inverse;  /* 1 / factor */
};

enum { AH_ATTENTION_LANES = 32, AH_ATTENTION_CHUNK = 16, AH_ATTENTION_WIDEST = 256 };

extern "C" {

/* The kernels without tensor cores: any types, any head_dim, any alignment. */
cudaError_t ah_attention_plain_forward(const struct ah_attention *attention, cudaStream_t stream);
cudaError_t ah_attention_plain_backward(const struct ah_attention *attention, cudaStream_t stream);

/* ah_attention_of() makes the op from a launch. ah_attention_suits() is true if tensor cores can compute the op. */
void ah_attention_of(struct ah_attention *ret_attention, const struct ah_cuda_launch *launch);
bool ah_attention_suits(const struct ah_attention *attention);

/* Sets `ret_blocks` to the number of blocks, each with `rows` rows of one of `heads` heads. Returns
 * cudaErrorInvalidConfiguration if no grid can have that many. */
cudaError_t ah_attention_blocks(uint32_t *ret_blocks, const struct ah_attention *attention, uint32_t heads,
                                uint32_t rows);

/* Fills attention->delta. */
cudaError_t ah_attention_delta(const struct ah_attention *attention, cudaStream_t stream);

} /* extern "C" */

/* Returns the number of sets that hold `n` things, `each` of them in a set. */
static inline __host__ __device__ uint32_t ah_attention_sets(uint32_t n, uint32_t each)
{
    return n / each + (n % each != 0);
}

#define AH_ATTENTION_DEVICE static __device__ __forceinline__

/* Returns the gradient `d` of a weight, changed so that `d` - `delta` is multiplied by the slope of the cap where its
 * tanh is `t`. So the steps that follow need not know whether scores are capped. */
AH_ATTENTION_DEVICE float ah_attention_bent(float d, float delta, float t)
{
    return fmaf(d - delta, fmaf(-t, t, 1.0f), delta);
}

AH_ATTENTION_DEVICE unsigned char *ah_attention_row(const struct ah_attention &attention,
                                                    const struct ah_attention_matrix &matrix,
                                                    uint32_t sequence, uint32_t row, uint32_t head)
{
    return matrix.data + (static_cast<uint64_t>(sequence) * matrix.length + row) * matrix.row_bytes +
           static_cast<uint64_t>(head) * attention.head_dim * matrix.element_bytes;
}

AH_ATTENTION_DEVICE float ah_attention_element(const unsigned char *row, uint32_t element_bytes, uint32_t i)
{
    if (element_bytes == 4)
        return reinterpret_cast<const float *>(row)[i];
    return __uint_as_float(static_cast<uint32_t>(reinterpret_cast<const uint16_t *>(row)[i]) << 16);
}

/* Returns the index of a head's first row in an array (batch, heads, seq). */
AH_ATTENTION_DEVICE uint64_t ah_attention_vector(const struct ah_attention &attention, uint32_t sequence,
                                                 uint32_t head)
{
    return (static_cast<uint64_t>(sequence) * attention.heads + head) * attention.seq;
}

/* Returns the number of the thread's warp. The shuffle tells the compiler that all lanes have the same number. */
AH_ATTENTION_DEVICE uint32_t ah_attention_warp(void)
{
    return __shfl_sync(0xffffffffu, threadIdx.x / AH_ATTENTION_LANES, 0);
}

/* The work of a block that holds queries. */
struct ah_attention_task {
    uint32_t sequence, head;
    uint32_t query; /* the first of the block's queries */
};

/* Returns the task of a block of ROWS queries. The last queries see the most keys, so their blocks come first. */
template <uint32_t ROWS>
AH_ATTENTION_DEVICE struct ah_attention_task ah_attention_task_of(const struct ah_attention &attention,
                                                                  uint32_t block)
{
    const uint32_t blocks = ah_attention_sets(attention.seq, ROWS);
    return {block / blocks / attention.heads, block / blocks % attention.heads,
            (blocks - 1 - block % blocks) * ROWS};
}

/* ---- the keys that a query sees: from its first key to its own position ---- */

AH_ATTENTION_DEVICE uint32_t ah_attention_window(const struct ah_attention &attention, uint32_t position)
{
    return attention.window && position >= attention.window ? position - attention.window + 1 : 0;
}

AH_ATTENTION_DEVICE uint32_t ah_attention_first(const struct ah_attention &attention, uint32_t sequence,
                                                uint32_t position)
{
    const uint32_t first = ah_attention_window(attention, position);
    if (!attention.docs)
        return first;
    const uint32_t document = attention.docs[static_cast<uint64_t>(sequence) * attention.seq + position];
    return document > first ? document : first;
}

/* The smallest and the largest of the first keys that a block's queries see. */
struct ah_attention_sight {
    uint32_t least, most;
};

/* Writes the first keys of `n` queries, from `position` on, to `first` (shared), and returns their range to all
 * threads. Queries beyond the sequence get the last query's first key. Every thread passes a barrier after the writes.
 */
AH_ATTENTION_DEVICE struct ah_attention_sight ah_attention_look(const struct ah_attention &attention,
                                                                uint32_t *first, uint32_t sequence,
                                                                uint32_t position, uint32_t n)
{
    struct ah_attention_sight sight = {UINT32_MAX, 0};
    for (uint32_t i = threadIdx.x; i < n; i += blockDim.x)
        first[i] = ah_attention_first(attention, sequence, min(position + i, attention.keys - 1));
    __syncthreads();
    for (uint32_t i = threadIdx.x % AH_ATTENTION_LANES; i < n; i += AH_ATTENTION_LANES) {
        sight.least = min(sight.least, first[i]);
        sight.most = max(sight.most, first[i]);
    }
    sight.least = __reduce_min_sync(0xffffffffu, sight.least);
    sight.most = __reduce_max_sync(0xffffffffu, sight.most);
    return sight;
}

/* Returns, to all threads of the block, the last query that sees a key <= `key`. One exists, because `key` or else the
 * sequence's last token sees itself. `last` (shared) has a word per warp; do not write it before the next barrier. */
AH_ATTENTION_DEVICE uint32_t ah_attention_last(const struct ah_attention &attention, uint32_t *last,
                                               uint32_t sequence, uint32_t key)
{
    uint32_t end = attention.seq - 1, most = min(key, end);
    if (attention.window && end - most >= attention.window)
        end = most + attention.window - 1;
    if (!attention.docs)
        return end;
#pragma unroll 8
    for (uint32_t query = most + threadIdx.x; query <= end; query += blockDim.x)
        most = ah_attention_first(attention, sequence, query) <= key ? query : most;
    most = __reduce_max_sync(0xffffffffu, most);
    if (threadIdx.x % AH_ATTENTION_LANES == 0)
        last[threadIdx.x / AH_ATTENTION_LANES] = most;
    __syncthreads();
    for (uint32_t warp = 0; warp < blockDim.x / AH_ATTENTION_LANES; warp++)
        most = max(most, last[warp]);
    return most;
}

/* ---- tiles of bf16 in shared memory ---- */

template <uint32_t D> struct ah_attention_tile {
    static_assert(D % 32 == 0, "rows of whole quarters of the banks");
    static const uint32_t row_bytes = D * 2;
    static const uint32_t chunks = D / 8;
    static const uint32_t slots = D > 128  ? 32
                                  : D > 64 ? 16
                                  : D > 32 ? 8
                                           : 4;           /* number of lanes that share the chunks of a row */
    static const uint32_t variants = D % 64 == 0 ? 4 : 2; /* pairs of chunks that the swizzle mixes */
};

/* Returns the offset in a tile of chunk `chunk` of row `row`. */
template <uint32_t D> AH_ATTENTION_DEVICE uint32_t ah_attention_chunk(uint32_t row, uint32_t chunk)
{
    const uint32_t swizzle = D % 64 == 0 ? row % 8 : row / 2 % 4;
    return row * ah_attention_tile<D>::row_bytes + (chunk ^ swizzle) * AH_ATTENTION_CHUNK;
}

/* Returns the place of the chunk 2 * `pair` chunks after `at`, the place of chunk 0 or 1 of a row. With this swizzle
 * the step is one exclusive or with a constant, because tiles start at multiples of 128 bytes. */
template <uint32_t D> AH_ATTENTION_DEVICE ah_mma_place ah_attention_pair(ah_mma_place at, uint32_t pair)
{
    const uint32_t variants = ah_attention_tile<D>::variants;
    return (at ^ pair % variants * (2 * AH_ATTENTION_CHUNK)) +
           pair / variants * variants * (2 * AH_ATTENTION_CHUNK);
}

/* Returns the offset of a lane's row in 16 x 16 elements: an operand a (mma.cuh) or, transposed, two operands b. */
template <uint32_t D> AH_ATTENTION_DEVICE uint32_t ah_attention_lane_a(void)
{
    const uint32_t lane = threadIdx.x % AH_ATTENTION_LANES;
    return ah_attention_chunk<D>(lane % 16, lane / 16);
}

/* Returns the offset of a lane's row in two operands b of 16 rows, with k along the rows. */
template <uint32_t D> AH_ATTENTION_DEVICE uint32_t ah_attention_lane_b(void)
{
    const uint32_t lane = threadIdx.x % AH_ATTENTION_LANES;
    return ah_attention_chunk<D>(lane % 8 + lane / 16 * 8, lane / 8 % 2);
}

/* Returns the place of the first chunk that a thread copies from `rows` of a head. */
template <uint32_t D, uint32_t THREADS>
AH_ATTENTION_DEVICE const unsigned char *ah_attention_own(const unsigned char *rows, uint64_t row_bytes)
{
    const uint32_t slots = ah_attention_tile<D>::slots;
    return rows + threadIdx.x / slots * row_bytes + threadIdx.x % slots * AH_ATTENTION_CHUNK;
}

/* Starts copying `n` rows of a head, at most ROWS, into a tile. The tile's other rows become zero, as do columns from
 * byte `head_bytes` on. All THREADS threads of a block call it, each with its own place: ah_attention_own(). */
template <uint32_t D, uint32_t ROWS, uint32_t THREADS>
AH_ATTENTION_DEVICE void ah_attention_fetch_own(struct ah_mma_pipe &pipe, ah_mma_place tile,
                                                const unsigned char *own, uint64_t row_bytes, uint32_t n,
                                                uint32_t head_bytes)
{
    const uint32_t slots = ah_attention_tile<D>::slots, step = THREADS / slots;
    const uint32_t chunk = threadIdx.x % slots, begin = threadIdx.x / slots;
    const bool inside = chunk * AH_ATTENTION_CHUNK < head_bytes;
    if (chunk >= ah_attention_tile<D>::chunks)
        return;
#pragma unroll
    for (uint32_t pass = 0; pass < (ROWS + step - 1) / step; pass++, own += step * row_bytes) {
        const uint32_t row = begin + pass * step;
        const bool there = inside && row < n;
        if (ROWS % step == 0 || row < ROWS)
            ah_mma_copy(pipe, tile + ah_attention_chunk<D>(row, chunk), own, there ? AH_ATTENTION_CHUNK : 0);
    }
}

/* Likewise, with the same `rows` from all threads. */
template <uint32_t D, uint32_t ROWS, uint32_t THREADS>
AH_ATTENTION_DEVICE void ah_attention_fetch(struct ah_mma_pipe &pipe, ah_mma_place tile,
                                            const unsigned char *rows, uint64_t row_bytes, uint32_t n,
                                            uint32_t head_bytes)
{
    ah_attention_fetch_own<D, ROWS, THREADS>(pipe, tile, ah_attention_own<D, THREADS>(rows, row_bytes),
                                             row_bytes, n, head_bytes);
}

/* Computes s = a b^T, with k along rows of D elements. The warp's rows are at `a`, the N rows of b at `b`. */
template <uint32_t D, uint32_t M, uint32_t N>
AH_ATTENTION_DEVICE void ah_attention_multiply(float (&s)[M][N / 8][4], ah_mma_place a, ah_mma_place b)
{
    const ah_mma_place at_a = ah_mma_anew(a + ah_attention_lane_a<D>()),
                       at_b = ah_mma_anew(b + ah_attention_lane_b<D>());
    const uint32_t step = 16 * ah_attention_tile<D>::row_bytes;
#pragma unroll
    for (uint32_t m = 0; m < M; m++)
#pragma unroll
        for (uint32_t n = 0; n < N / 8; n++)
#pragma unroll
            for (uint32_t i = 0; i < 4; i++)
                s[m][n][i] = 0;
#pragma unroll
    for (uint32_t k = 0; k < D / 16; k++) {
        uint32_t of_a[M][4], of_b[4];
#pragma unroll
        for (uint32_t m = 0; m < M; m++)
            ah_mma_load(of_a[m], ah_attention_pair<D>(at_a, k) + m * step);
#pragma unroll
        for (uint32_t n = 0; n < N / 16; n++) {
            ah_mma_load(of_b, ah_attention_pair<D>(at_b, k) + n * step);
#pragma unroll
            for (uint32_t m = 0; m < M; m++) {
                ah_mma_multiply(s[m][2 * n], of_a[m], of_b[0], of_b[1]);
                ah_mma_multiply(s[m][2 * n + 1], of_a[m], of_b[2], of_b[3]);
            }
        }
    }
}

/* Sets `ret_a` to columns 16 * k to 16 * k + 15 of p, rounded to bf16. */
template <uint32_t M, uint32_t N>
AH_ATTENTION_DEVICE void ah_attention_round(uint32_t (&ret_a)[M][4], const float (&p)[M][N][4], uint32_t k)
{
#pragma unroll
    for (uint32_t m = 0; m < M; m++)
#pragma unroll
        for (uint32_t i = 0; i < 4; i++)
            ret_a[m][i] = ah_mma_pair(p[m][2 * k + i / 2][i % 2 * 2], p[m][2 * k + i / 2][i % 2 * 2 + 1]);
}

/* Computes o += a b. A lane loads the 16 rows of b from `at` on, in N pairs of chunks of columns. */
template <uint32_t D, uint32_t M, uint32_t N>
AH_ATTENTION_DEVICE void ah_attention_add(float (&o)[M][N * 2][4], const uint32_t (&a)[M][4], ah_mma_place at)
{
#pragma unroll
    for (uint32_t n = 0; n < N; n++) {
        uint32_t b[4];
        ah_mma_load_transposed(b, ah_attention_pair<D>(at, n));
#pragma unroll
        for (uint32_t m = 0; m < M; m++) {
            ah_mma_multiply(o[m][2 * n], a[m], b[0], b[1]);
            ah_mma_multiply(o[m][2 * n + 1], a[m], b[2], b[3]);
        }
    }
}

/* Computes o += p b, with p rounded. k runs along the K rows of b; the COLUMNS columns begin where `b` points. */
template <uint32_t D, uint32_t M, uint32_t K, uint32_t COLUMNS>
AH_ATTENTION_DEVICE void ah_attention_accumulate(float (&o)[M][COLUMNS / 8][4], const float (&p)[M][K / 8][4],
                                                 ah_mma_place b)
{
    const ah_mma_place at = ah_mma_anew(b + ah_attention_lane_a<D>());
#pragma unroll
    for (uint32_t k = 0; k < K / 16; k++) {
        uint32_t a[M][4];
        ah_attention_round<M, K / 8>(a, p, k);
        ah_attention_add<D, M, COLUMNS / 16>(o, a, at + k * 16 * ah_attention_tile<D>::row_bytes);
    }
}

/* ---- rows and columns of a lane's elements ---- */

/* Returns the row of a lane's elements s[m][][2 * half] in the warp's tile of scores or sums. */
AH_ATTENTION_DEVICE uint32_t ah_attention_lane_row(uint32_t m, uint32_t half)
{
    return m * 16 + half * 8 + threadIdx.x % AH_ATTENTION_LANES / 4;
}

/* Returns the column of a lane's elements s[][n][odd] and s[][n][2 + odd] in the warp's tile. */
AH_ATTENTION_DEVICE uint32_t ah_attention_lane_column(uint32_t n, uint32_t odd)
{
    return n * 8 + threadIdx.x % 4 * 2 + odd;
}

/* Turns scores into their tanh, 1 - 2 / (1 + 2^(score * twice)), within 2^-21: good enough for the caps that
 * ah_attention_suits() lets pass. */
template <uint32_t M, uint32_t N>
AH_ATTENTION_DEVICE void ah_attention_cap(float (&s)[M][N / 8][4], float twice)
{
#pragma unroll
    for (uint32_t m = 0; m < M; m++)
#pragma unroll
        for (uint32_t n = 0; n < N / 8; n++)
#pragma unroll
            for (uint32_t i = 0; i < 4; i++)
                s[m][n][i] = fmaf(-2.0f, ah_mma_reciprocal(1.0f + ah_mma_exp2(s[m][n][i] * twice)), 1.0f);
}

/* Sets scores of unseen keys to -infinity. Rows are queries from `position` on, columns are keys from `key` on; `first`
 * (shared) has each row's first key. */
template <uint32_t M, uint32_t N>
AH_ATTENTION_DEVICE void ah_attention_mask(float (&s)[M][N / 8][4], const struct ah_attention &attention,
                                           const uint32_t *first, uint32_t position, uint32_t key)
{
#pragma unroll
    for (uint32_t m = 0; m < M; m++)
#pragma unroll
        for (uint32_t half = 0; half < 2; half++) {
            const uint32_t row = ah_attention_lane_row(m, half), from = first[row];
            const uint32_t span = min(position + row, attention.keys - 1) - from;
#pragma unroll
            for (uint32_t n = 0; n < N / 8; n++)
#pragma unroll
                for (uint32_t odd = 0; odd < 2; odd++)
                    if (key + ah_attention_lane_column(n, odd) - from > span)
                        s[m][n][2 * half + odd] = -INFINITY;
        }
}

/* Stores the warp's sums, times a factor per row, as COLUMNS columns of bf16 from `column` on. The sums pass through
 * the warp's own rows of the tile at `tile`, in columns that no other warp uses. Each lane then copies 16 bytes at a
 * time to the `n` rows that exist. */
template <uint32_t D, uint32_t M, uint32_t COLUMNS>
AH_ATTENTION_DEVICE void ah_attention_store(const float (&sums)[M][COLUMNS / 8][4],
                                            const float (&factor)[M][2], unsigned char *tile, uint32_t column,
                                            unsigned char *rows, uint64_t row_bytes, uint32_t n,
                                            uint32_t head_bytes)
{
    const uint32_t lane = threadIdx.x % AH_ATTENTION_LANES, before = column / 8;
    const uint32_t slots = ah_attention_tile<COLUMNS>::slots, step = AH_ATTENTION_LANES / slots;
    __syncwarp();
#pragma unroll
    for (uint32_t m = 0; m < M; m++)
#pragma unroll
        for (uint32_t i = 0; i < COLUMNS / 4; i++) {
            const uint32_t chunk = i / 2, half = i % 2;
            const uint32_t at =
                ah_attention_chunk<D>(ah_attention_lane_row(m, half), before + chunk) + lane % 4 * 4;
            *reinterpret_cast<uint32_t *>(tile + at) = ah_mma_pair(
                sums[m][chunk][2 * half] * factor[m][half], sums[m][chunk][2 * half + 1] * factor[m][half]);
        }
    __syncwarp();
    const uint32_t chunk = lane % slots;
    if (chunk >= COLUMNS / 8 || (before + chunk) * AH_ATTENTION_CHUNK >= head_bytes)
        return;
    for (uint32_t row = lane / slots; row < min(n, M * 16); row += step)
        *reinterpret_cast<uint4 *>(rows + row * row_bytes + (before + chunk) * AH_ATTENTION_CHUNK) =
            *reinterpret_cast<const uint4 *>(tile + ah_attention_chunk<D>(row, before + chunk));
}

#endif
