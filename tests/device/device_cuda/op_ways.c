/* SPDX-License-Identifier: Apache-2.0
 *
 * Ways to run an op on a GPU. Its memory is at one place of the device arena, at another, and once more at the first.
 * At one place, no operand is aligned for vectors. The memory around the op's must not change.
 */
#include "runtime/device/device_plugin.h"
#include "tests/device/device_math/op_case.h"

#include <stdlib.h>
#include <string.h>

enum { WAYS = 3, ARENA = 64 << 20, MARGIN = 4096, ODD = 8, POISON = 0xa5 };

static struct ah_device *device;

static void close_device(void)
{
    ah_device_close(device);
}

static void open_device(void)
{
    const uint64_t arena_bytes[AH_ARENA_KINDS] = {0, ARENA, ARENA, 4096};
    const struct ah_device_options options = {0};
    const struct ah_device_driver *driver = NULL;
    struct ah_error err = {0};
    CHECK_OK(ah_plugin_load("cuda", &driver, &err), err);
    CHECK_OK(ah_device_open(&device, driver, &options, &err), err);
    CHECK_OK(ah_device_reserve(device, arena_bytes, &err), err);
    atexit(close_device);
}

unsigned op_case_ways(void)
{
    return WAYS;
}

static void run(const struct ah_op *op, uint64_t bytes)
{
    const struct ah_ref there = {AH_ARENA_DEVICE, AH_FP32, 0, 0}, here = {AH_ARENA_PINNED, AH_FP32, 0, 0};
    const struct ah_op up = {.kind = AH_OP_COPY, .arg = {there, here}, .u.copy = {bytes}};
    const struct ah_op down = {.kind = AH_OP_COPY, .arg = {here, there}, .u.copy = {bytes}};
    const struct ah_wait after_up = {AH_LANE_H2D, ah_device_submitted(device, AH_LANE_H2D) + 1};
    const struct ah_wait after_op = {AH_LANE_COMPUTE, ah_device_submitted(device, AH_LANE_COMPUTE) + 1};
    const struct ah_submission all[] = {{.lane = AH_LANE_H2D, .op = &up},
                                        {.lane = AH_LANE_COMPUTE, .n_waits = 1, .waits = &after_up, .op = op},
                                        {.lane = AH_LANE_D2H, .n_waits = 1, .waits = &after_op, .op = &down}};
    struct ah_error err = {0};
    CHECK_OK(ah_device_prepare(device, op, 1, &err), err);
    CHECK_OK(ah_device_submit(device, all, 3, NULL, &err), err);
    CHECK_OK(ah_device_drain(device, &err), err);
}

static void check_poison(const unsigned char *from, uint64_t bytes)
{
    for (uint64_t i = 0; i < bytes; i++)
        assert_int_equal(from[i], POISON);
}

void op_case_run_way(const struct op_case *c, unsigned way, unsigned char *ret_memory)
{
    const uint64_t begin = MARGIN + (way == 1 ? ODD : 0), end = begin + c->bytes,
                   all = (end + MARGIN) / 8 * 8;
    struct ah_op op = c->op;
    if (!device)
        open_device();
    unsigned char *const memory = ah_device_pointer(device, (struct ah_ref){AH_ARENA_PINNED, AH_FP32, 0, 0});
    assert_true(all <= ARENA);
    memset(memory, POISON, all);
    memcpy(memory + begin, c->memory, c->bytes);
    for (size_t i = 0; i < AH_OP_ARGS; i++)
        op.arg[i].offset_bytes += op.arg[i].arena ? begin : 0;
    run(&op, all);
    check_poison(memory, begin);
    check_poison(memory + end, all - end);
    memcpy(ret_memory, memory + begin, c->bytes);
}
