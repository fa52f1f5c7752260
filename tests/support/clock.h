/* SPDX-License-Identifier: Apache-2.0
 *
 * Clock: a simulated clock, for programs that link ah_test_clock. Its link options send calls of ah_threads_now_ns(),
 * ah_threads_sleep_until_ns() and pthread_cond_timedwait() here. They use the machine's clock until a test says
 * otherwise.
 *
 *     clock_stand();             // only sleeps make time pass
 *     ...                        // a lane that an emulation slows takes exactly the nanoseconds asked for
 *     clock_advance(ns);         // by hand
 *     clock_go();                // the machine's again
 *
 * A sleep makes time pass for all threads: two threads that sleep a second each take two seconds together. A thread in
 * pthread_cond_timedwait() waits until somebody advances the clock by hand.
 */
#ifndef AH_TESTS_SUPPORT_CLOCK_H
#define AH_TESTS_SUPPORT_CLOCK_H

#include <stdint.h>

/* clock_stand(): only sleeps make time pass. clock_work(): so does processor time, for the thread that uses it.
 * clock_go(): back to the machine's clock. */
void clock_stand(void);
void clock_work(void);
void clock_go(void);

/* The next sleep calls `hook` first, once, on its thread. */
void clock_at_sleep(void (*hook)(void *context), void *context);

/* Takes the one thread that waits for moments through all of them within `ns`. Returns when it waits for a later one,
 * or for none any more: clock_wait_over() was called. */
void clock_advance(uint64_t ns);

/* Time jumps, as for a process that was stopped: the thread that waits for a moment continues once. */
void clock_leap(uint64_t ns);

/* The test calls this when the thread will wait for no more moments. */
void clock_wait_over(void);

#endif
