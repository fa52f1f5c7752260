/* SPDX-License-Identifier: Apache-2.0
 *
 * Clock: a simulated clock, for programs that link ah_test_clock. Link options replace ah_threads_now_ns(),
 * ah_threads_sleep_until_ns() and pthread_cond_timedwait() by functions of this file. They use the machine's clock
 * until a test calls clock_stand() or clock_work().
 *
 *     clock_stand();             // only sleeps make time pass
 *     ...                        // a lane that an emulation slows takes exactly the requested time
 *     clock_advance(ns);         // passes `ns` by hand
 *     clock_go();                // back to the machine's clock
 *
 * A sleep makes time pass for all threads, so two threads that sleep a second each take two seconds. A thread in
 * pthread_cond_timedwait() waits until the test advances the clock by hand.
 */
#ifndef AH_TESTS_SUPPORT_CLOCK_H
#define AH_TESTS_SUPPORT_CLOCK_H

#include <stdint.h>

/* Stops the clock: only sleeps make time pass. After clock_work(), a thread's processor time does, too, for that thread
 * only. clock_go() returns to the machine's clock. */
void clock_stand(void);
void clock_work(void);
void clock_go(void);

/* Calls `hook` once: on the next thread that sleeps, before it sleeps. */
void clock_at_sleep(void (*hook)(void *context), void *context);

/* Advances the clock by `ns` and ends each timed wait of the waiting thread that is due by then. Returns once the
 * thread's next deadline is later, or clock_wait_over() was called. */
void clock_advance(uint64_t ns);

/* Advances the clock in one jump, as for a process that was stopped. The waiting thread wakes only once. */
void clock_leap(uint64_t ns);

/* Announces that the waiting thread will make no more timed waits. */
void clock_wait_over(void);

#endif
