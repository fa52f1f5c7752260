/* SPDX-License-Identifier: Apache-2.0
 *
 * Run terminal: the host of a run (runtime/run/run_host.h) that tells a person on the terminal.
 *
 *     ah_run_terminal_init(&terminal, cli);
 *     terminal.host.stop = ah_interrupt_catch();
 *     rc = ah_run_open(&run, &terminal.host, plan, &options, err);
 */
#ifndef AH_CLI_RUN_RUN_TERMINAL_H
#define AH_CLI_RUN_RUN_TERMINAL_H

#include "cli/frame/cli.h"
#include "runtime/run/run_host.h"

struct ah_run_terminal {
    struct ah_run_host host;
    struct ah_cli *cli;          /* borrowed */
    struct ah_progress progress; /* of the check of data */
};

/* Leaves host.stop to the caller, as not every process of a run catches interrupts. `ret_terminal` must not move while
 * its host is used. */
void ah_run_terminal_init(struct ah_run_terminal *ret_terminal, struct ah_cli *cli);

#endif
