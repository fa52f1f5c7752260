/* SPDX-License-Identifier: Apache-2.0
 *
 * A fixture for unit tests that evaluate choices. Its model has eight blocks, and compute hides all other work.
 */
#ifndef AH_TESTS_UNIT_PLANNER_EVALUATORS_H
#define AH_TESTS_UNIT_PLANNER_EVALUATORS_H

#include "planner/search/evaluator.h"
#include "planner/search/knobs.h"
#include "tests/property/schedule/jobs.h"

enum { BLOCKS = 8 };

/* Compute hides all other lanes, and updates on the device are free. Choices with equal activations have equal
 * periods. */
struct fixture {
    struct test_job job;
    struct ah_costs costs;
    struct ah_cost_group groups[4];
    struct ah_knobs knobs;
    struct ah_evaluator evaluator;
    struct ah_config configs[BLOCKS];
    struct ah_error err;
};

static inline void setup(struct fixture *f, uint64_t device_bytes, uint64_t work)
{
    memset(f, 0, sizeof *f);
    test_job_open(&f->job, "tiny",
                  (struct ah_plan_training){.batch = 2, .micro_batches = 1, .seq = 64, .dtype = AH_BF16});
    assert_int_equal(f->job.job.n_blocks, BLOCKS);
    assert_true(f->job.job.n_groups <= 4);
    for (size_t g = 0; g < f->job.job.n_groups; g++)
        f->groups[g] = (struct ah_cost_group){.forward_us = 1e6, .backward_us = {2e6, 2.5e6, 3e6}};
    f->costs = (struct ah_costs){.groups = f->groups,
                                 .h2d_us_per_byte = 1e-6,
                                 .d2h_us_per_byte = 1e-6,
                                 .host_adam_us = 1e-6,
                                 .host_us_per_byte = 1e-9};
    f->costs.sharing.weights = (struct ah_plan_by_lane){{1, 1, 1, 1}};
    f->knobs = ah_knobs_first(&f->job.job, AH_SCHEDULING_PRIORITY, AH_MICRO_BATCH_MAJOR);
    const struct ah_evaluator_limits limits = {.job = &f->job.job,
                                               .costs = &f->costs,
                                               .device_bytes = device_bytes,
                                               .host_bytes = UINT64_C(1) << 40,
                                               .work = work};
    CHECK_OK(ah_evaluator_init(&f->evaluator, &limits, &f->err), f->err);
    for (size_t i = 0; i < BLOCKS; i++)
        f->configs[i] = (struct ah_config){AH_ACTIVATIONS_KEEP, AH_WEIGHTS_DEVICE, AH_OPTIMIZER_DEVICE,
                                           AH_ACCUMULATOR_NONE};
}

static inline void teardown(struct fixture *f)
{
    ah_evaluator_release(&f->evaluator);
    test_job_close(&f->job);
}

#endif
