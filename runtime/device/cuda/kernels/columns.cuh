/* SPDX-License-Identifier: Apache-2.0
 *
 * Columns: sums over the rows of a matrix, for the op column_sum and for the gradients of norms. One block computes a
 * column's whole sum, so only sums are written.
 */
#ifndef AH_RUNTIME_DEVICE_CUDA_KERNELS_COLUMNS_CUH
#define AH_RUNTIME_DEVICE_CUDA_KERNELS_COLUMNS_CUH

#include "runtime/device/cuda/kernels/elements.cuh"

/* Sets dst (one row) to sums over `rows` rows of src, in fp32, in an order that depends only on rows and width. */
cudaError_t ah_columns_sum(cudaStream_t stream, struct ah_rows dst, struct ah_rows src, uint64_t rows,
                           uint64_t width);

#endif
