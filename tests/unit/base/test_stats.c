/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests statistics and the fitted line on samples whose results are worked out by hand.
 */
#include "base/stats.h"

#include "tests/support/check.h"

#include <math.h>
#include <string.h>

TEST(stats, known_samples)
{
    double odd[] = {5, 1, 4, 2, 100};
    struct ah_stats stats = ah_stats_of(odd, 5);
    assert_int_equal(stats.n, 5);
    assert_true(stats.median == 4 && stats.mad == 2 && stats.min == 1 && stats.max == 100);
    assert_true(odd[0] == 1 && odd[4] == 100); /* sorted in place */
    double even[] = {4, 1, 3, 10};
    stats = ah_stats_of(even, 4);
    assert_true(stats.median == 3.5 && stats.mad == 1.5);
}

TEST(stats, few_samples)
{
    struct ah_stats none = ah_stats_of(NULL, 0);
    assert_true(none.n == 0 && none.median == 0 && none.mad == 0 && none.min == 0 && none.max == 0);
    double one[] = {7};
    struct ah_stats single = ah_stats_of(one, 1);
    assert_true(single.median == 7 && single.mad == 0 && single.min == 7 && single.max == 7);
    double two[] = {9, 5};
    struct ah_stats pair = ah_stats_of(two, 2);
    assert_true(pair.median == 7 && pair.mad == 2);
}

TEST(stats, percentiles)
{
    const double x[] = {10, 20, 30, 40, 50};
    assert_true(ah_stats_percentile(x, 5, 0) == 10);
    assert_true(ah_stats_percentile(x, 5, 100) == 50);
    assert_true(ah_stats_percentile(x, 5, 50) == 30);
    check_near(ah_stats_percentile(x, 5, 10), 14, 1e-12);
    check_near(ah_stats_percentile(x, 5, 99), 49.6, 1e-12);
    assert_true(ah_stats_percentile(x, 5, -3) == 10);
    assert_true(ah_stats_percentile(x, 5, 300) == 50);
    assert_true(ah_stats_percentile(x, 1, 70) == 10);
    assert_true(ah_stats_percentile(x, 0, 50) == 0);
}

TEST(stats, line_through_points_on_a_line)
{
    double x[20], y[20], intercept, slope, worst;
    for (int i = 0; i < 20; i++) { /* a link of 5 us and 20 GB/s, messages from 4 KiB to 2 GiB */
        x[i] = ldexp(4096, i);
        y[i] = 5 + x[i] / 20e3;
    }
    assert_int_equal(ah_stats_fit_line(x, y, 20, &intercept, &slope, &worst), 0);
    check_near(intercept / 5, 1, 1e-9);
    check_near(slope * 20e3, 1, 1e-9);
    assert_true(worst < 1e-9);
}

TEST(stats, line_never_starts_below_zero)
{
    const double x[] = {1, 2, 3}, y[] = {1, 4, 9};
    double intercept, slope, worst;
    assert_int_equal(ah_stats_fit_line(x, y, 3, &intercept, &slope, &worst), 0);
    assert_true(intercept == 0);
    /* The slope b minimises sum (1 - b x/y)^2, so b = sum(x/y) / sum(x^2/y^2) = (11/6) / (1 + 1/4 + 1/9). */
    check_near(slope, (11.0 / 6) / (49.0 / 36), 1e-12);
    check_near(worst, fabs(3 * slope - 9) / 9, 1e-12);
}

TEST(stats, no_line)
{
    const double same[] = {2, 2, 2}, x[] = {1, 2, 3}, y[] = {1, 2, 3}, zero[] = {1, 0, 3},
                 odd[] = {1, HUGE_VAL, 3};
    double intercept = 77, slope = 77;
    assert_int_equal(ah_stats_fit_line(same, y, 3, &intercept, &slope, NULL), -1);
    assert_int_equal(ah_stats_fit_line(x, y, 1, &intercept, &slope, NULL), -1);
    assert_int_equal(ah_stats_fit_line(x, y, 0, &intercept, &slope, NULL), -1);
    assert_int_equal(ah_stats_fit_line(x, zero, 3, &intercept, &slope, NULL), -1);
    assert_int_equal(ah_stats_fit_line(x, odd, 3, &intercept, &slope, NULL), -1);
    assert_int_equal(ah_stats_fit_line(odd, y, 3, &intercept, &slope, NULL), -1);
    assert_true(intercept == 77 && slope == 77);
}
