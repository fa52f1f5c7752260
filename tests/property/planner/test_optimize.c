/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests the choice among orders of micro-batches. The bound is the least of any order. Infeasible means that none fits.
 */
#include "planner/search/optimize.h"
#include "tests/property/planner/instances.h"

enum { INSTANCES = 60 };

static struct ah_milp_result order_alone(const struct ah_evaluator_limits *limits, enum ah_micro_order order)
{
    struct ah_arena arena = {0};
    struct ah_error err;
    struct ah_milp_result result;
    const struct ah_milp_input input = {.job = limits->job,
                                        .costs = limits->costs,
                                        .device_bytes = limits->device_bytes,
                                        .host_bytes = limits->host_bytes,
                                        .micro_order = order};
    CHECK_OK(ah_milp_solve(&input, &arena, &result, &err), err);
    ah_arena_release(&arena);
    return result;
}

static struct ah_optimize_result both_orders(const struct ah_evaluator_limits *limits)
{
    struct ah_arena arena = {0};
    struct ah_error err;
    struct ah_evaluator evaluator;
    struct ah_optimize_result result;
    CHECK_OK(ah_evaluator_init(&evaluator, limits, &err), err);
    const struct ah_optimize optimize = {.evaluator = &evaluator};
    CHECK_OK(ah_optimize_bound(&optimize, &arena, &result, &err), err);
    ah_evaluator_release(&evaluator);
    ah_arena_release(&arena);
    return result;
}

TEST(optimize, the_bound_is_the_least_over_the_orders)
{
    int different = 0, lesser[2] = {0};
    uint64_t random = check_seed(20261124);
    for (int i = 0; i < INSTANCES;) {
        struct instance it;
        if (!instance_open(&it, &random, 1 + instance_below(&random, 4)))
            continue;
        if (it.job.training.micro_batches == 1) {
            instance_close(&it);
            continue;
        }
        i++;
        uint64_t device_bytes = (uint64_t)instance_scaled(&random, 2e5, 2e7);
        const struct ah_evaluator_limits limits = {.job = &it.job,
                                                   .costs = &it.costs,
                                                   .device_bytes = device_bytes,
                                                   .host_bytes = UINT64_C(1) << 40};
        struct ah_optimize_result both = both_orders(&limits);
        struct ah_milp_result micro = order_alone(&limits, AH_MICRO_BATCH_MAJOR),
                              block = order_alone(&limits, AH_BLOCK_MAJOR);
        assert_int_equal(both.infeasible, !micro.feasible && !block.feasible);
        if (micro.feasible && block.feasible) {
            assert_true(both.bound_us == fmin(micro.bound_us, block.bound_us));
            different += micro.bound_us != block.bound_us;
            lesser[0] += micro.bound_us < block.bound_us;
            lesser[1] += block.bound_us < micro.bound_us;
        } else if (!both.infeasible) {
            assert_true(both.bound_us == (micro.feasible ? micro : block).bound_us);
        }
        instance_close(&it);
    }
    print_message("%d of %d with different bounds: %d times one is the least, %d times the other\n",
                  different, INSTANCES, lesser[0], lesser[1]);
    assert_true(lesser[0] > 0 && lesser[1] > 0);
}
