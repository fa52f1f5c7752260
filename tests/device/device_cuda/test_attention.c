/* SPDX-License-Identifier: Apache-2.0
 *
 * Compares attention through the device, on a GPU's tensor cores, with straight loops in double precision. Cases are
 * every row of the kernels' tables, sequences that end within a tile, shared keys, windows and documents. Each case
 * runs twice and must give equal bits. The last queries alone, after keys in a cache, must give the bits that they give
 * beside all others. tests/device/cuda_kernels/test_attention.c has more cases, for the double.
 */
#include "runtime/device/device_plugin.h"
#include "tests/support/check.h"
#include "tests/unit/device_math/attention_checks.h"

#include <stdlib.h>
#include <string.h>

enum { ARENA = 16 << 20 };

static int open_device(void **state)
{
    const uint64_t arena_bytes[AH_ARENA_KINDS] = {0, ARENA, ARENA, 4096};
    const struct ah_device_options options = {0};
    const struct ah_device_driver *driver = NULL;
    struct ah_device *device = NULL;
    struct ah_error err = {0};
    CHECK_OK(ah_plugin_load("cuda", &driver, &err), err);
    CHECK_OK(ah_device_open(&device, driver, &options, &err), err);
    CHECK_OK(ah_device_reserve(device, arena_bytes, &err), err);
    *state = device;
    return 0;
}

static int close_device(void **state)
{
    ah_device_close(*state);
    return 0;
}

/* Runs forward and, if `both`, backward in the device's arena. */
static void run_ops(struct ah_device *device, struct attention_run *run, bool both)
{
    const struct ah_ref there = {AH_ARENA_DEVICE, AH_FP32, 0, 0}, here = {AH_ARENA_PINNED, AH_FP32, 0, 0};
    const struct ah_op up = {.kind = AH_OP_COPY, .arg = {there, here}, .u.copy = {run->bytes}};
    const struct ah_op down = {.kind = AH_OP_COPY, .arg = {here, there}, .u.copy = {run->bytes}};
    const struct ah_wait after_up = {AH_LANE_H2D, ah_device_submitted(device, AH_LANE_H2D) + 1};
    const struct ah_wait after_ops = {AH_LANE_COMPUTE,
                                      ah_device_submitted(device, AH_LANE_COMPUTE) + (both ? 2 : 1)};
    const struct ah_submission last = {.lane = AH_LANE_D2H, .n_waits = 1, .waits = &after_ops, .op = &down};
    const struct ah_submission backward = {.lane = AH_LANE_COMPUTE, .op = &run->backward};
    const struct ah_submission all[] = {
        {.lane = AH_LANE_H2D, .op = &up},
        {.lane = AH_LANE_COMPUTE, .n_waits = 1, .waits = &after_up, .op = &run->forward},
        both ? backward : last,
        last};
    struct ah_error err = {0};
    unsigned char *const pinned = ah_device_pointer(device, here);
    assert_true(run->bytes <= ARENA);
    memcpy(pinned, run->arena, run->bytes);
    CHECK_OK(ah_device_submit(device, all, both ? 4 : 3, NULL, &err), err);
    CHECK_OK(ah_device_drain(device, &err), err);
    memcpy(run->arena, pinned, run->bytes);
}

static void check_shape(struct ah_device *device, const struct attention_shape *shape, uint64_t *random)
{
    struct attention_data data;
    struct attention_run run, again;
    attention_case_data(random, &data, shape, AH_BF16);
    attention_case_init(&run, &data, AH_BF16, AH_BF16);
    attention_case_init(&again, &data, AH_BF16, AH_BF16);
    run_ops(device, &run, true);
    attention_case_check_all(&run, 1e-2, 2e-2);
    run_ops(device, &again, true);
    assert_memory_equal(run.arena, again.arena, run.bytes);
    free(run.arena);
    free(again.arena);
    attention_case_release(&data);
}

TEST_IN(attention, equals_straight_loops, open_device, close_device)
{
    static const struct attention_shape shapes[] = {
        {1, 140, 4, 2, 32, 0, DOCS_NONE, true, 0, 0},  {2, 150, 3, 1, 64, 0, DOCS_ASCENDING, true, 0, 0},
        {1, 300, 1, 1, 64, 66, DOCS_ANY, false, 0, 0}, {1, 130, 2, 2, 96, 0, DOCS_NONE, true, 0, 0},
        {1, 200, 2, 1, 128, 0, DOCS_NONE, true, 0, 0}, {1, 137, 2, 1, 128, 33, DOCS_ASCENDING, true, 0, 0},
        {1, 97, 2, 1, 256, 0, DOCS_NONE, true, 0, 0},  {1, 70, 1, 1, 200, 20, DOCS_ASCENDING, true, 0, 0},
    };
    uint64_t random = check_seed(5);
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        check_shape(*state, &shapes[i], &random);
}

static void run_both(void *device, struct attention_run *run)
{
    run_ops(device, run, true);
}

static void run_forward(void *device, struct attention_run *run)
{
    run_ops(device, run, false);
}

TEST_IN(attention, with_a_soft_cap_equals_straight_loops, open_device, close_device)
{
    uint64_t random = check_seed(11);
    attention_check_soft_caps(&(struct attention_runner){run_both, run_forward, *state, &random});
}

TEST_IN(attention, of_last_queries_has_their_bits, open_device, close_device)
{
    uint64_t random = check_seed(7);
    attention_check_past(&(struct attention_runner){run_both, run_forward, *state, &random});
}
