/* SPDX-License-Identifier: Apache-2.0
 *
 * Host: ops as the host's own cores run them. The host lane of every device runs these, and the CPU device's
 * compute lane too, for all it does besides matrix products.
 *
 * An op was checked when it was submitted (op.h); here its operands become pointers, and the work is split over a
 * pool in pieces that do not change the result.
 *
 *     struct ah_host host = {.isa = ah_isa_detect(), .pool = pool};
 *     host.arenas[AH_ARENA_PINNED] = pinned.data;
 *     rc = ah_host_run(&host, &op, err);
 *
 * One op at a time on a pool. What lies in arenas is between the submitter and the waits of the ops.
 */
#ifndef AH_RUNTIME_DEVICE_HOST_HOST_H
#define AH_RUNTIME_DEVICE_HOST_HOST_H

#include "base/error.h"
#include "base/isa.h"
#include "base/pool.h"
#include "runtime/device/op.h"

#include <stdbool.h>

struct ah_workspace; /* math/workspace.h */

/* Where ops run. All borrowed. */
struct ah_host {
    enum ah_isa isa;
    struct ah_pool *pool;                  /* NULL: the caller alone */
    unsigned char *arenas[AH_ARENA_KINDS]; /* where each begins; NULL: out of reach */
    const struct ah_workspace *workspace;  /* (optional) for ops that need one: of the compute lane only */
};

/* Whether ops of this kind are run here. */
bool ah_host_does(enum ah_op_kind kind);

/* Where operand `arg` lies; NULL where it is absent. */
void *ah_host_operand(const struct ah_host *host, const struct ah_op *op, size_t arg);

/* Runs an op of a kind that is done here. AH_E_NUMERIC where a norm is not finite, and what a `call` returns. */
int ah_host_run(const struct ah_host *host, const struct ah_op *op, struct ah_error *err);

#endif
