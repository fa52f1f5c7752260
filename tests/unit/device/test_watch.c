/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests what counts as a stall. The test moves the driver's lanes and the clock by hand.
 */
#include "runtime/device/watch.h"

#include "tests/support/check.h"
#include "tests/support/clock.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

enum { PATIENCE_NS = 200 * 1000 * 1000, LOOK_NS = PATIENCE_NS / 16 };

/* A device driven by hand. Each call that waits runs `meanwhile` and returns. */
struct by_hand {
    struct ah_device common;
    _Atomic uint64_t pulse, elsewhere;
    atomic_bool waits; /* true: the rank is waiting for other ranks */
    atomic_uint told;
    struct ah_error why;
    void (*meanwhile)(void);
};

static struct by_hand hand;

static int hand_open(struct ah_device **ret_device, const struct ah_device_options *options,
                     struct ah_error *err);

static void hand_close(struct ah_device *device)
{
    (void)device;
}

static int hand_wait(struct ah_device *device, uint32_t lane, uint64_t ticket, struct ah_error *err)
{
    (void)device, (void)lane, (void)ticket, (void)err;
    hand.meanwhile();
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

/* Reports that compute waits for h2d, whose second op has begun. d2h is idle, and the host lane gives a note. */
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
    *ret_head = lane == AH_LANE_H2D && hand.waits ? (struct ah_device_head){.submitted = 2} : heads[lane];
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
    clock_wait_over();
}

static void name(const void *context, uint64_t tag, char *ret_name, size_t room)
{
    (void)context;
    snprintf(ret_name, room, "%s", tag == 7 ? "'forward' of block 'layer.3'" : "");
}

static bool beside(const void *context, char *ret_text, size_t room)
{
    (void)context;
    snprintf(ret_text, room, "rank 1 waits for %s",
             hand.waits ? "the output of micro-batch 5 from rank 0" : "no other");
    return hand.waits;
}

static uint64_t elsewhere(const void *context)
{
    (void)context;
    return atomic_load(&hand.elsewhere);
}

static struct ah_device *open_by_hand(double patience_s)
{
    const struct ah_device_options options = {.watch = {.patience_s = patience_s,
                                                        .stalled = stalled,
                                                        .name = name,
                                                        .other_waits = beside,
                                                        .pulse = elsewhere}};
    struct ah_error err = {0};
    struct ah_device *device = NULL;
    clock_stand();
    atomic_store(&hand.pulse, 0);
    atomic_store(&hand.waits, false);
    atomic_store(&hand.told, 0);
    hand.why = (struct ah_error){0};
    CHECK_OK(ah_device_open(&device, &driver, &options, &err), err);
    return device;
}

static void do_nothing(void)
{
}

static void close_by_hand(struct ah_device *device)
{
    hand.meanwhile = do_nothing;
    ah_device_close(device);
    clock_go();
}

static void wait_while(struct ah_device *device, void (*meanwhile)(void))
{
    struct ah_error err = {0};
    hand.meanwhile = meanwhile;
    CHECK_OK(ah_device_wait(device, AH_LANE_COMPUTE, 0, &err), err);
}

/* Lets the patience end. The stall is reported at the second look after that, or earlier. */
static void lose_patience(void)
{
    clock_advance(PATIENCE_NS);
    assert_int_equal(atomic_load(&hand.told), 0);
    clock_advance(2 * LOOK_NS);
    assert_int_equal(atomic_load(&hand.told), 1);
}

TEST(watch, tells_what_every_lane_is_at)
{
    struct ah_device *device = open_by_hand(PATIENCE_NS / 1e9);
    wait_while(device, lose_patience);
    close_by_hand(device);
    assert_int_equal(atomic_load(&hand.told), 1);
    assert_int_equal(hand.why.code, AH_E_STALLED);
    assert_string_equal(hand.why.text,
                        "device 'by hand' has completed nothing for 0.2 s, while the program "
                        "waits for op 0 of lane 'compute'; rank 1 waits for no other; "
                        "compute: 3 of 5 done, op 4 'attention' of 'forward' of block "
                        "'layer.3' waits for op 2 of h2d and op 1 of "
                        "host; h2d: 1 of 2 done, op 2 'copy' has started but not finished; d2h: "
                        "4 of 4 done; host: 0 of 1 done, "
                        "nobody knows");
}

static void move_for_long(void)
{
    for (int i = 0; i < 20; i++) {
        clock_advance(PATIENCE_NS / 2);
        atomic_fetch_add(&hand.pulse, 1);
    }
}

TEST(watch, does_not_tell_while_something_moves)
{
    struct ah_device *device = open_by_hand(PATIENCE_NS / 1e9);
    wait_while(device, move_for_long);
    assert_int_equal(atomic_load(&hand.told), 0);
    wait_while(device, lose_patience); /* reports a stall once nothing moves */
    close_by_hand(device);
}

static void move_elsewhere(void)
{
    for (int i = 0; i < 20; i++) {
        clock_advance(PATIENCE_NS / 2);
        atomic_fetch_add(&hand.elsewhere, 1);
    }
}

/* Lets the patience end for a rank waiting for others. Its stall is reported a quarter of the patience later. */
static void lose_patience_late(void)
{
    clock_advance(PATIENCE_NS + 3 * LOOK_NS);
    assert_int_equal(atomic_load(&hand.told), 0);
    clock_advance(3 * LOOK_NS);
    assert_int_equal(atomic_load(&hand.told), 1);
}

TEST(watch, does_not_tell_of_who_waits_for_others_that_move)
{
    struct ah_device *device = open_by_hand(PATIENCE_NS / 1e9);
    atomic_store(&hand.waits, true);
    wait_while(device, move_elsewhere);
    assert_int_equal(atomic_load(&hand.told), 0);
    wait_while(device, lose_patience_late);
    close_by_hand(device);
    assert_non_null(strstr(hand.why.text, "; rank 1 waits for the output of micro-batch 5 from rank 0; "));
}

static void pass_some_time(void)
{
    clock_advance(PATIENCE_NS / 4);
}

/* While nobody waits, the program may be saving, for example. */
TEST(watch, does_not_tell_while_nobody_waits)
{
    struct ah_device *device = open_by_hand(PATIENCE_NS / 1e9);
    for (int i = 0; i < 3; i++) {
        wait_while(device, pass_some_time);
        clock_advance(2 * PATIENCE_NS);
    }
    close_by_hand(device);
    assert_int_equal(atomic_load(&hand.told), 0);
}

/* The end of a wait counts as progress, even if no op completed meanwhile. */
TEST(watch, counts_from_the_last_wait)
{
    struct ah_device *device = open_by_hand(PATIENCE_NS / 1e9);
    for (int i = 0; i < 10; i++)
        wait_while(device, pass_some_time);
    close_by_hand(device);
    assert_int_equal(atomic_load(&hand.told), 0);
}

/* Stops the process 7 times. Each leap of the clock counts as two looks. */
static void be_stopped(void)
{
    for (int i = 0; i < 7; i++)
        clock_leap(16 * (uint64_t)PATIENCE_NS);
}

TEST(watch, does_not_count_while_the_process_is_stopped)
{
    struct ah_device *device = open_by_hand(PATIENCE_NS / 1e9);
    wait_while(device, be_stopped);
    close_by_hand(device);
    assert_int_equal(atomic_load(&hand.told), 0);
}

TEST(watch, tells_of_a_device_that_does_not_close)
{
    struct ah_device *device = open_by_hand(PATIENCE_NS / 1e9);
    hand.meanwhile = lose_patience;
    ah_device_close(device);
    clock_go();
    assert_int_equal(atomic_load(&hand.told), 1);
    assert_non_null(strstr(hand.why.text, "while the program waits for all lanes, to close the device; "));
}

TEST(watch, waits_for_ever_where_nobody_asks)
{
    struct ah_device *device = open_by_hand(0);
    assert_null(device->watcher);
    wait_while(device, do_nothing);
    close_by_hand(device);
    assert_int_equal(atomic_load(&hand.told), 0);
}

TEST(watch, refuses_a_patience_that_is_none)
{
    const struct ah_device_options options = {.watch = {.patience_s = -1, .stalled = stalled}};
    struct ah_error err = {0};
    struct ah_device *device = NULL;
    CHECK_FAILS(ah_device_open(&device, &driver, &options, &err), err, AH_E_USAGE, "time limit");
}
