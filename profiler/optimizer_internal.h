/* SPDX-License-Identifier: Apache-2.0
 *
 * Optimizer: AdamW on a lane as work: its arrays in the arenas, and ops that walk through them.
 *
 *     layout = ah_optimizer_plan(AH_HOST, params);          // how much of each arena it takes
 *     ... open a device with layout.arena_bytes ...
 *     rc = ah_optimizer_fill(device, &layout, err);
 *     rc = ah_optimizer_build(&work, device, &layout, AH_BF16, tile, err);
 */
#ifndef AH_PROFILER_OPTIMIZER_INTERNAL_H
#define AH_PROFILER_OPTIMIZER_INTERNAL_H

#include "profiler/lanes_internal.h"
#include "runtime/device/device.h"

/* Bytes that AdamW reads and writes for each parameter: three states each way, an fp32 gradient; with bf16
 * weights a bf16 gradient and the weight's copy instead. The same number for both. */
enum { AH_OPTIMIZER_PARAM_BYTES = 28, AH_OPTIMIZER_OPS_MAX = 256 };

/* Arrays of `params` fp32 masters, both moments, gradients and bf16 weights, skewed against each other. Those
 * of the host lie as a plan lays them: states pageable, gradients and weights pinned; those of the device in
 * the device arena. */
struct ah_optimizer_layout {
    enum ah_side side;
    uint64_t params;
    struct ah_ref master, m, v, gradient, weight, scalars, stage;
    uint64_t arena_bytes[AH_ARENA_KINDS];
};

struct ah_optimizer_work {
    struct ah_op ops[AH_OPTIMIZER_OPS_MAX];
    struct ah_lanes_work lane;
    uint64_t tile; /* parameters of one op */
};

struct ah_optimizer_layout ah_optimizer_plan(enum ah_side side, uint64_t params);

/* Gives all arrays sensible numbers and the scalars those of a late step. */
int ah_optimizer_fill(struct ah_device *device, const struct ah_optimizer_layout *layout,
                      struct ah_error *err);

/* Ops of `tile` parameters each (a multiple of 64) over the arrays, on the host or the compute lane. fp32:
 * the master is the weight, gradients fp32; bf16: gradients bf16 and a bf16 weight written in the same pass.
 */
void ah_optimizer_build(struct ah_optimizer_work *ret_work, struct ah_device *device,
                        const struct ah_optimizer_layout *layout, enum ah_dtype weight, uint64_t tile);

#endif
