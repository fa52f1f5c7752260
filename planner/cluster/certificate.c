/* SPDX-License-Identifier: Apache-2.0
 *
 * Settings that a few steps prove to be no faster than `most_us` are done. Then one after the other: is it proven to take
 * the lowest bound of those before? If not, its own is looked for between the one that it had and that, by halves, and is
 * the lowest from there on. Each has half of the steps that are left.
 */
#include "planner/cluster/certificate.h"

#include "planner/cluster/grouping.h"

#include <math.h>

enum { HALVES = 6, FEW_STEPS = 1000000 };

static bool is_open(const struct ah_setting *setting, double lowest_us)
{
    return !setting->away_as_well && !setting->exhausted && setting->bound_us < lowest_us;
}

static int raise_one(struct ah_setting *setting, double most_us, int halves, uint64_t *steps,
                     struct ah_error *err)
{
    struct ah_grouping grouping;
    bool can, does = false;
    int rc = ah_grouping_init(&grouping, &setting->instance, &can, err);
    if (rc || !can)
        return rc;
    rc = ah_grouping_proves(&grouping, most_us, steps, &does, err);
    double low = does ? most_us : setting->bound_us, high = most_us;
    for (int i = 0; i < halves && !rc && !does; i++) {
        bool half;
        double middle = low + (high - low) / 2;
        rc = ah_grouping_proves(&grouping, middle, steps, &half, err);
        *(half ? &low : &high) = middle;
    }
    ah_grouping_release(&grouping);
    if (!rc)
        setting->bound_us = low;
    return rc;
}

int ah_certificate_raise(struct ah_setting *settings, size_t n, double most_us, uint64_t steps,
                         struct ah_error *err)
{
    double lowest_us = most_us;
    int rc = AH_OK;
    for (size_t i = 0; i < n && !rc; i++) {
        uint64_t few = steps < FEW_STEPS ? steps : FEW_STEPS, left = few;
        if (is_open(&settings[i], most_us))
            rc = raise_one(&settings[i], most_us, 0, &left, err);
        steps -= few - left;
    }
    for (size_t i = 0; i < n && !rc; i++) {
        uint64_t part = steps / 2, left = part;
        if (is_open(&settings[i], lowest_us))
            rc = raise_one(&settings[i], lowest_us, HALVES, &left, err);
        steps -= part - left;
        if (!settings[i].away_as_well)
            lowest_us = fmin(lowest_us, settings[i].bound_us);
    }
    return rc;
}
