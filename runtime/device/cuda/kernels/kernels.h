/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernels: how a GPU does all ops but matrix products (cuda_products.h). One function per kind of op enqueues the op's
 * work on a stream and returns at once. Ops were checked before (op.h). They compute what the CPU device computes, as
 * docs/numerics.md says.
 *
 *     struct ah_cuda_launch launch = {.op = &op, .arg = {...}, .stream = stream, .workspace = workspace,
 *                                     .processors = 132};
 *     cudaError_t rc = ah_cuda_norm(&launch);
 *
 * Every run gives the same bits: no atomics on floating-point numbers, no order that depends on timing.
 *
 * Kernels are compiled twice: by nvcc, and by the host's compiler for the double of the tests (simt.cuh).
 */
#ifndef AH_RUNTIME_DEVICE_CUDA_KERNELS_KERNELS_H
#define AH_RUNTIME_DEVICE_CUDA_KERNELS_KERNELS_H

#ifdef __cplusplus
extern "C" {
#endif

#include "runtime/device/op.h"

#include <cuda_runtime_api.h>

/* `sum` and `sum_squares` use the workspace to pass leaf sums from one kernel to the next. */
enum { AH_CUDA_KERNEL_WORKSPACE_BYTES = 1 << 18 };

struct ah_cuda_launch {
    const struct ah_op *op; /* borrowed until the function returns */
    void *arg[AH_OP_ARGS];  /* addresses of the operands for a kernel; NULL: absent */
    cudaStream_t stream;
    /* GPU memory for one op of the stream at a time: AH_CUDA_KERNEL_WORKSPACE_BYTES at a multiple of 256. It may be
     * part of the workspace of the same stream's matrix products. No op relies on what it contains. */
    void *workspace;
    uint32_t processors; /* multiprocessors of the GPU */
};

typedef cudaError_t ah_cuda_kernel_fn(const struct ah_cuda_launch *launch);

ah_cuda_kernel_fn ah_cuda_copy; /* only within the device arena */
ah_cuda_kernel_fn ah_cuda_fill;
ah_cuda_kernel_fn ah_cuda_cast;
ah_cuda_kernel_fn ah_cuda_add;
ah_cuda_kernel_fn ah_cuda_accumulate;
ah_cuda_kernel_fn ah_cuda_column_sum;
ah_cuda_kernel_fn ah_cuda_norm;
ah_cuda_kernel_fn ah_cuda_norm_backward;
ah_cuda_kernel_fn ah_cuda_rope;
ah_cuda_kernel_fn ah_cuda_attention;
ah_cuda_kernel_fn ah_cuda_attention_backward;
ah_cuda_kernel_fn ah_cuda_activation;
ah_cuda_kernel_fn ah_cuda_activation_backward;
ah_cuda_kernel_fn ah_cuda_embed;
ah_cuda_kernel_fn ah_cuda_embed_backward;
ah_cuda_kernel_fn ah_cuda_gather;
ah_cuda_kernel_fn ah_cuda_cross_entropy;
ah_cuda_kernel_fn ah_cuda_sum;
ah_cuda_kernel_fn ah_cuda_sum_squares;
ah_cuda_kernel_fn ah_cuda_clip; /* also writes a norm that is not finite; the runtime checks it */
ah_cuda_kernel_fn ah_cuda_adamw;

#ifdef __cplusplus
}
#endif
#endif
