/* SPDX-License-Identifier: Apache-2.0
 *
 * Units get the ranks of their node in the order of pipelines and stages. A segment has as many slices as its finest
 * owner has ranks. An owner with fewer ranks has several slices on each.
 */
#include "planner/cluster/cluster_document.h"

#include "planner/cluster/sim/stage_sim.h"

#include <math.h>

struct filling {
    const struct ah_cluster *cluster;
    const struct ah_cluster_problem *problem;
    const struct ah_arrangement *arrangement;
    struct ah_arena *arena;
    struct ah_cluster_plan *plan;
    uint64_t *next_rank;                         /* by node: its first rank that is not assigned yet */
    const struct ah_cluster_plan_stage **stages; /* stages of all pipelines */
    double *pipeline_us, *busy_us;
    double *starts_us; /* starts of all passes, stage by stage */
    double *sums_us;   /* starts of the segments' sums */
};

static size_t count_passes(const struct ah_arrangement *arrangement)
{
    size_t n = 0;
    for (size_t p = 0; p < arrangement->n_pipelines; p++)
        n += 2 * arrangement->pipelines[p].micro_batches * arrangement->pipelines[p].n_stages;
    return n;
}

static bool same_config(const struct ah_cluster_plan_config *p, const struct ah_cluster_plan_config *q)
{
    return p->activations == q->activations && p->weights == q->weights && p->optimizer == q->optimizer;
}

static bool put_configs(struct filling *f, const struct ah_stage *stage, struct ah_cluster_plan_stage *out)
{
    struct ah_cluster_plan_config *configs =
        ah_arena_array(f->arena, stage->end - stage->first, sizeof *configs);
    if (!configs)
        return false;
    for (size_t b = stage->first; b < stage->end; b++) {
        const struct ah_problem_away *away = ah_stage_away(f->problem, stage, b);
        const struct ah_cluster_plan_config config = {.first_block = b,
                                                      .activations = ah_stage_way(stage, b),
                                                      .weights = away ? away->weights : AH_WEIGHTS_DEVICE,
                                                      .optimizer =
                                                          away ? away->optimizer : AH_OPTIMIZER_DEVICE};
        if (!out->n_configs || !same_config(&configs[out->n_configs - 1], &config))
            configs[out->n_configs++] = config;
        configs[out->n_configs - 1].blocks++;
    }
    out->configs = configs;
    return true;
}

static bool put_stage(struct filling *f, const struct ah_pipeline *pipeline, size_t i,
                      struct ah_cluster_plan_stage *out)
{
    const struct ah_stage *stage = &pipeline->stages[i];
    const struct ah_problem_kind *kind = ah_problem_kind_of(f->problem, stage->class);
    size_t node = f->problem->classes[stage->class].node;
    const struct ah_cluster_gpu *gpu = ah_cluster_gpu_of(f->cluster, &f->cluster->nodes[node]);
    *out =
        (struct ah_cluster_plan_stage){.node = f->cluster->nodes[node].id,
                                       .gpu = gpu->name,
                                       .tp = kind->tp,
                                       .n_ranks = kind->tp,
                                       .ranks = ah_arena_array(f->arena, kind->tp, sizeof(uint64_t)),
                                       .first_block = stage->first,
                                       .blocks = stage->end - stage->first,
                                       .in_flight = stage->in_flight,
                                       .memory_bytes = stage->memory_bytes + kind->reserved_bytes,
                                       .capacity_bytes = gpu->memory_bytes,
                                       .host_bytes = kind->tp * stage->host_bytes,
                                       .forward_us = stage->forward_us,
                                       .backward_us = stage->backward_us,
                                       .update_us = stage->update_us,
                                       .nic_bytes_per_s = f->problem->classes[stage->class].nic_bytes_per_s};
    if (!out->ranks)
        return false;
    for (uint64_t r = 0; r < kind->tp; r++)
        out->ranks[r] = f->next_rank[node]++;
    if (i > 0)
        out->send_us += ah_problem_send_us(f->problem, stage->class, stage[-1].class);
    if (i + 1 < pipeline->n_stages)
        out->send_us += ah_problem_send_us(f->problem, stage->class, stage[1].class);
    return put_configs(f, stage, out);
}

/* Writes the next `n` simulated starts into a stage, and advances `starts_us`. */
static bool put_starts(struct filling *f, size_t n, const double **starts_us,
                       struct ah_cluster_plan_stage *out)
{
    out->starts_us = ah_arena_array(f->arena, n, sizeof *out->starts_us);
    for (size_t k = 0; k < n && out->starts_us; k++)
        out->starts_us[k] = (uint64_t)round((*starts_us)[k]);
    out->n_starts_us = n;
    *starts_us += n;
    return out->starts_us;
}

static bool put_pipelines(struct filling *f)
{
    struct ah_cluster_plan_pipeline *pipelines =
        ah_arena_array(f->arena, f->arrangement->n_pipelines, sizeof *pipelines);
    const double *starts_us = f->starts_us;
    size_t at = 0;
    if (!pipelines)
        return false;
    for (size_t p = 0; p < f->arrangement->n_pipelines; p++) {
        const struct ah_pipeline *from = &f->arrangement->pipelines[p];
        struct ah_cluster_plan_stage *stages = ah_arena_array(f->arena, from->n_stages, sizeof *stages);
        if (!stages)
            return false;
        for (size_t i = 0; i < from->n_stages; i++, at++) {
            if (!put_stage(f, from, i, &stages[i]))
                return false;
            stages[i].busy_us = f->busy_us[at];
            if (!put_starts(f, 2 * from->micro_batches, &starts_us, &stages[i]))
                return false;
            f->stages[at] = &stages[i];
        }
        pipelines[p] =
            (struct ah_cluster_plan_pipeline){from->micro_batches, f->pipeline_us[p], stages, from->n_stages};
    }
    f->plan->pipelines = pipelines;
    f->plan->n_pipelines = f->arrangement->n_pipelines;
    return true;
}

/* Lists the ranks of each slice: slice s of n is on rank s * t / n of an owner with t ranks. */
static bool put_groups(struct filling *f, const struct ah_segment *segment,
                       struct ah_cluster_plan_segment *out)
{
    for (size_t i = 0; i < segment->n_owners; i++)
        if (f->stages[segment->owners[i]]->tp > out->n_groups)
            out->n_groups = f->stages[segment->owners[i]]->tp;
    out->groups = ah_arena_array(f->arena, out->n_groups, sizeof *out->groups);
    for (size_t s = 0; s < out->n_groups && out->groups; s++) {
        uint64_t *ranks = ah_arena_array(f->arena, segment->n_owners, sizeof *ranks);
        if (!ranks)
            return false;
        for (size_t i = 0; i < segment->n_owners; i++) {
            const struct ah_cluster_plan_stage *stage = f->stages[segment->owners[i]];
            ranks[i] = stage->ranks[s * stage->tp / out->n_groups];
        }
        out->groups[s] = (struct ah_cluster_plan_group){ranks, segment->n_owners};
    }
    return out->groups;
}

static int put_segments(struct filling *f, struct ah_error *err)
{
    struct ah_segments segments;
    int rc = ah_segments_init(&segments, f->problem, f->arrangement, err);
    if (rc)
        return rc;
    struct ah_cluster_plan_segment *out = ah_arena_array(f->arena, segments.n + 1, sizeof *out);
    for (size_t i = 0; i < segments.n && out; i++) {
        const struct ah_segment *from = &segments.items[i];
        out[i] = (struct ah_cluster_plan_segment){.first_block = from->first,
                                                  .blocks = from->end - from->first,
                                                  .tied = from->tied,
                                                  .bytes = from->bytes,
                                                  .start_us = f->sums_us[i],
                                                  .time_us = from->ring_us};
        if (!put_groups(f, from, &out[i]))
            out = NULL;
    }
    f->plan->segments = out;
    f->plan->n_segments = segments.n;
    ah_segments_release(&segments);
    return out ? AH_OK : ah_error_memory(err);
}

static bool put_idle(struct filling *f)
{
    uint64_t end = 0;
    f->plan->idle_ranks = ah_arena_array(f->arena, ah_cluster_gpus(f->cluster) + 1, sizeof(uint64_t));
    if (!f->plan->idle_ranks)
        return false;
    for (size_t n = 0; n < f->cluster->n_nodes; n++) {
        end += f->cluster->nodes[n].gpus;
        for (uint64_t rank = f->next_rank[n]; rank < end; rank++)
            f->plan->idle_ranks[f->plan->n_idle_ranks++] = rank;
    }
    return true;
}

static bool reserve(struct filling *f, size_t n_stages)
{
    uint64_t rank = 0;
    f->stages = ah_arena_array(f->arena, n_stages, sizeof *f->stages);
    f->busy_us = ah_arena_array(f->arena, n_stages, sizeof *f->busy_us);
    f->pipeline_us = ah_arena_array(f->arena, f->arrangement->n_pipelines, sizeof *f->pipeline_us);
    f->starts_us = ah_arena_array(f->arena, count_passes(f->arrangement), sizeof *f->starts_us);
    f->sums_us = ah_arena_array(f->arena, n_stages + 1, sizeof *f->sums_us);
    f->next_rank = ah_arena_array(f->arena, f->cluster->n_nodes, sizeof *f->next_rank);
    if (!f->stages || !f->busy_us || !f->pipeline_us || !f->starts_us || !f->sums_us || !f->next_rank)
        return false;
    for (size_t n = 0; n < f->cluster->n_nodes; n++) {
        f->next_rank[n] = rank;
        rank += f->cluster->nodes[n].gpus;
    }
    return true;
}

struct ah_cluster_plan ah_cluster_document_begin(const struct ah_cluster_request *request,
                                                 const struct ah_plan_training *training)
{
    return (struct ah_cluster_plan){.generator = request->generator,
                                    .inputs = {{request->model->name, request->model_sha256},
                                               {request->cluster->name, request->cluster_sha256}},
                                    .model = request->model,
                                    .training = {training->batch, training->micro_batches, training->seq,
                                                 training->dtype, training->state_dtype, training->clip,
                                                 training->trainable, training->n_trainable, training->sums,
                                                 training->n_sums}};
}

int ah_cluster_document_fill(const struct ah_cluster *cluster, const struct ah_cluster_problem *problem,
                             const struct ah_arrangement *arrangement, struct ah_arena *arena,
                             struct ah_cluster_plan *plan, struct ah_error *err)
{
    struct filling f = {
        .cluster = cluster, .problem = problem, .arrangement = arrangement, .arena = arena, .plan = plan};
    if (!reserve(&f, ah_arrangement_stages(arrangement)))
        return ah_error_memory(err);
    struct ah_stage_sim_result result = {
        .pipeline_us = f.pipeline_us, .busy_us = f.busy_us, .starts_us = f.starts_us, .sums_us = f.sums_us};
    int rc = ah_stage_sim_run(problem, arrangement, &result, err);
    if (rc)
        return rc;
    if (!put_pipelines(&f) || !put_idle(&f))
        return ah_error_memory(err);
    plan->blocks = problem->n_blocks;
    if (plan->training.n_sums <= arrangement->n_pipelines) /* each pipeline is one group */
        plan->training.n_sums = 0;
    plan->predicted = (struct ah_cluster_plan_predicted){
        .step_us = result.step_us,
        .pipelines_us = result.pipelines_us,
        .exposed_sync_us = result.exposed_sync_us,
        .update_us = result.update_us,
        .bubble = fmax(result.bubble, 0),
        .tokens_per_s = 1e6 * (double)(plan->training.batch * plan->training.seq) / result.step_us,
        .bottleneck_pipeline = result.busiest_pipeline,
        .bottleneck_stage = result.busiest_stage};
    return put_segments(&f, err);
}
