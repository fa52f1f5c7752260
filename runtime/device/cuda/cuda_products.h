/* SPDX-License-Identifier: Apache-2.0
 *
 * Products: matrix products on a GPU, by cuBLASLt, as op.h defines them.
 *
 * Opening a device loads the library. Preparing builds what products of given shapes need, picks their algorithms and
 * takes workspace. Running enqueues one product and creates nothing. All calls use the calling thread's current GPU.
 *
 * BITS. A product's algorithm follows from its shape, strides, types and epilogue, the GPU and the library. It comes
 * from options->algorithms if the table has it; otherwise it is the library's first choice within a fixed workspace. Of
 * an operand's address, it only matters whether it is a multiple of AH_CUDA_PRODUCT_ALIGN bytes. Sums are fp32 in an
 * order fixed by the algorithm, without atomics. K is split only with fp32 partial sums. fp32 products take no shortcut
 * through narrower types.
 *
 *     ah_cuda_products_new(&products, options, err);
 *     ah_cuda_products_prepare(products, ops, n, err);
 *     held = ah_cuda_products_bytes(products);
 *     ah_cuda_products_run(products, &launch, err);
 *     ah_cuda_products_free(products);
 *
 * All products share one workspace, so they run on one stream. One thread at a time.
 */
#ifndef AH_RUNTIME_DEVICE_CUDA_CUDA_PRODUCTS_H
#define AH_RUNTIME_DEVICE_CUDA_CUDA_PRODUCTS_H

#include "base/error.h"
#include "runtime/device/cuda/kernels/kernels.h"
#include "runtime/device/device.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ah_cuda_products;

enum { AH_CUDA_PRODUCT_ALIGN = 16 };

/* Loads cuBLASLt. Borrows the table options->algorithms until the products are freed. AH_E_MISSING if the library is
 * not found or lacks a function, AH_E_MISMATCH if it is not options->library, AH_E_FAILED if it does not start on this
 * GPU. *Owned* by the caller. */
int ah_cuda_products_new(struct ah_cuda_products **ret_products, const struct ah_device_options *options,
                         struct ah_error *err);

/* Builds what the products among the ops need. Shapes that are already prepared cost nothing. May take device memory,
 * counted by ah_cuda_products_bytes(). AH_E_UNSUPPORTED for a product that the library cannot compute, AH_E_MISMATCH
 * for a table entry that this library or GPU refuses, AH_E_CAPACITY. */
int ah_cuda_products_prepare(struct ah_cuda_products *products, const struct ah_op *ops, size_t n,
                             struct ah_error *err);

/* Returns the bytes of device memory held. */
uint64_t ah_cuda_products_bytes(const struct ah_cuda_products *products);

/* Returns the number of products that the prepared ops use, and how many of these are computed in steps. */
struct ah_device_products ah_cuda_products_count(const struct ah_cuda_products *products);

/* True if the product is prepared. */
bool ah_cuda_products_has(const struct ah_cuda_products *products, const struct ah_op *op);

/* Enqueues a prepared product. May be captured in a graph. */
int ah_cuda_products_run(struct ah_cuda_products *products, const struct ah_cuda_launch *launch,
                         struct ah_error *err);

/* Writes at most `max` algorithms that the library offers for a product, first choice first; `ret_n`: how many. */
int ah_cuda_products_candidates(struct ah_cuda_products *products, const struct ah_op *op,
                                struct ah_device_algorithm *ret_algorithms, size_t max, size_t *ret_n,
                                struct ah_error *err);

/* Returns the library's name, such as "cuBLASLt 13.0.0", *borrowed* until free. `words` mean something only to it. */
const char *ah_cuda_products_library(const struct ah_cuda_products *products);

/* Frees everything, while no product runs. NULL is fine. */
void ah_cuda_products_free(struct ah_cuda_products *products);

#endif
