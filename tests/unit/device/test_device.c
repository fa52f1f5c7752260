/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests the checks shared by all devices. The driver records the calls that reach it.
 */
#include "runtime/device/device.h"

#include "tests/support/check.h"

#include <string.h>

enum { ARENA = 4096 };

struct noted {
    struct ah_device common;
    unsigned submits, waits, prepares, reserves, closes;
    uint64_t prepare_bytes; /* bytes that prepare adds to the reserve */
    struct ah_op last;
    int wait_rc, submit_rc;
    unsigned calls; /* number of calls to submit() */
};

static struct noted noted;

static int noted_open(struct ah_device **ret_device, const struct ah_device_options *options,
                      struct ah_error *err);

static void noted_close(struct ah_device *device)
{
    (void)device;
    noted.closes++;
}

static int noted_prepare(struct ah_device *device, const struct ah_op *ops, size_t n, struct ah_error *err)
{
    (void)ops, (void)n, (void)err;
    noted.prepares++;
    device->reserve_bytes += noted.prepare_bytes;
    return AH_OK;
}

static int noted_reserve(struct ah_device *device, const uint64_t arena_bytes[AH_ARENA_KINDS],
                         struct ah_error *err)
{
    (void)device, (void)arena_bytes, (void)err;
    noted.reserves++;
    return AH_OK;
}

static int noted_submit(struct ah_device *device, const struct ah_submission *submissions, size_t n,
                        struct ah_error *err)
{
    (void)device;
    noted.submits += (unsigned)n;
    noted.calls++;
    noted.last = *submissions[n - 1].op;
    return noted.submit_rc ? ah_error_set(err, noted.submit_rc, "refused") : AH_OK;
}

static int noted_wait(struct ah_device *device, uint32_t lane, uint64_t ticket, struct ah_error *err)
{
    (void)device, (void)lane, (void)ticket;
    noted.waits++;
    return noted.wait_rc ? ah_error_set(err, noted.wait_rc, "lane %u", lane) : AH_OK;
}

static int noted_wait_any(struct ah_device *device, const struct ah_wait *waits, size_t n, size_t *ret_met,
                          struct ah_error *err)
{
    (void)device, (void)waits, (void)err;
    *ret_met = n - 1;
    return AH_OK;
}

static uint64_t noted_done(struct ah_device *device, uint32_t lane)
{
    return device->submitted[lane];
}

/* Returns spans of the last 3 ops; older spans are lost. */
static size_t noted_spans(struct ah_device *device, uint32_t lane, uint64_t after, struct ah_span *ret_spans,
                          size_t max)
{
    uint64_t done = device->submitted[lane];
    size_t n = 0;
    for (uint64_t ticket = after + 1; ticket <= done && n < max; ticket++)
        if (ticket + 3 > done)
            ret_spans[n++] = (struct ah_span){.ticket = ticket};
    return n;
}

static void *noted_address(struct ah_device *device, enum ah_arena_kind arena)
{
    static unsigned char memory[ARENA];
    (void)device;
    return arena == AH_ARENA_DEVICE ? NULL : memory;
}

static const struct ah_device_driver driver = {
    .abi = AH_DEVICE_ABI,
    .layout = AH_DEVICE_LAYOUT,
    .name = "noted",
    .open = noted_open,
    .close = noted_close,
    .prepare = noted_prepare,
    .reserve = noted_reserve,
    .submit = noted_submit,
    .wait = noted_wait,
    .wait_any = noted_wait_any,
    .done = noted_done,
    .spans = noted_spans,
    .address = noted_address,
};

static int noted_open(struct ah_device **ret_device, const struct ah_device_options *options,
                      struct ah_error *err)
{
    (void)options, (void)err;
    noted = (struct noted){.common = {.driver = &driver}};
    for (size_t i = 0; i < AH_OP_KINDS; i++)
        noted.common.info.supports[i] = i != AH_OP_ROPE;
    *ret_device = &noted.common;
    return AH_OK;
}

static const uint64_t all_arenas[AH_ARENA_KINDS] = {0, ARENA, ARENA, ARENA};

static struct ah_device *open_noted(void)
{
    struct ah_error err = {0};
    struct ah_device *device = NULL;
    struct ah_device_options options = {0};
    CHECK_OK(ah_device_open(&device, &driver, &options, &err), err);
    CHECK_OK(ah_device_reserve(device, all_arenas, &err), err);
    return device;
}

static struct ah_op copy(uint32_t to, uint32_t from)
{
    return (struct ah_op){
        .kind = AH_OP_COPY, .arg = {{to, AH_FP32, 0, 0}, {from, AH_FP32, 1024, 0}}, .u.copy = {64}};
}

static int submit(struct ah_device *device, uint32_t lane, struct ah_op op, uint64_t *ret_ticket,
                  struct ah_error *err)
{
    return ah_device_submit(device, &(struct ah_submission){.lane = lane, .op = &op}, 1, ret_ticket, err);
}

TEST(device, refuses_another_build)
{
    struct ah_error err = {0};
    struct ah_device *device = NULL;
    struct ah_device_driver other = driver;
    struct ah_device_options options = {0};
    other.abi++;
    CHECK_FAILS(ah_device_open(&device, &other, &options, &err), err, AH_E_MISMATCH,
                "driver 'noted' has device interface");
    other = driver;
    other.layout--;
    CHECK_FAILS(ah_device_open(&device, &other, &options, &err), err, AH_E_MISMATCH, "has struct layout");
    assert_null(device);
}

/* The bytes of open, prepare and reserve together must be within the bound. No memory beyond the bound is allocated. */
TEST(device, keeps_to_the_memory_given)
{
    struct ah_error err = {0};
    struct ah_device *device = NULL;
    struct ah_op op = copy(AH_ARENA_DEVICE, AH_ARENA_DEVICE);
    const struct ah_device_options options = {.memory_bytes = ARENA + 1000};
    CHECK_OK(ah_device_open(&device, &driver, &options, &err), err);
    CHECK_FAILS(submit(device, AH_LANE_COMPUTE, op, NULL, &err), err, AH_E_CAPACITY, "arena of 0 bytes");
    noted.prepare_bytes = 1001;
    CHECK_OK(ah_device_prepare(device, &op, 1, &err), err);
    CHECK_FAILS(ah_device_reserve(device, all_arenas, &err), err, AH_E_CAPACITY, "exceed");
    assert_int_equal(noted.reserves, 0);
    device->reserve_bytes = 1000;
    CHECK_OK(ah_device_reserve(device, all_arenas, &err), err);
    CHECK_FAILS(ah_device_reserve(device, all_arenas, &err), err, AH_E_USAGE, "already reserved");
    assert_int_equal(noted.reserves, 1);
    CHECK_OK(submit(device, AH_LANE_COMPUTE, op, NULL, &err), err);
    noted.prepare_bytes = 0;
    CHECK_OK(ah_device_prepare(device, &op, 1, &err), err);
    noted.prepare_bytes = 1;
    CHECK_FAILS(ah_device_prepare(device, &op, 1, &err), err, AH_E_CAPACITY, "device 'noted'");
    device->reserve_bytes = UINT64_MAX - ARENA + 1;
    CHECK_FAILS(ah_device_prepare(device, &op, 1, &err), err, AH_E_CAPACITY, "exceed");
}

/* Lists the pairs of arenas between which each lane can copy. */
TEST(device, keeps_lanes_in_reach)
{
    enum { D = AH_ARENA_DEVICE, H = AH_ARENA_PINNED, P = AH_ARENA_PAGEABLE };
    static const struct {
        uint32_t lane, to, from;
        bool fits;
    } rows[] = {
        {AH_LANE_COMPUTE, D, D, true}, {AH_LANE_COMPUTE, H, D, false}, {AH_LANE_COMPUTE, D, H, false},
        {AH_LANE_H2D, D, H, true},     {AH_LANE_H2D, D, P, false},     {AH_LANE_H2D, H, D, false},
        {AH_LANE_H2D, D, D, false},    {AH_LANE_D2H, H, D, true},      {AH_LANE_D2H, P, D, false},
        {AH_LANE_D2H, D, H, false},    {AH_LANE_HOST, H, P, true},     {AH_LANE_HOST, P, H, true},
        {AH_LANE_HOST, D, H, false},   {AH_LANE_HOST, H, D, false},
    };
    struct ah_device *device = open_noted();
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct ah_error err = {0};
        struct ah_op op = copy(rows[i].to, rows[i].from);
        if (rows[i].fits)
            CHECK_OK(submit(device, rows[i].lane, op, NULL, &err), err);
        else
            CHECK_FAILS(submit(device, rows[i].lane, op, NULL, &err), err, AH_E_USAGE, "cannot access");
    }
    assert_int_equal(noted.submits, 5);
}

/* Adding a lane keeps the layout with which existing plugins were built. */
TEST(device, has_room_for_more_lanes)
{
    assert_int_equal(sizeof((struct ah_device){0}.submitted), 16 * sizeof(uint64_t));
}

static int nothing(void *context, struct ah_error *err)
{
    (void)context, (void)err;
    return AH_OK;
}

TEST(device, knows_what_lanes_do)
{
    struct ah_error err = {0};
    struct ah_device *device = open_noted();
    struct ah_op fill = {
        .kind = AH_OP_FILL, .arg = {{AH_ARENA_DEVICE, AH_FP32, 0, 0}}, .u.elements = {4, 1, 0}};
    struct ah_op call = {.kind = AH_OP_CALL, .u.call = {nothing, NULL}};
    struct ah_op product = {.kind = AH_OP_MATMUL, .u.matmul = {.m = 2, .n = 2, .k = 2}};
    for (uint32_t i = 0; i < 3; i++)
        product.arg[i] = (struct ah_ref){AH_ARENA_PINNED, AH_FP32, 64 * i, 0};
    CHECK_FAILS(submit(device, AH_LANE_H2D, fill, NULL, &err), err, AH_E_USAGE,
                "'fill' does not run on lane 'h2d'");
    CHECK_FAILS(submit(device, AH_LANE_D2H, call, NULL, &err), err, AH_E_USAGE, "'call' does not run");
    CHECK_FAILS(submit(device, AH_LANE_COMPUTE, call, NULL, &err), err, AH_E_USAGE, "'call' does not run");
    CHECK_FAILS(submit(device, AH_LANE_HOST, product, NULL, &err), err, AH_E_USAGE, "'matmul' does not run");
    CHECK_FAILS(submit(device, AH_DEVICE_LANES, fill, NULL, &err), err, AH_E_USAGE, "no lane 4");
    CHECK_OK(submit(device, AH_LANE_HOST, call, NULL, &err), err);
    CHECK_OK(submit(device, AH_LANE_COMPUTE, fill, NULL, &err), err);
    fill.u.elements.count = ARENA;
    CHECK_FAILS(submit(device, AH_LANE_COMPUTE, fill, NULL, &err), err, AH_E_CAPACITY, "does not fit");
}

TEST(device, names_what_it_cannot)
{
    struct ah_error err = {0};
    struct ah_device *device = open_noted();
    struct ah_op rope = {.kind = AH_OP_ROPE,
                         .arg = {{AH_ARENA_DEVICE, AH_FP32, 0, 0}, {AH_ARENA_DEVICE, AH_FP32, 64, 0}},
                         .u.rope = {.rows = 1, .heads = 1, .head_dim = 2, .table_rows = 1, .seq = 1}};
    CHECK_FAILS(submit(device, AH_LANE_COMPUTE, rope, NULL, &err), err, AH_E_UNSUPPORTED,
                "device 'noted' cannot do op 'rope'");
    CHECK_FAILS(ah_device_prepare(device, &rope, 1, &err), err, AH_E_UNSUPPORTED, "'rope'");
    assert_int_equal(noted.prepares, 0);
}

TEST(device, waits_for_the_past_only)
{
    struct ah_error err = {0};
    struct ah_device *device = open_noted();
    struct ah_op op = copy(AH_ARENA_DEVICE, AH_ARENA_DEVICE);
    struct ah_op down = copy(AH_ARENA_PINNED, AH_ARENA_DEVICE);
    struct ah_wait waits[AH_DEVICE_WAITS_MAX + 1] = {{AH_LANE_COMPUTE, 2}};
    struct ah_submission submission = {.lane = AH_LANE_D2H, .n_waits = 1, .waits = waits, .op = &down};
    uint64_t ticket = 77;
    CHECK_OK(submit(device, AH_LANE_COMPUTE, op, &ticket, &err), err);
    assert_int_equal(ticket, 1);
    CHECK_FAILS(ah_device_submit(device, &submission, 1, &ticket, &err), err, AH_E_USAGE,
                "ticket 2 of lane 'compute', which was not submitted yet");
    assert_int_equal(ticket, 1);
    waits[0].ticket = 1;
    CHECK_OK(ah_device_submit(device, &submission, 1, &ticket, &err), err);
    submission.n_waits = AH_DEVICE_WAITS_MAX + 1;
    CHECK_FAILS(ah_device_submit(device, &submission, 1, &ticket, &err), err, AH_E_USAGE, "9 waits");
    waits[0].lane = AH_LANE_SEND; /* this lane exists only on devices that send messages */
    submission.n_waits = 1;
    CHECK_FAILS(ah_device_submit(device, &submission, 1, &ticket, &err), err, AH_E_USAGE, "lane 'send'");
    waits[0].lane = AH_DEVICE_LANES_ALL;
    CHECK_FAILS(ah_device_submit(device, &submission, 1, &ticket, &err), err, AH_E_USAGE, "lane '?'");

    CHECK_OK(ah_device_wait(device, AH_LANE_COMPUTE, 1, &err), err);
    CHECK_FAILS(ah_device_wait(device, AH_LANE_COMPUTE, 2, &err), err, AH_E_USAGE, "never given");
    CHECK_FAILS(ah_device_wait(device, AH_DEVICE_LANES, 0, &err), err, AH_E_USAGE, "never given");
}

/* An op may wait for earlier ops of its array. All waits of the array are checked before any op is queued. */
TEST(device, queues_arrays_whole)
{
    struct ah_error err = {0};
    struct ah_device *device = open_noted();
    const struct ah_op up = copy(AH_ARENA_DEVICE, AH_ARENA_PINNED);
    const struct ah_op inside = copy(AH_ARENA_DEVICE, AH_ARENA_DEVICE);
    struct ah_wait waits[] = {{AH_LANE_H2D, 2}, {AH_LANE_COMPUTE, 1}};
    struct ah_submission submissions[] = {
        {.lane = AH_LANE_H2D, .op = &up},
        {.lane = AH_LANE_H2D, .op = &up},
        {.lane = AH_LANE_COMPUTE, .op = &inside, .waits = &waits[0], .n_waits = 1},
        {.lane = AH_LANE_H2D, .op = &up, .waits = &waits[1], .n_waits = 1},
    };
    uint64_t tickets[4] = {0};
    waits[1].ticket = 2; /* the compute lane has only one op */
    CHECK_FAILS(ah_device_submit(device, submissions, 4, tickets, &err), err, AH_E_USAGE,
                "submission 4 of 4: op 'copy': waits for ticket 2 of lane 'compute'");
    waits[1].ticket = 1;
    waits[0].ticket = 3; /* this op comes later in the array */
    CHECK_FAILS(ah_device_submit(device, submissions, 4, tickets, &err), err, AH_E_USAGE, "submission 3");
    waits[0].ticket = 2;
    noted.submit_rc = AH_E_UNSUPPORTED;
    CHECK_FAILS(ah_device_submit(device, submissions, 4, tickets, &err), err, AH_E_UNSUPPORTED, "refused");
    assert_int_equal(tickets[0] + tickets[3], 0);
    assert_int_equal(ah_device_submitted(device, AH_LANE_H2D), 0);
    noted.submit_rc = AH_OK;
    noted.calls = 0;
    CHECK_OK(ah_device_submit(device, submissions, 4, tickets, &err), err);
    assert_int_equal(noted.calls, 1);
    static const uint64_t expected[] = {1, 2, 1, 3};
    assert_memory_equal(tickets, expected, sizeof expected);
    assert_int_equal(ah_device_submitted(device, AH_LANE_H2D), 3);
    assert_int_equal(ah_device_submitted(device, AH_LANE_HOST), 0);
    CHECK_OK(ah_device_submit(device, NULL, 0, NULL, &err), err);
}

TEST(device, waits_for_any_that_was_given)
{
    struct ah_error err = {0};
    struct ah_device *device = open_noted();
    struct ah_wait waits[AH_DEVICE_LANES_MAX + 1] = {{AH_LANE_COMPUTE, 1}, {AH_LANE_H2D, 0}};
    size_t met = 77;
    CHECK_FAILS(ah_device_wait_any(device, waits, 2, &met, &err), err, AH_E_USAGE, "never given");
    CHECK_OK(submit(device, AH_LANE_COMPUTE, copy(AH_ARENA_DEVICE, AH_ARENA_DEVICE), NULL, &err), err);
    CHECK_FAILS(ah_device_wait_any(device, waits, 0, &met, &err), err, AH_E_USAGE, "any of 0 tickets");
    CHECK_FAILS(ah_device_wait_any(device, waits, 17, &met, &err), err, AH_E_USAGE, "any of 17 tickets");
    assert_int_equal(met, 77);
    CHECK_OK(ah_device_wait_any(device, waits, 2, &met, &err), err);
    assert_int_equal(met, 1);
}

/* Each reader either gets a span once or counts it as lost. */
TEST(device, counts_spans_that_were_lost)
{
    struct ah_error err = {0};
    struct ah_device *device = open_noted();
    struct ah_span_reader reader = {.lane = AH_LANE_COMPUTE}, other = {.lane = AH_DEVICE_LANES};
    struct ah_span spans[8];
    assert_int_equal(ah_device_spans(device, &reader, spans, 8), 0);
    for (int i = 0; i < 5; i++)
        CHECK_OK(submit(device, AH_LANE_COMPUTE, copy(AH_ARENA_DEVICE, AH_ARENA_DEVICE), NULL, &err), err);
    assert_int_equal(ah_device_spans(device, &reader, spans, 2), 2);
    assert_int_equal(spans[0].ticket, 3);
    assert_int_equal(reader.lost, 2);
    assert_int_equal(ah_device_spans(device, &reader, spans, 8), 1);
    assert_int_equal(spans[0].ticket, 5);
    assert_int_equal(ah_device_spans(device, &reader, spans, 8), 0);
    for (int i = 0; i < 4; i++)
        CHECK_OK(submit(device, AH_LANE_COMPUTE, copy(AH_ARENA_DEVICE, AH_ARENA_DEVICE), NULL, &err), err);
    assert_int_equal(ah_device_spans(device, &reader, spans, 8), 3);
    assert_int_equal(reader.lost, 3);
    assert_int_equal(reader.seen, 9);
    reader = ah_device_newest(device, AH_LANE_COMPUTE, 2);
    assert_int_equal(ah_device_spans(device, &reader, spans, 8), 2);
    assert_int_equal(spans[1].ticket, 9);
    assert_int_equal(reader.lost, 0);
    assert_int_equal(ah_device_newest(device, AH_LANE_COMPUTE, 100).seen, 0);
    assert_int_equal(ah_device_spans(device, &other, spans, 8), 0);
}

TEST(device, drains_all_and_keeps_the_first_failure)
{
    struct ah_error err = {0};
    struct ah_device *device = open_noted();
    noted.wait_rc = AH_E_NUMERIC;
    CHECK_FAILS(ah_device_drain(device, &err), err, AH_E_NUMERIC, "lane 0");
    assert_int_equal(noted.waits, AH_DEVICE_LANES);
    CHECK_FAILS(ah_device_prepare(device, NULL, 0, &err), err, AH_E_NUMERIC, "lane 0");
    assert_int_equal(noted.prepares, 0);
}

TEST(device, points_where_the_host_reads)
{
    struct ah_device *device = open_noted();
    unsigned char *base = ah_device_pointer(device, (struct ah_ref){AH_ARENA_PINNED, AH_FP32, 0, 0});
    assert_non_null(base);
    assert_ptr_equal(ah_device_pointer(device, (struct ah_ref){AH_ARENA_PINNED, AH_FP32, ARENA - 1, 0}),
                     base + ARENA - 1);
    assert_null(ah_device_pointer(device, (struct ah_ref){AH_ARENA_PINNED, AH_FP32, ARENA, 0}));
    assert_null(ah_device_pointer(device, (struct ah_ref){AH_ARENA_DEVICE, AH_FP32, 0, 0}));
    assert_null(ah_device_pointer(device, (struct ah_ref){AH_ARENA_NONE, AH_FP32, 0, 0}));
    assert_null(ah_device_pointer(device, (struct ah_ref){AH_ARENA_KINDS, AH_FP32, 0, 0}));
    ah_device_close(device);
    ah_device_close(NULL);
    assert_int_equal(noted.closes, 1);
}
