/* SPDX-License-Identifier: Apache-2.0
 *
 * Hosts of a run: starts mpirun, which starts a process for each rank of a cluster plan.
 *
 *     rc = ah_run_hosts_launch(cli, "hosts.txt", cluster_plan, &status, err);
 *
 * If the plan's nodes are hosts in the file (hosts_file.h), as after 'profile --hosts', each rank runs on its node's
 * host, and hosts without a node in the plan get no rank. Otherwise slots are assigned in order. A file that would put
 * ranks of one node on different hosts is refused.
 */
#ifndef AH_CLI_RUN_RUN_HOSTS_H
#define AH_CLI_RUN_RUN_HOSTS_H

#include "cli/frame/cli.h"
#include "runtime/comm/hosts_file.h"
#include "schemas/cluster_plan.h"

/* Finds the host of each rank. `path`: the file's name for messages. AH_E_MISMATCH: the hosts do not fit the plan. */
int ah_run_hosts_place(const struct ah_hosts *given, const struct ah_cluster_plan *plan, const char *path,
                       struct ah_arena *arena, struct ah_hosts *ret_hosts, struct ah_error *err);

/* Runs this command line, without '--hosts', on all hosts, and waits for its end. At an interrupt, all ranks save
 * and end. `plan` has passed ah_run_ranks_check(). AH_E_USAGE: a line is no host; AH_E_MISMATCH; AH_E_MISSING: no
 * mpirun. */
int ah_run_hosts_launch(struct ah_cli *cli, const char *path, const struct ah_cluster_plan *plan,
                        int *ret_status, struct ah_error *err);

#endif
