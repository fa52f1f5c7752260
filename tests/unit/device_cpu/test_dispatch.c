/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests what only the CPU device does: refusing products, workspace of ops, time charged to ops on a slowed host lane.
 */
#include "runtime/device/device.h"

#include "tests/support/check.h"

enum { ARENA = 1 << 20 };

static struct ah_device *open_device(struct ah_device_throttle throttle)
{
    struct ah_error err = {0};
    struct ah_device *device = NULL;
    struct ah_device_options options = {.compute_threads = 2, .host_threads = 2, .throttle = throttle};
    const uint64_t arena_bytes[AH_ARENA_KINDS] = {0, ARENA, ARENA, ARENA};
    CHECK_OK(ah_device_open(&device, ah_device_cpu(), &options, &err), err);
    CHECK_OK(ah_device_reserve(device, arena_bytes, &err), err);
    return device;
}

/* alpha must be 1 or 0, where 0 means 1. Other values are refused at prepare and at submit. */
/* Prepare determines the workspace, before any arena is allocated. The workspace counts as device memory. */
TEST(dispatch, workspace_counts_as_device_memory)
{
    const uint64_t arena_bytes[AH_ARENA_KINDS] = {[AH_ARENA_DEVICE] = ARENA};
    struct ah_op op = {.kind = AH_OP_MATMUL, .u.matmul = {.m = 64, .n = 64, .k = 64}};
    uint64_t workspace_bytes = 0;
    for (uint32_t i = 0; i < 3; i++)
        op.arg[i] = (struct ah_ref){AH_ARENA_DEVICE, AH_FP32, 65536 * i, 0};
    for (int round = 0; round < 3; round++) {
        struct ah_error err = {0};
        struct ah_device *device = NULL;
        struct ah_device_options options = {.compute_threads = 2};
        if (round)
            options.memory_bytes = ARENA + workspace_bytes - (round == 2);
        CHECK_OK(ah_device_open(&device, ah_device_cpu(), &options, &err), err);
        CHECK_OK(ah_device_prepare(device, &op, 1, &err), err);
        workspace_bytes = device->reserve_bytes;
        assert_true(workspace_bytes > 0);
        if (round < 2)
            CHECK_OK(ah_device_reserve(device, arena_bytes, &err), err);
        else
            CHECK_FAILS(ah_device_reserve(device, arena_bytes, &err), err, AH_E_CAPACITY,
                        "device 'cpu': an arena of 1.0 MiB plus");
        ah_device_close(device);
    }
}

static double run_ms(struct ah_device *device, struct ah_op op)
{
    struct ah_error err = {0};
    struct ah_span span = {0};
    CHECK_OK(
        ah_device_submit(device, &(struct ah_submission){.lane = AH_LANE_HOST, .op = &op}, 1, NULL, &err),
        err);
    CHECK_OK(ah_device_drain(device, &err), err);
    struct ah_span_reader reader = ah_device_newest(device, AH_LANE_HOST, 1);
    assert_int_equal(ah_device_spans(device, &reader, &span, 1), 1);
    return (double)(span.end_ns - span.start_ns) * 1e-6;
}

/* At 2 MB/s, an op moving n bytes takes n / 2000 ms or longer, whatever its kind. */
TEST(dispatch, a_slowed_host_charges_every_op)
{
    enum { N = 8000, RATE = 2000000 };
    struct ah_device *device = open_device((struct ah_device_throttle){.host_bytes_per_s = RATE});
    const struct {
        struct ah_op op;
        uint64_t bytes;
    } rows[] = {
        {{.kind = AH_OP_COPY, .u.copy = {N}}, 2 * N},
        {{.kind = AH_OP_FILL, .u.elements = {N, 1, 0}}, 4 * N},
        {{.kind = AH_OP_CAST, .u.elements = {N, 0, 0}}, 8 * N},
        {{.kind = AH_OP_ACCUMULATE, .u.elements = {N, 0, 0}}, 12 * N},
        {{.kind = AH_OP_SUM_SQUARES, .u.sum = {.count = N}}, 4 * N},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct ah_op op = rows[i].op;
        op.arg[0] = (struct ah_ref){AH_ARENA_PAGEABLE, AH_FP32, 0, 0};
        if (op.kind != AH_OP_FILL)
            op.arg[1] = (struct ah_ref){AH_ARENA_PAGEABLE, AH_FP32, ARENA / 2, 0};
        double ms = run_ms(device, op), least = (double)rows[i].bytes * 1e3 / RATE;
        if (ms < least - 0.25) /* an op may be shorter if the previous op slept too long */
            fail_msg("op '%s' took %.2f ms, at least %.2f were due", ah_op_name(op.kind), ms, least);
    }
    ah_device_close(device);
}
