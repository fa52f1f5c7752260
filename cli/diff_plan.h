/* SPDX-License-Identifier: Apache-2.0
 *
 * Diff of plans in planning terms: what the change means for a step, for memory and for each block, before the list of
 * fields says where the documents differ.
 */
#ifndef AH_CLI_DIFF_PLAN_H
#define AH_CLI_DIFF_PLAN_H

#include "cli/cli.h"
#include "cli/emit.h"
#include "schemas/plan.h"

void ah_diff_plan_text(struct ah_cli *cli, const struct ah_plan *a, const struct ah_plan *b);

/* Into an object that the caller opened. */
void ah_diff_plan_json(struct ah_emit *emit, const struct ah_plan *a, const struct ah_plan *b);

/* The list that a path is in whose differences are only counted for people: "ops", "lanes", "arena"; NULL: none. */
const char *ah_diff_plan_bulk(const char *path);

#endif
