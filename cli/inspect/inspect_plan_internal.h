/* SPDX-License-Identifier: Apache-2.0
 *
 * The parts of the view of a plan.
 */
#ifndef AH_CLI_INSPECT_INSPECT_PLAN_INTERNAL_H
#define AH_CLI_INSPECT_INSPECT_PLAN_INTERNAL_H

#include "cli/inspect/inspect.h"
#include "schemas/plan.h"

/* Prints the plan's memory by class, or its blocks. */
void ah_inspect_plan_memory(struct ah_cli *cli, const struct ah_plan *plan);
void ah_inspect_plan_blocks(struct ah_cli *cli, const struct ah_plan *plan);

/* Appends the policy, what it was forbidden, and how good the plan is. */
void ah_inspect_plan_put_policy(struct ah_buffer *out, const struct ah_plan *plan);

/* Prints what the plan does: its lanes, blocks and memory, and how fast other policies are. */
void ah_inspect_plan_parts(struct ah_cli *cli, const struct ah_plan *plan);

#endif
