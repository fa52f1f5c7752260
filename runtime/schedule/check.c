/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs the parts of the check in order. Each part may assume that earlier parts passed, but not that numbers are small.
 */
#include "runtime/schedule/check.h"

#include "runtime/schedule/check_internal.h"
#include "runtime/schedule/reserve.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

bool ah_check_near(double a, double b)
{
    return fabs(a - b) <= 1e-9 * fmax(fabs(a), fabs(b));
}

int ah_check_number(const char *place, double stated, double derived, const char *source,
                    struct ah_error *err)
{
    if (ah_check_near(stated, derived))
        return AH_OK;
    return ah_error_set(err, AH_E_DOCUMENT, "%s: is %.17g; %.17g %s", place, stated, derived, source);
}

int ah_check_count(const char *place, uint64_t stated, uint64_t derived, const char *source,
                   struct ah_error *err)
{
    if (stated == derived)
        return AH_OK;
    return ah_error_set(err, AH_E_DOCUMENT, "%s: is %" PRIu64 "; %" PRIu64 " %s", place, stated, derived,
                        source);
}

static int make_job(const struct ah_plan *plan, struct ah_arena *arena, struct ah_job *ret_job,
                    struct ah_error *err)
{
    struct ah_error cause = {0};
    int rc = ah_job_init_part(ret_job, &plan->model, &plan->training, plan->part, arena, &cause);
    if (rc && rc != AH_E_MEMORY)
        return ah_error_set(err, AH_E_DOCUMENT, "%s: %s", plan->part ? "part" : "training", cause.text);
    return rc ? ah_error_memory(err) : AH_OK;
}

static int check_blocks(const struct ah_plan *plan, const struct ah_job *job, struct ah_error *err)
{
    if (plan->n_blocks != job->n_blocks)
        return ah_error_set(err, AH_E_DOCUMENT, "blocks: there are %zu; the model has %zu", plan->n_blocks,
                            job->n_blocks);
    for (size_t i = 0; i < plan->n_blocks; i++) {
        const struct ah_job_group *group = ah_job_block(job, i);
        if (strcmp(plan->blocks[i].group, group->name) != 0)
            return ah_error_set(err, AH_E_DOCUMENT,
                                "blocks[%zu].group: is '%.80s'; for this model it is "
                                "'%s'",
                                i, plan->blocks[i].group, group->name);
        if (plan->blocks[i].parameters != group->parameters)
            return ah_error_set(err, AH_E_DOCUMENT,
                                "blocks[%zu].parameters: is %" PRIu64 "; for this model it is %" PRIu64, i,
                                plan->blocks[i].parameters, group->parameters);
    }
    return AH_OK;
}

/* Refuses a plan that needs much more memory to compile than its document: small documents cannot exhaust memory. */
static int check_amounts(const struct ah_plan *plan, const struct ah_job *job, struct ah_error *err)
{
    uint64_t tiles = 0, tile = plan->staging.tile_elements;
    if (plan->lanes.n_order[AH_PLAN_LANE_COMPUTE] / plan->n_blocks < plan->training.micro_batches)
        return ah_error_set(
            err, AH_E_DOCUMENT,
            "lanes.compute: has %zu positions; %zu blocks of %" PRIu64 " micro-batches need more",
            plan->lanes.n_order[AH_PLAN_LANE_COMPUTE], plan->n_blocks, plan->training.micro_batches);
    for (size_t i = 0; i < plan->n_blocks; i++)
        if (plan->blocks[i].optimizer == AH_OPTIMIZER_STREAMED)
            tiles += ah_job_block(job, i)->own_trained_elements / tile;
    if (tiles <= plan->lanes.n_order[AH_PLAN_LANE_H2D])
        return AH_OK;
    return ah_error_set(err, AH_E_DOCUMENT,
                        "lanes.h2d: has %zu tiles; streamed states need at least %" PRIu64,
                        plan->lanes.n_order[AH_PLAN_LANE_H2D], tiles);
}

/* Checks that the plan gives the compute lane threads exactly if its device is the CPU; on a GPU it uses no core. */
static int check_device(const struct ah_plan *plan, struct ah_error *err)
{
    const enum ah_device_kind kind = plan->numeric_signature.device;
    if (!plan->threads || (kind == AH_DEVICE_CPU) == (plan->threads->compute > 0))
        return AH_OK;
    return ah_error_set(err, AH_E_DOCUMENT,
                        "numeric_signature.device: is '%s', but threads.compute %" PRIu64 " belongs to %s",
                        ah_words_device_kind[kind], plan->threads->compute,
                        kind == AH_DEVICE_CPU ? "a GPU" : "the CPU device");
}

/* Checks that the memory outside the arena suffices for the workspaces of the plan's ops. */
static int check_reserve(const struct ah_plan *plan, const struct ah_job *job, struct ah_error *err)
{
    const struct ah_plan_memory *memory = &plan->memory;
    uint64_t bytes = 0;
    int rc = plan->threads
                 ? ah_reserve_find(job, plan->numeric_signature.device, plan->threads->compute, &bytes, err)
                 : AH_OK;
    if (rc || bytes <= memory->device_capacity_bytes - memory->device_bytes)
        return rc;
    return ah_error_set(err, AH_E_DOCUMENT,
                        "memory.device_bytes: is %" PRIu64 "; with threads.compute %" PRIu64 " its ops take "
                        "another %" PRIu64 ", in total more than device_capacity_bytes %" PRIu64 "; plan "
                        "again",
                        memory->device_bytes, plan->threads->compute, bytes, memory->device_capacity_bytes);
}

/* Reads the times that compiling needs: of forward, backward and send ops, and the rates of copies to the device. */
static int read_times(const struct ah_plan *plan, const struct ah_job *job, struct ah_arena *arena,
                      struct ah_costs *ret_costs, double **ret_base_us, struct ah_error *err)
{
    double *base_us = ah_arena_array(arena, 4 * plan->lanes.n_order[AH_PLAN_LANE_COMPUTE], sizeof *base_us);
    struct ah_cost_group *groups = ah_arena_array(arena, job->n_groups, sizeof *groups);
    struct ah_check_copies copies = ah_check_copies(plan, AH_PLAN_LANE_H2D);
    if (!base_us || !groups)
        return ah_error_memory(err);
    *ret_base_us = base_us;
    for (size_t i = 0; i < plan->lanes.n_order[AH_PLAN_LANE_COMPUTE]; i++) {
        const struct ah_plan_op *op = ah_plan_compute_op(plan, i);
        if (op->op != AH_PLAN_DEVICE_ADAM)
            *base_us++ = op->us;
    }
    *ret_costs = (struct ah_costs){
        .groups = groups, .h2d_latency_us = copies.us_a_tile, .h2d_us_per_byte = copies.us_a_byte};
    return AH_OK;
}

static int check_job(const struct ah_plan *plan, struct ah_error *err)
{
    struct ah_arena arena = {0};
    struct ah_job job;
    struct ah_costs costs;
    double *base_us = NULL;
    int rc = make_job(plan, &arena, &job, err);
    if (!rc)
        rc = check_blocks(plan, &job, err);
    if (!rc)
        rc = check_amounts(plan, &job, err);
    if (!rc)
        rc = check_device(plan, err);
    if (!rc)
        rc = check_reserve(plan, &job, err);
    if (!rc)
        rc = ah_check_work(plan, &job, err);
    if (!rc)
        rc = read_times(plan, &job, &arena, &costs, &base_us, err);
    if (!rc)
        rc = ah_check_rebuild(
            plan, &(struct ah_check_inputs){.job = &job, .costs = &costs, .base_us = base_us}, err);
    ah_arena_release(&arena);
    return rc;
}

int ah_schedule_check(const struct ah_plan *plan, struct ah_error *err)
{
    static int (*const parts[])(const struct ah_plan *, struct ah_error *) = {
        ah_check_arena, check_job, ah_check_links, ah_check_times, ah_check_claims};
    int rc = AH_OK;
    for (size_t i = 0; i < sizeof parts / sizeof parts[0] && !rc; i++)
        rc = parts[i](plan, err);
    return rc;
}

int ah_schedule_check_against(const struct ah_plan *plan, const struct ah_job *job,
                              const struct ah_costs *costs, struct ah_error *err)
{
    const struct ah_check_inputs inputs = {.job = job, .costs = costs, .from_documents = true};
    int rc = check_blocks(plan, job, err);
    return rc ? rc : ah_check_rebuild(plan, &inputs, err);
}
