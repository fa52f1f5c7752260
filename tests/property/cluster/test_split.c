/* SPDX-License-Identifier: Apache-2.0
 *
 * Compares the split of blocks with all splits, for random sequences of units. The split has the formula's least value
 * among those within memory, and no split is found where none fits. Remembered stages equal stages fitted anew.
 */
#include "planner/cluster/search/split.h"
#include "tests/property/cluster/problems.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { INSTANCES = 10000 };

/* Returns the least value of the formula over the splits of the stages from `i` on. */
static double least_us(const struct ah_cluster_problem *problem, struct ah_pipeline *pipeline, size_t i,
                       size_t first)
{
    double least = INFINITY;
    if (i == pipeline->n_stages) {
        if (first != problem->n_blocks || !ah_pipeline_fit(problem, pipeline))
            return INFINITY;
        double most = 0, sum = 0;
        for (size_t s = 0; s < pipeline->n_stages; s++) {
            const struct ah_stage *stage = &pipeline->stages[s];
            double us = stage->forward_us + stage->backward_us;
            if (s > 0)
                us += ah_problem_send_us(problem, stage->class, stage[-1].class);
            if (s + 1 < pipeline->n_stages)
                us += ah_problem_send_us(problem, stage->class, stage[1].class);
            most = fmax(most, us);
            sum += us;
        }
        return (double)(pipeline->micro_batches - 1) * most + sum;
    }
    for (size_t end = first + 1; end <= problem->n_blocks; end++) {
        pipeline->stages[i].first = first;
        pipeline->stages[i].end = end;
        least = fmin(least, least_us(problem, pipeline, i + 1, end));
    }
    return least;
}

/* Checks that cached stages equal stages fitted anew, for stages requested before and for new ones. */
static void check_fits(const struct ah_cluster_problem *problem, struct ah_fits *fits,
                       struct ah_pipeline *pipeline)
{
    struct ah_stage stages[MOST_UNITS] = {0};
    struct ah_pipeline other = {stages, pipeline->n_stages, pipeline->micro_batches};
    memcpy(stages, pipeline->stages, pipeline->n_stages * sizeof *stages);
    assert_true(ah_pipeline_fit(problem, pipeline) && ah_fits_pipeline(fits, &other));
    for (size_t i = 0; i < other.n_stages; i++) { /* compares bytes, as there is no padding */
        assert_memory_equal(&stages[i], &pipeline->stages[i], sizeof *stages);
        for (size_t sharers = 1; sharers <= problem->classes[stages[i].class].units; sharers++) {
            struct ah_stage stage = stages[i], again;
            stage.sharers = sharers;
            again = stage;
            assert_true(ah_stage_fit(problem, stages[i].in_flight, &stage) ==
                        ah_fits_stage(fits, stages[i].in_flight, &again));
            assert_memory_equal(&stage, &again, sizeof stage);
        }
    }
    for (size_t b = 0; b < problem->n_blocks; b++) {
        struct ah_stage one = stages[0], again;
        one.first = b;
        one.end = b + 1;
        again = one;
        assert_true(ah_stage_fit(problem, 1, &one) == ah_fits_stage(fits, 1, &again));
        assert_memory_equal(&one, &again, sizeof one);
    }
}

TEST(split, is_the_formulas_least)
{
    size_t problems = check_scaled(INSTANCES), none = 0, several = 0;
    uint64_t random = 0x6a09e667f3bcc909;
    for (size_t n = 0; n < problems; n++) {
        struct case_problem c;
        struct ah_fits fits;
        struct ah_error err = {0};
        struct ah_stage stages[MOST_UNITS] = {0};
        struct ah_pipeline pipeline = {.stages = stages};
        draw_problem(&c, &random, MOST_BLOCKS, MOST_UNITS, 24);
        for (size_t class = 0; class < c.problem.n_classes; class ++)
            for (size_t u = 0; u < c.classes[class].units; u++)
                if (pipeline.n_stages == 0 || check_draw(&random, 3))
                    stages[pipeline.n_stages++].class = class;
        pipeline.micro_batches = c.problem.micro_batches;
        ah_arrangement_share(&c.problem, &(struct ah_arrangement){&pipeline, 1});
        double expected = least_us(&c.problem, &pipeline, 0, 0);
        CHECK_OK(ah_fits_init(&fits, &c.problem, &err), err);
        bool found = ah_split_best(&fits, &pipeline);
        assert_true(found == !isinf(expected));
        if (found) {
            check_fits(&c.problem, &fits, &pipeline);
            double us = ah_split_formula_us(&c.problem, &pipeline);
            if (fabs(us - expected) > 1e-8 * expected)
                fail_msg("split for %.6f us, the least is %.6f", us, expected);
        }
        none += !found;
        several += found && pipeline.n_stages > 2;
        ah_fits_release(&fits);
    }
    printf("%zu pipelines, %zu of more than two stages, %zu that do not fit\n", problems, several, none);
    assert_true(several > problems / 8 && (none > 0 || problems < 200));
}
