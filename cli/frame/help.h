/* SPDX-License-Identifier: Apache-2.0
 *
 * Help: prints the tables of verbs and options, for people on a terminal and for programs.
 */
#ifndef AH_CLI_FRAME_HELP_H
#define AH_CLI_FRAME_HELP_H

#include "cli/frame/cli.h"

/* Prints all verbs, or one verb, to cli->out, as JSON with --json. */
void ah_help_all(struct ah_cli *cli);
void ah_help_verb(struct ah_cli *cli, const struct ah_verb *verb);

#endif
