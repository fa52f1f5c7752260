/* SPDX-License-Identifier: Apache-2.0
 *
 * Workspace: memory that attention needs in addition to its operands. Attention multiplies tiles with the instructions
 * of a level (tile/tile.h), and packs their operands, in separate memory for each thread. The memory is allocated when
 * ops are prepared, since nothing is allocated while they run. Other ops of this room need none.
 *
 *     struct ah_workspace workspace = {.level = ah_tile_choose(), .threads = ah_pool_threads(pool)};
 *     rc = ah_workspace_prepare(&workspace, &op, err);
 *     host.workspace = &workspace;
 *     ah_math_run(&host, &op);
 *     ah_workspace_release(&workspace);
 *
 * Bits of bf16 depend on the level, but never on the threads. Prepare when nothing runs; one op runs at a time.
 */
#ifndef AH_RUNTIME_DEVICE_MATH_WORKSPACE_H
#define AH_RUNTIME_DEVICE_MATH_WORKSPACE_H

#include "base/error.h"
#include "runtime/device/host/region.h"
#include "runtime/device/op.h"
#include "runtime/device/tile/tile.h"

#include <stdbool.h>

struct ah_workspace {
    enum ah_tile_level level;
    unsigned threads;        /* largest number of threads in a pool that uses this workspace */
    struct ah_region region; /* owned; a part of equal size for each thread */
};

/* Returns the bytes that each thread needs for the op; 0: no workspace; UINT64_MAX: more than can exist. */
uint64_t ah_workspace_bytes(const struct ah_op *op);

/* Enlarges the workspace for the op if needed. AH_E_CAPACITY: the op needs more than can be addressed. AH_E_MEMORY. */
int ah_workspace_prepare(struct ah_workspace *workspace, const struct ah_op *op, struct ah_error *err);

/* True if the workspace is large enough for the op. */
bool ah_workspace_holds(const struct ah_workspace *workspace, const struct ah_op *op);

void ah_workspace_release(struct ah_workspace *workspace);

#endif
