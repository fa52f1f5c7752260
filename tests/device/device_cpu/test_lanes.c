/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests the lanes of a device. Lanes work at the same time, run their ops in order, wait for each other, and stop after
 * a failure. Nothing here depends on how fast the machine is. Built for every kind of device (tests/support/driver.h).
 */
#include "base/threads.h"
#include "runtime/device/device.h"
#include "tests/support/driver.h"

#include <stdatomic.h>
#include <string.h>

#define MIB UINT64_C(1048576)

/* The largest difference between two readings of one moment. Times of GPU events are converted to the host's clock. */
#ifdef CHECK_CUDA
static const uint64_t CLOCKS_NS = 200 * 1000;
#else
static const uint64_t CLOCKS_NS = 0;
#endif

static uint64_t submit(struct ah_device *device, uint32_t lane, const struct ah_op *op, struct ah_wait wait)
{
    struct ah_error err = {0};
    struct ah_submission submission = {
        .lane = lane, .n_waits = wait.ticket ? 1 : 0, .waits = &wait, .op = op};
    uint64_t ticket = 0;
    submission.tag = 1000 + lane;
    CHECK_OK(ah_device_submit(device, &submission, 1, &ticket, &err), err);
    return ticket;
}

static struct ah_op copy(uint32_t to, uint32_t from, uint64_t offset, uint64_t bytes)
{
    return (struct ah_op){
        .kind = AH_OP_COPY, .arg = {{to, AH_FP32, offset, 0}, {from, AH_FP32, offset, 0}}, .u.copy = {bytes}};
}

static struct ah_op fill(uint32_t arena, uint64_t offset, uint64_t count, float value)
{
    return (struct ah_op){
        .kind = AH_OP_FILL, .arg = {{arena, AH_FP32, offset, 0}}, .u.elements = {count, value, 0}};
}

/* Opens a device and prepares its ops, so that no first launch loads code while a stream is delayed (cuda/warm.c). */
static struct ah_device *open_device(void)
{
    struct ah_error err = {0};
    struct ah_device *device = NULL;
    const struct ah_device_options options = {0};
    const uint64_t arena_bytes[AH_ARENA_KINDS] = {0, 8 * MIB, 8 * MIB, 8 * MIB};
    const struct ah_ref sum = {AH_ARENA_DEVICE, AH_FP32, 0, 0}, ones = {AH_ARENA_DEVICE, AH_FP32, MIB, 0};
    const struct ah_op ops[] = {
        fill(AH_ARENA_DEVICE, 0, 1000, 0),
        fill(AH_ARENA_DEVICE, 0, 10, 0),
        {.kind = AH_OP_ADD, .arg = {sum, sum, ones}, .u.elements = {4096, 0, 0}},
    };
    CHECK_OK(ah_device_open(&device, check_driver(), &options, &err), err);
    CHECK_OK(ah_device_prepare(device, ops, sizeof ops / sizeof *ops, &err), err);
    CHECK_OK(ah_device_reserve(device, arena_bytes, &err), err);
    return device;
}

struct gate {
    atomic_bool entered;
    atomic_bool open;
};

static int pass_gate(void *context, struct ah_error *err)
{
    struct gate *gate = context;
    (void)err;
    atomic_store(&gate->entered, true);
    while (!atomic_load(&gate->open))
        ah_threads_sleep_until_ns(ah_threads_now_ns() + 100000);
    return AH_OK;
}

static int fail_call(void *context, struct ah_error *err)
{
    (void)context;
    return ah_error_set(err, AH_E_NUMERIC, "loss is not finite");
}

/* While the host lane is stopped, ops on other lanes finish unless they wait for the host lane. */
TEST(lanes, run_at_the_same_time_and_wait)
{
    struct ah_error err = {0};
    struct ah_device *device = open_device();
    struct gate gate = {false, false};
    struct ah_op hold = {.kind = AH_OP_CALL, .u.call = {pass_gate, &gate}};
    struct ah_op up = copy(AH_ARENA_DEVICE, AH_ARENA_PINNED, 0, MIB);
    struct ah_op compute = fill(AH_ARENA_DEVICE, 4 * MIB, 1000, 2);
    struct ah_op down = copy(AH_ARENA_PINNED, AH_ARENA_DEVICE, 4 * MIB, 4000);
    uint64_t held = submit(device, AH_LANE_HOST, &hold, (struct ah_wait){0});
    uint64_t waiting = submit(device, AH_LANE_COMPUTE, &compute, (struct ah_wait){AH_LANE_HOST, held});
    uint64_t last = submit(device, AH_LANE_D2H, &down, (struct ah_wait){AH_LANE_COMPUTE, waiting});
    uint64_t free_ticket = submit(device, AH_LANE_H2D, &up, (struct ah_wait){0});
    CHECK_OK(ah_device_wait(device, AH_LANE_H2D, free_ticket, &err), err);
    while (!atomic_load(&gate.entered))
        ah_threads_sleep_until_ns(ah_threads_now_ns() + 100000);
    assert_int_equal(ah_device_done(device, AH_LANE_COMPUTE), 0);
    assert_int_equal(ah_device_done(device, AH_LANE_D2H), 0);
    atomic_store(&gate.open, true);
    CHECK_OK(ah_device_wait(device, AH_LANE_D2H, last, &err), err);
    const float *result = ah_device_pointer(device, (struct ah_ref){AH_ARENA_PINNED, AH_FP32, 4 * MIB, 0});
    assert_true(result[0] == 2 && result[999] == 2);
    ah_device_close(device);
}

/* A ring of dependent ops over all lanes: every value passes through all of them. */
TEST(lanes, keep_the_order_of_a_chain)
{
    enum { LOOPS = 200 };
    struct ah_error err = {0};
    struct ah_device *device = open_device();
    struct ah_op host = {.kind = AH_OP_ADD, .u.elements = {4096, 0, 0}};
    struct ah_op compute = host;
    struct ah_op up = copy(AH_ARENA_DEVICE, AH_ARENA_PINNED, 0, 16384);
    struct ah_op down = copy(AH_ARENA_PINNED, AH_ARENA_DEVICE, 0, 16384);
    struct ah_op ones = fill(AH_ARENA_PINNED, MIB, 4096, 1);
    struct ah_op device_ones = fill(AH_ARENA_DEVICE, MIB, 4096, 1);
    for (uint64_t i = 0; i < 3; i++) {
        host.arg[i] = (struct ah_ref){AH_ARENA_PINNED, AH_FP32, i == 2 ? MIB : 0, 0};
        compute.arg[i] = (struct ah_ref){AH_ARENA_DEVICE, AH_FP32, i == 2 ? MIB : 0, 0};
    }
    submit(device, AH_LANE_HOST, &ones, (struct ah_wait){0});
    submit(device, AH_LANE_COMPUTE, &device_ones, (struct ah_wait){0});
    for (uint64_t i = 0; i < LOOPS; i++) { /* the fills had ticket 1 of their lanes */
        const struct ah_wait waits[] = {
            {AH_LANE_D2H, i}, {AH_LANE_HOST, i + 2}, {AH_LANE_H2D, i + 1}, {AH_LANE_COMPUTE, i + 2}};
        const struct ah_submission loop[] = {
            {.lane = AH_LANE_HOST, .op = &host, .waits = &waits[0], .n_waits = 1},
            {.lane = AH_LANE_H2D, .op = &up, .waits = &waits[1], .n_waits = 1},
            {.lane = AH_LANE_COMPUTE, .op = &compute, .waits = &waits[2], .n_waits = 1},
            {.lane = AH_LANE_D2H, .op = &down, .waits = &waits[3], .n_waits = 1}};
        uint64_t tickets[4];
        CHECK_OK(ah_device_submit(device, loop, 4, tickets, &err), err);
        assert_int_equal(tickets[2], i + 2);
        assert_int_equal(tickets[3], i + 1);
    }
    CHECK_OK(ah_device_drain(device, &err), err);
    const float *values = ah_device_pointer(device, (struct ah_ref){AH_ARENA_PINNED, AH_FP32, 0, 0});
    for (int i = 0; i < 4096; i++)
        assert_true(values[i] == 2.0f * LOOPS);
    assert_int_equal(ah_device_done(device, AH_LANE_D2H), LOOPS);
    ah_device_close(device);
}

TEST(lanes, remember_when)
{
    struct ah_error err = {0};
    struct ah_device *device = open_device();
    struct ah_span first[4] = {{0}}, second[4] = {{0}};
    for (uint64_t i = 0; i < 3; i++) {
        struct ah_op compute = fill(AH_ARENA_DEVICE, i * MIB, 100000, 2);
        struct ah_op down = copy(AH_ARENA_PINNED, AH_ARENA_DEVICE, i * MIB, MIB);
        uint64_t ticket = submit(device, AH_LANE_COMPUTE, &compute, (struct ah_wait){0});
        submit(device, AH_LANE_D2H, &down, (struct ah_wait){AH_LANE_COMPUTE, ticket});
    }
    CHECK_OK(ah_device_drain(device, &err), err);
    struct ah_span_reader reader = {.lane = AH_LANE_COMPUTE}, other = {.lane = AH_LANE_D2H};
    assert_int_equal(ah_device_spans(device, &reader, first, 4), 3);
    assert_int_equal(ah_device_spans(device, &other, second, 4), 3);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(second[i].ticket, i + 1);
        assert_int_equal(second[i].tag, 1000 + AH_LANE_D2H);
        assert_true(second[i].ready_ns <= second[i].start_ns && second[i].start_ns <= second[i].end_ns);
        assert_true(second[i].start_ns + CLOCKS_NS >= first[i].end_ns); /* it waited for the first op */
    }
    other = ah_device_newest(device, AH_LANE_D2H, 1);
    assert_int_equal(ah_device_spans(device, &other, second, 4), 1);
    assert_int_equal(second[0].ticket, 3);
    ah_device_close(device);
}

/* Spans are read while the lane works. Each span is read once and in order, or is counted as lost. */
TEST(lanes, tell_times_while_they_run)
{
    enum { OPS = 3000 };
    struct ah_error err = {0};
    struct ah_device *device = NULL;
    const struct ah_device_options options = {.spans = 100, .queue = 7};
    const uint64_t arena_bytes[AH_ARENA_KINDS] = {[AH_ARENA_DEVICE] = MIB};
    const struct ah_op op = fill(AH_ARENA_DEVICE, 0, 1000, 1);
    struct ah_span_reader reader = {.lane = AH_LANE_COMPUTE};
    uint64_t read = 0, last = 0;
    CHECK_OK(ah_device_open(&device, check_driver(), &options, &err), err);
    CHECK_OK(ah_device_reserve(device, arena_bytes, &err), err);
    for (int i = 1; i <= OPS; i++) {
        struct ah_span spans[150];
        submit(device, AH_LANE_COMPUTE, &op, (struct ah_wait){0});
        if (i == OPS)
            CHECK_OK(ah_device_drain(device, &err), err);
        size_t n = i % 500 == 0 || i % 7 == 0 ? ah_device_spans(device, &reader, spans, 150) : 0;
        for (size_t j = 0; j < n; j++) {
            assert_true(spans[j].ticket > last && spans[j].start_ns <= spans[j].end_ns);
            last = spans[j].ticket;
        }
        read += n;
    }
    assert_int_equal(last, OPS);
    assert_int_equal(read + reader.lost, OPS);
    ah_device_close(device);
}

/* A wait for several lanes ends when one of them is done. */
TEST(lanes, are_waited_for_together)
{
    struct ah_error err = {0};
    struct ah_device *device = open_device();
    struct gate gate = {false, false};
    const struct ah_op held = {.kind = AH_OP_CALL, .u.call = {pass_gate, &gate}};
    const struct ah_op up = copy(AH_ARENA_DEVICE, AH_ARENA_PINNED, 0, MIB);
    struct ah_wait waits[] = {{AH_LANE_HOST, 1}, {AH_LANE_COMPUTE, 1}, {AH_LANE_H2D, 1}};
    const struct ah_op after = fill(AH_ARENA_DEVICE, 0, 10, 5);
    size_t met = 77;
    submit(device, AH_LANE_HOST, &held, (struct ah_wait){0});
    submit(device, AH_LANE_COMPUTE, &after, (struct ah_wait){AH_LANE_HOST, 1});
    submit(device, AH_LANE_H2D, &up, (struct ah_wait){0});
    CHECK_OK(ah_device_wait_any(device, waits, 3, &met, &err), err);
    assert_int_equal(met, 2);
    assert_int_equal(ah_device_done(device, AH_LANE_HOST), 0);
    atomic_store(&gate.open, true);
    CHECK_OK(ah_device_wait_any(device, waits, 2, &met, &err), err);
    assert_in_range(met, 0, 1); /* both ops may be done at the next look */
    CHECK_OK(ah_device_wait_any(device, &waits[1], 1, &met, &err), err);
    const struct ah_op bad = {.kind = AH_OP_CALL, .u.call = {fail_call, NULL}};
    waits[0].ticket = submit(device, AH_LANE_HOST, &bad, (struct ah_wait){0});
    CHECK_FAILS(ah_device_wait_any(device, waits, 1, &met, &err), err, AH_E_NUMERIC,
                "op 'call' on lane 'host'");
    ah_device_close(device);
}

/* Ops submitted after a failure are skipped on every lane. */
TEST(lanes, report_a_failure_once_and_for_all)
{
    struct ah_error err = {0};
    struct ah_device *device = open_device();
    const struct ah_op bad = {.kind = AH_OP_CALL, .u.call = {fail_call, NULL}};
    const struct ah_op host = fill(AH_ARENA_PINNED, MIB, 10, 5), compute = fill(AH_ARENA_DEVICE, 0, 10, 5);
    const struct ah_op down = copy(AH_ARENA_PINNED, AH_ARENA_DEVICE, 0, 40);
    assert_false(ah_device_failed(device).any);
    uint64_t failed = submit(device, AH_LANE_HOST, &bad, (struct ah_wait){0});
    uint64_t behind = submit(device, AH_LANE_COMPUTE, &compute, (struct ah_wait){AH_LANE_HOST, failed});
    CHECK_FAILS(ah_device_wait(device, AH_LANE_COMPUTE, behind, &err), err, AH_E_NUMERIC,
                "op 'call' on lane 'host': loss is not finite");
    submit(device, AH_LANE_HOST, &host, (struct ah_wait){AH_LANE_COMPUTE, behind});
    behind = submit(device, AH_LANE_COMPUTE, &compute, (struct ah_wait){AH_LANE_HOST, failed + 1});
    submit(device, AH_LANE_D2H, &down, (struct ah_wait){AH_LANE_COMPUTE, behind});
    CHECK_FAILS(ah_device_drain(device, &err), err, AH_E_NUMERIC, "op 'call'");
    const float *values = ah_device_pointer(device, (struct ah_ref){AH_ARENA_PINNED, AH_FP32, 0, 0});
    assert_true(values[0] == 0 && values[MIB / sizeof *values] == 0);
    assert_int_equal(ah_device_done(device, AH_LANE_D2H), 1);
    assert_int_equal(ah_device_done(device, AH_LANE_HOST), 2);
    assert_true(ah_device_failed(device).any);
    assert_int_equal(ah_device_failed(device).lane, AH_LANE_HOST);
    assert_int_equal(ah_device_failed(device).tag, 1000 + AH_LANE_HOST);
    ah_device_close(device);
}
