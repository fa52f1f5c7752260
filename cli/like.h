/* SPDX-License-Identifier: Apache-2.0
 *
 * Like: '--like PLAN', a request that trains as another plan does, so that both give the same bits: of a plan for one machine
 * or of a cluster plan, whose pipelines are groups of micro-batches that are added up by themselves.
 *
 *     rc = ah_request_init(&request, cli, &options->request, err);
 *     rc = rc ? rc : ah_like_apply(&request, cli, options->like, &options->request, err);
 */
#ifndef AH_CLI_LIKE_H
#define AH_CLI_LIKE_H

#include "cli/request.h"

/* Sets request->planner.training. AH_E_USAGE: an option says otherwise; AH_E_MISMATCH: another model, or another kind of device;
 * errors of ah_input_load(). */
int ah_like_apply(struct ah_request *request, struct ah_cli *cli, const char *path,
                  const struct ah_request_options *given, struct ah_error *err);

#endif
