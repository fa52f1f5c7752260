/* SPDX-License-Identifier: Apache-2.0
 *
 * Diagnosis: why there is no plan, and what helps: each remedy as the words that change the command line, with the
 * step time that it gives.
 */
#ifndef AH_CLI_DIAGNOSIS_H
#define AH_CLI_DIAGNOSIS_H

#include "cli/cli.h"
#include "planner/planner.h"

/* What failed and for which request. */
struct ah_diagnosis_view {
    const struct ah_diagnosis *diagnosis;
    const struct ah_plan_request *request;
};

/* Prints `err`, AH_E_INFEASIBLE or AH_E_NO_PLAN, as its sentence, and the remedies below it (with
 * --json: into the error's object). Returns the exit status. */
int ah_diagnosis_fail(struct ah_cli *cli, const struct ah_diagnosis_view *view, const struct ah_error *err);

/* "--device-memory 26GiB" into `out`; where the machine has less than that, what it would have to have. */
enum { AH_REMEDY_TEXT_MAX = 160 };
const char *ah_diagnosis_remedy(char out[AH_REMEDY_TEXT_MAX], const struct ah_remedy *remedy,
                                const struct ah_machine *machine);

#endif
