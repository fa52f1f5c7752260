/* SPDX-License-Identifier: Apache-2.0
 *
 * Overlap: where the time of some steps went. Each moment is charged to compute if it runs, else copies, else the host,
 * else idle. For each lane, it also gives the time that the lane worked while compute did not. Pure.
 */
#ifndef AH_RUNTIME_TRAIN_OVERLAP_H
#define AH_RUNTIME_TRAIN_OVERLAP_H

#include "base/arena.h"
#include "base/error.h"
#include "base/intervals.h"
#include "schemas/runlog.h"

/* A lane worked during `ns`. */
struct ah_overlap_work {
    enum ah_plan_lane lane;
    struct ah_interval ns;
};

/* Measures the part of `work`, in any order, that lies in `window`, which is not empty. Sets the times of `ret_overlap`
 * and its lanes, which are in `arena`, and leaves the rest. AH_E_MEMORY. */
int ah_overlap_measure(const struct ah_overlap_work *work, size_t n, struct ah_interval window,
                       struct ah_arena *arena, struct ah_runlog_overlap *ret_overlap, struct ah_error *err);

#endif
