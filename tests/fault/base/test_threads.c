/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests failures to start a thread. pthread_create() is wrapped at link time (extra.cmake), and its n-th call fails.
 * The threads already started must be ended, and the error must name the thread that failed to start.
 */
#include "base/threads.h"
#include "tests/support/check.h"

#include <errno.h>
#include <pthread.h>

int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
                          void *context);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
                          void *context);

static unsigned calls, failing;

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
                          void *context)
{
    return ++calls == failing ? EAGAIN : __real_pthread_create(thread, attributes, run, context);
}

TEST(threads, a_worker_that_does_not_start)
{
    for (failing = 1; failing <= 3; failing++) {
        struct ah_error err = {0};
        struct ah_pool *pool = NULL;
        calls = 0;
        CHECK_FAILS(ah_pool_new(&pool, &(struct ah_pool_options){.threads = 4}, &err), err, AH_E_FAILED,
                    "'pool-");
        check_text_has(err.text, "Resource temporarily unavailable");
        assert_null(pool);
        assert_int_equal(calls, failing);
    }
}

TEST(threads, a_lane_that_does_not_start)
{
    struct ah_error err = {0};
    struct ah_lane *lane = NULL;
    calls = 0;
    failing = 1;
    CHECK_FAILS(ah_lane_new(&lane, &(struct ah_lane_options){.name = "d2h", .cpu = -1}, &err), err,
                AH_E_FAILED, "'d2h'");
    assert_null(lane);
}
