/* SPDX-License-Identifier: Apache-2.0
 *
 * Workspace: memory that attention needs beside its operands. It multiplies tiles, with the instructions of a level
 * (tile/tile.h), and packs what it multiplies, with separate memory for each thread. That memory is made when ops are
 * prepared, since nothing is allocated while they run. Other ops of this room need none.
 *
 *     struct ah_workspace workspace = {.level = ah_tile_choose(), .threads = ah_pool_threads(pool)};
 *     rc = ah_workspace_prepare(&workspace, &op, err);
 *     host.workspace = &workspace;
 *     ah_math_run(&host, &op);
 *     ah_workspace_release(&workspace);
 *
 * Bits depend on the level in bf16, but never on the threads. Prepare when nothing runs; one op runs at a time.
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
    unsigned threads;        /* the most threads that a pool using it may have */
    struct ah_region region; /* owned; the threads' parts have equal size */
};

/* Bytes that each thread needs for the op; 0: it needs no workspace; UINT64_MAX: more than can exist. */
uint64_t ah_workspace_bytes(const struct ah_op *op);

/* Enlarges it for the op if needed. AH_E_CAPACITY: the op needs more than can be addressed. AH_E_MEMORY. */
int ah_workspace_prepare(struct ah_workspace *workspace, const struct ah_op *op, struct ah_error *err);

/* True if it is large enough for the op. */
bool ah_workspace_holds(const struct ah_workspace *workspace, const struct ah_op *op);

void ah_workspace_release(struct ah_workspace *workspace);

#endif
