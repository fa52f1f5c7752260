/* SPDX-License-Identifier: Apache-2.0
 *
 * Interrupt: the first SIGINT, SIGTERM, SIGHUP or SIGUSR1 asks a verb to stop. A second SIGINT or SIGTERM ends the
 * process. A SIGHUP that is ignored from the start, as under nohup, stays ignored. Batch systems and launchers send
 * SIGUSR1 before a job's time is up.
 */
#ifndef AH_CLI_FRAME_INTERRUPT_H
#define AH_CLI_FRAME_INTERRUPT_H

#include <stdatomic.h>
#include <stdbool.h>

/* Catches these signals from now on. Returns a flag that the first one sets to 1; the flag is never reset. */
const atomic_int *ah_interrupt_catch(void);

bool ah_interrupt_seen(void);

/* Ignores SIGUSR1 in this process, because another process decides when to stop. */
void ah_interrupt_leave(void);

#endif
