/* SPDX-License-Identifier: Apache-2.0
 *
 * Plan summary: what a plan says, in words and shares. Pure; inspect, plan, compare and diff print it.
 */
#ifndef AH_CLI_PLAN_SUMMARY_H
#define AH_CLI_PLAN_SUMMARY_H

#include "base/buffer.h"
#include "schemas/plan.h"

#include <stdbool.h>
#include <stddef.h>

enum { AH_PLAN_LANES = AH_PLAN_LANE_HOST + 1 };

/* Time that each lane works, and that compute waits for it (of compute: 0), by enum ah_plan_lane. */
struct ah_plan_lane_times {
    double busy_us[AH_PLAN_LANES];
    double exposed_us[AH_PLAN_LANES];
};
struct ah_plan_lane_times ah_plan_lane_times(const struct ah_plan *plan);

/* What limits the speed, in a sentence: "Host Adam is the bottleneck: it is busy 87 % of the step; compute waits 12 %
 * of the step for it." */
void ah_plan_put_bottleneck(struct ah_buffer *out, double step_us, const struct ah_plan_lane_times *times);

/* How far from the best: "within 1.9 % of the bound (4.74 s), which no plan can beat". */
void ah_plan_put_quality(struct ah_buffer *out, const struct ah_plan_solver *solver);

/* Do two blocks do the same? */
bool ah_plan_same_config(const struct ah_plan_block *a, const struct ah_plan_block *b);

/* The first block after `first` of another kind (embedding, layers, head) or config. */
size_t ah_plan_range_end(const struct ah_plan *plan, size_t first);

/* "layer.0-12", "head": the blocks from `first` to before `end`. */
void ah_plan_put_range(struct ah_buffer *out, const struct ah_plan *plan, size_t first, size_t end);

#endif
