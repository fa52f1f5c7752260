/* SPDX-License-Identifier: Apache-2.0
 *
 * Diagnosis: says why there is no plan for a machine or a cluster, and what would help. Each remedy is shown as options
 * of the command line, with the resulting step time.
 */
#ifndef AH_CLI_PLAN_DIAGNOSIS_H
#define AH_CLI_PLAN_DIAGNOSIS_H

#include "cli/frame/cli.h"
#include "planner/cluster/cluster_remedies.h"
#include "planner/planner.h"

/* Prints `err`, AH_E_INFEASIBLE or AH_E_NO_PLAN, as one sentence with the remedies below (with --json: in the error's
 * object). Returns the exit status. */
int ah_diagnosis_fail(struct ah_cli *cli, const struct ah_diagnosis *diagnosis,
                      const struct ah_machine *machine, const struct ah_error *err);
int ah_diagnosis_fail_cluster(struct ah_cli *cli, const struct ah_cluster_shortage *shortage,
                              const struct ah_cluster_remedies *remedies, const struct ah_error *err);

/* Prints a remedy, such as "--device-memory 26GiB". Returns `out`. */
enum { AH_REMEDY_TEXT_MAX = 320 };
const char *ah_diagnosis_remedy(char out[AH_REMEDY_TEXT_MAX], const struct ah_remedy *remedy);

#endif
