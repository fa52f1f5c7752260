/* SPDX-License-Identifier: Apache-2.0
 *
 * Activation: gelu(x), or gelu(x) up or silu(x) up, and their gradients. With s the sigmoid:
 *
 *   gelu_tanh   x s(z),  z = x (k0 + k1 x^2),  k0 = sqrt(8 / pi), k1 = 0.044715 k0:  (1 + tanh(z / 2)) / 2 = s(z)
 *   gelu        x P,  P = erfc(-x / sqrt(2)) / 2
 *   silu        x s(x) up
 *
 * A gated gelu_tanh is its y times up.
 *
 * Backward, with s' = s (1 - s) and D the normal density:
 *
 *   gelu_tanh   dy (s + x s' (k0 + 3 k1 x^2))
 *   gelu        dy (P + x D(x))
 *   silu        dx = dy up (s + x s'),  dup = dy x s
 *
 * A gated gelu_tanh has gelu_tanh's dx times up, and dup = dy x s.
 *
 * Each operand is read or written once: in bf16, silu moves 6 bytes an element forward and 10 backward. A thread takes
 * eight neighbouring elements and issues all loads before the first use. An element costs about 25 instructions, two of
 * them on the special function unit, so memory remains the bottleneck.
 */
#include "runtime/device/cuda/kernels/elements.cuh"

namespace
{

enum { THREADS = 256 };

struct task {
    struct ah_rows y, x, up;    /* forward */
    struct ah_rows dx, dup, dy; /* backward */
    uint64_t rows, width;
    uint32_t kind;
};

/* 2^x (0 below 2^-126) and 1 / x (0 for x above 2^126), by the special function unit, within 2^-22. */
#ifdef __CUDACC__
__device__ inline float power_of_two(float x)
{
    float power;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
    return power;
}

__device__ inline float reciprocal(float x)
{
    float inverse;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(x));
    return inverse;
}
#else
inline float power_of_two(float x)
{
    return x < -126 ? 0.0f : exp2f(x);
}

inline float reciprocal(float x)
{
    return x > 0x1p126f ? 0.0f : 1 / x;
}
#endif

/* Returns e^x for -128 <= x <= 88. Splits x / ln 2 into a float and its rounding error, which becomes a factor. */
__device__ inline float exponential(float x)
{
    const float t = x * 1.44269502f, rest = fmaf(x, 1.92596303e-8f, fmaf(x, 1.44269502f, -t));
    const float power = power_of_two(t);
    return fmaf(power, rest * 0.693147182f, power);
}

/* s = 1 / (1 + e^-x) and 1 - s, both without cancellation. */
struct sigmoid {
    float value, rest;
};

__device__ inline struct sigmoid sigmoid(float x)
{
    const float e = exponential(fminf(88.0f, fmaxf(-128.0f, -x))), value = reciprocal(1.0f + e);
    const struct sigmoid s = {value, x < 0 ? 1.0f - value : e * value};
    return s;
}

__device__ inline float normal_below(float x)
{
    return 0.5f * erfcf(-0.707106781f * x);
}

__device__ inline float gelu_tanh(float x)
{
    return x * sigmoid(x * fmaf(x * x, 0.0713548163f, 1.59576912f)).value;
}

/* Replaces eight x by their y. All threads have the same kind, so the branch is taken once for eight elements. */
__device__ inline void forward(uint32_t kind, float x[8], const float up[8])
{
    if (kind == AH_ACTIVATION_GELU_TANH)
        for (unsigned j = 0; j < 8; j++)
            x[j] = gelu_tanh(x[j]);
    else if (kind == AH_ACTIVATION_GELU)
        for (unsigned j = 0; j < 8; j++)
            x[j] *= normal_below(x[j]);
    else if (kind == AH_ACTIVATION_GELU_TANH_GATED)
        for (unsigned j = 0; j < 8; j++)
            x[j] = gelu_tanh(x[j]) * up[j];
    else
        for (unsigned j = 0; j < 8; j++)
            x[j] = x[j] * sigmoid(x[j]).value * up[j];
}

/* Returns the derivative of gelu_tanh at x, and sets its value. x^2 is capped where s' is 0, so that 0 is never
 * multiplied by infinity. */
__device__ inline float slope_gelu_tanh(float x, float *ret_y)
{
    const float x2 = fminf(1024.0f, x * x);
    const struct sigmoid s = sigmoid(x * fmaf(x2, 0.0713548163f, 1.59576912f));
    *ret_y = x * s.value;
    return fmaf(x * (s.value * s.rest), fmaf(x2, 0.214064449f, 1.59576912f), s.value);
}

__device__ inline float slope_gelu(float x)
{
    return fmaf(x * expf(-0.5f * (x * x)), 0.398942280f, normal_below(x));
}

__device__ inline void backward_silu(float x, float *dy, float *up)
{
    const struct sigmoid s = sigmoid(x);
    const float dup = *dy * (x * s.value);
    *dy = *dy * *up * fmaf(x * s.rest, s.value, s.value);
    *up = dup;
}

__device__ inline void backward_gated_gelu(float x, float *dy, float *up)
{
    float y;
    const float dx = *dy * *up * slope_gelu_tanh(x, &y);
    *up = *dy * y;
    *dy = dx;
}

/* Replaces eight dy by dx, and up by dup. */
__device__ inline void backward(uint32_t kind, const float x[8], float dy[8], float up[8])
{
    float y;
    if (kind == AH_ACTIVATION_GELU_TANH)
        for (unsigned j = 0; j < 8; j++)
            dy[j] *= slope_gelu_tanh(x[j], &y);
    else if (kind == AH_ACTIVATION_GELU)
        for (unsigned j = 0; j < 8; j++)
            dy[j] *= slope_gelu(x[j]);
    else if (kind == AH_ACTIVATION_GELU_TANH_GATED)
        for (unsigned j = 0; j < 8; j++)
            backward_gated_gelu(x[j], &dy[j], &up[j]);
    else
        for (unsigned j = 0; j < 8; j++)
            backward_silu(x[j], &dy[j], &up[j]);
}

template <int D> __global__ void __launch_bounds__(THREADS) activation(struct task t)
{
    const uint64_t i = 8 * (static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x), n = t.width - i;
    if (i >= t.width)
        return;
    for (uint64_t row = blockIdx.y; row < t.rows; row += gridDim.y) {
        struct ah_eight<D> x, up;
        float a[8], b[8] = {0, 0, 0, 0, 0, 0, 0, 0};
        ah_load(&x, ah_row<D>(t.x, row, 0), i, n);
        if (t.up.data) {
            ah_load(&up, ah_row<D>(t.up, row, 0), i, n);
            ah_floats(up, b);
        }
        ah_floats(x, a);
        forward(t.kind, a, b);
        ah_store(ah_row<D>(t.y, row, 0), i, n, a);
    }
}

/* Computes dx and dup. dx may overwrite dy, because a thread reads all its elements before it writes any. */
template <int D> __global__ void __launch_bounds__(THREADS) activation_backward(struct task t)
{
    const uint64_t i = 8 * (static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x), n = t.width - i;
    if (i >= t.width)
        return;
    for (uint64_t row = blockIdx.y; row < t.rows; row += gridDim.y) {
        struct ah_eight<D> dy, x, up;
        float a[8], b[8] = {0, 0, 0, 0, 0, 0, 0, 0}, c[8];
        ah_load(&dy, ah_row<D>(t.dy, row, 0), i, n);
        ah_load(&x, ah_row<D>(t.x, row, 0), i, n);
        if (t.up.data) {
            ah_load(&up, ah_row<D>(t.up, row, 0), i, n);
            ah_floats(up, b);
        }
        ah_floats(dy, a);
        ah_floats(x, c);
        backward(t.kind, c, a, b);
        ah_store(ah_row<D>(t.dx, row, 0), i, n, a);
        if (t.dup.data)
            ah_store(ah_row<D>(t.dup, row, 0), i, n, b);
    }
}

} // namespace

cudaError_t ah_cuda_activation(const struct ah_cuda_launch *launch)
{
    const struct ah_op_rows *op = &launch->op->u.rows;
    const struct ah_rows_grid shape = ah_rows_grid(op->rows, op->width);
    struct task t = {};
    t.y = ah_rows_of(launch, 0, op->width);
    t.x = ah_rows_of(launch, 1, op->width);
    t.up = ah_rows_of(launch, 2, op->width);
    t.rows = op->rows;
    t.width = op->width;
    t.kind = op->kind;
    const struct ah_rows *const operands[] = {&t.x, &t.y, &t.up};
    const int version = ah_rows_versions(operands, 3, op->width);
    void (*const kernel)(struct task) = version == AH_BF16   ? activation<AH_BF16>
                                        : version == AH_FP32 ? activation<AH_FP32>
                                                             : activation<AH_ANY>;
    return AH_LAUNCH(kernel, shape.grid, shape.block, 0, launch->stream, t);
}

cudaError_t ah_cuda_activation_backward(const struct ah_cuda_launch *launch)
{
    const struct ah_op_rows *op = &launch->op->u.rows;
    const struct ah_rows_grid shape = ah_rows_grid(op->rows, op->width);
    struct task t = {};
    t.dx = ah_rows_of(launch, 0, op->width);
    t.dup = ah_rows_of(launch, 1, op->width);
    t.dy = ah_rows_of(launch, 2, op->width);
    t.x = ah_rows_of(launch, 3, op->width);
    t.up = ah_rows_of(launch, 4, op->width);
    t.rows = op->rows;
    t.width = op->width;
    t.kind = op->kind;
    const struct ah_rows *const operands[] = {&t.x, &t.dx, &t.dup, &t.dy, &t.up};
    const int version = ah_rows_versions(operands, 5, op->width);
    void (*const kernel)(struct task) = version == AH_BF16   ? activation_backward<AH_BF16>
                                        : version == AH_FP32 ? activation_backward<AH_FP32>
                                                             : activation_backward<AH_ANY>;
    return AH_LAUNCH(kernel, shape.grid, shape.block, 0, launch->stream, t);
}
