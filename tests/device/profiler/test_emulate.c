/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests the slowed CPU device. A profile under `emulate` shows the target's ratios within 1 %. The clock advances with
 * sleeps and work, but not while a thread waits for a processor.
 */
#include "profiler/measure_internal.h"

#include "tests/support/check.h"
#include "tests/support/clock.h"

#include <math.h>

#define MIB (UINT64_C(1) << 20)

static const struct ah_measure_limits small = {
    .part_s = {0.5, 0.1, 0.5, 0.5, 0.5, 0.1},
    .samples_min = 10,
    .samples_max = 12,
    .block_s = 0.004,
    .warm_s = 0.05,
    .shapes = {{64, 256, 256}},
    .n_shapes = 1,
    .product_s = 0.01,
    .thread_counts = 1,
    .memory_bytes = 16 * MIB,
    .link_bytes = 8 * MIB,
    .link_factor = 4,
    .adam_params = MIB,
    .adam_kinds = 1,
};

enum { RATIOS = 3 };

static void ratios_of(const struct ah_machine *machine, double ret_ratios[RATIOS])
{
    double compute = ah_machine_matmul_flops_per_s(machine, AH_FP32);
    ret_ratios[0] = ah_machine_link_bytes_per_s(machine, AH_H2D) / compute;
    ret_ratios[1] = ah_machine_link_bytes_per_s(machine, AH_D2H) / compute;
    ret_ratios[2] = ah_machine_adam_params_per_s(machine, AH_HOST, AH_FP32) / compute;
}

/* Checks that a profile of this machine, slowed to emulate `target`, shows the target's ratios. */
static void expect_ratios(const struct ah_machine *target)
{
    struct ah_error err;
    struct ah_document document = {0};
    const struct ah_profiler_options options = {.parts = 1u << AH_PROFILER_LINKS | 1u << AH_PROFILER_ADAM,
                                                .emulate = target};
    double wanted[RATIOS];
    double found[RATIOS];
    CHECK_OK(ah_profiler_run_within(&document, &options, &small, &err), err);
    ratios_of(target, wanted);
    ratios_of(document.body.machine, found);
    for (int i = 0; i < RATIOS; i++) {
        if (!(fabs(found[i] / wanted[i] - 1) <= 0.01))
            fail_msg("ratio %d: %.4g, wanted %.4g", i, found[i], wanted[i]);
    }
    ah_document_release(&document);
}

/* Returns this machine's compute rate in fp32. A target's lanes can then be slow in comparison. */
static double compute_rate(void)
{
    struct ah_error err;
    struct ah_document document = {0};
    const struct ah_profiler_options options = {.parts = 1u << AH_PROFILER_MATMUL};
    CHECK_OK(ah_profiler_run_within(&document, &options, &small, &err), err);
    double rate = ah_machine_matmul_flops_per_s(document.body.machine, AH_FP32);
    ah_document_release(&document);
    return rate;
}

TEST(emulate, lanes_show_the_targets_ratios)
{
    struct ah_machine_matmul product = {.dtype = AH_FP32, .threads = 1};
    struct ah_machine_link links[] = {
        {.direction = AH_H2D, .latency_us = 5, .bytes_per_s = {.median = 25e9}},
        {.direction = AH_D2H, .latency_us = 5, .bytes_per_s = {.median = 20e9}}};
    struct ah_machine_adam adam = {.side = AH_HOST, .weight_dtype = AH_FP32, .params_per_s = {.median = 4e9}};
    const struct ah_machine target = {
        .name = "target",
        .matmul = &product,
        .n_matmul = 1,
        .links = links,
        .n_links = 2,
        .adam = &adam,
        .n_adam = 1,
    };
    clock_work();
    product.flops_per_s.median = 500 * compute_rate(); /* 50 MB/s, 40 MB/s, 8 M parameters/s here */
    expect_ratios(&target);
    clock_go();
}
