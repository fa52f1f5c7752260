/* SPDX-License-Identifier: Apache-2.0
 *
 * Host: ops on the host's own cores. The host lane of every device runs these, and so does the CPU device's compute
 * lane, which also runs matrix products and the ops of math/math.h.
 *
 * An op was checked when it was submitted (op.h); here its operands become pointers, and the work is split over a
 * pool in pieces that do not change the result.
 *
 *     struct ah_host host = {.isa = ah_isa_detect(), .pool = pool};
 *     host.arenas[AH_ARENA_PINNED] = pinned.data;
 *     rc = ah_host_run(&host, &op, err);
 *
 * One op at a time on a pool. The submitter's waits must order all access to arenas.
 */
#ifndef AH_RUNTIME_DEVICE_HOST_HOST_H
#define AH_RUNTIME_DEVICE_HOST_HOST_H

#include "base/error.h"
#include "base/isa.h"
#include "base/pool.h"
#include "runtime/device/op.h"

#include <stdbool.h>

struct ah_workspace; /* math/workspace.h */

/* What ops run on; everything is borrowed. */
struct ah_host {
    enum ah_isa isa;
    struct ah_pool *pool;                  /* NULL: only the calling thread */
    unsigned char *arenas[AH_ARENA_KINDS]; /* where each arena begins; NULL: ops cannot reach it */
    const struct ah_workspace *workspace;  /* (optional) only ops of the compute lane need one */
};

/* True if ops of this kind run here. */
bool ah_host_does(enum ah_op_kind kind);

/* Returns the address of operand `arg`; NULL if it is absent. */
void *ah_host_operand(const struct ah_host *host, const struct ah_op *op, size_t arg);

/* Runs an op of a kind that ah_host_does(). AH_E_NUMERIC: a norm is not finite; also errors of a `call`'s function. */
int ah_host_run(const struct ah_host *host, const struct ah_op *op, struct ah_error *err);

#endif
