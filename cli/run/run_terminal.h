/* SPDX-License-Identifier: Apache-2.0
 *
 * Run terminal: the host of a run (runtime/run/run_host.h) that prints for a person at a terminal.
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
    struct ah_progress progress; /* progress of checking the data */
};

/* Prepares the host, except for host.stop: not every process of a run catches interrupts. Do not move `ret_terminal`
 * while its host is in use. */
void ah_run_terminal_init(struct ah_run_terminal *ret_terminal, struct ah_cli *cli);

#endif
