/* SPDX-License-Identifier: Apache-2.0
 *
 * Compares one limit on all updates with free choice. For one or two stages, the oracle simulates every combination of
 * the stages' treatments. The chosen limit is never faster than the best combination and rarely slower. It is never
 * slower than the pipeline with nothing away.
 */
#include "planner/cluster/search/update_limit.h"
#include "tests/property/cluster/oracle.h"

#include <stdio.h>

enum { INSTANCES = 1200, BLOCKS = 5, STAGES = 2 };

struct free_choice {
    const struct ah_cluster_problem *in;
    struct ah_arrangement plan;
    double best_us;
};

/* Tries every treatment of stage `i` and the stages after it for which GPU and host memory suffice. */
static void try_all(struct free_choice *f, size_t i)
{
    struct ah_pipeline *pipeline = &f->plan.pipelines[0];
    if (i == pipeline->n_stages) {
        f->best_us = fmin(f->best_us, oracle_step_us(f->in, &f->plan));
        return;
    }
    struct ah_stage *s = &pipeline->stages[i];
    size_t n = s->end - s->first;
    uint64_t behind = pipeline->n_stages - i, m = pipeline->micro_batches;
    for (s->states_away = 0; s->states_away <= n; s->states_away++)
        for (s->weights_away = 0; s->weights_away <= s->states_away; s->weights_away++)
            for (s->recompute = 0; s->recompute <= n; s->recompute++)
                for (s->selective = 0; s->recompute + s->selective <= n; s->selective++)
                    if (oracle_suffices(f->in, m < behind ? m : behind, s))
                        try_all(f, i + 1);
}

/* Draws a pipeline of the problem's first units, cut at random blocks. */
static void draw_pipeline(const struct ah_cluster_problem *in, uint64_t *random, struct ah_pipeline *pipeline)
{
    size_t units = in->classes[0].units + (in->n_classes > 1 ? in->classes[1].units : 0);
    pipeline->n_stages = units > 1 ? STAGES : 1;
    pipeline->micro_batches = in->micro_batches;
    size_t cut = 1 + check_draw(random, in->n_blocks - 1);
    pipeline->stages[0] = (struct ah_stage){.end = pipeline->n_stages > 1 ? cut : in->n_blocks};
    pipeline->stages[1] = (struct ah_stage){.class = in->n_classes > 1, .first = cut, .end = in->n_blocks};
}

TEST(update_limit, are_hardly_ever_worse_than_no_rule)
{
    size_t problems = check_scaled(INSTANCES);
    size_t equal = 0, within_1 = 0, helped = 0;
    double worst = 1;
    uint64_t random = 0x3c6ef372fe94f82b;
    for (size_t n = 0; n < problems;) {
        struct case_problem c;
        struct ah_stage stages[STAGES], chosen[STAGES];
        struct ah_pipeline pipeline = {.stages = stages}, fitted = {.stages = chosen};
        struct ah_error err = {0};
        double us, alone_us;
        uint64_t evaluations = 0;
        draw_problem(&c, &random, BLOCKS, 4, 4);
        draw_away(&c, &random);
        c.problem.update_limit_us = INFINITY;
        draw_pipeline(&c.problem, &random, &pipeline);
        struct free_choice f = {&c.problem, {&pipeline, 1}, INFINITY};
        fitted = pipeline;
        fitted.stages = chosen;
        memcpy(chosen, stages, sizeof chosen);
        oracle_share(&c.problem, &f.plan);
        struct ah_arrangement plan = {&fitted, 1};
        CHECK_OK(ah_update_limit_choose(&c.problem, &plan, &us, &evaluations, &err), err);
        try_all(&f, 0);
        assert_true(isinf(us) == isinf(f.best_us));
        if (isinf(us))
            continue;
        n++;
        assert_true(fabs(oracle_step_us(&c.problem, &plan) - us) <= 1e-9 * us);
        assert_true(us >= f.best_us * (1 - 1e-9));
        c.problem.update_limit_us = 0;
        CHECK_OK(ah_update_limit_choose(&c.problem, &plan, &alone_us, &evaluations, &err), err);
        assert_true(us <= alone_us);
        helped += us < alone_us;
        equal += us <= f.best_us * (1 + 1e-9);
        within_1 += us <= f.best_us * 1.01;
        worst = fmax(worst, us / f.best_us);
    }
    printf(
        "%zu pipelines: %zu as fast as without any rule, %zu within 1 %%, the worst %.3f times as long; %zu "
        "faster for having hosts\n",
        problems, equal, within_1, worst, helped);
    assert_true(equal >= problems * 99 / 100 && helped > problems / 8);
}
