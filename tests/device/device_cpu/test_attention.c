/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests attention through the device. Its memory is known and counted before it runs, and it runs on the compute lane
 * only. For any number of threads, it gives the bits of the math alone (unit.device_math.attention).
 */
#include "runtime/device/device.h"
#include "runtime/device/math/math.h"
#include "runtime/device/math/workspace.h"
#include "tests/support/check.h"

#include <malloc.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 2, SEQ = 100, HEADS = 4, KV_HEADS = 2, HEAD_DIM = 16, ARENA = 1 << 20 };

enum {
    TOKENS = BATCH * SEQ,
    QUERIES = HEADS * HEAD_DIM,
    KEYS = KV_HEADS * HEAD_DIM,
    WIDE = QUERIES + 2 * KEYS
};

enum { OUT, LSE, QKV, DQKV, DOUT, DELTA, PLACES };

static struct ah_ref place(int which, uint64_t column, uint64_t stride)
{
    return (struct ah_ref){AH_ARENA_DEVICE, AH_FP32,
                           (uint64_t)which * (ARENA / PLACES / 64 * 64) + column * 4, stride};
}

static void make_ops(struct ah_op ops[2])
{
    const struct ah_op_attention sizes = {BATCH, SEQ, HEADS, KV_HEADS, HEAD_DIM, 40, 0.25f, 0, 0};
    const struct ah_ref q = place(QKV, 0, WIDE), k = place(QKV, QUERIES, WIDE),
                        v = place(QKV, QUERIES + KEYS, WIDE);
    const struct ah_ref out = place(OUT, 0, 0), lse = place(LSE, 0, 0), none = {0};
    ops[0] = (struct ah_op){AH_OP_ATTENTION, {out, lse, q, k, v}, {{0}}};
    ops[1] =
        (struct ah_op){AH_OP_ATTENTION_BACKWARD,
                       {place(DQKV, 0, WIDE), place(DQKV, QUERIES, WIDE), place(DQKV, QUERIES + KEYS, WIDE),
                        place(DOUT, 0, 0), q, k, v, out, lse, none, place(DELTA, 0, 0)},
                       {{0}}};
    ops[0].u.attention = ops[1].u.attention = sizes;
}

static void fill(unsigned char *arena)
{
    uint64_t random = 5;
    for (size_t i = 0; i < ARENA / sizeof(float); i++) {
        const float value = (float)check_uniform(&random) - 0.5f;
        memcpy(arena + i * sizeof value, &value, sizeof value);
    }
}

static struct ah_device *open_device(unsigned threads, uint64_t memory_bytes)
{
    struct ah_error err = {0};
    struct ah_device *device;
    const struct ah_device_options options = {.compute_threads = threads, .memory_bytes = memory_bytes};
    CHECK_OK(ah_device_open(&device, ah_device_cpu(), &options, &err), err);
    return device;
}

static const uint64_t arena_bytes[AH_ARENA_KINDS] = {[AH_ARENA_DEVICE] = ARENA, [AH_ARENA_PAGEABLE] = ARENA};

static unsigned char *arena_of(struct ah_device *device)
{
    return ah_device_pointer(device, (struct ah_ref){.arena = AH_ARENA_DEVICE});
}

static void run_ops(struct ah_device *device, const struct ah_op ops[2])
{
    struct ah_error err = {0};
    for (int i = 0; i < 2; i++)
        CHECK_OK(ah_device_submit(device, &(struct ah_submission){.lane = AH_LANE_COMPUTE, .op = &ops[i]}, 1,
                                  NULL, &err),
                 err);
    CHECK_OK(ah_device_drain(device, &err), err);
}

/* Runs both ops on the same arena, using the math alone. */
static void run_alone(unsigned char *arena, const struct ah_op ops[2])
{
    struct ah_error err = {0};
    struct ah_workspace workspace = {.level = ah_tile_choose(), .threads = 1};
    struct ah_host host = {.isa = ah_isa_detect(), .workspace = &workspace};
    host.arenas[AH_ARENA_DEVICE] = arena;
    for (int i = 0; i < 2; i++) {
        CHECK_OK(ah_workspace_prepare(&workspace, &ops[i], &err), err);
        ah_math_run(&host, &ops[i]);
    }
    ah_workspace_release(&workspace);
}

TEST(attention, has_the_same_bits_for_any_threads)
{
    struct ah_op ops[2];
    unsigned char *expected = malloc(ARENA);
    make_ops(ops);
    fill(expected);
    run_alone(expected, ops);
    for (unsigned threads = 1; threads <= 4; threads++) {
        struct ah_error err = {0};
        struct ah_device *device = open_device(threads, 0);
        CHECK_OK(ah_device_prepare(device, ops, 2, &err), err);
        CHECK_OK(ah_device_reserve(device, arena_bytes, &err), err);
        fill(arena_of(device));
        run_ops(device, ops);
        assert_memory_equal(arena_of(device), expected, ARENA);
        ah_device_close(device);
    }
    free(expected);
}

TEST(attention, must_be_prepared)
{
    struct ah_error err = {0};
    struct ah_op ops[2];
    struct ah_device *device = open_device(2, 0);
    make_ops(ops);
    CHECK_OK(ah_device_reserve(device, arena_bytes, &err), err);
    const struct ah_submission forward = {.lane = AH_LANE_COMPUTE, .op = &ops[0]};
    const struct ah_submission backward = {.lane = AH_LANE_COMPUTE, .op = &ops[1]};
    CHECK_FAILS(ah_device_submit(device, &forward, 1, NULL, &err), err, AH_E_USAGE,
                "'attention': this shape was not");
    CHECK_OK(ah_device_prepare(device, ops, 1, &err), err);
    CHECK_OK(ah_device_submit(device, &forward, 1, NULL, &err), err);
    CHECK_FAILS(ah_device_submit(device, &backward, 1, NULL, &err), err, AH_E_USAGE, "'attention_backward'");
    CHECK_OK(ah_device_prepare(device, &ops[1], 1, &err), err);
    CHECK_OK(ah_device_submit(device, &backward, 1, NULL, &err), err);
    CHECK_OK(ah_device_drain(device, &err), err);
    ah_device_close(device);
}

/* A device has one attention workspace, and only the compute lane uses it. */
TEST(attention, is_the_compute_lanes)
{
    struct ah_error err = {0};
    struct ah_op ops[2];
    struct ah_device *device = open_device(1, 0);
    make_ops(ops);
    CHECK_OK(ah_device_prepare(device, ops, 2, &err), err);
    CHECK_OK(ah_device_reserve(device, arena_bytes, &err), err);
    for (int i = 0; i < 2; i++)
        for (int arg = 0; arg < AH_OP_ARGS; arg++)
            if (ops[i].arg[arg].arena)
                ops[i].arg[arg].arena = AH_ARENA_PAGEABLE;
    for (int i = 0; i < 2; i++)
        CHECK_FAILS(ah_device_submit(device, &(struct ah_submission){.lane = AH_LANE_HOST, .op = &ops[i]}, 1,
                                     NULL, &err),
                    err, AH_E_USAGE, "'attention");
    ah_device_close(device);
}

TEST(attention, reserve_is_known_after_prepare)
{
    struct ah_error err = {0};
    struct ah_op ops[2];
    make_ops(ops);
    struct ah_device *device = open_device(2, 0);
    CHECK_OK(ah_device_prepare(device, ops, 2, &err), err);
    const uint64_t reserve = device->reserve_bytes;
    assert_true(reserve >= 2 * ah_workspace_bytes(&ops[1]));
    ah_device_close(device);

    device = open_device(2, ARENA + reserve - 1);
    CHECK_OK(ah_device_prepare(device, ops, 2, &err), err);
    CHECK_FAILS(ah_device_reserve(device, arena_bytes, &err), err, AH_E_CAPACITY, "");
    ah_device_close(device);
}

TEST(attention, takes_no_memory_while_it_runs)
{
    struct ah_error err = {0};
    struct ah_op ops[2];
    struct ah_device *device = open_device(2, 0);
    make_ops(ops);
    CHECK_OK(ah_device_prepare(device, ops, 2, &err), err);
    CHECK_OK(ah_device_reserve(device, arena_bytes, &err), err);
    run_ops(device, ops);
    const struct mallinfo2 held = mallinfo2();
    for (int i = 0; i < 20; i++)
        run_ops(device, ops);
    const struct mallinfo2 now = mallinfo2();
    assert_int_equal(now.uordblks, held.uordblks);
    assert_int_equal(now.hblkhd, held.hblkhd);
    ah_device_close(device);
}
