/* SPDX-License-Identifier: Apache-2.0
 *
 * Data passed from the calls (api.c) of the double of cuBLASLt to its arithmetic (multiply.c).
 */
#ifndef AH_TESTS_DOUBLE_CUDA_CUBLASLT_INTERNAL_H
#define AH_TESTS_DOUBLE_CUDA_CUBLASLT_INTERNAL_H

#include <cublasLt.h>
#include <stdbool.h>
#include <stdint.h>

enum { SPLITS = 4, SUMS = 16 };

/* The library's opaque structs, as seen from inside. */
struct desc {
    uint64_t mark;
    cublasComputeType_t compute;
    cublasOperation_t op_a, op_b;
    uint32_t epilogue;
    int32_t bias_type, aux_type;
    const void *bias;
    void *aux;
    int64_t aux_ld;
};

struct layout {
    uint64_t mark;
    cudaDataType_t type;
    uint64_t rows, columns;
    int64_t ld;
};

struct problem {
    struct desc desc;
    struct layout a, b, d;
    uint64_t m, n, k; /* D is (m, n) */
};

/* A checked call of cublasLtMatmul(). */
struct product {
    struct problem problem;
    uint64_t number;
    uint64_t kind; /* each kind of problem has its own kernels */
    const void *a, *b, *c;
    void *d;
    float alpha, beta;
    float *workspace;
};

static inline bool has_bias(const struct problem *problem)
{
    return problem->desc.epilogue & CUBLASLT_EPILOGUE_BIAS;
}

static inline bool has_aux(const struct problem *problem)
{
    return problem->desc.epilogue == CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
}

/* Enqueues a copy of the product. */
cudaError_t product_enqueue(const struct product *product, cudaStream_t stream);

#endif
