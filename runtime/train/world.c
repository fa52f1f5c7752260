/* SPDX-License-Identifier: Apache-2.0
 *
 * World: first refuses plans that trainers cannot run, then gives each rank its program, neighbours and blocks.
 */
#include "runtime/train/world.h"

#include "runtime/schedule/messages.h"
#include "runtime/schedule/trainable.h"

#include <inttypes.h>
#include <string.h>

/* ---- plans that cannot be run ---- */

static int refuse_plan(struct ah_error *err, const char *what, const char *instead)
{
    return ah_error_set(err, AH_E_UNSUPPORTED, "the plan has %s, which cannot run yet; plan %s", what,
                        instead);
}

static bool adds_on_host(const struct ah_plan *program)
{
    size_t block = 0;
    while (block < program->n_blocks && program->blocks[block].accumulator != AH_ACCUMULATOR_HOST)
        block++;
    return block < program->n_blocks;
}

static int check_stage(const struct ah_cluster_plan *plan, const struct ah_cluster_plan_stage *stage,
                       struct ah_error *err)
{
    if (stage->tp > 1 || stage->n_ranks > 1)
        return refuse_plan(err, "stages that several ranks share (tensor parallelism)", "with '--tp 1'");
    if (stage->program >= plan->n_programs)
        return ah_error_set(err, AH_E_DOCUMENT, "stage of node '%s': program %" PRIu64 " is not in the plan",
                            stage->node, stage->program);
    const enum ah_device_kind device = plan->programs[stage->program].numeric_signature.device;
    if (device != plan->programs[0].numeric_signature.device)
        return refuse_plan(err, "ranks on GPUs and others on processors", "for nodes of one kind");
    if (device != AH_DEVICE_CPU && !plan->sharding && plan->n_segments &&
        adds_on_host(&plan->programs[stage->program]))
        return refuse_plan(err, "GPUs that add up gradients in the memory of hosts, and then with each other",
                           "with one micro-batch for each pipeline, or for GPUs with more memory");
    return AH_OK;
}

static int check_pipelines(const struct ah_cluster_plan *plan, struct ah_error *err)
{
    int rc = AH_OK;
    for (size_t p = 0; p < plan->n_pipelines && !rc; p++)
        for (size_t i = 0; i < plan->pipelines[p].n_stages && !rc; i++)
            rc = check_stage(plan, &plan->pipelines[p].stages[i], err);
    return rc;
}

/* True if a pipeline has its embedding and its head on different ranks. */
static bool cuts_model(const struct ah_cluster_plan *plan)
{
    size_t p = 0;
    while (p < plan->n_pipelines && plan->pipelines[p].n_stages == 1)
        p++;
    return p < plan->n_pipelines;
}

/* True if embedding and head both have the table, and their gradients of it are added up. */
static bool splits_table(const struct ah_cluster_plan *plan)
{
    return plan->programs[0].training.tied == AH_TIED_SPLIT;
}

/* Checks that the table's segment is the last one, and that all programs agree on how the table is tied. */
static int check_tied(const struct ah_cluster_plan *plan, struct ah_error *err)
{
    bool has_segment = false;
    for (size_t i = 0; i < plan->n_segments; i++) {
        has_segment = has_segment || plan->segments[i].tied;
        if (plan->segments[i].tied && i + 1 < plan->n_segments)
            return ah_error_set(err, AH_E_DOCUMENT,
                                "segments[%zu]: the tied table must be added up last; plan again", i);
    }
    for (size_t i = 0; i < plan->n_programs; i++)
        if (plan->programs[i].training.tied != plan->programs[0].training.tied)
            return ah_error_set(err, AH_E_DOCUMENT,
                                "programs[%zu].training.tied differs from that of programs[0]; plan again",
                                i);
    if (has_segment && cuts_model(plan) && !splits_table(plan))
        return ah_error_set(err, AH_E_DOCUMENT,
                            "programs: embedding and head are on two ranks, but training.tied is not "
                            "'split'; plan again");
    if (splits_table(plan) && !has_segment && (plan->n_pipelines > 1 || cuts_model(plan)))
        return ah_error_set(err, AH_E_DOCUMENT,
                            "segments: training.tied is 'split', but no segment adds up the table; plan "
                            "again");
    return AH_OK;
}

static int check_plan(const struct ah_cluster_plan *plan, struct ah_error *err)
{
    if (!plan->n_programs)
        return ah_error_set(err, AH_E_DOCUMENT, "the plan has no programs of ranks; plan again");
    int rc = check_pipelines(plan, err);
    return rc ? rc : check_tied(plan, err);
}

/* ---- ranks ---- */

uint64_t ah_world_rank(const struct ah_cluster_plan *plan, uint64_t rank)
{
    uint64_t number = rank;
    for (size_t i = 0; i < plan->n_idle_ranks; i++)
        number -= plan->idle_ranks[i] < rank;
    return number;
}

struct building {
    struct ah_world *world;
    const struct ah_cluster_plan *plan;
    uint32_t *owner; /* by block */
    struct ah_trainer_stage *stages;
    struct ah_trainer_share *shares;
    struct ah_arena *arena;
    struct ah_error *err;
};

/* Checks, if ranks add up gradients, that updates come after all passes, and that host sums are not due in the next
 * step. So sums over ranks wait neither for a message nor for the next step. */
static int check_program(const struct building *b, const struct ah_plan *program, const char *node)
{
    const uint64_t step_micro_batches = program->part ? program->part->step_micro_batches : 0;
    bool updates = false;
    const bool several = b->plan->n_pipelines > 1;
    if (b->plan->sharding || (!several && !splits_table(b->plan)))
        return AH_OK;
    if (several && step_micro_batches != b->plan->training.micro_batches)
        return ah_error_set(b->err, AH_E_DOCUMENT,
                            "program of node '%s': part.step_micro_batches is %" PRIu64
                            ", the plan's %" PRIu64 "; plan again",
                            node, step_micro_batches, b->plan->training.micro_batches);
    for (size_t p = 0; p < program->lanes.n_order[AH_PLAN_LANE_COMPUTE]; p++) {
        const bool update = ah_plan_compute_op(program, p)->op == AH_PLAN_DEVICE_ADAM;
        if (updates && !update)
            return ah_error_set(b->err, AH_E_DOCUMENT,
                                "program of node '%s': lanes.compute[%zu] is a pass after an update, which "
                                "waits for other ranks' gradients; plan again",
                                node, p);
        updates = update;
    }
    for (size_t i = 0; i < program->n_ops; i++) {
        const struct ah_plan_op *op = &program->ops[i];
        const bool adds =
            op->op == AH_PLAN_ACCUMULATE && op->micro_batch + 1 == program->training.micro_batches;
        if (adds && op->due_before)
            return ah_error_set(b->err, AH_E_DOCUMENT,
                                "program of node '%s': ops[%zu].due_before is %" PRIu64 ": gradients must be "
                                "added up over ranks before the next step; plan again",
                                node, i, op->due_before);
    }
    return AH_OK;
}

/* Returns the number of the rank's node, which is one of the node's ranks. */
static uint32_t node_of(const struct building *b, uint32_t rank)
{
    for (uint32_t other = 0; other < b->world->ranks; other++)
        if (other != rank && b->world->nodes[other] && !strcmp(b->world->nodes[other], b->world->nodes[rank]))
            return b->stages[other].node;
    return rank;
}

static int place_stage(struct building *b, size_t p, size_t i, uint64_t first_micro_batch)
{
    struct ah_world *world = b->world;
    const struct ah_cluster_plan *plan = b->plan;
    const struct ah_cluster_plan_pipeline *pipeline = &plan->pipelines[p];
    const struct ah_cluster_plan_stage *stage = &pipeline->stages[i];
    const uint64_t rank = ah_world_rank(plan, stage->ranks[0]);
    if (rank >= world->ranks || world->programs[rank])
        return ah_error_set(
            b->err, AH_E_DOCUMENT, "pipelines[%zu].stages[%zu]: rank %" PRIu64 " %s", p, i, rank,
            rank >= world->ranks ? "is above the number of stages" : "also has another stage");
    world->programs[rank] = &plan->programs[stage->program];
    world->nodes[rank] = stage->node;
    world->places[rank] = (struct ah_trainer_rank){
        .rank = (uint32_t)rank,
        .ranks = world->ranks,
        .before = i ? (uint32_t)ah_world_rank(plan, stage[-1].ranks[0]) : 0,
        .behind = i + 1 < pipeline->n_stages ? (uint32_t)ah_world_rank(plan, stage[1].ranks[0]) : 0,
        .owner = b->owner,
        .stages = b->stages,
        .pipelines = (uint32_t)plan->n_pipelines,
        .shards = plan->sharding,
        .step_batch = plan->training.batch};
    b->stages[rank] = (struct ah_trainer_stage){.pipeline = (uint32_t)p,
                                                .first_block = stage->first_block,
                                                .blocks = stage->blocks,
                                                .first_micro_batch = first_micro_batch,
                                                .micro_batches = pipeline->micro_batches,
                                                .node = node_of(b, (uint32_t)rank),
                                                .nic_bytes_per_s = stage->nic_bytes_per_s};
    for (uint64_t block = stage->first_block; block < stage->first_block + stage->blocks && !p; block++)
        b->owner[block] = (uint32_t)rank;
    return check_program(b, world->programs[rank], stage->node);
}

static int place_pipelines(struct building *b)
{
    uint64_t first_micro_batch = 0;
    int rc = AH_OK;
    for (size_t p = 0; p < b->plan->n_pipelines && !rc; p++) {
        for (size_t i = 0; i < b->plan->pipelines[p].n_stages && !rc; i++)
            rc = place_stage(b, p, i, first_micro_batch);
        first_micro_batch += b->plan->sharding ? 1 : b->plan->pipelines[p].micro_batches;
    }
    return rc;
}

/* ---- sums ---- */

static bool is_owner(const struct building *b, const struct ah_cluster_plan_segment *segment, uint32_t rank)
{
    for (size_t i = 0; segment->n_groups && i < segment->groups[0].n_ranks; i++)
        if (ah_world_rank(b->plan, segment->groups[0].ranks[i]) == rank)
            return true;
    return false;
}

/* Finds the rank that holds a segment's blocks in pipeline `p`. */
static int find_owner(const struct building *b, size_t segment, size_t p, uint32_t *ret_rank)
{
    const struct ah_cluster_plan_segment *it = &b->plan->segments[segment];
    for (uint32_t rank = 0; rank < b->world->ranks; rank++) {
        const struct ah_trainer_stage *stage = &b->stages[rank];
        if (stage->pipeline != p || it->first_block < stage->first_block ||
            it->first_block + it->blocks > stage->first_block + stage->blocks)
            continue;
        *ret_rank = rank;
        return is_owner(b, it, rank)
                   ? AH_OK
                   : ah_error_set(b->err, AH_E_DOCUMENT,
                                  "segments[%zu]: rank %" PRIu32 " has its blocks in pipeline %zu but is not "
                                  "in its groups; plan again",
                                  segment, rank, p);
    }
    return ah_error_set(b->err, AH_E_DOCUMENT,
                        "segments[%zu]: no stage of pipeline %zu has all of its blocks", segment, p);
}

/* Finds the tensors that each block adds up in its own segment: all trained ones, except a split table. */
static int find_trained(const struct building *b, uint32_t *trained)
{
    const struct ah_plan *program = b->world->programs[0];
    const struct ah_plan_training *training = &program->training;
    int rc = ah_trainable_match(&program->model, training->trainable, training->n_trainable, trained, b->err);
    if (!rc && splits_table(b->plan))
        trained[0] &= ~UINT32_C(1);
    return rc;
}

/* Checks that every block with tensors to add up is in exactly one segment. */
static int check_covered(const struct building *b)
{
    const uint64_t blocks = b->plan->blocks;
    uint32_t *count = ah_arena_array(b->arena, blocks, sizeof *count);
    uint32_t *trained = ah_arena_array(b->arena, blocks, sizeof *trained);
    int rc = count && trained ? find_trained(b, trained) : ah_error_memory(b->err);
    if (rc)
        return rc;
    for (size_t s = 0; s < b->plan->n_segments; s++)
        for (uint64_t n = 0; !b->plan->segments[s].tied && n < b->plan->segments[s].blocks; n++)
            count[b->plan->segments[s].first_block + n]++;
    for (uint64_t block = 0; block < blocks; block++)
        if (count[block] > 1 || (trained[block] && !count[block]))
            return ah_error_set(b->err, AH_E_DOCUMENT,
                                "segments: block %" PRIu64 " is in %" PRIu32 " of them; plan again", block,
                                count[block]);
    return AH_OK;
}

/* Lists each pipeline's rank with the head, then each one's with the embedding. Checks that they own the segment. */
static int find_tables(const struct building *b, size_t segment, uint32_t *ranks)
{
    const struct ah_cluster_plan *plan = b->plan;
    for (size_t p = 0; p < plan->n_pipelines; p++) {
        const struct ah_cluster_plan_pipeline *pipeline = &plan->pipelines[p];
        ranks[p] = (uint32_t)ah_world_rank(plan, pipeline->stages[pipeline->n_stages - 1].ranks[0]);
        ranks[plan->n_pipelines + p] = (uint32_t)ah_world_rank(plan, pipeline->stages[0].ranks[0]);
    }
    for (size_t i = 0; i < 2 * plan->n_pipelines; i++)
        if (!is_owner(b, &plan->segments[segment], ranks[i]))
            return ah_error_set(b->err, AH_E_DOCUMENT,
                                "segments[%zu]: rank %" PRIu32 " has the tied table but is not in its "
                                "groups; plan again",
                                segment, ranks[i]);
    return AH_OK;
}

/* Returns the bytes of partial sums and totals through each owner's NIC, each way; 0 if all are on one node. */
static double volume_of(const struct building *b, const struct ah_trainer_share *share, double bytes)
{
    const uint32_t n = ah_trainer_share_members(&b->world->places[0], share);
    double owners = 0;
    bool leaves = false;
    for (uint32_t m = 0; m < n; m++) {
        owners += ah_trainer_share_is_first(share, m);
        leaves = leaves || b->stages[share->ranks[m]].node != b->stages[share->ranks[0]].node;
    }
    return leaves ? 2 * (owners - 1) / owners * bytes : 0;
}

/* True if the segment is a share. Only a split table is one; other tied tables are part of the embedding's gradient. */
static bool is_added_up(const struct building *b, const struct ah_cluster_plan_segment *segment)
{
    return segment->tied ? splits_table(b->plan) : b->plan->n_pipelines > 1;
}

static int add_share(struct building *b, size_t segment, struct ah_trainer_share *ret_share)
{
    const struct ah_cluster_plan_segment *it = &b->plan->segments[segment];
    uint32_t *ranks = ah_arena_array(b->arena, 2 * b->plan->n_pipelines, sizeof *ranks);
    int rc = ranks ? AH_OK : ah_error_memory(b->err);
    if (!rc && it->tied)
        rc = find_tables(b, segment, ranks);
    for (size_t p = 0; p < b->plan->n_pipelines && !rc && !it->tied; p++)
        rc = find_owner(b, segment, p, &ranks[p]);
    if (rc)
        return rc;
    *ret_share = (struct ah_trainer_share){.first_block = it->first_block,
                                           .blocks = it->blocks,
                                           .tied = it->tied,
                                           .ranks = ranks,
                                           .time_us = it->time_us};
    ret_share->volume_bytes = volume_of(b, ret_share, (double)it->bytes);
    return AH_OK;
}

/* Adds the planned time and bytes of a table to the embedding's share, for a table that is not split. */
static void add_table(struct building *b, size_t n, const struct ah_cluster_plan_segment *table)
{
    for (size_t s = 0; s < n; s++)
        if (!b->shares[s].first_block) {
            b->shares[s].time_us += table->time_us;
            b->shares[s].volume_bytes += volume_of(b, &b->shares[s], (double)table->bytes);
        }
}

static int build_shares(struct building *b)
{
    const struct ah_cluster_plan *plan = b->plan;
    size_t n = 0;
    b->shares = ah_arena_array(b->arena, plan->n_segments + 1, sizeof *b->shares);
    int rc = b->shares ? AH_OK : ah_error_memory(b->err);
    for (size_t s = 0; s < plan->n_segments && !rc; s++)
        if (is_added_up(b, &plan->segments[s]))
            rc = add_share(b, s, &b->shares[n++]);
        else if (plan->segments[s].tied)
            add_table(b, n, &plan->segments[s]);
    for (uint32_t rank = 0; rank < b->world->ranks; rank++) {
        b->world->places[rank].shares = b->shares;
        b->world->places[rank].n_shares = n;
    }
    return rc || plan->n_pipelines < 2 || plan->sharding ? rc : check_covered(b);
}

/* ---- messages ---- */

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
    size_t n = 0;
    if (rc)
        return rc;
    for (size_t p = 0; p < plan->n_pipelines; p++)
        n += plan->pipelines[p].n_stages;
    struct ah_world world = {.ranks = (uint32_t)n,
                             .programs = ah_arena_array(arena, n, sizeof *world.programs),
                             .places = ah_arena_array(arena, n, sizeof *world.places),
                             .nodes = ah_arena_array(arena, n, sizeof *world.nodes)};
    struct building b = {.world = &world,
                         .plan = plan,
                         .owner = ah_arena_array(arena, plan->blocks, sizeof *b.owner),
                         .stages = ah_arena_array(arena, n, sizeof *b.stages),
                         .arena = arena,
                         .err = err};
    if (!b.owner || !b.stages || !world.programs || !world.places || !world.nodes)
        return ah_error_memory(err);
    rc = place_pipelines(&b);
    rc = rc ? rc : build_shares(&b);
    for (size_t p = 0; p < plan->n_pipelines && !rc; p++)
        rc = check_messages(&plan->pipelines[p], plan, err);
    if (!rc)
        *ret_world = world;
    return rc;
}
