/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests estimates of arrangements small enough to time by hand. (1) to (4) are the numbers in stage_estimate.c.
 */
#include "planner/cluster/sim/stage_estimate.h"
#include "planner/cluster/sim/stage_sim.h"
#include "tests/support/check.h"

#include <math.h>

enum { BLOCKS = 2, KINDS = 2, CLASSES = 3, STAGES = 4 };

/* Kind 1 is twice as fast as kind 0. Only computing and updates cost time, unless a test adds other costs. */
struct case_cluster {
    struct ah_problem_block blocks[KINDS][BLOCKS];
    struct ah_problem_kind kinds[KINDS];
    struct ah_problem_class classes[CLASSES];
    struct ah_problem_link links[CLASSES * CLASSES];
    uint64_t gradient_bytes[BLOCKS];
    struct ah_cluster_problem problem;
    struct ah_stage stages[STAGES];
    struct ah_pipeline pipelines[STAGES];
    struct ah_arrangement arrangement;
};

static void build(struct case_cluster *c, size_t n_blocks, double forward_us, double backward_us)
{
    *c = (struct case_cluster){
        .kinds = {{.gpu = "slow", .tp = 1, .capacity_bytes = 1, .blocks = c->blocks[0]},
                  {.gpu = "fast", .tp = 1, .capacity_bytes = 1, .blocks = c->blocks[1]}},
        .classes = {{0, 0, 2, 1e8}, {0, 1, 2, 1e8}, {1, 2, 2, 1e8}}};
    for (size_t b = 0; b < n_blocks; b++)
        for (size_t k = 0; k < KINDS; k++) {
            double back_us = backward_us / (double)(k + 1);
            c->blocks[k][b] = (struct ah_problem_block){.forward_us = forward_us / (double)(k + 1),
                                                        .backward_us = {back_us, back_us, back_us},
                                                        .update_us = 7};
        }
    for (size_t i = 0; i < CLASSES * CLASSES; i++)
        c->links[i] = (struct ah_problem_link){INFINITY, 0};
    c->problem = (struct ah_cluster_problem){.n_blocks = n_blocks,
                                             .n_kinds = KINDS,
                                             .n_classes = CLASSES,
                                             .kinds = c->kinds,
                                             .classes = c->classes,
                                             .links = c->links,
                                             .gradient_bytes = c->gradient_bytes};
    c->arrangement.pipelines = c->pipelines;
}

/* Adds a pipeline with one stage per block. */
static void add(struct case_cluster *c, uint64_t micro_batches, const size_t *classes)
{
    size_t n = c->problem.n_blocks;
    struct ah_stage *stages = c->stages + c->arrangement.n_pipelines * n;
    for (size_t i = 0; i < n; i++)
        stages[i] = (struct ah_stage){.class = classes[i], .first = i, .end = i + 1};
    struct ah_pipeline *pipeline = &c->pipelines[c->arrangement.n_pipelines++];
    *pipeline = (struct ah_pipeline){stages, n, micro_batches};
    assert_true(ah_pipeline_fit(&c->problem, pipeline));
    c->problem.micro_batches += micro_batches;
}

static void check(const struct case_cluster *c, double expected_us, uint64_t expected_passes)
{
    struct ah_error err = {0};
    uint64_t passes = 0;
    double us = 0;
    CHECK_OK(ah_estimate_time(&c->problem, &c->arrangement, &us, &passes, &err), err);
    if (fabs(us - expected_us) > 1e-9 * expected_us)
        fail_msg("estimated %.6f us, by hand %.6f", us, expected_us);
    assert_int_equal(passes, expected_passes);
}

/* Also checks the stage simulation, in cases where its result is easy to work out by hand. */
static void check_stage_sim(const struct case_cluster *c, double expected_us)
{
    struct ah_error err = {0};
    struct ah_stage_sim_result result = {0};
    CHECK_OK(ah_stage_sim_run(&c->problem, &c->arrangement, &result, &err), err);
    assert_true(fabs(result.step_us - expected_us) <= 1e-9 * expected_us);
}

/* Equal stages with free transfers take (m + P - 1)(f + b) plus the update. */
TEST(estimate, equal_stages_take_what_the_formula_says)
{
    struct case_cluster c;
    build(&c, 2, 10, 20);
    add(&c, 5, (size_t[]){0, 1});
    check(&c, (5 + 2 - 1) * 30 + 7, 20);
    check_stage_sim(&c, 187);
}

/* Three equal pipelines have 3 micro-batches of 30 us each. Doubling one pipeline's speed does not shorten the step,
 * but it could take more work. 9 micro-batches at rates of 1/30 + 1/30 + 1/15 per microsecond take 67.5 us. */
TEST(estimate, falls_with_one_of_many_alike_pipelines)
{
    struct case_cluster c;
    build(&c, 1, 10, 20);
    for (size_t p = 0; p < 3; p++)
        add(&c, 3, (size_t[]){0});
    check(&c, 90 + 7, 6); /* equal pipelines that do not interact are simulated once */
    check_stage_sim(&c, 97);
    build(&c, 1, 10, 20);
    add(&c, 3, (size_t[]){0});
    add(&c, 3, (size_t[]){2});
    add(&c, 3, (size_t[]){0});
    check(&c, 0.2 * 90 + 0.8 * 67.5 + 7, 18);
    check_stage_sim(&c, 97);
}

/* Two pipelines with 4 micro-batches each share two NICs. One pipeline alone would end at 510 us, as its stages compute
 * for 2 us and send for 100 us. Together, the pipelines send 8 messages of 100 us each way. */
TEST(estimate, pipelines_wait_for_the_nics_they_share)
{
    struct case_cluster c;
    build(&c, 2, 1, 1);
    c.problem.boundary_bytes = 10000;
    c.links[0 * CLASSES + 1] = c.links[1 * CLASSES + 0] = (struct ah_problem_link){1e8, 0};
    for (size_t p = 0; p < 2; p++)
        add(&c, 4, (size_t[]){0, 1});
    check(&c, 0.2 * 800 + 0.8 * 510 + 7, 16);
}

/* Both stages are on one node, so no message uses a NIC. */
TEST(estimate, stages_of_one_node_share_no_nic)
{
    struct case_cluster c;
    build(&c, 2, 1, 1);
    c.problem.boundary_bytes = 10000;
    c.links[0] = (struct ah_problem_link){1e8, 0};
    add(&c, 4, (size_t[]){0, 0});
    check(&c, 510 + 7, 16);
    check_stage_sim(&c, 517);
}

/* Two pipelines run in opposite directions, with a micro-batch each and sends of 2 us. Both end at 10 + 2 + 30 + 2 + 20
 * = 64. Sums pass both NICs at 100 bytes a microsecond, and the link at 50. Those of block 1 begin when its last
 * backward ends, 22 us earlier, and hold the NICs for 80 us. Then those of block 0 take 6000 / 50, plus the latency
 * twice. */
TEST(estimate, sums_take_turns_behind_their_last_backward)
{
    struct case_cluster c;
    build(&c, 2, 10, 20);
    c.links[0 * CLASSES + 1] = c.links[1 * CLASSES + 0] = (struct ah_problem_link){5e7, 2};
    c.gradient_bytes[0] = 6000;
    c.gradient_bytes[1] = 8000;
    add(&c, 1, (size_t[]){0, 1});
    add(&c, 1, (size_t[]){1, 0});
    check(&c, 42 + 80 + 120 + 4 + 7, 8);
    check_stage_sim(&c, 42 + 80 + 120 + 4 + 7);
}
