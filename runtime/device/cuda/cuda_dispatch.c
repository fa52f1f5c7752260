/* SPDX-License-Identifier: Apache-2.0
 *
 * Enqueues an op on a stream. Copies between host and GPU go to the copy engines, matrix products to cuda_products.h,
 * and all other ops to kernels.h. Nothing is created here.
 */
#include "runtime/device/cuda/cuda_internal.h"
#include "runtime/device/cuda/errors.h"

static ah_cuda_kernel_fn *const kernels[AH_OP_KINDS] = {
    [AH_OP_COPY] = ah_cuda_copy,
    [AH_OP_FILL] = ah_cuda_fill,
    [AH_OP_CAST] = ah_cuda_cast,
    [AH_OP_ADD] = ah_cuda_add,
    [AH_OP_ACCUMULATE] = ah_cuda_accumulate,
    [AH_OP_COLUMN_SUM] = ah_cuda_column_sum,
    [AH_OP_NORM] = ah_cuda_norm,
    [AH_OP_NORM_BACKWARD] = ah_cuda_norm_backward,
    [AH_OP_ROPE] = ah_cuda_rope,
    [AH_OP_ATTENTION] = ah_cuda_attention,
    [AH_OP_ATTENTION_BACKWARD] = ah_cuda_attention_backward,
    [AH_OP_ACTIVATION] = ah_cuda_activation,
    [AH_OP_ACTIVATION_BACKWARD] = ah_cuda_activation_backward,
    [AH_OP_EMBED] = ah_cuda_embed,
    [AH_OP_EMBED_BACKWARD] = ah_cuda_embed_backward,
    [AH_OP_GATHER] = ah_cuda_gather,
    [AH_OP_CROSS_ENTROPY] = ah_cuda_cross_entropy,
    [AH_OP_SUM] = ah_cuda_sum,
    [AH_OP_SUM_SQUARES] = ah_cuda_sum_squares,
    [AH_OP_CLIP] = ah_cuda_clip,
    [AH_OP_ADAMW] = ah_cuda_adamw,
};

bool ah_cuda_supports(enum ah_op_kind kind)
{
    return kernels[kind] || kind == AH_OP_MATMUL || kind == AH_OP_CALL || kind == AH_OP_SEND ||
           kind == AH_OP_RECEIVE;
}

void *ah_cuda_operand(const struct ah_cuda_device *cuda, struct ah_ref ref)
{
    unsigned char *arena = ref.arena == AH_ARENA_DEVICE ? cuda->device_arena : cuda->arenas[ref.arena].data;
    return ref.arena == AH_ARENA_NONE ? NULL : arena + ref.offset_bytes;
}

/* Returns the bytes from byte `at` of a copy's host side to the end of its pinned piece; UINT64_MAX: no pieces. */
static uint64_t piece_rest(const struct ah_cuda_device *cuda, struct ah_ref host, uint64_t at)
{
    if (host.arena != AH_ARENA_PINNED || !cuda->pinning.piece_bytes)
        return UINT64_MAX;
    return cuda->pinning.piece_bytes - (host.offset_bytes + at) % cuda->pinning.piece_bytes;
}

static int copy_over_link(const struct ah_cuda_device *cuda, uint32_t lane, const struct ah_op *op,
                          struct ah_error *err)
{
    enum cudaMemcpyKind way = lane == AH_LANE_H2D ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToHost;
    struct ah_ref to = op->arg[0], from = op->arg[1], host = lane == AH_LANE_H2D ? from : to;
    cudaError_t rc = cudaSuccess;
    for (uint64_t left = op->u.copy.bytes, bytes; left > 0 && rc == cudaSuccess; left -= bytes) {
        uint64_t rest = piece_rest(cuda, host, op->u.copy.bytes - left);
        bytes = left < rest ? left : rest;
        rc = cudaMemcpyAsync(ah_cuda_operand(cuda, to), ah_cuda_operand(cuda, from), bytes, way,
                             cuda->streams[lane].stream);
        to.offset_bytes += bytes;
        from.offset_bytes += bytes;
    }
    return ah_cuda_check(err, rc, "cudaMemcpyAsync");
}

static int launch_on(struct ah_cuda_device *cuda, cudaStream_t stream, void *workspace,
                     const struct ah_op *op, struct ah_error *err)
{
    struct ah_cuda_launch launch = {
        .op = op, .stream = stream, .workspace = workspace, .processors = cuda->processors};
    for (size_t i = 0; i < AH_OP_ARGS; i++)
        launch.arg[i] = ah_cuda_operand(cuda, op->arg[i]);
    if (op->kind == AH_OP_MATMUL)
        return ah_cuda_products_run(cuda->products, &launch, err);
    return ah_cuda_check(err, kernels[op->kind](&launch), "the launch of its kernel");
}

int ah_cuda_dispatch(struct ah_cuda_device *cuda, uint32_t lane, const struct ah_op *op, struct ah_error *err)
{
    return lane == AH_LANE_COMPUTE ? launch_on(cuda, cuda->streams[lane].stream, cuda->workspace, op, err)
                                   : copy_over_link(cuda, lane, op, err);
}

int ah_cuda_dispatch_side(struct ah_cuda_device *cuda, const struct ah_op *op, struct ah_error *err)
{
    return launch_on(cuda, cuda->side.stream, cuda->side.workspace, op, err);
}
