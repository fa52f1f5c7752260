/* SPDX-License-Identifier: Apache-2.0
 *
 * Norm, backward. The arithmetic is that of device/math/norm.inc, but sums have a different order.
 *
 * A block computes a group of AH_OP_NORM_GROUP vectors, and its teams of threads take the vectors in turn: 16 elements
 * a thread, in two groups of eight. In bf16 the next vector is loaded while one is computed. The partial gradients of
 * gain and bias stay in registers until all vectors are done. Then the teams' sums are added in order and stored in a
 * row of the scratch; columns.cuh adds up its columns. So x and dy are read once and dx is written once; the scratch,
 * 1/32 of that, is written and read.
 *
 * Vectors of more than 8192 elements are computed one after another, each by a whole block, with the partial gradients
 * in the scratch: three passes. Teams, and so the order of sums, follow only from the width.
 */
#include "runtime/device/cuda/kernels/columns.cuh"
#include "runtime/device/cuda/kernels/teams.cuh"

namespace
{

enum { THREADS = 512, EIGHTS = 2, WIDE_THREADS = 1024 };
enum { KEPT_WIDTH = 8 * EIGHTS * THREADS };

struct task {
    struct ah_rows dx, dy, x, gain;
    const float *mean; /* NULL: rms */
    const float *scale;
    float *dgain, *dbias; /* partial, (groups, width); NULL: not wanted */
    uint64_t vectors, heads, width;
    uint64_t eights; /* groups of eight elements in a vector */
    unsigned team;
    float offset; /* added to each gain; -0: nothing is */
};

/* A thread's part of a vector, as loaded. */
template <int X, int DY> struct part {
    struct ah_eight<X> x[EIGHTS];
    struct ah_eight<DY> dy[EIGHTS];
    uint64_t row, column; /* where the vector begins */
    float mean, scale;
};

/* The values from which dx is computed once the sums are known. */
struct back {
    float g[EIGHTS][8];
    float n[EIGHTS][8];
};

/* A thread's sums for gain and bias over a group of vectors. */
struct gradients {
    float gain[EIGHTS][8];
    float bias[EIGHTS][8];
};

template <int X, int DY>
__device__ inline void part_load(struct part<X, DY> *p, const struct task *t, unsigned lane, uint64_t v)
{
    p->row = t->heads == 1 ? v : v / t->heads;
    p->column = (v - p->row * t->heads) * t->width;
#pragma unroll
    for (unsigned k = 0; k < EIGHTS; k++) {
        const uint64_t i = 8 * (lane + static_cast<uint64_t>(k) * t->team);
        if (i >= t->width)
            continue;
        ah_load(&p->x[k], ah_row<X>(t->x, p->row, p->column), i, t->width - i);
        ah_load(&p->dy[k], ah_row<DY>(t->dy, p->row, p->column), i, t->width - i);
    }
    p->mean = t->mean ? t->mean[v] : 0.0f;
    p->scale = t->scale[v];
}

/* Computes g of eight elements. Adds to the sums of g and of g n, and to the gradients of gain and bias. Missing
 * elements have dy = 0 and add nothing. */
template <bool LAYER>
__device__ inline void add_eight(const float dy[8], const float gain[8], float g[8], const float n[8],
                                 float sums[2], float dgain[8], float dbias[8])
{
    for (unsigned j = 0; j < 8; j++) {
        g[j] = dy[j] * gain[j];
        dgain[j] = fmaf(dy[j], n[j], dgain[j]);
        if (LAYER)
            dbias[j] += dy[j];
    }
    if (LAYER)
        sums[0] += ah_eight_sum(g);
    sums[1] += ah_eight_dot(g, n);
}

template <int X, int DY, bool LAYER>
__device__ inline void part_add(const struct part<X, DY> *p, const struct task *t, unsigned lane,
                                struct back *ret_back, float ret_sums[2], struct gradients *gradients)
{
    ret_sums[0] = ret_sums[1] = 0;
#pragma unroll
    for (unsigned k = 0; k < EIGHTS; k++) {
        const uint64_t i = 8 * (lane + static_cast<uint64_t>(k) * t->team);
        float *const n = ret_back->n[k];
        float dy[8], gain[8];
        struct ah_eight<X> gains;
        if (i >= t->width)
            continue;
        ah_load(&gains, ah_row<X>(t->gain, 0, 0), i, t->width - i);
        ah_floats(p->x[k], n);
        for (unsigned j = 0; j < 8; j++)
            n[j] = LAYER ? (n[j] - p->mean) * p->scale : n[j] * p->scale;
        ah_floats(p->dy[k], dy);
        ah_floats(gains, gain);
        for (unsigned j = 0; j < 8; j++)
            gain[j] += t->offset;
        add_eight<LAYER>(dy, gain, ret_back->g[k], n, ret_sums, gradients->gain[k], gradients->bias[k]);
    }
}

/* Writes dx; `means`: the means of g and of g n. */
template <int X, int DY, bool LAYER>
__device__ inline void part_write(const struct part<X, DY> *p, const struct task *t, unsigned lane,
                                  struct back *back, const float means[2])
{
#pragma unroll
    for (unsigned k = 0; k < EIGHTS; k++) {
        const uint64_t i = 8 * (lane + static_cast<uint64_t>(k) * t->team);
        float *const g = back->g[k];
        if (i >= t->width)
            continue;
        for (unsigned j = 0; j < 8; j++)
            g[j] = p->scale * fmaf(-means[1], back->n[k][j], LAYER ? g[j] - means[0] : g[j]);
        ah_store(ah_row<X>(t->dx, p->row, p->column), i, t->width - i, g);
    }
}

/* Strides of the sums in shared memory. A team stores the first elements of all its groups of eight, then their second
 * elements, and so on. The gaps between these, and between teams, avoid bank conflicts of threads that write one
 * element of many groups, and of threads that read whole groups. */
__host__ __device__ inline unsigned eights_stride(unsigned team)
{
    return EIGHTS * team + 4;
}

__host__ __device__ inline unsigned teams_stride(unsigned team)
{
    return 8 * eights_stride(team) + team;
}

/* Adds up the sums of the block's teams and writes them as a row of partial sums. */
__device__ inline void add_teams(const struct task *t, const float sums[EIGHTS][8], float *shared, float *row)
{
    const unsigned lane = threadIdx.x & (t->team - 1), teams = blockDim.x / t->team,
                   columns = 8 * EIGHTS * t->team, stride = eights_stride(t->team);
    float *mine = shared + threadIdx.x / t->team * teams_stride(t->team);
    __syncthreads();
    for (unsigned k = 0; k < EIGHTS; k++)
        for (unsigned j = 0; j < 8; j++)
            mine[j * stride + lane + k * t->team] = sums[k][j];
    __syncthreads();
    for (unsigned i = threadIdx.x; i < columns && i < t->width; i += blockDim.x) {
        const float *of_teams = shared + i % 8 * stride + i / 8;
        float sum = 0;
        for (unsigned team = 0; team < teams; team++)
            sum += of_teams[team * teams_stride(t->team)];
        row[i] = sum;
    }
}

template <int X, int DY, bool LAYER> __global__ void __launch_bounds__(THREADS) norm_group(struct task t)
{
    AH_DYNAMIC_SHARED(float, shared); /* teams_stride() floats for each team */
    __shared__ float partial[2][2][AH_WARPS_MAX];
    const unsigned lane = threadIdx.x & (t.team - 1), teams = blockDim.x / t.team;
    const uint64_t begin = static_cast<uint64_t>(blockIdx.x) * AH_OP_NORM_GROUP + threadIdx.x / t.team;
    const float width = static_cast<float>(t.width);
    /* Whether the next vector is loaded ahead; two vectors of wider types would not fit the registers. */
    constexpr bool ahead = X == AH_BF16 && (DY == AH_BF16 || !LAYER);
    struct gradients gradients = {};
    struct part<X, DY> next = part<X, DY>();
    if (ahead && begin < t.vectors)
        part_load(&next, &t, lane, begin);
    for (unsigned step = 0; step * teams < AH_OP_NORM_GROUP; step++) {
        const uint64_t v = begin + step * teams;
        struct back back = {};
        float sums[2] = {0, 0};
        if (!ahead && v < t.vectors)
            part_load(&next, &t, lane, v);
        const struct part<X, DY> now = next;
        if (ahead && (step + 1) * teams < AH_OP_NORM_GROUP && v + teams < t.vectors)
            part_load(&next, &t, lane, v + teams);
        if (v < t.vectors)
            part_add<X, DY, LAYER>(&now, &t, lane, &back, sums, &gradients);
        if (!t.dx.data)
            continue;
        if (LAYER)
            sums[0] = ah_team_sum(sums[0], t.team, partial[step % 2][0]) / width;
        sums[1] = ah_team_sum(sums[1], t.team, partial[step % 2][1]) / width;
        if (v < t.vectors)
            part_write<X, DY, LAYER>(&now, &t, lane, &back, sums);
    }
    if (t.dgain)
        add_teams(&t, gradients.gain, shared, t.dgain + blockIdx.x * t.width);
    if (LAYER && t.dbias)
        add_teams(&t, gradients.bias, shared, t.dbias + blockIdx.x * t.width);
}

/* A vector of more than 8192 elements, computed by a whole block. */
struct wide {
    uint64_t row, column;
    float mean, scale;
};

__device__ inline float wide_dy(const struct task *t, const struct wide *w, uint64_t i)
{
    return ah_element(t->dy.data, t->dy.dtype, w->row * t->dy.stride + w->column + i);
}

__device__ inline float wide_normal(const struct task *t, const struct wide *w, uint64_t i)
{
    return (ah_element(t->x.data, t->x.dtype, w->row * t->x.stride + w->column + i) - w->mean) * w->scale;
}

__device__ inline float wide_gain(const struct task *t, uint64_t i)
{
    return ah_element(t->gain.data, t->gain.dtype, i) + t->offset;
}

__device__ inline void wide_sums(const struct task *t, const struct wide *w, float ret_sums[2])
{
    ret_sums[0] = ret_sums[1] = 0;
    for (uint64_t i = threadIdx.x; i < t->width; i += blockDim.x) {
        const float g = wide_dy(t, w, i) * wide_gain(t, i);
        ret_sums[0] += g;
        ret_sums[1] = fmaf(g, wide_normal(t, w, i), ret_sums[1]);
    }
}

__device__ inline void wide_write(const struct task *t, const struct wide *w, const float means[2],
                                  bool first)
{
    float *const dgain = t->dgain ? t->dgain + blockIdx.x * t->width : nullptr;
    float *const dbias = t->dbias ? t->dbias + blockIdx.x * t->width : nullptr;
    for (uint64_t i = threadIdx.x; i < t->width; i += blockDim.x) {
        const float dy = wide_dy(t, w, i), n = wide_normal(t, w, i);
        const float g = dy * wide_gain(t, i) - means[0];
        if (dgain)
            dgain[i] = fmaf(dy, n, first ? 0.0f : dgain[i]);
        if (dbias)
            dbias[i] = dy + (first ? 0.0f : dbias[i]);
        if (t->dx.data)
            ah_element_set(t->dx.data, t->dx.dtype, w->row * t->dx.stride + w->column + i,
                           w->scale * fmaf(-means[1], n, g));
    }
}

__global__ void __launch_bounds__(WIDE_THREADS) norm_group_wide(struct task t)
{
    __shared__ float partial[2][2][AH_WARPS_MAX];
    const uint64_t begin = static_cast<uint64_t>(blockIdx.x) * AH_OP_NORM_GROUP;
    for (uint64_t v = begin; v < begin + AH_OP_NORM_GROUP && v < t.vectors; v++) {
        const uint64_t row = v / t.heads;
        const struct wide w = {row, (v - row * t.heads) * t.width, t.mean ? t.mean[v] : 0.0f, t.scale[v]};
        float sums[2];
        wide_sums(&t, &w, sums);
        sums[0] = ah_team_sum(sums[0], blockDim.x, partial[v % 2][0]) / static_cast<float>(t.width);
        sums[1] = ah_team_sum(sums[1], blockDim.x, partial[v % 2][1]) / static_cast<float>(t.width);
        sums[0] = t.mean ? sums[0] : 0.0f;
        wide_write(&t, &w, sums, v == begin);
    }
}

typedef void group_kernel(struct task);

/* Chooses the kernel. dy may be fp32 while x is bf16, because it is then the sum of two products. */
template <bool LAYER> group_kernel *kernel_of(const struct task *t)
{
    const struct ah_rows *const operands[] = {&t->x, &t->dx, &t->gain};
    const int x = ah_rows_versions(operands, 3, t->width), dy = ah_rows_version(&t->dy, t->width, AH_ANY);
    if (x == AH_BF16 && dy == AH_BF16)
        return norm_group<AH_BF16, AH_BF16, LAYER>;
    if (x == AH_BF16 && dy == AH_FP32)
        return norm_group<AH_BF16, AH_FP32, LAYER>;
    if (x == AH_FP32 && dy == AH_FP32)
        return norm_group<AH_FP32, AH_FP32, LAYER>;
    return norm_group<AH_ANY, AH_ANY, LAYER>;
}

cudaError_t run_groups(cudaStream_t stream, struct task *t, uint64_t groups)
{
    const dim3 grid(static_cast<unsigned>(groups));
    if (groups > INT32_MAX)
        return cudaErrorInvalidConfiguration;
    if (t->width > KEPT_WIDTH)
        return AH_LAUNCH(norm_group_wide, grid, dim3(WIDE_THREADS), 0, stream, *t);
    t->team = ah_team_size((t->eights + EIGHTS - 1) / EIGHTS, THREADS);
    const unsigned all = AH_OP_NORM_GROUP * t->team,
                   threads = all < THREADS ? all : static_cast<unsigned>(THREADS);
    group_kernel *const kernel = t->mean ? kernel_of<true>(t) : kernel_of<false>(t);
    const size_t shared_bytes = threads / t->team * teams_stride(t->team) * sizeof(float);
    return AH_LAUNCH(kernel, grid, dim3(threads), shared_bytes, stream, *t);
}

/* Computes operand `arg` from its partial sums, if it is wanted. */
cudaError_t add_groups(const struct ah_cuda_launch *launch, size_t arg, float *partials, uint64_t groups)
{
    const uint64_t width = launch->op->u.norm.width;
    const struct ah_rows src = {reinterpret_cast<unsigned char *>(partials), width, AH_FP32};
    if (!partials)
        return cudaSuccess;
    return ah_columns_sum(launch->stream, ah_rows_of(launch, arg, width), src, groups, width);
}

} // namespace

cudaError_t ah_cuda_norm_backward(const struct ah_cuda_launch *launch)
{
    const struct ah_op_norm *norm = &launch->op->u.norm;
    const uint64_t heads = norm->heads ? norm->heads : 1, row = heads * norm->width,
                   vectors = norm->rows * heads;
    const uint64_t groups = (vectors + AH_OP_NORM_GROUP - 1) / AH_OP_NORM_GROUP;
    const bool layer = norm->kind == AH_NORM_LAYER;
    const float *stats = static_cast<const float *>(launch->arg[6]);
    float *scratch = static_cast<float *>(launch->arg[7]);
    struct task t = {ah_rows_of(launch, 0, row),
                     ah_rows_of(launch, 3, row),
                     ah_rows_of(launch, 4, row),
                     ah_rows_of(launch, 5, row),
                     layer ? stats : nullptr,
                     layer ? stats + vectors : stats,
                     launch->arg[1] ? scratch : nullptr,
                     launch->arg[2] ? scratch + groups * norm->width : nullptr,
                     vectors,
                     heads,
                     norm->width,
                     (norm->width + 7) / 8,
                     1,
                     ah_op_gain_offset(norm)};
    cudaError_t rc = run_groups(launch->stream, &t, groups);
    if (!rc)
        rc = add_groups(launch, 1, t.dgain, groups);
    if (!rc)
        rc = add_groups(launch, 2, t.dbias, groups);
    return rc;
}
