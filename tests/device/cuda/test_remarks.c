/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests what the CUDA device reports about itself: products that its library lacks, and memory taken outside the arena.
 */
#include "runtime/device/tryout.h"
#include "tests/device/cuda/open.h"

#include <stdio.h>

static const struct ah_device_options plain = {.queue = 8};

static struct ah_device *try_out(const struct cuda_double *settings)
{
    struct ah_device *device = NULL;
    struct ah_error err = {0};
    cuda_double_set(settings);
    CHECK_OK(ah_device_open(&device, ah_plugin_driver(), &plain, &err), err);
    assert_int_equal(device->info.outside_bytes, 0);
    CHECK_OK(ah_device_tryout(device, &err), err);
    return device;
}

TEST(remarks, products_that_are_made_in_steps_are_counted)
{
    struct cuda_double settings = cuda_double_default();
    char text[AH_TRYOUT_TEXT_MAX];
    struct ah_device *device = try_out(&settings);
    assert_int_equal(device->info.products.n, 6);
    assert_int_equal(device->info.products.in_steps, 0);
    assert_string_equal(device->info.products.first, "");
    check_text_has(ah_device_print_products(&device->info, text), "has all 6 matrix products");
    ah_device_close(device);
    settings.plain = 1;
    device = try_out(&settings);
    assert_int_equal(device->info.products.n, 6);
    assert_int_equal(device->info.products.in_steps, 2);
    assert_string_equal(device->info.products.first, "bias nn 512x512x512 bf16");
    check_text_has(ah_device_print_products(&device->info, text),
                   "lacks 2 of 6 matrix products (first: bias nn 512x512x512 bf16)");
    ah_device_close(device);
    expect_nothing_left();
}

/* The memory taken by code of all kernels, and by page tables of locked memory, is measured to the byte. */
TEST(remarks, memory_beside_the_arena_is_measured)
{
    struct cuda_double settings = cuda_double_default();
    uint64_t beside[3];
    for (size_t i = 0; i < 3; i++) {
        settings.kernel_bytes = i == 1 ? MIB : 0;
        settings.page_bytes = i == 2 ? 3 * MIB : 0;
        struct ah_device *device = try_out(&settings);
        beside[i] = device->info.outside_bytes;
        assert_true(ah_device_outside_bytes(device) >= beside[i]);
        assert_true(ah_device_outside_bytes(device) >= device->reserve_bytes);
        ah_device_close(device);
    }
    assert_true(beside[0] > 32 * MIB); /* for example, the workspace of products */
    assert_true(beside[1] >= beside[0] + 3 * MIB && beside[1] % MIB == beside[0] % MIB);
    assert_int_equal(beside[2], beside[0] + 3 * MIB); /* one MiB is locked */
    expect_nothing_left();
}

/* Kernels may need more than the reserve. If memory is left for them, this is reported; otherwise they are refused. */
TEST(remarks, code_beyond_the_reserve)
{
    struct cuda_double settings = cuda_double_default();
    const struct ah_op fills[] = {fill_op(AH_ARENA_DEVICE, 0, 1025, 0)};
    uint64_t arena_bytes[AH_ARENA_KINDS] = {0, 0, MIB, MIB};
    struct ah_device *device = NULL;
    struct ah_error err = {0};
    unsigned long long budget_mib = 0;
    settings.kernel_bytes = 40 * MIB;
    cuda_double_set(&settings);
    CHECK_OK(ah_device_open(&device, ah_plugin_driver(), &plain, &err), err);
    CHECK_OK(ah_device_prepare(device, fills, 1, &err), err);
    const uint64_t fits = device->info.memory_bytes - device->reserve_bytes;
    arena_bytes[AH_ARENA_DEVICE] = fits;
    CHECK_FAILS(ah_device_reserve(device, arena_bytes, &err), err, AH_E_CAPACITY,
                "too little memory for the "
                "kernels' code");
    const char *budget = strstr(err.text, "--device-memory ");
    assert_non_null(budget);
    assert_int_equal(sscanf(budget, "--device-memory %lluMiB", &budget_mib), 1);
    assert_int_equal(device->info.outside_bytes, 0);
    arena_bytes[AH_ARENA_DEVICE] = budget_mib * MIB - device->reserve_bytes;
    CHECK_OK(ah_device_prepare(device, fills, 1, &err), err);
    CHECK_OK(ah_device_reserve(device, arena_bytes, &err), err);
    assert_true(device->info.outside_bytes > device->reserve_bytes);
    assert_int_equal(ah_device_outside_bytes(device), device->info.outside_bytes);
    ah_device_close(device);
    expect_nothing_left();
}
