/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention: the host code that forward and backward share, and the kernel for delta (attention.cuh).
 */
#include "runtime/device/cuda/kernels/attention.cuh"
#include "runtime/device/cuda/kernels/teams.cuh"

#include "schemas/vocabulary.h"

enum { DELTA_THREADS = 256 };

#define LEAST_CAP 0.125f
#define MOST_CAP  1024.0f

static struct ah_attention_matrix matrix_of(const struct ah_cuda_launch *launch, size_t arg, uint32_t heads,
                                            uint32_t length)
{
    const struct ah_ref *ref = &launch->op->arg[arg];
    const uint64_t width = static_cast<uint64_t>(heads) * launch->op->u.attention.head_dim;
    const uint32_t bytes = ref->dtype == AH_BF16 ? 2 : 4;
    return {static_cast<unsigned char *>(launch->arg[arg]),
            (ref->row_stride ? ref->row_stride : width) * bytes, bytes, length};
}

static void forward_of(struct ah_attention *attention, const struct ah_cuda_launch *launch)
{
    attention->out = matrix_of(launch, 0, attention->heads, attention->seq);
    attention->lse = static_cast<float *>(launch->arg[1]);
    attention->q = matrix_of(launch, 2, attention->heads, attention->seq);
    attention->k = matrix_of(launch, 3, attention->kv_heads, attention->keys);
    attention->v = matrix_of(launch, 4, attention->kv_heads, attention->keys);
    attention->docs = static_cast<const uint32_t *>(launch->arg[5]);
}

static void backward_of(struct ah_attention *attention, const struct ah_cuda_launch *launch)
{
    attention->dq = matrix_of(launch, 0, attention->heads, attention->seq);
    attention->dk = matrix_of(launch, 1, attention->kv_heads, attention->keys);
    attention->dv = matrix_of(launch, 2, attention->kv_heads, attention->keys);
    attention->dout = matrix_of(launch, 3, attention->heads, attention->seq);
    attention->q = matrix_of(launch, 4, attention->heads, attention->seq);
    attention->k = matrix_of(launch, 5, attention->kv_heads, attention->keys);
    attention->v = matrix_of(launch, 6, attention->kv_heads, attention->keys);
    attention->out = matrix_of(launch, 7, attention->heads, attention->seq);
    attention->lse = static_cast<float *>(launch->arg[8]);
    attention->docs = static_cast<const uint32_t *>(launch->arg[9]);
    attention->delta = static_cast<float *>(launch->arg[10]);
}

void ah_attention_of(struct ah_attention *ret_attention, const struct ah_cuda_launch *launch)
{
    const struct ah_op_attention *sizes = &launch->op->u.attention;
    *ret_attention = {};
    ret_attention->batch = sizes->batch;
    ret_attention->seq = sizes->seq;
    ret_attention->past = sizes->past;
    ret_attention->keys = sizes->past + sizes->seq;
    ret_attention->heads = sizes->heads;
    ret_attention->kv_heads = sizes->kv_heads;
    ret_attention->head_dim = sizes->head_dim;
    ret_attention->window = sizes->window;
    ret_attention->group = sizes->heads / sizes->kv_heads;
    ret_attention->scale = sizes->scale;
    ret_attention->factor = (sizes->soft_cap > 0 ? sizes->soft_cap : sizes->scale) * AH_ATTENTION_LOG2_E;
    ret_attention->bend = sizes->soft_cap > 0 ? sizes->scale / sizes->soft_cap : 0;
    ret_attention->twice = ret_attention->bend * (2 * AH_ATTENTION_LOG2_E);
    ret_attention->inverse = 1 / ret_attention->factor;
    ret_attention->soft_cap = sizes->soft_cap;
    if (launch->op->kind == AH_OP_ATTENTION)
        forward_of(ret_attention, launch);
    else
        backward_of(ret_attention, launch);
}

/* True if rows can be copied 16 bytes at a time, or the matrix is absent. */
static bool suits(const struct ah_attention_matrix *matrix)
{
    return !matrix->data || (matrix->element_bytes == 2 && matrix->row_bytes % AH_ATTENTION_CHUNK == 0 &&
                             reinterpret_cast<uintptr_t>(matrix->data) % AH_ATTENTION_CHUNK == 0);
}

/* The tensor cores' tanh and its slope have absolute errors. Ordinary caps do not magnify them. */
static bool cap_suits(float cap)
{
    return cap == 0 || (cap >= LEAST_CAP && cap <= MOST_CAP);
}

bool ah_attention_suits(const struct ah_attention *attention)
{
    const struct ah_attention_matrix *const all[] = {&attention->out, &attention->q,    &attention->k,
                                                     &attention->v,   &attention->dout, &attention->dq,
                                                     &attention->dk,  &attention->dv};
    if (attention->head_dim % 8 || attention->head_dim > AH_ATTENTION_WIDEST || !(attention->scale > 0) ||
        !cap_suits(attention->soft_cap))
        return false;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (!suits(all[i]))
            return false;
    return true;
}

cudaError_t ah_attention_blocks(uint32_t *ret_blocks, const struct ah_attention *attention, uint32_t heads,
                                uint32_t rows)
{
    const uint64_t blocks =
        static_cast<uint64_t>(attention->batch) * heads * ah_attention_sets(attention->seq, rows);
    if (blocks > INT32_MAX || attention->keys > INT32_MAX)
        return cudaErrorInvalidConfiguration;
    *ret_blocks = static_cast<uint32_t>(blocks);
    return cudaSuccess;
}

/* ---- delta ---- */

static __device__ __forceinline__ float low(uint32_t pair)
{
    return __uint_as_float(pair << 16);
}

static __device__ __forceinline__ float high(uint32_t pair)
{
    return __uint_as_float(pair & 0xffff0000u);
}

static __device__ __forceinline__ float dot_pair(uint32_t a, uint32_t b, float sum)
{
    return fmaf(high(a), high(b), fmaf(low(a), low(b), sum));
}

/* Returns a lane's part of a dot product of two rows of bf16, read 16 bytes at a time. */
template <uint32_t TEAM>
static __device__ __forceinline__ float dot_chunks(const unsigned char *a, const unsigned char *b,
                                                   uint32_t head_dim)
{
    float sum = 0;
    for (uint32_t i = threadIdx.x % TEAM; i < head_dim / 8; i += TEAM) {
        const uint4 x = reinterpret_cast<const uint4 *>(a)[i], y = reinterpret_cast<const uint4 *>(b)[i];
        sum = dot_pair(x.x, y.x, sum);
        sum = dot_pair(x.y, y.y, sum);
        sum = dot_pair(x.z, y.z, sum);
        sum = dot_pair(x.w, y.w, sum);
    }
    return sum;
}

/* Returns a lane's part of a dot product of two rows of any type. */
template <uint32_t TEAM>
static __device__ __forceinline__ float dot_elements(const unsigned char *a, uint32_t a_bytes,
                                                     const unsigned char *b, uint32_t b_bytes,
                                                     uint32_t head_dim)
{
    float sum = 0;
    for (uint32_t i = threadIdx.x % TEAM; i < head_dim; i += TEAM)
        sum = fmaf(ah_attention_element(a, a_bytes, i), ah_attention_element(b, b_bytes, i), sum);
    return sum;
}

/* Computes delta. Each team of TEAM lanes computes one query of one head, in the order of memory. A smaller TEAM only
 * lacks lanes without elements, so any TEAM gives the same bits. */
template <bool chunks, uint32_t TEAM>
static __global__ void __launch_bounds__(DELTA_THREADS) delta(const struct ah_attention attention)
{
    const uint32_t rows = attention.batch * attention.seq * attention.heads;
    const uint32_t number = blockIdx.x * (DELTA_THREADS / TEAM) + threadIdx.x / TEAM;
    const uint32_t row = min(number, rows - 1), token = row / attention.heads, head = row % attention.heads;
    const uint32_t sequence = token / attention.seq, query = token % attention.seq;
    const struct ah_attention_matrix &dout = attention.dout, &out = attention.out;
    const unsigned char *a = ah_attention_row(attention, dout, sequence, query, head);
    const unsigned char *b = ah_attention_row(attention, out, sequence, query, head);
    const float part =
        chunks ? dot_chunks<TEAM>(a, b, attention.head_dim)
               : dot_elements<TEAM>(a, dout.element_bytes, b, out.element_bytes, attention.head_dim);
    const float sum = ah_warp_sum(part, TEAM);
    if (number < rows && threadIdx.x % TEAM == 0)
        attention.delta[ah_attention_vector(attention, sequence, head) + query] = sum;
}

template <bool chunks, uint32_t TEAM>
static cudaError_t launch_delta(const struct ah_attention *attention, cudaStream_t stream)
{
    const uint64_t rows = static_cast<uint64_t>(attention->batch) * attention->seq * attention->heads;
    const uint64_t each = DELTA_THREADS / TEAM, blocks = (rows + each - 1) / each;
    if (blocks * each > UINT32_MAX)
        return cudaErrorInvalidConfiguration;
    return AH_LAUNCH((delta<chunks, TEAM>), static_cast<uint32_t>(blocks), DELTA_THREADS, 0, stream,
                     *attention);
}

cudaError_t ah_attention_delta(const struct ah_attention *attention, cudaStream_t stream)
{
    if (!ah_attention_suits(attention))
        return launch_delta<false, AH_ATTENTION_LANES>(attention, stream);
    if (attention->head_dim <= 64)
        return launch_delta<true, 8>(attention, stream);
    return attention->head_dim <= 128 ? launch_delta<true, 16>(attention, stream)
                                      : launch_delta<true, AH_ATTENTION_LANES>(attention, stream);
}
