/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests the clock and pinning, and that new threads inherit neither arithmetic modes nor small stacks.
 */
#include "base/threads.h"

#include "tests/support/check.h"

#include <fenv.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <time.h>
#include <unistd.h>

TEST(threads, clock_grows_and_sleep_is_not_early)
{
    uint64_t before = ah_threads_now_ns();
    for (int i = 0; i < 20; i++) {
        uint64_t deadline = ah_threads_now_ns() + 200000;
        ah_threads_sleep_until_ns(deadline);
        assert_true(ah_threads_now_ns() >= deadline);
    }
    ah_threads_sleep_until_ns(before); /* a time in the past: returns at once */
    struct timespec reference;
    clock_gettime(CLOCK_MONOTONIC, &reference);
    uint64_t now = (uint64_t)reference.tv_sec * 1000000000u + (uint64_t)reference.tv_nsec;
    assert_true(before + 20 * 200000 <= now && now <= ah_threads_now_ns());
}

TEST(threads, cpus_are_the_affinity_mask)
{
    cpu_set_t mask;
    unsigned cpus[CPU_SETSIZE];
    assert_int_equal(sched_getaffinity(0, sizeof mask, &mask), 0);
    unsigned n = ah_threads_cpus(cpus, CPU_SETSIZE);
    assert_int_equal(n, CPU_COUNT(&mask));
    for (unsigned i = 0; i < n; i++) {
        assert_true(CPU_ISSET(cpus[i], &mask));
        assert_true(i == 0 || cpus[i] > cpus[i - 1]);
    }
    unsigned few[2] = {7777, 7777};
    assert_int_equal(ah_threads_cpus(few, 1), n);
    assert_int_equal(few[0], cpus[0]);
    assert_int_equal(few[1], 7777);
    assert_int_equal(ah_threads_cpus(NULL, 0), n);
}

static void *pin_here(void *context)
{
    unsigned cpus[CPU_SETSIZE];
    int *ok = context;
    unsigned n = ah_threads_cpus(cpus, CPU_SETSIZE);
    *ok = ah_threads_pin(-1) == AH_OK && ah_threads_cpus(NULL, 0) == n;
    *ok &= ah_threads_pin((int)cpus[n - 1]) == AH_OK;
    *ok &= ah_threads_cpus(NULL, 0) == 1 && sched_getcpu() == (int)cpus[n - 1];
    *ok &= ah_threads_pin(8191) == AH_E_FAILED && ah_threads_pin(1 << 30) == AH_E_FAILED;
    return NULL;
}

TEST(threads, pin)
{
    int ok = 0;
    pthread_t thread; /* another thread, so that this one stays unpinned */
    assert_int_equal(pthread_create(&thread, NULL, pin_here, &ok), 0);
    pthread_join(thread, NULL);
    assert_true(ok);
}

enum { ARITHMETIC_CHUNKS = 20 };

/* Flushes denormals to zero, where the processor can, and rounds upward. New threads inherit both settings. */
static void spoil_arithmetic(void)
{
    fesetround(FE_UPWARD);
#if defined(__x86_64__)
    __builtin_ia32_ldmxcsr(__builtin_ia32_stmxcsr() | 0x8040u);
#elif defined(__aarch64__)
    uint64_t control;
    __asm__ volatile("mrs %0, fpcr" : "=r"(control));
    __asm__ volatile("msr fpcr, %0" : : "r"(control | 1u << 24));
#endif
}

static int arithmetic_is_ieee(void)
{
    volatile float least = 0x1p-149f, normal = 0x1p-126f, one = 1, tiny = 0x1p-40f;
    volatile float denormal = normal * 0.5f; /* FTZ makes it 0 */
    volatile float twice = least + least;    /* DAZ makes it 0 */
    volatile float sum = one + tiny;         /* rounding upward makes it greater than 1 */
    return denormal > 0 && twice > 0 && sum <= 1;
}

static void job_arithmetic(void *payload)
{
    **(int **)payload = arithmetic_is_ieee();
}

static atomic_bool worker_came;

/* Keeps the caller's first chunk running until the worker has begun a chunk. */
static void chunk_arithmetic(void *context, size_t chunk, unsigned worker)
{
    int *ieee = context;
    ieee[chunk] = worker ? arithmetic_is_ieee() : -1;
    if (worker)
        atomic_store(&worker_came, true);
    while (!atomic_load(&worker_came))
        sched_yield();
}

TEST(threads, arithmetic_is_not_inherited)
{
    int in_lane = 0, *in_lane_at = &in_lane, in_pool[ARITHMETIC_CHUNKS], by_worker = 0;
    struct ah_lane *lane = NULL;
    struct ah_pool *pool = NULL;
    spoil_arithmetic();
    int spoiled = !arithmetic_is_ieee();
    int rc = ah_lane_new(&lane, &(struct ah_lane_options){.cpu = -1}, NULL);
    rc = rc ? rc : ah_pool_new(&pool, &(struct ah_pool_options){.threads = 2}, NULL);
    ah_threads_use_ieee();
    assert_true(spoiled && arithmetic_is_ieee());
    assert_int_equal(rc, AH_OK);
    struct ah_lane_job job = {
        .run = job_arithmetic, .payload = &in_lane_at, .payload_bytes = sizeof in_lane_at};
    assert_int_equal(ah_lane_submit(lane, &job, NULL), AH_OK);
    ah_lane_wait(lane, 1);
    assert_true(in_lane);
    ah_pool_run(pool, chunk_arithmetic, in_pool, ARITHMETIC_CHUNKS);
    for (int i = 0; i < ARITHMETIC_CHUNKS; i++) {
        assert_int_not_equal(in_pool[i], 0);
        by_worker += in_pool[i] == 1;
    }
    assert_true(by_worker > 0);
    ah_pool_free(pool);
    ah_lane_free(lane);
}

static void job_stack(void *payload)
{
    pthread_attr_t attributes;
    assert_int_equal(pthread_getattr_np(pthread_self(), &attributes), 0);
    pthread_attr_getstacksize(&attributes, *(size_t **)payload);
    pthread_attr_destroy(&attributes);
}

/* Our threads get 1 MiB of stack even where the C library or the shell's limit would give 128 KiB. */
TEST(threads, stacks_are_large_enough_everywhere)
{
    size_t bytes = 0, *bytes_at = &bytes;
    struct ah_lane *lane = NULL;
    pthread_attr_t before, small;
    assert_int_equal(pthread_getattr_default_np(&before), 0);
    assert_int_equal(pthread_attr_init(&small), 0);
    assert_int_equal(pthread_attr_setstacksize(&small, 128 << 10), 0);
    assert_int_equal(pthread_setattr_default_np(&small), 0);
    int rc = ah_lane_new(&lane, &(struct ah_lane_options){.cpu = -1}, NULL);
    assert_int_equal(pthread_setattr_default_np(&before), 0);
    pthread_attr_destroy(&before);
    pthread_attr_destroy(&small);
    assert_int_equal(rc, AH_OK);
    struct ah_lane_job job = {.run = job_stack, .payload = &bytes_at, .payload_bytes = sizeof bytes_at};
    assert_int_equal(ah_lane_submit(lane, &job, NULL), AH_OK);
    ah_lane_wait(lane, 1);
    assert_true(bytes >= 1 << 20);
    ah_lane_free(lane);
}
