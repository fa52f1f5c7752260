/* SPDX-License-Identifier: Apache-2.0
 *
 * Utilisation: how much of a machine a step uses. MFU, model FLOPs utilisation, is the work that the model needs in a
 * step, divided by what the machine could have done in that time at the rate of its fastest matrix product.
 *
 *     rc = ah_utilisation_init(&utilisation, plan, machine, err);
 *     share = ah_utilisation_mfu(&utilisation, step_us);
 */
#ifndef AH_RUN_UTILISATION_H
#define AH_RUN_UTILISATION_H

#include "base/error.h"
#include "schemas/machine.h"
#include "schemas/plan.h"

struct ah_utilisation {
    double model_flops;      /* of a step, without what is computed again; 0: unknown */
    double peak_flops_per_s; /* of the fastest product measured, in the plan's type; 0: unknown */
};

/* Sets both numbers for a whole model's plan. `machine` (optional): the document that the plan was made from; without
 * it the peak is unknown. Errors of ah_job_init(). */
int ah_utilisation_init(struct ah_utilisation *ret_utilisation, const struct ah_plan *plan,
                        const struct ah_machine *machine, struct ah_error *err);

/* Returns the MFU of a step; 0: unknown. */
double ah_utilisation_mfu(const struct ah_utilisation *utilisation, double step_us);

#endif
