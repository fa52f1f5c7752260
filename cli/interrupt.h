/* SPDX-License-Identifier: Apache-2.0
 *
 * Interrupt: the first SIGINT, SIGTERM, SIGHUP or SIGUSR1 asks a verb to stop; a second SIGINT or SIGTERM ends the process. A
 * SIGHUP that is ignored from the start, as under nohup, stays ignored. SIGUSR1 is what batch systems and launchers send
 * before the time is up.
 */
#ifndef AH_CLI_INTERRUPT_H
#define AH_CLI_INTERRUPT_H

#include <stdatomic.h>
#include <stdbool.h>

/* From now on; after the first interrupt nothing changes any more. Returns the flag that it sets to 1. */
const atomic_int *ah_interrupt_catch(void);

bool ah_interrupt_seen(void);

/* SIGUSR1 means nothing to this process: another one decides when to stop. */
void ah_interrupt_leave(void);

#endif
