/* SPDX-License-Identifier: Apache-2.0
 *
 * Diagnosis of clusters: why there is no plan, and what helps, as cli/diagnosis.h does for one machine.
 */
#ifndef AH_CLI_DIAGNOSIS_CLUSTER_H
#define AH_CLI_DIAGNOSIS_CLUSTER_H

#include "cli/cli.h"
#include "planner/cluster/cluster_remedies.h"

struct ah_diagnosis_cluster {
    const struct ah_cluster_shortage *shortage;
    const struct ah_cluster_remedies *remedies;
};

/* Prints `err`, AH_E_INFEASIBLE or AH_E_NO_PLAN, as its sentence, and the remedies below it (with --json: into the
 * error's object). Returns the exit status. */
int ah_diagnosis_cluster_fail(struct ah_cli *cli, const struct ah_diagnosis_cluster *diagnosis,
                              const struct ah_error *err);

#endif
