/* SPDX-License-Identifier: Apache-2.0
 *
 * Diff of plans in planning terms: how a step, memory and each block change. The list of fields that differ follows.
 */
#ifndef AH_CLI_COMPARE_DIFF_PLAN_H
#define AH_CLI_COMPARE_DIFF_PLAN_H

#include "cli/frame/cli.h"
#include "cli/frame/emit.h"
#include "schemas/plan.h"

/* Prints what differs between two plans. */
void ah_diff_plan_text(struct ah_cli *cli, const struct ah_plan *a, const struct ah_plan *b);

/* The same as fields of an object that the caller opened. */
void ah_diff_plan_json(struct ah_emit *emit, const struct ah_plan *a, const struct ah_plan *b);

/* Returns the list ("ops", "lanes", "arena") with field `path`, whose differences text only counts; NULL: no list. */
const char *ah_diff_plan_bulk(const char *path);

#endif
