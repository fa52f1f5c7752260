/* SPDX-License-Identifier: Apache-2.0
 *
 * Compares estimates with simulations of random arrangements. The estimate of one pipeline is exactly the mixture. If
 * blocks and micro-batches are dealt as in the search, the estimate is within 15 %.
 */
#include "planner/cluster/sim/stage_estimate.h"
#include "planner/cluster/sim/stage_sim.h"
#include "tests/property/cluster/problems.h"

#include <math.h>
#include <stdio.h>

enum { INSTANCES = 10000, MOST_MICRO_BATCHES = 12 };

static size_t problems(void)
{
    return check_scaled(INSTANCES);
}

static double estimate_us(const struct ah_draft *draft)
{
    struct ah_error err = {0};
    uint64_t passes;
    double us;
    CHECK_OK(ah_estimate_time(draft->problem, &draft->arrangement, &us, &passes, &err), err);
    return us;
}

/* Draws one pipeline with a unit on each node. */
static bool draw_pipeline(struct case_problem *c, uint64_t *random, struct ah_draft *draft)
{
    for (size_t i = 0; i < c->problem.n_classes; i++)
        c->classes[i].units = 1;
    return draw_arrangement(&c->problem, random, true, draft) && draft->arrangement.n_pipelines == 1;
}

/* Checks that the estimate is 4/5 of formula (F), plus 1/5 of the time of the pipeline alone, plus the update. */
static void check_alone(const struct case_problem *c, const struct ah_draft *draft)
{
    const struct ah_pipeline *pipeline = &draft->arrangement.pipelines[0];
    struct ah_error err = {0};
    double alone_us, update_us = 0, formula_us = ah_split_formula_us(&c->problem, pipeline);
    CHECK_OK(ah_pipeline_time(&c->problem, pipeline, &alone_us, &err), err);
    for (size_t i = 0; i < draft->n_stages; i++)
        update_us = fmax(update_us, draft->stages[i].update_us);
    double expected_us = 0.2 * alone_us + 0.8 * formula_us + update_us;
    if (fabs(estimate_us(draft) - expected_us) > 1e-9 * expected_us)
        fail_msg("estimated %.6f us, alone %.6f, by (F) %.6f", estimate_us(draft), alone_us, formula_us);
}

TEST(estimate, of_one_pipeline_is_known)
{
    uint64_t random = 0xd1342543de82ef95;
    size_t several = 0;
    for (size_t n = 0; n < problems();) {
        struct case_problem c;
        struct ah_draft draft;
        struct ah_error err = {0};
        draw_problem(&c, &random, MOST_BLOCKS, MOST_UNITS, MOST_MICRO_BATCHES);
        c.problem.tied_bytes = 0;
        CHECK_OK(ah_draft_init(&draft, &c.problem, &err), err);
        if (draw_pipeline(&c, &random, &draft)) {
            check_alone(&c, &draft);
            several += draft.n_stages > 1;
            n++;
        }
        ah_draft_release(&draft);
    }
    assert_true(several > problems() / 4);
}

/* Draws eight micro-batches per unit, and NICs up to five times slower than in the other tests. */
static void draw_large(struct case_problem *c, uint64_t *random)
{
    draw_problem(c, random, MOST_BLOCKS, MOST_UNITS, MOST_MICRO_BATCHES);
    c->problem.micro_batches = 8 * ah_problem_units(&c->problem);
    slow_down(c, draw_real(random, 1, 5));
}

/* Returns estimate / simulation of random pipelines with the best splits and shares, or 0 if they do not fit. */
static double ratio(struct case_problem *c, uint64_t *random)
{
    struct ah_error err = {0};
    struct ah_draft draft;
    struct ah_fits fits;
    struct ah_stage_sim_result result = {0};
    double ratio = 0;
    CHECK_OK(ah_draft_init(&draft, &c->problem, &err), err);
    CHECK_OK(ah_fits_init(&fits, &c->problem, &err), err);
    if (draw_arrangement(&c->problem, random, true, &draft) && ah_draft_finish(&draft, &fits)) {
        CHECK_OK(ah_stage_sim_run(&c->problem, &draft.arrangement, &result, &err), err);
        ratio = estimate_us(&draft) / result.step_us;
    }
    ah_fits_release(&fits);
    ah_draft_release(&draft);
    return ratio;
}

TEST(estimate, is_near_the_rehearsal)
{
    uint64_t random = 0xda942042e4dd58b5;
    double least = INFINITY, most = 0, sum = 0;
    for (size_t n = 0; n < problems();) {
        struct case_problem c;
        draw_large(&c, &random);
        double next = ratio(&c, &random);
        if (next <= 0)
            continue;
        least = fmin(least, next);
        most = fmax(most, next);
        sum += next;
        n++;
    }
    printf("%zu arrangements: %.3f to %.3f of the rehearsal, %.4f on average\n", problems(), least, most,
           sum / (double)problems());
    assert_true(least > 0.85 && most < 1.15);
    assert_true(fabs(sum / (double)problems() - 1) < 0.01);
}
