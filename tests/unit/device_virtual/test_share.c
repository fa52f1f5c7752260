/* SPDX-License-Identifier: Apache-2.0
 *
 * Compares the speeds of lanes that share resources with max-min fairness, worked out by hand.
 */
#include "runtime/device/virtual/share.h"
#include "tests/support/check.h"

enum { DRAM, LINK };

static const double capacity[] = {100, 10};

TEST(share, alone_runs_at_full_speed)
{
    const struct ah_share_demand part = {.amount = {[DRAM] = 100}};
    const struct ah_share_demand *parts[] = {&part};
    double speed = 0;
    uint8_t limit = 0;
    ah_share_fill(parts, 1, capacity, 2, &speed, &limit);
    assert_true(speed == 1);
    assert_int_equal(limit, AH_SHARE_NONE);
}

TEST(share, one_contended_resource_slows_all_alike)
{
    const struct ah_share_demand adam = {.amount = {[DRAM] = 100}};
    const struct ah_share_demand copy = {.amount = {[DRAM] = 25}};
    const struct ah_share_demand idle = {.amount = {0}};
    const struct ah_share_demand *parts[] = {&adam, &copy, &idle};
    double speeds[3];
    uint8_t limits[3];
    ah_share_fill(parts, 3, capacity, 2, speeds, limits);
    check_near(speeds[0], 0.8, 1e-15);
    check_near(speeds[1], 0.8, 1e-15);
    assert_true(speeds[2] == 1);
    assert_int_equal(limits[0], DRAM);
    assert_int_equal(limits[1], DRAM);
    assert_int_equal(limits[2], AH_SHARE_NONE);
}

/* The link limits both copies to 0.5. Adam gets what is left of the DRAM rate: (100 - 2 * 0.5 * 20) / 90. */
TEST(share, what_one_cannot_use_the_others_get)
{
    const struct ah_share_demand copy = {.amount = {[DRAM] = 20, [LINK] = 10}};
    const struct ah_share_demand adam = {.amount = {[DRAM] = 90}};
    const struct ah_share_demand *parts[] = {&copy, &adam, &copy};
    double speeds[3];
    uint8_t limits[3];
    ah_share_fill(parts, 3, capacity, 2, speeds, limits);
    check_near(speeds[0], 0.5, 1e-15);
    check_near(speeds[1], 80.0 / 90, 1e-15);
    check_near(speeds[2], 0.5, 1e-15);
    assert_int_equal(limits[0], LINK);
    assert_int_equal(limits[1], DRAM);
}

/* The expected numbers are measured: if both run, Adam keeps 0.9 of its rate and a copy 0.6. */
TEST(share, weights_make_one_give_way_more)
{
    const struct ah_share_demand adam = {.amount = {[DRAM] = 80}, .weight = 0.9};
    const struct ah_share_demand copy = {.amount = {[DRAM] = 280.0 / 6}, .weight = 0.6};
    const struct ah_share_demand *parts[] = {&adam, &copy};
    double speeds[2];
    uint8_t limits[2];
    ah_share_fill(parts, 2, capacity, 2, speeds, limits);
    check_near(speeds[0], 0.9, 1e-12);
    check_near(speeds[1], 0.6, 1e-12);
}

TEST(share, a_part_too_large_alone_is_slowed)
{
    const struct ah_share_demand part = {.amount = {[LINK] = 40}};
    const struct ah_share_demand *parts[] = {&part};
    double speed = 0;
    uint8_t limit = 0;
    ah_share_fill(parts, 1, capacity, 2, &speed, &limit);
    assert_true(speed == 0.25);
    assert_int_equal(limit, LINK);
}
