/* SPDX-License-Identifier: Apache-2.0
 *
 * Workspace of the ops that need one (workspace.h).
 */
#include "runtime/device/math/workspace.h"

#include "runtime/device/math/attention_internal.h"

enum { PAGE_BYTES = 4096 };

uint64_t ah_workspace_bytes(const struct ah_op *op)
{
    if (op->kind != AH_OP_ATTENTION && op->kind != AH_OP_ATTENTION_BACKWARD)
        return 0;
    return (ah_attention_bytes(op) + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
}

bool ah_workspace_holds(const struct ah_workspace *workspace, const struct ah_op *op)
{
    uint64_t bytes;
    return !__builtin_mul_overflow(ah_workspace_bytes(op), workspace->threads, &bytes) &&
           bytes <= workspace->region.bytes;
}

int ah_workspace_prepare(struct ah_workspace *workspace, const struct ah_op *op, struct ah_error *err)
{
    struct ah_region larger;
    uint64_t bytes;
    if (ah_workspace_holds(workspace, op))
        return AH_OK;
    if (__builtin_mul_overflow(ah_workspace_bytes(op), workspace->threads, &bytes))
        return ah_error_set(err, AH_E_CAPACITY, "op '%s': no memory holds the workspace of %u threads",
                            ah_op_name(op->kind), workspace->threads);
    int rc = ah_region_init(&larger, bytes, err);
    if (rc)
        return rc;
    ah_region_release(&workspace->region);
    workspace->region = larger;
    return AH_OK;
}

void ah_workspace_release(struct ah_workspace *workspace)
{
    ah_region_release(&workspace->region);
}
