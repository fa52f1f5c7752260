/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests recording with the double of CUPTI. Every kernel and copy is reported with its op, and is within the op's span.
 * Dropped records are counted. If CUPTI does not work, ops run as without it.
 */
#include "runtime/device/cuda/records.h"
#include "tests/device/cuda/open.h"

#include <stdio.h>
#include <stdlib.h>

enum { LOOPS = 5, BYTES = 8192, NAMES_MAX = 128 };
/* The thread sanitizer is a hundred times slower, so under it only the first call of each name fails. */
#if defined(__SANITIZE_THREAD__)
enum { MORE_FAULTS = 0 };
#else
enum { MORE_FAULTS = 1 };
#endif

static void be(const struct cuda_double *settings)
{
    cuda_double_set(settings);
}

static void be_plain(void)
{
    const struct cuda_double settings = cuda_double_default();
    be(&settings);
}

static struct ah_op product_op(void)
{
    struct ah_op op = {.kind = AH_OP_MATMUL, .u.matmul = {.m = 32, .n = 32, .k = 32}};
    for (uint64_t i = 0; i < 3; i++)
        op.arg[i] = (struct ah_ref){AH_ARENA_DEVICE, AH_FP32, i * BYTES, 0};
    return op;
}

static struct ah_device *open_prepared(void)
{
    const struct ah_device_options options = {.queue = 16, .host_threads = 1};
    const struct ah_op product = product_op();
    struct ah_error err = {0};
    struct ah_device *device = open_device(&options);
    CHECK_OK(ah_device_prepare(device, &product, 1, &err), err);
    return device;
}

/* Runs a ring of ops through all lanes: host, copy up, a product and a fill, copy down. Returns the copied value. */
static float work(struct ah_device *device)
{
    const struct ah_op host = fill_op(AH_ARENA_PINNED, BYTES, BYTES / 4, 2),
                       up = copy_op(AH_ARENA_DEVICE, AH_ARENA_PINNED, BYTES, BYTES), product = product_op();
    struct ah_op up_too = up;
    const struct ah_op down = copy_op(AH_ARENA_PINNED, AH_ARENA_DEVICE, 0, BYTES / 2),
                       fill = fill_op(AH_ARENA_DEVICE, 8 * BYTES, 512, 1);
    struct ah_error err = {0};
    struct ah_wait last = {0};
    up_too.arg[0].offset_bytes = 2 * BYTES;
    for (int i = 0; i < LOOPS; i++) {
        last = (struct ah_wait){AH_LANE_HOST, submit_op(device, AH_LANE_HOST, &host, last)};
        (void)submit_op(device, AH_LANE_H2D, &up, last);
        last = (struct ah_wait){AH_LANE_H2D, submit_op(device, AH_LANE_H2D, &up_too, last)};
        last = (struct ah_wait){AH_LANE_COMPUTE, submit_op(device, AH_LANE_COMPUTE, &product, last)};
        (void)submit_op(device, AH_LANE_COMPUTE, &fill, (struct ah_wait){0});
        last = (struct ah_wait){AH_LANE_D2H, submit_op(device, AH_LANE_D2H, &down, last)};
    }
    CHECK_OK(ah_device_drain(device, &err), err);
    return *(const float *)ah_device_pointer(device, down.arg[0]);
}

static size_t read_spans(struct ah_device *device, uint32_t lane, struct ah_span *spans, size_t max)
{
    struct ah_span_reader reader = {.lane = lane};
    return ah_device_spans(device, &reader, spans, max);
}

enum { DELAY_US = 5000 }; /* long enough to notice an activity in another op's span */

/* Checks that every op of a lane has activities, each within the op's span. */
static void expect_lane(struct ah_device *device, const struct ah_device_recording *recording, uint32_t lane,
                        uint64_t first_ticket, size_t n_ops, uint32_t kind)
{
    struct ah_span spans[4 * LOOPS];
    const uint64_t slack_ns = clock_error_ns(device);
    size_t n = read_spans(device, lane, spans, 4 * LOOPS), seen = 0;
    uint64_t last_ns = 0;
    assert_int_equal(n, first_ticket - 1 + n_ops);
    for (size_t i = 0; i < recording->n; i++) {
        const struct ah_device_activity *activity = &recording->activities[i];
        if (activity->lane != lane)
            continue;
        assert_int_equal(activity->kind, kind);
        assert_in_range(activity->ticket, first_ticket, n);
        const struct ah_span *span = &spans[activity->ticket - 1];
        assert_true(activity->start_ns + slack_ns >= span->start_ns);
        assert_true(activity->end_ns <= span->end_ns + slack_ns);
        assert_true(activity->start_ns >= last_ns && activity->end_ns >= activity->start_ns);
        last_ns = activity->start_ns;
        seen++;
    }
    assert_true(seen >= n_ops);
    if (kind == AH_ACTIVITY_COPY)
        assert_int_equal(seen, n_ops);
}

static int sleep_a_while(void *context, struct ah_error *err)
{
    (void)context, (void)err;
    ah_threads_sleep_until_ns(ah_threads_now_ns() + 50 * 1000 * 1000);
    return AH_OK;
}

static size_t count(const struct ah_device_recording *recording, uint32_t lane, uint64_t ticket)
{
    size_t n = 0;
    for (size_t i = 0; i < recording->n; i++)
        n += recording->activities[i].lane == lane && recording->activities[i].ticket == ticket;
    return n;
}

TEST(recorder, tells_what_each_op_did)
{
    struct ah_device_recording recording;
    struct ah_error err = {0};
    struct cuda_double settings = cuda_double_default();
    be(&settings);
    struct ah_device *device = open_prepared();
    const float expected = work(device);
    CHECK_OK(ah_device_record(device, &err), err);
    assert_true(work(device) == expected);
    CHECK_OK(ah_device_recorded(device, &recording, &err), err);
    assert_true(work(device) == expected);
    assert_int_equal(recording.lost, 0);
    assert_int_equal(recording.overhead_ns, 1000); /* the double's figure, flushed with all kinds enabled */
    check_text_has(recording.recorder, "CUPTI 13.");
    for (size_t i = 1; i < recording.n; i++)
        assert_true(recording.activities[i - 1].lane <= recording.activities[i].lane);
    for (uint64_t i = 0; i < 2 * LOOPS; i++) {
        assert_true(count(&recording, AH_LANE_COMPUTE, 2 * LOOPS + 1 + i) >= 1);
        assert_int_equal(count(&recording, AH_LANE_H2D, 2 * LOOPS + 1 + i), 1);
    }
    for (size_t i = 0; i < recording.n; i++)
        if (recording.activities[i].kind == AH_ACTIVITY_COPY)
            assert_int_equal(recording.activities[i].bytes,
                             recording.activities[i].lane == AH_LANE_H2D ? BYTES : BYTES / 2);
        else
            assert_true(recording.activities[i].name[0]);
    ah_device_close(device);
    expect_nothing_left();
}

/* Recording starts before the first op, so that every op has a span. */
TEST(recorder, tells_when)
{
    struct ah_device_recording recording;
    struct ah_error err = {0};
    struct cuda_double settings = cuda_double_default();
    settings.copy_delay_us = settings.kernel_delay_us = DELAY_US;
    be(&settings);
    struct ah_device *device = open_prepared();
    CHECK_OK(ah_device_record(device, &err), err);
    (void)work(device);
    CHECK_OK(ah_device_recorded(device, &recording, &err), err);
    expect_lane(device, &recording, AH_LANE_COMPUTE, 1, 2 * LOOPS, AH_ACTIVITY_KERNEL);
    expect_lane(device, &recording, AH_LANE_H2D, 1, 2 * LOOPS, AH_ACTIVITY_COPY);
    expect_lane(device, &recording, AH_LANE_D2H, 1, LOOPS, AH_ACTIVITY_COPY);
    for (size_t i = 0; i < recording.n; i++)
        assert_true(recording.activities[i].end_ns - recording.activities[i].start_ns >= 1000 * DELAY_US);
    ah_device_close(device);
    expect_nothing_left();
}

/* Recording is requested while a stream waits for the host. It begins when that wait is over, because taking memory for
 * CUPTI would also wait for the stream. */
TEST(recorder, begins_when_all_is_done)
{
    struct ah_device_recording recording;
    struct ah_error err = {0};
    const struct ah_op hold = {.kind = AH_OP_CALL, .u.call = {sleep_a_while, NULL}},
                       fill = fill_op(AH_ARENA_DEVICE, 0, 512, 1);
    be_plain();
    struct ah_device *device = open_prepared();
    const struct ah_wait held = {AH_LANE_HOST, submit_op(device, AH_LANE_HOST, &hold, (struct ah_wait){0})};
    (void)submit_op(device, AH_LANE_COMPUTE, &fill, held);
    CHECK_OK(ah_device_record(device, &err), err);
    (void)work(device);
    CHECK_OK(ah_device_recorded(device, &recording, &err), err);
    assert_int_equal(recording.lost, 0);
    ah_device_close(device);
    expect_nothing_left();
}

TEST(recorder, works_again)
{
    struct ah_device_recording recording;
    struct ah_error err = {0};
    size_t first = 0;
    be_plain();
    struct ah_device *device = open_prepared();
    CHECK_FAILS(ah_device_recorded(device, &recording, &err), err, AH_E_USAGE, "is not recording");
    for (int round = 0; round < 3; round++) {
        CHECK_OK(ah_device_record(device, &err), err);
        CHECK_FAILS(ah_device_record(device, &err), err, AH_E_USAGE, "is already recording");
        (void)work(device);
        CHECK_OK(ah_device_recorded(device, &recording, &err), err);
        first = round ? first : recording.n;
        assert_int_equal(recording.n, first);
    }
    CHECK_OK(ah_device_record(device, &err), err); /* closed while recording */
    ah_device_close(device);
    expect_nothing_left();
}

/* The buffers are too small for all records, so some are lost and counted. */
TEST(recorder, counts_what_is_lost)
{
    struct ah_device_recording all, some;
    struct ah_error err = {0};
    struct cuda_double settings = cuda_double_default();
    for (int i = 0; i < 2; i++) {
        settings.cupti_buffer_bytes = i ? 300 : 0;
        be(&settings);
        struct ah_device *device = open_prepared();
        CHECK_OK(ah_device_record(device, &err), err);
        for (int k = 0; k < 4; k++)
            (void)work(device);
        CHECK_OK(ah_device_recorded(device, i ? &some : &all, &err), err);
        assert_true(i ? some.lost > 0 : all.lost == 0);
        if (i) {
            assert_in_range(some.n, 1, all.n - 1);
            assert_true(some.lost >= all.n - some.n);
        }
        ah_device_close(device);
        expect_nothing_left();
    }
}

/* If the record naming the op was dropped, the stream still identifies the lane. */
TEST(recorder, knows_lanes_by_their_streams)
{
    struct ah_device_recording recording;
    struct ah_error err = {0};
    size_t unknown = 0;
    struct cuda_double settings = cuda_double_default();
    settings.drop = 5; /* no divisor of a step's number of records, so each kind of record is dropped */
    be(&settings);
    struct ah_device *device = open_prepared();
    CHECK_OK(ah_device_record(device, &err), err);
    for (int i = 0; i < 24; i++)
        (void)work(device);
    CHECK_OK(ah_device_recorded(device, &recording, &err), err);
    assert_true(recording.lost > 0);
    for (size_t i = 0; i < recording.n; i++) {
        const struct ah_device_activity *activity = &recording.activities[i];
        unknown += activity->ticket == 0;
        assert_true((activity->lane == AH_LANE_COMPUTE) == (activity->kind == AH_ACTIVITY_KERNEL));
        if (activity->kind == AH_ACTIVITY_COPY)
            assert_int_equal(activity->bytes, activity->lane == AH_LANE_H2D ? BYTES : BYTES / 2);
    }
    assert_true(unknown > 0);
    ah_device_close(device);
    expect_nothing_left();
}

TEST(recorder, says_why_it_cannot)
{
    struct ah_error err = {0};
    struct cuda_double settings = cuda_double_default();
    snprintf(settings.profiler, sizeof settings.profiler, "Nsight Systems");
    be(&settings);
    struct ah_device *device = open_prepared();
    CHECK_FAILS(ah_device_record(device, &err), err, AH_E_FAILED, "'Nsight Systems'");
    (void)work(device);
    ah_device_close(device);
    settings = cuda_double_default();
    settings.cupti_version = CUPTI_API_VERSION - 100;
    be(&settings);
    device = open_prepared();
    CHECK_FAILS(ah_device_record(device, &err), err, AH_E_MISSING, "libcupti.so.13");
    (void)work(device);
    settings.cupti_version = CUPTI_API_VERSION + 10000;
    be(&settings);
    CHECK_FAILS(ah_device_record(device, &err), err, AH_E_MISSING, "libcupti.so.13");
    ah_device_close(device);
    expect_nothing_left();
}

TEST(recorder, is_one_of_a_process)
{
    struct ah_device_recording recording;
    struct ah_error err = {0};
    be_plain();
    struct ah_device *first = open_prepared(), *second = open_prepared();
    CHECK_OK(ah_device_record(first, &err), err);
    CHECK_FAILS(ah_device_record(second, &err), err, AH_E_FAILED, "another device");
    (void)work(second);
    (void)work(first);
    CHECK_OK(ah_device_recorded(first, &recording, &err), err);
    CHECK_OK(ah_device_record(second, &err), err);
    ah_device_close(first);
    (void)work(second);
    CHECK_OK(ah_device_recorded(second, &recording, &err), err);
    assert_true(recording.n > 0);
    ah_device_close(second);
    expect_nothing_left();
}

/* Records while the nth call fails, and returns the number of calls of that name. */
static uint64_t record_with_fault(const char *call, uint64_t nth, float expected)
{
    struct ah_device_recording recording;
    struct ah_error err = {0};
    be_plain();
    struct ah_device *device = open_prepared();
    if (nth)
        cuda_double_fail(call, nth, cudaErrorUnknown);
    int begun = ah_device_record(device, &err);
    if (work(device) != expected)
        fail_msg("call %d of %s changes results", (int)nth, call);
    int ended = begun ? begun : ah_device_recorded(device, &recording, &err);
    if (ended && (err.code != ended || strlen(err.text) < 20))
        fail_msg("call %d of %s: code %d, '%s'", (int)nth, call, err.code, err.text);
    if (work(device) != expected)
        fail_msg("call %d of %s changes results behind it", (int)nth, call);
    uint64_t n = cuda_double_calls(call);
    ah_device_close(device);
    expect_nothing_left();
    return n;
}

/* Each CUPTI function fails at its first call, at a middle one, and at its last. */
TEST(recorder, calls_that_fail_change_nothing)
{
    const char *names[NAMES_MAX];
    size_t n = 0;
    be_plain();
    struct ah_device *device = open_prepared();
    const float expected = work(device);
    ah_device_close(device);
    (void)record_with_fault("any", 0, expected);
    for (const char *name; (name = cuda_double_called((unsigned)n)) && n < NAMES_MAX; n++)
        names[n] = name;
    size_t of_cupti = 0;
    for (size_t i = 0; i < n; i++) {
        if (strncmp(names[i], "cupti", 5) != 0)
            continue;
        of_cupti++;
        uint64_t all = record_with_fault(names[i], 1, expected);
        if (!MORE_FAULTS)
            continue;
        (void)record_with_fault(names[i], (all + 1) / 2, expected);
        (void)record_with_fault(names[i], all, expected);
    }
    assert_true(of_cupti >= 15);
}

/* The GPU is lost during recording. The ops report the loss, and everything ends. */
TEST(recorder, survives_the_loss_of_the_gpu)
{
    struct ah_device_recording recording;
    struct ah_error err = {0};
    const struct ah_op fill = fill_op(AH_ARENA_DEVICE, 0, 512, 1);
    be_plain();
    struct ah_device *device = open_prepared();
    CHECK_OK(ah_device_record(device, &err), err);
    uint64_t ticket = submit_op(device, AH_LANE_COMPUTE, &fill, (struct ah_wait){0});
    CHECK_OK(ah_device_wait(device, AH_LANE_COMPUTE, ticket, &err), err);
    cuda_double_fail("cudaLaunchKernel", cuda_double_calls("cudaLaunchKernel") + 1,
                     cudaErrorECCUncorrectable);
    ticket = submit_op(device, AH_LANE_COMPUTE, &fill, (struct ah_wait){0});
    assert_int_not_equal(ah_device_wait(device, AH_LANE_COMPUTE, ticket, &err), AH_OK);
    (void)ah_device_recorded(device, &recording, &err);
    ah_device_close(device);
    expect_nothing_left();
}

TEST(recorder, names_are_readable)
{
    static const char *const names[][2] = {
        {"nvjet_tst_128x256_64x4_1x2_h_bz_coopA_NNT", "nvjet_tst_128x256_64x4_1x2_h_bz_coopA_NNT"},
        {"_Z4ropeILi64EEv4task", "rope"},
        {"_ZL4ropePf", "rope"},
        {"_ZN12_GLOBAL__N_19norm_rowsILi4EfEEvNS_4taskE", "norm_rows"},
        {"_ZN7cutlass7Kernel2I16cutlass_80_sgemmEEvNT_6ParamsE", "Kernel2<cutlass_80_sgemm>"},
        {"_Z", "_Z"},
        {"_Z99short", "_Z99short"},
        {"_Z0", "_Z0"},
        {"", ""},
    };
    struct ah_arena arena = {0};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        assert_string_equal(ah_cuda_records_name(&arena, names[i][0]), names[i][1]);
    ah_arena_release(&arena);
}
