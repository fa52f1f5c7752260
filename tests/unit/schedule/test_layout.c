/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests layouts worked out by hand, in units of AH_LAYOUT_ALIGN.
 */
#include "runtime/schedule/layout.h"
#include "tests/support/check.h"

enum { UNIT = AH_LAYOUT_ALIGN };

static void place(struct ah_layout_tensor *tensors, size_t n, size_t positions,
                  struct ah_layout_result *ret_result)
{
    struct ah_layout layout = {0};
    struct ah_error err = {0};
    CHECK_OK(ah_layout_reserve(&layout, n, positions, &err), err);
    ah_layout_place(&layout, tensors, n, positions, ret_result);
    ah_layout_release(&layout);
}

static void check_offsets(const struct ah_layout_tensor *tensors, const uint64_t *units, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (tensors[i].offset != units[i] * UNIT)
            fail_msg("tensor %zu lies at unit %g, expected %g", i, (double)tensors[i].offset / UNIT,
                     (double)units[i]);
}

/* The tensors are weights, a stack of three, a gradient in memory that the stack has left, and scratch on the stack. */
TEST(layout, persistent_stack_others)
{
    struct ah_layout_tensor tensors[] = {
        {.bytes = 2 * UNIT, .from = 5, .to = 5, .layout_class = AH_CLASS_WORKSPACE},
        {.bytes = 3 * UNIT, .from = 0, .to = 5, .layout_class = AH_CLASS_ACTIVATIONS, .stacked = true},
        {.bytes = 10 * UNIT, .from = 0, .to = 6, .layout_class = AH_CLASS_WEIGHTS, .persistent = true},
        {.bytes = 4 * UNIT, .from = 2, .to = 3, .layout_class = AH_CLASS_ACTIVATIONS, .stacked = true},
        {.bytes = 1 * UNIT + 1, .from = 1, .to = 4, .layout_class = AH_CLASS_ACTIVATIONS, .stacked = true},
        {.bytes = 4 * UNIT, .from = 4, .to = 6, .layout_class = AH_CLASS_GRADIENTS},
    };
    const uint64_t expected[] = {13, 10, 0, 15, 13, 15};
    struct ah_layout_result result;
    place(tensors, 6, 7, &result);
    check_offsets(tensors, expected, 6);
    assert_true(result.live_bytes == 19 * UNIT && result.peak_bytes == 19 * UNIT);
    assert_int_equal(result.peak_position, 2);
    assert_true(result.by_class[AH_CLASS_ACTIVATIONS] == 9 * UNIT &&
                result.by_class[AH_CLASS_WEIGHTS] == 10 * UNIT && result.by_class[AH_CLASS_GRADIENTS] == 0);
}

/* The positions are a circle. A stack beginning in the middle is laid out like one beginning at position 0. */
TEST(layout, the_stack_goes_around)
{
    struct ah_layout_tensor tensors[] = {
        {.bytes = 1 * UNIT, .from = 4, .to = 2, .stacked = true},
        {.bytes = 2 * UNIT, .from = 5, .to = 1, .stacked = true},
        {.bytes = 4 * UNIT, .from = 0, .to = 0, .stacked = true},
        {.bytes = 8 * UNIT, .from = 3, .to = 3, .stacked = true},
    };
    const uint64_t expected[] = {0, 1, 3, 0};
    struct ah_layout_result result;
    place(tensors, 4, 6, &result);
    check_offsets(tensors, expected, 4);
    assert_true(result.peak_bytes == 8 * UNIT && result.live_bytes == 8 * UNIT);
    assert_int_equal(result.peak_position, 3);
}

TEST(layout, nothing_and_one_byte)
{
    struct ah_layout layout = {0};
    struct ah_layout_result result;
    struct ah_layout_tensor one = {.bytes = 1, .offset = 5};
    ah_layout_place(&layout, NULL, 0, 0, &result);
    assert_true(result.peak_bytes == 0 && result.live_bytes == 0);
    ah_layout_live(&layout, NULL, 0, 4, &result);
    assert_true(result.peak_bytes == 0);
    place(&one, 1, 1, &result);
    assert_true(one.offset == 0 && result.peak_bytes == UNIT && result.by_class[AH_CLASS_WEIGHTS] == UNIT);
    ah_layout_release(&layout);
}

TEST(layout, more_than_fits_anywhere)
{
    struct ah_layout_tensor tensors[] = {{.bytes = UINT64_C(1) << 53},
                                         {.bytes = UINT64_MAX, .from = 1, .to = 1}};
    struct ah_layout_result result;
    place(tensors, 2, 2, &result);
    assert_true(result.peak_bytes == UINT64_C(1) << 50 && result.live_bytes == UINT64_C(1) << 50);
    tensors[0].bytes = UINT64_C(1) << 49;
    tensors[1].bytes = UNIT;
    place(tensors, 2, 2, &result);
    assert_true(result.peak_bytes == UINT64_C(1) << 49);
}

TEST(layout, has_its_limits)
{
    struct ah_layout layout = {0};
    struct ah_error err = {0};
    CHECK_FAILS(ah_layout_reserve(&layout, 1 << 20, 1, &err), err, AH_E_USAGE,
                "1048576 tensors over 1 positions");
    CHECK_FAILS(ah_layout_reserve(&layout, 1, 1 << 20, &err), err, AH_E_USAGE, "over 1048576 positions");
    assert_null(layout.memory);
}
