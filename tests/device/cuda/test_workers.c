/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests the lanes for messages on the double: what they move and add, what waits for them, and how they fail.
 */
#include "tests/device/cuda/open.h"

enum { COUNT = 1025, BYTES = COUNT * sizeof(float) };

static const struct ah_wait none = {0};

struct moves {
    unsigned n;
    void *data[8], *arena;
    int fails_at; /* number of the failing move, from 1; 0: none */
    unsigned failures;
    struct ah_error why;
};

static int move(void *context, const struct ah_op_moved *moved, struct ah_error *err)
{
    struct moves *moves = context;
    moves->data[moves->n++ % 8] = moved->data;
    moves->arena = moved->device_arena;
    return moves->fails_at && (int)moves->n == moves->fails_at
               ? ah_error_set(err, AH_E_PEER, "rank 1: it has gone")
               : AH_OK;
}

static int never(void *context, uint32_t lane, uint64_t tag, struct ah_error *err)
{
    (void)context, (void)lane, (void)tag;
    return ah_error_set(err, AH_E_FAILED, "paced");
}

static void on_failure(void *context, const struct ah_error *why)
{
    struct moves *moves = context;
    moves->failures++;
    moves->why = *why;
}

static struct ah_device *open_with(struct moves *moves)
{
    const struct cuda_double settings = cuda_double_default();
    cuda_double_set(&settings);
    *moves = (struct moves){0};
    return open_device(
        &(struct ah_device_options){.messages = true, .failed = on_failure, .failed_context = moves});
}

static struct ah_op message(struct moves *moves, enum ah_op_kind kind, uint64_t offset)
{
    return (struct ah_op){.kind = kind,
                          .arg = {{AH_ARENA_DEVICE, AH_FP32, offset, 0}},
                          .u.message = {move, moves, BYTES, 3, false}};
}

static struct ah_op add(uint32_t to, uint32_t what)
{
    return (struct ah_op){.kind = AH_OP_ACCUMULATE,
                          .arg = {{to, AH_FP32, 0, 0}, {what, AH_FP32, MIB, 0}},
                          .u.elements = {COUNT, 0, 0}};
}

static float *numbers(struct ah_device *device, uint32_t arena, uint64_t offset)
{
    return ah_device_pointer(device, (struct ah_ref){arena, AH_FP32, offset, 0});
}

/* Messages get addresses in the GPU's memory, which the host must not read. */
TEST(workers, give_messages_their_place_on_the_gpu)
{
    struct moves moves;
    struct ah_error err = {0};
    struct ah_device *device = open_with(&moves);
    const struct ah_op send = message(&moves, AH_OP_SEND, 4096);
    const struct ah_op receive = message(&moves, AH_OP_RECEIVE, 8192);
    submit_op(device, AH_LANE_SEND, &send, none);
    submit_op(device, AH_LANE_RECEIVE_BEHIND, &receive, (struct ah_wait){AH_LANE_SEND, 1});
    CHECK_OK(ah_device_wait(device, AH_LANE_RECEIVE_BEHIND, 1, &err), err);
    assert_null(numbers(device, AH_ARENA_DEVICE, 0));
    assert_ptr_equal(moves.arena, ah_cuda_of(device)->device_arena);
    assert_ptr_equal(moves.data[0], (char *)moves.arena + 4096);
    assert_ptr_equal(moves.data[1], (char *)moves.arena + 8192);
    ah_device_close(device);
    expect_nothing_left();
}

/* The lane `sums` adds on the GPU what is in pinned memory, and on its own thread what is in pageable memory. */
TEST(workers, add_where_the_numbers_are)
{
    struct ah_error err = {0};
    const struct ah_op add_pinned = add(AH_ARENA_DEVICE, AH_ARENA_PINNED);
    const struct ah_op add_pageable = add(AH_ARENA_PAGEABLE, AH_ARENA_PINNED);
    const struct ah_op fill = fill_op(AH_ARENA_DEVICE, 0, COUNT, 3);
    const struct ah_op down = copy_op(AH_ARENA_PINNED, AH_ARENA_DEVICE, 0, BYTES);
    const struct cuda_double settings = cuda_double_default();
    cuda_double_set(&settings);
    const uint64_t arena_bytes[AH_ARENA_KINDS] = {0, 4 * MIB, 4 * MIB, 4 * MIB};
    const struct ah_op ops[] = {fill, add_pinned};
    struct ah_device *device = NULL;
    CHECK_OK(ah_device_open(&device, ah_plugin_driver(), &(struct ah_device_options){.messages = true}, &err),
             err);
    CHECK_OK(ah_device_prepare(device, ops, 2, &err), err);
    CHECK_OK(ah_device_reserve(device, arena_bytes, &err), err);
    for (int i = 0; i < COUNT; i++) {
        numbers(device, AH_ARENA_PINNED, MIB)[i] = 4;
        numbers(device, AH_ARENA_PAGEABLE, 0)[i] = 5;
    }
    submit_op(device, AH_LANE_COMPUTE, &fill, none);
    submit_op(device, AH_LANE_SUMS, &add_pinned, (struct ah_wait){AH_LANE_COMPUTE, 1});
    submit_op(device, AH_LANE_SUMS, &add_pageable, none);
    submit_op(device, AH_LANE_D2H, &down, (struct ah_wait){AH_LANE_SUMS, 1});
    CHECK_OK(ah_device_drain(device, &err), err);
    assert_true(numbers(device, AH_ARENA_PINNED, 0)[COUNT - 1] == 7);
    assert_true(numbers(device, AH_ARENA_PAGEABLE, 0)[COUNT - 1] == 9);
    ah_device_close(device);
    expect_nothing_left();
}

/* A message that fails is told once, and every wait ends. */
TEST(workers, tell_the_first_failure_once)
{
    struct moves moves;
    struct ah_error err = {0};
    struct ah_device *device = open_with(&moves);
    const struct ah_op send = message(&moves, AH_OP_SEND, 0), fill = fill_op(AH_ARENA_DEVICE, 0, COUNT, 1);
    moves.fails_at = 2;
    for (int i = 0; i < 4; i++)
        submit_op(device, AH_LANE_SEND, &send, none);
    submit_op(device, AH_LANE_COMPUTE, &fill, (struct ah_wait){AH_LANE_SEND, 4});
    CHECK_FAILS(ah_device_wait(device, AH_LANE_COMPUTE, 1, &err), err, AH_E_PEER,
                "op 'send' on lane 'send': rank 1: it has gone");
    assert_int_equal(ah_device_wait(device, AH_LANE_SEND, 4, &err), AH_E_PEER);
    assert_int_equal(moves.n, 2);
    assert_int_equal(moves.failures, 1);
    check_text_has(moves.why.text, "it has gone");
    ah_device_close(device);
    expect_nothing_left();
}

TEST(workers, refuse_what_they_cannot_do)
{
    struct moves moves;
    struct ah_error err = {0};
    struct ah_device *device = open_with(&moves);
    const struct ah_op mixed = add(AH_ARENA_DEVICE, AH_ARENA_PAGEABLE);
    submit_op(device, AH_LANE_SUMS, &mixed, none);
    CHECK_FAILS(ah_device_drain(device, &err), err, AH_E_UNSUPPORTED,
                "adds numbers in its own memory only to numbers there or in pinned memory");
    assert_int_equal(moves.failures, 1);
    ah_device_close(device);
    expect_nothing_left();
    const struct ah_device_pace pace = {.begin = never};
    CHECK_FAILS(ah_device_open(&device, ah_plugin_driver(),
                               &(struct ah_device_options){.messages = true, .pace = pace}, &err),
                err, AH_E_UNSUPPORTED, "cannot be paced");
}
