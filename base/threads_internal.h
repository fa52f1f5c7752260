/* SPDX-License-Identifier: Apache-2.0
 *
 * Starts the threads of pools and lanes. A thread has a name and the arithmetic of ah_threads_use_ieee(). It is pinned
 * before its first instruction, so that the creator gets the error if the kernel refuses the processor.
 */
#ifndef AH_BASE_THREADS_INTERNAL_H
#define AH_BASE_THREADS_INTERNAL_H

#include "base/error.h"

#include <pthread.h>
#include <stdint.h>

/* A thread's work. */
struct ah_threads_body {
    void (*run)(void *context);
    void *context;
};

/* Starts a thread. cpu < 0: not pinned. AH_E_FAILED names thread and processor. The new thread blocks signals, so that
 * the program's own threads get them. `body` is borrowed until the thread has ended. */
int ah_threads_start(pthread_t *ret_thread, const char *name, int cpu, struct ah_threads_body *body,
                     struct ah_error *err);

/* Returns the processor time that a thread has used; 0 if the system does not say. */
uint64_t ah_threads_cpu_ns(pthread_t thread);

#endif
