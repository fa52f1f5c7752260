/* SPDX-License-Identifier: Apache-2.0
 *
 * Inspect inputs: prints of which inputs token files were made, with weights, and the share of each.
 */
#ifndef AH_CLI_INSPECT_INSPECT_INPUTS_H
#define AH_CLI_INSPECT_INSPECT_INPUTS_H

#include "cli/frame/cli.h"
#include "cli/frame/emit.h"
#include "runtime/text/mix.h"

/* Prints a table: documents of each input, those among the data to train on, their tokens, and their share of all. */
void ah_inspect_inputs(struct ah_cli *cli, const struct ah_mix *mix);

/* Adds "seed" and "inputs". */
void ah_inspect_inputs_json(struct ah_emit *emit, const struct ah_mix *mix);

#endif
