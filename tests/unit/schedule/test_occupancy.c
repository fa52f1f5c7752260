/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests the bytes of each class at each position of a plan, against numbers worked out by hand and a full search.
 */
#include "runtime/schedule/occupancy.h"
#include "tests/support/check.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static struct ah_occupancy measure(struct ah_plan_tensor *tensors, size_t n, size_t positions,
                                   struct ah_arena *arena)
{
    struct ah_plan plan = {.arena = {.positions = positions, .tensors = tensors, .n_tensors = n}};
    struct ah_occupancy occupancy = {0};
    struct ah_error err = {0};
    CHECK_OK(ah_occupancy_measure(&plan, arena, &occupancy, &err), err);
    assert_int_equal(occupancy.positions, positions);
    return occupancy;
}

static void check_row(const uint64_t *bytes, const uint64_t *wanted, size_t n)
{
    for (size_t p = 0; p < n; p++)
        assert_int_equal(bytes[p], wanted[p]);
}

TEST(occupancy, adds_up_by_class)
{
    struct ah_plan_tensor tensors[] = {
        {AH_TENSOR_WEIGHTS, 0, 0, 0, 1000, 0, 3},        {AH_TENSOR_STATES, 0, 0, 1024, 512, 0, 3},
        {AH_TENSOR_SAVED, 0, 0, 1536, 256, 1, 2},        {AH_TENSOR_GRADIENT, 0, 0, 1536, 256, 3, 0},
        {AH_TENSOR_SCRATCH, 0, 0, 1792, 100, 2, 2},      {AH_TENSOR_FETCHED, 0, 0, 2048, 256, 1, 1},
        {AH_TENSOR_RESIDUAL_GRADIENT, 0, 0, 1, 1, 0, 0}, {AH_TENSOR_TOKENS, 0, 0, 2304, 1, 0, 3},
    };
    struct ah_arena arena = {0};
    struct ah_occupancy o = measure(tensors, sizeof tensors / sizeof tensors[0], 4, &arena);
    check_row(o.bytes[AH_CLASS_WEIGHTS], (uint64_t[]){1024, 1024, 1024, 1024}, 4);
    check_row(o.bytes[AH_CLASS_OPTIMIZER], (uint64_t[]){512, 512, 512, 512}, 4);
    check_row(o.bytes[AH_CLASS_ACTIVATIONS], (uint64_t[]){256, 256, 256, 0}, 4);
    check_row(o.bytes[AH_CLASS_GRADIENTS], (uint64_t[]){256, 0, 0, 256}, 4);
    check_row(o.bytes[AH_CLASS_WORKSPACE], (uint64_t[]){0, 0, 256, 0}, 4);
    check_row(o.bytes[AH_CLASS_STAGING], (uint64_t[]){256, 512, 256, 256}, 4);
    check_row(o.top_bytes, (uint64_t[]){2305, 2305, 2305, 2305}, 4);
    check_row(o.bytes[AH_OCCUPANCY_GAPS],
              (uint64_t[]){2305 - 2304, 2305 - 2304, 2305 - 2304, 2305 - 2048 + 0}, 4);
    assert_int_equal(o.peak_bytes, 2305);
    ah_arena_release(&arena);
}

TEST(occupancy, has_classes_of_what_ranks_and_groups_add)
{
    struct ah_plan_tensor tensors[] = {{AH_TENSOR_OUTPUT, 0, 0, 0, 256, 0, 0},
                                       {AH_TENSOR_GROUP_SUM, 0, 0, 256, 512, 0, 0}};
    struct ah_arena arena = {0};
    struct ah_occupancy o = measure(tensors, 2, 1, &arena);
    assert_int_equal(o.bytes[AH_CLASS_ACTIVATIONS][0], 256);
    assert_int_equal(o.bytes[AH_CLASS_GRADIENTS][0], 512);
    ah_arena_release(&arena);
}

TEST(occupancy, sees_what_is_free_below_the_top)
{
    struct ah_plan_tensor tensors[] = {{AH_TENSOR_SAVED, 0, 0, 4096, 256, 2, 0},
                                       {AH_TENSOR_SAVED, 0, 0, 0, 256, 0, 1}};
    struct ah_arena arena = {0};
    struct ah_occupancy o = measure(tensors, 2, 3, &arena);
    check_row(o.top_bytes, (uint64_t[]){4352, 256, 4352}, 3);
    check_row(o.bytes[AH_OCCUPANCY_GAPS], (uint64_t[]){4352 - 512, 0, 4352 - 256}, 3);
    ah_arena_release(&arena);
}

TEST(occupancy, of_nothing)
{
    struct ah_arena arena = {0};
    struct ah_occupancy o = measure(NULL, 0, 2, &arena);
    assert_int_equal(o.peak_bytes, 0);
    assert_int_equal(o.bytes[AH_OCCUPANCY_GAPS][1], 0);
    ah_arena_release(&arena);
}

static bool lives(const struct ah_plan_tensor *tensor, size_t position)
{
    return tensor->from <= tensor->to ? position >= tensor->from && position <= tensor->to
                                      : position >= tensor->from || position <= tensor->to;
}

/* Compares with a search through all tensors at all positions. */
TEST(occupancy, finds_the_highest)
{
    enum { TENSORS = 40, POSITIONS = 23 };
    uint64_t seed = check_seed(7);
    for (int round = 0; round < 200; round++) {
        struct ah_plan_tensor tensors[TENSORS];
        struct ah_arena arena = {0};
        for (size_t i = 0; i < TENSORS; i++)
            tensors[i] = (struct ah_plan_tensor){.label = AH_TENSOR_SAVED,
                                                 .offset_bytes = check_random(&seed) % 100,
                                                 .bytes = 1 + check_random(&seed) % 100,
                                                 .from = check_random(&seed) % POSITIONS,
                                                 .to = check_random(&seed) % POSITIONS};
        struct ah_occupancy o = measure(tensors, TENSORS, POSITIONS, &arena);
        for (size_t p = 0; p < POSITIONS; p++) {
            uint64_t top = 0, live = 0;
            for (size_t i = 0; i < TENSORS; i++) {
                uint64_t end = tensors[i].offset_bytes + tensors[i].bytes;
                live += lives(&tensors[i], p) ? AH_LAYOUT_ALIGN : 0;
                top = lives(&tensors[i], p) && end > top ? end : top;
            }
            assert_int_equal(o.top_bytes[p], top);
            assert_int_equal(o.bytes[AH_CLASS_ACTIVATIONS][p], live);
        }
        ah_arena_release(&arena);
    }
}
