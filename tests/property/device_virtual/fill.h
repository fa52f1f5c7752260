/* SPDX-License-Identifier: Apache-2.0
 *
 * Computes max-min fair speeds by bisection, as a check of ah_share_fill(), which computes them in closed form.
 */
#ifndef AH_TESTS_PROPERTY_DEVICE_VIRTUAL_FILL_H
#define AH_TESTS_PROPERTY_DEVICE_VIRTUAL_FILL_H

#include "runtime/device/virtual/share.h"

#include <math.h>
#include <stdbool.h>

static inline double fill_weight(const struct ah_share_demand *part)
{
    return part->weight > 0 ? part->weight : 1;
}

static inline bool fill_fits(const struct ah_share_demand *const *parts, size_t n, const double *capacity,
                             size_t n_resources, const double *speeds)
{
    for (size_t r = 0; r < n_resources; r++) {
        double use = 0;
        for (size_t i = 0; i < n; i++)
            use += parts[i]->amount[r] * speeds[i];
        if (use > capacity[r] * (1 + 1e-13))
            return false;
    }
    return true;
}

static inline void fill_at(const struct ah_share_demand *const *parts, size_t n, const bool *fixed,
                           double level, double *speeds)
{
    for (size_t i = 0; i < n; i++)
        if (!fixed[i])
            speeds[i] = fmin(1, fill_weight(parts[i]) * level);
}

/* Finds the highest common level that fits, by bisection. Fixes the parts that cannot rise alone from that level. */
static inline void fill_by_bisection(const struct ah_share_demand *const *parts, size_t n,
                                     const double *capacity, size_t n_resources, double *ret_speeds)
{
    bool fixed[AH_SHARE_PARTS] = {false};
    for (size_t left = n; left > 0;) {
        double low = 0;
        double high = 1e7;
        for (int i = 0; i < 120; i++) {
            double middle = i < 60 ? sqrt(fmax(low, 1e-9) * high) : (low + high) / 2;
            fill_at(parts, n, fixed, middle, ret_speeds);
            if (fill_fits(parts, n, capacity, n_resources, ret_speeds))
                low = middle;
            else
                high = middle;
        }
        fill_at(parts, n, fixed, low, ret_speeds);
        for (size_t i = 0; i < n; i++) {
            double speed = ret_speeds[i];
            if (fixed[i])
                continue;
            ret_speeds[i] = speed + 1e-9;
            fixed[i] = speed >= 1 - 1e-12 || !fill_fits(parts, n, capacity, n_resources, ret_speeds);
            ret_speeds[i] = speed;
            left -= fixed[i];
        }
    }
}

#endif
