/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernels: what ops do on a GPU, but for matrix products (cuda_products.h). One function per kind of op enqueues all
 * that the op does on a stream and returns at once. Ops are checked before (op.h); what each computes is as on the CPU
 * device, and as docs/numerics.md has it.
 *
 *     struct ah_cuda_launch launch = {.op = &op, .arg = {...}, .stream = stream, .workspace = workspace,
 *                                     .processors = 132};
 *     cudaError_t rc = ah_cuda_norm(&launch);
 *
 * The same bits come from every run: no atomics on floating-point numbers, no order that depends on timing.
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

/* For `sum` and `sum_squares`, which pass leaf sums from one kernel to another and have no operand for them. */
enum { AH_CUDA_KERNEL_WORKSPACE_BYTES = 1 << 18 };

struct ah_cuda_launch {
    const struct ah_op *op; /* borrowed until the function returns */
    void *arg[AH_OP_ARGS];  /* where operands lie, as a kernel reaches them; NULL: absent */
    cudaStream_t stream;
    /* Memory of the GPU that ops of this stream use one after another: AH_CUDA_KERNEL_WORKSPACE_BYTES at a multiple of
     * 256, which may be part of what matrix products of the same stream have. What an op leaves there is nobody's. */
    void *workspace;
    uint32_t processors; /* multiprocessors of the GPU */
};

typedef cudaError_t ah_cuda_kernel_fn(const struct ah_cuda_launch *launch);

ah_cuda_kernel_fn ah_cuda_copy; /* between places of the device arena only */
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
ah_cuda_kernel_fn ah_cuda_clip; /* a norm that is not finite is written as it is: the runtime looks at it */
ah_cuda_kernel_fn ah_cuda_adamw;

#ifdef __cplusplus
}
#endif
#endif
