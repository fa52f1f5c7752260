/* SPDX-License-Identifier: Apache-2.0
 *
 * Workspace of the ops that need memory (workspace.h).
 */
#include "runtime/device/math/workspace.h"

#include "runtime/device/math/attention_internal.h"

enum { PAGE_BYTES = 4096 };

/* Elements of the largest head whose bytes are computed; no memory could hold a larger head. */
static const uint64_t most_elements = UINT64_C(1) << 48;

uint64_t ah_workspace_bytes(const struct ah_op *op)
{
    if (op->kind != AH_OP_ATTENTION && op->kind != AH_OP_ATTENTION_BACKWARD)
        return 0;
    if ((uint64_t)op->u.attention.seq * op->u.attention.head_dim > most_elements)
        return UINT64_MAX;
    return (ah_attention_bytes(op) + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
}

/* Returns the bytes for all threads together; UINT64_MAX if that many cannot be addressed. */
static uint64_t all_bytes(const struct ah_workspace *workspace, const struct ah_op *op)
{
    uint64_t bytes;
    return __builtin_mul_overflow(ah_workspace_bytes(op), workspace->threads, &bytes) ? UINT64_MAX : bytes;
}

bool ah_workspace_holds(const struct ah_workspace *workspace, const struct ah_op *op)
{
    return all_bytes(workspace, op) <= workspace->region.bytes;
}

int ah_workspace_prepare(struct ah_workspace *workspace, const struct ah_op *op, struct ah_error *err)
{
    struct ah_region larger;
    if (ah_workspace_holds(workspace, op))
        return AH_OK;
    if (all_bytes(workspace, op) == UINT64_MAX)
        return ah_error_set(
            err, AH_E_CAPACITY,
            "op '%s': workspace for %u threads is larger than any memory, with heads of %u tokens of %u "
            "elements",
            ah_op_name(op->kind), workspace->threads, op->u.attention.seq, op->u.attention.head_dim);
    int rc = ah_region_init(&larger, all_bytes(workspace, op), err);
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
