/* SPDX-License-Identifier: Apache-2.0
 *
 * Compares statistics with naive versions of their definitions, on random samples of every small size.
 */
#include "base/stats.h"

#include "tests/support/check.h"

#include <math.h>
#include <string.h>

enum { N_MAX = 200, ROUNDS = 4000 };

static void bubble_sort(double *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        for (size_t k = 1; k < n - i; k++)
            if (x[k - 1] > x[k]) {
                double swap = x[k];
                x[k] = x[k - 1];
                x[k - 1] = swap;
            }
}

static double naive_median(const double *x, size_t n)
{
    double sorted[N_MAX];
    memcpy(sorted, x, n * sizeof *x);
    bubble_sort(sorted, n);
    return n % 2 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2;
}

static size_t random_samples(uint64_t *seed, double *x)
{
    size_t n = 1 + check_random(seed) % (check_random(seed) % 4 ? 20 : N_MAX);
    int style = (int)(check_random(seed) % 3);
    for (size_t i = 0; i < n; i++) {
        double u = check_uniform(seed);
        x[i] = style == 0 ? u : style == 1 ? floor(u * 5) : exp(20 * u) - 1e4; /* uniform; ties; long tail */
    }
    return n;
}

TEST(stats, equals_the_definition)
{
    uint64_t seed = check_seed(21);
    for (int round = 0; round < ROUNDS; round++) {
        double x[N_MAX], original[N_MAX], deviation[N_MAX];
        size_t n = random_samples(&seed, x);
        memcpy(original, x, sizeof x);
        struct ah_stats stats = ah_stats_of(x, n);
        double median = naive_median(original, n);
        for (size_t i = 0; i < n; i++)
            deviation[i] = fabs(original[i] - median);
        check_near(stats.median, median, 1e-14);
        check_near(stats.mad, naive_median(deviation, n), 1e-9);
        bubble_sort(original, n);
        assert_memory_equal(x, original, n * sizeof *x);
        assert_true(stats.min == original[0] && stats.max == original[n - 1]);
    }
}

/* The fraction of samples below the percentile p is p, within one sample. The percentile grows with p. */
TEST(stats, percentile_splits_samples)
{
    uint64_t seed = check_seed(22);
    for (int round = 0; round < ROUNDS; round++) {
        double x[N_MAX];
        size_t n = random_samples(&seed, x), below = 0, above = 0;
        struct ah_stats stats = ah_stats_of(x, n);
        double p = 100 * check_uniform(&seed), q = p * check_uniform(&seed);
        double value = ah_stats_percentile(x, n, p);
        for (size_t i = 0; i < n; i++) {
            below += x[i] < value;
            above += x[i] > value;
        }
        assert_true((double)below <= p / 100 * (double)(n - 1) + 1);
        assert_true((double)above <= (1 - p / 100) * (double)(n - 1) + 1);
        assert_true(ah_stats_percentile(x, n, q) <= value);
        check_near(ah_stats_percentile(x, n, 50), stats.median, 1e-12);
    }
}

static double cost(const double *x, const double *y, size_t n, double intercept, double slope)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++) {
        double r = (intercept + slope * x[i] - y[i]) / y[i];
        sum += r * r;
    }
    return sum;
}

/* No nearby line with a non-negative intercept fits better. Because the error is convex, no other line does. */
TEST(stats, line_is_the_best)
{
    uint64_t seed = check_seed(23);
    for (int round = 0; round < ROUNDS; round++) {
        double x[30], y[30], intercept, slope, worst, naive_worst = 0;
        size_t n = 2 + check_random(&seed) % 28;
        double latency = check_random(&seed) % 2 ? 3 * check_uniform(&seed) : -0.5;
        for (size_t i = 0; i < n; i++) {
            x[i] = 1 + (double)i + check_uniform(&seed);
            y[i] = (latency + x[i] * 0.7) * (0.9 + 0.2 * check_uniform(&seed));
        }
        assert_int_equal(ah_stats_fit_line(x, y, n, &intercept, &slope, &worst), 0);
        assert_true(intercept >= 0);
        double best = cost(x, y, n, intercept, slope);
        for (int k = 0; k < 50; k++) {
            double step = pow(10, -1 - 5 * check_uniform(&seed));
            double a = fmax(0, intercept + step * (2 * check_uniform(&seed) - 1));
            double b = slope + step * (2 * check_uniform(&seed) - 1);
            assert_true(cost(x, y, n, a, b) >= best * (1 - 1e-12) - 1e-24);
        }
        for (size_t i = 0; i < n; i++)
            naive_worst = fmax(naive_worst, fabs(intercept + slope * x[i] - y[i]) / y[i]);
        check_near(worst, naive_worst, 1e-12);
    }
}
