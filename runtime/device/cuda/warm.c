/* SPDX-License-Identifier: Apache-2.0
 *
 * Warming: launches every kernel of the prepared ops once, before the first op is submitted.
 *
 * The driver loads a kernel's code at its first launch. That takes memory, and the driver may wait until the GPU is
 * idle while it holds a lock that other calls need. If a stream waits for the host lane while the host lane polls
 * events, neither would continue. So one op of each sort runs on the arenas while they still hold zeros; then they are
 * zeroed once more. Zeros are valid operands of every op: token 0, position 0, documents that start at 0.
 *
 * Two ops are of one sort if they differ only in the addresses of their operands, in a way that kernels do not notice,
 * and in attention's `past`. An op outside the arenas, or prepared after them, is not warmed: its first launch loads
 * its code.
 *
 * Source: CUDA C++ Programming Guide, "Lazy Loading".
 */
#include "runtime/device/cuda/cuda_internal.h"
#include "runtime/device/cuda/errors.h"
#include "runtime/device/watch.h"

#include <stdlib.h>
#include <string.h>

enum { ALIGN_BYTES = 256 }; /* the largest alignment that kernels check */

/* Compares sizes and settings. Attention has the same kernels with any `past`. */
static bool same_sizes(const struct ah_op *a, const struct ah_op *b)
{
    struct ah_op other = *b;
    if (a->kind == AH_OP_ATTENTION && b->kind == AH_OP_ATTENTION)
        other.u.attention.past = a->u.attention.past;
    return memcmp(&a->u, &other.u, sizeof a->u) == 0;
}

static bool same_sort(const struct ah_op *a, const struct ah_op *b)
{
    if (a->kind != b->kind || !same_sizes(a, b))
        return false;
    for (size_t i = 0; i < AH_OP_ARGS; i++) {
        const struct ah_ref *left = &a->arg[i], *right = &b->arg[i];
        if (left->arena != right->arena || left->dtype != right->dtype ||
            left->row_stride != right->row_stride ||
            left->offset_bytes % ALIGN_BYTES != right->offset_bytes % ALIGN_BYTES)
            return false;
    }
    return true;
}

/* True if the op has a kernel: all operands are in the GPU's memory or, in sums over ranks, in pinned memory. */
static bool is_kernel(const struct ah_op *op)
{
    const bool adds = op->kind == AH_OP_CAST || op->kind == AH_OP_ACCUMULATE;
    bool any = false;
    for (size_t i = 0; i < AH_OP_ARGS; i++) {
        const uint32_t arena = op->arg[i].arena;
        if (arena != AH_ARENA_NONE && arena != AH_ARENA_DEVICE && !(adds && arena == AH_ARENA_PINNED))
            return false;
        any = any || arena == AH_ARENA_DEVICE;
    }
    return any && op->kind != AH_OP_SEND && op->kind != AH_OP_RECEIVE;
}

static int add_op(struct ah_cuda_warm *warm, const struct ah_op *op, struct ah_error *err)
{
    for (size_t i = 0; i < warm->n; i++)
        if (same_sort(&warm->ops[i], op))
            return AH_OK;
    if (warm->n == warm->room) {
        size_t room = 2 * warm->room + 64;
        struct ah_op *ops = realloc(warm->ops, room * sizeof *ops);
        if (!ops)
            return ah_error_memory(err);
        warm->ops = ops;
        warm->room = room;
    }
    warm->ops[warm->n++] = *op;
    return AH_OK;
}

int ah_cuda_warm_add(struct ah_cuda_device *cuda, const struct ah_op *ops, size_t n, struct ah_error *err)
{
    int rc = AH_OK;
    for (size_t i = 0; i < n && !cuda->common.is_reserved && !rc; i++)
        if (is_kernel(&ops[i]))
            rc = add_op(&cuda->warm, &ops[i], err);
    return rc;
}

int ah_cuda_warm_run(struct ah_cuda_device *cuda, const uint64_t arena_bytes[AH_ARENA_KINDS],
                     struct ah_error *err)
{
    int rc = AH_OK;
    for (size_t i = 0; i < cuda->warm.n && !rc; i++) {
        const struct ah_op *op = &cuda->warm.ops[i];
        if (ah_op_check(op, arena_bytes, NULL))
            continue;
        ah_device_watch_enter(&cuda->common, AH_WAITING_TO_WARM, AH_LANE_COMPUTE, (uint64_t)op->kind);
        rc = ah_cuda_dispatch(cuda, AH_LANE_COMPUTE, op, err);
        if (!rc)
            rc = ah_cuda_check(err, cudaStreamSynchronize(cuda->streams[AH_LANE_COMPUTE].stream),
                               "cudaStreamSynchronize");
        ah_device_watch_leave(&cuda->common);
        if (rc)
            ah_error_prefix(err, rc, "op '%s', tried on zeros", ah_op_name(op->kind));
    }
    ah_cuda_warm_release(&cuda->warm);
    return rc;
}

void ah_cuda_warm_release(struct ah_cuda_warm *warm)
{
    free(warm->ops);
    *warm = (struct ah_cuda_warm){0};
}
