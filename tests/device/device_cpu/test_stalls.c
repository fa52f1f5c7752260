/* SPDX-License-Identifier: Apache-2.0
 *
 * Stalls of the CPU device: an op that waits for something outside is one, an op that works or that an emulation slows is
 * none.
 */
#include "base/threads.h"
#include "runtime/device/device.h"
#include "tests/support/check.h"

#include <stdatomic.h>
#include <string.h>

enum { MIB = 1 << 20 };

struct told {
    atomic_uint n;
    struct ah_error why;
};

static void stalled(void *context, const struct ah_error *why)
{
    struct told *told = context;
    told->why = *why;
    atomic_fetch_add(&told->n, 1);
}

static struct ah_device *open_watched(struct told *told, double patience_s, double d2h_bytes_per_s)
{
    const struct ah_device_options options = {
        .compute_threads = 1,
        .host_threads = 2,
        .throttle = {.d2h_bytes_per_s = d2h_bytes_per_s},
        .watch = {.patience_s = patience_s, .stalled = stalled, .context = told}};
    const uint64_t arena_bytes[AH_ARENA_KINDS] = {0, MIB, MIB, MIB};
    struct ah_error err = {0};
    struct ah_device *device = NULL;
    CHECK_OK(ah_device_open(&device, ah_device_cpu(), &options, &err), err);
    CHECK_OK(ah_device_reserve(device, arena_bytes, &err), err);
    return device;
}

static void submit(struct ah_device *device, uint32_t lane, const struct ah_op *op, struct ah_wait wait)
{
    struct ah_error err = {0};
    const struct ah_submission submission = {
        .lane = lane, .n_waits = wait.ticket ? 1 : 0, .waits = &wait, .op = op};
    CHECK_OK(ah_device_submit(device, &submission, 1, NULL, &err), err);
}

static int sleep_until_told(void *context, struct ah_error *err)
{
    struct told *told = context;
    (void)err;
    while (!atomic_load(&told->n))
        ah_threads_sleep_until_ns(ah_threads_now_ns() + UINT64_C(1000000000));
    return AH_OK;
}

static int work_for_long(void *context, struct ah_error *err)
{
    const uint64_t end_ns = ah_threads_now_ns() + UINT64_C(1500000000);
    (void)context, (void)err;
    while (ah_threads_now_ns() < end_ns)
        ;
    return AH_OK;
}

static const struct ah_op up = {.kind = AH_OP_COPY,
                                .arg = {{AH_ARENA_DEVICE, AH_FP32, 0, 0}, {AH_ARENA_PINNED, AH_FP32, 0, 0}},
                                .u.copy = {MIB}};
static const struct ah_op down = {.kind = AH_OP_COPY,
                                  .arg = {{AH_ARENA_PINNED, AH_FP32, 0, 0}, {AH_ARENA_DEVICE, AH_FP32, 0, 0}},
                                  .u.copy = {MIB}};

TEST(stalls, of_an_op_that_sleeps)
{
    struct told told = {0};
    struct ah_error err = {0};
    const struct ah_op call = {.kind = AH_OP_CALL, .u.call = {sleep_until_told, &told}};
    struct ah_device *device = open_watched(&told, 0.3, 0);
    submit(device, AH_LANE_HOST, &call, (struct ah_wait){0});
    submit(device, AH_LANE_H2D, &up, (struct ah_wait){AH_LANE_HOST, 1});
    submit(device, AH_LANE_H2D, &up, (struct ah_wait){0});
    CHECK_OK(ah_device_wait(device, AH_LANE_H2D, 2, &err), err);
    ah_device_close(device);
    assert_int_equal(atomic_load(&told.n), 1);
    assert_string_equal(
        told.why.text,
        "device 'cpu' has completed nothing for 0.3 s, while the program waits for op 2 of lane "
        "'h2d'; compute: 0 of 0 done; h2d: 0 of 2 done, op 1 'copy' waits for op 1 of host; d2h: 0 "
        "of 0 done; host: 0 of 1 done, op 1 'call' has begun and does not end");
}

TEST(stalls, are_not_ops_that_work)
{
    struct told told = {0};
    struct ah_error err = {0};
    const struct ah_op call = {.kind = AH_OP_CALL, .u.call = {work_for_long, NULL}};
    struct ah_device *device = open_watched(&told, 0.5, 0);
    submit(device, AH_LANE_HOST, &call, (struct ah_wait){0});
    submit(device, AH_LANE_H2D, &up, (struct ah_wait){AH_LANE_HOST, 1});
    CHECK_OK(ah_device_wait(device, AH_LANE_H2D, 1, &err), err);
    ah_device_close(device);
    assert_int_equal(atomic_load(&told.n), 0);
}

/* A copy of a second and a half, of which the lane sleeps nearly all. */
TEST(stalls, are_not_lanes_that_are_slowed)
{
    struct told told = {0};
    struct ah_error err = {0};
    struct ah_device *device = open_watched(&told, 0.5, MIB / 1.5);
    submit(device, AH_LANE_D2H, &down, (struct ah_wait){0});
    const uint64_t begin_ns = ah_threads_now_ns();
    CHECK_OK(ah_device_wait(device, AH_LANE_D2H, 1, &err), err);
    assert_true(ah_threads_now_ns() - begin_ns > UINT64_C(1000000000));
    ah_device_close(device);
    assert_int_equal(atomic_load(&told.n), 0);
}
