/* SPDX-License-Identifier: Apache-2.0
 *
 * Threads: the clock and the processors. This header includes the two users of processors: a pool (pool.h) splits one
 * piece of work; a lane (lane.h) runs pieces of work one after another.
 *
 *     unsigned cpus[64];
 *     unsigned n = ah_threads_cpus(cpus, 64);
 *     ah_threads_pin((int)cpus[n - 1]);
 *
 * All functions may be called from any thread.
 */
#ifndef AH_BASE_THREADS_H
#define AH_BASE_THREADS_H

#include "base/lane.h"
#include "base/pool.h"

#include <stdint.h>

/* Returns monotonic nanoseconds (CLOCK_MONOTONIC). */
uint64_t ah_threads_now_ns(void);

/* Sleeps until `deadline_ns` of that clock; returns at once if it has passed. */
void ah_threads_sleep_until_ns(uint64_t deadline_ns);

/* Writes the numbers of the processors that the calling thread may use (its affinity mask) to `ret_cpus`, ascending, at
 * most `max`, and returns how many there are. A pinned thread, and every thread it starts, sees only its own processor;
 * any other thread sees those of the process. */
unsigned ah_threads_cpus(unsigned *ret_cpus, unsigned max);

/* Pins the calling thread; a negative cpu changes nothing. AH_E_FAILED if the kernel refuses. */
int ah_threads_pin(int cpu);

/* Gives the calling thread the IEEE 754 arithmetic that a program starts with: round to nearest, denormals kept, no
 * traps. A thread inherits these settings, and one library linked with -ffast-math is enough to make denormals zero in
 * all threads. Threads of pools and lanes call this first. */
void ah_threads_use_ieee(void);

#endif
