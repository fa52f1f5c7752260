/* SPDX-License-Identifier: Apache-2.0
 *
 * Poison: while a plan runs, bytes of the arena are overwritten as soon as the plan does not need them. Every operand
 * must be in a live tensor. An op that reads too early, too late or outside its operands computes with NaNs.
 *
 *     poison_open(&poison, model, plan);
 *     hooked_set(&(struct hooked_hooks){poison_submit, poison_before, poison_after, &poison});
 *     ... run: results must be those of any other run; then poison.wrong is "" ...
 *     poison_close(&poison);
 *
 * BIRTH. All tensors that begin at position p are overwritten before the compute op at p. The tensor of a fetch is
 * overwritten before its first copy, which may run while compute is still at the position before. DEATH. Every byte of
 * the arena outside the tensors alive at p is overwritten before the compute op at p. A slot of a ring, and gradients
 * and weights in flight on the host, are overwritten when the op that gives them back has read them.
 *
 * A sent tensor is dead when the op after its last position begins, since that op waits for the send. A run leaves out
 * some ops before its first step and after its last. Tensors alive there are kept until each position has run once.
 */
#ifndef AH_TESTS_PROPERTY_TRAIN_POISON_H
#define AH_TESTS_PROPERTY_TRAIN_POISON_H

#include "runtime/schedule/graph.h"
#include "runtime/schedule/layout.h"
#include "runtime/train/addresses.h"
#include "tests/support/hooked.h"

#include <stdatomic.h>

enum { POISON_BYTE = 0xff, POISON_UNIT = AH_LAYOUT_ALIGN };

struct poison {
    const struct ah_plan *plan; /* borrowed */
    struct ah_arena arena;
    struct ah_job job;
    struct ah_graph graph;
    struct ah_addresses addresses;
    uint8_t *lives, *kept; /* (positions, units): units alive at a position; of these, units not born there */
    uint64_t units;        /* units in the device arena */

    /* For the compute lane's hooks. */
    uint64_t latest;   /* latest item */
    uint64_t followed; /* number of items that directly followed their predecessors */
    uint8_t *held;     /* by unit: it held a live tensor */

    /* What happened. */
    atomic_uint_fast64_t born[AH_TENSOR_LABELS],
        given[AH_GRAPH_RINGS]; /* numbers of tensors born, and of ops that gave something back */
    uint64_t touched_bytes;    /* highest end of an operand in the device arena */
    uint64_t checked;          /* operands */
    char wrong[256];           /* the first operand outside any tensor; "": none */
};

void poison_open(struct poison *poison, const struct ah_model *model, const struct ah_plan *plan);
void poison_submit(void *context, const struct hooked_op *op);
void poison_before(void *context, const struct hooked_op *op);
void poison_after(void *context, const struct hooked_op *op);
void poison_close(struct poison *poison);

#endif
