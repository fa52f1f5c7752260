/* SPDX-License-Identifier: Apache-2.0
 *
 * Overlap: computed from sets of moments inside the window W, namely compute C, copies K = h2d + d2h, and the host H.
 *
 *     compute = |C|    copy = |C + K| - |C|    host = |C + K + H| - |C + K|    idle = |W| - |C + K + H|
 *     a lane L: busy = |L|, exposed = |L| - |L and C|
 */
#include "runtime/train/overlap.h"

#include "runtime/device/device.h"

#include <string.h>

struct set {
    struct ah_interval *intervals; /* in the arena */
    size_t n;
};

static int take_lane(const struct ah_overlap_work *work, size_t n, enum ah_plan_lane lane,
                     struct ah_interval window, struct ah_arena *arena, struct set *ret_set)
{
    struct ah_interval *all = ah_arena_array(arena, n + 1, sizeof *all);
    struct set set = {.intervals = ah_arena_array(arena, n + 1, sizeof *set.intervals)};
    size_t n_all = 0;
    if (!all || !set.intervals)
        return AH_E_MEMORY;
    for (size_t i = 0; i < n; i++)
        if (work[i].lane == lane)
            all[n_all++] = work[i].ns;
    n_all = ah_intervals_unite(all, n_all);
    set.n = ah_intervals_intersect(all, n_all, &window, 1, set.intervals);
    *ret_set = set;
    return AH_OK;
}

/* Adds the moments of one set to another set, whose array has room for both. */
static void add_intervals(struct set *to, const struct set *from)
{
    if (from->n)
        memcpy(to->intervals + to->n, from->intervals, from->n * sizeof *from->intervals);
    to->n = ah_intervals_unite(to->intervals, to->n + from->n);
}

static int64_t length(const struct set *set)
{
    return ah_intervals_length(set->intervals, set->n);
}

static double us_of(int64_t ns)
{
    return (double)ns / 1e3;
}

/* Divides the window's time. `sum` must be empty, with room for all sets. */
static void split_window(const struct set sets[AH_DEVICE_LANES], struct ah_interval window, struct set *sum,
                         struct ah_runlog_overlap *overlap)
{
    add_intervals(sum, &sets[AH_PLAN_LANE_COMPUTE]);
    int64_t compute_ns = length(sum);
    add_intervals(sum, &sets[AH_PLAN_LANE_H2D]);
    add_intervals(sum, &sets[AH_PLAN_LANE_D2H]);
    int64_t device_ns = length(sum);
    add_intervals(sum, &sets[AH_PLAN_LANE_HOST]);
    int64_t all_ns = length(sum), total_ns = window.end - window.start;
    overlap->total_us = us_of(total_ns);
    overlap->compute_us = us_of(compute_ns);
    overlap->copy_us = us_of(device_ns - compute_ns);
    overlap->host_us = us_of(all_ns - device_ns);
    overlap->idle_us = us_of(total_ns - all_ns);
}

int ah_overlap_measure(const struct ah_overlap_work *work, size_t n, struct ah_interval window,
                       struct ah_arena *arena, struct ah_runlog_overlap *ret_overlap, struct ah_error *err)
{
    struct set sets[AH_DEVICE_LANES];
    struct set both = {.intervals = ah_arena_array(arena, 2 * n + 2, sizeof *both.intervals)};
    struct ah_runlog_busy *lanes = ah_arena_array(arena, AH_DEVICE_LANES, sizeof *lanes);
    int rc = both.intervals && lanes ? AH_OK : AH_E_MEMORY;
    for (size_t lane = 0; lane < AH_DEVICE_LANES && !rc; lane++)
        rc = take_lane(work, n, (enum ah_plan_lane)lane, window, arena, &sets[lane]);
    if (rc)
        return ah_error_memory(err);
    const struct set *compute = &sets[AH_PLAN_LANE_COMPUTE];
    for (size_t lane = 0; lane < AH_DEVICE_LANES; lane++) {
        both.n = ah_intervals_intersect(sets[lane].intervals, sets[lane].n, compute->intervals, compute->n,
                                        both.intervals);
        lanes[lane] = (struct ah_runlog_busy){(enum ah_plan_lane)lane, us_of(length(&sets[lane])),
                                              us_of(length(&sets[lane]) - length(&both))};
    }
    both.n = 0;
    split_window(sets, window, &both, ret_overlap);
    ret_overlap->lanes = lanes;
    ret_overlap->n_lanes = AH_DEVICE_LANES;
    return AH_OK;
}
