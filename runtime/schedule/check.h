/* SPDX-License-Identifier: Apache-2.0
 *
 * Check: can this plan document be run as it says?
 *
 * The reader of documents has checked each field and what one look can compare (schemas/plan_check.c). Here:
 *   1. Every block has the ops that its config needs, as often as there are micro-batches, and no others.
 *   2. Tensors that live at the same compute position do not overlap, and the highest ends at memory.device_bytes, rounded up as layouts do.
 *   3. The orders of the lanes can run; on the virtual clock an iteration takes time.step_us, within 1e-6 of it.
 *
 *     rc = ah_schedule_check(plan, err);      // AH_E_DOCUMENT: "arena.tensors[7]: ..."
 */
#ifndef AH_RUNTIME_SCHEDULE_CHECK_H
#define AH_RUNTIME_SCHEDULE_CHECK_H

#include "base/error.h"
#include "schemas/plan.h"

/* `plan` was read from a document. AH_E_DOCUMENT: the sentence begins with the place in the document. AH_E_MEMORY. */
int ah_schedule_check(const struct ah_plan *plan, struct ah_error *err);

#endif
