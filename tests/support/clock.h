/* SPDX-License-Identifier: Apache-2.0
 *
 * Clock: a clock of numbers in place of the machine's, for programs that link ah_test_clock: its link options send
 * calls of ah_threads_now_ns(), ah_threads_sleep_until_ns() and pthread_cond_timedwait() here. They go to the machine's
 * clock until a test says otherwise.
 *
 *     clock_stand();             // time passes in sleeps alone
 *     ...                        // a lane that an emulation slows takes the nanoseconds that were asked for, no more
 *     clock_advance(ns);         // by hand
 *     clock_go();                // the machine's again
 *
 * Threads that sleep make time pass for all, one after another: two sleeps of a second are two seconds. A thread that
 * waits for a condition until a moment waits until somebody advances the clock by hand.
 */
#ifndef AH_TESTS_SUPPORT_CLOCK_H
#define AH_TESTS_SUPPORT_CLOCK_H

#include <stdint.h>

/* From now on time passes in sleeps; for clock_work() in what a thread works, too, as processor time, for that thread
 * alone. */
void clock_stand(void);
void clock_work(void);
void clock_go(void);

/* The next sleep calls it first, once, on its thread. */
void clock_at_sleep(void (*hook)(void *context), void *context);

/* Returns when the one thread that waits for a moment has gone through all of them up to then, and waits for a later
 * one, or for none any more: clock_wait_over() was called. */
void clock_advance(uint64_t ns);

/* Time passes at once, as it does for a process that was stopped: the thread that waits for a moment goes on once. */
void clock_leap(uint64_t ns);

/* Told by the test when the thread that waited for moments will do so no more. */
void clock_wait_over(void);

#endif
