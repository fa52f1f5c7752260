/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests the simulated step of random arrangements. It equals the oracle's, covers its necessary work, and has the
 * planned memory.
 */
#include "planner/cluster/bound/relaxation.h"
#include "planner/cluster/sim/stage_sim.h"
#include "tests/property/cluster/oracle.h"

#include <stdio.h>

enum { INSTANCES = 4000, MOST_MICRO_BATCHES = 12 };

static double path_us(const struct ah_cluster_problem *in, const struct ah_pipeline *pipeline)
{
    double us = 0;
    for (size_t i = 0; i < pipeline->n_stages; i++) {
        us += pipeline->stages[i].forward_us + pipeline->stages[i].backward_us;
        if (i)
            us += 2 * ah_problem_send_us(in, pipeline->stages[i - 1].class, pipeline->stages[i].class);
    }
    return us;
}

/* Checks that passes and update take as long as in the oracle. */
static void check_treatment(const struct ah_cluster_problem *in, const struct ah_stage *stage,
                            const struct ah_stage *best)
{
    const struct oracle *o = oracle_of(in);
    double forward_us = oracle_pass(o, best, best->first, false);
    double backward_us = oracle_pass(o, best, best->first, true);
    assert_true(fabs(forward_us - stage->forward_us) <= 1e-9 * forward_us);
    assert_true(fabs(backward_us - stage->backward_us) <= 1e-9 * backward_us);
    assert_true(fabs(oracle_update(in, best) - stage->update_us) <= 1e-9 * (1 + stage->update_us));
}

/* Splits the starts of a stage's passes into those of forwards and of backwards, in 1F1B order. */
static void sort_starts(const struct ah_pipeline *pipeline, size_t stage, const double *starts_us,
                        double ret_us[2][MOST_MICRO_BATCHES])
{
    uint64_t m = pipeline->micro_batches, done[2] = {0};
    uint64_t ahead = pipeline->n_stages - 1 - stage < m ? pipeline->n_stages - 1 - stage : m;
    for (uint64_t k = 0; k < 2 * m; k++) {
        bool backward = done[0] == m || done[0] - done[1] > ahead;
        ret_us[backward][done[backward]++] = starts_us[k];
    }
}

/* Checks that no stage does two things at once, nothing starts before its input arrives, and ends are as reported. */
static void check_starts(const struct ah_cluster_problem *in, const struct ah_pipeline *pipeline,
                         const double *starts_us, double pipeline_us)
{
    uint64_t m = pipeline->micro_batches;
    double before[2][MOST_MICRO_BATCHES], now[2][MOST_MICRO_BATCHES];
    for (size_t i = 0; i < pipeline->n_stages; i++) {
        const struct ah_stage *stage = &pipeline->stages[i], *last = stage - 1;
        sort_starts(pipeline, i, starts_us + 2 * m * i, now);
        for (uint64_t k = 0; k + 1 < 2 * m; k++)
            assert_true(starts_us[2 * m * i + k + 1] >=
                        starts_us[2 * m * i + k] + fmin(stage->forward_us, stage->backward_us));
        for (uint64_t j = 0; j < m && i > 0; j++) {
            double send_us = ah_problem_send_us(in, last->class, stage->class);
            assert_true(now[0][j] >= (before[0][j] + last->forward_us + send_us) * (1 - 1e-12));
            assert_true(before[1][j] >= (now[1][j] + stage->backward_us + send_us) * (1 - 1e-12));
        }
        if (i == 0)
            assert_true(fabs(now[1][m - 1] + stage->backward_us - pipeline_us) <= 1e-9 * pipeline_us);
        memcpy(before, now, sizeof now);
    }
}

static void check_sums(const struct ah_cluster_problem *in, const struct ah_draft *draft,
                       const double *sums_us, const struct ah_stage_sim_result *result)
{
    struct ah_segments segments;
    struct ah_error err = {0};
    double end_us = result->pipelines_us;
    CHECK_OK(ah_segments_init(&segments, in, &draft->arrangement, &err), err);
    for (size_t i = 0; i < segments.n; i++)
        end_us = fmax(end_us, sums_us[i] + segments.items[i].ring_us);
    assert_true(fabs(end_us - result->pipelines_us - result->exposed_sync_us) <= 1e-9 * end_us);
    ah_segments_release(&segments);
}

static void check(const struct ah_cluster_problem *in, const struct ah_draft *draft)
{
    double starts_us[2 * MOST_MICRO_BATCHES * MOST_UNITS], sums_us[MOST_UNITS + 2];
    double pipeline_us[MOST_UNITS], busy_us[MOST_UNITS];
    uint64_t in_flight[MOST_UNITS];
    struct ah_error err = {0};
    struct ah_stage_sim_result result = {.pipeline_us = pipeline_us,
                                         .busy_us = busy_us,
                                         .in_flight = in_flight,
                                         .starts_us = starts_us,
                                         .sums_us = sums_us};
    CHECK_OK(ah_stage_sim_run(in, &draft->arrangement, &result, &err), err);
    double oracle_us = oracle_step_us(in, &draft->arrangement);
    if (fabs(result.step_us - oracle_us) > 1e-9 * oracle_us)
        fail_msg("simulated %.6f us, the oracle %.6f", result.step_us, oracle_us);
    double bound_us, alone_us;
    CHECK_OK(ah_relaxation_time(in, &bound_us, &err), err);
    assert_true(bound_us <= result.step_us);
    check_sums(in, draft, sums_us, &result);
    const double *starts = starts_us;
    size_t lane = 0;
    for (size_t p = 0; p < draft->arrangement.n_pipelines; p++) {
        const struct ah_pipeline *pipeline = &draft->arrangement.pipelines[p];
        check_starts(in, pipeline, starts, pipeline_us[p]);
        starts += 2 * pipeline->micro_batches * pipeline->n_stages;
        CHECK_OK(ah_pipeline_time(in, pipeline, &alone_us, &err), err);
        assert_true(pipeline_us[p] >= alone_us * (1 - 1e-12));
        assert_true(alone_us >= path_us(in, pipeline) * (1 - 1e-12));
        assert_true(pipeline_us[p] <= result.pipelines_us && result.pipelines_us <= result.step_us);
        for (size_t i = 0; i < pipeline->n_stages; i++, lane++) {
            struct ah_stage best = pipeline->stages[i];
            assert_true(alone_us >= busy_us[lane] * (1 - 1e-12));
            assert_true(in_flight[lane] <= best.in_flight);
            assert_true(best.memory_bytes <= in->kinds[in->classes[best.class].kind].capacity_bytes);
            assert_true(oracle_suffices(in, best.in_flight, &best));
            assert_true(oracle_fit(in, best.in_flight, &best));
            check_treatment(in, &pipeline->stages[i], &best);
        }
    }
}

static size_t problems(void)
{
    return check_scaled(INSTANCES);
}

TEST(stage_sim, equals_the_oracle)
{
    uint64_t random = 0x2545f4914f6cdd1d;
    size_t recomputing = 0, several = 0, states = 0, weights = 0;
    for (size_t n = 0; n < problems();) {
        struct case_problem c;
        struct ah_draft draft;
        struct ah_error err = {0};
        draw_problem(&c, &random, MOST_BLOCKS, MOST_UNITS, MOST_MICRO_BATCHES);
        CHECK_OK(ah_draft_init(&draft, &c.problem, &err), err);
        if (draw_arrangement(&c.problem, &random, false, &draft)) {
            check(&c.problem, &draft);
            several += draft.arrangement.n_pipelines > 1;
            for (size_t i = 0; i < draft.n_stages; i++) {
                recomputing += draft.stages[i].recompute + draft.stages[i].selective > 0;
                states += draft.stages[i].states_away > 0;
                weights += draft.stages[i].weights_away > 0;
            }
            n++;
        }
        ah_draft_release(&draft);
    }
    printf("%zu arrangements, %zu of several pipelines; %zu stages recompute, %zu have states away, %zu "
           "weights\n",
           problems(), several, recomputing, states, weights);
    assert_true(several > problems() / 4 && recomputing && states && weights);
}

/* Checks simulations with a limit. They give the step simulated without a limit, or say that it exceeds the limit. If
 * it does by much, they end early. */
static void check_limits(const struct ah_cluster_problem *in, const struct ah_arrangement *arrangement,
                         size_t *early)
{
    static const double parts[] = {0.2, 0.9, 0.999, 1, 1.001};
    struct ah_stage_sim_result whole = {0};
    struct ah_error err = {0};
    CHECK_OK(ah_stage_sim_run(in, arrangement, &whole, &err), err);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        struct ah_stage_sim_result result = {.limit_us = parts[i] * whole.step_us};
        CHECK_OK(ah_stage_sim_run(in, arrangement, &result, &err), err);
        if (isinf(result.step_us))
            assert_true(parts[i] < 1);
        else
            assert_true(result.step_us <= whole.step_us && result.step_us >= whole.step_us);
        *early += parts[i] > 0.5 && isinf(result.step_us);
    }
}

TEST(stage_sim, a_limit_only_hides_what_is_longer)
{
    uint64_t random = 0xbb67ae8584caa73b;
    size_t early = 0;
    for (size_t n = 0; n < problems();) {
        struct case_problem c;
        struct ah_draft draft;
        struct ah_error err = {0};
        draw_problem(&c, &random, MOST_BLOCKS, MOST_UNITS, MOST_MICRO_BATCHES);
        CHECK_OK(ah_draft_init(&draft, &c.problem, &err), err);
        if (draw_arrangement(&c.problem, &random, false, &draft)) {
            check_limits(&c.problem, &draft.arrangement, &early);
            n++;
        }
        ah_draft_release(&draft);
    }
    printf("%zu of %zu too long ones ended early\n", early, 2 * problems());
    assert_true(early > problems()); /* two per problem */
}

/* NICs are so slow that most transfers wait, and pipelines cross them in any order. The transfer that can start first
 * goes first, even if another could have started before its NIC was taken. */
TEST(stage_sim, transfers_pass_in_the_order_of_their_start)
{
    uint64_t random = 0x9e3779b97f4a7c15;
    for (size_t n = 0; n < 4 * problems();) { /* one problem in a hundred depends on this */
        struct case_problem c;
        struct ah_draft draft;
        struct ah_error err = {0};
        struct ah_stage_sim_result result = {0};
        do
            draw_problem(&c, &random, MOST_BLOCKS, MOST_UNITS, MOST_MICRO_BATCHES);
        while (c.problem.n_classes < MOST_CLASSES);
        slow_down(&c, draw_real(&random, 50, 500));
        CHECK_OK(ah_draft_init(&draft, &c.problem, &err), err);
        if (draw_arrangement(&c.problem, &random, true, &draft)) {
            CHECK_OK(ah_stage_sim_run(&c.problem, &draft.arrangement, &result, &err), err);
            double oracle_us = oracle_step_us(&c.problem, &draft.arrangement);
            if (fabs(result.step_us - oracle_us) > 1e-9 * oracle_us)
                fail_msg("simulated %.6f us, the oracle %.6f", result.step_us, oracle_us);
            n++;
        }
        ah_draft_release(&draft);
    }
}

/* If all stages are equal and transfers are free, the step is (m + P - 1)(forward + backward). */
TEST(stage_sim, formula_of_equal_stages)
{
    uint64_t random = 88172645463325252;
    struct ah_problem_block blocks[MOST_BLOCKS];
    uint64_t gradients[MOST_BLOCKS] = {0};
    for (size_t n = 0; n < problems(); n++) {
        double forward = draw_real(&random, 1, 9), backward = draw_real(&random, 1, 9);
        struct ah_problem_kind kind = {.gpu = "gpu", .tp = 1, .capacity_bytes = 1000, .blocks = blocks};
        struct ah_problem_class class = {0, 0, MOST_UNITS, 1e9};
        struct ah_problem_link link = {INFINITY, 0};
        size_t stages = 1 + check_draw(&random, MOST_UNITS), each = 1;
        uint64_t m = 1 + check_draw(&random, 40);
        for (size_t b = 0; b < MOST_BLOCKS; b++)
            blocks[b] = (struct ah_problem_block){.forward_us = forward, .backward_us = {backward, 99, 99}};
        struct ah_cluster_problem in = {.n_blocks = stages * each,
                                        .n_kinds = 1,
                                        .n_classes = 1,
                                        .kinds = &kind,
                                        .classes = &class,
                                        .links = &link,
                                        .micro_batches = m,
                                        .boundary_bytes = 1000,
                                        .gradient_bytes = gradients};
        struct ah_stage made[MOST_UNITS] = {0};
        struct ah_pipeline pipeline = {made, stages, m};
        struct ah_arrangement plan = {&pipeline, 1};
        struct ah_stage_sim_result result = {0};
        struct ah_error err = {0};
        for (size_t i = 0; i < stages; i++)
            made[i] = (struct ah_stage){.first = i, .end = i + 1};
        assert_true(ah_pipeline_fit(&in, &pipeline));
        CHECK_OK(ah_stage_sim_run(&in, &plan, &result, &err), err);
        double expected = (double)(m + stages - 1) * (forward + backward);
        assert_true(fabs(result.step_us - expected) <= 1e-9 * expected);
        double alone_us;
        CHECK_OK(ah_pipeline_time(&in, &pipeline, &alone_us, &err), err);
        assert_true(fabs(alone_us - expected) <= 1e-9 * expected);
        assert_true(fabs(ah_split_formula_us(&in, &pipeline) - expected) <= 1e-9 * expected);
    }
}
