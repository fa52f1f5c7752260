/* SPDX-License-Identifier: Apache-2.0
 *
 * Turns signals into a flag.
 */
#include "cli/frame/interrupt.h"

#include <signal.h>
#include <stddef.h>

static atomic_int interrupted;

/* A second SIGINT or SIGTERM ends the process. A second SIGHUP or SIGUSR1 must not end it: a closing terminal may cause
 * two SIGHUPs, from the kernel and the shell, and the save requested by the first one must finish. */
static void on_interrupt(int signal_number)
{
    (void)signal_number;
    signal(SIGINT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
    signal(SIGHUP, SIG_IGN);
    signal(SIGUSR1, SIG_IGN);
    atomic_store(&interrupted, 1);
}

const atomic_int *ah_interrupt_catch(void)
{
    const struct sigaction action = {.sa_handler = on_interrupt};
    struct sigaction before;
    if (!ah_interrupt_seen()) {
        sigaction(SIGINT, &action, NULL);
        sigaction(SIGTERM, &action, NULL);
        sigaction(SIGUSR1, &action, NULL);
        if (sigaction(SIGHUP, NULL, &before) ||
            before.sa_handler != SIG_IGN) /* a signal that nohup ignores stays ignored */
            sigaction(SIGHUP, &action, NULL);
    }
    return &interrupted;
}

bool ah_interrupt_seen(void)
{
    return atomic_load(&interrupted);
}

void ah_interrupt_leave(void)
{
    signal(SIGUSR1, SIG_IGN);
}
