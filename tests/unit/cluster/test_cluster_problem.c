/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests that all working GPUs of a node share its host, whatever pipeline and degree. Their number limits its memory.
 */
#include "planner/cluster/cluster_problem.h"

#include "tests/support/check.h"

enum { BLOCKS = 4, SHARERS = 4, CLASSES = 3, STAGES = 4 };

/* There are two nodes. GPUs of the second can form units of two. A block has 100 bytes of state, on GPU or host. */
struct fixture {
    struct ah_cluster_problem problem;
    struct ah_problem_kind kinds[2];
    struct ah_problem_class classes[CLASSES];
    struct ah_problem_block blocks[BLOCKS];
    struct ah_problem_host hosts[SHARERS];
    struct ah_problem_away away[SHARERS][BLOCKS * AH_PROBLEM_AWAYS];
    struct ah_stage stages[STAGES];
    struct ah_pipeline pipelines[2];
    struct ah_arrangement arrangement;
};

static void make(struct fixture *f)
{
    *f = (struct fixture){
        .problem = {.n_blocks = BLOCKS, .n_kinds = 2, .n_classes = CLASSES, .micro_batches = 2}};
    for (size_t b = 0; b < BLOCKS; b++)
        f->blocks[b] = (struct ah_problem_block){.forward_us = 1,
                                                 .backward_us = {2, 2, 3},
                                                 .update_us = 1,
                                                 .state_bytes = 100,
                                                 .saved_bytes = {100, 100, 0}};
    for (size_t s = 0; s < SHARERS; s++) {
        f->hosts[s] = (struct ah_problem_host){240 / (s + 1), f->away[s]};
        for (size_t i = 0; i < BLOCKS * AH_PROBLEM_AWAYS; i++)
            f->away[s][i] = (struct ah_problem_away){
                .optimizer = AH_OPTIMIZER_HOST, .update_us = 10 * (double)(s + 1), .host_bytes = 100};
    }
    for (size_t k = 0; k < 2; k++)
        f->kinds[k] = (struct ah_problem_kind){
            .tp = k + 1, .capacity_bytes = 600, .blocks = f->blocks, .hosts = f->hosts, .n_hosts = SHARERS};
    f->classes[0] = (struct ah_problem_class){.kind = 0, .node = 0, .units = 4};
    f->classes[1] = (struct ah_problem_class){.kind = 0, .node = 1, .units = 4};
    f->classes[2] = (struct ah_problem_class){.kind = 1, .node = 1, .units = 2};
    f->problem.kinds = f->kinds;
    f->problem.classes = f->classes;
    f->problem.update_limit_us = 1000;
    f->pipelines[0] = (struct ah_pipeline){f->stages, 1, 1};
    f->pipelines[1] = (struct ah_pipeline){f->stages + 1, 3, 1};
    f->arrangement = (struct ah_arrangement){f->pipelines, 2};
}

TEST(cluster_problem, those_that_idle_do_not_share)
{
    struct fixture f;
    make(&f);
    f.stages[3].class = 1;
    ah_arrangement_share(&f.problem, &f.arrangement);
    for (size_t i = 0; i < 3; i++) /* stages of both pipelines */
        assert_int_equal(f.stages[i].sharers, 3);
    assert_int_equal(f.stages[3].sharers, 1);
    f.arrangement.n_pipelines = 1;
    ah_arrangement_share(&f.problem, &f.arrangement);
    assert_int_equal(f.stages[0].sharers, 1);
}

TEST(cluster_problem, gpus_share_whatever_their_degree)
{
    struct fixture f;
    make(&f);
    f.stages[2].class = 1; /* a unit of one GPU */
    f.stages[3].class = 2; /* a unit of two GPUs */
    ah_arrangement_share(&f.problem, &f.arrangement);
    assert_int_equal(f.stages[0].sharers, 2);
    assert_int_equal(f.stages[2].sharers, 3);
    assert_int_equal(f.stages[3].sharers, 2); /* 3 GPUs make 2 units of two, not 1.5 */
}

/* To keep all activations, the states of two blocks must be on the host. If the host is shared, only one block's states
 * fit there, so a block recomputes. */
TEST(cluster_problem, a_stage_fits_what_its_share_allows)
{
    struct fixture f;
    make(&f);
    struct ah_stage alone = {.class = 0, .sharers = 1, .end = BLOCKS}, beside = alone;
    beside.sharers = 2;
    assert_true(ah_stage_fit(&f.problem, 1, &alone) && ah_stage_fit(&f.problem, 1, &beside));
    assert_int_equal(alone.states_away, 2);
    assert_int_equal(alone.recompute, 0);
    assert_int_equal(alone.host_bytes, 200);
    check_near(alone.update_us, 2 + 2 * 10, 1e-12);
    assert_int_equal(beside.states_away, 1);
    assert_int_equal(beside.recompute, 1);
    check_near(beside.update_us, 3 + 20, 1e-12);
}
