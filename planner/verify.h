/* SPDX-License-Identifier: Apache-2.0
 *
 * Verify: checks a plan against its policy and its inputs (runtime/schedule/check.h checks a plan alone).
 *
 *     rc = ah_verify_policy(plan, err);                 // could its policy choose these blocks and orders?
 *     const struct ah_verify_inputs inputs = {model, model_sha256, machine, machine_sha256};
 *     rc = ah_verify_inputs(plan, &inputs, err);        // do sizes, times, budgets and bound follow from its inputs?
 *
 * It does not verify solver.evaluations and alternatives, which would need a new search, nor the names of inputs.
 */
#ifndef AH_PLANNER_VERIFY_H
#define AH_PLANNER_VERIFY_H

#include "base/error.h"
#include "schemas/machine.h"
#include "schemas/model.h"
#include "schemas/plan.h"

struct ah_verify_inputs {
    const struct ah_model *model;
    const char *model_sha256; /* ah_document_digest() */
    const struct ah_machine *machine;
    const char *machine_sha256;

    /* The plan is that of one of `gpus` equal GPUs, which train this batch together; 0: the plan trains alone. */
    uint64_t gpus, batch, micro_batches;
    double fabric_bytes_per_s;
};

/* Checks that a document has the sha256 stated in the plan for its input `what`. AH_E_MISMATCH: the digests differ. */
int ah_verify_input(const char *what, const struct ah_plan_input *stated, const char *given_sha256,
                    struct ah_error *err);

/* Checks that a plan's policy could have made it. The plan has passed ah_schedule_check(). AH_E_DOCUMENT: the policy
 * makes no such plans; AH_E_MEMORY. */
int ah_verify_policy(const struct ah_plan *plan, struct ah_error *err);

/* Checks a plan against its inputs. The plan must have passed ah_schedule_check(). AH_E_MISMATCH: it was made from
 * other documents. AH_E_DOCUMENT: a value is wrong; the message begins with its path in the plan. AH_E_MEMORY. */
int ah_verify_inputs(const struct ah_plan *plan, const struct ah_verify_inputs *inputs, struct ah_error *err);

#endif
