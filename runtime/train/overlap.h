/* SPDX-License-Identifier: Apache-2.0
 *
 * Overlap: how some steps spent their time. Each moment is charged to compute if it runs, else to copies, else to the
 * host, else to nobody. For each lane, it also gives the time that the lane worked while compute did not. Pure.
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

/* Measures the part of `work`, in any order, inside `window`, which is not empty. Sets the times of `ret_overlap` and
 * its lanes, which are in `arena`; other fields stay as they are. AH_E_MEMORY. */
int ah_overlap_measure(const struct ah_overlap_work *work, size_t n, struct ah_interval window,
                       struct ah_arena *arena, struct ah_runlog_overlap *ret_overlap, struct ah_error *err);

#endif
