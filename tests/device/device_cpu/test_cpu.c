/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests what only the CPU device does. It slows lanes as requested, tested on a clock that only their sleeps advance.
 * It refuses arenas, and skips ops that wait for a failed op.
 */
#include "base/bf16.h"
#include "runtime/device/device.h"
#include "tests/support/check.h"
#include "tests/support/clock.h"

#include <sched.h>
#include <stdatomic.h>
#include <string.h>

#define MIB UINT64_C(1048576)

static struct ah_device *open_device(struct ah_device_throttle throttle)
{
    struct ah_error err = {0};
    struct ah_device *device = NULL;
    struct ah_device_options options = {.compute_threads = 1, .host_threads = 1, .throttle = throttle};
    const uint64_t arena_bytes[AH_ARENA_KINDS] = {0, 8 * MIB, 8 * MIB, 8 * MIB};
    CHECK_OK(ah_device_open(&device, ah_device_cpu(), &options, &err), err);
    CHECK_OK(ah_device_reserve(device, arena_bytes, &err), err);
    return device;
}

static void submit(struct ah_device *device, uint32_t lane, const struct ah_op *op)
{
    struct ah_error err = {0};
    CHECK_OK(ah_device_submit(device, &(struct ah_submission){.lane = lane, .op = op}, 1, NULL, &err), err);
}

static struct ah_op copy(uint32_t to, uint32_t from, uint64_t offset, uint64_t bytes)
{
    return (struct ah_op){
        .kind = AH_OP_COPY, .arg = {{to, AH_FP32, offset, 0}, {from, AH_FP32, offset, 0}}, .u.copy = {bytes}};
}

static int fail_call(void *context, struct ah_error *err)
{
    (void)context;
    return ah_error_set(err, AH_E_NUMERIC, "loss is not finite");
}

/* On this device, an op that waits for a failed op has not started. */
TEST(cpu, skips_what_waits_for_a_failure)
{
    struct ah_error err = {0};
    struct ah_device *device = open_device((struct ah_device_throttle){0});
    const struct ah_op bad = {.kind = AH_OP_CALL, .u.call = {fail_call, NULL}};
    const struct ah_op after = {
        .kind = AH_OP_FILL, .arg = {{.arena = AH_ARENA_DEVICE}}, .u.elements = {10, 5, 0}};
    const struct ah_wait wait = {AH_LANE_HOST, 1};
    submit(device, AH_LANE_HOST, &bad);
    CHECK_OK(ah_device_submit(
                 device,
                 &(struct ah_submission){.lane = AH_LANE_COMPUTE, .op = &after, .waits = &wait, .n_waits = 1},
                 1, NULL, &err),
             err);
    CHECK_FAILS(ah_device_wait(device, AH_LANE_COMPUTE, 1, &err), err, AH_E_NUMERIC, "op 'call'");
    const float *value = ah_device_pointer(device, after.arg[0]);
    assert_true(value[0] == 0);
    ah_device_close(device);
}

struct moved {
    uint32_t channel;
    void *data;
    uint64_t bytes;
};

static int note_move(void *context, const struct ah_op_moved *told, struct ah_error *err)
{
    struct moved *moved = context;
    (void)err;
    *moved = (struct moved){told->channel, told->data, told->bytes};
    return AH_OK;
}

/* Checks the arguments of a message's function. Message lanes run only messages, and other lanes run none. */
TEST(cpu, carries_messages_where_the_options_say_so)
{
    struct ah_error err = {0};
    struct ah_device *device = NULL, *without = open_device((struct ah_device_throttle){0});
    struct moved moved = {0};
    struct ah_op send = {.kind = AH_OP_SEND,
                         .arg = {{AH_ARENA_DEVICE, AH_FP32, 4096, 0}},
                         .u.message = {note_move, &moved, 4096, 7}};
    struct ah_op word = {.kind = AH_OP_RECEIVE, .u.message = {note_move, &moved, 0, 9}};
    const struct ah_op up = copy(AH_ARENA_DEVICE, AH_ARENA_PINNED, 0, 4096);
    const uint64_t arenas[AH_ARENA_KINDS] = {0, 2 << 20, 1 << 20, 0};
    struct ah_submission submission = {.lane = AH_LANE_SEND, .op = &send};
    CHECK_FAILS(ah_device_submit(without, &submission, 1, NULL, &err), err, AH_E_USAGE, "no lane 4");
    ah_device_close(without);

    CHECK_OK(ah_device_open(&device, ah_device_cpu(),
                            &(struct ah_device_options){.messages = true, .shared = true}, &err),
             err);
    CHECK_OK(ah_device_reserve(device, arenas, &err), err);
    submit(device, AH_LANE_SEND, &send);
    CHECK_OK(ah_device_wait(device, AH_LANE_SEND, 1, &err), err);
    assert_ptr_equal(moved.data, ah_device_pointer(device, send.arg[0]));
    assert_true(moved.channel == 7 && moved.bytes == 4096);
    submit(device, AH_LANE_RECEIVE_BEHIND, &word);
    CHECK_OK(ah_device_wait(device, AH_LANE_RECEIVE_BEHIND, 1, &err), err);
    assert_true(!moved.data && moved.channel == 9 && !moved.bytes);

    submission.op = &word;
    CHECK_FAILS(ah_device_submit(device, &submission, 1, NULL, &err), err, AH_E_USAGE,
                "op 'receive' does not run on lane 'send'");
    submission.op = &up;
    CHECK_FAILS(ah_device_submit(device, &submission, 1, NULL, &err), err, AH_E_USAGE,
                "op 'copy' does not run on lane 'send'");
    submission = (struct ah_submission){.lane = AH_LANE_COMPUTE, .op = &send};
    CHECK_FAILS(ah_device_submit(device, &submission, 1, NULL, &err), err, AH_E_USAGE,
                "op 'send' does not run on lane 'compute'");
    ah_device_close(device);
}

/* If only the fp32 form is allowed, bf16 products have the bits of that form, whatever the processor offers. */
TEST(cpu, takes_the_forms_of_products_that_it_may)
{
    enum { M = 33, N = 40, K = 130 };
    struct ah_error err = {0};
    struct ah_device *device = NULL;
    const uint64_t arenas[AH_ARENA_KINDS] = {0, 1 << 20, 4096, 4096};
    const struct ah_ref wide[] = {{AH_ARENA_DEVICE, AH_FP32, 0, 0},
                                  {AH_ARENA_DEVICE, AH_FP32, 1 << 16, 0},
                                  {AH_ARENA_DEVICE, AH_FP32, 2 << 16, 0}};
    const struct ah_ref narrow[] = {{AH_ARENA_DEVICE, AH_FP32, 3 << 16, 0},
                                    {AH_ARENA_DEVICE, AH_BF16, 4 << 16, 0},
                                    {AH_ARENA_DEVICE, AH_BF16, 5 << 16, 0}};
    struct ah_op product = {.kind = AH_OP_MATMUL, .u.matmul = {.m = M, .n = N, .k = K}};
    struct ah_op ops[2] = {product, product};
    memcpy(ops[0].arg, wide, sizeof wide);
    memcpy(ops[1].arg, narrow, sizeof narrow);
    CHECK_OK(ah_device_open(&device, ah_device_cpu(), &(struct ah_device_options){.product_forms = 1}, &err),
             err);
    assert_true(device->info.product_form < AH_PRODUCT_FORMS);
    CHECK_OK(ah_device_prepare(device, ops, 2, &err), err);
    CHECK_OK(ah_device_reserve(device, arenas, &err), err);
    uint64_t seed = 5;
    for (size_t arg = 1; arg < 3; arg++)
        for (size_t i = 0; i < (arg == 1 ? M : N) * K; i++) {
            const uint16_t bits = ah_bf16_from_fp32((float)check_uniform(&seed) - 0.5F);
            ((uint16_t *)ah_device_pointer(device, narrow[arg]))[i] = bits;
            ((float *)ah_device_pointer(device, wide[arg]))[i] = ah_bf16_to_fp32(bits);
        }
    for (size_t i = 0; i < 2; i++)
        submit(device, AH_LANE_COMPUTE, &ops[i]);
    CHECK_OK(ah_device_wait(device, AH_LANE_COMPUTE, 2, &err), err);
    assert_memory_equal(ah_device_pointer(device, wide[0]), ah_device_pointer(device, narrow[0]),
                        M * N * sizeof(float));
    ah_device_close(device);
}

/* Returns the milliseconds from the start to the end of a lane's newest `n_ops` ops. */
static double lane_ms(struct ah_device *device, uint32_t lane, uint64_t n_ops)
{
    struct ah_span spans[8];
    struct ah_span_reader reader = ah_device_newest(device, lane, n_ops);
    assert_int_equal(ah_device_spans(device, &reader, spans, 8), n_ops);
    return (double)(spans[n_ops - 1].end_ns - spans[0].start_ns) * 1e-6;
}

/* Runs 5 copies of 1 MiB at 100 MiB a second. Each is half a millisecond late. */
TEST(cpu, lanes_are_slowed_as_asked)
{
    struct ah_error err = {0};
    clock_stand();
    struct ah_device *device = open_device(
        (struct ah_device_throttle){.h2d_bytes_per_s = 100.0 * (double)MIB, .copy_latency_us = 500});
    for (uint64_t i = 0; i < 5; i++) {
        struct ah_op up = copy(AH_ARENA_DEVICE, AH_ARENA_PINNED, i * MIB, MIB);
        submit(device, AH_LANE_H2D, &up);
    }
    CHECK_OK(ah_device_drain(device, &err), err);
    check_near(lane_ms(device, AH_LANE_H2D, 5), 52.5, 1e-6);
    ah_device_close(device);
    clock_go();
}

struct gate {
    atomic_bool entered, open;
};

static void pass_gate(void *context)
{
    struct gate *gate = context;
    atomic_store(&gate->entered, true);
    while (!atomic_load(&gate->open))
        sched_yield();
}

/* Runs copies of 4 MiB at 100 MiB a second. While a copy in the other direction is delayed, they run at the fraction
 * `both_kept` of that rate. Afterwards they run at the full rate. */
static void copy_beside(uint32_t lane, struct ah_op some, uint32_t other_lane, struct ah_op other)
{
    const double rate = 100.0 * (double)MIB;
    struct ah_error err = {0};
    struct gate gate = {false, false};
    struct ah_device *device = open_device(
        (struct ah_device_throttle){.h2d_bytes_per_s = rate, .d2h_bytes_per_s = rate, .both_kept = 0.5});
    clock_at_sleep(pass_gate, &gate);
    submit(device, other_lane, &other);
    while (!atomic_load(&gate.entered))
        sched_yield();
    for (uint64_t alone = 0; alone < 2; alone++) {
        for (int i = 0; i < 4; i++)
            submit(device, lane, &some);
        CHECK_OK(ah_device_wait(device, lane, 4 + 4 * alone, &err), err);
        check_near(lane_ms(device, lane, 4), alone ? 40 : 80, 1e-6);
        atomic_store(&gate.open, true);
        CHECK_OK(ah_device_wait(device, other_lane, 1, &err), err);
    }
    ah_device_close(device);
}

TEST(cpu, lanes_share_the_link)
{
    const struct ah_op up = copy(AH_ARENA_DEVICE, AH_ARENA_PINNED, 0, MIB);
    const struct ah_op down = copy(AH_ARENA_PINNED, AH_ARENA_DEVICE, 4 * MIB, MIB);
    clock_stand();
    copy_beside(AH_LANE_H2D, up, AH_LANE_D2H, down);
    copy_beside(AH_LANE_D2H, down, AH_LANE_H2D, up);
    clock_go();
}

/* Updates 30000 parameters at 1 million a second. */
TEST(cpu, slows_host_adam)
{
    struct ah_error err = {0};
    clock_stand();
    struct ah_device *device = open_device((struct ah_device_throttle){.host_adam_params_per_s = 1e6});
    struct ah_op adamw = {.kind = AH_OP_ADAMW, .u.adamw = {.count = 10000}};
    struct ah_adamw_scalars scalars = {.epsilon = 1, .root_scale = 1, .grad_scale = 1};
    for (uint64_t i = 0; i < 6; i++)
        adamw.arg[i] = (struct ah_ref){i == 4 ? AH_ARENA_NONE : AH_ARENA_PAGEABLE, AH_FP32, i * MIB, 0};
    memcpy(ah_device_pointer(device, adamw.arg[5]), &scalars, sizeof scalars);
    for (int i = 0; i < 3; i++)
        submit(device, AH_LANE_HOST, &adamw);
    CHECK_OK(ah_device_drain(device, &err), err);
    check_near(lane_ms(device, AH_LANE_HOST, 3), 30, 1e-6);
    ah_device_close(device);
    clock_go();
}

TEST(cpu, refuses_memory_that_is_not_there)
{
    struct ah_error err = {0};
    struct ah_device *device = NULL;
    struct ah_device_options options = {.index = 1};
    const struct ah_device_algorithm algorithm = {{0}, {0}};
    uint64_t arena_bytes[AH_ARENA_KINDS] = {0, MIB, 0, UINT64_C(1) << 50};
    CHECK_FAILS(ah_device_open(&device, ah_device_cpu(), &options, &err), err, AH_E_MISSING, "number 1");
    options = (struct ah_device_options){.algorithms = &algorithm, .n_algorithms = 1};
    CHECK_FAILS(ah_device_open(&device, ah_device_cpu(), &options, &err), err, AH_E_USAGE,
                "no use for a table");
    assert_null(device);
    options = (struct ah_device_options){0};
    CHECK_OK(ah_device_open(&device, ah_device_cpu(), &options, &err), err);
    CHECK_FAILS(ah_device_reserve(device, arena_bytes, &err), err, AH_E_CAPACITY, "1024.0 TiB");
    arena_bytes[AH_ARENA_DEVICE] = UINT64_MAX;
    CHECK_FAILS(ah_device_reserve(device, arena_bytes, &err), err, AH_E_CAPACITY, "arenas need");
    arena_bytes[AH_ARENA_DEVICE] = arena_bytes[AH_ARENA_PAGEABLE] = MIB; /* this is more than is available */
    CHECK_OK(ah_device_reserve(device, arena_bytes, &err), err);
    assert_non_null(ah_device_pointer(device, (struct ah_ref){AH_ARENA_DEVICE, AH_FP32, 0, 0}));
    ah_device_close(device);
}

TEST(cpu, describes_itself)
{
    struct ah_error err = {0};
    struct ah_device_info info = {0};
    size_t n = 0;
    CHECK_OK(ah_device_cpu()->probe(&info, 1, &n, &err), err);
    assert_int_equal(n, 1);
    assert_int_equal(info.kind, AH_DEVICE_CPU);
    assert_true(info.memory_bytes > 0 && info.name[0]);
    assert_true(info.supports[AH_OP_MATMUL] && info.supports[AH_OP_NORM] && info.supports[AH_OP_ADAMW]);
    struct ah_device *device = open_device((struct ah_device_throttle){0});
    assert_true(device->info.locked_bytes == 8 * MIB || device->info.locked_bytes == 0);
    ah_device_close(device);
}
