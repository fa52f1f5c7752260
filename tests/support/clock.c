/* SPDX-License-Identifier: Apache-2.0
 *
 * Implements the simulated clock (clock.h), by replacing three functions at link time.
 */
#include "tests/support/clock.h"

#include "base/threads.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <time.h>

static atomic_bool stands, counts_work;
static atomic_uint_fast64_t stood_ns;

static void (*_Atomic sleep_hook)(void *context);
static void *sleep_context;

/* Condition, mutex and deadline of the thread in a timed wait, set by that thread under that mutex. The condition is
 * NULL if no thread waits. */
static pthread_cond_t *_Atomic waits_on;
static pthread_mutex_t *waits_under;
static atomic_uint_fast64_t waits_until_ns;
static atomic_bool waits_no_more;

uint64_t __real_ah_threads_now_ns(void);
uint64_t __wrap_ah_threads_now_ns(void);
void __real_ah_threads_sleep_until_ns(uint64_t deadline_ns);
void __wrap_ah_threads_sleep_until_ns(uint64_t deadline_ns);
int __real_pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *mutex, const struct timespec *until);
int __wrap_pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *mutex, const struct timespec *until);

static void stand(bool with_work)
{
    atomic_store(&stood_ns, __real_ah_threads_now_ns());
    atomic_store(&counts_work, with_work);
    atomic_store(&sleep_hook, NULL);
    atomic_store(&waits_on, NULL);
    atomic_store(&waits_no_more, false);
    atomic_store(&stands, true);
}

void clock_stand(void)
{
    stand(false);
}

void clock_work(void)
{
    stand(true);
}

void clock_go(void)
{
    atomic_store(&stands, false);
}

void clock_at_sleep(void (*hook)(void *context), void *context)
{
    sleep_context = context;
    atomic_store(&sleep_hook, hook);
}

static uint64_t this_threads_ns(void)
{
    struct timespec worked = {0};
    if (atomic_load(&counts_work))
        (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &worked);
    return atomic_load(&stood_ns) + (uint64_t)worked.tv_sec * 1000000000 + (uint64_t)worked.tv_nsec;
}

uint64_t __wrap_ah_threads_now_ns(void)
{
    return atomic_load(&stands) ? this_threads_ns() : __real_ah_threads_now_ns();
}

void __wrap_ah_threads_sleep_until_ns(uint64_t deadline_ns)
{
    if (!atomic_load(&stands)) {
        __real_ah_threads_sleep_until_ns(deadline_ns);
        return;
    }
    void (*hook)(void *) = atomic_exchange(&sleep_hook, NULL);
    if (hook)
        hook(sleep_context);
    const uint64_t now_ns = this_threads_ns();
    if (deadline_ns > now_ns)
        atomic_fetch_add(&stood_ns, deadline_ns - now_ns);
}

/* Waits on the simulated clock. Like the real function, it may return 0 without a signal. */
int __wrap_pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *mutex, const struct timespec *until)
{
    if (!atomic_load(&stands))
        return __real_pthread_cond_timedwait(cond, mutex, until);
    const uint64_t until_ns = (uint64_t)until->tv_sec * 1000000000 + (uint64_t)until->tv_nsec;
    if (atomic_load(&stood_ns) >= until_ns)
        return ETIMEDOUT;
    waits_under = mutex;
    atomic_store(&waits_until_ns, until_ns);
    atomic_store(&waits_on, cond);
    int rc = pthread_cond_wait(cond, mutex);
    if (atomic_load(&stood_ns) < until_ns)
        return rc;
    return ETIMEDOUT;
}

void clock_wait_over(void)
{
    atomic_store(&waits_no_more, true);
}

/* Waits for the thread's next timed wait and returns its deadline, or UINT64_MAX if it will not wait any more. */
static uint64_t next_moment(void)
{
    for (;;) {
        if (atomic_load(&waits_on))
            return atomic_load(&waits_until_ns);
        if (atomic_load(&waits_no_more))
            return UINT64_MAX;
        sched_yield();
    }
}

static void go_on_at(uint64_t at_ns)
{
    pthread_mutex_lock(waits_under);
    pthread_cond_t *cond = atomic_exchange(&waits_on, NULL);
    atomic_store(&stood_ns, at_ns);
    pthread_cond_signal(cond);
    pthread_mutex_unlock(waits_under);
}

void clock_advance(uint64_t ns)
{
    const uint64_t end_ns = atomic_load(&stood_ns) + ns;
    for (uint64_t at_ns = next_moment(); at_ns <= end_ns; at_ns = next_moment())
        go_on_at(at_ns);
    atomic_store(&stood_ns, end_ns);
}

void clock_leap(uint64_t ns)
{
    if (next_moment() != UINT64_MAX)
        go_on_at(atomic_load(&stood_ns) + ns);
    (void)next_moment();
}
