/* SPDX-License-Identifier: Apache-2.0
 *
 * Fails each allocation of a profile once: expects an error, no document, no device left open, and no leak.
 */
#include "profiler/measure_internal.h"
#include "tests/support/fault.h"
#include "tests/unit/profiler/fake_device.h"

#include "tests/property/schedule/jobs.h"

#define MIB (UINT64_C(1) << 20)

/* Limits with which each part of a profile does the least work. */
static const struct ah_measure_limits least = {
    .samples_min = 1,
    .samples_max = 1,
    .block_s = 1e-7,
    .warm_s = 1e-7,
    .shapes = {{4, 4, 4}},
    .n_shapes = 1,
    .product_s = 1,
    .thread_counts = 2,
    .memory_bytes = MIB,
    .link_bytes = MIB,
    .link_factor = 4,
    .adam_params = 8192,
    .adam_kinds = 2,
    .disk_bytes = MIB,
    .block_layers = 1,
    .block_rounds = 1,
};

static int profile(void *context, struct ah_error *err)
{
    struct ah_document document = {0};
    const struct ah_profiler_options options = {.driver = fake_device_driver(context)};
    int rc = ah_profiler_run_within(&document, &options, &least, err);
    assert_int_equal(fake_device_open_count(), 0);
    if (rc)
        assert_null(document.body.any);
    ah_document_release(&document);
    return rc;
}

TEST(profiler, every_allocation_fails_once)
{
    struct fake_rates rates = {
        .matmul_flops_per_s = {1e9, 1e9},
        .link_bytes_per_s = {1e10, 1e10},
        .link_latency_s = {1e-5, 1e-5},
        .adam_params_per_s = {1e9, 1e9},
        .device_copy_bytes_per_s = 1e10,
    };
    /* Success is allowed: if a `noise` message gets no memory, it is dropped, and profiling continues. */
    size_t allocations = fault_sweep(profile, &rates, 1);
    assert_true(allocations > 100);
}

/* Adds a model's blocks to a profile that has only matrix products. */
struct extension {
    struct fake_rates rates;
    struct test_job job;
};

static int extend(void *context, struct ah_error *err)
{
    struct extension *extension = context;
    struct ah_document document = {0};
    const struct ah_profiler_options options = {.driver = fake_device_driver(&extension->rates),
                                                .parts = 1u << AH_PROFILER_MATMUL,
                                                .job = &extension->job.job};
    int rc = ah_profiler_run_within(&document, &options, &least, err);
    if (!rc)
        rc = ah_profiler_extend_within(&document, &options, &least, err);
    assert_int_equal(fake_device_open_count(), 0);
    if (rc && document.body.any)
        assert_int_equal(document.body.machine->n_blocks, 0);
    if (!rc)
        assert_true(document.body.machine->n_blocks >= 3);
    ah_document_release(&document);
    return rc;
}

TEST(profiler, every_allocation_of_an_extension_fails_once)
{
    struct extension extension = {.rates = {.matmul_flops_per_s = {1e6, 1e6}, /* a sample is one cycle */
                                            .link_bytes_per_s = {1e10, 1e10},
                                            .device_copy_bytes_per_s = 1e10}};
    test_job_open(&extension.job, "tiny",
                  (struct ah_plan_training){.batch = 1, .micro_batches = 1, .seq = 8, .dtype = AH_FP32});
    assert_true(fault_sweep(extend, &extension, 1) > 30);
    test_job_close(&extension.job);
}

static int build_only_succeeds_with_memory(void *context, struct ah_error *err)
{
    struct ah_bandwidth *bandwidth = NULL;
    (void)context;
    int rc = ah_bandwidth_new(&bandwidth, MIB, err);
    const int cpus[] = {-1, -1};
    if (rc == AH_OK)
        rc = ah_bandwidth_use(bandwidth, 2, cpus, err);
    ah_bandwidth_free(bandwidth);
    return rc;
}

TEST(profiler, arrays_need_their_memory)
{
    assert_true(fault_sweep(build_only_succeeds_with_memory, NULL, 0) >= 2);
}
