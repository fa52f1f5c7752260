/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests the throttle with which one machine emulates another. It has the target's ratios, worked out by hand.
 */
#include "runtime/device/emulate.h"

#include "tests/support/check.h"

/* A machine with 250 TFLOP/s in bf16 and 19 in fp32, links of 25 and 24 GB/s, host Adam at 4.5 G parameters/s. */
static struct ah_machine_matmul products[] = {{.dtype = AH_BF16, .flops_per_s = {.median = 2.5e14}},
                                              {.dtype = AH_FP32, .flops_per_s = {.median = 1.9e13}}};
static struct ah_machine_link links[] = {
    {.direction = AH_H2D, .latency_us = 10, .bytes_per_s = {.median = 25e9}},
    {.direction = AH_D2H, .latency_us = 12, .bytes_per_s = {.median = 24e9}}};
static struct ah_machine_adam adam[] = {
    {.side = AH_HOST, .weight_dtype = AH_BF16, .params_per_s = {.median = 4.5e9}},
    {.side = AH_DEVICE, .weight_dtype = AH_BF16, .params_per_s = {.median = 45e9}}};
static struct ah_machine_beside beside[] = {{AH_PART_H2D, AH_PART_D2H, {.median = 0.9}},
                                            {AH_PART_D2H, AH_PART_H2D, {.median = 0.7}}};

static struct ah_machine example(void)
{
    return (struct ah_machine){
        .name = "example",
        .matmul = products,
        .n_matmul = 2,
        .links = links,
        .n_links = 2,
        .adam = adam,
        .n_adam = 2,
        .beside = beside,
        .n_beside = 2,
    };
}

TEST(emulate, keeps_ratios)
{
    struct ah_error err;
    const struct ah_machine target = example();
    struct ah_device_throttle throttle;
    CHECK_OK(ah_emulate_throttle(&target, AH_BF16, 1e12, &throttle, &err), err);
    check_near(throttle.h2d_bytes_per_s / 1e12, 25e9 / 2.5e14, 1e-12);
    check_near(throttle.d2h_bytes_per_s / 1e12, 24e9 / 2.5e14, 1e-12);
    check_near(throttle.host_adam_params_per_s / 1e12, 4.5e9 / 2.5e14, 1e-12);
    check_near(throttle.host_bytes_per_s / 1e12, 28 * 4.5e9 / 2.5e14, 1e-12);
    check_near(throttle.copy_latency_us * 1e12, 12 * 2.5e14, 1e-9); /* flops per latency */
    check_near(throttle.both_kept, 0.8, 1e-12);

    CHECK_OK(ah_emulate_throttle(&target, AH_FP32, 1e11, &throttle, &err), err);
    check_near(throttle.h2d_bytes_per_s / 1e11, 25e9 / 1.9e13, 1e-12);
}

TEST(emulate, prefers_bf16)
{
    struct ah_error err;
    struct ah_machine target = example();
    enum ah_dtype dtype = AH_FP32;
    CHECK_OK(ah_emulate_dtype(&target, true, &dtype, &err), err);
    assert_int_equal(dtype, AH_BF16);
    CHECK_OK(ah_emulate_dtype(&target, false, &dtype, &err), err);
    assert_int_equal(dtype, AH_FP32);
    target.n_matmul = 1;
    CHECK_FAILS(ah_emulate_dtype(&target, false, &dtype, &err), err, AH_E_USAGE, "'example'");
    target.n_matmul = 0;
    CHECK_FAILS(ah_emulate_dtype(&target, true, &dtype, &err), err, AH_E_USAGE, "no matrix product rate");
}

TEST(emulate, takes_either_adam_of_the_host)
{
    struct ah_error err;
    const struct ah_machine target = example();
    struct ah_device_throttle throttle;
    CHECK_OK(ah_emulate_throttle(&target, AH_FP32, 1.9e13, &throttle, &err), err);
    check_near(throttle.host_adam_params_per_s / 4.5e9, 1, 1e-12); /* only bf16 weights were measured */
}

TEST(emulate, names_what_is_missing)
{
    struct ah_error err;
    struct ah_device_throttle throttle;
    struct ah_machine target = example();
    target.n_links = 1;
    CHECK_FAILS(ah_emulate_throttle(&target, AH_BF16, 1e12, &throttle, &err), err, AH_E_USAGE,
                "copies to the host");
    target = example();
    target.n_adam = 0;
    CHECK_FAILS(ah_emulate_throttle(&target, AH_BF16, 1e12, &throttle, &err), err, AH_E_USAGE, "host Adam");
    target = example();
    CHECK_FAILS(ah_emulate_throttle(&target, AH_BF16, 0, &throttle, &err), err, AH_E_USAGE,
                "not measured here");
    target.n_beside = 0;
    CHECK_OK(ah_emulate_throttle(&target, AH_BF16, 1e12, &throttle, &err), err);
    assert_true(throttle.both_kept == 1);
}
