/* SPDX-License-Identifier: Apache-2.0
 *
 * Fails each allocation once while a device is opened, prepares a product and is closed.(Allocations inside libraries
 * do not fail.)
 */
#include "runtime/device/device.h"
#include "tests/support/check.h"
#include "tests/support/fault.h"

static int open_and_prepare(void *context, struct ah_error *err)
{
    struct ah_device *device = NULL;
    struct ah_device_options options = {.compute_threads = 2, .host_threads = 1};
    struct ah_op op = {.kind = AH_OP_MATMUL, .u.matmul = {.m = 150, .n = 40, .k = 33}};
    (void)context;
    const uint64_t arena_bytes[AH_ARENA_KINDS] = {[AH_ARENA_DEVICE] = 1 << 20, [AH_ARENA_PINNED] = 4096};
    for (uint64_t i = 0; i < 3; i++)
        op.arg[i] = (struct ah_ref){AH_ARENA_DEVICE, AH_FP32, i << 16, 0};
    int rc = ah_device_open(&device, ah_device_cpu(), &options, err);
    if (!rc)
        rc = ah_device_prepare(device, &op, 1, err);
    if (!rc)
        rc = ah_device_reserve(device, arena_bytes, err);
    ah_device_close(device);
    return rc;
}

/* Alternates products and copies of their results; each op waits for the previous op. */
static int run_loop(struct ah_device *device, const struct ah_op *ops, struct ah_error *err)
{
    struct ah_wait product = {AH_LANE_COMPUTE, 0};
    struct ah_wait copied = {AH_LANE_D2H, 0};
    struct ah_submission multiply = {.op = &ops[0], .n_waits = 1, .waits = &copied};
    struct ah_submission copy = {.lane = AH_LANE_D2H, .op = &ops[1], .n_waits = 1, .waits = &product};
    int rc = AH_OK;
    for (int i = 0; i < 10 && !rc; i++) {
        rc = ah_device_submit(device, &multiply, 1, &product.ticket, err);
        if (!rc)
            rc = ah_device_submit(device, &copy, 1, &copied.ticket, err);
    }
    return rc ? rc : ah_device_drain(device, err);
}

TEST(open, fails_cleanly)
{
    size_t allocations = fault_sweep(open_and_prepare, NULL, 0);
    assert_true(allocations > 10);
}

TEST(open, nothing_allocates_after_reserve)
{
    struct ah_error err = {0};
    struct ah_device *device = NULL;
    struct ah_device_options options = {.compute_threads = 2};
    struct ah_op ops[2] = {{.kind = AH_OP_MATMUL, .u.matmul = {.m = 150, .n = 40, .k = 33}},
                           {.kind = AH_OP_COPY, .u.copy = {1000}}};
    const uint64_t arena_bytes[AH_ARENA_KINDS] = {[AH_ARENA_DEVICE] = 1 << 20, [AH_ARENA_PINNED] = 1 << 20};
    for (uint64_t i = 0; i < 3; i++)
        ops[0].arg[i] = (struct ah_ref){AH_ARENA_DEVICE, AH_FP32, i << 16, 0};
    ops[1].arg[0] = (struct ah_ref){AH_ARENA_PINNED, AH_FP32, 0, 0};
    ops[1].arg[1] = (struct ah_ref){AH_ARENA_DEVICE, AH_FP32, 0, 0};
    CHECK_OK(ah_device_open(&device, ah_device_cpu(), &options, &err), err);
    CHECK_OK(ah_device_prepare(device, ops, 2, &err), err);
    CHECK_OK(ah_device_reserve(device, arena_bytes, &err), err);
    (void)fault_count();
    CHECK_OK(run_loop(device, ops, &err), err);
    assert_int_equal(fault_count(), 0);
    ah_device_close(device);
}
