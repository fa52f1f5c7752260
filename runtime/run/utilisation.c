/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/run/utilisation.h"

#include "runtime/schedule/program.h"

int ah_utilisation_init(struct ah_utilisation *ret_utilisation, const struct ah_plan *plan,
                        const struct ah_machine *machine, struct ah_error *err)
{
    struct ah_arena arena = {0};
    struct ah_job job;
    int rc = ah_job_init(&job, &plan->model, &plan->training, &arena, err);
    if (!rc)
        *ret_utilisation = (struct ah_utilisation){
            .model_flops = ah_program_model_flops(&job),
            .peak_flops_per_s = machine ? ah_machine_matmul_flops_per_s(machine, plan->training.dtype) : 0};
    ah_arena_release(&arena);
    return rc;
}

double ah_utilisation_mfu(const struct ah_utilisation *utilisation, double step_us)
{
    const double could = step_us * 1e-6 * utilisation->peak_flops_per_s;
    return could > 0 ? utilisation->model_flops / could : 0;
}
