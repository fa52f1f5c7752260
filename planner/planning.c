/* SPDX-License-Identifier: Apache-2.0
 *
 * Planning: prepares and solves a request.
 */
#include "planner/planner_internal.h"

#include "base/buffer.h"
#include "planner/policies/policies.h"
#include "planner/search/optimize.h"
#include "runtime/schedule/reserve.h"

#include <inttypes.h>

#define GIB (UINT64_C(1) << 30)

/* ---- preparing ---- */

uint64_t ah_planning_host_budget(const struct ah_machine *machine, uint64_t memory_bytes, uint64_t gpus,
                                 uint64_t device_capacity_bytes)
{
    uint64_t kept = memory_bytes / 16 < 8 * GIB ? memory_bytes / 16 : 8 * GIB;
    if (machine->device.kind == AH_DEVICE_CPU)
        kept += gpus * device_capacity_bytes; /* the devices' arenas are in the same memory */
    uint64_t budget = memory_bytes > kept ? memory_bytes - kept : 0;
    uint64_t process = gpus * machine->host.process_bytes; /* the system's share includes it */
    return budget > process ? budget : process;
}

static void add_what_if(struct ah_planning *p, enum ah_what_if_field field, uint64_t machine_bytes,
                        uint64_t planned_bytes)
{
    if (planned_bytes > machine_bytes)
        p->what_if[p->n_what_if++] = (struct ah_plan_what_if){field, machine_bytes, planned_bytes};
}

uint64_t ah_planning_device_bytes(const struct ah_plan_request *request)
{
    const struct ah_machine_device *device = &request->machine->device;
    return device->kind == AH_DEVICE_CPU && request->gpus > 1 ? device->memory_bytes / request->gpus
                                                              : device->memory_bytes;
}

/* Returns the host memory of the machine that is planned for. A CPU's device memory is a part of it, so a request for
 * more of that memory adds to it. */
static uint64_t machine_host_bytes(const struct ah_planning *p)
{
    const struct ah_machine *machine = p->request->machine;
    const uint64_t device = ah_planning_device_bytes(p->request);
    const bool more = machine->device.kind == AH_DEVICE_CPU && p->device_capacity_bytes > device;
    return machine->host.memory_bytes + (more ? p->gpus * (p->device_capacity_bytes - device) : 0);
}

uint64_t ah_planning_host_most(const struct ah_planning *p)
{
    const struct ah_machine *machine = p->request->machine;
    const uint64_t host = machine_host_bytes(p);
    return machine->device.kind == AH_DEVICE_CPU
               ? ah_planning_host_budget(machine, host, p->gpus, p->device_capacity_bytes)
               : host;
}

static int init_budgets(struct ah_planning *p, struct ah_error *err)
{
    const struct ah_machine *machine = p->request->machine;
    const uint64_t asked = p->request->host_bytes;
    const uint64_t device = ah_planning_device_bytes(p->request);
    p->device_capacity_bytes = p->request->device_bytes ? p->request->device_bytes : device;
    const uint64_t own = machine_host_bytes(p), host = asked > own ? asked : own;
    p->what_if = ah_arena_array(p->arena, AH_WHAT_IFS, sizeof *p->what_if);
    if (!p->what_if)
        return ah_error_memory(err);
    add_what_if(p, AH_WHAT_IF_DEVICE_MEMORY, device, p->device_capacity_bytes);
    add_what_if(p, AH_WHAT_IF_HOST_MEMORY, machine->host.memory_bytes, host);
    if (p->device_capacity_bytes <= machine->device.reserve_bytes)
        return ah_error_set(err, AH_E_USAGE,
                            "'--device-memory' %" PRIu64 " is no more than the %" PRIu64 " bytes that the "
                            "device reserves for itself; give more",
                            p->device_capacity_bytes, machine->device.reserve_bytes);
    const uint64_t budget = asked && asked <= ah_planning_host_most(p)
                                ? asked
                                : ah_planning_host_budget(machine, host, p->gpus, p->device_capacity_bytes);
    p->host_capacity_bytes = budget / p->gpus;
    p->process_bytes = machine->host.process_bytes;
    if (p->host_capacity_bytes < p->process_bytes)
        return ah_error_set(err, AH_E_USAGE,
                            "'--host-memory' %" PRIu64 " is less than the %" PRIu64 " bytes that %s for %s; "
                            "give more",
                            budget, p->gpus * p->process_bytes,
                            p->gpus > 1 ? "the processes take" : "the process takes",
                            p->gpus > 1 ? "themselves" : "itself");
    return AH_OK;
}

static bool must_stop(void *context, uint64_t evaluations)
{
    const struct ah_planning *p = context;
    if (!p->request->progress || evaluations % 16)
        return false;
    return p->request->progress(p->request->context, p->evaluations + evaluations, 0);
}

/* Sets the reserve: the measured one or, if larger, the most that ops need on any split. All splits share it. */
static int find_reserve(struct ah_planning *p, const struct ah_plan_threads *threads, size_t n,
                        struct ah_error *err)
{
    const struct ah_machine_device *device = &p->request->machine->device;
    int rc = AH_OK;
    p->reserve_bytes = device->reserve_bytes;
    for (size_t i = 0; i < n && !rc; i++) {
        uint64_t bytes = 0;
        rc = ah_reserve_find(&p->job, device->kind, threads[i].compute, &bytes, err);
        p->reserve_bytes = bytes > p->reserve_bytes ? bytes : p->reserve_bytes;
    }
    return rc;
}

uint64_t ah_planning_arena_bytes(const struct ah_planning *p)
{
    return p->device_capacity_bytes > p->reserve_bytes ? p->device_capacity_bytes - p->reserve_bytes : 1;
}

static int init_splits(struct ah_planning *p, struct ah_error *err)
{
    struct ah_plan_threads threads[AH_PRICING_SPLITS_MAX];
    size_t n = ah_pricing_thread_splits(p->request->machine, threads, AH_PRICING_SPLITS_MAX);
    int rc = find_reserve(p, threads, n, err);
    for (size_t i = 0; i < (n ? n : 1) && !rc; i++) {
        struct ah_split *split = &p->splits[i];
        rc = ah_pricing_fill(p->request->machine, &p->job, n ? &threads[i] : NULL, p->arena, &split->costs,
                             err);
        if (!rc && p->gpus > 1)
            ah_pricing_fabric(p->request->machine, p->request->fabric_bytes_per_s, &split->costs);
        struct ah_evaluator_limits limits = {.job = &p->job,
                                             .costs = &split->costs,
                                             .device_bytes = ah_planning_arena_bytes(p),
                                             .host_bytes = p->host_capacity_bytes - p->process_bytes,
                                             .restriction = p->request->without ? &p->restriction : NULL,
                                             .stop = must_stop,
                                             .context = p};
        rc = rc ? rc : ah_evaluator_init(&split->evaluator, &limits, err);
        p->n_splits += !rc;
    }
    return rc;
}

/* Returns the layout's limit on micro-batches: eight tensors for each, in each block (runtime/schedule/layout.c). */
static uint64_t most_micro_batches(const struct ah_model *model)
{
    uint64_t most = (UINT64_C(1) << 17) / ah_model_blocks(model);
    return most ? most : 1;
}

static int check_micro_batches(const struct ah_planning *p, struct ah_error *err)
{
    uint64_t most = most_micro_batches(p->request->model);
    if (p->training.micro_batches <= most)
        return AH_OK;
    return ah_error_set(err, AH_E_USAGE,
                        "'--micro-batches' %" PRIu64 " is more than can be planned for the blocks of '%s'; "
                        "give at most %" PRIu64,
                        p->step.micro_batches, p->request->model->name, most * p->gpus);
}

/* Checks that a step can be dealt to several GPUs. */
static int check_gpus(const struct ah_planning *p, struct ah_error *err)
{
    const struct ah_plan_training *step = &p->step;
    if (p->gpus == 1)
        return AH_OK;
    if (step->micro_batches < p->gpus)
        return ah_error_set(err, AH_E_USAGE,
                            "%" PRIu64 " micro-batches leave some of the %" PRIu64
                            " GPUs without work; '--micro-batches' must be at least %" PRIu64,
                            step->micro_batches, p->gpus, p->gpus);
    if (step->batch % step->micro_batches)
        return ah_error_set(err, AH_E_USAGE,
                            "micro_batches '%" PRIu64 "' does not divide batch '%" PRIu64
                            "'; choose one of its divisors",
                            step->micro_batches, step->batch);
    if (step->tied == AH_TIED_SPLIT)
        return ah_error_set(
            err, AH_E_USAGE,
            "'--like' names a plan whose two uses of the tied table have gradients of their own "
            "(tied 'split'), which '--gpus' does not add up; leave one out");
    return step->n_sums ? ah_error_set(err, AH_E_USAGE,
                                       "'--gpus' adds up the micro-batches of a step in order, as one GPU "
                                       "does; groups of micro-batches need '--cluster'")
                        : AH_OK;
}

/* Sets the part of the step that each GPU computes. If micro-batches are left over, some GPUs compute one less than is
 * planned here, but wait for the others. */
static void deal_step(struct ah_planning *p)
{
    const struct ah_plan_training *step = &p->step;
    p->training = *step;
    if (p->gpus == 1)
        return;
    p->training.micro_batches = (step->micro_batches + p->gpus - 1) / p->gpus;
    p->training.batch = step->batch / step->micro_batches * p->training.micro_batches;
    p->part = (struct ah_plan_part){
        .blocks = ah_model_blocks(p->request->model), .tp = 1, .stages = 1, .shards = p->gpus};
}

static int read_step(struct ah_planning *p, struct ah_error *err)
{
    p->step = p->request->training;
    if (!p->step.trainable) {
        const char **all = ah_arena_array(p->arena, 1, sizeof *all);
        if (!all)
            return ah_error_memory(err);
        all[0] = "*";
        p->step.trainable = all;
        p->step.n_trainable = 1;
    }
    int rc = check_gpus(p, err);
    if (!rc)
        deal_step(p);
    return rc;
}

int ah_planning_init(struct ah_planning *planning, const struct ah_plan_request *request,
                     struct ah_arena *arena, struct ah_error *err)
{
    *planning = (struct ah_planning){
        .request = request, .gpus = request->gpus > 1 ? request->gpus : 1, .arena = arena};
    int rc = read_step(planning, err);
    if (rc)
        return rc;
    if (planning->training.dtype == AH_BF16 && !request->machine->device.bf16)
        return ah_error_set(err, AH_E_USAGE, "machine '%s' has no bf16; plan with '--dtype fp32'",
                            request->machine->name);
    rc = check_micro_batches(planning, err);
    if (!rc)
        rc = init_budgets(planning, err);
    if (!rc)
        rc = ah_job_init_part(&planning->job, request->model, &planning->training,
                              planning->gpus > 1 ? &planning->part : NULL, arena, err);
    if (!rc)
        rc = request->without
                 ? ah_restriction_init(&planning->restriction, &planning->job, request->without, arena, err)
                 : AH_OK;
    if (!rc)
        rc = init_splits(planning, err);
    if (rc)
        ah_planning_release(planning);
    return rc;
}

void ah_planning_release(struct ah_planning *planning)
{
    for (size_t i = 0; i < planning->n_splits; i++)
        ah_evaluator_release(&planning->splits[i].evaluator);
    planning->n_splits = 0;
}

/* ---- solving ---- */

static bool is_better(const struct ah_split *split, const struct ah_split *winner)
{
    return split->evaluator.found && (!winner || split->evaluator.best.score.period_us <
                                                     winner->evaluator.best.score.period_us * (1 - 1e-9));
}

/* Merges the result of one split: the bound is the least over all splits, and a planning is infeasible only if every
 * split is. The shortage is the same on every split. */
static void take_result(struct ah_planning *p, const struct ah_optimize_result *result, bool first)
{
    p->infeasible = result->infeasible && (first || p->infeasible);
    if (result->infeasible)
        p->shortage = result->shortage;
    else if (!p->bound_us || result->bound_us < p->bound_us)
        p->bound_us = result->bound_us;
}

/* Returns the i-th number of micro-batches to try for several GPUs; 0: there are no more. */
static uint64_t dealt_micro_batches(const struct ah_plan_request *request, size_t i, bool found)
{
    const uint64_t batch = request->training.batch, gpus = request->gpus;
    for (uint64_t each = 1; each <= batch / gpus && each <= most_micro_batches(request->model); each++) {
        const bool power = !(each & (each - 1)), last = !found && each * gpus == batch;
        if (batch % (each * gpus) || (!request->least_micro_batches && !power && !last))
            continue;
        if (!i--)
            return request->least_micro_batches && found ? 0 : each * gpus;
    }
    return 0;
}

uint64_t ah_planning_micro_batches(const struct ah_plan_request *request, size_t i, bool found)
{
    uint64_t batch = request->training.batch, power = UINT64_C(1) << (i < 63 ? i : 63);
    uint64_t most = most_micro_batches(request->model);
    if (!request->any_micro_batches)
        return i ? 0 : request->training.micro_batches;
    if (request->gpus > 1)
        return dealt_micro_batches(request, i, found);
    if (batch % power == 0)
        return power <= most ? power : 0;
    return !found && batch <= most && batch % (power / 2) == 0 && batch != power / 2 ? batch : 0;
}

int ah_planning_solve(struct ah_planning *p, struct ah_error *err)
{
    int rc = AH_OK;
    for (size_t i = 0; i < p->n_splits && !rc; i++) {
        struct ah_split *split = &p->splits[i];
        struct ah_optimize optimize = {.evaluator = &split->evaluator,
                                       .reserve_bytes = p->reserve_bytes,
                                       .scheduling = p->request->scheduling,
                                       .effort = p->request->effort,
                                       .allowed = p->restriction.allowed};
        struct ah_optimize_result result;
        bool optimal = p->request->policy == AH_POLICY_OPTIMAL;
        rc = (optimal ? ah_optimize_run : ah_optimize_bound)(&optimize, p->arena, &result, err);
        if (!rc && !optimal)
            rc = ah_policies_search(&split->evaluator, p->request->policy, p->request->scheduling, err);
        if (rc)
            break;
        take_result(p, &result, !i);
        p->evaluations += split->evaluator.evaluations;
        if (is_better(split, p->winner))
            p->winner = split;
    }
    return rc;
}

int ah_planning_exhaust(struct ah_planning *p, struct ah_error *err)
{
    int rc = AH_OK;
    if (p->winner || p->request->policy == AH_POLICY_OPTIMAL)
        return AH_OK;
    p->exhausted = true;
    for (size_t i = 0; i < p->n_splits && !rc; i++) {
        struct ah_split *split = &p->splits[i];
        bool exhausted;
        rc = ah_policies_exhaust(&split->evaluator, p->request->policy, p->request->scheduling, &exhausted,
                                 err);
        p->exhausted = p->exhausted && !rc && exhausted;
        if (!rc && is_better(split, p->winner))
            p->winner = split;
    }
    return rc;
}
