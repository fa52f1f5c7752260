/* SPDX-License-Identifier: Apache-2.0 */
#include "base/threads.h"

#include "tests/support/check.h"

#include <pthread.h>
#include <sched.h>
#include <time.h>
#include <unistd.h>

static void test_threads__clock_grows_and_sleep_is_not_early(void **state)
{
    (void)state;
    uint64_t before = ah_threads_now_ns();
    for (int i = 0; i < 20; i++) {
        uint64_t deadline = ah_threads_now_ns() + 200000;
        ah_threads_sleep_until_ns(deadline);
        assert_true(ah_threads_now_ns() >= deadline);
    }
    ah_threads_sleep_until_ns(before); /* in the past: returns */
    struct timespec reference;
    clock_gettime(CLOCK_MONOTONIC, &reference);
    uint64_t now = (uint64_t)reference.tv_sec * 1000000000u + (uint64_t)reference.tv_nsec;
    assert_true(before + 20 * 200000 <= now && now <= ah_threads_now_ns());
}

static void test_threads__cpus_are_the_affinity_mask(void **state)
{
    (void)state;
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

static void test_threads__pin(void **state)
{
    (void)state;
    int ok = 0;
    pthread_t thread; /* another one, so that this one stays free */
    assert_int_equal(pthread_create(&thread, NULL, pin_here, &ok), 0);
    pthread_join(thread, NULL);
    assert_true(ok);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_threads__clock_grows_and_sleep_is_not_early),
        cmocka_unit_test(test_threads__cpus_are_the_affinity_mask),
        cmocka_unit_test(test_threads__pin),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
