/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests passing locked host memory on from one device to the next.
 */
#include "tests/device/cuda/open.h"

#include <stdio.h>

/* Opens a device with these arenas; the GPU's arena has 1 MiB. */
static struct ah_device *open_with(struct ah_device_keep *keep, uint32_t index, uint64_t pinned_bytes,
                                   uint64_t pageable_bytes, int expected)
{
    const struct ah_device_options options = {.index = index, .queue = 8, .keep = keep};
    const struct ah_op fill = fill_op(AH_ARENA_DEVICE, 0, 1025, 0);
    const uint64_t arena_bytes[AH_ARENA_KINDS] = {0, MIB, pinned_bytes, pageable_bytes};
    struct ah_device *device = NULL;
    struct ah_error err = {0};
    CHECK_OK(ah_device_open(&device, ah_plugin_driver(), &options, &err), err);
    CHECK_OK(ah_device_prepare(device, &fill, 1, &err), err);
    assert_int_equal(ah_device_reserve(device, arena_bytes, &err), expected);
    return device;
}

static unsigned char *pinned_of(struct ah_device *device)
{
    return ah_device_pointer(device, (struct ah_ref){.arena = AH_ARENA_PINNED});
}

static bool is_zero(const unsigned char *bytes, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        if (bytes[i])
            return false;
    return true;
}

/* A smaller arena uses the memory locked for a larger one, zeroed. A larger arena is locked anew. */
TEST(pinned, is_locked_once)
{
    static const struct {
        uint64_t bytes, registered;
    } turns[] = {{8 * MIB, 1}, {4 * MIB, 1}, {8 * MIB, 1}, {0, 1}, {7 * MIB, 1}, {16 * MIB, 2}, {8 * MIB, 2}};
    struct cuda_double settings = cuda_double_default();
    struct ah_device_keep keep = {0};
    cuda_double_set(&settings);
    for (size_t i = 0; i < sizeof turns / sizeof *turns; i++) {
        struct ah_device *device = open_with(&keep, 0, turns[i].bytes, MIB, AH_OK);
        assert_int_equal(cuda_double_calls("cudaHostRegister"), turns[i].registered);
        assert_int_equal(device->info.locked_bytes, turns[i].bytes);
        if (turns[i].bytes) {
            assert_true(is_zero(pinned_of(device), turns[i].bytes));
            memset(pinned_of(device), 7, turns[i].bytes);
        }
        ah_device_close(device);
        assert_non_null(keep.memory);
        assert_int_equal(cuda_double_alive().pinned_ranges, 1);
    }
    ah_device_keep_release(&keep);
    assert_null(keep.memory);
    expect_nothing_left();
}

TEST(pinned, nothing_outlives_a_device_without_a_keep)
{
    struct cuda_double settings = cuda_double_default();
    cuda_double_set(&settings);
    for (unsigned turn = 1; turn <= 2; turn++) {
        ah_device_close(open_with(NULL, 0, 8 * MIB, MIB, AH_OK));
        assert_int_equal(cuda_double_calls("cudaHostRegister"), turn);
        expect_nothing_left();
    }
}

/* Drivers lock large memory in pieces. All its pieces are kept together and freed together. */
TEST(pinned, pieces_are_kept)
{
    struct cuda_double settings = cuda_double_default();
    struct ah_device_keep keep = {0};
    settings.devices[0].pin_bytes = 2 * MIB;
    cuda_double_set(&settings);
    ah_device_close(open_with(&keep, 0, 7 * MIB, MIB, AH_OK));
    assert_int_equal(cuda_double_alive().pinned_ranges, 4);
    struct ah_device *device = open_with(&keep, 0, 5 * MIB, MIB, AH_OK);
    const struct ah_op across = copy_op(AH_ARENA_DEVICE, AH_ARENA_PINNED, MIB / 2, MIB / 2);
    (void)submit_op(device, AH_LANE_H2D, &across, (struct ah_wait){0});
    ah_device_close(device);
    ah_device_keep_release(&keep);
    expect_nothing_left();
}

/* The memory that a plan may use is the same whether or not it was locked before. */
TEST(pinned, page_tables_are_no_part_of_the_context)
{
    struct cuda_double settings = cuda_double_default();
    struct ah_device_keep keep = {0};
    uint64_t reserved[2], beside[2];
    settings.page_bytes = 5 * MIB; /* 40 MiB of tables for 8 MiB of memory */
    cuda_double_set(&settings);
    for (unsigned turn = 0; turn < 2; turn++) {
        struct ah_device *device = open_with(&keep, 0, 8 * MIB, MIB, AH_OK);
        reserved[turn] = device->reserve_bytes;
        beside[turn] = device->info.outside_bytes;
        ah_device_close(device);
    }
    assert_int_equal(reserved[0], reserved[1]);
    assert_true(beside[0] >= 40 * MIB);
    assert_int_equal(beside[0], beside[1]);
    ah_device_keep_release(&keep);
    expect_nothing_left();
}

TEST(pinned, another_gpu_locks_its_own)
{
    struct cuda_double settings = cuda_double_default();
    struct ah_device_keep keep = {0};
    settings.n = 2;
    settings.devices[1] = settings.devices[0];
    cuda_double_set(&settings);
    ah_device_close(open_with(&keep, 0, 8 * MIB, MIB, AH_OK));
    ah_device_close(open_with(&keep, 1, 4 * MIB, MIB, AH_OK));
    assert_int_equal(cuda_double_calls("cudaHostRegister"), 2);
    assert_int_equal(cuda_double_alive().pinned_ranges, 1);
    ah_device_keep_release(&keep);
    expect_nothing_left();
}

/* Kept memory is freed before a plan is refused for lack of host memory. */
TEST(pinned, goes_where_host_memory_is_short)
{
    struct cuda_double settings = cuda_double_default();
    struct ah_device_keep keep = {0};
    cuda_double_set(&settings);
    ah_device_close(open_with(&keep, 0, 8 * MIB, MIB, AH_OK));
    assert_non_null(keep.memory);
    ah_device_close(open_with(&keep, 0, 4 * MIB, UINT64_C(1) << 60, AH_E_CAPACITY));
    assert_int_equal(cuda_double_alive().pinned_ranges, 0);
    ah_device_keep_release(&keep);
    expect_nothing_left();
}

/* The state of a failed device is unknown, so its memory is freed instead of kept. */
TEST(pinned, a_lost_device_leaves_nothing)
{
    struct cuda_double settings = cuda_double_default();
    struct ah_device_keep keep = {0};
    struct ah_error err = {0};
    cuda_double_set(&settings);
    struct ah_device *device = open_with(&keep, 0, 8 * MIB, MIB, AH_OK);
    const struct ah_op up = copy_op(AH_ARENA_DEVICE, AH_ARENA_PINNED, 0, MIB);
    cuda_double_fail("cudaMemcpyAsync", 1, cudaErrorIllegalAddress);
    (void)submit_op(device, AH_LANE_H2D, &up, (struct ah_wait){0});
    assert_true(ah_device_drain(device, &err) != AH_OK);
    ah_device_close(device);
    assert_int_equal(cuda_double_alive().pinned_ranges, 0);
    ah_device_keep_release(&keep);
}
