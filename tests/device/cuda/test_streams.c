/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests what is special about lanes that are streams: spans from events, full queues, errors of the GPU.
 */
#include "tests/device/cuda/open.h"

#include <pthread.h>

static uint64_t slack_ns; /* largest clock error so far in this case (open.h) */

static const struct ah_device_options plain = {.queue = 8};
static const struct ah_wait none = {0};

static void be(unsigned copy_delay_us)
{
    struct cuda_double settings = cuda_double_default();
    settings.copy_delay_us = copy_delay_us;
    cuda_double_set(&settings);
    slack_ns = 0;
}

static struct ah_span span_of(struct ah_device *device, uint32_t lane, uint64_t ticket)
{
    struct ah_span span = {0};
    struct ah_span_reader reader = {.lane = lane, .seen = ticket - 1};
    const uint64_t error_ns = clock_error_ns(device);
    slack_ns = error_ns > slack_ns ? error_ns : slack_ns;
    assert_int_equal(ah_device_spans(device, &reader, &span, 1), 1);
    assert_int_equal(span.ticket, ticket);
    assert_int_equal(span.tag, 100 + lane);
    assert_true(span.ready_ns <= span.start_ns && span.start_ns <= span.end_ns);
    return span;
}

/* Copies in both directions are delayed until both have begun. An op starts after the ops for which it waits have
 * ended. All spans are within the times seen by the host. */
TEST(streams, have_spans_of_the_gpus_clock)
{
    const struct ah_op up = copy_op(AH_ARENA_DEVICE, AH_ARENA_PINNED, 0, MIB);
    const struct ah_op down = copy_op(AH_ARENA_PINNED, AH_ARENA_DEVICE, 2 * MIB, MIB);
    const struct ah_op fill = fill_op(AH_ARENA_DEVICE, 0, 1000, 1);
    struct ah_error err = {0};
    be(0);
    struct ah_device *device = open_device(&plain);
    const uint64_t begin_ns = ah_threads_now_ns();
    hang_next("cudaMemcpyAsync", 0);
    hang_next("cudaMemcpyAsync", 1);
    submit_op(device, AH_LANE_H2D, &up, none);
    submit_op(device, AH_LANE_D2H, &down, none);
    submit_op(device, AH_LANE_COMPUTE, &fill, (struct ah_wait){AH_LANE_H2D, 1});
    submit_op(device, AH_LANE_D2H, &down, (struct ah_wait){AH_LANE_COMPUTE, 1});
    wait_until_hanging(2);
    const uint64_t held_ns = ah_threads_now_ns();
    ah_threads_sleep_until_ns(held_ns + 20000000);
    const uint64_t let_go_ns = ah_threads_now_ns();
    cuda_double_go_on();
    CHECK_OK(ah_device_drain(device, &err), err);
    const uint64_t end_ns = ah_threads_now_ns();
    const struct ah_span first_up = span_of(device, AH_LANE_H2D, 1),
                         first_down = span_of(device, AH_LANE_D2H, 1);
    const struct ah_span work = span_of(device, AH_LANE_COMPUTE, 1), last = span_of(device, AH_LANE_D2H, 2);
    assert_true(first_up.start_ns <= held_ns + slack_ns && first_down.start_ns <= held_ns + slack_ns);
    assert_true(first_up.end_ns + slack_ns >= let_go_ns && first_down.end_ns + slack_ns >= let_go_ns);
    assert_true(work.start_ns + 2 * slack_ns >= first_up.end_ns);
    assert_true(last.ready_ns >= first_down.end_ns && last.start_ns >= last.ready_ns);
    assert_true(first_up.start_ns + slack_ns >= begin_ns && last.end_ns <= end_ns + slack_ns);
    ah_device_close(device);
    expect_nothing_left();
}

/* The host waits as long as the GPU works. */
TEST(streams, let_the_host_wait)
{
    const struct ah_op fill = fill_op(AH_ARENA_DEVICE, 0, 1000, 3);
    const struct ah_op down = copy_op(AH_ARENA_PINNED, AH_ARENA_DEVICE, 0, 4000);
    const struct ah_op keep = copy_op(AH_ARENA_PAGEABLE, AH_ARENA_PINNED, 0, 4000);
    struct ah_error err = {0};
    be(20000);
    struct ah_device *device = open_device(&plain);
    submit_op(device, AH_LANE_COMPUTE, &fill, none);
    submit_op(device, AH_LANE_D2H, &down, (struct ah_wait){AH_LANE_COMPUTE, 1});
    submit_op(device, AH_LANE_HOST, &keep, (struct ah_wait){AH_LANE_D2H, 1});
    CHECK_OK(ah_device_wait(device, AH_LANE_HOST, 1, &err), err);
    const float *kept = ah_device_pointer(device, (struct ah_ref){.arena = AH_ARENA_PAGEABLE});
    assert_true(kept[0] == 3 && kept[999] == 3);
    assert_int_equal(ah_device_done(device, AH_LANE_D2H), 1);
    const struct ah_span copied = span_of(device, AH_LANE_D2H, 1), waited = span_of(device, AH_LANE_HOST, 1);
    assert_true(waited.start_ns + slack_ns >= copied.end_ns);
    ah_device_close(device);
    expect_nothing_left();
}

/* The base of the clock is renewed meanwhile, and spans stay in order. */
TEST(streams, keep_time_for_long)
{
    const struct ah_op fill = fill_op(AH_ARENA_DEVICE, 0, 1000, 1);
    struct ah_error err = {0};
    uint64_t last_ns = 0;
    be(0);
    struct ah_device *device = open_device(&plain);
    for (uint64_t i = 1; i <= 24; i++) {
        const uint64_t begin_ns = ah_threads_now_ns();
        submit_op(device, AH_LANE_COMPUTE, &fill, none);
        CHECK_OK(ah_device_drain(device, &err), err);
        const struct ah_span span = span_of(device, AH_LANE_COMPUTE, i);
        assert_true(span.ready_ns >= last_ns && span.ready_ns >= begin_ns);
        assert_true(span.end_ns <= ah_threads_now_ns() + slack_ns);
        last_ns = span.end_ns;
        ah_threads_sleep_until_ns(ah_threads_now_ns() + 60 * 1000000);
    }
    ah_device_close(device);
    expect_nothing_left();
}

static void *open_later(void *context)
{
    struct gate *gate = context;
    ah_threads_sleep_until_ns(ah_threads_now_ns() + 30000000);
    atomic_store(&gate->open, true);
    return NULL;
}

/* A full queue delays only the submitter, whatever the queue waits for. */
TEST(streams, wait_where_a_queue_is_full)
{
    struct gate gate = {false};
    struct ah_error err = {0};
    pthread_t opener;
    be(0);
    struct ah_device *device = open_device(&(struct ah_device_options){.queue = 3});
    const uint64_t held = submit_gate(device, &gate);
    assert_int_equal(pthread_create(&opener, NULL, open_later, &gate), 0);
    for (uint64_t i = 1; i <= 20; i++) {
        const struct ah_op fill = fill_op(AH_ARENA_DEVICE, 4000 * i, 1000, 1),
                           down = copy_op(AH_ARENA_PINNED, AH_ARENA_DEVICE, 4000 * i, 4000);
        submit_op(device, AH_LANE_COMPUTE, &fill, (struct ah_wait){AH_LANE_HOST, held});
        if (i == 4)
            assert_true(atomic_load(&gate.open));
        submit_op(device, AH_LANE_D2H, &down, (struct ah_wait){AH_LANE_COMPUTE, i});
    }
    CHECK_OK(ah_device_drain(device, &err), err);
    assert_int_equal(ah_device_done(device, AH_LANE_D2H), 20);
    pthread_join(opener, NULL);
    ah_device_close(device);
    expect_nothing_left();
}

/* In a full queue, each op keeps its own span, even if no op is done when the last one arrives. */
TEST(streams, keep_apart_what_is_queued)
{
    enum { QUEUE = 6 };
    const struct ah_op fill = fill_op(AH_ARENA_DEVICE, 0, 1000, 1);
    struct gate gate = {false};
    struct ah_error err = {0};
    struct ah_span spans[QUEUE + 1];
    be(0);
    struct ah_device *device = open_device(&(struct ah_device_options){.queue = QUEUE});
    const struct ah_wait held = {AH_LANE_HOST, submit_gate(device, &gate)};
    for (uint64_t i = 1; i <= QUEUE; i++) {
        const struct ah_submission submission = {
            .lane = AH_LANE_COMPUTE, .n_waits = 1, .waits = &held, .op = &fill, .tag = i};
        uint64_t ticket;
        CHECK_OK(ah_device_submit(device, &submission, 1, &ticket, &err), err);
    }
    assert_int_equal(ah_device_done(device, AH_LANE_COMPUTE), 0);
    atomic_store(&gate.open, true);
    CHECK_OK(ah_device_drain(device, &err), err);
    struct ah_span_reader reader = {.lane = AH_LANE_COMPUTE};
    assert_int_equal(ah_device_spans(device, &reader, spans, QUEUE + 1), QUEUE);
    for (uint64_t i = 0; i < QUEUE; i++) {
        assert_int_equal(spans[i].tag, i + 1);
        assert_true(i == 0 || spans[i].start_ns >= spans[i - 1].end_ns);
    }
    ah_device_close(device);
    expect_nothing_left();
}

/* The error names the op that failed, or all ops that may have failed. Every wait on host and GPU ends. */
TEST(streams, name_what_ran_when_the_gpu_failed)
{
    const struct ah_op fill = fill_op(AH_ARENA_DEVICE, 0, 1000, 1),
                       up = copy_op(AH_ARENA_DEVICE, AH_ARENA_PINNED, 0, MIB);
    const struct ah_op host = fill_op(AH_ARENA_PINNED, 0, 1000, 7);
    struct gate gate = {false};
    struct ah_error err = {0};
    be(0);
    struct ah_device *device = open_device(&plain);
    const uint64_t held = submit_gate(device, &gate);
    submit_op(device, AH_LANE_H2D, &up, (struct ah_wait){AH_LANE_HOST, held});
    for (int i = 0; i < 3; i++)
        submit_op(device, AH_LANE_COMPUTE, &fill, (struct ah_wait){AH_LANE_H2D, 1});
    submit_op(device, AH_LANE_HOST, &host, (struct ah_wait){AH_LANE_COMPUTE, 3});
    cuda_double_fail("cudaEventQuery", cuda_double_calls("cudaEventQuery") + 1, cudaErrorIllegalAddress);
    CHECK_FAILS(ah_device_wait(device, AH_LANE_COMPUTE, 3, &err), err, AH_E_FAILED,
                "op 'fill' on lane 'compute': it accessed an address outside the GPU's memory");
    check_text_has(err.text, "one of the 2 ops queued behind it");
    check_text_has(err.text, "--resume");
    atomic_store(&gate.open, true);
    CHECK_FAILS(ah_device_drain(device, &err), err, AH_E_FAILED, "op 'fill' on lane 'compute'");
    submit_op(device, AH_LANE_COMPUTE, &fill, none);
    CHECK_FAILS(ah_device_wait(device, AH_LANE_COMPUTE, 4, &err), err, AH_E_FAILED, "op 'fill'");
    const float *values = ah_device_pointer(device, (struct ah_ref){.arena = AH_ARENA_PINNED});
    assert_true(values[0] == 0); /* skipped */
    ah_device_close(device);
    expect_nothing_left();
}

/* If a launch is refused, its op has failed. The ops behind it are skipped, and tickets still advance. */
TEST(streams, name_an_op_that_is_not_launched)
{
    const struct ah_op fill = fill_op(AH_ARENA_DEVICE, 0, 1000, 1),
                       down = copy_op(AH_ARENA_PINNED, AH_ARENA_DEVICE, 0, 4000);
    struct ah_error err = {0};
    be(0);
    struct ah_device *device = open_device(&plain);
    const uint64_t before = cuda_double_calls("cudaLaunchKernel");
    cuda_double_fail("cudaLaunchKernel", before + 2, cudaErrorLaunchOutOfResources);
    for (int i = 0; i < 3; i++)
        submit_op(device, AH_LANE_COMPUTE, &fill, none);
    submit_op(device, AH_LANE_D2H, &down, (struct ah_wait){AH_LANE_COMPUTE, 3});
    CHECK_FAILS(ah_device_drain(device, &err), err, AH_E_FAILED, "op 'fill' on lane 'compute': ");
    check_text_has(err.text, "its kernel failed");
    assert_int_equal(ah_device_done(device, AH_LANE_COMPUTE), 3);
    assert_int_equal(ah_device_done(device, AH_LANE_D2H), 1);
    assert_true(ah_device_failed(device).any);
    assert_int_equal(ah_device_failed(device).tag, 100 + AH_LANE_COMPUTE);
    assert_int_equal(cuda_double_calls("cudaLaunchKernel"), before + 2);
    ah_device_close(device);
    expect_nothing_left();
}

/* A launch may return the error of an earlier op. Its own op does not count as failed. */
TEST(streams, do_not_blame_the_next_launch)
{
    const struct ah_op up = copy_op(AH_ARENA_DEVICE, AH_ARENA_PINNED, 0, MIB),
                       fill = fill_op(AH_ARENA_DEVICE, 0, 1000, 1);
    struct gate gate = {false};
    struct ah_error err = {0};
    be(0);
    struct ah_device *device = open_device(&plain);
    submit_op(device, AH_LANE_H2D, &up, (struct ah_wait){AH_LANE_HOST, submit_gate(device, &gate)});
    cuda_double_fail("cudaLaunchKernel", cuda_double_calls("cudaLaunchKernel") + 1,
                     cudaErrorECCUncorrectable);
    submit_op(device, AH_LANE_COMPUTE, &fill, none);
    CHECK_FAILS(ah_device_wait(device, AH_LANE_COMPUTE, 1, &err), err, AH_E_FAILED,
                "op 'copy' on lane 'h2d'");
    check_text_has(err.text, "nvidia-smi -q -d ECC");
    atomic_store(&gate.open, true);
    ah_device_close(device);
    expect_nothing_left();
}
