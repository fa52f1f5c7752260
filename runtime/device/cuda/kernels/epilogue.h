/* SPDX-License-Identifier: Apache-2.0
 *
 * Epilogue: finishes a matrix product whose fp32 sums are in a separate buffer (products_internal.h):
 *
 *     x = product (+ bias) (+ c when accumulating)       aux = x       c = x, or gelu_tanh(x)
 *
 * in fp32, each stored value rounded once.
 */
#ifndef AH_RUNTIME_DEVICE_CUDA_KERNELS_EPILOGUE_H
#define AH_RUNTIME_DEVICE_CUDA_KERNELS_EPILOGUE_H

#include <cuda_runtime_api.h>

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct ah_cuda_epilogue {
    const float *product; /* (rows, width), dense */
    const void *bias;     /* (width) */
    void *c;              /* (rows, c_pitch) */
    void *aux;            /* (rows, aux_pitch); NULL: no aux */
    uint64_t rows, width;
    uint64_t c_pitch, aux_pitch;             /* elements from row to row */
    uint32_t c_dtype, bias_dtype, aux_dtype; /* enum ah_dtype */
    bool accumulates;
    bool gelu;
};

/* Enqueues the kernel on `stream`. */
cudaError_t ah_cuda_epilogue(const struct ah_cuda_epilogue *epilogue, cudaStream_t stream);

#ifdef __cplusplus
}
#endif
#endif
