/* SPDX-License-Identifier: Apache-2.0 */
#include "base/threads.h"

#include "base/threads_internal.h"

#include <errno.h>
#include <fenv.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <time.h>

enum { NS_PER_S = 1000000000 };
enum {
    STACK_BYTES = 1 << 20
};                      /* least stack of a thread: musl gives 128 KiB, other libraries the shell's limit */
enum { MASK_SETS = 8 }; /* 1024 processors each: together the most that Linux supports */

uint64_t ah_threads_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

void ah_threads_sleep_until_ns(uint64_t deadline_ns)
{
    struct timespec deadline = {.tv_sec = (time_t)(deadline_ns / NS_PER_S),
                                .tv_nsec = (long)(deadline_ns % NS_PER_S)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &deadline, NULL) == EINTR)
        ;
}

unsigned ah_threads_cpus(unsigned *ret_cpus, unsigned max)
{
    cpu_set_t sets[MASK_SETS] = {0};
    if (sched_getaffinity(0, sizeof sets, sets))
        return 0;
    unsigned n = 0;
    for (unsigned cpu = 0; cpu < MASK_SETS * CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET(cpu % CPU_SETSIZE, &sets[cpu / CPU_SETSIZE]))
            continue;
        if (n < max)
            ret_cpus[n] = cpu;
        n++;
    }
    return n;
}

int ah_threads_pin(int cpu)
{
    if (cpu < 0)
        return AH_OK;
    if (cpu >= MASK_SETS * CPU_SETSIZE)
        return AH_E_FAILED;
    cpu_set_t sets[MASK_SETS] = {0};
    CPU_SET((unsigned)cpu % CPU_SETSIZE, &sets[cpu / CPU_SETSIZE]);
    return sched_setaffinity(0, sizeof sets, sets) ? AH_E_FAILED : AH_OK;
}

void ah_threads_use_ieee(void)
{
    fesetenv(FE_DFL_ENV); /* clears flush-to-zero and denormals-are-zero too */
}

static void *thread_main(void *context)
{
    const struct ah_threads_body *body = context;
    ah_threads_use_ieee();
    body->run(body->context);
    return NULL;
}

static int start_pinned(pthread_t *ret_thread, int cpu, struct ah_threads_body *body)
{
    pthread_attr_t attributes;
    size_t stack_bytes = 0;
    int rc = pthread_attr_init(&attributes);
    if (rc)
        return rc;
    if (!pthread_attr_getstacksize(&attributes, &stack_bytes) && stack_bytes < STACK_BYTES)
        (void)pthread_attr_setstacksize(&attributes, STACK_BYTES); /* on failure it gets the smaller stack */
    if (cpu >= MASK_SETS * CPU_SETSIZE)
        rc = EINVAL;
    else if (cpu >= 0) {
        cpu_set_t sets[MASK_SETS] = {0};
        CPU_SET((unsigned)cpu % CPU_SETSIZE, &sets[cpu / CPU_SETSIZE]);
        rc = pthread_attr_setaffinity_np(&attributes, sizeof sets, sets);
    }
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    if (!rc)
        rc = pthread_create(ret_thread, &attributes, thread_main, body);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    return rc;
}

int ah_threads_start(pthread_t *ret_thread, const char *name, int cpu, struct ah_threads_body *body,
                     struct ah_error *err)
{
    pthread_t thread;
    int rc = start_pinned(&thread, cpu, body);
    if (rc && cpu >= 0)
        return ah_error_set(
            err, AH_E_FAILED,
            "cannot start thread '%s' on processor %d: %s; choose one that this process may use", name, cpu,
            strerror(rc));
    if (rc)
        return ah_error_set(err, AH_E_FAILED, "cannot start thread '%s': %s; see `ulimit -u`", name,
                            strerror(rc));
    pthread_setname_np(thread, name);
    *ret_thread = thread;
    return AH_OK;
}

uint64_t ah_threads_cpu_ns(pthread_t thread)
{
    clockid_t clock;
    struct timespec used;
    if (pthread_getcpuclockid(thread, &clock) || clock_gettime(clock, &used))
        return 0;
    return (uint64_t)used.tv_sec * 1000000000 + (uint64_t)used.tv_nsec;
}
