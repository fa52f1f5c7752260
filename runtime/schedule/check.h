/* SPDX-License-Identifier: Apache-2.0
 *
 * Check: does each statement of a plan follow from the rest of it?
 *
 * The reader of documents has already checked fields and simple relations (schemas/plan_check.c). Checked here:
 *   1. Tensors that live at the same compute position do not overlap, and the highest ends at memory.device_bytes.
 *   2. Blocks have the groups and parameters of the plan's model.
 *   3. The configs, with the model's sizes, give these ops, tensors and rings, and take this memory. To see that, the
 *      plan is compiled once more and compared.
 *   4. Equal work takes equal time. The lanes have the orders that `scheduling` gives. On the virtual clock, an
 *      iteration takes the time that `time` states, and its lanes work and wait as long as stated.
 *   5. Names, tokens_per_s, solver and alternatives agree with each other and with time.step_us.
 * docs/planning.md, "What check proves", says what a plan by itself cannot prove: only a machine shows how fast things
 * are (planner/verify.h).
 *
 *     rc = ah_schedule_check(plan, err);      // AH_E_DOCUMENT: "arena.tensors[7].bytes: is 512; 1024 follows from ..."
 */
#ifndef AH_RUNTIME_SCHEDULE_CHECK_H
#define AH_RUNTIME_SCHEDULE_CHECK_H

#include "base/error.h"
#include "runtime/schedule/costs.h"
#include "schemas/plan.h"

/* Checks a plan that was read from a document. AH_E_DOCUMENT: the message begins with the wrong field. AH_E_MEMORY. */
int ah_schedule_check(const struct ah_plan *plan, struct ah_error *err);

/* For a plan that passed: checks that its sizes and times follow from this job and these costs. Errors as above. */
int ah_schedule_check_against(const struct ah_plan *plan, const struct ah_job *job,
                              const struct ah_costs *costs, struct ah_error *err);

#endif
