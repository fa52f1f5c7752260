/* SPDX-License-Identifier: Apache-2.0
 *
 * autohete compare MODEL --cluster FILE: a table with every policy's arrangement of the cluster.
 */
#ifndef AH_CLI_COMPARE_COMPARE_CLUSTER_H
#define AH_CLI_COMPARE_COMPARE_CLUSTER_H

#include "cli/plan/request_cluster.h"

/* Plans with every policy and prints a table of the results. Returns the exit status. */
int ah_compare_cluster(struct ah_cli *cli, const struct ah_request_cluster_options *options);

#endif
