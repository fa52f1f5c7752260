/* SPDX-License-Identifier: Apache-2.0
 *
 * Diff of plans in planning terms: how a step, memory and each block change. The verb prints fields that differ.
 */
#ifndef AH_CLI_COMPARE_DIFF_PLAN_H
#define AH_CLI_COMPARE_DIFF_PLAN_H

#include "cli/frame/cli.h"
#include "cli/frame/emit.h"
#include "schemas/plan.h"

/* Prints what differs between two plans. */
void ah_diff_plan_text(struct ah_cli *cli, const struct ah_plan *a, const struct ah_plan *b);

/* Adds the differences between two plans to an object opened by the caller. */
void ah_diff_plan_json(struct ah_emit *emit, const struct ah_plan *a, const struct ah_plan *b);

/* Returns the list ("ops", "lanes", "arena") with field `path`, if text only counts differences in it; NULL: none. */
const char *ah_diff_plan_bulk(const char *path);

#endif
