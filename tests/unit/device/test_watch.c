/* SPDX-License-Identifier: Apache-2.0
 *
 * What counts as a stall, with a driver whose lanes the test moves by hand.
 */
#include "runtime/device/watch.h"

#include "base/threads.h"
#include "tests/support/check.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PATIENCE_MS = 200, MS = 1000 * 1000 };

/* Its wait returns once `open` is set. */
struct by_hand {
    struct ah_device common;
    _Atomic uint64_t pulse;
    atomic_bool open;
    atomic_uint told;
    struct ah_error why;
    bool goes_on; /* once told */
};

static struct by_hand hand;

static void sleep_ms(uint64_t ms)
{
    ah_threads_sleep_until_ns(ah_threads_now_ns() + ms * MS);
}

static int hand_open(struct ah_device **ret_device, const struct ah_device_options *options,
                     struct ah_error *err);

static void hand_close(struct ah_device *device)
{
    (void)device;
}

static int hand_wait(struct ah_device *device, uint32_t lane, uint64_t ticket, struct ah_error *err)
{
    (void)device, (void)lane, (void)ticket, (void)err;
    while (!atomic_load(&hand.open))
        sleep_ms(1);
    return AH_OK;
}

static uint64_t hand_pulse(struct ah_device *device)
{
    (void)device;
    return atomic_load(&hand.pulse);
}

static void hand_drain(struct ah_device *device)
{
    (void)hand_wait(device, 0, 0, NULL);
}

/* Compute waits for h2d, whose second op has begun; d2h is idle; the host has a note. */
static void hand_head(struct ah_device *device, uint32_t lane, struct ah_device_head *ret_head)
{
    static const struct ah_device_head heads[AH_DEVICE_LANES] = {
        [AH_LANE_COMPUTE] = {5,
                             3,
                             true,
                             AH_OP_ATTENTION,
                             7,
                             3,
                             {{AH_LANE_H2D, 1}, {AH_LANE_H2D, 2}, {AH_LANE_HOST, 1}},
                             NULL},
        [AH_LANE_H2D] = {2, 1, true, AH_OP_COPY, 8, 0, {{0}}, NULL},
        [AH_LANE_D2H] = {4, 4, false, 0, 0, 0, {{0}}, NULL},
        [AH_LANE_HOST] = {1, 0, false, 0, 0, 0, {{0}}, "nobody knows"},
    };
    (void)device;
    *ret_head = heads[lane];
}

static const struct ah_device_driver driver = {
    .abi = AH_DEVICE_ABI,
    .layout = AH_DEVICE_LAYOUT,
    .name = "by hand",
    .open = hand_open,
    .close = hand_close,
    .wait = hand_wait,
    .pulse = hand_pulse,
    .head = hand_head,
    .drain = hand_drain,
};

static int hand_open(struct ah_device **ret_device, const struct ah_device_options *options,
                     struct ah_error *err)
{
    (void)options, (void)err;
    hand.common = (struct ah_device){.driver = &driver};
    *ret_device = &hand.common;
    return AH_OK;
}

static void stalled(void *context, const struct ah_error *why)
{
    (void)context;
    hand.why = *why;
    atomic_fetch_add(&hand.told, 1);
    if (hand.goes_on)
        atomic_store(&hand.open, true);
}

static void name(const void *context, uint64_t tag, char *ret_name, size_t room)
{
    (void)context;
    snprintf(ret_name, room, "%s", tag == 7 ? "'forward' of block 'layer.3'" : "");
}

static struct ah_device *open_by_hand(double patience_s)
{
    const struct ah_device_options options = {
        .watch = {.patience_s = patience_s, .stalled = stalled, .name = name}};
    struct ah_error err = {0};
    struct ah_device *device = NULL;
    atomic_store(&hand.pulse, 0);
    atomic_store(&hand.open, false);
    atomic_store(&hand.told, 0);
    hand.goes_on = false;
    hand.why = (struct ah_error){0};
    CHECK_OK(ah_device_open(&device, &driver, &options, &err), err);
    return device;
}

static void *open_later(void *context)
{
    sleep_ms(*(const unsigned *)context);
    atomic_store(&hand.open, true);
    return NULL;
}

static void *move_for_long(void *context)
{
    (void)context;
    for (int i = 0; i < 4 * PATIENCE_MS / 5; i++) {
        sleep_ms(5);
        atomic_fetch_add(&hand.pulse, 1);
    }
    atomic_store(&hand.open, true);
    return NULL;
}

static void wait_beside(struct ah_device *device, void *(*beside)(void *), void *context)
{
    pthread_t thread;
    struct ah_error err = {0};
    assert_int_equal(pthread_create(&thread, NULL, beside, context), 0);
    CHECK_OK(ah_device_wait(device, AH_LANE_COMPUTE, 0, &err), err);
    pthread_join(thread, NULL);
}

TEST(watch, tells_what_every_lane_is_at)
{
    struct ah_error err = {0};
    struct ah_device *device = open_by_hand(PATIENCE_MS / 1e3);
    hand.goes_on = true;
    const uint64_t begin_ns = ah_threads_now_ns();
    CHECK_OK(ah_device_wait(device, AH_LANE_COMPUTE, 0, &err), err);
    assert_true(ah_threads_now_ns() - begin_ns >= (uint64_t)PATIENCE_MS * MS);
    ah_device_close(device);
    assert_int_equal(atomic_load(&hand.told), 1);
    assert_int_equal(hand.why.code, AH_E_STALLED);
    assert_string_equal(hand.why.text, "device 'by hand' has completed nothing for 0.2 s, while the program "
                                       "waits for op 0 of lane 'compute'; "
                                       "compute: 3 of 5 done, op 4 'attention' of 'forward' of block "
                                       "'layer.3' waits for op 2 of h2d and op 1 of "
                                       "host; h2d: 1 of 2 done, op 2 'copy' has begun and does not end; d2h: "
                                       "4 of 4 done; host: 0 of 1 done, "
                                       "nobody knows");
}

TEST(watch, does_not_tell_while_something_moves)
{
    struct ah_device *device = open_by_hand(PATIENCE_MS / 1e3);
    wait_beside(device, move_for_long, NULL);
    ah_device_close(device);
    assert_int_equal(atomic_load(&hand.told), 0);
}

/* A program that saves, say. */
TEST(watch, does_not_tell_while_nobody_waits)
{
    unsigned some_ms = PATIENCE_MS / 8;
    struct ah_device *device = open_by_hand(PATIENCE_MS / 1e3);
    for (int i = 0; i < 3; i++) {
        atomic_store(&hand.open, false);
        wait_beside(device, open_later, &some_ms);
        sleep_ms(2 * PATIENCE_MS);
    }
    ah_device_close(device);
    assert_int_equal(atomic_load(&hand.told), 0);
}

/* Waits that end are progress, though none is for an op that was completed meanwhile. */
TEST(watch, counts_from_the_last_wait)
{
    unsigned some_ms = PATIENCE_MS / 4;
    struct ah_device *device = open_by_hand(PATIENCE_MS / 1e3);
    for (int i = 0; i < 10; i++) {
        atomic_store(&hand.open, false);
        wait_beside(device, open_later, &some_ms);
    }
    ah_device_close(device);
    assert_int_equal(atomic_load(&hand.told), 0);
}

/* The process that is stopped: exit 0 unless it was told of a stall. */
static void be_stopped(void)
{
    unsigned some_ms = PATIENCE_MS * 4;
    struct ah_device *device = open_by_hand(PATIENCE_MS * 8 / 1e3);
    wait_beside(device, open_later, &some_ms);
    ah_device_close(device);
    _exit(atomic_load(&hand.told) ? 1 : 0);
}

TEST(watch, does_not_count_while_the_process_is_stopped)
{
    int status = 0;
    pid_t child = fork();
    if (!child)
        be_stopped();
    sleep_ms(PATIENCE_MS);
    kill(child, SIGSTOP);
    sleep_ms(PATIENCE_MS * 16);
    kill(child, SIGCONT);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

TEST(watch, tells_of_a_device_that_does_not_close)
{
    struct ah_device *device = open_by_hand(PATIENCE_MS / 1e3);
    hand.goes_on = true;
    ah_device_close(device);
    assert_int_equal(atomic_load(&hand.told), 1);
    assert_non_null(strstr(hand.why.text, "while the program waits for all lanes, to close the device; "));
}

TEST(watch, waits_for_ever_where_nobody_asks)
{
    unsigned some_ms = PATIENCE_MS * 2;
    struct ah_device *device = open_by_hand(0);
    assert_null(device->watcher);
    wait_beside(device, open_later, &some_ms);
    ah_device_close(device);
    assert_int_equal(atomic_load(&hand.told), 0);
}

TEST(watch, refuses_a_patience_that_is_none)
{
    const struct ah_device_options options = {.watch = {.patience_s = -1, .stalled = stalled}};
    struct ah_error err = {0};
    struct ah_device *device = NULL;
    CHECK_FAILS(ah_device_open(&device, &driver, &options, &err), err, AH_E_USAGE, "patience");
}
