/* SPDX-License-Identifier: Apache-2.0
 *
 * Hosts of a run: starts mpirun, which starts a process for each rank of a cluster plan.
 *
 *     rc = ah_run_hosts_launch(cli, "hosts.txt", cluster_plan, &status, err);
 *
 * The file has a line for each host, as Open MPI and DeepSpeed read it: 'name slots=N' (1 where it is left out), comments
 * behind '#'. Slots are filled in their order, so the ranks of one node of the plan are on one host, or the file is refused.
 */
#ifndef AH_CLI_RUN_HOSTS_H
#define AH_CLI_RUN_HOSTS_H

#include "cli/cli.h"
#include "schemas/cluster_plan.h"

/* `plan` can be run (ah_run_ranks_check()). Runs the command line again, without '--hosts', on all hosts, and waits for its end; an interrupt asks all ranks to save and
 * end. AH_E_USAGE: a line that is no host; AH_E_MISMATCH: hosts that do not fit the plan; AH_E_MISSING: no mpirun. */
int ah_run_hosts_launch(struct ah_cli *cli, const char *path, const struct ah_cluster_plan *plan,
                        int *ret_status, struct ah_error *err);

#endif
