/* SPDX-License-Identifier: Apache-2.0
 *
 * Plan summary: sentences and shares that describe a plan. Pure; inspect, plan, compare and diff print it.
 */
#ifndef AH_CLI_INSPECT_PLAN_SUMMARY_H
#define AH_CLI_INSPECT_PLAN_SUMMARY_H

#include "base/buffer.h"
#include "schemas/plan.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { AH_PLAN_LANES = AH_PLAN_LANE_HOST + 1 };

/* How long each lane works, and how long compute waits for this lane (0 for compute itself), by enum ah_plan_lane. */
struct ah_plan_lane_times {
    double busy_us[AH_PLAN_LANES];
    double exposed_us[AH_PLAN_LANES];
};
struct ah_plan_lane_times ah_plan_lane_times(const struct ah_plan *plan);

/* What limits the speed, in a sentence: "Host Adam is the bottleneck: it is busy 96 % of the step; of the step compute
 * waits 12 % for host Adam." Every lane that is busy for 95 % of the step or more is called the bottleneck; if there is
 * none, the sentence says so. */
void ah_plan_put_bottleneck(struct ah_buffer *out, double step_us, const struct ah_plan_lane_times *times);

/* What the plan does because not everything fits, in a sentence: "10 of 23 blocks stream their states, 9 are
 * updated on the host, 15 recompute their activations." */
void ah_plan_put_cause(struct ah_buffer *out, const struct ah_plan *plan);

/* How far the plan is from the best: "within 1.9 % of the best possible step (bound 4.74 s)". The bound is 100 %; the
 * document's `gap` is the same distance as a share of the plan's step, a smaller number. */
void ah_plan_put_quality(struct ah_buffer *out, const struct ah_plan_solver *solver);

/* "what if rtx4090-64g had 96.0 GiB of host memory (it has 62.1 GiB)"; nothing if the plan is for the real machine. */
void ah_plan_put_what_if(struct ah_buffer *out, const struct ah_plan *plan);

/* "8 sequences of 1024 tokens", "1 sequence of 1 token". */
void ah_plan_put_batch(struct ah_buffer *out, uint64_t batch, uint64_t seq);

/* "3+2+2": micro-batches of each group whose gradients are added up separately. */
void ah_plan_put_sums(struct ah_buffer *out, const uint64_t *sums, size_t n_sums);

/* "predicted", or "predicted from estimates": the name for a plan's times, wherever they are shown. */
const char *ah_plan_predicted(bool estimated);

/* Device memory that a plan takes, including the reserve: --device-memory limits this. In documents and JSON,
 * `device_bytes` is the arena alone, with `reserved_bytes` beside it. */
uint64_t ah_plan_device_bytes(const struct ah_plan *plan);

/* Host memory that a plan takes, including the process itself: --host-memory limits this. */
uint64_t ah_plan_host_bytes(const struct ah_plan *plan);

/* True if two blocks have the same config. */
bool ah_plan_same_config(const struct ah_plan_block *a, const struct ah_plan_block *b);

/* The first block after `first` of another kind (embedding, layers, head) or config. */
size_t ah_plan_range_end(const struct ah_plan *plan, size_t first);

/* "layer.0-12", "head": blocks [first, end). */
void ah_plan_put_range(struct ah_buffer *out, const struct ah_plan *plan, size_t first, size_t end);

#endif
