/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests the throttle in simulated time, on a lane whose sleeps are exact or too long, and after the lane was idle.
 */
#include "runtime/device/host/throttle.h"

#include "tests/support/check.h"

#define MS UINT64_C(1000000)

/* Pays for a thousand slices of 64 KiB. Each sleep takes `late_ns` too long. Returns the total time taken. */
static uint64_t run(struct ah_throttle *throttle, uint64_t now, uint64_t late_ns, unsigned slices_per_op)
{
    uint64_t begin = now;
    for (unsigned i = 0; i < 1000; i++) {
        if (i % slices_per_op == 0)
            ah_throttle_begin(throttle, now);
        uint64_t until = ah_throttle_pay(throttle, 65536, throttle->work_per_s);
        now = (until > now ? until : now) + late_ns;
    }
    return now - begin;
}

TEST(throttle, keeps_its_rate)
{
    struct ah_throttle throttle = {.work_per_s = 65536e3};
    check_near((double)run(&throttle, 5000 * MS, 0, 1000), 1000.0 * (double)MS, 1e-9);
}

TEST(throttle, makes_up_for_late_sleeps)
{
    struct ah_throttle throttle = {.work_per_s = 65536e3};
    check_near((double)run(&throttle, 5000 * MS, 100000, 1000) / (double)MS, 1000.1, 1e-4);
    throttle = (struct ah_throttle){.work_per_s = 65536e3};
    check_near((double)run(&throttle, 5000 * MS, 100000, 1) / (double)MS, 1000.1, 1e-4); /* 1 slice per op */
}

TEST(throttle, gives_no_credit_for_idling)
{
    struct ah_throttle throttle = {.work_per_s = 1e6};
    ah_throttle_begin(&throttle, 10 * MS);
    assert_int_equal(ah_throttle_pay(&throttle, 1000, throttle.work_per_s), 11 * MS);
    ah_throttle_begin(&throttle, 500 * MS);
    assert_int_equal(ah_throttle_pay(&throttle, 1000, throttle.work_per_s), 501 * MS);
}

/* Work that took longer than the rate allows is not delayed further. */
TEST(throttle, does_not_slow_the_slow)
{
    struct ah_throttle throttle = {.work_per_s = 1e6};
    uint64_t now = 10 * MS;
    for (int i = 0; i < 5; i++) {
        ah_throttle_begin(&throttle, now);
        now += 3 * MS;
        assert_true(ah_throttle_pay(&throttle, 1000, throttle.work_per_s) <= now);
    }
}

TEST(throttle, adds_latency_and_shares)
{
    struct ah_throttle throttle = {.work_per_s = 1e6, .latency_ns = 2e6};
    ah_throttle_begin(&throttle, 10 * MS);
    assert_int_equal(ah_throttle_pay(&throttle, 1000, 0.5 * throttle.work_per_s), 14 * MS);
}

/* Work of two kinds, each at its own rate, shares one deadline. */
TEST(throttle, adds_up_what_is_paid_at_different_rates)
{
    struct ah_throttle throttle = {0};
    ah_throttle_begin(&throttle, 10 * MS);
    assert_int_equal(ah_throttle_pay(&throttle, 1000, 1e6), 11 * MS);
    ah_throttle_begin(&throttle, 11 * MS + 100000);
    assert_int_equal(ah_throttle_pay(&throttle, 1000, 5e5), 13 * MS);
}

TEST(throttle, slices_take_about_a_millisecond)
{
    struct ah_throttle slow = {.work_per_s = 1e6}, middle = {.work_per_s = 1e9}, fast = {.work_per_s = 1e12};
    assert_int_equal(ah_throttle_slice_bytes(&slow), 64 << 10);
    assert_int_equal(ah_throttle_slice_bytes(&middle), 1000000 / 64 * 64);
    assert_int_equal(ah_throttle_slice_bytes(&fast), 4 << 20);
    assert_true(ah_throttle_is_on(&slow));
    assert_false(ah_throttle_is_on(&(struct ah_throttle){0}));
}
