/* SPDX-License-Identifier: Apache-2.0
 *
 * Diff of cluster plans in planning terms: how a step and each GPU's work change. Below this, the verb lists the fields
 * that differ.
 */
#ifndef AH_CLI_COMPARE_DIFF_CLUSTER_PLAN_H
#define AH_CLI_COMPARE_DIFF_CLUSTER_PLAN_H

#include "cli/frame/cli.h"
#include "cli/frame/emit.h"
#include "schemas/cluster_plan.h"

/* Prints what differs between two cluster plans. */
void ah_diff_cluster_plan_text(struct ah_cli *cli, const struct ah_cluster_plan *a,
                               const struct ah_cluster_plan *b);

/* Adds the differences between two cluster plans to an object opened by the caller. */
void ah_diff_cluster_plan_json(struct ah_emit *emit, struct ah_arena *arena, const struct ah_cluster_plan *a,
                               const struct ah_cluster_plan *b);

/* Like ah_diff_plan_bulk(), for cluster plans. */
const char *ah_diff_cluster_plan_bulk(const char *path);

#endif
