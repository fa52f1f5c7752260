/* SPDX-License-Identifier: Apache-2.0
 *
 * A prepared product: cuda_products.c finds and launches it, product.c builds it.
 *
 * cuBLASLt has columns where op.h has rows: a row-major (m, n) matrix is a column-major (n, m) one at the same place.
 * So its D is c with n rows and m columns, its A is our b, its B is our a, and its bias has an element per row of D.
 *
 * Most products are one call. Some have an epilogue that cuBLASLt lacks (for example, a bias or an aux in another type
 * than c), or unaligned operands, for which we do not trust its epilogues. These are *staged*: step by step, some rows
 * of c are computed in fp32 in the products' memory and finished by a kernel (kernels/epilogue.h). A staged product has
 * two parts: the last step, and all steps before it.
 *
 * A product with a size that is no multiple of 8, such as a vocabulary of 50257, is *cut*. cuBLASLt chooses kernels by
 * the sizes, not by the distance of rows, and for such sizes its only kernels read element by element (cuBLASLt 13.1 on
 * an H100: about 100 TFLOP/s of 700). The first part is the largest multiple of 8 that fits, the second is the rest. If
 * both parts are summands of c, the rest is computed first, so that only its small sum is rounded twice.
 */
#ifndef AH_RUNTIME_DEVICE_CUDA_PRODUCTS_INTERNAL_H
#define AH_RUNTIME_DEVICE_CUDA_PRODUCTS_INTERNAL_H

#include "runtime/device/cuda/cublaslt_calls.h"
#include "runtime/device/cuda/cuda_products.h"

#include <library_types.h>

/* The workspace size that NVIDIA's manual advises for Hopper. It suffices to split K for shapes with few tiles. */
enum { AH_CUDA_PRODUCT_WORKSPACE_BYTES = 32 << 20 };

/* The number of algorithms asked for. It never varies, because the library's first offer may depend on it. */
enum { AH_CUDA_PRODUCT_OFFERS = 16 };

/* Rows of a step of a staged product are a multiple of this. So every step begins aligned if the first does. */
enum { AH_CUDA_PRODUCT_STEP = 64 };

/* Sizes of a cut product's first part are multiples of this many elements: 16 bytes of bf16. */
enum { AH_CUDA_PRODUCT_EVEN = 8 };

/* Everything that decides which algorithm a product gets. It has no padding, because keys are compared as bytes. */
struct ah_cuda_product_key {
    uint64_t m, n, k;
    uint64_t c_pitch, a_pitch, b_pitch, aux_pitch; /* elements from row to row; aux_pitch is 0 without aux */
    uint32_t form, epilogue;
    uint32_t in, out;   /* enum ah_dtype: `in` of a and b, `out` of c */
    uint32_t bias, aux; /* enum ah_dtype; 0 if there is none */
    uint32_t has_aux, accumulates;
    uint32_t
        aligned; /* 1: operands begin at multiples of AH_CUDA_PRODUCT_ALIGN; 0: only of their element's size */
    uint32_t unused;
};

struct ah_cuda_product_part {
    uint64_t m, n, k;
    cublasLtMatmulDesc_t desc;
    cublasLtMatrixLayout_t a, b, d; /* layouts of cuBLASLt's A and B; `d` is that of C and D */
    uint32_t d_align;               /* number of bytes of which C's and D's addresses are multiples */
    cublasLtMatmulAlgo_t algo;
};

enum ah_cuda_product_way { AH_CUDA_PRODUCT_WHOLE, AH_CUDA_PRODUCT_STAGED, AH_CUDA_PRODUCT_CUT };

struct ah_cuda_product {
    struct ah_cuda_product_key key;
    enum ah_cuda_product_way way;
    bool
        asked; /* an op has exactly this key; false: the product is for operands that a plan may align differently */
    size_t n_parts;
    struct ah_cuda_product_part parts[2];
    uint64_t stage_bytes; /* fp32 memory for rows of c; 0 unless staged */
};

/* The library on the current GPU, and the table from which algorithms are chosen. */
struct ah_cuda_product_maker {
    struct ah_cublaslt calls;
    cublasLtHandle_t handle;
    const struct ah_device_algorithm *algorithms; /* borrowed */
    size_t n_algorithms;
    const char *library;
};

/* Returns the key of a product. Derives `aligned` from the operands' offsets. */
struct ah_cuda_product_key ah_cuda_product_key(const struct ah_op *op);

/* Prints a key, for example "bias_gelu nn 4096x3072x768 bf16". */
void ah_cuda_product_print(const struct ah_cuda_product_key *key, char ret_text[AH_DEVICE_NAME_MAX]);

/* Builds a product, which the caller releases. AH_E_UNSUPPORTED, AH_E_MISMATCH. */
int ah_cuda_product_init(struct ah_cuda_product *product, const struct ah_cuda_product_maker *maker,
                         const struct ah_cuda_product_key *key, struct ah_error *err);
void ah_cuda_product_release(struct ah_cuda_product *product, const struct ah_cuda_product_maker *maker);

/* Finds the algorithms for a part, the library's first choice first; finding none is no error. */
int ah_cuda_product_offers(const struct ah_cuda_product_maker *maker, const struct ah_cuda_product_key *key,
                           const struct ah_cuda_product_part *part,
                           cublasLtMatmulHeuristicResult_t ret_results[AH_CUDA_PRODUCT_OFFERS], int *ret_n,
                           struct ah_error *err);

/* True if the library accepts the algorithm for a part; a table's entry must pass this check. */
bool ah_cuda_product_takes(const struct ah_cuda_product_maker *maker, const struct ah_cuda_product_part *part,
                           const cublasLtMatmulAlgo_t *algo);

#endif
