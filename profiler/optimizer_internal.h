/* SPDX-License-Identifier: Apache-2.0
 *
 * Optimizer: AdamW on a lane, for a sampler to measure, with arrays in the arenas, and ops on their parts.
 *
 *     layout = ah_optimizer_plan(AH_HOST, params);          // its needs of each arena
 *     ... open a device with layout.arena_bytes ...
 *     rc = ah_optimizer_fill(device, &layout, err);
 *     rc = ah_optimizer_build(&work, device, &layout, &ah_optimizer_kinds[0], tile);
 */
#ifndef AH_PROFILER_OPTIMIZER_INTERNAL_H
#define AH_PROFILER_OPTIMIZER_INTERNAL_H

#include "profiler/lanes_internal.h"
#include "runtime/device/device.h"

enum { AH_OPTIMIZER_OPS_MAX = 256 };

/* Dtypes with which AdamW is measured, the most useful first. */
struct ah_optimizer_types {
    enum ah_dtype state, gradient, weight; /* weight fp32: the master is the weight */
    unsigned param_bytes;                  /* bytes read and written per parameter */
};
enum { AH_OPTIMIZER_KINDS = 3 };
extern const struct ah_optimizer_types ah_optimizer_kinds[AH_OPTIMIZER_KINDS];

/* The arrays of AdamW at skewed addresses: `params` fp32 masters, both moments in fp32 and in bf16, gradients, and bf16
 * weights. On the host, as in a plan, states are in pageable memory, gradients and weights in pinned memory. On the
 * device, all are in the device arena. */
struct ah_optimizer_layout {
    enum ah_side side;
    uint64_t params;
    struct ah_ref master, m[2], v[2] /* by state dtype */, gradient, weight, scalars, stage;
    uint64_t arena_bytes[AH_ARENA_KINDS];
};

struct ah_optimizer_work {
    struct ah_op ops[AH_OPTIMIZER_OPS_MAX];
    struct ah_lanes_work lane;
    uint64_t tile; /* number of parameters in one op */
};

struct ah_optimizer_layout ah_optimizer_plan(enum ah_side side, uint64_t params);

/* Fills all arrays with plausible numbers, and the scalars with those of a late step. */
int ah_optimizer_fill(struct ah_device *device, const struct ah_optimizer_layout *layout,
                      struct ah_error *err);

/* Makes ops of `tile` parameters each (a multiple of 64) over the arrays, on the host or the compute lane. In fp32 the
 * master is the weight, and gradients are fp32. In bf16 gradients are bf16, and the same pass writes a bf16 weight. */
void ah_optimizer_build(struct ah_optimizer_work *ret_work, struct ah_device *device,
                        const struct ah_optimizer_layout *layout, const struct ah_optimizer_types *types,
                        uint64_t tile);

#endif
