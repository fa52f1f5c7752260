/* SPDX-License-Identifier: Apache-2.0
 *
 * How pool and lane start a thread: named, and pinned before its first instruction, so that a processor the
 * kernel refuses is an error of the creator.
 */
#ifndef AH_BASE_THREADS_INTERNAL_H
#define AH_BASE_THREADS_INTERNAL_H

#include "base/error.h"

#include <pthread.h>

/* cpu < 0: not pinned. AH_E_FAILED names thread and processor. Signals are blocked in the thread: they belong
 * to the program's own threads. */
int ah_threads_start(pthread_t *ret_thread, const char *name, int cpu, void *(*run)(void *), void *context,
                     struct ah_error *err);

#endif
