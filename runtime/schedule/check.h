/* SPDX-License-Identifier: Apache-2.0
 *
 * Check: tests that each statement of a plan follows from the rest of the plan.
 *
 * The reader of documents has already checked fields and simple relations (schemas/plan_check.c). The checks here:
 *   1. Tensors alive at the same compute position do not overlap, and the highest one ends at memory.device_bytes.
 *   2. Blocks have the groups and parameters of the plan's model.
 *   3. The configs, with the model's sizes, give these ops, tensors and rings, and take this memory. For this, the
 *      configs are compiled once more, and the result is compared with the plan.
 *   4. Equal work takes equal time. The lanes have the orders that `scheduling` gives. On the virtual clock, an
 *      iteration takes the time that `time` states, and its lanes work and wait as long as stated.
 *   5. Names, tokens_per_s, solver and alternatives agree with each other and with time.step_us.
 * No plan can prove how fast a machine is (docs/planning.md, "What check proves"; planner/verify.h).
 *
 *     rc = ah_schedule_check(plan, err);      // AH_E_DOCUMENT: "arena.tensors[7].bytes: is 512; 1024 follows from ..."
 */
#ifndef AH_RUNTIME_SCHEDULE_CHECK_H
#define AH_RUNTIME_SCHEDULE_CHECK_H

#include "base/error.h"
#include "runtime/schedule/costs.h"
#include "schemas/plan.h"

/* Checks a plan that was read from a document. AH_E_DOCUMENT: the text begins with the wrong field. AH_E_MEMORY. */
int ah_schedule_check(const struct ah_plan *plan, struct ah_error *err);

/* Checks that sizes and times of a plan follow from this job and these costs. The plan must have passed
 * ah_schedule_check(), whose errors this function returns, too. */
int ah_schedule_check_against(const struct ah_plan *plan, const struct ah_job *job,
                              const struct ah_costs *costs, struct ah_error *err);

#endif
