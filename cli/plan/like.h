/* SPDX-License-Identifier: Apache-2.0
 *
 * Like: '--like PLAN' makes a request train like another plan, so that both give the same bits. In a cluster plan, the
 * gradients of each pipeline's micro-batches are a group, added up separately. A request for one machine adds up the
 * same groups. In a request for a cluster, pipelines take whole groups (planner/cluster/groups.h).
 *
 *     rc = ah_like_check_options(&options->request, err);
 *     rc = rc ? rc : ah_request_init(&request, cli, &options->request, err);
 *     rc = rc ? rc : ah_like_apply(&request, cli, options->like, err);
 */
#ifndef AH_CLI_PLAN_LIKE_H
#define AH_CLI_PLAN_LIKE_H

#include "cli/plan/request.h"
#include "cli/plan/request_cluster.h"

/* Refuses options that '--like' takes from its plan. AH_E_USAGE. */
int ah_like_check_options(const struct ah_request_options *given, struct ah_error *err);

/* Sets request->planner.training. AH_E_MISMATCH: the plan is for another model or kind of device. Errors of
 * ah_input_load(). */
int ah_like_apply(struct ah_request *request, struct ah_cli *cli, const char *path, struct ah_error *err);

/* Sets request->planner. Errors: as ah_like_apply(); AH_E_USAGE also if `tp` or `policy` would give other bits. */
int ah_like_apply_cluster(struct ah_request_cluster *request, struct ah_cli *cli,
                          const struct ah_request_cluster_options *options, struct ah_error *err);

#endif
