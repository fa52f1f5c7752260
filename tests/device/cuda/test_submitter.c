/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests the thread that submits: its processor, how far ahead it gets, and in which order it takes memory.
 */
#include "tests/device/cuda/open.h"

static const struct ah_wait none = {0};

/* Until the device is closed, no other thread of ours uses the submitter's processor. */
TEST(submitter, has_a_processor)
{
    const struct ah_device_options options = {.pin_submitter = true};
    const struct cuda_double settings = cuda_double_default();
    unsigned before[1024], during[1024], after[1024];
    const unsigned n = ah_threads_cpus(before, 1024);
    cuda_double_set(&settings);
    struct ah_device *device = open_device(&options);
    const unsigned n_during = ah_threads_cpus(during, 1024);
    ah_device_close(device);
    assert_int_equal(n_during, n > 1 ? 1 : n);
    assert_int_equal(ah_threads_cpus(after, 1024), n);
    assert_memory_equal(before, after, n * sizeof before[0]);
    device = open_device(&(struct ah_device_options){0}); /* without the option, the thread stays */
    assert_int_equal(ah_threads_cpus(during, 1024), n);
    ah_device_close(device);
    expect_nothing_left();
}

static int note_processors(void *context, struct ah_error *err)
{
    unsigned *cpu = context, cpus[1024];
    (void)err;
    *cpu = ah_threads_cpus(cpus, 1024) == 1 ? cpus[0] : UINT32_MAX;
    return AH_OK;
}

TEST(submitter, is_not_where_the_host_lane_is)
{
    const struct ah_device_options options = {.pin_submitter = true, .host_threads = 1024};
    const struct cuda_double settings = cuda_double_default();
    unsigned host = UINT32_MAX, mine[1024];
    const struct ah_op call = {.kind = AH_OP_CALL, .u.call = {note_processors, &host}};
    struct ah_error err = {0};
    if (ah_threads_cpus(mine, 1024) < 2)
        check_skip("one processor");
    cuda_double_set(&settings);
    struct ah_device *device = open_device(&options);
    submit_op(device, AH_LANE_HOST, &call, none);
    CHECK_OK(ah_device_drain(device, &err), err);
    assert_int_equal(ah_threads_cpus(mine, 1024), 1);
    assert_int_not_equal(host, UINT32_MAX);
    assert_int_not_equal(host, mine[0]);
    ah_device_close(device);
    expect_nothing_left();
}

/* Ranks on other GPUs use the same processors, so no thread is pinned. */
TEST(submitter, and_the_host_lane_are_free_beside_other_ranks)
{
    const struct ah_device_options options = {.pin_submitter = true, .shared = true};
    const struct cuda_double settings = cuda_double_default();
    unsigned host = 0, mine[1024];
    const struct ah_op call = {.kind = AH_OP_CALL, .u.call = {note_processors, &host}};
    struct ah_error err = {0};
    const unsigned before = ah_threads_cpus(mine, 1024);
    if (before < 2)
        check_skip("one processor");
    cuda_double_set(&settings);
    struct ah_device *device = open_device(&options);
    submit_op(device, AH_LANE_HOST, &call, none);
    CHECK_OK(ah_device_drain(device, &err), err);
    assert_int_equal(ah_threads_cpus(mine, 1024), before);
    assert_int_equal(host, UINT32_MAX);
    ah_device_close(device);
    expect_nothing_left();
}

/* The submitter continues while none of a copy lane's first 192 ops is done. */
TEST(submitter, gets_192_copies_ahead)
{
    const struct ah_op up = copy_op(AH_ARENA_DEVICE, AH_ARENA_PINNED, MIB, 4000);
    const struct cuda_double settings = cuda_double_default();
    struct gate gate = {false};
    struct ah_error err = {0};
    cuda_double_set(&settings);
    struct ah_device *device = open_device(&(struct ah_device_options){0});
    const struct ah_wait held = {AH_LANE_HOST, submit_gate(device, &gate)};
    for (int i = 0; i < 192; i++)
        submit_op(device, AH_LANE_H2D, &up, held);
    assert_int_equal(ah_device_done(device, AH_LANE_H2D), 0);
    atomic_store(&gate.open, true);
    CHECK_OK(ah_device_drain(device, &err), err);
    assert_int_equal(ah_device_done(device, AH_LANE_H2D), 192);
    ah_device_close(device);
    expect_nothing_left();
}

/* Page tables of pinned memory are on the GPU, so memory is pinned first. If pinning fails, no arena was allocated. */
TEST(submitter, pins_before_it_takes_the_arena)
{
    const uint64_t arena_bytes[AH_ARENA_KINDS] = {0, 4 * MIB, 4 * MIB, 4 * MIB};
    const struct cuda_double settings = cuda_double_default();
    struct ah_device *device = NULL;
    struct ah_error err = {0};
    cuda_double_set(&settings);
    CHECK_OK(ah_device_open(&device, ah_plugin_driver(), &(struct ah_device_options){0}, &err), err);
    const uint64_t before = cuda_double_calls("cudaMalloc");
    cuda_double_fail("cudaHostRegister", cuda_double_calls("cudaHostRegister") + 1, cudaErrorIllegalAddress);
    assert_int_not_equal(ah_device_reserve(device, arena_bytes, &err), AH_OK);
    assert_int_equal(cuda_double_calls("cudaMalloc"), before);
    ah_device_close(device);
}
