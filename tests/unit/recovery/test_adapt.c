/* SPDX-License-Identifier: Apache-2.0
 *
 * Adapts a plan of two pipelines to the loss of a node. An idle unit replaces it, or its pipeline shrinks or is
 * dropped.
 */
#include "planner/recovery/adapt.h"

#include "tests/support/documents.h"

#include <string.h>

enum { BLOCKS = 5 };

struct fixture {
    struct ah_arena arena;
    struct ah_document model;
    struct ah_cluster_gpu gpu;
    struct ah_cluster_node nodes[3];
    struct ah_cluster cluster;
    struct ah_cluster_plan_config config;
    uint64_t ranks[3];
    struct ah_cluster_plan_stage stages[3];
    struct ah_cluster_plan_pipeline pipelines[2];
    struct ah_cluster_plan old;
    struct ah_cluster_request request;
};

static const char *const patterns[] = {"*"};
static const char *const ids[] = {"a", "b", "c"};

static void make_request(struct fixture *f)
{
    f->request = (struct ah_cluster_request){.model = f->model.body.model,
                                             .model_sha256 = "m",
                                             .cluster = &f->cluster,
                                             .cluster_sha256 = "c",
                                             .training = {.batch = 4,
                                                          .micro_batches = 4,
                                                          .seq = 8,
                                                          .trainable = (const char **)(uintptr_t)patterns,
                                                          .n_trainable = 1},
                                             .generator = "test"};
}

/* Pipeline 0 has stages on nodes a and b, pipeline 1 has one on c. The new cluster has the nodes in mask `there`. */
static void begin(struct fixture *f, unsigned there)
{
    memset(f, 0, sizeof *f);
    load_document(&f->model, "tests/cli/documents/model-least.json", AH_DOCUMENT_MODEL);
    f->gpu = (struct ah_cluster_gpu){.name = "g", .memory_bytes = 1 << 30, .flops_per_s = 1e12};
    f->cluster = (struct ah_cluster){
        .name = "x", .device = AH_DEVICE_CUDA, .gpus = &f->gpu, .n_gpus = 1, .nodes = f->nodes};
    for (size_t n = 0; n < 3; n++)
        if (there & 1U << n)
            f->nodes[f->cluster.n_nodes++] = (struct ah_cluster_node){.id = ids[n],
                                                                      .gpu = "g",
                                                                      .gpus = 1,
                                                                      .intra_bytes_per_s = 1e9,
                                                                      .nic_bytes_per_s = 1e9,
                                                                      .host_memory_bytes = 1};
    f->config = (struct ah_cluster_plan_config){.blocks = BLOCKS};
    for (size_t i = 0; i < 3; i++)
        f->stages[i] = (struct ah_cluster_plan_stage){.node = ids[i],
                                                      .gpu = "g",
                                                      .tp = 1,
                                                      .ranks = &f->ranks[i],
                                                      .n_ranks = 1,
                                                      .first_block = i == 1 ? 3 : 0,
                                                      .blocks = i == 2 ? BLOCKS
                                                                : i    ? BLOCKS - 3
                                                                       : 3,
                                                      .configs = &f->config,
                                                      .n_configs = 1};
    f->pipelines[0] =
        (struct ah_cluster_plan_pipeline){.micro_batches = 2, .stages = f->stages, .n_stages = 2};
    f->pipelines[1] =
        (struct ah_cluster_plan_pipeline){.micro_batches = 2, .stages = f->stages + 2, .n_stages = 1};
    f->old = (struct ah_cluster_plan){.blocks = BLOCKS, .pipelines = f->pipelines, .n_pipelines = 2};
    make_request(f);
}

static void adapt(struct fixture *f, enum ah_adapt_way way, struct ah_cluster_plan *plan)
{
    struct ah_error err = {0};
    bool fits = false;
    CHECK_OK(ah_adapt_plan(&f->request, &f->old, way, &f->arena, plan, &fits, &err), err);
    assert_true(fits);
}

static void end(struct fixture *f)
{
    ah_document_release(&f->model);
    ah_arena_release(&f->arena);
}

TEST(adapt, leaves_a_plan_that_lost_nothing)
{
    static struct fixture f;
    begin(&f, 7);
    for (int way = 0; way < AH_ADAPT_WAYS; way++) {
        struct ah_cluster_plan plan;
        adapt(&f, (enum ah_adapt_way)way, &plan);
        assert_int_equal(plan.n_pipelines, 2);
        assert_int_equal(plan.pipelines[0].stages[0].blocks, 3);
        assert_string_equal(plan.pipelines[0].stages[1].node, "b");
        assert_int_equal(plan.pipelines[1].stages[0].blocks, BLOCKS);
    }
    end(&f);
}

TEST(adapt, replaces_shrinks_or_drops)
{
    static struct fixture f;
    struct ah_cluster_plan plan;
    begin(&f, 5); /* node b is gone, and no unit is idle */
    adapt(&f, AH_ADAPT_REPLACE, &plan);
    assert_int_equal(plan.n_pipelines, 2);
    adapt(&f, AH_ADAPT_SHRINK, &plan);
    assert_int_equal(plan.n_pipelines, 2);
    assert_int_equal(plan.pipelines[0].stages[0].blocks, BLOCKS); /* node a holds all blocks of pipeline 0 */
    adapt(&f, AH_ADAPT_DROP, &plan);
    assert_int_equal(plan.n_pipelines, 1);
    assert_string_equal(plan.pipelines[0].stages[0].node, "c");
    assert_int_equal(plan.n_idle_ranks, 1);
    assert_int_equal(plan.pipelines[0].micro_batches, 4);
    end(&f);
}

TEST(adapt, takes_an_idle_unit_in_place_of_a_lost_one)
{
    static struct fixture f;
    struct ah_cluster_plan plan;
    begin(&f, 5);
    f.nodes[0].gpus = 2; /* one GPU of node a is idle */
    adapt(&f, AH_ADAPT_REPLACE, &plan);
    assert_int_equal(plan.n_pipelines, 2);
    assert_int_equal(plan.pipelines[0].n_stages, 2);
    assert_int_equal(plan.pipelines[0].stages[0].blocks, 3);
    assert_string_equal(plan.pipelines[0].stages[1].node, "a");
    end(&f);
}
