/* SPDX-License-Identifier: Apache-2.0 */
#include "planner/shapes.h"

#include "planner/knobs.h"
#include "tests/property/planner/instances.h"

static struct instance it;

static int open_instance(void **state)
{
    uint64_t random = 7;
    (void)state;
    do {
        if (it.arena.chunks)
            instance_close(&it);
        while (!instance_open(&it, &random, 6))
            ;
    } while (it.job.training.n_trainable > 1 || it.job.training.micro_batches > 1);
    return 0;
}

static int close_instance(void **state)
{
    (void)state;
    instance_close(&it);
    return 0;
}

static void check_layers(const struct ah_shape *shape, const char *activations, const char *weights,
                         const char *optimizer)
{
    struct ah_config configs[INSTANCE_BLOCKS];
    ah_shapes_configs(&it.job, NULL, shape, configs);
    for (size_t i = 0; i < 6; i++) {
        assert_int_equal("ksr"[configs[i + 1].activations], activations[i]);
        assert_int_equal("dh"[configs[i + 1].weights], weights[i]);
        assert_int_equal("dhs"[configs[i + 1].optimizer], optimizer[i]);
    }
}

static void test_shapes__follow_the_monotone_rule(void **state)
{
    (void)state;
    struct ah_shape shape = {{0}};
    check_layers(&shape, "kkkkkk", "dddddd", "dddddd");
    shape.at[AH_SHAPE_RECOMPUTE] = 2;
    shape.at[AH_SHAPE_SELECTIVE] = 1;
    shape.at[AH_SHAPE_STREAMED] = 1;
    shape.at[AH_SHAPE_HOST_OPTIMIZER] = 2;
    check_layers(&shape, "rrskkk", "dddddd", "dddshh");
    shape.at[AH_SHAPE_MIX] = 1;
    check_layers(&shape, "rrskkk", "dddddd", "dddhhs");
    shape.at[AH_SHAPE_HOST_WEIGHTS] = 2; /* weights on the host exclude the optimizer from the device */
    check_layers(&shape, "rrskkk", "hhdddd", "hhdhhs");
}

static void test_shapes__take_what_is_allowed(void **state)
{
    (void)state;
    uint32_t allowed[INSTANCE_BLOCKS];
    struct ah_config configs[INSTANCE_BLOCKS], all[AH_CONFIGS_MAX];
    struct ah_shape shape = {{0}};
    for (size_t block = 0; block < it.job.n_blocks; block++) {
        size_t n = ah_configs(&it.job, ah_job_block(&it.job, block), all);
        allowed[block] = UINT32_C(1) << (block % n);
    }
    ah_shapes_configs(&it.job, allowed, &shape, configs);
    for (size_t block = 0; block < it.job.n_blocks; block++) {
        size_t n = ah_configs(&it.job, ah_job_block(&it.job, block), all);
        assert_memory_equal(&configs[block], &all[block % n], sizeof *all);
    }
}

/* A shape, as configs, as a shape: the same configs. */
static void test_shapes__are_read_back(void **state)
{
    (void)state;
    uint64_t random = check_seed(5);
    for (int i = 0; i < 200; i++) {
        struct ah_config configs[INSTANCE_BLOCKS], again[INSTANCE_BLOCKS];
        struct ah_shape shape = {{0}};
        int32_t weights = (int32_t)instance_below(&random, 7);
        shape.at[AH_SHAPE_RECOMPUTE] = (int32_t)instance_below(&random, 4);
        shape.at[AH_SHAPE_SELECTIVE] = (int32_t)instance_below(&random, 4);
        shape.at[AH_SHAPE_HOST_WEIGHTS] = weights;
        shape.at[AH_SHAPE_HOST_OPTIMIZER] = 6 - (int32_t)instance_below(&random, weights ? 1 : 7);
        ah_shapes_configs(&it.job, NULL, &shape, configs);
        struct ah_shape read = ah_shapes_of_configs(&it.job, configs);
        ah_shapes_configs(&it.job, NULL, &read, again);
        assert_memory_equal(configs, again, it.job.n_blocks * sizeof *configs);
    }
}

static void test_shapes__walks_only_improve(void **state)
{
    (void)state;
    struct ah_error err;
    struct ah_trial trial;
    const struct ah_trial_limits limits = {.job = &it.job,
                                           .costs = &it.costs,
                                           .device_bytes = UINT64_C(1) << 30,
                                           .host_bytes = UINT64_C(1) << 30};
    struct ah_knobs knobs = ah_knobs_first(&it.job, AH_SCHEDULING_PRIORITY, AH_MICRO_BATCH_MAJOR);
    struct ah_config configs[INSTANCE_BLOCKS];
    enum ah_verdict verdict;
    struct ah_shape shape = {{0}};
    shape.at[AH_SHAPE_RECOMPUTE] = 6;
    shape.at[AH_SHAPE_HOST_WEIGHTS] = 6;
    CHECK_OK(ah_trial_init(&trial, &limits, &err), err);
    ah_shapes_configs(&it.job, NULL, &shape, configs);
    CHECK_OK(ah_trial_run(&trial, configs, &knobs, &verdict, &err), err);
    double start = trial.best.score.period_us;
    ah_trial_limit(&trial, limits.device_bytes, 0);
    CHECK_OK(ah_shapes_walk(&trial, NULL, &knobs, 0, &shape, &err), err);
    assert_true(trial.best.score.period_us < start);
    ah_shapes_configs(&it.job, NULL, &shape, configs);
    assert_memory_equal(configs, trial.best.configs, it.job.n_blocks * sizeof *configs);
    ah_trial_release(&trial);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_shapes__follow_the_monotone_rule),
                                       cmocka_unit_test(test_shapes__take_what_is_allowed),
                                       cmocka_unit_test(test_shapes__are_read_back),
                                       cmocka_unit_test(test_shapes__walks_only_improve)};
    return cmocka_run_group_tests(tests, open_instance, close_instance);
}
