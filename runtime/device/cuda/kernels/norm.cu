/* SPDX-License-Identifier: Apache-2.0
 *
 * Norm: normalises each of a row's `heads` vectors separately. The arithmetic is that of device/math/norm.inc, but sums
 * have a different order.
 *
 * A team of threads computes one vector: 32 elements a thread, in four groups of eight that interleave with its
 * neighbours'. They stay in registers, so x is read once and y written once: 4 bytes an element in bf16, with gain and
 * bias from the caches. Vectors of more than 32768 elements, and unaligned vectors, are read once more for every sum.
 *
 * A thread adds its groups in ascending order, each as a tree; then the threads' sums are added as a tree (teams.cuh).
 * The team's size follows only from the width.
 */
#include "runtime/device/cuda/kernels/elements.cuh"
#include "runtime/device/cuda/kernels/teams.cuh"

namespace
{

enum { TEAM_MAX = 1024, BLOCK_MIN = 256 };

struct task {
    struct ah_rows y, x, gain, bias;
    float *mean; /* only of layer norms */
    float *scale;
    uint64_t vectors, heads, width;
    uint64_t eights; /* groups of eight elements in a vector */
    unsigned team;
    float epsilon;
    float offset; /* added to each gain; -0: nothing is */
};

/* The number of groups of eight elements that a thread keeps in registers, and the number that it reads in all. */
template <int D> struct kept {
    enum { EIGHTS = 4 };
    static __device__ unsigned rounds(const struct task *)
    {
        return EIGHTS;
    }
};

template <> struct kept<AH_ANY> {
    enum { EIGHTS = 1 };
    static __device__ unsigned rounds(const struct task *t)
    {
        return static_cast<unsigned>((t->eights + t->team - 1) / t->team);
    }
};

/* A thread's part of one vector. */
template <int D> struct part {
    struct ah_address<D> x;
    struct ah_eight<D> held[kept<D>::EIGHTS];
};

/* Loads group k of a part as floats; missing elements are 0. */
template <int D>
__device__ inline void round_floats(struct part<D> *p, unsigned k, uint64_t, uint64_t, float ret_x[8])
{
    ah_floats(p->held[k], ret_x);
}

__device__ inline void round_floats(struct part<AH_ANY> *p, unsigned, uint64_t i, uint64_t width,
                                    float ret_x[8])
{
    ah_load(&p->held[0], p->x, i, width - i);
    ah_floats(p->held[0], ret_x);
}

template <int D> __device__ inline void part_load(struct part<D> *p, const struct task *t, unsigned lane)
{
    for (unsigned k = 0; k < kept<D>::EIGHTS; k++) {
        const uint64_t eight = lane + k * t->team;
        if (eight < t->eights)
            ah_load(&p->held[k], p->x, 8 * eight, 8);
    }
}

__device__ inline void part_load(struct part<AH_ANY> *, const struct task *, unsigned)
{
}

/* Sum over a thread's elements: part_sum() x, part_squares() the squares of x - mean. */
template <int D> __device__ inline float part_sum(struct part<D> *p, const struct task *t, unsigned lane)
{
    float sum = 0, x[8];
    for (unsigned k = 0; k < kept<D>::rounds(t); k++) {
        const uint64_t eight = lane + k * t->team;
        if (eight < t->eights) {
            round_floats(p, k, 8 * eight, t->width, x);
            sum += ah_eight_sum(x);
        }
    }
    return sum;
}

template <int D, bool LAYER>
__device__ inline float part_squares(struct part<D> *p, const struct task *t, unsigned lane, float mean)
{
    float sum = 0, x[8];
    for (unsigned k = 0; k < kept<D>::rounds(t); k++) {
        const uint64_t eight = lane + k * t->team;
        if (eight < t->eights) {
            round_floats(p, k, 8 * eight, t->width, x);
            for (unsigned j = 0; LAYER && j < 8; j++)
                x[j] = D != AH_ANY || 8 * eight + j < t->width ? x[j] - mean : 0.0f;
            sum += ah_eight_dot(x, x);
        }
    }
    return sum;
}

template <int D, bool LAYER>
__device__ inline void part_write(struct part<D> *p, const struct task *t, unsigned lane, uint64_t row,
                                  uint64_t column, float mean, float scale)
{
    float n[8], g[8], b[8];
    for (unsigned k = 0; k < kept<D>::rounds(t); k++) {
        const uint64_t i = 8 * (lane + static_cast<uint64_t>(k) * t->team);
        struct ah_eight<D> gain, bias;
        if (i >= 8 * t->eights)
            continue;
        ah_load(&gain, ah_row<D>(t->gain, 0, 0), i, t->width - i);
        round_floats(p, k, i, t->width, n);
        ah_floats(gain, g);
        if (LAYER && t->bias.data) {
            ah_load(&bias, ah_row<D>(t->bias, 0, 0), i, t->width - i);
            ah_floats(bias, b);
        }
        for (unsigned j = 0; j < 8; j++) {
            g[j] += t->offset;
            n[j] = LAYER ? (n[j] - mean) * scale : n[j] * scale;
            n[j] = LAYER && t->bias.data ? fmaf(n[j], g[j], b[j]) : n[j] * g[j];
        }
        ah_store(ah_row<D>(t->y, row, column), i, t->width - i, n);
    }
}

/* Normalises a vector with each team. Teams beyond the last vector repeat it and write nothing. */
template <int D, bool LAYER> __global__ void __launch_bounds__(TEAM_MAX) norm_vectors(struct task t)
{
    __shared__ float partial[2][AH_WARPS_MAX];
    const unsigned lane = threadIdx.x & (t.team - 1);
    const uint64_t place = (static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x) / t.team;
    const uint64_t vector = place < t.vectors ? place : t.vectors - 1;
    const uint64_t row = t.heads == 1 ? vector : vector / t.heads,
                   column = (vector - row * t.heads) * t.width;
    const float width = static_cast<float>(t.width);
    struct part<D> p;
    float mean = 0;
    p.x = ah_row<D>(t.x, row, column);
    part_load(&p, &t, lane);
    if (LAYER)
        mean = ah_team_sum(part_sum(&p, &t, lane), t.team, partial[0]) / width;
    const float squares = ah_team_sum(part_squares<D, LAYER>(&p, &t, lane, mean), t.team, partial[1]);
    const float scale = 1.0f / sqrtf(squares / width + t.epsilon);
    if (place >= t.vectors)
        return;
    if (lane == 0) {
        t.scale[vector] = scale;
        if (LAYER)
            t.mean[vector] = mean;
    }
    part_write<D, LAYER>(&p, &t, lane, row, column, mean, scale);
}

typedef void vectors_kernel(struct task);

template <bool LAYER> vectors_kernel *kernel_of(int version)
{
    if (version == AH_BF16)
        return norm_vectors<AH_BF16, LAYER>;
    return version == AH_FP32 ? norm_vectors<AH_FP32, LAYER> : norm_vectors<AH_ANY, LAYER>;
}

} // namespace

cudaError_t ah_cuda_norm(const struct ah_cuda_launch *launch)
{
    const struct ah_op_norm *norm = &launch->op->u.norm;
    const uint64_t heads = norm->heads ? norm->heads : 1, row = heads * norm->width;
    const bool layer = norm->kind == AH_NORM_LAYER;
    float *stats = static_cast<float *>(launch->arg[4]);
    struct task t = {ah_rows_of(launch, 0, row),
                     ah_rows_of(launch, 1, row),
                     ah_rows_of(launch, 2, row),
                     ah_rows_of(launch, 3, row),
                     layer ? stats : nullptr,
                     stats,
                     norm->rows * heads,
                     heads,
                     norm->width,
                     (norm->width + 7) / 8,
                     1,
                     norm->epsilon,
                     ah_op_gain_offset(norm)};
    const struct ah_rows *const operands[] = {&t.x, &t.y, &t.gain, &t.bias};
    t.scale += layer ? t.vectors : 0;
    t.team = ah_team_size((t.eights + 3) / 4, TEAM_MAX);
    const unsigned threads = t.team < BLOCK_MIN && t.team <= 32 ? static_cast<unsigned>(BLOCK_MIN) : t.team;
    const uint64_t teams = threads / t.team, blocks = (t.vectors + teams - 1) / teams;
    int version = ah_rows_versions(operands, 4, t.width);
    if (blocks > INT32_MAX)
        return cudaErrorInvalidConfiguration;
    if (t.eights > 4 * static_cast<uint64_t>(TEAM_MAX))
        version = AH_ANY;
    vectors_kernel *const kernel = layer ? kernel_of<true>(version) : kernel_of<false>(version);
    return AH_LAUNCH(kernel, dim3(static_cast<unsigned>(blocks)), dim3(threads), 0, launch->stream, t);
}
