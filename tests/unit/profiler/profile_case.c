/* SPDX-License-Identifier: Apache-2.0
 *
 * Profiles for tests (profile_case.h), with limits that make them as short as possible.
 */
#include "tests/unit/profiler/profile_case.h"

#define MIB (UINT64_C(1) << 20)

const struct ah_measure_limits profile_case_limits = {
    .part_s = {[AH_PROFILER_MATMUL] = 0.1, [AH_PROFILER_BLOCKS] = 0.2},
    .samples_min = 10,
    .samples_max = 10,
    .block_s = 0.001,
    .warm_s = 0.01,
    .shapes = {{64, 96, 32}},
    .n_shapes = 1,
    .product_s = 1,
    .thread_counts = 2,
    .memory_bytes = MIB,
    .link_bytes = MIB,
    .link_factor = 4,
    .adam_params = MIB,
    .adam_kinds = 1,
    .block_layers = 4,
    .block_rounds = 3,
};

void profile_case_open(struct profile_case *ret_case, const char *model, struct ah_plan_training training,
                       const struct fake_rates *rates)
{
    struct profile_case *c = ret_case;
    *c = (struct profile_case){.rates = *rates};
    test_job_open(&c->job, model, training);
    c->rates.device_copy_bytes_per_s = 50e9;
    c->rates.link_bytes_per_s[AH_H2D] = c->rates.link_bytes_per_s[AH_D2H] = 1e10;
    c->options = (struct ah_profiler_options){
        .driver = fake_device_driver(&c->rates), .parts = 1u << AH_PROFILER_MATMUL, .job = &c->job.job};
    CHECK_OK(ah_profiler_run_within(&c->document, &c->options, &profile_case_limits, &c->err), c->err);
    assert_int_equal(c->document.body.machine->n_blocks, 0);
}

int profile_case_extend(struct profile_case *c)
{
    int rc = ah_profiler_extend_within(&c->document, &c->options, &profile_case_limits, &c->err);
    assert_int_equal(fake_device_open_count(), 0);
    return rc;
}

void profile_case_close(struct profile_case *c)
{
    ah_document_release(&c->document);
    test_job_close(&c->job);
}
