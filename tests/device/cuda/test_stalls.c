/* SPDX-License-Identifier: Apache-2.0
 *
 * Makes each kind of wait on a GPU hang in turn. The watch must say which lane delays the others, and why. Afterwards
 * the double stops hanging, so that the device can be closed. The program starts to wait only once the lanes have
 * settled, which may take long on a busy machine.
 */
#include "tests/device/cuda/open.h"

#include <pthread.h>

static const struct ah_wait none = {0};

/* A patience for tests in which the program reaches the hang only after it has begun to wait. */
static const double LONG_S = 1;

struct told {
    atomic_uint n;
    struct ah_error why;
    struct gate *gate; /* opened on a stall; NULL: only hangs of the double end */
};

static void stalled(void *context, const struct ah_error *why)
{
    struct told *told = context;
    told->why = *why;
    atomic_fetch_add(&told->n, 1);
    if (told->gate)
        atomic_store(&told->gate->open, true);
    cuda_double_go_on();
}

static struct ah_device *open_watched(struct told *told, double patience_s)
{
    const struct ah_device_options options = {
        .queue = 8, .watch = {.patience_s = patience_s, .stalled = stalled, .context = told}};
    const struct cuda_double settings = cuda_double_default();
    *told = (struct told){0};
    cuda_double_set(&settings);
    return open_device(&options);
}

static void expect_told(const struct told *told, const char *const texts[])
{
    assert_int_equal(atomic_load(&told->n), 1);
    assert_int_equal(told->why.code, AH_E_STALLED);
    for (; *texts; texts++)
        if (!strstr(told->why.text, *texts))
            fail_msg("'%s' is not in: %s", *texts, told->why.text);
}

/* Waits until something hangs and `done` ops of the lane are done. */
static void settle(struct ah_device *device, uint32_t lane, uint64_t done)
{
    wait_until_hanging(1);
    while (ah_device_done(device, lane) < done)
        ah_threads_sleep_until_ns(ah_threads_now_ns() + 100000);
}

/* Submits a copy up, a fill on compute, a copy down and a copy on the host. Each waits for the op before it. */
static void submit_chain(struct ah_device *device)
{
    const struct ah_op fill = fill_op(AH_ARENA_DEVICE, 0, 1025, 3);
    const struct ah_op up = copy_op(AH_ARENA_DEVICE, AH_ARENA_PINNED, MIB, 4000);
    const struct ah_op down = copy_op(AH_ARENA_PINNED, AH_ARENA_DEVICE, 0, 4000);
    const struct ah_op keep = copy_op(AH_ARENA_PAGEABLE, AH_ARENA_PINNED, 0, 4000);
    submit_op(device, AH_LANE_H2D, &up, none);
    submit_op(device, AH_LANE_COMPUTE, &fill, (struct ah_wait){AH_LANE_H2D, 1});
    submit_op(device, AH_LANE_D2H, &down, (struct ah_wait){AH_LANE_COMPUTE, 1});
    submit_op(device, AH_LANE_HOST, &keep, (struct ah_wait){AH_LANE_D2H, 1});
}

static void expect_chain_stalls(const char *call, uint64_t copies_before, const char *const texts[])
{
    struct told told;
    struct ah_error err = {0};
    struct ah_device *device = open_watched(&told, 0.3);
    hang_next(call, 0);
    submit_chain(device);
    settle(device, AH_LANE_H2D, copies_before);
    CHECK_OK(ah_device_wait(device, AH_LANE_HOST, 1, &err), err);
    expect_told(&told, texts);
    ah_device_close(device);
    expect_nothing_left();
}

TEST(stalls, of_a_copy)
{
    expect_chain_stalls("cudaMemcpyAsync", 0,
                        (const char *[]){"while the program waits for op 1 of lane 'host'",
                                         "; h2d: 0 of 1 done, op 1 'copy' has started but not finished",
                                         "; compute: 0 of 1 done, op 1 'fill' waits for op 1 of h2d",
                                         "; d2h: 0 of 1 done, op 1 'copy' waits for op 1 of compute",
                                         "; host: 0 of 1 done, op 1 'copy' waits for op 1 of d2h", NULL});
}

TEST(stalls, of_a_kernel)
{
    expect_chain_stalls("cudaLaunchKernel", 1,
                        (const char *[]){"; compute: 0 of 1 done, op 1 'fill' has started but not finished",
                                         "; h2d: 1 of 1 done;",
                                         "; host: 0 of 1 done, op 1 'copy' waits for op 1 of d2h", NULL});
}

/* The event is never recorded on the GPU, so the op never seems to end. */
TEST(stalls, of_an_event)
{
    expect_chain_stalls(
        "cudaEventRecord", 0,
        (const char *[]){"; h2d: 0 of 1 done, op 1 'copy' has started but not finished", NULL});
}

/* The stream never notices that an event has happened, although all its waits are met. */
TEST(stalls, of_a_wait_for_an_event)
{
    struct gate gate = {false};
    struct told told;
    struct ah_error err = {0};
    const struct ah_op fill = fill_op(AH_ARENA_DEVICE, 0, 1025, 3);
    const struct ah_op up = copy_op(AH_ARENA_DEVICE, AH_ARENA_PINNED, MIB, 4000);
    struct ah_device *device = open_watched(&told, 0.3);
    submit_gate(device, &gate);
    submit_op(device, AH_LANE_H2D, &up, (struct ah_wait){AH_LANE_HOST, 1});
    hang_next("cudaStreamWaitEvent", 0);
    submit_op(device, AH_LANE_COMPUTE, &fill, (struct ah_wait){AH_LANE_H2D, 1});
    atomic_store(&gate.open, true);
    settle(device, AH_LANE_H2D, 1);
    CHECK_OK(ah_device_drain(device, &err), err);
    expect_told(&told, (const char *[]){"; compute: 0 of 1 done, op 1 'fill' has started but not finished",
                                        "; h2d: 1 of 1 done;", NULL});
    ah_device_close(device);
    expect_nothing_left();
}

/* The stream never notices the value for which it waits, although the host has written it. */
TEST(stalls, of_a_value_of_the_host)
{
    struct gate gate = {false};
    struct told told;
    struct ah_error err = {0};
    const struct ah_op up = copy_op(AH_ARENA_DEVICE, AH_ARENA_PINNED, MIB, 4000);
    struct ah_device *device = open_watched(&told, 0.3);
    submit_gate(device, &gate);
    hang_next("cuStreamWaitValue64", 0);
    submit_op(device, AH_LANE_H2D, &up, (struct ah_wait){AH_LANE_HOST, 1});
    atomic_store(&gate.open, true);
    settle(device, AH_LANE_HOST, 1);
    CHECK_OK(ah_device_drain(device, &err), err);
    expect_told(&told, (const char *[]){"; h2d: 0 of 1 done, op 1 'copy' has started but not finished",
                                        "; host: 1 of 1 done", NULL});
    ah_device_close(device);
    expect_nothing_left();
}

/* A full channel keeps the submitter inside the driver. */
TEST(stalls, of_a_full_channel)
{
    struct told told;
    struct ah_error err = {0};
    const struct ah_op up = copy_op(AH_ARENA_DEVICE, AH_ARENA_PINNED, MIB, 4000);
    struct ah_device *device = open_watched(&told, LONG_S);
    cuda_double_narrow(4);
    hang_next("cudaMemcpyAsync", 0);
    for (int i = 0; i < 4; i++)
        submit_op(device, AH_LANE_H2D, &up, none);
    CHECK_OK(ah_device_drain(device, &err), err);
    expect_told(&told,
                (const char *[]){"while the program submits 1 op;",
                                 "; h2d: 0 of 2 done, op 1 'copy' has started but not finished: the driver "
                                 "blocks the thread that enqueues the next op;",
                                 NULL});
    ah_device_close(device);
    expect_nothing_left();
}

/* Our own queue is full, so the submitter waits outside the driver. */
TEST(stalls, of_a_full_queue)
{
    struct told told;
    struct ah_error err = {0};
    const struct ah_op up = copy_op(AH_ARENA_DEVICE, AH_ARENA_PINNED, MIB, 4000);
    struct ah_device *device = open_watched(&told, LONG_S);
    hang_next("cudaMemcpyAsync", 0);
    for (int i = 0; i < 9; i++)
        submit_op(device, AH_LANE_H2D, &up, none);
    CHECK_OK(ah_device_drain(device, &err), err);
    expect_told(&told,
                (const char *[]){"while the program submits 1 op; ",
                                 "; h2d: 0 of 8 done, op 1 'copy' has started but not finished; d2h: 0 of 0",
                                 NULL});
    ah_device_close(device);
    expect_nothing_left();
}

/* The call that queries which ops are done does not return. */
TEST(stalls, of_a_question)
{
    struct told told;
    struct ah_error err = {0};
    const struct ah_op up = copy_op(AH_ARENA_DEVICE, AH_ARENA_PINNED, MIB, 4000);
    struct ah_device *device = open_watched(&told, LONG_S);
    submit_op(device, AH_LANE_H2D, &up, none);
    hang_next("cudaEventQuery", 0);
    CHECK_OK(ah_device_wait(device, AH_LANE_H2D, 1, &err), err);
    expect_told(&told,
                (const char *[]){
                    "; h2d: 0 of 1 done, the driver blocks the thread that polls for finished ops;", NULL});
    ah_device_close(device);
    expect_nothing_left();
}

TEST(stalls, of_a_synchronization)
{
    struct told told;
    struct ah_device *device = open_watched(&told, 0.3);
    hang_next("cudaStreamSynchronize", 0);
    ah_device_close(device);
    expect_told(
        &told, (const char *[]){"while the program waits for all lanes, to close the device; compute: 0 of 0",
                                NULL});
    expect_nothing_left();
}

/* An op of the host lane that neither works nor ends until it is told. */
static int sleep_until_told(void *context, struct ah_error *err)
{
    struct told *told = context;
    (void)err;
    while (!atomic_load(&told->n))
        ah_threads_sleep_until_ns(ah_threads_now_ns() + UINT64_C(1000000000));
    return AH_OK;
}

TEST(stalls, of_the_host_lane)
{
    struct told told;
    struct ah_error err = {0};
    const struct ah_op call = {.kind = AH_OP_CALL, .u.call = {sleep_until_told, &told}};
    const struct ah_op up = copy_op(AH_ARENA_DEVICE, AH_ARENA_PINNED, MIB, 4000);
    struct ah_device *device = open_watched(&told, 0.3);
    submit_op(device, AH_LANE_HOST, &call, none);
    submit_op(device, AH_LANE_H2D, &up, (struct ah_wait){AH_LANE_HOST, 1});
    CHECK_OK(ah_device_drain(device, &err), err);
    expect_told(&told,
                (const char *[]){"; h2d: 0 of 1 done, op 1 'copy' waits for op 1 of host",
                                 "; host: 0 of 1 done, op 1 'call' has started but not finished", NULL});
    ah_device_close(device);
    expect_nothing_left();
}

TEST(stalls, of_a_kernel_that_is_tried_on_zeros)
{
    const uint64_t arena_bytes[AH_ARENA_KINDS] = {0, 4 * MIB, 4 * MIB, 4 * MIB};
    const struct ah_op fill = fill_op(AH_ARENA_DEVICE, 0, 1025, 0);
    const struct cuda_double settings = cuda_double_default();
    struct told told = {0};
    const struct ah_device_options options = {
        .watch = {.patience_s = LONG_S, .stalled = stalled, .context = &told}};
    struct ah_device *device = NULL;
    struct ah_error err = {0};
    cuda_double_set(&settings);
    CHECK_OK(ah_device_open(&device, ah_plugin_driver(), &options, &err), err);
    CHECK_OK(ah_device_prepare(device, &fill, 1, &err), err);
    hang_next("cudaLaunchKernel", 0);
    CHECK_OK(ah_device_reserve(device, arena_bytes, &err), err);
    expect_told(&told, (const char *[]){"while the program tries op 'fill' on zeros; ", NULL});
    ah_device_close(device);
    expect_nothing_left();
}

/* Works until the gate is open. */
static int work_on(void *context, struct ah_error *err)
{
    struct gate *gate = context;
    (void)err;
    while (!atomic_load(&gate->open))
        ;
    return AH_OK;
}

enum { NAPS_MOST = 6000, NAP_NS = 5000000 };

static void nap(void)
{
    ah_threads_sleep_until_ns(ah_threads_now_ns() + NAP_NS);
}

/* An op that works keeps moving the pulse observed by the watch (tests/unit/device/test_watch.c). */
TEST(stalls, are_not_ops_that_work)
{
    enum { MOVES = 4 };
    struct gate gate = {false};
    struct told told;
    struct ah_error err = {0};
    const struct ah_op call = {.kind = AH_OP_CALL, .u.call = {work_on, &gate}};
    struct ah_device *device = open_watched(&told, 0);
    submit_op(device, AH_LANE_HOST, &call, none);
    uint64_t last = device->driver->pulse(device);
    int moves = 0;
    for (int i = 0; i < NAPS_MOST && moves < MOVES; i++) {
        nap();
        const uint64_t now = device->driver->pulse(device);
        moves += now != last;
        last = now;
    }
    atomic_store(&gate.open, true);
    CHECK_OK(ah_device_drain(device, &err), err);
    assert_int_equal(moves, MOVES);
    ah_device_close(device);
    expect_nothing_left();
}

/* Ends the hang after the pulse has counted all copies. */
struct copies {
    struct ah_device *device;
    uint64_t pulse;
    bool seen;
};

static void *await_copies(void *context)
{
    struct copies *copies = context;
    for (int i = 0; i < NAPS_MOST && !copies->seen; i++) {
        nap();
        copies->seen = copies->device->driver->pulse(copies->device) == copies->pulse;
    }
    cuda_double_go_on();
    return NULL;
}

/* The program waits for something else. Meanwhile, copies end and move the pulse. */
TEST(stalls, are_not_other_lanes_that_go_on)
{
    enum { COPIES = 3 };
    struct told told;
    struct ah_error err = {0};
    const struct ah_op up = copy_op(AH_ARENA_DEVICE, AH_ARENA_PINNED, MIB, 4000);
    const struct ah_op fill = fill_op(AH_ARENA_DEVICE, 0, 1025, 3);
    struct ah_device *device = open_watched(&told, 0);
    struct copies copies = {device, device->driver->pulse(device) + 1 + 2 * COPIES, false};
    pthread_t thread;
    hang_next("cudaLaunchKernel", 0);
    submit_op(device, AH_LANE_COMPUTE, &fill, none);
    for (int i = 0; i < COPIES; i++)
        submit_op(device, AH_LANE_H2D, &up, none);
    assert_int_equal(pthread_create(&thread, NULL, await_copies, &copies), 0);
    CHECK_OK(ah_device_wait(device, AH_LANE_COMPUTE, 1, &err), err);
    pthread_join(thread, NULL);
    assert_true(copies.seen);
    ah_device_close(device);
    expect_nothing_left();
}
