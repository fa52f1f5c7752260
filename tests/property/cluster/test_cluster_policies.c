/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests other systems' arrangements on random problems. They are complete, fit the memory, take the time that they
 * state, and are never faster than ours. `megatron` equals the best of its grids, which the test enumerates.
 */
#include "planner/cluster/mixed.h"
#include "planner/cluster/policies/cluster_policies.h"
#include "planner/cluster/sim/stage_sim.h"
#include "tests/property/cluster/optimum.h"
#include "tests/property/cluster/problems.h"

#include <math.h>
#include <stdio.h>

enum { INSTANCES = 600 };

static size_t problems(void)
{
    return check_scaled(INSTANCES);
}

/* The rates are so slow that HexiScale's costs favour higher degrees in some cases. */
static const double rates[2 * MOST_KINDS] = {1e12, 2.5e12, 4e12, 1e12, 2.5e12, 4e12};

static double search(const struct ah_cluster_problem *problem, enum ah_cluster_policy policy,
                     struct ah_draft *best)
{
    const struct ah_cluster_policy_input input = {problem, rates, 1024, 512, 5000, 1};
    struct ah_error err = {0};
    double us;
    CHECK_OK(ah_draft_init(best, problem, &err), err);
    CHECK_OK(ah_cluster_policies_search(&input, policy, INFINITY, best, &us, &err), err);
    return us;
}

static void check_pipeline(const struct ah_cluster_problem *problem, const struct ah_pipeline *pipeline,
                           size_t *left)
{
    size_t next = 0;
    assert_true(pipeline->micro_batches > 0);
    for (size_t i = 0; i < pipeline->n_stages; i++) {
        const struct ah_stage *stage = &pipeline->stages[i];
        assert_true(stage->first == next && stage->end > next);
        assert_true(left[stage->class]-- > 0);
        assert_true(stage->memory_bytes <= ah_problem_kind_of(problem, stage->class)->capacity_bytes);
        next = stage->end;
    }
    assert_int_equal(next, problem->n_blocks);
}

/* Checks that no unit occurs twice, pipelines have all blocks, all micro-batches are dealt, and the time is right. */
static void check_arrangement(const struct ah_cluster_problem *problem,
                              const struct ah_arrangement *arrangement, double told_us)
{
    size_t left[MOST_CLASSES];
    uint64_t micro_batches = 0;
    struct ah_stage_sim_result result = {0};
    struct ah_error err = {0};
    for (size_t c = 0; c < problem->n_classes; c++)
        left[c] = problem->classes[c].units;
    for (size_t p = 0; p < arrangement->n_pipelines; p++) {
        check_pipeline(problem, &arrangement->pipelines[p], left);
        micro_batches += arrangement->pipelines[p].micro_batches;
    }
    assert_int_equal(micro_batches, problem->micro_batches);
    CHECK_OK(ah_stage_sim_run(problem, arrangement, &result, &err), err);
    assert_true(fabs(result.step_us - told_us) <= 1e-9 * told_us);
}

TEST(cluster_policies, arrangements_are_whole)
{
    uint64_t random = 0x2545f4914f6cdd1d;
    size_t found[AH_CLUSTER_POLICIES] = {0}, slower = 0;
    for (size_t n = 0; n < problems(); n++) {
        struct case_problem c;
        draw_problem(&c, &random, 7, 5, 6);
        c.problem.update_limit_us = 0; /* nothing on the host */
        double best_us = find_optimum_us(&c.problem);
        for (unsigned policy = AH_CLUSTER_POLICY_OPTIMAL + 1; policy < AH_CLUSTER_POLICIES; policy++) {
            struct ah_draft draft, again;
            double us = search(&c.problem, policy, &draft);
            assert_true(us >= best_us * (1 - 1e-9));
            assert_true(memcmp(&(double){search(&c.problem, policy, &again)}, &us, sizeof us) == 0);
            if (!isinf(us))
                check_arrangement(&c.problem, &draft.arrangement, us);
            found[policy] += !isinf(us);
            slower += !isinf(us) && us > best_us * 1.01;
            ah_draft_release(&draft);
            ah_draft_release(&again);
        }
    }
    for (unsigned policy = AH_CLUSTER_POLICY_OPTIMAL + 1; policy < AH_CLUSTER_POLICIES; policy++) {
        printf("%s: found in %zu of %zu instances\n", ah_words_cluster_policy[policy], found[policy],
               problems());
        assert_true(found[policy] > problems() / 4);
    }
    assert_true(slower > problems() / 4);
}

/* ---- hexiscale, with degrees of its own ---- */

/* Makes units of two GPUs on the same nodes: each pass takes half the time, and each GPU holds half the states. */
static void pair_up(const struct case_problem *c, struct case_problem *pairs)
{
    *pairs = *c;
    pairs->problem.kinds = pairs->kinds;
    pairs->problem.classes = pairs->classes;
    for (size_t k = 0; k < c->problem.n_kinds; k++) {
        pairs->kinds[k].tp = 2;
        pairs->kinds[k].blocks = pairs->blocks[k];
        for (size_t b = 0; b < c->problem.n_blocks; b++) {
            struct ah_problem_block *block = &pairs->blocks[k][b];
            block->forward_us /= 2;
            block->state_bytes /= 2;
            for (size_t way = 0; way < AH_PROBLEM_WAYS; way++)
                block->backward_us[way] /= 2;
        }
    }
    for (size_t n = 0; n < c->problem.n_classes; n++)
        pairs->classes[n].units = c->classes[n].units / 2;
}

TEST(cluster_policies, degrees_share_the_nodes_gpus)
{
    uint64_t random = 0xaef17502108ef2d9;
    size_t found = 0, mixed_degrees = 0;
    for (size_t n = 0; n < problems(); n++) {
        struct case_problem c, pairs;
        struct ah_cluster_problem mixed;
        struct ah_arena arena = {0};
        struct ah_draft draft;
        struct ah_error err = {0};
        size_t gpus[MOST_CLASSES] = {0}, degrees = 0;
        draw_problem(&c, &random, 10, MOST_UNITS, 8);
        c.problem.update_limit_us = 0;
        for (size_t k = 0; k < c.problem.n_kinds; k++)
            c.kinds[k].tp = 1;
        pair_up(&c, &pairs);
        CHECK_OK(ah_mixed_build((const struct ah_cluster_problem *[]){&c.problem, &pairs.problem}, 2, &arena,
                                &mixed, &err),
                 err);
        double us = search(&mixed, AH_CLUSTER_POLICY_HEXISCALE, &draft);
        for (size_t i = 0; i < draft.n_stages && !isinf(us); i++) {
            const struct ah_problem_class *class = &mixed.classes[draft.stages[i].class];
            gpus[class->node] += mixed.kinds[class->kind].tp;
            degrees |= mixed.kinds[class->kind].tp;
        }
        for (size_t class = 0; class < c.problem.n_classes; class ++)
            assert_true(gpus[c.classes[class].node] <= c.classes[class].units);
        found += !isinf(us);
        mixed_degrees += degrees == 3;
        ah_draft_release(&draft);
        ah_arena_release(&arena);
    }
    printf("%zu of %zu instances, %zu with both degrees\n", found, problems(), mixed_degrees);
    assert_true(found > problems() / 2 && mixed_degrees > 0);
}

/* ---- megatron ---- */

/* Returns the stage of block `b` in an even split, in which each stage gets `per` counted blocks. */
static size_t even_stage(const struct ah_cluster_problem *problem, unsigned counts, size_t per, size_t b)
{
    size_t counted = 0;
    for (size_t i = 0; i <= b; i++)
        counted += i == 0 ? counts & 1 : i + 1 == problem->n_blocks ? counts >> 1 : 1;
    return counted ? (counted - 1) / per : 0;
}

static double grid_us(const struct ah_cluster_problem *problem, struct ah_draft *draft, const size_t *units,
                      size_t d, size_t p, bool rows, unsigned counts)
{
    size_t all = problem->n_blocks - 2 + (counts & 1) + (counts >> 1);
    struct ah_stage_sim_result result = {0};
    struct ah_error err = {0};
    if (all % p || problem->micro_batches % d)
        return INFINITY;
    ah_draft_begin(draft);
    for (size_t q = 0; q < d; q++) {
        ah_draft_open(draft);
        for (size_t i = 0; i < p; i++) {
            ah_draft_add(draft, units[rows ? q * p + i : i * d + q]);
            struct ah_stage *stage = &draft->stages[draft->n_stages - 1];
            stage->first = SIZE_MAX;
            for (size_t b = 0; b < problem->n_blocks; b++)
                if (even_stage(problem, counts, all / p, b) == i) {
                    stage->first = stage->first == SIZE_MAX ? b : stage->first;
                    stage->end = b + 1;
                }
            if (stage->first == SIZE_MAX)
                return INFINITY;
        }
        draft->arrangement.pipelines[q].micro_batches = problem->micro_batches / d;
        if (!ah_pipeline_fit(problem, &draft->arrangement.pipelines[q]))
            return INFINITY;
    }
    ah_draft_sort(draft);
    CHECK_OK(ah_stage_sim_run(problem, &draft->arrangement, &result, &err), err);
    return result.step_us;
}

/* Returns the time of the best grid of these units and all rows that start with them. `used` has the row's nodes. */
static double best_grid_us(const struct ah_cluster_problem *problem, struct ah_draft *draft, size_t *units,
                           size_t n, unsigned used)
{
    double best_us = INFINITY;
    for (size_t d = 1; d <= n; d++)
        for (unsigned way = 0; n % d == 0 && way < 8; way++)
            best_us = fmin(best_us, grid_us(problem, draft, units, d, n / d, way & 1, way >> 1));
    for (size_t c = 0; c < problem->n_classes; c++) {
        if (used & 1U << c)
            continue;
        for (size_t u = 0; u < problem->classes[c].units; u++)
            units[n + u] = c;
        best_us =
            fmin(best_us, best_grid_us(problem, draft, units, n + problem->classes[c].units, used | 1U << c));
    }
    return best_us;
}

TEST(cluster_policies, megatron_is_the_best_grid)
{
    uint64_t random = 0x9e6c63d0876a9a47;
    size_t found = 0;
    for (size_t n = 0; n < problems(); n++) {
        struct case_problem c;
        struct ah_draft draft, best;
        struct ah_error err = {0};
        size_t units[MOST_UNITS];
        draw_problem(&c, &random, 10, MOST_UNITS, 8);
        c.problem.update_limit_us = 0; /* nothing on the host */
        CHECK_OK(ah_draft_init(&draft, &c.problem, &err), err);
        double us = search(&c.problem, AH_CLUSTER_POLICY_MEGATRON, &best);
        double grid = best_grid_us(&c.problem, &draft, units, 0, 0);
        if (isinf(us) != isinf(grid) || (!isinf(us) && fabs(us - grid) > 1e-9 * us))
            fail_msg("instance %zu: %.3f us, the best grid takes %.3f", n, us, grid);
        found += !isinf(us);
        ah_draft_release(&draft);
        ah_draft_release(&best);
    }
    printf("%zu instances, %zu with a grid that fits\n", problems(), found);
    assert_true(found > problems() / 2);
}
