/* SPDX-License-Identifier: Apache-2.0
 *
 * Statistics of a handful of samples, as stored in every metric of a profile.
 *
 * They are medians and median absolute deviations, because samples of a shared machine have long tails. Nothing is
 * allocated: the caller's array is sorted in place.
 */
#ifndef AH_BASE_STATS_H
#define AH_BASE_STATS_H

#include <stddef.h>

struct ah_stats {
    size_t n;
    double median;
    double mad; /* median of |x - median|, not scaled */
    double min;
    double max;
};

/* Sorts `samples` and summarises them; n == 0 gives all zeros. NaNs are not allowed. */
struct ah_stats ah_stats_of(double *samples, size_t n);

/* Returns the `p`-th percentile (0 to 100), interpolated between the two nearest samples; 0 for n == 0. */
double ah_stats_percentile(const double *sorted, size_t n, double p);

/* Fits the least-squares line y = intercept + slope * x with non-negative intercept, each point weighted by 1/y^2
 * (relative errors count equally). Needs n >= 2 distinct x and y > 0. Used for latency + size / bandwidth. `ret_worst`
 * (optional): the largest relative residual. Returns 0, or -1 if no such line exists. */
int ah_stats_fit_line(const double *x, const double *y, size_t n, double *ret_intercept, double *ret_slope,
                      double *ret_worst);

#endif
