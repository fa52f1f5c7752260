/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests pools. The counters of chunks are not atomic. So the thread sanitizer notices if a chunk runs on two threads at
 * once, or still runs after the caller's call has returned.
 */
#include "base/pool.h"

#include "base/threads.h"
#include "tests/support/check.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { CHUNKS_MAX = 257, THREADS_MAX = 8 };

struct tally {
    unsigned threads;
    unsigned value;                /* written by the caller before a run, read by chunks */
    unsigned ran[CHUNKS_MAX];      /* number of runs, by chunk */
    unsigned seen[CHUNKS_MAX];     /* the `value` seen by each chunk */
    unsigned scratch[THREADS_MAX]; /* number of chunks, by worker */
    atomic_uint wrong;
};

static void count_chunk(void *context, size_t chunk, unsigned worker)
{
    struct tally *tally = context;
    if (chunk >= CHUNKS_MAX || worker >= tally->threads) {
        atomic_fetch_add(&tally->wrong, 1);
        return;
    }
    tally->ran[chunk]++;
    tally->seen[chunk] = tally->value;
    tally->scratch[worker]++;
}

static struct ah_pool *new_pool(unsigned threads, unsigned spin_us)
{
    struct ah_error err = {0};
    struct ah_pool *pool = NULL;
    CHECK_OK(ah_pool_new(&pool, &(struct ah_pool_options){.threads = threads, .spin_us = spin_us}, &err),
             err);
    assert_int_equal(ah_pool_threads(pool), threads);
    return pool;
}

static void run_and_check(struct ah_pool *pool, struct tally *tally, size_t chunks)
{
    unsigned before = 0, after = 0;
    for (unsigned i = 0; i < THREADS_MAX; i++)
        before += tally->scratch[i];
    memset(tally->ran, 0, sizeof tally->ran);
    tally->value++;
    ah_pool_run(pool, count_chunk, tally, chunks);
    for (size_t i = 0; i < CHUNKS_MAX; i++) {
        assert_int_equal(tally->ran[i], i < chunks);
        if (i < chunks)
            assert_int_equal(tally->seen[i], tally->value);
    }
    for (unsigned i = 0; i < THREADS_MAX; i++)
        after += tally->scratch[i];
    assert_int_equal(after - before, chunks);
    assert_int_equal(atomic_load(&tally->wrong), 0);
}

TEST(pool, every_chunk_runs_once)
{
    uint64_t seed = check_seed(41);
    for (unsigned threads = 1; threads <= THREADS_MAX; threads++) {
        struct tally tally = {.threads = threads};
        struct ah_pool *pool = new_pool(threads, 0);
        for (size_t chunks = 0; chunks < 20; chunks++) /* no chunks, fewer chunks than threads, and more */
            run_and_check(pool, &tally, chunks);
        for (int i = 0; i < 100; i++)
            run_and_check(pool, &tally, check_random(&seed) % (CHUNKS_MAX + 1));
        ah_pool_free(pool);
    }
}

static void sum_chunk(void *context, size_t chunk, unsigned worker)
{
    uint64_t *sums = context;
    sums[8 * worker] += chunk;
    sums[8 * worker + 1]++;
}

/* Runs more chunks than fit in one round. */
TEST(pool, millions_of_chunks)
{
    const uint64_t chunks = (2 << 20) + 12345;
    uint64_t sums[16] = {0};
    struct ah_pool *pool = new_pool(2, 0);
    ah_pool_run(pool, sum_chunk, sums, chunks);
    assert_int_equal(sums[0] + sums[8], chunks * (chunks - 1) / 2);
    assert_int_equal(sums[1] + sums[9], chunks);
    ah_pool_free(pool);
}

TEST(pool, null_runs_on_the_caller)
{
    struct tally tally = {.threads = 1};
    assert_int_equal(ah_pool_threads(NULL), 1);
    run_and_check(NULL, &tally, 0);
    run_and_check(NULL, &tally, 17);
    ah_pool_free(NULL);
}

TEST(pool, ten_thousand_tiny_runs)
{
    struct tally tally = {.threads = 4};
    struct ah_pool *pool = new_pool(4, 0);
    for (int i = 0; i < 10000; i++)
        run_and_check(pool, &tally, (size_t)(i % 7));
    ah_pool_free(pool);
}

/* Uses two pools alternately. Workers of `sleepy` sleep early: a run finds them spinning, falling asleep or asleep. */
TEST(pool, runs_at_any_moment_of_falling_asleep)
{
    uint64_t seed = check_seed(42);
    struct tally a = {.threads = 3}, b = {.threads = 2};
    struct ah_pool *patient = new_pool(3, 0), *sleepy = new_pool(2, 1);
    for (int i = 0; i < 3000; i++) {
        if (check_random(&seed) % 2)
            ah_threads_sleep_until_ns(ah_threads_now_ns() + check_random(&seed) % 100000);
        run_and_check(patient, &a, check_random(&seed) % 5);
        run_and_check(sleepy, &b, check_random(&seed) % 5);
    }
    ah_pool_free(patient);
    ah_pool_free(sleepy);
}

static void count_fast(void *context, size_t chunk, unsigned worker)
{
    atomic_uint *ran = context;
    (void)worker;
    atomic_fetch_add_explicit(&ran[chunk], 1, memory_order_relaxed);
}

/* There are more threads than processors, and workers sleep at once. So late workers arrive between the end of one run
 * and the start of the next, which has a different number of chunks. */
TEST(pool, late_workers_take_nothing_of_the_next_run)
{
    struct ah_pool *pool = new_pool(THREADS_MAX, 1);
    for (int i = 0; i < 100000; i++) {
        atomic_uint ran[40] = {0};
        size_t chunks = i % 2 ? 40 : 2;
        ah_pool_run(pool, count_fast, ran, chunks);
        for (size_t k = 0; k < 40; k++)
            if (atomic_load_explicit(&ran[k], memory_order_relaxed) != (k < chunks))
                fail_msg("run %d: chunk %zu of %zu ran %u times", i, k, chunks, atomic_load(&ran[k]));
    }
    ah_pool_free(pool);
}

struct meeting {
    atomic_uint arrived;
    unsigned expected;
};

/* Waits until all participants are inside a chunk at the same time. */
static void meet(void *context, size_t chunk, unsigned worker)
{
    struct meeting *meeting = context;
    (void)chunk;
    (void)worker;
    atomic_fetch_add(&meeting->arrived, 1);
    while (atomic_load(&meeting->arrived) < meeting->expected)
        sched_yield();
}

/* There are as many chunks as threads, and no chunk ends before all have begun. So a lost wake-up hangs here. */
TEST(pool, sleeping_workers_wake)
{
    uint64_t seed = check_seed(43);
    for (unsigned threads = 2; threads <= 4; threads++) {
        struct ah_pool *pool = new_pool(threads, 1);
        for (int i = 0; i < 500; i++) {
            struct meeting meeting = {.expected = threads};
            ah_threads_sleep_until_ns(ah_threads_now_ns() + check_random(&seed) % 200000);
            ah_pool_run(pool, meet, &meeting, threads);
        }
        ah_pool_free(pool);
    }
}

/* Makes chunks on workers take long, so that the caller falls asleep and must be woken. */
static void slow_for_workers(void *context, size_t chunk, unsigned worker)
{
    struct meeting *meeting = context;
    (void)chunk;
    meet(context, 0, worker);
    if (worker)
        ah_threads_sleep_until_ns(ah_threads_now_ns() + 1000000);
    atomic_fetch_add(&meeting->arrived, 1);
}

TEST(pool, caller_waits_for_long_chunks)
{
    struct ah_pool *pool = new_pool(2, 1);
    for (int i = 0; i < 100; i++) {
        struct meeting meeting = {.expected = 2};
        ah_pool_run(pool, slow_for_workers, &meeting, 2);
        assert_int_equal(atomic_load(&meeting.arrived), 4);
    }
    ah_pool_free(pool);
}

static double cpu_seconds(void)
{
    struct timespec used;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    return (double)used.tv_sec + 1e-9 * (double)used.tv_nsec;
}

/* Idle workers fall asleep after a while. On a busy machine this takes longer, so the test tries several times. */
TEST(pool, idle_workers_use_no_processor)
{
    struct tally tally = {.threads = 4};
    struct ah_pool *pool = new_pool(4, 0);
    run_and_check(pool, &tally, 100);
    double used = 1;
    for (int i = 0; i < 100 && used >= 0.015; i++) {
        double before = cpu_seconds();
        ah_threads_sleep_until_ns(ah_threads_now_ns() + 100000000);
        used = cpu_seconds() - before;
    }
    assert_true(used < 0.015);
    ah_pool_free(pool);
}

TEST(pool, new_and_free_at_once)
{
    for (int i = 0; i < 200; i++)
        ah_pool_free(new_pool(1 + (unsigned)i % 4, 1));
}

struct cpus {
    struct meeting meeting;
    int of[3];
};

static void note_cpu(void *context, size_t chunk, unsigned worker)
{
    struct cpus *cpus = context;
    cpus->of[worker] = sched_getcpu();
    meet(&cpus->meeting, chunk, worker);
}

TEST(pool, pins_its_workers)
{
    struct ah_error err = {0};
    unsigned allowed[1024];
    unsigned n = ah_threads_cpus(allowed, 1024);
    int last = (int)allowed[n - 1];
    const int cpus[] = {-1, last, last};
    struct ah_pool *pool = NULL;
    CHECK_OK(ah_pool_new(&pool, &(struct ah_pool_options){.threads = 3, .cpus = cpus}, &err), err);
    struct cpus seen = {.meeting = {.expected = 3}, .of = {-1, -1, -1}};
    ah_pool_run(pool, note_cpu, &seen, 3);
    assert_int_equal(seen.of[1], last);
    assert_int_equal(seen.of[2], last);
    ah_pool_free(pool);
}

TEST(pool, names_the_processor_it_cannot_have)
{
    struct ah_error err = {0};
    struct ah_pool *pool = NULL;
    const int cpus[] = {-1, -1, 8000};
    CHECK_FAILS(ah_pool_new(&pool, &(struct ah_pool_options){.threads = 3, .cpus = cpus}, &err), err,
                AH_E_FAILED, "8000");
    assert_null(pool);
}

TEST(pool, default_is_every_processor)
{
    struct ah_error err = {0};
    struct ah_pool *pool = NULL;
    CHECK_OK(ah_pool_new(&pool, &(struct ah_pool_options){0}, &err), err);
    assert_int_equal(ah_pool_threads(pool), ah_threads_cpus(NULL, 0));
    ah_pool_free(pool);
}
