/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests that more resources never make the optimum of small clusters slower, because an added unit may idle and added
 * memory may stay unused. Also tests that a cluster of equal units is no slower than the best symmetric grid.
 */
#include "planner/cluster/sim/stage_sim.h"
#include "tests/property/cluster/optimum.h"
#include "tests/property/cluster/problems.h"

#include <math.h>
#include <stdio.h>

enum { INSTANCES = 400 };

static size_t problems(void)
{
    return check_scaled(INSTANCES);
}

TEST(monotone, more_is_never_slower)
{
    uint64_t random = 0x853c49e6748fea9b;
    size_t faster = 0, fits_now = 0;
    for (size_t n = 0; n < problems(); n++) {
        struct case_problem c;
        draw_problem(&c, &random, 6, 4, 6);
        double before_us = find_optimum_us(&c.problem);
        c.classes[check_draw(&random, c.problem.n_classes)].units++;
        double more_us = find_optimum_us(&c.problem);
        c.kinds[check_draw(&random, c.problem.n_kinds)].capacity_bytes *= 2;
        double larger_us = find_optimum_us(&c.problem);
        if (more_us > before_us || larger_us > more_us)
            fail_msg("%.3f us, with another unit %.3f, then with more memory %.3f", before_us, more_us,
                     larger_us);
        faster += larger_us < before_us * 0.99;
        fits_now += isinf(before_us) && !isinf(larger_us);
    }
    printf("%zu instances, %zu at least 1 %% faster with more, %zu that fit only then\n", problems(), faster,
           fits_now);
    assert_true(faster > problems() / 4);
}

/* Returns the step time of D pipelines of P equal stages with equal shares; INFINITY: they do not divide or fit. */
static double grid_us(const struct ah_cluster_problem *problem, size_t pipelines, size_t stages)
{
    struct ah_draft draft;
    struct ah_error err = {0};
    struct ah_stage_sim_result result = {.step_us = INFINITY};
    bool fits = problem->n_blocks % stages == 0 && problem->micro_batches % pipelines == 0;
    if (!fits)
        return INFINITY;
    CHECK_OK(ah_draft_init(&draft, problem, &err), err);
    ah_draft_begin(&draft);
    for (size_t p = 0; p < pipelines; p++) {
        ah_draft_open(&draft);
        for (size_t i = 0; i < stages; i++) {
            ah_draft_add(&draft, 0);
            draft.stages[draft.n_stages - 1].first = i * problem->n_blocks / stages;
            draft.stages[draft.n_stages - 1].end = (i + 1) * problem->n_blocks / stages;
        }
        draft.arrangement.pipelines[p].micro_batches = problem->micro_batches / pipelines;
        fits &= ah_pipeline_fit(problem, &draft.arrangement.pipelines[p]);
    }
    if (fits)
        CHECK_OK(ah_stage_sim_run(problem, &draft.arrangement, &result, &err), err);
    ah_draft_release(&draft);
    return fits ? result.step_us : (double)INFINITY;
}

TEST(monotone, equal_units_get_the_symmetric_plan)
{
    uint64_t random = 0xda942042e4dd58b5;
    size_t equal = 0, compared = 0;
    for (size_t n = 0; n < problems(); n++) {
        struct case_problem c;
        do
            draw_problem(&c, &random, 6, 4, 8);
        while (c.problem.n_classes > 1);
        double best_us = find_optimum_us(&c.problem), least_us = INFINITY;
        size_t units = c.classes[0].units;
        for (size_t pipelines = 1; pipelines <= units; pipelines++)
            if (units % pipelines == 0)
                least_us = fmin(least_us, grid_us(&c.problem, pipelines, units / pipelines));
        assert_true(best_us <= least_us);
        compared += !isinf(least_us);
        equal += !isinf(least_us) && best_us >= least_us * (1 - 1e-9);
    }
    printf("%zu instances with a symmetric grid, which is the optimum in %zu\n", compared, equal);
    assert_true(equal > 0 && compared > equal);
}
