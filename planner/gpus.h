/* SPDX-License-Identifier: Apache-2.0
 *
 * GPUs: the cluster plan of equal GPUs that share one machine and train together, each with a part of all states.
 *
 *     rc = ah_gpus_document(&request, program, &arena, &plan, err);
 *     ...
 *     const struct ah_verify_inputs inputs = {model, model_sha256, machine, machine_sha256};
 *     rc = ah_gpus_verify(&plan, &inputs, err);
 *
 * All GPUs run the same program at the same time. So the simulation of one is that of all, and its bound holds for all.
 */
#ifndef AH_PLANNER_GPUS_H
#define AH_PLANNER_GPUS_H

#include "planner/planner.h"
#include "planner/verify.h"

/* Makes the document for a request with several GPUs and no choice of micro-batches, from the plan of each GPU.
 * `ret_plan` points into `arena`, the request and the program. AH_E_MEMORY. */
int ah_gpus_document(const struct ah_plan_request *request, struct ah_plan *program, struct ah_arena *arena,
                     struct ah_cluster_plan *ret_plan, struct ah_error *err);

/* Checks what the program decides: everything else in the plan must follow from it. The program itself has passed
 * ah_schedule_check(). AH_E_DOCUMENT: a value is wrong; the message begins with its path. AH_E_MEMORY. */
int ah_gpus_check(const struct ah_cluster_plan *plan, struct ah_error *err);

/* Checks a plan, which has passed ah_gpus_check(), against its inputs. Errors: as ah_verify_inputs(). */
int ah_gpus_verify(const struct ah_cluster_plan *plan, const struct ah_verify_inputs *inputs,
                   struct ah_error *err);

#endif
