/* SPDX-License-Identifier: Apache-2.0
 *
 * Gives the replay's items to a tally, like the ops of a run. Sends are moved to the send lane. Times that the replay
 * lacks are derived: a message arrives when its send ends; a sum is an op on the sums lane of each owner. The norm,
 * without time there, lasts from the end of the rank's own part of the step until the gate opens.
 */
#include "runtime/run/run_measured.h"

#include "planner/cluster/segments.h"
#include "planner/cluster/sim/cluster_replay.h"
#include "runtime/run/run_ranks.h"
#include "runtime/schedule/graph.h"
#include "runtime/train/measured.h"
#include "runtime/train/world.h"

#include <math.h>

static void set_times(struct ah_runlog_rank *rank, const struct ah_tally_rank *times)
{
    const double *waits_us = times->waits_us, *busy_us = times->busy_us;
    rank->step_us = times->step_us;
    rank->compute_us = times->compute_us;
    rank->messages_us = waits_us[AH_LANE_SEND];
    rank->before_us = waits_us[AH_LANE_RECEIVE_BEFORE];
    rank->behind_us = waits_us[AH_LANE_RECEIVE_BEHIND];
    rank->sums_us = waits_us[AH_LANE_SUMS];
    rank->gate_us = waits_us[AH_TALLY_GATE];
    rank->lanes_us = waits_us[AH_LANE_H2D] + waits_us[AH_LANE_D2H] + waits_us[AH_LANE_HOST];
    rank->h2d_us = busy_us[AH_LANE_H2D];
    rank->d2h_us = busy_us[AH_LANE_D2H];
    rank->host_us = busy_us[AH_LANE_HOST];
    rank->sums_lane_us = busy_us[AH_LANE_SUMS];
}

/* ---- predicted ---- */

struct stage {
    const struct ah_cluster_plan_stage *of;
    const struct ah_plan *program;
    struct ah_runlog_rank *rank;
    struct ah_graph graph;
    struct ah_tally *tally;                     /* owned */
    double own_end_us[AH_CLUSTER_REPLAY_STEPS]; /* by step: end of the rank's own part, before the gate */
    double compute_end_us[AH_CLUSTER_REPLAY_STEPS];
};

struct prediction {
    const struct ah_cluster_plan *plan;
    struct stage *stages; /* stages of all pipelines */
    size_t n;
    struct ah_arena arena;
};

static uint64_t ns_of(double us)
{
    return 1 + (uint64_t)llround(us * 1e3);
}

static void tell_other(const struct stage *stage, const struct ah_cluster_replay_span *span, uint32_t lane,
                       uint64_t micro_batch)
{
    const struct ah_op_record record = {.step = span->step + 1,
                                        .lane = lane,
                                        .op = SIZE_MAX,
                                        .tile = micro_batch,
                                        .start_ns = ns_of(span->start_us),
                                        .end_ns = ns_of(span->end_us)};
    ah_tally_op(stage->tally, &record);
}

static void tell_sum(struct prediction *c, const struct ah_cluster_replay_span *span)
{
    const struct ah_cluster_plan_group *owners = &c->plan->segments[span->of].groups[0];
    for (size_t i = 0; i < c->n; i++)
        for (size_t r = 0; r < owners->n_ranks; r++)
            if (owners->ranks[r] == c->stages[i].of->ranks[0]) {
                tell_other(&c->stages[i], span, AH_LANE_SUMS, 0);
                c->stages[i].own_end_us[span->step] = span->end_us;
            }
}

static void tell_item(struct stage *stage, const struct ah_cluster_replay_span *span)
{
    const struct ah_graph_item *item = &stage->graph.items[span->item];
    const struct ah_plan_op *op = &stage->program->ops[item->op];
    const bool output = op->op == AH_PLAN_SEND_OUTPUT,
               sends = output || op->op == AH_PLAN_SEND_INPUT_GRADIENT;
    double start_us = span->start_us;
    if (sends)
        tell_other(output ? stage + 1 : stage - 1, span,
                   output ? AH_LANE_RECEIVE_BEFORE : AH_LANE_RECEIVE_BEHIND, op->micro_batch);
    if (op->op == AH_PLAN_NORM)
        start_us = fmin(start_us, stage->own_end_us[span->step]);
    else
        stage->own_end_us[span->step] = span->end_us;
    if (item->lane == AH_PLAN_LANE_COMPUTE)
        stage->compute_end_us[span->step] = span->end_us;
    const struct ah_op_record record = {.step = span->step + 1 - item->early,
                                        .lane = sends ? AH_LANE_SEND : item->lane,
                                        .op = item->op,
                                        .tile = item->tile,
                                        .start_ns = ns_of(start_us),
                                        .end_ns = ns_of(span->end_us)};
    ah_tally_op(stage->tally, &record);
}

static void on_span(void *context, const struct ah_cluster_replay_span *span)
{
    struct prediction *c = context;
    if (span->sum)
        tell_sum(c, span);
    else
        tell_item(&c->stages[span->of], span);
}

/* Sets the bytes of the rank's messages and sums per step, and the bytes of memory that its program takes. */
static void set_bytes(const struct prediction *c, const struct stage *stage)
{
    const struct ah_plan *program = stage->program;
    struct ah_runlog_rank *rank = stage->rank;
    for (size_t i = 0; i < program->n_ops; i++)
        if (program->ops[i].op == AH_PLAN_SEND_OUTPUT || program->ops[i].op == AH_PLAN_SEND_INPUT_GRADIENT)
            rank->sent_bytes += program->ops[i].bytes;
    for (size_t s = 0; s < c->plan->n_segments; s++)
        for (size_t g = 0; g < c->plan->segments[s].n_groups; g++) {
            const struct ah_cluster_plan_group *group = &c->plan->segments[s].groups[g];
            for (size_t r = 0; r < group->n_ranks; r++)
                if (group->ranks[r] == stage->of->ranks[0])
                    rank->summed_bytes +=
                        (uint64_t)ah_segment_volume(group->n_ranks, c->plan->segments[s].bytes);
        }
    rank->device_bytes = program->memory.device_bytes;
    rank->host_bytes = program->memory.host_bytes;
}

static int open_stage(struct prediction *c, size_t p, size_t i, struct stage *stage,
                      struct ah_runlog_rank *ranks, struct ah_error *err)
{
    stage->of = &c->plan->pipelines[p].stages[i];
    stage->program = &c->plan->programs[stage->of->program];
    stage->rank = &ranks[ah_world_rank(c->plan, stage->of->ranks[0])];
    *stage->rank = (struct ah_runlog_rank){
        .rank = (uint64_t)(stage->rank - ranks), .pipeline = p, .stage = i, .node = stage->of->node};
    int rc = ah_graph_read(stage->program, &c->arena, &stage->graph, err);
    rc = rc ? rc : ah_tally_new(&stage->tally, stage->program, err);
    if (!rc)
        ah_tally_begin(stage->tally, 0);
    return rc;
}

static int open_stages(struct prediction *c, struct ah_arena *arena, struct ah_runlog_rank **ret_ranks,
                       struct ah_error *err)
{
    for (size_t p = 0; p < c->plan->n_pipelines; p++)
        c->n += c->plan->pipelines[p].n_stages;
    c->stages = ah_arena_array(&c->arena, c->n, sizeof *c->stages);
    *ret_ranks = ah_arena_array(arena, c->n, sizeof **ret_ranks);
    int rc = c->stages && *ret_ranks ? AH_OK : ah_error_memory(err);
    struct stage *stage = c->stages;
    for (size_t p = 0; p < c->plan->n_pipelines && !rc; p++)
        for (size_t i = 0; i < c->plan->pipelines[p].n_stages && !rc; i++)
            rc = open_stage(c, p, i, stage++, *ret_ranks, err);
    return rc;
}

static void end_stage(const struct prediction *c, const struct stage *stage)
{
    struct ah_tally_rank times;
    for (uint64_t step = 0; step < AH_CLUSTER_REPLAY_STEPS; step++) {
        const struct ah_step_record record = {.step = step + 1, .end_ns = ns_of(stage->compute_end_us[step])};
        ah_tally_step(stage->tally, &record);
    }
    ah_tally_rank(stage->tally, &times);
    set_times(stage->rank, &times);
    set_bytes(c, stage);
}

/* Sets what is predicted of each rank that shares states: all do what their one program says. */
static int predict_shards(const struct ah_cluster_plan *plan, struct ah_arena *arena,
                          struct ah_runlog_rank **ret_ranks, size_t *ret_n, struct ah_error *err)
{
    const struct ah_plan *program = &plan->programs[0];
    const double *busy_us = program->time.busy_us, *exposed_us = program->time.exposed_us.of;
    struct ah_runlog_rank *ranks = ah_arena_array(arena, plan->n_pipelines, sizeof *ranks);
    uint64_t net_bytes = 0;
    if (!ranks)
        return ah_error_memory(err);
    for (size_t i = 0; i < program->n_ops; i++)
        net_bytes += program->ops[i].lane == AH_PLAN_LANE_NET ? program->ops[i].bytes : 0;
    for (size_t p = 0; p < plan->n_pipelines; p++)
        ranks[p] =
            (struct ah_runlog_rank){.rank = p,
                                    .pipeline = p,
                                    .node = plan->pipelines[p].stages[0].node,
                                    .step_us = program->time.step_us,
                                    .compute_us = busy_us[AH_PLAN_LANE_COMPUTE],
                                    .sums_us = exposed_us[AH_PLAN_LANE_NET],
                                    .lanes_us = exposed_us[AH_PLAN_LANE_H2D] + exposed_us[AH_PLAN_LANE_D2H] +
                                                exposed_us[AH_PLAN_LANE_HOST],
                                    .h2d_us = busy_us[AH_PLAN_LANE_H2D],
                                    .d2h_us = busy_us[AH_PLAN_LANE_D2H],
                                    .host_us = busy_us[AH_PLAN_LANE_HOST],
                                    .sums_lane_us = busy_us[AH_PLAN_LANE_NET],
                                    .summed_bytes = net_bytes,
                                    .device_bytes = program->memory.device_bytes,
                                    .host_bytes = program->memory.host_bytes};
    *ret_ranks = ranks;
    *ret_n = plan->n_pipelines;
    return AH_OK;
}

int ah_run_measured_predict(const struct ah_cluster_plan *plan, struct ah_arena *arena,
                            struct ah_runlog_rank **ret_ranks, size_t *ret_n, struct ah_error *err)
{
    if (plan->sharding)
        return predict_shards(plan, arena, ret_ranks, ret_n, err);
    struct prediction c = {.plan = plan};
    struct ah_runlog_rank *ranks = NULL;
    const struct ah_cluster_replay_listener listener = {.tell = on_span, .context = &c};
    struct ah_cluster_replay_result result;
    int rc = open_stages(&c, arena, &ranks, err);
    rc = rc ? rc : ah_cluster_replay(plan, &listener, &result, err);
    for (size_t i = 0; i < c.n && c.stages; i++) {
        if (!rc)
            end_stage(&c, &c.stages[i]);
        ah_tally_free(c.stages[i].tally);
    }
    ah_arena_release(&c.arena);
    *ret_ranks = rc ? NULL : ranks;
    *ret_n = rc ? 0 : c.n;
    return rc;
}

/* ---- measured ---- */

static void set_measured(const struct ah_run_ranks *ranks, uint32_t number,
                         const struct ah_measured *measured, struct ah_runlog_rank *rank)
{
    const struct ah_world *world = ah_run_ranks_world(ranks);
    const struct ah_trainer_stage *stage = &world->places[number].stages[number];
    *rank = (struct ah_runlog_rank){.rank = number,
                                    .pipeline = stage->pipeline,
                                    .stage = world->programs[number]->part->stage,
                                    .node = ah_run_ranks_node(ranks, number),
                                    .host = ah_run_ranks_host(ranks, number),
                                    .sent_bytes = measured->sent_bytes,
                                    .summed_bytes = measured->summed_bytes,
                                    .device_bytes = measured->device_bytes,
                                    .host_bytes = measured->host_bytes};
    set_times(rank, &measured->times);
}

int ah_run_measured_collect(struct ah_run *run, struct ah_error *err)
{
    const struct ah_run_ranks *ranks = run->options->ranks;
    if (!ranks || run->position.step == run->resumed_step)
        return AH_OK;
    const uint32_t n = ah_run_ranks_n(ranks);
    struct ah_measured *measured = ah_arena_array(run->host->arena, n, sizeof *measured);
    struct ah_runlog_rank *measured_ranks = ah_arena_array(run->host->arena, n, sizeof *measured_ranks);
    if (!measured || !measured_ranks)
        return ah_error_memory(err);
    int rc = ah_measured_collect(run->trainer, run->tally, measured, err);
    if (rc)
        return rc;
    for (uint32_t rank = 0; rank < n; rank++)
        set_measured(ranks, rank, &measured[rank], &measured_ranks[rank]);
    run->ranks = measured_ranks;
    run->n_ranks = n;
    return AH_OK;
}
