/* SPDX-License-Identifier: Apache-2.0
 *
 * Fails each allocation of a recovery once: expects no leak, and an error or the same plan and moves.
 */
#include "planner/recovery/recovery.h"

#include "planner/recovery/adapt.h"
#include "planner/recovery/relabel.h"
#include "planner/recovery/transfers.h"
#include "tests/support/fault.h"
#include "tests/support/least_cluster.h"

struct sweep {
    struct ah_recovery_request request;
    double us; /* step time plus time of the moves; 0: not known yet */
};

/* Recovers in every way except the search for a new plan, which another file tests. */
static int recover(void *context, struct ah_error *err)
{
    struct sweep *sweep = context;
    const struct ah_recovery_request *request = &sweep->request;
    struct ah_arena arena = {0};
    struct ah_cluster_plan plan;
    struct ah_moves moves = {0};
    struct ah_states states;
    struct ah_holders holders;
    bool fits = false;
    const struct ah_cluster_request *cluster = &request->cluster;
    int rc = ah_states_init(&states, cluster->model, &cluster->training, 2, &arena, err);
    rc = rc ? rc : ah_holders_init(&holders, request->inventory, cluster->cluster, &states, &arena, err);
    rc = rc ? rc : ah_adapt_plan(cluster, request->old_plan, AH_ADAPT_REPLACE, &arena, &plan, &fits, err);
    assert_true(rc || fits);
    rc = rc ? rc : ah_relabel_plan(cluster->cluster, &states, &holders, &arena, &plan, err);
    const struct ah_transfers_input input = {.cluster = cluster->cluster,
                                             .states = &states,
                                             .holders = &holders,
                                             .plan = &plan,
                                             .limits = {400, 10}};
    rc = rc ? rc : ah_transfers_plan(&input, &arena, &moves, err);
    const double us = rc ? 0 : plan.predicted.step_us + moves.predicted.time_us;
    if (!rc && sweep->us > 0)
        check_near(us, sweep->us, 0);
    if (!rc)
        sweep->us = us;
    ah_arena_release(&arena);
    return rc;
}

static const char text[] =
    "{\"kind\": \"inventory\", \"format_version\": \"1.0\", \"generator\": \"test\", \"model\": {\"name\": "
    "\"least\", "
    "\"sha256\": \"" LEAST_SHA256 "\"}, \"blocks\": 5, "
    "\"slices\": 2, \"step\": 9, \"nodes\": [{\"id\": \"desktop-4090\", \"gpus\": 1}], \"holdings\": "
    "[{\"medium\": \"gpu\", \"node\": \"desktop-4090\", \"gpu\": 0, \"step\": 9, \"first_block\": 0, "
    "\"blocks\": 3}, "
    "{\"medium\": \"storage\", \"step\": 9, \"first_block\": 2, \"blocks\": 3}]}";

TEST(recovery, survives_every_failing_allocation)
{
    static struct least_cluster least;
    struct ah_document inventory;
    struct ah_error err = {0};
    least_cluster_open(&least);
    CHECK_OK(ah_document_parse(&inventory, "inventory", text, sizeof text - 1, AH_DOCUMENT_INVENTORY, &err),
             err);
    struct ah_cluster_cloud cloud = {1e8, 1e8};
    least.cluster.body.cluster->cloud = &cloud;
    struct ah_cluster_plan_config config = {.blocks = 5};
    uint64_t ranks[] = {0};
    struct ah_cluster_plan_stage stage = {.node = "desktop-4090",
                                          .gpu = "rtx4090",
                                          .tp = 1,
                                          .ranks = ranks,
                                          .n_ranks = 1,
                                          .blocks = 5,
                                          .configs = &config,
                                          .n_configs = 1};
    struct ah_cluster_plan_pipeline pipeline = {.micro_batches = 2, .stages = &stage, .n_stages = 1};
    struct ah_cluster_plan old = {
        .inputs = {.model = {"least", LEAST_SHA256}}, .blocks = 5, .pipelines = &pipeline, .n_pipelines = 1};
    struct sweep sweep = {
        .request = {.cluster = least.request, .old_plan = &old, .inventory = inventory.body.inventory}};
    CHECK_OK(recover(&sweep, &err), err);
    assert_true(fault_sweep(recover, &sweep, 1) > 40);
    ah_document_release(&inventory);
    least_cluster_close(&least);
}
