/* SPDX-License-Identifier: Apache-2.0
 *
 * Planner: turns requests into plan documents, comparisons, or diagnoses.
 */
#include "planner/planner.h"

#include "planner/gpus.h"
#include "planner/planner_internal.h"
#include "planner/policies/policies.h"
#include "runtime/schedule/products.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

/* ---- the document ---- */

static int fill_inputs(const struct ah_planning *p, struct ah_plan *plan, struct ah_error *err)
{
    const struct ah_plan_request *request = p->request;
    struct ah_plan_part *part = ah_arena_alloc(p->arena, sizeof *part);
    if (!part)
        return ah_error_memory(err);
    plan->generator = request->generator;
    plan->inputs.model = (struct ah_plan_input){request->model->name, request->model_sha256};
    plan->inputs.machine = (struct ah_plan_input){request->machine->name, request->machine_sha256};
    plan->what_if = p->what_if;
    plan->n_what_if = p->n_what_if;
    plan->model = *request->model;
    plan->training = p->training;
    if (p->gpus > 1) {
        *part = p->part;
        plan->part = part;
    }
    plan->numeric_signature = ah_plan_signature(plan, request->machine->device.kind);
    plan->policy = request->policy;
    return AH_OK;
}

int ah_planner_emulated(const struct ah_machine *machine, enum ah_dtype dtype, struct ah_arena *arena,
                        struct ah_plan_emulated **ret_emulated, struct ah_error *err)
{
    *ret_emulated = NULL;
    if (!machine->emulates)
        return AH_OK;
    struct ah_plan_emulated *emulated = ah_arena_alloc(arena, sizeof *emulated);
    if (!emulated)
        return ah_error_memory(err);
    *emulated = (struct ah_plan_emulated){
        .name = machine->emulates,
        .h2d_bytes_per_s = ah_machine_link_bytes_per_s(machine, AH_H2D),
        .d2h_bytes_per_s = ah_machine_link_bytes_per_s(machine, AH_D2H),
        .copy_latency_us = machine->n_links ? machine->links[0].latency_us : 0,
        .both_kept = fmin(ah_machine_kept(machine, AH_PART_H2D, AH_PART_D2H), 1),
        .host_adam_params_per_s = ah_machine_adam_params_per_s(machine, AH_HOST, dtype)};
    *ret_emulated = emulated;
    return AH_OK;
}

static int fill_without(const struct ah_planning *p, struct ah_plan *plan, struct ah_error *err)
{
    return ah_restriction_list(p->request->without, p->arena, &plan->without, &plan->n_without, err);
}

/* Adds the algorithms measured on the machine for the job's products, and names them in the signature. */
static int fill_algorithms(const struct ah_planning *p, struct ah_plan *plan, struct ah_error *err)
{
    char digest[AH_SHA256_HEX_MAX];
    int rc = ah_products_select(&p->job, p->request->machine->algorithms, p->arena, &plan->algorithms, err);
    if (rc || !plan->algorithms)
        return rc;
    ah_algorithms_digest(plan->algorithms, digest);
    plan->numeric_signature.matmul_sha256 = ah_arena_strdup(p->arena, digest);
    return plan->numeric_signature.matmul_sha256 ? AH_OK : ah_error_memory(err);
}

/* Records the numbers of the policy's setting. */
static int fill_policy_numbers(const struct ah_planning *p, const struct ah_candidate *best,
                               struct ah_plan *plan, struct ah_error *err)
{
    uint32_t sizes[AH_PLAN_POLICY_NUMBERS];
    if (plan->policy == AH_POLICY_OPTIMAL)
        return AH_OK;
    plan->n_policy_numbers = ah_policies_sizes(&p->job, plan->policy, sizes);
    plan->policy_numbers = ah_arena_array(p->arena, AH_PLAN_POLICY_NUMBERS, sizeof *plan->policy_numbers);
    if (!plan->policy_numbers)
        return ah_error_memory(err);
    for (size_t i = 0; i < plan->n_policy_numbers; i++)
        plan->policy_numbers[i] = best->numbers[i];
    return AH_OK;
}

static double tokens_per_s(const struct ah_plan_training *training, double step_us)
{
    return (double)(training->batch * training->seq) / step_us * 1e6;
}

static void fill_results(const struct ah_planning *p, struct ah_plan *plan)
{
    double objective = plan->time.step_us;
    double bound = p->bound_us < objective ? p->bound_us : objective;
    plan->memory.device_capacity_bytes = p->device_capacity_bytes;
    plan->memory.reserved_bytes = p->reserve_bytes;
    plan->memory.host_capacity_bytes = p->host_capacity_bytes;
    plan->memory.process_bytes = p->process_bytes;
    plan->solver = (struct ah_plan_solver){.status = bound <= 0                        ? AH_PLAN_NO_BOUND
                                                     : bound >= objective * (1 - 1e-6) ? AH_PLAN_OPTIMAL
                                                                                       : AH_PLAN_WITHIN_GAP,
                                           .objective_us = objective,
                                           .bound_us = bound,
                                           .gap = bound > 0 ? (objective - bound) / objective : 0,
                                           .evaluations = p->evaluations};
    plan->tokens_per_s = tokens_per_s(&p->training, objective);
}

static int fill_plan(struct ah_planning *p, struct ah_plan *ret_plan, struct ah_error *err)
{
    struct ah_split *split = (struct ah_split *)(uintptr_t)p->winner;
    struct ah_choice choice = {.configs = split->evaluator.best.configs,
                               .knobs = split->evaluator.best.knobs,
                               .costs = &split->costs};
    struct ah_score score;
    int rc = ah_schedule_evaluate(&split->evaluator.schedule, &choice, &score, err);
    if (!rc)
        rc = ah_schedule_emit(&split->evaluator.schedule, &choice, p->arena, ret_plan, err);
    rc = rc ? rc : fill_inputs(p, ret_plan, err);
    if (rc)
        return rc;
    fill_results(p, ret_plan);
    rc = fill_policy_numbers(p, &split->evaluator.best, ret_plan, err);
    rc = rc ? rc : fill_algorithms(p, ret_plan, err);
    rc = rc ? rc
            : ah_planner_emulated(p->request->machine, p->training.dtype, p->arena,
                                  &ret_plan->inputs.emulated, err);
    return rc ? rc : fill_without(p, ret_plan, err);
}

/* ---- one policy ---- */

/* Fills the diagnosis of a planning without a winner. `others_proven`: no other choice in the request has a plan. */
static int no_plan(struct ah_planning *p, bool others_proven, struct ah_diagnosis *ret_diagnosis,
                   struct ah_error *err)
{
    struct ah_diagnosis diagnosis;
    ah_shortage_find(p, &diagnosis);
    diagnosis.proven = diagnosis.proven && others_proven;
    int rc = p->request->no_remedies ? AH_OK : ah_remedies_find(p, &diagnosis, err);
    if (rc)
        return rc;
    *ret_diagnosis = diagnosis;
    return ah_shortage_say(p, &diagnosis, err);
}

/* Solves a prepared planning and fills its plan. Returns AH_OK without a winner if no plan was found. `thorough`: tries
 * every setting of a policy. */
static int solve(struct ah_planning *p, bool thorough, struct ah_plan *ret_plan, struct ah_error *err)
{
    int rc = ah_planning_solve(p, err);
    if (!rc && thorough)
        rc = ah_planning_exhaust(p, err);
    return !rc && p->winner ? fill_plan(p, ret_plan, err) : rc;
}

/* Returns the bytes needed of the short memory divided by the bytes available; HUGE_VAL if the need is unknown. */
static double lack_of(const struct ah_planning *p)
{
    struct ah_diagnosis diagnosis;
    ah_shortage_find(p, &diagnosis);
    double growth = (double)diagnosis.needed_bytes / (1.0 + (double)diagnosis.available_bytes);
    return diagnosis.needed_bytes ? growth : HUGE_VAL;
}

/* Plans every allowed number of micro-batches. Returns the fastest plan, and sets the request's number to its own. If
 * none has a plan, diagnoses the number with the least shortage; `places` has room for its planning and the one being
 * tried. */
static int plan_fastest(struct ah_plan_request *request, struct ah_arena *arena, struct ah_plan *ret_plan,
                        struct ah_diagnosis *ret_diagnosis, struct ah_error *err)
{
    struct ah_plan_request each = *request;
    struct ah_planning places[2], *p = &places[0], *least = NULL;
    bool found = false, proven = true;
    uint64_t n;
    int rc = AH_OK;
    for (size_t i = 0; !rc && (n = ah_planning_micro_batches(request, i, found)); i++) {
        struct ah_plan plan = {0};
        each.training.micro_batches = n;
        rc = ah_planning_init(p, &each, arena, err);
        if (rc)
            break;
        rc = solve(p, true, &plan, err);
        if (!rc && p->winner && (!found || plan.time.step_us < ret_plan->time.step_us)) {
            *ret_plan = plan;
            request->training.micro_batches = n;
        }
        found = found || (!rc && p->winner);
        proven = proven && ah_planning_proven(p);
        if (rc || p->winner || (least && lack_of(p) >= lack_of(least))) {
            ah_planning_release(p);
            continue;
        }
        if (least)
            ah_planning_release(least);
        least = p;
        p = &places[p == places];
    }
    if (!rc && !found)
        rc = no_plan(least, proven, ret_diagnosis, err);
    if (least)
        ah_planning_release(least);
    return rc;
}

static int fill_alternative(const struct ah_plan_request *request, struct ah_arena *arena,
                            struct ah_plan_alternative *ret_alternative, struct ah_error *err)
{
    struct ah_planning planning;
    struct ah_plan plan = {0};
    int rc = ah_planning_init(&planning, request, arena, err);
    if (rc)
        return rc;
    rc = solve(&planning, false, &plan, err);
    bool feasible = !rc && planning.winner;
    *ret_alternative =
        (struct ah_plan_alternative){request->policy, feasible, feasible ? plan.time.step_us : 0};
    ah_planning_release(&planning);
    return rc;
}

/* Plans the other policies for a request without a choice of micro-batches. */
static int fill_alternatives(const struct ah_plan_request *request, struct ah_arena *arena,
                             struct ah_plan *plan, struct ah_error *err)
{
    struct ah_plan_request each = *request;
    plan->alternatives = ah_arena_array(arena, AH_POLICIES, sizeof *plan->alternatives);
    if (!plan->alternatives)
        return ah_error_memory(err);
    int rc = AH_OK;
    for (int policy = 0; policy < AH_POLICIES && !rc; policy++) {
        if (policy == (int)request->policy || policy == AH_POLICY_OPTIMAL)
            continue;
        each.policy = (enum ah_policy)policy;
        rc = fill_alternative(&each, arena, &plan->alternatives[plan->n_alternatives++], err);
    }
    return rc;
}

/* Checks that the planner has a number of micro-batches to choose. */
static int check_choice(const struct ah_plan_request *request, struct ah_error *err)
{
    if (request->gpus <= 1 || ah_planning_micro_batches(request, 0, false))
        return AH_OK;
    return ah_error_set(err, AH_E_USAGE,
                        "'--batch' %" PRIu64 " cannot be dealt evenly to %" PRIu64
                        " GPUs; choose a multiple of %" PRIu64 "%s",
                        request->training.batch, request->gpus, request->gpus,
                        request->training.batch < request->gpus ? ""
                                                                : ", or give a number of '--micro-batches'");
}

/* Plans a request. Sets its number of micro-batches to the plan's. */
static int plan_request(struct ah_plan_request *request, struct ah_arena *arena, struct ah_plan *ret_plan,
                        struct ah_diagnosis *ret_diagnosis, struct ah_error *err)
{
    struct ah_plan plan = {0};
    *ret_diagnosis = (struct ah_diagnosis){0};
    int rc = check_choice(request, err);
    rc = rc ? rc : plan_fastest(request, arena, &plan, ret_diagnosis, err);
    if (!rc && request->alternatives)
        rc = fill_alternatives(request, arena, &plan, err);
    if (!rc)
        *ret_plan = plan;
    return rc;
}

int ah_planner_plan(const struct ah_plan_request *request, struct ah_arena *arena, struct ah_plan *ret_plan,
                    struct ah_diagnosis *ret_diagnosis, struct ah_error *err)
{
    struct ah_plan_request own = *request;
    return plan_request(&own, arena, ret_plan, ret_diagnosis, err);
}

int ah_planner_plan_gpus(const struct ah_plan_request *request, struct ah_arena *arena,
                         struct ah_cluster_plan *ret_plan, struct ah_diagnosis *ret_diagnosis,
                         struct ah_error *err)
{
    struct ah_plan_request own = *request;
    struct ah_plan *program = ah_arena_alloc(arena, sizeof *program);
    int rc = program ? plan_request(&own, arena, program, ret_diagnosis, err) : ah_error_memory(err);
    return rc ? rc : ah_gpus_document(&own, program, arena, ret_plan, err);
}

/* ---- all policies ---- */

static char *describe_plan(const struct ah_planning *p, const struct ah_plan *plan)
{
    const struct ah_knobs *knobs = &p->winner->evaluator.best.knobs;
    size_t recompute = 0, selective = 0, weights = 0, gathered = 0, host = 0, streamed = 0;
    char text[240];
    for (size_t i = 0; i < plan->n_blocks; i++) {
        recompute += plan->blocks[i].activations == AH_ACTIVATIONS_RECOMPUTE;
        selective += plan->blocks[i].activations == AH_ACTIVATIONS_SELECTIVE;
        weights += plan->blocks[i].weights == AH_WEIGHTS_HOST;
        gathered += plan->blocks[i].weights == AH_WEIGHTS_GATHERED;
        host += plan->blocks[i].optimizer == AH_OPTIMIZER_HOST;
        streamed += plan->blocks[i].optimizer == AH_OPTIMIZER_STREAMED;
    }
    int used = snprintf(text, sizeof text, "recompute %zu", recompute);
    if (selective)
        used += snprintf(text + used, sizeof text - (size_t)used, ", selective %zu", selective);
    if (gathered)
        used += snprintf(text + used, sizeof text - (size_t)used, ", gathered weights %zu", gathered);
    used += snprintf(text + used, sizeof text - (size_t)used, ", host weights %zu, host optimizers %zu",
                     weights, host);
    if (streamed)
        used += snprintf(text + used, sizeof text - (size_t)used, ", streamed %zu", streamed);
    used += snprintf(text + used, sizeof text - (size_t)used, "; ahead %" PRIu32 ", behind %" PRIu32,
                     knobs->fetch_ahead, knobs->send_behind);
    if (p->request->any_micro_batches || p->gpus > 1)
        snprintf(text + used, sizeof text - (size_t)used, "; micro-batches %" PRIu64, p->step.micro_batches);
    return ah_arena_strdup(p->arena, text);
}

static void shortage_row(const struct ah_planning *p, struct ah_comparison *row)
{
    struct ah_diagnosis diagnosis;
    ah_shortage_find(p, &diagnosis);
    row->proven = diagnosis.proven;
    row->at_least = diagnosis.at_least;
    row->resource = diagnosis.resource;
    if (diagnosis.needed_bytes > diagnosis.available_bytes)
        row->short_bytes = diagnosis.needed_bytes - diagnosis.available_bytes;
}

static int fill_row(struct ah_planning *p, const struct ah_plan *plan, struct ah_comparison *row,
                    struct ah_error *err)
{
    row->step_us = plan->time.step_us;
    row->micro_batches = p->step.micro_batches;
    row->tokens_per_s = tokens_per_s(&p->step, plan->time.step_us);
    row->device_bytes = plan->memory.device_bytes;
    row->host_bytes = plan->memory.host_bytes;
    row->setting = describe_plan(p, plan);
    row->plan = ah_arena_alloc(p->arena, sizeof *row->plan);
    if (!row->setting || !row->plan)
        return ah_error_memory(err);
    *row->plan = *plan;
    return AH_OK;
}

static int compare_one(const struct ah_plan_request *request, struct ah_arena *arena,
                       struct ah_comparison *row, struct ah_error *err)
{
    struct ah_planning planning;
    struct ah_plan plan = {0};
    int rc = ah_planning_init(&planning, request, arena, err);
    if (rc)
        return rc;
    rc = solve(&planning, true, &plan, err);
    *row = (struct ah_comparison){.policy = request->policy, .feasible = planning.winner != NULL};
    if (!rc && planning.winner)
        rc = fill_row(&planning, &plan, row, err);
    else if (!rc)
        shortage_row(&planning, row);
    ah_planning_release(&planning);
    return rc;
}

static bool is_better(const struct ah_comparison *row, const struct ah_comparison *best)
{
    if (row->feasible != best->feasible)
        return row->feasible;
    if (row->feasible)
        return row->step_us < best->step_us;
    return row->short_bytes && (!best->short_bytes || row->short_bytes < best->short_bytes);
}

/* Makes the row of the fastest number of micro-batches; without any plan, of the one with the least shortage. */
static int compare_fastest(const struct ah_plan_request *request, struct ah_arena *arena,
                           struct ah_comparison *ret_row, struct ah_error *err)
{
    struct ah_plan_request each = *request;
    bool found = false, proven = true;
    uint64_t n;
    int rc = AH_OK;
    for (size_t i = 0; !rc && (n = ah_planning_micro_batches(request, i, found)); i++) {
        struct ah_comparison row;
        each.training.micro_batches = n;
        rc = compare_one(&each, arena, &row, err);
        if (rc)
            return rc;
        if (!i || is_better(&row, ret_row))
            *ret_row = row;
        found = found || row.feasible;
        proven = proven && row.proven;
    }
    ret_row->proven = proven;
    return AH_OK;
}

int ah_planner_compare(const struct ah_plan_request *request, struct ah_arena *arena,
                       struct ah_comparison ret_rows[AH_POLICIES], struct ah_error *err)
{
    struct ah_plan_request each = *request;
    int rc = check_choice(request, err);
    for (int policy = 0; policy < AH_POLICIES && !rc; policy++) {
        each.policy = (enum ah_policy)policy;
        rc = compare_fastest(&each, arena, &ret_rows[policy], err);
    }
    return rc;
}
