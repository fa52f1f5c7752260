/* SPDX-License-Identifier: Apache-2.0
 *
 * Shared by the tests of the CUDA device on the double: devices with small arenas, ops, a check for leftovers.
 */
#ifndef AH_TESTS_DEVICE_CUDA_OPEN_H
#define AH_TESTS_DEVICE_CUDA_OPEN_H

#include "base/threads.h"
#include "runtime/device/cuda/cuda_internal.h"
#include "runtime/device/device_plugin.h"
#include "tests/double/cuda/double.h"
#include "tests/support/check.h"

#include <stdatomic.h>
#include <string.h>

#define MIB UINT64_C(1048576)

ah_plugin_fn ah_plugin_driver;

static inline struct ah_op copy_op(uint32_t to, uint32_t from, uint64_t offset, uint64_t bytes)
{
    return (struct ah_op){
        .kind = AH_OP_COPY, .arg = {{to, AH_FP32, offset, 0}, {from, AH_FP32, offset, 0}}, .u.copy = {bytes}};
}

static inline struct ah_op fill_op(uint32_t arena, uint64_t offset, uint64_t count, float value)
{
    return (struct ah_op){
        .kind = AH_OP_FILL, .arg = {{arena, AH_FP32, offset, 0}}, .u.elements = {count, value, 0}};
}

/* Opens a device with 4 MiB in each arena. Its fill kernel is loaded, so it can be launched while a stream waits. */
static inline struct ah_device *open_device(const struct ah_device_options *options)
{
    const uint64_t arena_bytes[AH_ARENA_KINDS] = {0, 4 * MIB, 4 * MIB, 4 * MIB};
    const struct ah_op fill = fill_op(AH_ARENA_DEVICE, 0, 1025, 0); /* whole items of 16 bytes, then a rest */
    struct ah_device *device = NULL;
    struct ah_error err = {0};
    CHECK_OK(ah_device_open(&device, ah_plugin_driver(), options, &err), err);
    CHECK_OK(ah_device_prepare(device, &fill, 1, &err), err);
    CHECK_OK(ah_device_reserve(device, arena_bytes, &err), err);
    return device;
}

/* Submits an op and returns its ticket. Waiting for ticket 0 means no wait. */
static inline uint64_t submit_op(struct ah_device *device, uint32_t lane, const struct ah_op *op,
                                 struct ah_wait wait)
{
    struct ah_error err = {0};
    uint64_t ticket = 0;
    const struct ah_submission submission = {
        .lane = lane, .n_waits = wait.ticket ? 1 : 0, .waits = &wait, .op = op, .tag = 100 + lane};
    CHECK_OK(ah_device_submit(device, &submission, 1, &ticket, &err), err);
    return ticket;
}

/* Makes a later call of that name hang, after `skipped` more calls. */
static inline void hang_next(const char *call, uint64_t skipped)
{
    cuda_double_hang(call, cuda_double_calls(call) + skipped + 1);
}

static inline void wait_until_hanging(unsigned n)
{
    while (cuda_double_hanging() < n)
        ah_threads_sleep_until_ns(ah_threads_now_ns() + 100000);
}

/* Returns an upper bound on the error of a GPU span against the host's clock. The error is the window between the two
 * host readings that set the base (long on a busy machine), plus rounding, since event times are floats. */
static inline uint64_t clock_error_ns(struct ah_device *device)
{
    return ah_cuda_of(device)->clock.window_ns + 10000;
}

/* A call that runs until `open` is set. */
struct gate {
    atomic_bool open;
};

static inline int pass_gate(void *context, struct ah_error *err)
{
    struct gate *gate = context;
    (void)err;
    while (!atomic_load(&gate->open))
        ah_threads_sleep_until_ns(ah_threads_now_ns() + 100000);
    return AH_OK;
}

static inline uint64_t submit_gate(struct ah_device *device, struct gate *gate)
{
    const struct ah_op op = {.kind = AH_OP_CALL, .u.call = {pass_gate, gate}};
    return submit_op(device, AH_LANE_HOST, &op, (struct ah_wait){0});
}

/* Checks, after closing, that everything was given back and that hardware would have punished nothing. */
static inline void expect_nothing_left(void)
{
    const struct cuda_double_alive alive = cuda_double_alive();
    char report[CUDA_DOUBLE_REPORT_MAX];
    cuda_double_report(report);
    if (cuda_double_misuses())
        fail_msg("%s", report);
    assert_int_equal(alive.device_bytes, 0);
    assert_int_equal(alive.pinned_ranges, 0);
    assert_int_equal(alive.streams, 0);
    assert_int_equal(alive.events, 0);
}

#endif
