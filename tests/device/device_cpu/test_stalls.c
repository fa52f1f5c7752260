/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests stalls of the CPU device. An op that waits for something outside the device is a stall. An op that works, or is
 * slowed by an emulation, is no stall, because it moves the pulse observed by the watch
 * (tests/unit/device/test_watch.c).
 */
#include "base/threads.h"
#include "runtime/device/device.h"
#include "tests/support/check.h"
#include "tests/support/clock.h"

#include <sched.h>
#include <semaphore.h>
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
        "of 0 done; host: 0 of 1 done, op 1 'call' has started but not finished");
}

static void nap(void)
{
    ah_threads_sleep_until_ns(ah_threads_now_ns() + UINT64_C(5000000));
}

/* Checks that the pulse keeps moving, within a minute. */
static void expect_pulse(struct ah_device *device)
{
    enum { MOVES = 4, NAPS_MOST = 12000 };
    uint64_t last = device->driver->pulse(device);
    int moves = 0;
    for (int i = 0; i < NAPS_MOST && moves < MOVES; i++) {
        nap();
        const uint64_t now = device->driver->pulse(device);
        moves += now != last;
        last = now;
    }
    assert_int_equal(moves, MOVES);
}

struct held {
    atomic_bool entered, open;
    sem_t opened;
};

/* Works until `open` is set. */
static int work_on(void *context, struct ah_error *err)
{
    struct held *held = context;
    (void)err;
    atomic_store(&held->entered, true);
    while (!atomic_load(&held->open))
        ;
    return AH_OK;
}

TEST(stalls, are_not_ops_that_work)
{
    struct told told = {0};
    struct held held = {0};
    struct ah_error err = {0};
    const struct ah_op call = {.kind = AH_OP_CALL, .u.call = {work_on, &held}};
    struct ah_device *device = open_watched(&told, 0, 0);
    submit(device, AH_LANE_HOST, &call, (struct ah_wait){0});
    while (!atomic_load(&held.entered))
        nap();
    expect_pulse(device);
    atomic_store(&held.open, true);
    CHECK_OK(ah_device_drain(device, &err), err);
    ah_device_close(device);
}

static void sleep_on(void *context)
{
    struct held *held = context;
    atomic_store(&held->entered, true);
    while (sem_wait(&held->opened))
        ;
}

/* A slowed copy mostly sleeps. Here its sleep lasts until the pulse was seen to move. */
TEST(stalls, are_not_lanes_that_are_slowed)
{
    struct told told = {0};
    struct held held = {0};
    struct ah_error err = {0};
    assert_int_equal(sem_init(&held.opened, 0, 0), 0);
    struct ah_device *device = open_watched(&told, 0, MIB / 1.5);
    clock_stand();
    clock_at_sleep(sleep_on, &held);
    submit(device, AH_LANE_D2H, &down, (struct ah_wait){0});
    while (!atomic_load(&held.entered))
        sched_yield();
    expect_pulse(device);
    sem_post(&held.opened);
    CHECK_OK(ah_device_drain(device, &err), err);
    ah_device_close(device);
    clock_go();
    sem_destroy(&held.opened);
}
