/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests ops that share an event: which events are recorded, who may wait for which op, and that training times items.
 */
#include "tests/device/cuda/open.h"
#include "tests/golden/train/case.h"

enum { QUEUE = 8, STEPS = 6 };

static const struct ah_device_options plain = {.queue = QUEUE};

static struct ah_device *open_slow(unsigned copy_delay_us)
{
    struct cuda_double settings = cuda_double_default();
    settings.copy_delay_us = copy_delay_us;
    cuda_double_set(&settings);
    return open_device(&plain);
}

/* Submits `n` fills, each joined to the next. The first one waits for `wait`. Fill i writes i + 1 to place i. */
static void submit_group(struct ah_device *device, size_t n, struct ah_wait wait)
{
    struct ah_submission submissions[32];
    struct ah_op ops[32];
    struct ah_error err = {0};
    for (size_t i = 0; i < n; i++) {
        ops[i] = fill_op(AH_ARENA_DEVICE, 8192 * i, 1025, (float)(i + 1));
        submissions[i] = (struct ah_submission){.lane = AH_LANE_COMPUTE,
                                                .n_waits = !i && wait.ticket ? 1 : 0,
                                                .waits = &wait,
                                                .op = &ops[i],
                                                .tag = 7,
                                                .joins = i + 1 < n};
    }
    CHECK_OK(ah_device_submit(device, submissions, n, NULL, &err), err);
}

TEST(groups, have_an_event_and_a_span)
{
    const struct ah_op up = copy_op(AH_ARENA_DEVICE, AH_ARENA_PINNED, 2 * MIB, 4000);
    struct ah_span_reader reader = {.lane = AH_LANE_COMPUTE};
    struct ah_span span;
    struct ah_error err = {0};
    struct ah_device *device = open_slow(20000);
    const uint64_t before = cuda_double_calls("cudaEventRecord");
    submit_op(device, AH_LANE_H2D, &up, (struct ah_wait){0});
    submit_group(device, 5, (struct ah_wait){AH_LANE_H2D, 1});
    assert_int_equal(cuda_double_calls("cudaEventRecord") - before, 3); /* copy: 1, group: 2 */
    CHECK_OK(ah_device_wait(device, AH_LANE_COMPUTE, 2, &err), err);
    assert_int_equal(ah_device_done(device, AH_LANE_COMPUTE), 5);
    assert_int_equal(ah_device_spans(device, &reader, &span, 1), 1);
    assert_int_equal(span.ticket, 5);
    assert_int_equal(span.joined, 4);
    assert_int_equal(span.tag, 7);
    assert_true(span.ready_ns < span.start_ns && span.start_ns <= span.end_ns);
    assert_int_equal(reader.lost, 0);
    assert_int_equal(ah_device_spans(device, &reader, &span, 1), 0);
    ah_device_close(device);
    expect_nothing_left();
}

/* Waiting for an op in the middle of a group is enough to see its result. The host lane can also wait for such ops. */
TEST(groups, are_waited_for_in_the_middle)
{
    const struct ah_op down = copy_op(AH_ARENA_PINNED, AH_ARENA_DEVICE, 8192, 4000);
    const struct ah_op keep = copy_op(AH_ARENA_PAGEABLE, AH_ARENA_PINNED, 8192, 4000);
    struct cuda_double settings = cuda_double_default();
    struct ah_error err = {0};
    settings.kernel_delay_us = 2000;
    cuda_double_set(&settings);
    struct ah_device *device = open_device(&plain);
    submit_group(device, 4, (struct ah_wait){0});
    submit_op(device, AH_LANE_D2H, &down, (struct ah_wait){AH_LANE_COMPUTE, 2});
    submit_op(device, AH_LANE_HOST, &keep, (struct ah_wait){AH_LANE_D2H, 1});
    CHECK_OK(ah_device_wait(device, AH_LANE_HOST, 1, &err), err);
    const float *kept = ah_device_pointer(device, (struct ah_ref){AH_ARENA_PAGEABLE, AH_FP32, 8192, 0});
    assert_true(kept[0] == 2 && kept[999] == 2);
    ah_device_close(device);
    expect_nothing_left();
}

/* A group longer than the queue is cut, so nobody waits forever. Spans cover every op once. */
TEST(groups, may_be_longer_than_the_queue)
{
    struct ah_span spans[64];
    struct ah_span_reader reader = {.lane = AH_LANE_COMPUTE};
    struct ah_error err = {0};
    uint64_t told = 0, last_ns = 0;
    struct ah_device *device = open_slow(0);
    submit_group(device, 3 * QUEUE, (struct ah_wait){0});
    submit_group(device, 2, (struct ah_wait){0});
    CHECK_OK(ah_device_drain(device, &err), err);
    const size_t n = ah_device_spans(device, &reader, spans, 64);
    for (size_t i = 0; i < n; i++) {
        told += 1 + spans[i].joined;
        assert_int_equal(spans[i].ticket, told);
        assert_true(spans[i].start_ns >= last_ns && spans[i].end_ns >= spans[i].start_ns);
        last_ns = spans[i].end_ns;
    }
    assert_int_equal(told, 3 * QUEUE + 2);
    assert_true(n < QUEUE);
    assert_int_equal(reader.lost, 0);
    ah_device_close(device);
    expect_nothing_left();
}

TEST(groups, are_none_while_activities_are_recorded)
{
    struct ah_device_recording recording;
    struct ah_span spans[8];
    struct ah_span_reader reader = {.lane = AH_LANE_COMPUTE};
    struct ah_error err = {0};
    struct ah_device *device = open_slow(0);
    CHECK_OK(ah_device_record(device, &err), err);
    submit_group(device, 4, (struct ah_wait){0});
    CHECK_OK(ah_device_recorded(device, &recording, &err), err);
    assert_int_equal(ah_device_spans(device, &reader, spans, 8), 4);
    ah_device_close(device);
    expect_nothing_left();
}

TEST(groups, refuse_what_does_not_follow)
{
    const struct ah_op fill = fill_op(AH_ARENA_DEVICE, 0, 1000, 1);
    const struct ah_op up = copy_op(AH_ARENA_DEVICE, AH_ARENA_PINNED, 2 * MIB, 4000);
    const struct ah_wait wait = {AH_LANE_H2D, 0};
    struct ah_error err = {0};
    struct ah_device *device = open_slow(0);
    const struct ah_submission joins = {.lane = AH_LANE_COMPUTE, .op = &fill, .joins = true};
    const struct ah_submission others[] = {
        {.lane = AH_LANE_H2D, .op = &up},
        {.lane = AH_LANE_COMPUTE, .op = &fill, .tag = 1},
        {.lane = AH_LANE_COMPUTE, .op = &fill, .n_waits = 1, .waits = &wait}};
    CHECK_FAILS(ah_device_submit(device, &joins, 1, NULL, &err), err, AH_E_USAGE,
                "must be followed by an op "
                "of the same lane and tag");
    for (size_t i = 0; i < 3; i++) {
        const struct ah_submission both[] = {joins, others[i]};
        CHECK_FAILS(ah_device_submit(device, both, 2, NULL, &err), err, AH_E_USAGE,
                    "must be followed by an "
                    "op of the same lane and "
                    "tag");
    }
    assert_int_equal(ah_device_submitted(device, AH_LANE_COMPUTE), 0);
    ah_device_close(device);
    expect_nothing_left();
}

struct heard {
    struct golden_result result;
    uint64_t told, events; /* numbers of ops on streams seen by the observer, and of recorded events */
    uint64_t clock;        /* upper bound on the events that set the clock: eight a second */
};

static bool hear_step(void *context, const struct ah_step_record *record)
{
    return golden_keep_record(&((struct heard *)context)->result, record);
}

static void hear_op(void *context, const struct ah_op_record *record)
{
    struct heard *heard = context;
    heard->told += record->lane != AH_LANE_HOST;
    assert_true(record->ready_ns <= record->start_ns && record->start_ns <= record->end_ns);
}

static void train(const struct golden *golden, bool every_op, struct heard *heard)
{
    const struct ah_observer observer = {.step = hear_step, .context = heard, .op = hear_op};
    const struct cuda_double settings = cuda_double_default();
    struct ah_trainer *trainer;
    struct ah_error err = {0};
    cuda_double_set(&settings);
    CHECK_OK(ah_trainer_open(&trainer, &golden->options, &err), err);
    if (every_op)
        ah_trainer_time_ops(trainer);
    const uint64_t before = cuda_double_calls("cudaEventRecord"), begin_ns = ah_threads_now_ns();
    CHECK_OK(ah_trainer_run(trainer, STEPS, &observer, &err), err);
    heard->events = cuda_double_calls("cudaEventRecord") - before;
    heard->clock = 2 + (ah_threads_now_ns() - begin_ns) / (125 * 1000 * 1000);
    ah_trainer_close(trainer);
}

/* Each item makes up to two events: its start, if it waited, and its end. A few more events set the clock. */
TEST(groups, of_a_training_are_its_items)
{
    static struct heard items, ops;
    struct golden golden;
    uint64_t seed = 7;
    golden_open(&golden, "gpt2", AH_FP32);
    golden.options.driver = ah_plugin_driver();
    golden_plan_random(&golden, &seed);
    train(&golden, false, &items);
    train(&golden, true, &ops);
    print_message("of a step: %d events with items timed, %d with ops\n", (int)(items.events / STEPS),
                  (int)(ops.events / STEPS));
    assert_true(items.events >= items.told && items.events <= 2 * items.told + items.clock);
    assert_true(ops.events >= ops.told && ops.events <= 2 * ops.told + ops.clock);
    assert_true(2 * items.told < ops.told);
    assert_true(2 * items.events < ops.events + 2 * items.clock);
    for (size_t i = 0; i < STEPS; i++) {
        const struct ah_step_record *a = &items.result.records[i], *b = &ops.result.records[i];
        assert_memory_equal(&a->loss, &b->loss, sizeof a->loss);
        assert_true(a->busy_ns[AH_LANE_COMPUTE] > 0 && a->end_ns > 0);
    }
    golden_close(&golden);
}
