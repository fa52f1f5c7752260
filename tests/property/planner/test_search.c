/* SPDX-License-Identifier: Apache-2.0
 *
 * Compares what annealing alone finds with all assignments of the same knobs, for any number of threads.
 */
#include "planner/search/search.h"

#include "planner/search/assignments.h"
#include "planner/search/knobs.h"
#include "tests/property/planner/instances.h"

#include <stdlib.h>

enum { ASSIGNMENTS_MAX = 20000, WORK = 300000 };

struct found {
    bool found;
    double period_us;
    struct ah_knobs knobs;
    struct ah_config configs[INSTANCE_BLOCKS];
};

static struct found search(const struct ah_evaluator_limits *limits, unsigned threads)
{
    struct ah_error err;
    struct ah_evaluator evaluator;
    struct ah_pool *pool = NULL;
    if (threads)
        CHECK_OK(ah_pool_new(&pool, &(struct ah_pool_options){.threads = threads}, &err), err);
    CHECK_OK(ah_evaluator_init(&evaluator, limits, &err), err);
    const struct ah_search search = {
        .evaluator = &evaluator, .pool = pool, .orders = 1, .work = WORK, .runs = 8};
    CHECK_OK(ah_search_run(&search, &err), err);
    struct found found = {.found = evaluator.found};
    if (evaluator.found) {
        found.period_us = evaluator.best.score.period_us;
        found.knobs = evaluator.best.knobs;
        memcpy(found.configs, evaluator.best.configs, limits->job->n_blocks * sizeof *found.configs);
    }
    ah_evaluator_release(&evaluator);
    ah_pool_free(pool);
    return found;
}

static double best_of_all(const struct ah_evaluator_limits *limits, const struct ah_knobs *knobs)
{
    struct ah_error err;
    struct ah_evaluator evaluator;
    struct ah_assignments all;
    const struct ah_vary vary = {.job = limits->job};
    CHECK_OK(ah_evaluator_init(&evaluator, limits, &err), err);
    CHECK_OK(ah_assignments_init(&all, &vary, NULL, &err), err);
    CHECK_OK(ah_assignments_try(&all, &evaluator, knobs, NULL, &err), err);
    ah_assignments_release(&all);
    double period_us = evaluator.found ? evaluator.best.score.period_us : 0;
    ah_evaluator_release(&evaluator);
    return period_us;
}

/* Opens an instance with few enough assignments to try all. Its budget is too small for some of them. */
static bool open_instance(struct instance *it, uint64_t *random, struct ah_evaluator_limits *ret_limits)
{
    if (!instance_open(it, random, 1 + instance_below(random, 3)))
        return false;
    *ret_limits = (struct ah_evaluator_limits){.job = &it->job,
                                               .costs = &it->costs,
                                               .device_bytes = UINT64_C(1) << 40,
                                               .host_bytes = UINT64_C(1) << 40};
    const struct ah_vary vary = {.job = &it->job};
    struct ah_knobs knobs = ah_knobs_first(&it->job, AH_SCHEDULING_PRIORITY, AH_MICRO_BATCH_MAJOR);
    struct ah_schedule schedule = {0};
    struct ah_config configs[INSTANCE_BLOCKS];
    struct ah_score score;
    struct ah_assignments all;
    struct ah_error err;
    CHECK_OK(ah_schedule_init(&schedule, &it->job, &err), err);
    for (size_t block = 0; block < it->job.n_blocks; block++) {
        struct ah_config options[AH_CONFIGS_MAX];
        ah_vary_options(&vary, block, options);
        configs[block] = options[0];
    }
    const struct ah_choice choice = {.configs = configs, .knobs = knobs, .costs = &it->costs};
    CHECK_OK(ah_schedule_measure(&schedule, &choice, &score, &err), err);
    ah_schedule_release(&schedule);
    ret_limits->device_bytes =
        (uint64_t)((0.5 + 0.6 * check_uniform(random)) * (double)score.device.peak_bytes);
    CHECK_OK(ah_assignments_init(&all, &vary, NULL, &err), err);
    bool few = ah_assignments_count(&all, ASSIGNMENTS_MAX) < ASSIGNMENTS_MAX;
    ah_assignments_release(&all);
    if (few)
        return true;
    instance_close(it);
    return false;
}

TEST(search, finds_the_best_of_small_instances)
{
    int instances = (int)check_scaled(24), found = 0, equal = 0;
    double worst = 1;
    uint64_t random = check_seed(20261121);
    for (int i = 0; i < instances;) {
        struct instance it;
        struct ah_evaluator_limits limits;
        if (!open_instance(&it, &random, &limits))
            continue;
        i++;
        struct found a = search(&limits, 0);
        double best_us = a.found ? best_of_all(&limits, &a.knobs) : 0;
        found += a.found;
        equal += a.found && a.period_us <= best_us * (1 + 1e-6);
        worst = a.found && a.period_us / best_us > worst ? a.period_us / best_us : worst;
        instance_close(&it);
    }
    print_message("%d of %d found, %d the best of all, at worst %.3f %% above\n", found, instances, equal,
                  (worst - 1) * 100);
    assert_true(2 * found > instances);
    assert_true(equal * 10 >= found * 9 && worst < 1.02);
}

TEST(search, threads_change_nothing)
{
    uint64_t random = check_seed(20261122);
    for (int i = 0, n = (int)check_scaled(20); i < n;) {
        struct instance it;
        struct ah_evaluator_limits limits;
        if (!open_instance(&it, &random, &limits))
            continue;
        i++;
        struct found first = search(&limits, 0);
        for (unsigned threads = 1; threads <= 4; threads++) {
            struct found other = search(&limits, threads);
            assert_int_equal(first.found, other.found);
            assert_true(first.period_us == other.period_us);
            assert_true(!first.found || ah_knobs_equal(&first.knobs, &other.knobs));
            assert_memory_equal(first.configs, other.configs, sizeof first.configs);
        }
        instance_close(&it);
    }
}

static bool at_once(void *context, uint64_t evaluations)
{
    uint64_t *most = context;
    *most = evaluations > *most ? evaluations : *most;
    return evaluations > 100;
}

TEST(search, ends_when_it_is_told_to)
{
    uint64_t random = check_seed(20261123), most = 0;
    struct instance it;
    struct ah_evaluator evaluator;
    struct ah_evaluator_limits limits;
    struct ah_error err;
    struct ah_pool *pool;
    while (!open_instance(&it, &random, &limits))
        ;
    limits.device_bytes = UINT64_C(1) << 40;
    limits.stop = at_once;
    limits.context = &most;
    CHECK_OK(ah_pool_new(&pool, &(struct ah_pool_options){.threads = 2}, &err), err);
    CHECK_OK(ah_evaluator_init(&evaluator, &limits, &err), err);
    const struct ah_search search = {.evaluator = &evaluator, .pool = pool, .orders = 1, .work = WORK};
    CHECK_FAILS(ah_search_run(&search, &err), err, AH_E_INTERRUPTED, "nothing was written");
    assert_in_range(most, 101, 2000);
    ah_evaluator_release(&evaluator);
    ah_pool_free(pool);
    instance_close(&it);
}
