/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/train/world.h"

#include "runtime/schedule/messages.h"

#include <inttypes.h>

/* ---- what cannot be run ---- */

static int refuse(struct ah_error *err, const char *what, const char *instead)
{
    return ah_error_set(err, AH_E_UNSUPPORTED, "the plan has %s, which is not run yet; plan %s", what,
                        instead);
}

static int check_stage(const struct ah_cluster_plan *plan, const struct ah_cluster_plan_stage *stage,
                       struct ah_error *err)
{
    if (stage->tp > 1 || stage->n_ranks > 1)
        return refuse(err, "stages that several ranks share (tensor parallelism)", "with '--tp 1'");
    if (stage->program >= plan->n_programs)
        return ah_error_set(err, AH_E_DOCUMENT, "stage of node '%s': program %" PRIu64 " is not in the plan",
                            stage->node, stage->program);
    if (plan->programs[stage->program].numeric_signature.device != AH_DEVICE_CPU)
        return refuse(err, "ranks with GPUs", "for a cluster of CPU machines");
    return AH_OK;
}

static int check_plan(const struct ah_cluster_plan *plan, struct ah_error *err)
{
    int rc = AH_OK;
    if (!plan->n_programs)
        return ah_error_set(err, AH_E_DOCUMENT, "the plan has no programs of ranks; plan again");
    if (plan->n_pipelines > 1)
        return refuse(err, "several pipelines", "for fewer ranks, or with slower links between them");
    if (plan->n_idle_ranks)
        return refuse(err, "ranks that idle", "for a cluster without them");
    for (size_t i = 0; i < plan->n_segments; i++)
        if (plan->segments[i].tied)
            return refuse(err, "a table that its first and its last stage share",
                          "a model whose head has a table of its own (tie_word_embeddings false)");
    for (size_t i = 0; i < plan->pipelines[0].n_stages && !rc; i++)
        rc = check_stage(plan, &plan->pipelines[0].stages[i], err);
    return rc;
}

/* ---- ranks ---- */

static int place_stage(struct ah_world *world, const struct ah_cluster_plan *plan, size_t i, uint32_t *owner,
                       struct ah_error *err)
{
    const struct ah_cluster_plan_pipeline *pipeline = &plan->pipelines[0];
    const struct ah_cluster_plan_stage *stage = &pipeline->stages[i];
    const uint64_t rank = stage->ranks[0];
    if (rank >= world->ranks || world->programs[rank])
        return ah_error_set(err, AH_E_DOCUMENT, "pipelines[0].stages[%zu]: rank %" PRIu64 " %s", i, rank,
                            rank >= world->ranks ? "is above the number of stages"
                                                 : "has another stage, too");
    world->programs[rank] = &plan->programs[stage->program];
    world->nodes[rank] = stage->node;
    world->places[rank] = (struct ah_trainer_rank){
        .rank = (uint32_t)rank,
        .ranks = world->ranks,
        .before = i ? (uint32_t)pipeline->stages[i - 1].ranks[0] : 0,
        .behind = i + 1 < pipeline->n_stages ? (uint32_t)pipeline->stages[i + 1].ranks[0] : 0,
        .owner = owner};
    for (uint64_t block = stage->first_block; block < stage->first_block + stage->blocks; block++)
        owner[block] = (uint32_t)rank;
    return AH_OK;
}

static int check_messages(const struct ah_cluster_plan_pipeline *pipeline, const struct ah_cluster_plan *plan,
                          struct ah_error *err)
{
    struct ah_arena arena = {0};
    struct ah_messages *messages = ah_arena_array(&arena, pipeline->n_stages, sizeof *messages);
    const struct ah_messages **stages = ah_arena_array(&arena, pipeline->n_stages, sizeof *stages);
    int rc = messages && stages ? AH_OK : ah_error_memory(err);
    for (size_t i = 0; i < pipeline->n_stages && !rc; i++) {
        stages[i] = &messages[i];
        rc = ah_messages_read(&plan->programs[pipeline->stages[i].program], &arena, &messages[i], err);
    }
    rc = rc ? rc : ah_messages_check(stages, pipeline->n_stages, err);
    ah_arena_release(&arena);
    return rc;
}

int ah_world_init(struct ah_world *ret_world, const struct ah_cluster_plan *plan, struct ah_arena *arena,
                  struct ah_error *err)
{
    int rc = check_plan(plan, err);
    if (rc)
        return rc;
    const size_t n = plan->pipelines[0].n_stages;
    uint32_t *owner = ah_arena_array(arena, plan->blocks, sizeof *owner);
    struct ah_world world = {.ranks = (uint32_t)n,
                             .programs = ah_arena_array(arena, n, sizeof *world.programs),
                             .places = ah_arena_array(arena, n, sizeof *world.places),
                             .nodes = ah_arena_array(arena, n, sizeof *world.nodes)};
    if (!owner || !world.programs || !world.places || !world.nodes)
        return ah_error_memory(err);
    for (size_t i = 0; i < n && !rc; i++)
        rc = place_stage(&world, plan, i, owner, err);
    rc = rc ? rc : check_messages(&plan->pipelines[0], plan, err);
    if (!rc)
        *ret_world = world;
    return rc;
}
