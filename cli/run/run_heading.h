/* SPDX-License-Identifier: Apache-2.0
 *
 * Run heading: the lines for people before the first step of a run.
 */
#ifndef AH_CLI_RUN_RUN_HEADING_H
#define AH_CLI_RUN_RUN_HEADING_H

#include "cli/frame/cli.h"
#include "runtime/run/run.h"

/* Appends model, device, prediction, ranks, data, checkpoints and learning rate of an open run to cli->out. `given`:
 * the options on the command line, before a resumed run's settings completed them. */
void ah_run_heading_print(struct ah_cli *cli, const struct ah_run *run, const struct ah_run_options *given);

#endif
