/* SPDX-License-Identifier: Apache-2.0
 *
 * Overlap: measures how some steps spent their time. Each moment is charged to compute if it works, else to copies,
 * else to the host, else to nobody. It also measures how long each lane worked while compute did not. Pure.
 */
#ifndef AH_RUNTIME_TRAIN_OVERLAP_H
#define AH_RUNTIME_TRAIN_OVERLAP_H

#include "base/arena.h"
#include "base/error.h"
#include "base/intervals.h"
#include "schemas/runlog.h"

/* A time during which a lane worked. */
struct ah_overlap_work {
    enum ah_plan_lane lane;
    struct ah_interval ns;
};

/* Measures the part of `work` inside `window`; `work` is in any order, and `window` is not empty. Sets the times of
 * `ret_overlap` and its lanes, which are in `arena`; other fields are unchanged. AH_E_MEMORY. */
int ah_overlap_measure(const struct ah_overlap_work *work, size_t n, struct ah_interval window,
                       struct ah_arena *arena, struct ah_runlog_overlap *ret_overlap, struct ah_error *err);

#endif
