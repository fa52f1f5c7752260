/* SPDX-License-Identifier: Apache-2.0
 *
 * What the CPU device makes of ops: products it refuses.
 */
#include "runtime/device/device.h"

#include "tests/support/check.h"

enum { ARENA = 1 << 20 };

static struct ah_device *open_device(struct ah_device_throttle throttle)
{
    struct ah_error err = {0};
    struct ah_device *device = NULL;
    struct ah_device_options options = {.size = sizeof options,
                                        .arena_bytes = {0, ARENA, ARENA, ARENA},
                                        .compute_threads = 2,
                                        .host_threads = 2,
                                        .throttle = throttle};
    CHECK_OK(ah_device_open(&device, ah_device_cpu(), &options, &err), err);
    return device;
}

/* Only 1, which 0 means too; refused before the run and at its submit. */
static void test_dispatch__matmul_refuses_another_alpha(void **state)
{
    struct ah_error err = {0};
    struct ah_device *device = open_device((struct ah_device_throttle){0});
    struct ah_op op = {.kind = AH_OP_MATMUL, .u.matmul = {.m = 2, .n = 2, .k = 2}};
    struct ah_submission submission = {.lane = AH_LANE_COMPUTE, .op = &op};
    (void)state;
    for (uint32_t i = 0; i < 3; i++)
        op.arg[i] = (struct ah_ref){AH_ARENA_DEVICE, AH_FP32, 4096 * i};
    CHECK_OK(ah_device_prepare(device, &op, 1, &err), err);
    op.u.matmul.alpha = 1;
    CHECK_OK(ah_device_submit(device, &submission, NULL, &err), err);
    op.u.matmul.alpha = 0.5f;
    CHECK_FAILS(ah_device_prepare(device, &op, 1, &err), err, AH_E_UNSUPPORTED, "with alpha 0.5");
    CHECK_FAILS(ah_device_submit(device, &submission, NULL, &err), err, AH_E_UNSUPPORTED, "with alpha 0.5");
    ah_device_close(device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dispatch__matmul_refuses_another_alpha),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
