/* SPDX-License-Identifier: Apache-2.0
 *
 * Hosts of a run: starts mpirun, which starts a process for each rank of a cluster plan.
 *
 *     rc = ah_run_hosts_launch(cli, "hosts.txt", cluster_plan, &status, err);
 *
 * Where the file (hosts_file.h) has the plan's nodes by name, as plans for a cluster that 'profile --hosts' measured have them,
 * each rank runs on its node's host, and hosts that the plan does not use get none. Else slots are filled in their order, so the
 * ranks of one node of the plan are on one host, or the file is refused.
 */
#ifndef AH_CLI_RUN_HOSTS_H
#define AH_CLI_RUN_HOSTS_H

#include "cli/cli.h"
#include "cli/hosts_file.h"
#include "schemas/cluster_plan.h"

/* Which hosts ranks run on, slot by slot. `path` is the file's in messages. AH_E_MISMATCH: hosts that do not fit the plan. */
int ah_run_hosts_place(const struct ah_hosts *given, const struct ah_cluster_plan *plan, const char *path,
                       struct ah_arena *arena, struct ah_hosts *ret_hosts, struct ah_error *err);

/* `plan` can be run (ah_run_ranks_check()). Runs the command line again, without '--hosts', on all hosts, and waits for its end; an interrupt asks all ranks to save and
 * end. AH_E_USAGE: a line that is no host; AH_E_MISMATCH: hosts that do not fit the plan; AH_E_MISSING: no mpirun. */
int ah_run_hosts_launch(struct ah_cli *cli, const char *path, const struct ah_cluster_plan *plan,
                        int *ret_status, struct ah_error *err);

#endif
