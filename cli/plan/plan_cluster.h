/* SPDX-License-Identifier: Apache-2.0
 *
 * autohete plan MODEL --cluster FILE: a cluster plan instead of a plan.
 */
#ifndef AH_CLI_PLAN_PLAN_CLUSTER_H
#define AH_CLI_PLAN_PLAN_CLUSTER_H

#include "cli/plan/request_cluster.h"

/* Makes a plan, and writes or shows it. `output`: NULL or "-" is standard output. Returns the exit status. */
int ah_plan_cluster(struct ah_cli *cli, const struct ah_request_cluster_options *options, const char *output);

/* Plans for several equal GPUs of a machine. Returns the exit status. */
int ah_plan_gpus(struct ah_cli *cli, struct ah_request *request, const char *output);

/* Prints a note that a plan is a what-if, where no summary says so. */
void ah_plan_tell_what_if(struct ah_cli *cli, const struct ah_plan *plan);

#endif
