/* SPDX-License-Identifier: Apache-2.0
 *
 * AdamW on a lane, for a sampler to measure (optimizer_internal.h).
 */
#include "profiler/optimizer_internal.h"

#include "runtime/device/adamw_scalars.h"

#include <string.h>

/* Arrays that start at equal offsets in 2 MiB pages conflict in the caches. */
enum { PAGE = 4096, SKEW = 5 * PAGE };

/* Three fp32 states are 24 bytes, read and written. An fp32 gradient, or gradient and weight in bf16, are 4 more. */
const struct ah_optimizer_types ah_optimizer_kinds[AH_OPTIMIZER_KINDS] = {
    {AH_FP32, AH_FP32, AH_FP32, 24 + 4},
    {AH_FP32, AH_BF16, AH_BF16, 24 + 2 + 2},
    {AH_BF16, AH_BF16, AH_BF16, 8 + 8 + 2 + 2},
};

/* A positive second moment in fp32; each half of its bits is a second moment in bf16, too. */
#define SECOND_MOMENT_BITS 0x38d138d1u /* 1e-4 */

/* Allocates `bytes` of an arena. Each array begins a little further into its pages than the previous array. */
static struct ah_ref alloc_array(struct ah_optimizer_layout *layout, enum ah_arena_kind arena,
                                 enum ah_dtype dtype, uint64_t bytes)
{
    struct ah_ref ref = {(uint32_t)arena, (uint32_t)dtype, layout->arena_bytes[arena], 0};
    layout->arena_bytes[arena] += (bytes + PAGE - 1) / PAGE * PAGE + SKEW;
    return ref;
}

struct ah_optimizer_layout ah_optimizer_plan(enum ah_side side, uint64_t params)
{
    struct ah_optimizer_layout layout = {.side = side, .params = params};
    enum ah_arena_kind states = side == AH_HOST ? AH_ARENA_PAGEABLE : AH_ARENA_DEVICE;
    enum ah_arena_kind tiles = side == AH_HOST ? AH_ARENA_PINNED : AH_ARENA_DEVICE;
    layout.stage = alloc_array(&layout, AH_ARENA_PINNED, AH_BF16, AH_LANES_STAGE_BYTES);
    layout.master = alloc_array(&layout, states, AH_FP32, 4 * params);
    layout.m[AH_FP32] = alloc_array(&layout, states, AH_FP32, 4 * params);
    layout.v[AH_FP32] = alloc_array(&layout, states, AH_FP32, 4 * params);
    layout.m[AH_BF16] = alloc_array(&layout, states, AH_BF16, 2 * params);
    layout.v[AH_BF16] = alloc_array(&layout, states, AH_BF16, 2 * params);
    layout.gradient = alloc_array(&layout, tiles, AH_FP32, 4 * params);
    layout.weight = alloc_array(&layout, tiles, AH_BF16, 2 * params);
    layout.scalars = alloc_array(&layout, tiles, AH_FP32, sizeof(struct ah_adamw_scalars));
    return layout;
}

static struct ah_adamw_scalars late_step(void)
{
    const struct ah_adamw_settings settings = {
        .lr = 1e-4, .beta1 = 0.9, .beta2 = 0.95, .epsilon = 1e-8, .weight_decay = 0.1, .step = 1000};
    struct ah_adamw_scalars scalars;
    ah_adamw_scalars_init(&scalars, &settings);
    return scalars;
}

static int run_one(struct ah_device *device, uint32_t lane, const struct ah_op *op, struct ah_error *err)
{
    double seconds;
    struct ah_lanes_work work = {device, lane, op, 1, 0};
    return ah_lanes_run(&work, 1, &seconds, err);
}

static int fill_scalars(struct ah_device *device, const struct ah_optimizer_layout *layout,
                        struct ah_error *err)
{
    const struct ah_adamw_scalars scalars = late_step();
    void *host = ah_device_pointer(device, layout->scalars);
    if (host) {
        memcpy(host, &scalars, sizeof scalars);
        return AH_OK;
    }
    struct ah_op copy = {
        .kind = AH_OP_COPY, .arg = {layout->scalars, layout->stage}, .u.copy = {sizeof scalars}};
    memcpy(ah_device_pointer(device, layout->stage), &scalars, sizeof scalars);
    return run_one(device, AH_LANE_H2D, &copy, err);
}

static int fill_second_moments(struct ah_device *device, const struct ah_optimizer_layout *layout,
                               struct ah_error *err)
{
    const uint32_t bits = SECOND_MOMENT_BITS;
    struct ah_op fill = {.kind = AH_OP_FILL};
    memcpy(&fill.u.elements.value, &bits, sizeof bits);
    for (int dtype = 0; dtype < 2; dtype++) {
        fill.arg[0] = layout->v[dtype];
        fill.arg[0].dtype = AH_FP32;
        fill.u.elements.count = dtype == AH_FP32 ? layout->params : layout->params / 2;
        int rc = run_one(device, layout->side == AH_HOST ? AH_LANE_HOST : AH_LANE_COMPUTE, &fill, err);
        if (rc)
            return rc;
    }
    return AH_OK;
}

int ah_optimizer_fill(struct ah_device *device, const struct ah_optimizer_layout *layout,
                      struct ah_error *err)
{
    const struct {
        struct ah_ref ref;
        uint64_t bytes;
    } arrays[] = {
        {layout->master, 4 * layout->params},     {layout->m[AH_FP32], 4 * layout->params},
        {layout->m[AH_BF16], 2 * layout->params}, {layout->gradient, 4 * layout->params},
        {layout->weight, 2 * layout->params},
    };
    for (size_t i = 0; i < sizeof arrays / sizeof arrays[0]; i++) {
        int rc = ah_lanes_fill(device, arrays[i].ref, arrays[i].bytes, layout->stage, err);
        if (rc)
            return rc;
    }
    int rc = fill_second_moments(device, layout, err);
    return rc ? rc : fill_scalars(device, layout, err);
}

static struct ah_ref ref_of_element(struct ah_ref array, enum ah_dtype dtype, uint64_t element)
{
    uint64_t offset = array.offset_bytes + element * ah_dtype_bytes(dtype);
    return (struct ah_ref){array.arena, (uint32_t)dtype, offset, 0};
}

static struct ah_op step_op(const struct ah_optimizer_layout *layout, const struct ah_optimizer_types *types,
                            uint64_t first, uint64_t count)
{
    struct ah_op op = {
        .kind = AH_OP_ADAMW,
        .arg = {ref_of_element(layout->master, AH_FP32, first),
                ref_of_element(layout->m[types->state], types->state, first),
                ref_of_element(layout->v[types->state], types->state, first),
                ref_of_element(layout->gradient, types->gradient, first)},
        .u.adamw = {.count = count, .first_element = first, .decay = true},
    };
    if (types->weight == AH_BF16)
        op.arg[4] = ref_of_element(layout->weight, AH_BF16, first);
    op.arg[5] = layout->scalars;
    return op;
}

void ah_optimizer_build(struct ah_optimizer_work *ret_work, struct ah_device *device,
                        const struct ah_optimizer_layout *layout, const struct ah_optimizer_types *types,
                        uint64_t tile)
{
    size_t n = 0;
    for (uint64_t first = 0; n < AH_OPTIMIZER_OPS_MAX && first + tile <= layout->params; first += tile)
        ret_work->ops[n++] = step_op(layout, types, first, tile);
    ret_work->tile = tile;
    ret_work->lane = (struct ah_lanes_work){device, layout->side == AH_HOST ? AH_LANE_HOST : AH_LANE_COMPUTE,
                                            ret_work->ops, n, 0};
}
