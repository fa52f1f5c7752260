/* SPDX-License-Identifier: Apache-2.0
 *
 * Max-min fairness by progressive filling. All speeds rise together, that of part i being weight[i] * level, until a
 * part is at full speed or a resource is used up. That part, or every part that uses the resource, keeps its speed; the
 * others continue.
 *
 * INVARIANTS
 *   1. Every speed is in (0, 1].
 *   2. At these speeds, parts use no more than the capacity of any resource (except for rounding).
 *   3. A part below full speed is limited by a resource that is used up, and no part that demands this resource has a
 *      higher speed / weight. With 1 and 2 this is max-min fairness.
 *   4. The same parts give the same bits: sums run in the order of the parts.
 *
 * Source: D. Bertsekas, R. Gallager, "Data Networks", 2nd ed., section 6.5.2.
 */
#include "runtime/device/virtual/share.h"

#include <stdbool.h>

struct share_part {
    const struct ah_share_demand *demand;
    double weight;
    bool fixed;
};

struct share {
    struct share_part parts[AH_SHARE_PARTS];
    size_t n;
    double
        full[AH_SHARE_RESOURCES]; /* level at which the resource is used up; negative: no part demands it */
    double used[AH_SHARE_RESOURCES]; /* amounts used by fixed parts */
    double level;
};

static bool share_asks(const struct ah_share_demand *demand, size_t n_resources)
{
    for (size_t r = 0; r < n_resources; r++)
        if (demand->amount[r] > 0)
            return true;
    return false;
}

/* Raises the level until the next part must stop. */
static void share_rise(struct share *share, const double *capacity, size_t n_resources)
{
    double next = -1;
    for (size_t i = 0; i < share->n; i++)
        if (!share->parts[i].fixed && (next < 0 || 1 / share->parts[i].weight < next))
            next = 1 / share->parts[i].weight;
    for (size_t r = 0; r < n_resources; r++) {
        double slope = 0;
        for (size_t i = 0; i < share->n; i++)
            if (!share->parts[i].fixed)
                slope += share->parts[i].weight * share->parts[i].demand->amount[r];
        share->full[r] = slope > 0 ? (capacity[r] - share->used[r]) / slope : -1;
        if (slope > 0 && share->full[r] < share->level) /* after rounding, the rest may be negative */
            share->full[r] = share->level;
        if (slope > 0 && share->full[r] < next)
            next = share->full[r];
    }
    share->level = next;
}

/* Returns the first of the part's resources that is used up, or AH_SHARE_NONE. */
static uint8_t share_limit(const struct share *share, const struct share_part *part, size_t n_resources)
{
    for (size_t r = 0; r < n_resources; r++)
        if (part->demand->amount[r] > 0 && share->full[r] <= share->level)
            return (uint8_t)r;
    return AH_SHARE_NONE;
}

/* Fixes the parts that stop at this level and returns their number. */
static size_t share_fix(struct share *share, size_t n_resources, double *ret_speeds, uint8_t *ret_limits)
{
    size_t fixed = 0;
    for (size_t i = 0; i < share->n; i++) {
        struct share_part *part = &share->parts[i];
        if (part->fixed)
            continue;
        bool at_full_speed = 1 / part->weight <= share->level;
        uint8_t limit = at_full_speed ? AH_SHARE_NONE : share_limit(share, part, n_resources);
        if (!at_full_speed && limit == AH_SHARE_NONE)
            continue;
        ret_speeds[i] = at_full_speed ? 1 : part->weight * share->level;
        ret_limits[i] = limit;
        part->fixed = true;
        fixed++;
    }
    return fixed;
}

void ah_share_fill(const struct ah_share_demand *const *parts, size_t n, const double *capacity,
                   size_t n_resources, double *ret_speeds, uint8_t *ret_limits)
{
    struct share share = {.n = n};
    size_t left = 0;
    for (size_t i = 0; i < n; i++) {
        bool asks = share_asks(parts[i], n_resources);
        share.parts[i] = (struct share_part){
            .demand = parts[i], .weight = parts[i]->weight > 0 ? parts[i]->weight : 1, .fixed = !asks};
        ret_speeds[i] = 1;
        ret_limits[i] = AH_SHARE_NONE;
        left += asks;
    }
    while (left > 0) {
        share_rise(&share, capacity, n_resources);
        left -= share_fix(&share, n_resources, ret_speeds, ret_limits);
        for (size_t r = 0; r < n_resources; r++) {
            share.used[r] = 0;
            for (size_t i = 0; i < n; i++)
                if (share.parts[i].fixed)
                    share.used[r] += ret_speeds[i] * parts[i]->amount[r];
        }
    }
}
