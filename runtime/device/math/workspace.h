/* SPDX-License-Identifier: Apache-2.0
 *
 * Workspace: what attention needs beside its operands. It multiplies tiles, with the instructions of a level
 * (tile/tile.h), and packs what it multiplies: each thread in memory of its own, which is made when ops are prepared,
 * as nothing is allocated while they run. Other ops of this room need none.
 *
 *     struct ah_workspace workspace = {.level = ah_tile_choose(), .threads = ah_pool_threads(pool)};
 *     rc = ah_workspace_prepare(&workspace, &op, err);
 *     host.workspace = &workspace;
 *     ah_math_run(&host, &op);
 *     ah_workspace_release(&workspace);
 *
 * Bits do not depend on the threads, in bf16 on the level. Prepare when nothing runs; one op runs at a time.
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
    unsigned threads;        /* most of a pool that runs with it */
    struct ah_region region; /* owned; each thread's part at the same distance */
};

/* Bytes that each thread needs for the op; 0: it needs no workspace; UINT64_MAX: more than can be. */
uint64_t ah_workspace_bytes(const struct ah_op *op);

/* Makes it hold what the op needs; nothing if it does. AH_E_CAPACITY for an op that needs more than can be addressed,
 * AH_E_MEMORY. */
int ah_workspace_prepare(struct ah_workspace *workspace, const struct ah_op *op, struct ah_error *err);

/* Whether the op may run with it. */
bool ah_workspace_holds(const struct ah_workspace *workspace, const struct ah_op *op);

void ah_workspace_release(struct ah_workspace *workspace);

#endif
