/* SPDX-License-Identifier: Apache-2.0
 *
 * Finishes products (epilogue.h). A thread computes one column of every gridDim.y-th row. This path is rare, because
 * cuBLASLt finishes the usual products, so only memory access is tuned: neighbouring threads have neighbouring columns.
 */
#include "runtime/device/cuda/kernels/epilogue.h"

#include "runtime/device/cuda/kernels/simt.cuh"
#include "schemas/vocabulary.h"

enum { THREADS = 256, ROWS_MAX = 32768 };

static __device__ float load(const void *from, uint32_t dtype, uint64_t i)
{
    if (dtype == AH_FP32)
        return ((const float *)from)[i];
    return __uint_as_float((unsigned)((const uint16_t *)from)[i] << 16);
}

/* Stores a value; bf16 is rounded to nearest even, and a NaN stays a NaN, as in base/bf16.h. */
static __device__ void store(void *to, uint32_t dtype, uint64_t i, float value)
{
    unsigned bits = __float_as_uint(value);
    unsigned rounded = (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
    bool nan = (bits & 0x7fffffffu) > 0x7f800000u;
    if (dtype == AH_FP32)
        ((float *)to)[i] = value;
    else
        ((uint16_t *)to)[i] = (uint16_t)(nan ? bits >> 16 | 0x40u : rounded);
}

/* Returns the tanh form as x sigmoid(2u), which does not cancel below 0. */
static __device__ float gelu_tanh(float x)
{
    float u = 0.7978845608028654f * (x + 0.044715f * x * x * x);
    return x / (1.0f + expf(-2.0f * u));
}

static __global__ void __launch_bounds__(THREADS) finish(struct ah_cuda_epilogue e)
{
    uint64_t column = (uint64_t)blockIdx.x * THREADS + threadIdx.x;
    if (column >= e.width)
        return;
    float bias = load(e.bias, e.bias_dtype, column);
    for (uint64_t row = blockIdx.y; row < e.rows; row += gridDim.y) {
        uint64_t place = row * e.c_pitch + column;
        float x = e.product[row * e.width + column] + bias;
        if (e.accumulates)
            x += load(e.c, e.c_dtype, place);
        if (e.aux)
            store(e.aux, e.aux_dtype, row * e.aux_pitch + column, x);
        store(e.c, e.c_dtype, place, e.gelu ? gelu_tanh(x) : x);
    }
}

cudaError_t ah_cuda_epilogue(const struct ah_cuda_epilogue *epilogue, cudaStream_t stream)
{
    unsigned columns = (unsigned)((epilogue->width + THREADS - 1) / THREADS);
    unsigned rows = (unsigned)(epilogue->rows < ROWS_MAX ? epilogue->rows : ROWS_MAX);
    return AH_LAUNCH(finish, dim3(columns, rows), dim3(THREADS), 0, stream, *epilogue);
}
