/* SPDX-License-Identifier: Apache-2.0
 *
 * Cross-entropy: the loss of each row of logits x, and its gradient. The gradient replaces the logits, or is a separate
 * bf16 matrix beside fp32 logits, which are then only read. With M the largest logit of a row:
 *
 *     S = sum exp(x_i - M)                                              (1)
 *     loss = ln S + (M - x_target)                                      (2)
 *     gradient_i = exp(x_i - M) (scale / S),  - scale at the target     (3)
 *
 * With a soft cap, x_i means cap t_i, t_i = tanh(z_i / cap), for the stored logit z_i, and (3) is multiplied by
 * 1 - t_i^2. Shared memory holds the z_i; (1), (2) and (3) each compute x_i from them, to the same bits.
 *
 * A block computes a row, a thread every n-th element, with sixteen loads in flight. One read of the row finds M and S;
 * whenever it meets a larger logit, the sum so far is rescaled. As many logits as fit the processor's shared memory
 * stay there for (3): 56 thousand in fp32 on Hopper. A row that fits is read once and written once, 8 bytes an element,
 * or 6 with a bf16 gradient. The rest of a longer row is read a second time, last part first, since that part is still
 * in the L2 cache.
 *
 * Elements are read one by one, 128 bytes a warp, because rows of an odd vocabulary are not aligned. The number of
 * THREADS follows only from the vocabulary, and keeping logits in shared memory changes no bits.
 */
#include "runtime/device/cuda/kernels/elements.cuh"
#include "runtime/device/cuda/kernels/teams.cuh"

#include <float.h>

namespace
{

enum {
    FEW = 128,
    MANY = 1024,
    MANY_FROM = 8192,
    AT_ONCE = 16
}; /* THREADS; MANY for vocabularies of MANY_FROM or more */
enum { SHARED_STATIC = 2048, SHARED_DEFAULT = 48 << 10 };

struct task {
    float *loss;
    struct ah_rows logits, gradient; /* gradient: the same matrix as logits, or a separate one */
    const uint32_t *targets;
    const uint8_t *mask; /* NULL: no mask */
    const float *scale;
    uint32_t vocabulary;
    uint32_t held;      /* number of a row's elements that stay in shared memory */
    float cap, inverse; /* the cap and 1 / cap; read only by kernels for caps */
};

template <int D> struct logit;

template <> struct logit<AH_FP32> {
    typedef float type;
};

template <> struct logit<AH_BF16> {
    typedef uint16_t type;
};

__device__ inline float logit_float(float x)
{
    return x;
}

__device__ inline float logit_float(uint16_t x)
{
    return ah_bf16_float(x);
}

__device__ inline void logit_set(float *to, float x)
{
    *to = x;
}

__device__ inline void logit_set(uint16_t *to, float x)
{
    *to = static_cast<uint16_t>(ah_bf16_pair(x, 0));
}

/* tanh(z / cap) */
__device__ inline float capped_tanh(const struct task *t, float stored)
{
    return tanhf(stored * t->inverse);
}

template <bool CAPPED> __device__ inline float logit_of(const struct task *t, float stored)
{
    return CAPPED ? t->cap * capped_tanh(t, stored) : stored;
}

/* Returns element i of the gradient from the stored logit. */
template <bool CAPPED>
__device__ inline float gradient_of(const struct task *t, float stored, float most, float rate, float minus)
{
    const float part = CAPPED ? capped_tanh(t, stored) : 0.0f;
    const float gradient = fmaf(expf((CAPPED ? t->cap * part : stored) - most), rate, minus);
    return CAPPED ? gradient * fmaf(-part, part, 1.0f) : gradient;
}

/* The largest of some logits, and the sum of their exp(x - most). */
struct total {
    float most, sum;
};

/* Reads the thread's elements and keeps the first of them in shared memory. `most` stays finite, so that the
 * exponential of a logit of -infinity is 0. */
template <bool CAPPED, uint32_t THREADS, class T>
__device__ inline struct total read_row(const struct task *t, const T *row, T *held)
{
    struct total total = {-FLT_MAX, 0};
    for (uint32_t first = threadIdx.x; first < t->vocabulary; first += AT_ONCE * THREADS) {
        const uint32_t left = t->vocabulary - first, left_held = first < t->held ? t->held - first : 0;
        const T *const from = row + first;
        float x[AT_ONCE], most = total.most;
        for (unsigned k = 0; k < AT_ONCE; k++)
            x[k] = k * THREADS < left ? logit_float(from[k * THREADS]) : -INFINITY;
        for (unsigned k = 0; k < AT_ONCE; k++)
            if (k * THREADS < left_held)
                logit_set(&held[first + k * THREADS], x[k]);
        for (unsigned k = 0; CAPPED && k < AT_ONCE; k++)
            x[k] = k * THREADS < left ? logit_of<CAPPED>(t, x[k]) : -INFINITY;
        for (unsigned k = 0; k < AT_ONCE; k++)
            most = fmaxf(most, x[k]);
        total.sum *= expf(total.most - most);
        total.most = most;
        for (unsigned k = 0; k < AT_ONCE; k++)
            total.sum += expf(x[k] - most);
    }
    return total;
}

/* Combines the totals of the block's threads. */
__device__ inline struct total add_threads(struct total mine, float (*partial)[AH_WARPS_MAX])
{
    const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
    struct total all = {ah_warp_most(mine.most), 0};
    if (lane == 0)
        partial[0][warp] = all.most;
    __syncthreads();
    all.most = ah_warp_most(lane < warps ? partial[0][lane] : -FLT_MAX);
    all.sum = ah_team_sum(mine.sum * expf(mine.most - all.most), blockDim.x, partial[1]);
    return all;
}

/* Writes the gradient (3), last elements first. */
template <bool CAPPED, uint32_t THREADS, class T, class G>
__device__ inline void write_row(const struct task *t, const T *row, G *gradient, const T *held, float most,
                                 float scale, float rate, uint32_t target)
{
    const uint32_t stride = AT_ONCE * THREADS;
    for (uint32_t group = (t->vocabulary + stride - 1) / stride; group-- > 0;) {
        const uint32_t first = group * stride + threadIdx.x;
        const uint32_t left = first < t->vocabulary ? t->vocabulary - first : 0;
        const uint32_t left_held = first < t->held ? t->held - first : 0;
        const T *const from = row + first;
        G *const to = gradient + first;
        float x[AT_ONCE];
        for (unsigned k = 0; k < AT_ONCE; k++)
            x[k] = k * THREADS >= left_held && k * THREADS < left ? logit_float(from[k * THREADS]) : 0.0f;
        for (unsigned k = 0; k < AT_ONCE; k++)
            if (k * THREADS < left_held)
                x[k] = logit_float(held[first + k * THREADS]);
        for (unsigned k = 0; k < AT_ONCE; k++)
            x[k] = gradient_of<CAPPED>(t, x[k], most, rate, first + k * THREADS == target ? -scale : 0.0f);
        for (unsigned k = 0; k < AT_ONCE; k++)
            if (k * THREADS < left)
                logit_set(&to[k * THREADS], x[k]);
    }
}

template <class T> __device__ inline void clear_row(const struct task *t, T *row)
{
    for (uint64_t i = threadIdx.x; i < t->vocabulary; i += blockDim.x)
        row[i] = T();
}

template <int D, int TO, bool CAPPED, uint32_t THREADS>
__global__ void __launch_bounds__(THREADS) cross_entropy(struct task t)
{
    typedef typename logit<D>::type T;
    typedef typename logit<TO>::type G;
    AH_DYNAMIC_SHARED(T, held);
    __shared__ float partial[2][AH_WARPS_MAX];
    const T *const row = reinterpret_cast<const T *>(t.logits.data) + blockIdx.x * t.logits.stride;
    G *const gradient = reinterpret_cast<G *>(t.gradient.data) + blockIdx.x * t.gradient.stride;
    if (t.mask && !t.mask[blockIdx.x]) {
        clear_row(&t, gradient);
        if (threadIdx.x == 0)
            t.loss[blockIdx.x] = 0;
        return;
    }
    const uint32_t target = t.targets[blockIdx.x];
    const float logit = logit_of<CAPPED>(&t, logit_float(row[target]));
    const struct total total = add_threads(read_row<CAPPED, THREADS>(&t, row, held), partial);
    if (threadIdx.x == 0)
        t.loss[blockIdx.x] = logf(total.sum) + (total.most - logit);
    write_row<CAPPED, THREADS>(&t, row, gradient, held, total.most, *t.scale, *t.scale / total.sum, target);
}

typedef void row_kernel(struct task);

template <bool CAPPED, uint32_t THREADS> row_kernel *kernel_of(const struct task *t)
{
    if (t->logits.dtype == AH_BF16)
        return cross_entropy<AH_BF16, AH_BF16, CAPPED, THREADS>;
    return t->gradient.dtype == AH_BF16 ? cross_entropy<AH_FP32, AH_BF16, CAPPED, THREADS>
                                        : cross_entropy<AH_FP32, AH_FP32, CAPPED, THREADS>;
}

template <uint32_t THREADS> row_kernel *kernel_of(const struct task *t)
{
    return t->cap > 0 ? kernel_of<true, THREADS>(t) : kernel_of<false, THREADS>(t);
}

/* Sets `ret_bytes` to the shared memory for rows of `bytes`: a whole row, or as much as a block may have. */
cudaError_t shared_for(uint64_t bytes, uint64_t *ret_bytes)
{
    int device, most;
    *ret_bytes = bytes;
    if (bytes <= SHARED_DEFAULT - SHARED_STATIC)
        return cudaSuccess;
    cudaError_t rc = cudaGetDevice(&device);
    if (!rc)
        rc = cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
    if (!rc && bytes > static_cast<uint64_t>(most) - SHARED_STATIC)
        *ret_bytes = static_cast<uint64_t>(most) - SHARED_STATIC;
    return rc;
}

} // namespace

cudaError_t ah_cuda_cross_entropy(const struct ah_cuda_launch *launch)
{
    const struct ah_op_cross_entropy *op = &launch->op->u.cross_entropy;
    struct task t = {static_cast<float *>(launch->arg[0]),
                     ah_rows_of(launch, 1, op->vocabulary),
                     ah_rows_of(launch, launch->arg[5] ? 5 : 1, op->vocabulary),
                     static_cast<const uint32_t *>(launch->arg[2]),
                     static_cast<const uint8_t *>(launch->arg[3]),
                     static_cast<const float *>(launch->arg[4]),
                     static_cast<uint32_t>(op->vocabulary),
                     0,
                     op->soft_cap,
                     op->soft_cap > 0 ? 1 / op->soft_cap : 0.0f};
    const uint64_t bytes = t.logits.dtype == AH_BF16 ? 2 : 4;
    const bool many = op->vocabulary >= MANY_FROM;
    row_kernel *const kernel = many ? kernel_of<MANY>(&t) : kernel_of<FEW>(&t);
    uint64_t shared;
    if (op->rows > INT32_MAX || op->vocabulary > INT32_MAX)
        return cudaErrorInvalidConfiguration;
    cudaError_t rc = shared_for(bytes * op->vocabulary, &shared);
    if (rc)
        return rc;
    t.held = static_cast<uint32_t>(shared / bytes);
    if (shared > SHARED_DEFAULT - SHARED_STATIC)
        rc = AH_ALLOW_SHARED(kernel, shared);
    if (!rc)
        rc = AH_LAUNCH(kernel, dim3(static_cast<unsigned>(op->rows)), dim3(many ? MANY : FEW), shared,
                       launch->stream, t);
    return rc;
}
