/* SPDX-License-Identifier: Apache-2.0
 *
 * Turns the plan's decisions into an arrangement, computes its costs, writes it as the planner would, and compares the
 * result with the plan, field by field.
 */
#include "planner/cluster/cluster_verify.h"

#include "planner/cluster/cluster_costs.h"
#include "planner/cluster/cluster_document.h"
#include "planner/cluster/mixed.h"
#include "planner/cluster/offload_costs.h"
#include "planner/cluster/programs.h"
#include "planner/cluster/sim/cluster_replay.h"
#include "planner/policies/restriction.h"
#include "planner/verify.h"
#include "schemas/document.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { DEGREES_MAX = 64 };

struct verify {
    const struct ah_cluster_plan *plan;
    const struct ah_cluster_verify_inputs *inputs;
    struct ah_arena *arena;
    struct ah_error *err;
    struct ah_plan_training training;
    const char *everything[1];
    uint64_t degrees[DEGREES_MAX]; /* the different degrees of the stages, ascending */
    size_t n_degrees;
    bool mixed;   /* some type has several degrees */
    uint64_t *tp; /* by type of GPU; for types without work, any degree */
    struct ah_cluster_problem problem;
    bool estimated;
    struct ah_arrangement arrangement;
};

/* ---- decisions ---- */

static void read_training(struct verify *v)
{
    const struct ah_cluster_plan_training *training = &v->plan->training;
    const bool all = !training->n_trainable;
    v->training = (struct ah_plan_training){.batch = training->batch,
                                            .micro_batches = training->micro_batches,
                                            .seq = training->seq,
                                            .dtype = training->dtype,
                                            .state_dtype = training->state_dtype,
                                            .clip = training->clip,
                                            .trainable = all ? v->everything : training->trainable,
                                            .n_trainable = all ? 1 : training->n_trainable,
                                            .sums = training->sums,
                                            .n_sums = training->n_sums};
}

/* Inserts a degree in ascending order, unless the list has it. */
static bool add_degree(struct verify *v, uint64_t tp)
{
    size_t at = 0;
    while (at < v->n_degrees && v->degrees[at] < tp)
        at++;
    if (at < v->n_degrees && v->degrees[at] == tp)
        return true;
    if (v->n_degrees == DEGREES_MAX)
        return false;
    memmove(&v->degrees[at + 1], &v->degrees[at], (v->n_degrees - at) * sizeof *v->degrees);
    v->degrees[at] = tp;
    v->n_degrees++;
    return true;
}

static size_t node_of(const struct ah_cluster *cluster, const char *id)
{
    size_t n = 0;
    while (n < cluster->n_nodes && strcmp(cluster->nodes[n].id, id) != 0)
        n++;
    return n;
}

static int read_stage_degree(struct verify *v, size_t p, size_t i)
{
    const struct ah_cluster *cluster = v->inputs->cluster;
    const struct ah_cluster_plan_stage *stage = &v->plan->pipelines[p].stages[i];
    size_t n = node_of(cluster, stage->node);
    if (n == cluster->n_nodes)
        return ah_error_set(v->err, AH_E_DOCUMENT, "pipelines[%zu].stages[%zu].node: the cluster has no '%s'",
                            p, i, stage->node);
    size_t gpu = (size_t)(ah_cluster_gpu_of(cluster, &cluster->nodes[n]) - cluster->gpus);
    if (!ah_cluster_costs_divides(v->inputs->model, stage->tp) || stage->tp > cluster->nodes[n].gpus ||
        !add_degree(v, stage->tp))
        return ah_error_set(v->err, AH_E_DOCUMENT,
                            "pipelines[%zu].stages[%zu].tp: %" PRIu64 " GPUs of node '%s' cannot share the "
                            "blocks of this model",
                            p, i, stage->tp, stage->node);
    v->mixed |= v->tp[gpu] && v->tp[gpu] != stage->tp;
    v->tp[gpu] = stage->tp;
    return AH_OK;
}

static int read_degrees(struct verify *v)
{
    const struct ah_cluster *cluster = v->inputs->cluster;
    v->tp = ah_arena_array(v->arena, cluster->n_gpus, sizeof *v->tp);
    if (!v->tp)
        return ah_error_memory(v->err);
    for (size_t p = 0; p < v->plan->n_pipelines; p++)
        for (size_t i = 0; i < v->plan->pipelines[p].n_stages; i++) {
            int rc = read_stage_degree(v, p, i);
            if (rc)
                return rc;
        }
    for (size_t g = 0; g < cluster->n_gpus; g++)
        if (!v->tp[g])
            v->tp[g] = v->degrees[0];
    return AH_OK;
}

/* ---- the problem ---- */

static int build_costs(struct verify *v, const uint64_t *tp, struct ah_cluster_problem *ret_problem)
{
    const struct ah_cluster_costs_input input = {
        .model = v->inputs->model,
        .model_sha256 = v->inputs->model_sha256,
        .cluster = v->inputs->cluster,
        .training = v->training,
        .tp = tp,
        .separate_sums =
            ah_cluster_plan_first_sums(v->training.sums, v->training.n_sums, v->plan->n_pipelines) > 0,
        .without = ah_offload_without(ah_restriction_bits(v->plan->without, v->plan->n_without))};
    struct ah_error cause = {0};
    bool estimated = false;
    int rc = ah_cluster_costs_build(&input, v->arena, ret_problem, &estimated, &cause);
    v->estimated |= estimated;
    if (rc && rc != AH_E_MEMORY)
        return ah_error_set(v->err, AH_E_DOCUMENT, "training: autohete does not plan for this: %s",
                            cause.text);
    return rc ? ah_error_memory(v->err) : AH_OK;
}

static int build_mixed(struct verify *v)
{
    struct ah_cluster_problem problems[DEGREES_MAX];
    const struct ah_cluster_problem *all[DEGREES_MAX];
    uint64_t *tp = ah_arena_array(v->arena, v->inputs->cluster->n_gpus, sizeof *tp);
    if (!tp)
        return ah_error_memory(v->err);
    for (size_t d = 0; d < v->n_degrees; d++) {
        for (size_t g = 0; g < v->inputs->cluster->n_gpus; g++)
            tp[g] = v->degrees[d];
        int rc = build_costs(v, tp, &problems[d]);
        if (rc)
            return rc;
        all[d] = &problems[d];
    }
    return ah_mixed_build(all, v->n_degrees, v->arena, &v->problem, v->err);
}

static int build_problem(struct verify *v)
{
    return v->mixed ? build_mixed(v) : build_costs(v, v->tp, &v->problem);
}

/* ---- the arrangement ---- */

static size_t class_of(const struct verify *v, const struct ah_cluster_plan_stage *stage)
{
    size_t node = node_of(v->inputs->cluster, stage->node), c = 0;
    while (c < v->problem.n_classes &&
           (v->problem.classes[c].node != node || ah_problem_kind_of(&v->problem, c)->tp != stage->tp))
        c++;
    return c;
}

/* Counts a config's blocks as away: a stage's first blocks are, including those with nothing to keep on the host. */
static void read_config(const struct ah_cluster_plan_config *config, struct ah_stage *stage)
{
    if (config->activations == AH_ACTIVATIONS_RECOMPUTE)
        stage->recompute += config->blocks;
    else if (config->activations == AH_ACTIVATIONS_SELECTIVE)
        stage->selective += config->blocks;
    const size_t end = config->first_block + config->blocks - stage->first;
    if (config->weights != AH_WEIGHTS_DEVICE)
        stage->weights_away = end;
    if (config->weights != AH_WEIGHTS_DEVICE || config->optimizer != AH_OPTIMIZER_DEVICE)
        stage->states_away = end;
}

/* Reads a stage. Returns false if its node has no unit of this degree. */
static bool read_stage(const struct verify *v, const struct ah_cluster_plan_pipeline *pipeline, size_t i,
                       struct ah_stage *ret_stage)
{
    const struct ah_cluster_plan_stage *from = &pipeline->stages[i];
    const uint64_t behind = pipeline->n_stages - i;
    struct ah_stage stage = {.class = class_of(v, from),
                             .first = from->first_block,
                             .end = from->first_block + from->blocks,
                             .in_flight =
                                 pipeline->micro_batches < behind ? pipeline->micro_batches : behind};
    for (size_t c = 0; c < from->n_configs; c++)
        read_config(&from->configs[c], &stage);
    if (stage.class == v->problem.n_classes)
        return false;
    *ret_stage = stage;
    return true;
}

static int check_room(const struct verify *v, const struct ah_stage *stage, size_t p, size_t i)
{
    const struct ah_problem_kind *kind = ah_problem_kind_of(&v->problem, stage->class);
    const uint64_t host_bytes = kind->n_hosts ? kind->hosts[stage->sharers - 1].bytes : 0;
    if (stage->memory_bytes <= kind->capacity_bytes && stage->host_bytes <= host_bytes)
        return AH_OK;
    return ah_error_set(v->err, AH_E_DOCUMENT,
                        "pipelines[%zu].stages[%zu]: its blocks do not fit: each GPU needs %" PRIu64
                        " of %" PRIu64 " bytes, and %" PRIu64 " of %" PRIu64 " bytes of the host",
                        p, i, stage->memory_bytes, kind->capacity_bytes, stage->host_bytes, host_bytes);
}

static int read_pipeline(struct verify *v, size_t p)
{
    const struct ah_cluster_plan_pipeline *from = &v->plan->pipelines[p];
    struct ah_pipeline *to = &v->arrangement.pipelines[p];
    *to = (struct ah_pipeline){ah_arena_array(v->arena, from->n_stages, sizeof *to->stages), from->n_stages,
                               from->micro_batches};
    if (!to->stages)
        return ah_error_memory(v->err);
    for (size_t i = 0; i < from->n_stages; i++)
        if (!read_stage(v, from, i, &to->stages[i]))
            return ah_error_set(v->err, AH_E_DOCUMENT,
                                "pipelines[%zu].stages[%zu]: node '%s' has no %" PRIu64 " GPUs for it", p, i,
                                from->stages[i].node, from->stages[i].tp);
    return AH_OK;
}

/* Checks that each node has enough GPUs for its stages, and a host if a stage uses one. */
static int check_nodes(const struct verify *v)
{
    const struct ah_cluster *cluster = v->inputs->cluster;
    uint64_t *gpus = ah_arena_array(v->arena, cluster->n_nodes, sizeof *gpus);
    if (!gpus)
        return ah_error_memory(v->err);
    for (size_t p = 0; p < v->arrangement.n_pipelines; p++)
        for (size_t i = 0; i < v->arrangement.pipelines[p].n_stages; i++) {
            const struct ah_stage *stage = &v->arrangement.pipelines[p].stages[i];
            const struct ah_problem_kind *kind = ah_problem_kind_of(&v->problem, stage->class);
            const size_t n = v->problem.classes[stage->class].node;
            gpus[n] += kind->tp;
            if (gpus[n] > cluster->nodes[n].gpus)
                return ah_error_set(v->err, AH_E_DOCUMENT,
                                    "pipelines[%zu].stages[%zu]: with those before it this is %" PRIu64
                                    " GPUs of node '%s', which has %" PRIu64,
                                    p, i, gpus[n], cluster->nodes[n].id, cluster->nodes[n].gpus);
            if (stage->states_away && !kind->n_hosts)
                return ah_error_set(
                    v->err, AH_E_DOCUMENT,
                    "pipelines[%zu].stages[%zu].configs: blocks are on the host of node '%s', but the "
                    "cluster gives no host rates for it, or the plan does not use hosts",
                    p, i, cluster->nodes[n].id);
        }
    return AH_OK;
}

static int price_stages(struct verify *v)
{
    for (size_t p = 0; p < v->arrangement.n_pipelines; p++)
        for (size_t i = 0; i < v->arrangement.pipelines[p].n_stages; i++) {
            struct ah_stage *stage = &v->arrangement.pipelines[p].stages[i];
            ah_stage_price(&v->problem, stage);
            int rc = check_room(v, stage, p, i);
            if (rc)
                return rc;
        }
    return AH_OK;
}

static int arrange(struct verify *v)
{
    int rc = AH_OK;
    v->arrangement.n_pipelines = v->plan->n_pipelines;
    v->arrangement.pipelines =
        ah_arena_array(v->arena, v->plan->n_pipelines, sizeof *v->arrangement.pipelines);
    if (!v->arrangement.pipelines)
        return ah_error_memory(v->err);
    for (size_t p = 0; p < v->plan->n_pipelines && !rc; p++)
        rc = read_pipeline(v, p);
    rc = rc ? rc : check_nodes(v);
    if (rc)
        return rc;
    ah_arrangement_share(&v->problem, &v->arrangement);
    return price_stages(v);
}

/* ---- ranks ---- */

/* Replaces a stage's ranks by those in the plan, which must be on its node, and records each change in `renamed`. */
static int rename_stage(const struct verify *v, const struct ah_cluster_plan *again, size_t p, size_t i,
                        uint64_t *renamed)
{
    const struct ah_cluster *cluster = v->inputs->cluster;
    const struct ah_cluster_plan_stage *stated = &v->plan->pipelines[p].stages[i];
    const struct ah_cluster_plan_stage *stage = &again->pipelines[p].stages[i];
    const size_t node = node_of(cluster, stage->node);
    uint64_t first = 0;
    for (size_t n = 0; n < node; n++)
        first += cluster->nodes[n].gpus;
    for (size_t r = 0; r < stage->n_ranks; r++) {
        if (stated->ranks[r] < first || stated->ranks[r] >= first + cluster->nodes[node].gpus)
            return ah_error_set(v->err, AH_E_DOCUMENT,
                                "pipelines[%zu].stages[%zu].ranks[%zu]: is %" PRIu64
                                "; node '%s' has %" PRIu64 " to %" PRIu64,
                                p, i, r, stated->ranks[r], stage->node, first,
                                first + cluster->nodes[node].gpus - 1);
        renamed[stage->ranks[r]] = stated->ranks[r];
        stage->ranks[r] = stated->ranks[r];
    }
    return AH_OK;
}

/* Replaces all ranks in `again` by the plan's, because a plan may use a node's GPUs in any order. */
static int take_ranks(const struct verify *v, struct ah_cluster_plan *again)
{
    const uint64_t n_ranks = ah_cluster_gpus(v->inputs->cluster);
    uint64_t *renamed = ah_arena_array(v->arena, n_ranks, sizeof *renamed);
    bool *works = ah_arena_array(v->arena, n_ranks, sizeof *works);
    if (!renamed || !works)
        return ah_error_memory(v->err);
    for (uint64_t rank = 0; rank < n_ranks; rank++)
        renamed[rank] = n_ranks;
    for (size_t p = 0; p < again->n_pipelines; p++)
        for (size_t i = 0; i < again->pipelines[p].n_stages; i++) {
            int rc = rename_stage(v, again, p, i, renamed);
            if (rc)
                return rc;
        }
    for (uint64_t rank = 0; rank < n_ranks; rank++)
        if (renamed[rank] < n_ranks)
            works[renamed[rank]] = true;
    for (size_t s = 0; s < again->n_segments; s++)
        for (size_t g = 0; g < again->segments[s].n_groups; g++)
            for (size_t r = 0; r < again->segments[s].groups[g].n_ranks; r++)
                again->segments[s].groups[g].ranks[r] = renamed[again->segments[s].groups[g].ranks[r]];
    again->n_idle_ranks = 0;
    for (uint64_t rank = 0; rank < n_ranks; rank++)
        if (!works[rank])
            again->idle_ranks[again->n_idle_ranks++] = rank;
    return AH_OK;
}

/* ---- the comparison ---- */

struct comparison {
    struct ah_error *err;
    bool differ;
};

static void on_difference(void *context, const char *path, const char *a, const char *b)
{
    struct comparison *comparison = context;
    if (!comparison->differ)
        ah_error_set(comparison->err, AH_E_DOCUMENT, "%s: is %s; for this model on this cluster it is %s",
                     path, *a ? a : "absent", *b ? b : "absent");
    comparison->differ = true;
}

static int compare_plans(const struct verify *v, struct ah_cluster_plan *again)
{
    struct ah_cluster_plan stated = *v->plan;
    const struct ah_document a = {.kind = AH_DOCUMENT_CLUSTER_PLAN, .body.cluster_plan = &stated};
    const struct ah_document b = {.kind = AH_DOCUMENT_CLUSTER_PLAN, .body.cluster_plan = again};
    struct comparison comparison = {.err = v->err};
    size_t n = ah_document_diff(&a, &b, on_difference, &comparison);
    if (n == SIZE_MAX)
        return ah_error_memory(v->err);
    return n ? AH_E_DOCUMENT : AH_OK;
}

/* Removes from `again` the optional parts missing from the plan. */
static void leave_out(const struct verify *v, struct ah_cluster_plan *again)
{
    for (size_t p = 0; p < again->n_pipelines; p++)
        for (size_t i = 0; i < again->pipelines[p].n_stages; i++) {
            const struct ah_cluster_plan_stage *stated = &v->plan->pipelines[p].stages[i];
            if (!stated->n_starts_us)
                again->pipelines[p].stages[i].n_starts_us = 0;
        }
}

static int rebuild_and_compare(struct verify *v)
{
    struct ah_cluster_plan again = *v->plan;
    again.n_idle_ranks = 0;
    int rc =
        ah_cluster_document_fill(v->inputs->cluster, &v->problem, &v->arrangement, v->arena, &again, v->err);
    if (rc)
        return rc;
    again.predicted.estimated = v->estimated;
    again.solver.objective_us = again.predicted.step_us;
    struct ah_programs_input programs = {.model = v->inputs->model,
                                         .cluster = v->inputs->cluster,
                                         .training = v->training,
                                         .problem = &v->problem,
                                         .arrangement = &v->arrangement,
                                         .estimated = v->estimated};
    if (v->plan->n_programs) /* the table may be split even if every stage holds the whole model */
        programs.training.tied = v->plan->programs[0].training.tied;
    if (v->plan->n_programs)
        rc = ah_programs_fill(&programs, v->arena, &again, v->err);
    rc = rc ? rc : ah_cluster_replay_predict(&again, v->err);
    rc = rc ? rc : take_ranks(v, &again);
    if (rc)
        return rc;
    leave_out(v, &again);
    return compare_plans(v, &again);
}

int ah_cluster_verify(const struct ah_cluster_plan *plan, const struct ah_cluster_verify_inputs *inputs,
                      struct ah_error *err)
{
    struct ah_arena arena = {0};
    struct verify v = {.plan = plan, .inputs = inputs, .arena = &arena, .err = err, .everything = {"*"}};
    int rc = ah_verify_input("model", &plan->inputs.model, inputs->model_sha256, err);
    if (!rc)
        rc = ah_verify_input("cluster", &plan->inputs.cluster, inputs->cluster_sha256, err);
    if (!rc) {
        read_training(&v);
        rc = read_degrees(&v);
    }
    if (!rc)
        rc = build_problem(&v);
    if (!rc)
        rc = arrange(&v);
    if (!rc)
        rc = rebuild_and_compare(&v);
    ah_arena_release(&arena);
    return rc;
}
