/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests opening the CUDA device, giving it memory, and closing it, on machines simulated by the double.
 */
#include "tests/device/cuda/open.h"

#include <stdio.h>
#include <stdlib.h>

static const struct ah_device_options plain = {.queue = 8};

static struct ah_op product_op(void)
{
    struct ah_op product = {.kind = AH_OP_MATMUL, .u.matmul = {.m = 32, .n = 32, .k = 32}};
    for (uint64_t i = 0; i < 3; i++)
        product.arg[i] = (struct ah_ref){AH_ARENA_DEVICE, AH_FP32, i * 8192, 0};
    return product;
}

static int be_plain(void **state)
{
    const struct cuda_double settings = cuda_double_default();
    (void)state;
    unsetenv("CUDA_VISIBLE_DEVICES");
    cuda_double_set(&settings);
    return 0;
}

static void expect_refused(const struct ah_device_options *options, int code, const char *text)
{
    struct ah_device *device = NULL;
    struct ah_error err = {0};
    CHECK_FAILS(ah_device_open(&device, ah_plugin_driver(), options, &err), err, code, text);
    assert_null(device);
    expect_nothing_left();
}

TEST_IN(device, refuses_by_name, be_plain, NULL)
{
    expect_refused(&(struct ah_device_options){.index = 1}, AH_E_MISSING,
                   "no device 'cuda:1': 1 GPU is visible");
    setenv("CUDA_VISIBLE_DEVICES", "5", 1);
    expect_refused(&(struct ah_device_options){.index = 7}, AH_E_MISSING, "CUDA_VISIBLE_DEVICES is '5'");
    expect_refused(&(struct ah_device_options){.throttle = {.h2d_bytes_per_s = 1}}, AH_E_UNSUPPORTED,
                   "on the device 'cpu'");
    struct cuda_double settings = cuda_double_default();
    settings.devices[0].major = 7;
    settings.devices[0].minor = 5;
    cuda_double_set(&settings);
    expect_refused(&plain, AH_E_MISSING, "compute capability 7.5");
    settings = cuda_double_default();
    snprintf(settings.missing[0], sizeof settings.missing[0], "cuStreamWaitValue64");
    cuda_double_set(&settings);
    expect_refused(&plain, AH_E_MISSING, "lacks 'cuStreamWaitValue64' of CUDA 11.7; upgrade");
    settings = cuda_double_default();
    settings.count_error = cudaErrorInsufficientDriver;
    settings.driver_version = 11040;
    cuda_double_set(&settings);
    expect_refused(&plain, AH_E_MISSING, "too old: it supports CUDA 11.4");
}

/* Without stream memory operations, streams cannot wait for the host. */
TEST_IN(device, needs_stream_memory_operations, be_plain, NULL)
{
    cuda_double_fail("cuDeviceGetAttribute", 1, cudaErrorNotSupported);
    expect_refused(&plain, AH_E_FAILED, "cuDeviceGetAttribute failed");
}

TEST_IN(device, describes_itself, be_plain, NULL)
{
    struct cuda_double settings = cuda_double_default();
    settings.devices[0].others_bytes = 100 * MIB;
    cuda_double_set(&settings);
    struct ah_device *device = open_device(&plain);
    assert_int_equal(device->info.kind, AH_DEVICE_CUDA);
    assert_string_equal(device->info.name, "Double of a GPU");
    check_text_has(device->info.library, "cuBLASLt");
    assert_int_equal(strlen(device->info.address), strlen("0000:00:00.0"));
    assert_int_equal(device->info.memory_bytes, 1024 * MIB);
    assert_true(device->info.free_bytes <= 924 * MIB);
    assert_int_equal(device->info.locked_bytes, 4 * MIB);
    assert_true(device->reserve_bytes >= 100 * MIB && device->reserve_bytes < 512 * MIB);
    assert_null(ah_device_pointer(device, (struct ah_ref){.arena = AH_ARENA_DEVICE}));
    assert_non_null(ah_device_pointer(device, (struct ah_ref){.arena = AH_ARENA_PINNED}));
    assert_non_null(ah_device_pointer(device, (struct ah_ref){.arena = AH_ARENA_PAGEABLE}));
    ah_device_close(device);
    expect_nothing_left();
}

TEST_IN(device, begins_with_zeros, be_plain, NULL)
{
    struct ah_error err = {0};
    struct ah_device *device = open_device(&plain);
    const struct ah_op down = copy_op(AH_ARENA_PINNED, AH_ARENA_DEVICE, 0, 4 * MIB);
    unsigned char *pinned = ah_device_pointer(device, (struct ah_ref){.arena = AH_ARENA_PINNED});
    memset(pinned, 1, 4 * MIB);
    submit_op(device, AH_LANE_D2H, &down, (struct ah_wait){0});
    CHECK_OK(ah_device_drain(device, &err), err);
    for (size_t i = 0; i < 4 * MIB; i++)
        assert_int_equal(pinned[i], 0);
    ah_device_close(device);
    expect_nothing_left();
}

/* The budget suggested by the error fits. */
TEST_IN(device, says_what_fits, be_plain, NULL)
{
    struct cuda_double settings = cuda_double_default();
    uint64_t arena_bytes[AH_ARENA_KINDS] = {0, 100 * MIB, MIB, MIB};
    unsigned long long budget_mib;
    struct ah_device *device;
    struct ah_error err = {0};
    settings.devices[0].memory_bytes = 160 * MIB;
    settings.devices[0].others_bytes = 50 * MIB;
    cuda_double_set(&settings);
    CHECK_OK(ah_device_open(&device, ah_plugin_driver(), &plain, &err), err);
    CHECK_FAILS(ah_device_reserve(device, arena_bytes, &err), err, AH_E_CAPACITY, "an arena of 100.0 MiB");
    const char *budget = strstr(err.text, "--device-memory ");
    assert_non_null(budget);
    assert_int_equal(sscanf(budget, "--device-memory %lluMiB", &budget_mib), 1);
    arena_bytes[AH_ARENA_DEVICE] = budget_mib * MIB - device->reserve_bytes;
    assert_true(arena_bytes[AH_ARENA_DEVICE] > 40 * MIB);
    CHECK_OK(ah_device_reserve(device, arena_bytes, &err), err);
    ah_device_close(device);
    CHECK_OK(ah_device_open(&device, ah_plugin_driver(), &plain, &err), err);
    arena_bytes[AH_ARENA_DEVICE] = UINT64_MAX;
    CHECK_FAILS(ah_device_reserve(device, arena_bytes, &err), err, AH_E_CAPACITY, "cuda:0");
    arena_bytes[AH_ARENA_DEVICE] = MIB;
    arena_bytes[AH_ARENA_PAGEABLE] = UINT64_C(1) << 50;
    CHECK_FAILS(ah_device_reserve(device, arena_bytes, &err), err, AH_E_CAPACITY, "--host-memory");
    ah_device_close(device);
    expect_nothing_left();
}

/* Arena and reserve together may take all memory, even if kernels of products have taken part of the reserve. */
TEST_IN(device, gives_what_the_reserve_leaves, be_plain, NULL)
{
    struct cuda_double settings = cuda_double_default();
    const struct ah_op product = product_op(), fill = fill_op(AH_ARENA_DEVICE, 0, 1025, 0);
    uint64_t arena_bytes[AH_ARENA_KINDS] = {0, 0, MIB, MIB};
    struct ah_device *device;
    struct ah_error err = {0};
    settings.kernel_bytes = 20 * MIB;
    cuda_double_set(&settings);
    CHECK_OK(ah_device_open(&device, ah_plugin_driver(), &plain, &err), err);
    CHECK_OK(ah_device_prepare(device, &product, 1, &err), err);
    CHECK_OK(ah_device_prepare(device, &fill, 1, &err), err);
    arena_bytes[AH_ARENA_DEVICE] = device->info.memory_bytes - device->reserve_bytes + 1;
    CHECK_FAILS(ah_device_reserve(device, arena_bytes, &err), err, AH_E_CAPACITY, "of GPU memory is free");
    arena_bytes[AH_ARENA_DEVICE]--;
    CHECK_OK(ah_device_reserve(device, arena_bytes, &err), err);
    ah_device_close(device);
    expect_nothing_left();
}

/* Arena and reserve stay within the budget. If they would exceed it, nothing is allocated. */
TEST_IN(device, keeps_a_budget, be_plain, NULL)
{
    struct ah_device_options options = {.memory_bytes = 256 * MIB};
    const uint64_t arena_bytes[AH_ARENA_KINDS] = {0, 256 * MIB, MIB, MIB};
    struct ah_device *device;
    struct ah_error err = {0};
    CHECK_OK(ah_device_open(&device, ah_plugin_driver(), &options, &err), err);
    const size_t before = cuda_double_alive().device_bytes;
    CHECK_FAILS(ah_device_reserve(device, arena_bytes, &err), err, AH_E_CAPACITY, "device memory given");
    assert_int_equal(cuda_double_alive().device_bytes, before);
    ah_device_close(device);
    expect_nothing_left();
}

/* If the context is a few pages larger than when the plan was made, the reserve is unchanged. */
TEST_IN(device, has_a_reserve_in_steps, be_plain, NULL)
{
    struct cuda_double settings = cuda_double_default();
    struct ah_device *device;
    struct ah_error err = {0};
    uint64_t reserves[3];
    for (size_t i = 0; i < 3; i++) {
        settings.devices[0].others_bytes = (i < 2 ? 100 + 6 * i : 140) * MIB;
        cuda_double_set(&settings);
        CHECK_OK(ah_device_open(&device, ah_plugin_driver(), &plain, &err), err);
        reserves[i] = device->reserve_bytes;
        ah_device_close(device);
        expect_nothing_left();
    }
    assert_int_equal(reserves[1], reserves[0]);
    assert_in_range(reserves[2], reserves[0] + MIB, reserves[0] + 64 * MIB);
}

TEST_IN(device, says_why_memory_is_not_locked, be_plain, NULL)
{
    const uint64_t arena_bytes[AH_ARENA_KINDS] = {0, MIB, 2 * MIB, MIB};
    struct ah_device *device;
    struct ah_error err = {0};
    CHECK_OK(ah_device_open(&device, ah_plugin_driver(), &plain, &err), err);
    const size_t before = cuda_double_alive().device_bytes;
    cuda_double_fail("cudaHostRegister", 1, cudaErrorMemoryAllocation);
    CHECK_FAILS(ah_device_reserve(device, arena_bytes, &err), err, AH_E_CAPACITY, "could not lock 2.0 MiB");
    check_text_has(err.text, "ulimit -l");
    assert_int_equal(cuda_double_alive().device_bytes, before);
    CHECK_OK(ah_device_reserve(device, arena_bytes, &err), err); /* the failure left nothing allocated */
    ah_device_close(device);
    expect_nothing_left();
}

/* Memory is locked in pieces no larger than the driver can lock at once. A copy may span two pieces. */
TEST_IN(device, locks_in_pieces, be_plain, NULL)
{
    enum { BYTES = 4000 };
    struct cuda_double settings = cuda_double_default();
    const uint64_t half = 2 * MIB - BYTES / 2;
    const struct ah_op up = copy_op(AH_ARENA_DEVICE, AH_ARENA_PINNED, half, BYTES);
    struct ah_op down = copy_op(AH_ARENA_PINNED, AH_ARENA_DEVICE, half, BYTES);
    struct ah_error err = {0};
    settings.devices[0].pin_bytes = 3 * MIB;
    cuda_double_set(&settings);
    struct ah_device *device = open_device(&plain);
    assert_int_equal(device->info.locked_bytes, 4 * MIB);
    assert_int_equal(cuda_double_alive().pinned_ranges, 3); /* two pieces of the arena, and the signal */
    unsigned char *from = ah_device_pointer(device, up.arg[1]);
    for (size_t i = 0; i < BYTES; i++)
        from[i] = (unsigned char)(i * 7);
    uint64_t ticket = submit_op(device, AH_LANE_H2D, &up, (struct ah_wait){0});
    down.arg[0].offset_bytes = 2 * MIB - 1;
    submit_op(device, AH_LANE_D2H, &down, (struct ah_wait){AH_LANE_H2D, ticket});
    CHECK_OK(ah_device_drain(device, &err), err);
    const unsigned char *to = ah_device_pointer(device, down.arg[0]);
    for (size_t i = 0; i < BYTES; i++)
        assert_int_equal(to[i], (unsigned char)(i * 7));
    ah_device_close(device);
    expect_nothing_left();
}

/* If the second piece cannot be locked, the first does not stay locked. */
TEST_IN(device, locks_all_pieces_or_none, be_plain, NULL)
{
    struct cuda_double settings = cuda_double_default();
    const uint64_t arena_bytes[AH_ARENA_KINDS] = {0, MIB, 4 * MIB, MIB};
    struct ah_device *device;
    struct ah_error err = {0};
    settings.devices[0].pin_bytes = 3 * MIB;
    cuda_double_set(&settings);
    CHECK_OK(ah_device_open(&device, ah_plugin_driver(), &plain, &err), err);
    cuda_double_fail("cudaHostRegister", 3, cudaErrorMemoryAllocation);
    CHECK_FAILS(ah_device_reserve(device, arena_bytes, &err), err, AH_E_CAPACITY, "could not lock 4.0 MiB");
    assert_int_equal(cuda_double_calls("cudaHostRegister"), 3);
    assert_int_equal(cuda_double_alive().pinned_ranges, 1);
    CHECK_OK(ah_device_reserve(device, arena_bytes, &err), err);
    ah_device_close(device);
    expect_nothing_left();
}

/* Each device has its own GPU, and any thread may wait for either device. */
TEST_IN(device, is_one_of_several, be_plain, NULL)
{
    struct cuda_double settings = cuda_double_default();
    struct ah_error err = {0};
    settings.n = 2;
    settings.devices[1].name = "Other";
    cuda_double_set(&settings);
    struct ah_device *second = open_device(&(struct ah_device_options){.index = 1, .queue = 8});
    struct ah_device *first = open_device(&plain);
    assert_string_equal(second->info.name, "Other");
    const struct ah_op fill = fill_op(AH_ARENA_DEVICE, 0, 1000, 3);
    const struct ah_op down = copy_op(AH_ARENA_PINNED, AH_ARENA_DEVICE, 0, 4000), product = product_op();
    const struct ah_submission multiply = {.lane = AH_LANE_COMPUTE, .op = &product};
    CHECK_OK(ah_device_prepare(first, &product, 1, &err), err);
    CHECK_OK(ah_device_prepare(second, &product, 1, &err), err);
    for (int i = 0; i < 2; i++) {
        struct ah_device *device = i ? first : second;
        CHECK_OK(ah_device_submit(device, &multiply, 1, NULL, &err), err);
        uint64_t ticket = submit_op(device, AH_LANE_COMPUTE, &fill, (struct ah_wait){0});
        submit_op(device, AH_LANE_D2H, &down, (struct ah_wait){AH_LANE_COMPUTE, ticket});
    }
    CHECK_OK(ah_device_drain(second, &err), err);
    CHECK_OK(ah_device_drain(first, &err), err);
    const float *values = ah_device_pointer(second, (struct ah_ref){.arena = AH_ARENA_PINNED});
    assert_true(values[999] == 3);
    ah_device_close(first);
    ah_device_close(second);
    expect_nothing_left();
}

/* One op of each kind is launched before the program submits its first op. These launches leave no trace. */
TEST_IN(device, loads_kernels_ahead, be_plain, NULL)
{
    const struct ah_op ops[] = {fill_op(AH_ARENA_DEVICE, 0, 1000, 7), fill_op(AH_ARENA_DEVICE, 4096, 1000, 7),
                                fill_op(AH_ARENA_DEVICE, 8192, 2000, 7), fill_op(AH_ARENA_PINNED, 0, 1000, 7),
                                fill_op(AH_ARENA_DEVICE, 64 * MIB, 1001, 7)};
    const struct ah_op down = copy_op(AH_ARENA_PINNED, AH_ARENA_DEVICE, 0, MIB);
    const uint64_t arena_bytes[AH_ARENA_KINDS] = {0, MIB, MIB, MIB};
    struct ah_device *device;
    struct ah_error err = {0};
    CHECK_OK(ah_device_open(&device, ah_plugin_driver(), &plain, &err), err);
    CHECK_OK(ah_device_prepare(device, ops, 3, &err), err);
    CHECK_OK(ah_device_prepare(device, ops, 5, &err), err);
    assert_int_equal(cuda_double_calls("cudaLaunchKernel"), 0);
    CHECK_OK(ah_device_reserve(device, arena_bytes, &err), err);
    assert_int_equal(cuda_double_calls("cudaLaunchKernel"), 2);
    CHECK_OK(ah_device_prepare(device, ops, 5, &err), err);
    assert_int_equal(cuda_double_calls("cudaLaunchKernel"), 2);
    const float *values = ah_device_pointer(device, (struct ah_ref){.arena = AH_ARENA_PINNED});
    submit_op(device, AH_LANE_D2H, &down, (struct ah_wait){0});
    CHECK_OK(ah_device_drain(device, &err), err);
    for (size_t i = 0; i < MIB / sizeof *values; i++)
        assert_true(values[i] == 0);
    ah_device_close(device);
    expect_nothing_left();
}

static struct ah_op attention_op(uint32_t past)
{
    struct ah_op op = {.kind = AH_OP_ATTENTION};
    for (uint32_t i = 0; i < 5; i++)
        op.arg[i] = (struct ah_ref){AH_ARENA_DEVICE, i == 1 ? AH_FP32 : AH_BF16, i * 65536, 0};
    op.u.attention = (struct ah_op_attention){
        .batch = 1, .seq = 3, .heads = 2, .kv_heads = 1, .head_dim = 8, .scale = 1, .past = past};
    return op;
}

/* Attention is prepared for every `past` at once, in one launch. */
TEST_IN(device, prepares_attention_for_any_past, be_plain, NULL)
{
    const struct ah_op ops[] = {attention_op(0), attention_op(70)}, other = attention_op(200);
    const uint64_t arena_bytes[AH_ARENA_KINDS] = {0, MIB, MIB, MIB};
    struct ah_device *device;
    struct ah_error err = {0};
    CHECK_OK(ah_device_open(&device, ah_plugin_driver(), &plain, &err), err);
    CHECK_OK(ah_device_prepare(device, ops, 2, &err), err);
    CHECK_OK(ah_device_reserve(device, arena_bytes, &err), err);
    assert_int_equal(cuda_double_calls("cudaLaunchKernel"), 1);
    submit_op(device, AH_LANE_COMPUTE, &other, (struct ah_wait){0});
    CHECK_OK(ah_device_drain(device, &err), err);
    assert_int_equal(cuda_double_calls("cudaLaunchKernel"), 2);
    ah_device_close(device);
    expect_nothing_left();
}

TEST_IN(device, wants_products_prepared, be_plain, NULL)
{
    const struct ah_op product = product_op();
    struct ah_error err = {0};
    struct ah_device *device = open_device(&plain);
    const struct ah_submission submission = {.lane = AH_LANE_COMPUTE, .op = &product};
    CHECK_FAILS(ah_device_submit(device, &submission, 1, NULL, &err), err, AH_E_USAGE, "not prepared");
    assert_int_equal(ah_device_submitted(device, AH_LANE_COMPUTE), 0);
    const uint64_t before = device->reserve_bytes;
    CHECK_OK(ah_device_prepare(device, &product, 1, &err), err);
    assert_true(device->reserve_bytes >= before);
    CHECK_OK(ah_device_submit(device, &submission, 1, NULL, &err), err);
    CHECK_OK(ah_device_drain(device, &err), err);
    ah_device_close(device);
    expect_nothing_left();
}
