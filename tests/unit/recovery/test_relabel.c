/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests renaming nodes of a plan so that states need not move. Equal nodes swap names, a different node keeps its name.
 */
#include "planner/recovery/relabel.h"

#include "planner/recovery/roles.h"
#include "tests/support/check.h"

#include <string.h>

enum { BLOCKS = 6, SLICES = 2 };

struct fixture {
    struct ah_arena arena;
    struct ah_cluster_gpu gpu;
    struct ah_cluster_node nodes[3];
    struct ah_cluster_pair pair;
    struct ah_cluster cluster;
    uint64_t bytes[BLOCKS + 1][AH_SHARD_KINDS];
    struct ah_states states;
    struct ah_holder entries[6];
    struct ah_holders holders;
    struct ah_cluster_plan_config configs[3];
    uint64_t ranks[3][2], group[2][2];
    struct ah_cluster_plan_stage stages[3];
    struct ah_cluster_plan_pipeline pipeline;
    struct ah_cluster_plan_group groups[2];
    struct ah_cluster_plan_segment segment;
    struct ah_cluster_plan plan;
};

static void make_cluster(struct fixture *f)
{
    static const char *const ids[] = {"a", "b", "c"};
    f->gpu = (struct ah_cluster_gpu){.name = "g", .memory_bytes = 2, .flops_per_s = 1};
    for (size_t n = 0; n < 3; n++)
        f->nodes[n] = (struct ah_cluster_node){.id = ids[n],
                                               .gpu = "g",
                                               .gpus = 2,
                                               .intra_bytes_per_s = 8,
                                               .nic_bytes_per_s = n == 2 ? 3 : 4,
                                               .host_memory_bytes = 1};
    f->pair = (struct ah_cluster_pair){"a", "c", 1, 0};
    f->cluster = (struct ah_cluster){
        .name = "x", .device = AH_DEVICE_CUDA, .gpus = &f->gpu, .n_gpus = 1, .nodes = f->nodes, .n_nodes = 3};
}

/* Makes a plan in which stage n has two blocks and degree 2 and runs on node n. */
static void make_plan(struct fixture *f)
{
    for (size_t n = 0; n < 3; n++) {
        f->ranks[n][0] = 2 * n;
        f->ranks[n][1] = 2 * n + 1;
        f->configs[n] = (struct ah_cluster_plan_config){.first_block = 2 * n, .blocks = 2};
        f->stages[n] = (struct ah_cluster_plan_stage){.node = f->nodes[n].id,
                                                      .gpu = "g",
                                                      .tp = 2,
                                                      .ranks = f->ranks[n],
                                                      .n_ranks = 2,
                                                      .first_block = 2 * n,
                                                      .blocks = 2,
                                                      .configs = &f->configs[n],
                                                      .n_configs = 1};
    }
    f->group[0][0] = 0;
    f->group[0][1] = 4;
    f->groups[0] = (struct ah_cluster_plan_group){f->group[0], 2};
    f->segment = (struct ah_cluster_plan_segment){.groups = f->groups, .n_groups = 1};
    f->pipeline = (struct ah_cluster_plan_pipeline){.stages = f->stages, .n_stages = 3};
    f->plan = (struct ah_cluster_plan){
        .pipelines = &f->pipeline, .n_pipelines = 1, .segments = &f->segment, .n_segments = 1};
}

/* Puts slice `slice` of the blocks of stage `stage` on GPU `gpu` of node `node`. */
static void hold(struct fixture *f, size_t node, uint64_t gpu, size_t stage, size_t slice)
{
    uint8_t *holds = ah_arena_array(&f->arena, ah_states_shards(&f->states), 1);
    assert_non_null(holds);
    for (size_t b = 2 * stage; b < 2 * stage + 2; b++)
        for (unsigned k = 0; k < AH_SHARD_KINDS; k++)
            holds[ah_states_index(&f->states, (struct ah_shard){b, slice, (enum ah_shard_kind)k})] = 1;
    f->entries[f->holders.n_entries++] = (struct ah_holder){AH_MEDIUM_GPU, node, gpu, holds};
}

static void begin(struct fixture *f)
{
    memset(f, 0, sizeof *f);
    make_cluster(f);
    make_plan(f);
    for (size_t b = 0; b < BLOCKS; b++)
        for (size_t k = 0; k < AH_SHARD_KINDS; k++)
            f->bytes[b][k] = 100;
    f->states = (struct ah_states){.n_blocks = BLOCKS, .slices = SLICES, .bytes = f->bytes};
    f->holders.entries = f->entries;
    /* Nodes a and b have each other's states. On node c the two slices are swapped. */
    hold(f, 0, 0, 1, 0);
    hold(f, 0, 1, 1, 1);
    hold(f, 1, 0, 0, 0);
    hold(f, 1, 1, 0, 1);
    hold(f, 2, 0, 2, 1);
    hold(f, 2, 1, 2, 0);
}

static uint64_t kept(struct fixture *f)
{
    struct ah_roles roles;
    struct ah_error err = {0};
    uint64_t bytes = 0;
    CHECK_OK(ah_roles_init(&roles, &f->plan, &f->cluster, &f->states, &f->arena, &err), err);
    for (size_t r = 0; r < roles.n; r++)
        for (size_t shard = 0; shard < ah_states_shards(&f->states); shard++)
            if (ah_role_needs(&roles.items[r], &f->states, shard) &&
                ah_role_kept(&roles.items[r], &f->states, &f->holders, shard))
                bytes += ah_states_bytes(&f->states, shard);
    return bytes;
}

TEST(relabel, keeps_everything_where_it_is)
{
    static struct fixture f;
    struct ah_error err = {0};
    begin(&f);
    assert_int_equal(kept(&f), 0);
    CHECK_OK(ah_relabel_plan(&f.cluster, &f.states, &f.holders, &f.arena, &f.plan, &err), err);
    assert_int_equal(kept(&f), BLOCKS * AH_SHARD_KINDS * 100);
    assert_string_equal(f.stages[0].node, "b");
    assert_int_equal(f.stages[0].ranks[0], 2);
    assert_string_equal(f.stages[2].node, "c");
    assert_int_equal(f.stages[2].ranks[0], 5);
    assert_int_equal(f.group[0][0], 2); /* groups follow their ranks */
    assert_int_equal(f.group[0][1], 5);
    assert_int_equal(f.plan.n_idle_ranks, 0);
    ah_arena_release(&f.arena);
}

TEST(relabel, leaves_nodes_that_differ)
{
    static struct fixture f;
    struct ah_error err = {0};
    begin(&f);
    f.cluster.pairs = &f.pair; /* a and b differ, because only a has its own link to c */
    f.cluster.n_pairs = 1;
    CHECK_OK(ah_relabel_plan(&f.cluster, &f.states, &f.holders, &f.arena, &f.plan, &err), err);
    assert_string_equal(f.stages[0].node, "a");
    assert_int_equal(kept(&f), 2 * AH_SHARD_KINDS * 100);
    ah_arena_release(&f.arena);
}
