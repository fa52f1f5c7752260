/* SPDX-License-Identifier: Apache-2.0
 *
 * Plan summary: sentences and fractions that describe a plan, for inspect, plan, compare and diff. They print nothing.
 */
#ifndef AH_CLI_INSPECT_PLAN_SUMMARY_H
#define AH_CLI_INSPECT_PLAN_SUMMARY_H

#include "base/buffer.h"
#include "cli/frame/emit.h"
#include "schemas/plan.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Appends ", without streamed, tiles"; nothing if the plan was forbidden nothing. */
void ah_plan_put_without(struct ah_buffer *out, const unsigned *techniques, size_t n);

/* Appends what limits the speed: "Host Adam is the bottleneck: it is busy 96 % of the step; of the step compute waits
 * 12 % for host Adam." A lane is called the bottleneck if it is busy for 95 % of the step or more. If no lane is, the
 * sentence says so. */
void ah_plan_put_bottleneck(struct ah_buffer *out, const struct ah_plan_time *time);

/* Appends what the plan does because not everything fits: "10 of 23 blocks stream their states, 9 are updated on the
 * host, 15 recompute their activations." */
void ah_plan_put_cause(struct ah_buffer *out, const struct ah_plan *plan);

/* Appends how far the plan is from the best: "within 1.9 % of the best possible step (bound 4.74 s)". 100 % is the
 * bound here, but the plan's step in the document's `gap`, which is therefore smaller. */
void ah_plan_put_quality(struct ah_buffer *out, const struct ah_plan_solver *solver);

/* Appends "what if rtx4090-64g had 96.0 GiB of host memory (it has 62.1 GiB)", or nothing if the machine is real. */
void ah_plan_put_what_if(struct ah_buffer *out, const struct ah_plan *plan);

/* Appends "8 sequences of 1024 tokens" or "1 sequence of 1 token". */
void ah_plan_put_batch(struct ah_buffer *out, uint64_t batch, uint64_t seq);

/* Appends "3+2+2": the micro-batches in each group of gradients that is added up separately. */
void ah_plan_put_sums(struct ah_buffer *out, const uint64_t *sums, size_t n_sums);

/* Returns "predicted" or "predicted from estimates", the label of a plan's times in all output. */
const char *ah_plan_predicted(bool estimated);

/* Returns the device memory of a plan, including the reserve, as limited by --device-memory. In documents and JSON,
 * `device_bytes` is only the arena; `reserved_bytes` is the reserve. */
uint64_t ah_plan_device_bytes(const struct ah_plan *plan);

/* Returns the host memory of a plan, including the process itself, as limited by --host-memory. */
uint64_t ah_plan_host_bytes(const struct ah_plan *plan);

/* True if two blocks have the same config. */
bool ah_plan_same_config(const struct ah_plan_block *a, const struct ah_plan_block *b);

/* Returns the first block after `first` with another kind (embedding, layers, head) or another config. */
size_t ah_plan_range_end(const struct ah_plan *plan, size_t first);

/* Appends "layer.0-12" or "head": the blocks [first, end). */
void ah_plan_put_range(struct ah_buffer *out, const struct ah_plan *plan, size_t first, size_t end);

/* Appends `before` and "adapters of rank 16, alpha 32 on attention.q, attention.v"; nothing without adapters. */
void ah_plan_put_lora(struct ah_buffer *out, const char *before, const struct ah_model *model);

/* Emits "lora" with the fields of the document; nothing without adapters. */
void ah_plan_emit_lora(struct ah_emit *emit, const struct ah_model *model);

#endif
