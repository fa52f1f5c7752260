/* SPDX-License-Identifier: Apache-2.0
 *
 * Emit: writes the evaluated choice as a plan document. Ops keep their indices. A lane lists an op once per tile.
 */
#include "runtime/schedule/schedule_internal.h"

#include <string.h>

struct emit {
    const struct ah_schedule_memory *m;
    const struct ah_choice *choice;
    struct ah_arena *arena;
    struct ah_plan *plan;
};

static int emit_blocks(struct emit *e)
{
    const struct ah_job *job = e->m->job;
    e->plan->blocks = ah_arena_array(e->arena, job->n_blocks, sizeof *e->plan->blocks);
    e->plan->n_blocks = job->n_blocks;
    if (!e->plan->blocks)
        return AH_E_MEMORY;
    for (size_t i = 0; i < job->n_blocks; i++) {
        const struct ah_job_group *group = ah_job_block(job, i);
        const struct ah_config *config = &e->choice->configs[i];
        char name[AH_NAME_MAX];
        ah_name_block(ah_names_of_job(job), i, name);
        e->plan->blocks[i] = (struct ah_plan_block){.index = i,
                                                    .name = ah_arena_strdup(e->arena, name),
                                                    .group = ah_arena_strdup(e->arena, group->name),
                                                    .parameters = group->parameters,
                                                    .activations = config->activations,
                                                    .weights = config->weights,
                                                    .optimizer = config->optimizer,
                                                    .accumulator = config->accumulator};
        if (!e->plan->blocks[i].name || !e->plan->blocks[i].group)
            return AH_E_MEMORY;
    }
    return AH_OK;
}

static int emit_sharing(struct emit *e)
{
    const struct ah_plan_sharing *from = &e->choice->costs->sharing;
    struct ah_plan_sharing *to = &e->plan->sharing;
    *to = *from;
    to->resources = ah_arena_array(e->arena, from->n_resources, sizeof *to->resources);
    if (from->n_resources && !to->resources)
        return AH_E_MEMORY;
    for (size_t i = 0; i < from->n_resources; i++) {
        to->resources[i] = from->resources[i];
        to->resources[i].name = ah_arena_strdup(e->arena, from->resources[i].name);
        if (!to->resources[i].name)
            return AH_E_MEMORY;
    }
    if (!e->choice->costs->has_threads)
        return AH_OK;
    e->plan->threads = ah_arena_alloc(e->arena, sizeof *e->plan->threads);
    if (!e->plan->threads)
        return AH_E_MEMORY;
    *e->plan->threads = e->choice->costs->threads;
    return AH_OK;
}

static int emit_ops(struct emit *e)
{
    const struct ah_iteration *it = &e->m->compiled.iteration;
    e->plan->n_ops = it->n_ops;
    e->plan->ops = ah_arena_array(e->arena, it->n_ops, sizeof *e->plan->ops);
    if (!e->plan->ops)
        return AH_E_MEMORY;
    memcpy(e->plan->ops, it->ops, it->n_ops * sizeof *it->ops);
    return AH_OK;
}

static int emit_lane(struct emit *e, enum ah_plan_lane lane, const uint32_t *ops, const uint32_t *items,
                     size_t n)
{
    uint64_t *order = n ? ah_arena_array(e->arena, n, sizeof *order) : NULL;
    if (n && !order)
        return AH_E_MEMORY;
    for (size_t i = 0; i < n; i++)
        order[i] = items ? ops[items[i]] : ops[i];
    e->plan->lanes.order[lane] = order;
    e->plan->lanes.n_order[lane] = n;
    return AH_OK;
}

static int emit_lanes(struct emit *e)
{
    const struct ah_orders *orders = &e->m->orders;
    const struct ah_iteration *it = &e->m->compiled.iteration;
    int rc = emit_lane(e, AH_PLAN_LANE_COMPUTE, it->compute, NULL, it->positions);
    for (unsigned lane = AH_PLAN_LANE_H2D; lane < AH_PLAN_LANES && !rc; lane++)
        rc = emit_lane(e, lane, e->m->items.op, orders->item[lane], orders->n[lane]);
    return rc;
}

static int emit_arena(struct emit *e)
{
    const struct ah_compiled *compiled = &e->m->compiled;
    struct ah_plan_arena *arena = &e->plan->arena;
    arena->positions = compiled->iteration.positions;
    arena->n_tensors = compiled->n_tensors;
    arena->tensors = ah_arena_array(e->arena, compiled->n_tensors, sizeof *arena->tensors);
    if (!arena->tensors)
        return AH_E_MEMORY;
    for (size_t i = 0; i < compiled->n_tensors; i++) {
        const struct ah_layout_tensor *tensor = &compiled->tensors[i];
        const struct ah_tensor_name *name = &compiled->names[i];
        arena->tensors[i] = (struct ah_plan_tensor){.label = name->label,
                                                    .block = ah_name_owner(name),
                                                    .micro_batch = name->micro_batch,
                                                    .offset_bytes = tensor->offset,
                                                    .bytes = tensor->bytes,
                                                    .from = tensor->from,
                                                    .to = tensor->to};
    }
    return AH_OK;
}

static void emit_numbers(struct emit *e)
{
    const struct ah_score *score = &e->m->score;
    const uint64_t *by_class = score->device.by_class;
    struct ah_plan *plan = e->plan;
    const struct ah_knobs *knobs = &e->choice->knobs;
    plan->staging = e->m->compiled.staging;
    plan->knobs = (struct ah_plan_knobs){.fetch_ahead = knobs->fetch_ahead,
                                         .send_behind = knobs->send_behind,
                                         .updates_after_backward = knobs->updates_after_backward,
                                         .step_ends = knobs->step_ends};
    plan->scheduling = knobs->scheduling;
    plan->micro_batch_order = knobs->micro_order;
    plan->memory.device_bytes = score->device.peak_bytes;
    plan->memory.pinned_bytes = score->pinned_bytes;
    plan->memory.pageable_bytes = score->pageable_bytes;
    plan->memory.host_bytes = score->pinned_bytes + score->pageable_bytes;
    plan->memory.by_class = (struct ah_plan_by_class){.weights = by_class[AH_CLASS_WEIGHTS],
                                                      .gradients = by_class[AH_CLASS_GRADIENTS],
                                                      .optimizer = by_class[AH_CLASS_OPTIMIZER],
                                                      .activations = by_class[AH_CLASS_ACTIVATIONS],
                                                      .staging = by_class[AH_CLASS_STAGING],
                                                      .workspace = by_class[AH_CLASS_WORKSPACE]};
    plan->time = (struct ah_plan_time){.step_us = score->period_us, .estimated = e->choice->costs->estimated};
    memcpy(plan->time.busy_us, score->busy_us, sizeof plan->time.busy_us);
    memcpy(plan->time.exposed_us.of, score->exposed_us, sizeof plan->time.exposed_us.of);
}

int ah_schedule_emit(struct ah_schedule *schedule, const struct ah_choice *choice, struct ah_arena *arena,
                     struct ah_plan *ret_plan, struct ah_error *err)
{
    static int (*const parts[])(struct emit *) = {emit_blocks, emit_sharing, emit_ops, emit_lanes,
                                                  emit_arena};
    struct emit e = {.m = schedule->memory, .choice = choice, .arena = arena, .plan = ret_plan};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (parts[i](&e))
            return ah_error_memory(err);
    emit_numbers(&e);
    return AH_OK;
}
