/* SPDX-License-Identifier: Apache-2.0 */
#include "base/stats.h"

#include <math.h>

/* Sorts by Shell's method, because the C library's qsort() allocates. */
static void sort_values(double *x, size_t n)
{
    size_t gap = 1;
    while (gap < n / 3)
        gap = 3 * gap + 1;
    for (; gap; gap /= 3)
        for (size_t i = gap; i < n; i++) {
            double value = x[i];
            size_t at = i;
            for (; at >= gap && x[at - gap] > value; at -= gap)
                x[at] = x[at - gap];
            x[at] = value;
        }
}

static double median_of(const double *sorted, size_t n)
{
    return n % 2 ? sorted[n / 2] : sorted[n / 2 - 1] + (sorted[n / 2] - sorted[n / 2 - 1]) / 2;
}

/* Returns the median of |x - center|. Deviations grow away from the center on both sides, so the two sides are merged
 * in ascending order up to the middle one. */
static double deviation_of(const double *sorted, size_t n, double center)
{
    size_t left = n / 2; /* sorted[left-1] is the next value below, sorted[right] the next above */
    size_t right = n / 2;
    double last = 0, before = 0;
    for (size_t taken = 0; taken <= n / 2; taken++) {
        double below = left > 0 ? fabs(sorted[left - 1] - center) : HUGE_VAL;
        double above = right < n ? fabs(sorted[right] - center) : HUGE_VAL;
        before = last;
        if (below < above) {
            last = below;
            left--;
        } else {
            last = above;
            right++;
        }
    }
    return n % 2 ? last : before + (last - before) / 2;
}

struct ah_stats ah_stats_of(double *samples, size_t n)
{
    if (n == 0)
        return (struct ah_stats){0};
    sort_values(samples, n);
    double median = median_of(samples, n);
    return (struct ah_stats){
        .n = n,
        .median = median,
        .mad = deviation_of(samples, n, median),
        .min = samples[0],
        .max = samples[n - 1],
    };
}

double ah_stats_percentile(const double *sorted, size_t n, double p)
{
    if (n == 0)
        return 0;
    double rank = fmin(fmax(p, 0), 100) / 100 * (double)(n - 1);
    size_t low = (size_t)rank;
    if (low + 1 >= n)
        return sorted[n - 1];
    return sorted[low] + (rank - (double)low) * (sorted[low + 1] - sorted[low]);
}

/* Fits a line by weighted means, then sums of centred products, which is well conditioned for sizes from KiB to GiB. */
static void fit_line(const double *x, const double *y, size_t n, double *ret_intercept, double *ret_slope)
{
    double w_sum = 0, x_mean = 0, y_mean = 0;
    for (size_t i = 0; i < n; i++) {
        double w = 1 / (y[i] * y[i]);
        w_sum += w;
        x_mean += w * x[i];
        y_mean += w * y[i];
    }
    x_mean /= w_sum;
    y_mean /= w_sum;
    double xx = 0, xy = 0, xx_origin = 0, xy_origin = 0;
    for (size_t i = 0; i < n; i++) {
        double w = 1 / (y[i] * y[i]);
        xx += w * (x[i] - x_mean) * (x[i] - x_mean);
        xy += w * (x[i] - x_mean) * (y[i] - y_mean);
        xx_origin += w * x[i] * x[i];
        xy_origin += w * x[i] * y[i];
    }
    *ret_slope = xy / xx;
    *ret_intercept = y_mean - *ret_slope * x_mean;
    if (*ret_intercept < 0) { /* the sum of squares is convex, so its minimum is at intercept 0 */
        *ret_intercept = 0;
        *ret_slope = xy_origin / xx_origin;
    }
}

int ah_stats_fit_line(const double *x, const double *y, size_t n, double *ret_intercept, double *ret_slope,
                      double *ret_worst)
{
    int distinct = 0;
    for (size_t i = 0; i < n; i++) {
        if (!isfinite(x[i]) || !isfinite(y[i]) || y[i] <= 0)
            return -1;
        distinct |= x[i] != x[0];
    }
    if (!distinct)
        return -1;
    double intercept, slope, worst = 0;
    fit_line(x, y, n, &intercept, &slope);
    if (!isfinite(intercept) || !isfinite(slope))
        return -1;
    for (size_t i = 0; i < n; i++)
        worst = fmax(worst, fabs(intercept + slope * x[i] - y[i]) / y[i]);
    *ret_intercept = intercept;
    *ret_slope = slope;
    if (ret_worst)
        *ret_worst = worst;
    return 0;
}
