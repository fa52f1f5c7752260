/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/interrupt.h"

#include <signal.h>
#include <stddef.h>

static atomic_int interrupted;

/* A second one, of either kind, ends the process. */
static void on_interrupt(int signal_number)
{
    (void)signal_number;
    signal(SIGINT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
    atomic_store(&interrupted, 1);
}

const atomic_int *ah_interrupt_catch(void)
{
    const struct sigaction action = {.sa_handler = on_interrupt};
    if (!ah_interrupt_seen()) {
        sigaction(SIGINT, &action, NULL);
        sigaction(SIGTERM, &action, NULL);
    }
    return &interrupted;
}

bool ah_interrupt_seen(void)
{
    return atomic_load(&interrupted);
}
