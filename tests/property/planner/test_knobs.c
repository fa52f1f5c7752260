/* SPDX-License-Identifier: Apache-2.0
 *
 * Compares plans of three blocks with all assignments and all combinations of knobs. Each knob has three rungs.
 */
#include "planner/search/assignments.h"
#include "planner/search/optimize.h"
#include "tests/property/planner/budgets.h"

#include <stdlib.h>

enum { RUNGS = 3, COMBINATIONS = RUNGS * RUNGS * RUNGS * RUNGS * RUNGS * RUNGS };

static struct ah_knobs combine(const struct ah_job *job, enum ah_micro_order order, int combination)
{
    static const uint32_t behind[RUNGS] = {1, 2, 4}, ahead[RUNGS] = {1, 2, 4}, states[RUNGS] = {1, 4, 16},
                          weights[RUNGS] = {2, 16, 0}, gradients[RUNGS] = {2, 16, 0};
    static const uint64_t tiles[RUNGS] = {1, 4, 32}; /* tiles of a layer */
    struct ah_knobs knobs = ah_knobs_first(job, AH_SCHEDULING_PRIORITY, order);
    int rung[6];
    for (int i = 0; i < 6; i++) {
        rung[i] = combination % RUNGS;
        combination /= RUNGS;
    }
    uint64_t units = 4 * knobs.tile_elements / AH_PLAN_TILE_UNIT;
    knobs.tile_elements = (units + tiles[rung[0]] - 1) / tiles[rung[0]] * AH_PLAN_TILE_UNIT;
    knobs.send_behind = behind[rung[1]];
    knobs.fetch_ahead = ahead[rung[2]];
    knobs.device_state_tiles = states[rung[3]];
    knobs.host_weight_tiles = weights[rung[4]];
    knobs.host_gradient_tiles = gradients[rung[5]];
    return knobs;
}

/* Returns the best period of all choices, including `known`. A choice slower than the best is examined no further. */
static double best_of_all(const struct ah_evaluator_limits *limits, const struct ah_candidate *known)
{
    const struct ah_job *job = limits->job;
    const struct ah_vary vary = {.job = job};
    struct ah_evaluator evaluator;
    struct ah_assignments all;
    struct ah_error err;
    enum ah_verdict verdict;
    int orders = job->training.micro_batches > 1 ? AH_BLOCK_MAJOR + 1 : AH_MICRO_BATCH_MAJOR + 1;
    CHECK_OK(ah_evaluator_init(&evaluator, limits, &err), err);
    CHECK_OK(ah_assignments_init(&all, &vary, NULL, &err), err);
    CHECK_OK(ah_evaluator_try(&evaluator, known->configs, &known->knobs, &verdict, &err), err);
    for (int order = 0; order < orders; order++) {
        for (int i = 0; i < COMBINATIONS; i++) {
            struct ah_knobs knobs = combine(job, (enum ah_micro_order)order, i);
            CHECK_OK(ah_assignments_try(&all, &evaluator, &knobs, NULL, &err), err);
        }
    }
    double period_us = evaluator.best.score.period_us;
    ah_assignments_release(&all);
    ah_evaluator_release(&evaluator);
    return period_us;
}

static bool is_small(const struct instance *it)
{
    const struct ah_vary vary = {.job = &it->job};
    struct ah_assignments all;
    struct ah_error err;
    CHECK_OK(ah_assignments_init(&all, &vary, NULL, &err), err);
    bool few = ah_assignments_count(&all, 401) <= 400;
    ah_assignments_release(&all);
    return few;
}

TEST(knobs, equal_enumeration)
{
    int instances = (int)check_scaled(12), planned = 0, equal = 0;
    double worst = 1;
    uint64_t random = check_seed(20261124);
    for (int i = 0; i < instances;) {
        struct instance it;
        if (!instance_open(&it, &random, 1))
            continue;
        struct ah_evaluator_limits limits = {.job = &it.job, .costs = &it.costs};
        struct ah_optimize_result result;
        struct ah_arena arena = {0};
        struct ah_evaluator evaluator;
        struct ah_error err;
        instance_budgets(&it, &random, &limits);
        CHECK_OK(ah_evaluator_init(&evaluator, &limits, &err), err);
        const struct ah_optimize optimize = {.evaluator = &evaluator};
        if (is_small(&it))
            CHECK_OK(ah_optimize_run(&optimize, &arena, &result, &err), err);
        if (evaluator.found) {
            double ratio = evaluator.best.score.period_us / best_of_all(&limits, &evaluator.best);
            planned++;
            equal += ratio <= 1 + 1e-9;
            worst = ratio > worst ? ratio : worst;
        }
        i += evaluator.found;
        ah_evaluator_release(&evaluator);
        ah_arena_release(&arena);
        instance_close(&it);
    }
    print_message("%d planned, %d of them the best of all knobs, at worst %.3f %% above\n", planned, equal,
                  (worst - 1) * 100);
    assert_true(worst <= 1.005 && equal * 10 >= planned * 9);
}
