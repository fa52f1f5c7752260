/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests segments, their groups of ranks, and memory against examples worked out by hand.
 */
#include "planner/cluster/cluster_document.h"

#include "tests/support/check.h"

enum { BLOCKS = 6 };

/* Two nodes: node 0 has one unit of two GPUs, node 1 has eight GPUs in two units of four. */
struct fixture {
    struct ah_cluster cluster;
    struct ah_cluster_gpu gpus[2];
    struct ah_cluster_node nodes[2];
    struct ah_cluster_problem problem;
    struct ah_problem_block blocks[BLOCKS];
    struct ah_problem_kind kinds[2];
    struct ah_problem_class classes[2];
    struct ah_problem_link links[4];
    uint64_t gradients[BLOCKS];
};

static void set_up(struct fixture *f)
{
    *f = (struct fixture){
        .gpus = {{.name = "small", .memory_bytes = 1000, .reserved_bytes = 100},
                 {.name = "large", .memory_bytes = 4000, .reserved_bytes = 100}},
        .nodes = {{.id = "n0", .gpu = "small", .gpus = 2}, {.id = "n1", .gpu = "large", .gpus = 8}},
        .classes = {{0, 0, 1, 1e9}, {1, 1, 2, 1e9}},
        .links = {{4e9, 1}, {1e9, 2}, {1e9, 2}, {4e9, 1}}};
    f->cluster = (struct ah_cluster){.gpus = f->gpus, .n_gpus = 2, .nodes = f->nodes, .n_nodes = 2};
    for (size_t b = 0; b < BLOCKS; b++) {
        f->blocks[b] = (struct ah_problem_block){
            .forward_us = 10, .backward_us = {20, 20, 30}, .state_bytes = 50, .saved_bytes = {9, 6, 3}};
        f->gradients[b] = 1000000;
    }
    f->kinds[0] = (struct ah_problem_kind){
        .gpu = "small", .tp = 2, .reserved_bytes = 100, .capacity_bytes = 900, .blocks = f->blocks};
    f->kinds[1] = (struct ah_problem_kind){
        .gpu = "large", .tp = 4, .reserved_bytes = 100, .capacity_bytes = 3900, .blocks = f->blocks};
    f->problem = (struct ah_cluster_problem){.n_blocks = BLOCKS,
                                             .n_kinds = 2,
                                             .n_classes = 2,
                                             .kinds = f->kinds,
                                             .classes = f->classes,
                                             .links = f->links,
                                             .micro_batches = 8,
                                             .boundary_bytes = 100,
                                             .gradient_bytes = f->gradients};
}

/* Pipeline 0 runs on the unit of two GPUs; pipeline 1 runs on both units of four, cut after block 2. */
static void fill(struct fixture *f, struct ah_arena *arena, struct ah_cluster_plan *plan)
{
    struct ah_stage one[] = {{.class = 0, .end = BLOCKS}};
    struct ah_stage two[] = {{.class = 1, .end = 3}, {.class = 1, .first = 3, .end = BLOCKS}};
    struct ah_pipeline pipelines[] = {{one, 1, 3}, {two, 2, 5}};
    const struct ah_arrangement arrangement = {pipelines, 2};
    struct ah_error err = {0};
    assert_true(ah_pipeline_fit(&f->problem, &pipelines[0]) && ah_pipeline_fit(&f->problem, &pipelines[1]));
    *plan = (struct ah_cluster_plan){.generator = "test",
                                     .inputs = {{"m", ""}, {"c", ""}},
                                     .training = {.batch = 8, .micro_batches = 8, .seq = 4}};
    CHECK_OK(ah_cluster_document_fill(&f->cluster, &f->problem, &arrangement, arena, plan, &err), err);
}

static void check_ranks(const uint64_t *ranks, size_t n, const uint64_t *expected, size_t n_expected)
{
    assert_int_equal(n, n_expected);
    assert_memory_equal(ranks, expected, n * sizeof *ranks);
}

TEST(cluster_document, slices_of_unequal_degrees)
{
    static const uint64_t high[4][2] = {{0, 6}, {0, 7}, {1, 8}, {1, 9}};
    static const uint64_t low[4][2] = {{0, 2}, {0, 3}, {1, 4}, {1, 5}};
    struct fixture f;
    struct ah_arena arena = {0};
    struct ah_cluster_plan plan;
    set_up(&f);
    fill(&f, &arena, &plan);
    assert_int_equal(plan.n_segments, 2);
    assert_int_equal(plan.segments[0].first_block, 3);
    assert_int_equal(plan.segments[1].first_block, 0);
    for (size_t s = 0; s < 2; s++) {
        assert_int_equal(plan.segments[s].n_groups, 4);
        assert_int_equal(plan.segments[s].bytes, 3000000);
        /* The all-reduce moves 2 (2 - 1) / 2 times 3 MB at 1 GB/s, and has twice the latency of 2 us. */
        check_near(plan.segments[s].time_us, 3000 + 4, 1e-12);
        for (size_t g = 0; g < 4; g++)
            check_ranks(plan.segments[s].groups[g].ranks, plan.segments[s].groups[g].n_ranks,
                        s ? low[g] : high[g], 2);
    }
    ah_arena_release(&arena);
}

TEST(cluster_document, frozen_blocks_are_no_segment)
{
    struct fixture f;
    struct ah_arena arena = {0};
    struct ah_cluster_plan plan;
    set_up(&f);
    for (size_t b = 0; b < 3; b++)
        f.gradients[b] = 0;
    fill(&f, &arena, &plan);
    assert_int_equal(plan.n_segments, 1);
    assert_int_equal(plan.segments[0].first_block, 3);
    ah_arena_release(&arena);
}

TEST(cluster_document, says_who_works)
{
    struct fixture f;
    struct ah_arena arena = {0};
    struct ah_cluster_plan plan;
    set_up(&f);
    f.nodes[1].gpus = 9;
    fill(&f, &arena, &plan);
    check_ranks(plan.pipelines[1].stages[1].ranks, 4, (const uint64_t[]){6, 7, 8, 9}, 4);
    check_ranks(plan.idle_ranks, plan.n_idle_ranks, (const uint64_t[]){10}, 1);
    /* states of 6 x 50, one micro-batch in flight of 6 x 9, and a reserve of 100 */
    assert_int_equal(plan.pipelines[0].stages[0].memory_bytes, 300 + 54 + 100);
    /* states of 3 x 50, two micro-batches in flight of 3 x 9 each, and a reserve of 100 */
    assert_int_equal(plan.pipelines[1].stages[0].memory_bytes, 150 + 54 + 100);
    assert_int_equal(plan.pipelines[1].stages[0].in_flight, 2);
    check_near(plan.pipelines[0].time_us, 3 * 180, 1e-12);
    check_near(plan.predicted.tokens_per_s, 1e6 * 32 / plan.predicted.step_us, 1e-12);
    ah_arena_release(&arena);
}
