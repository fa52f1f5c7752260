/* SPDX-License-Identifier: Apache-2.0
 *
 * Random budgets for random instances.
 */
#ifndef AH_TESTS_PROPERTY_PLANNER_BUDGETS_H
#define AH_TESTS_PROPERTY_PLANNER_BUDGETS_H

#include "planner/search/knobs.h"
#include "tests/property/planner/instances.h"

/* Draws budgets between the needs of the leanest and the fattest assignment. */
static void instance_budgets(const struct instance *it, uint64_t *random, struct ah_evaluator_limits *limits)
{
    struct ah_schedule schedule = {0};
    struct ah_error err;
    struct ah_config configs[INSTANCE_BLOCKS];
    uint64_t device[2] = {UINT64_MAX, 0}, host[2] = {UINT64_MAX, 0};
    CHECK_OK(ah_schedule_init(&schedule, &it->job, &err), err);
    for (int i = 0; i < 40; i++) {
        for (size_t block = 0; block < it->job.n_blocks; block++) {
            struct ah_config all[AH_CONFIGS_MAX];
            size_t n = ah_configs(&it->job, ah_job_block(&it->job, block), all);
            configs[block] = all[i ? instance_below(random, n) : n - 1];
        }
        struct ah_choice choice = {.configs = configs,
                                   .knobs =
                                       ah_knobs_first(&it->job, AH_SCHEDULING_PRIORITY, AH_MICRO_BATCH_MAJOR),
                                   .costs = &it->costs};
        struct ah_score score;
        CHECK_OK(ah_schedule_measure(&schedule, &choice, &score, &err), err);
        uint64_t on_host = score.pinned_bytes + score.pageable_bytes;
        device[0] = score.device.peak_bytes < device[0] ? score.device.peak_bytes : device[0];
        device[1] = score.device.peak_bytes > device[1] ? score.device.peak_bytes : device[1];
        host[0] = on_host < host[0] ? on_host : host[0];
        host[1] = on_host > host[1] ? on_host : host[1];
    }
    ah_schedule_release(&schedule);
    limits->device_bytes =
        (uint64_t)((double)device[0] * 0.95 + check_uniform(random) * (double)(device[1] - device[0]));
    limits->host_bytes =
        (uint64_t)((double)host[0] + check_uniform(random) * 1.5 * (double)(host[1] - host[0])) + 1;
}

#endif
