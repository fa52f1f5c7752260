/* SPDX-License-Identifier: Apache-2.0
 *
 * Planner: requests become plan documents, comparisons, or diagnoses.
 */
#include "planner/planner.h"

#include "planner/planner_internal.h"

#include <inttypes.h>
#include <stdio.h>

/* ---- the document ---- */

static void fill_inputs(const struct ah_planning *p, struct ah_plan *plan)
{
    const struct ah_plan_request *request = p->request;
    plan->generator = request->generator;
    plan->inputs.model = (struct ah_plan_input){request->model->name, request->model_sha256};
    plan->inputs.machine = (struct ah_plan_input){request->machine->name, request->machine_sha256};
    plan->training = p->training;
    plan->numeric_signature = (struct ah_signature){.model_sha256 = request->model_sha256,
                                                    .trainable = p->training.trainable,
                                                    .n_trainable = p->training.n_trainable,
                                                    .dtype = p->training.dtype,
                                                    .state_dtype = p->training.state_dtype,
                                                    .batch = p->training.batch,
                                                    .micro_batches = p->training.micro_batches,
                                                    .seq = p->training.seq,
                                                    .clip = p->training.clip,
                                                    .device = request->machine->device.kind};
    plan->policy = request->policy;
}

/* What the plan was asked to do without. */
static int fill_annotations(const struct ah_planning *p, struct ah_plan *plan, struct ah_error *err)
{
    if (!p->without)
        return AH_OK;
    struct ah_text_pair *pair = ah_arena_array(p->arena, 1, sizeof *pair);
    if (!pair)
        return ah_error_memory(err);
    *pair = (struct ah_text_pair){"without", p->without};
    plan->annotations = pair;
    plan->n_annotations = 1;
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
    struct ah_choice choice = {
        .configs = split->trial.best.configs, .knobs = split->trial.best.knobs, .costs = &split->costs};
    struct ah_score score;
    int rc = ah_schedule_evaluate(&split->trial.schedule, &choice, &score, err);
    if (!rc)
        rc = ah_schedule_emit(&split->trial.schedule, &choice, p->arena, ret_plan, err);
    if (rc)
        return rc;
    fill_inputs(p, ret_plan);
    fill_results(p, ret_plan);
    return fill_annotations(p, ret_plan, err);
}

/* ---- one policy ---- */

static int no_plan(struct ah_planning *p, struct ah_diagnosis *ret_diagnosis, struct ah_error *err)
{
    struct ah_diagnosis diagnosis;
    ah_shortage_find(p, &diagnosis);
    int rc = ah_remedies_find(p, &diagnosis, err);
    if (rc)
        return rc;
    *ret_diagnosis = diagnosis;
    return ah_shortage_say(p, &diagnosis, err);
}

static int plan_once(const struct ah_plan_request *request, struct ah_arena *arena, struct ah_plan *ret_plan,
                     struct ah_diagnosis *ret_diagnosis, struct ah_error *err)
{
    struct ah_planning planning;
    int rc = ah_planning_init(&planning, request, arena, err);
    if (rc)
        return rc;
    rc = ah_planning_solve(&planning, err);
    if (!rc)
        rc = planning.winner ? fill_plan(&planning, ret_plan, err)
             : ret_diagnosis
                 ? no_plan(&planning, ret_diagnosis, err)
                 : ah_error_set(err, planning.infeasible ? AH_E_INFEASIBLE : AH_E_NO_PLAN, "no plan");
    ah_planning_release(&planning);
    return rc;
}

static bool is_no_plan(int rc)
{
    return rc == AH_E_INFEASIBLE || rc == AH_E_NO_PLAN;
}

/* The fastest of all micro-batch counts that are powers of two; where they all have none, one of single sequences. */
static int plan_any_micro_batches(const struct ah_plan_request *request, struct ah_arena *arena,
                                  struct ah_plan *ret_plan, struct ah_diagnosis *ret_diagnosis,
                                  struct ah_error *err)
{
    struct ah_plan_request each = *request;
    bool found = false;
    int rc = AH_OK;
    each.any_micro_batches = false;
    for (uint64_t n = 1; n <= request->training.batch && !rc; n *= 2) {
        struct ah_plan plan = {0};
        if (request->training.batch % n)
            break;
        each.training.micro_batches = n;
        rc = plan_once(&each, arena, &plan, NULL, err);
        if (!rc && (!found || plan.time.step_us < ret_plan->time.step_us))
            *ret_plan = plan;
        found = found || !rc;
        rc = is_no_plan(rc) ? AH_OK : rc;
    }
    if (rc || found)
        return rc;
    each.training.micro_batches = request->training.batch;
    each.any_micro_batches = true; /* what helps is to be said for that */
    return plan_once(&each, arena, ret_plan, ret_diagnosis, err);
}

static int fill_alternatives(const struct ah_plan_request *request, struct ah_arena *arena,
                             struct ah_plan *plan, struct ah_error *err)
{
    struct ah_plan_request each = *request;
    each.training.micro_batches = plan->training.micro_batches;
    plan->alternatives = ah_arena_array(arena, AH_POLICIES, sizeof *plan->alternatives);
    if (!plan->alternatives)
        return ah_error_memory(err);
    int rc = AH_OK;
    for (int policy = 0; policy < AH_POLICIES && !rc; policy++) {
        struct ah_plan other = {0};
        if (policy == (int)request->policy || policy == AH_POLICY_OPTIMAL)
            continue;
        each.policy = (enum ah_policy)policy;
        rc = plan_once(&each, arena, &other, NULL, err);
        plan->alternatives[plan->n_alternatives++] =
            (struct ah_plan_alternative){each.policy, !rc, rc ? 0 : other.time.step_us};
        rc = is_no_plan(rc) ? AH_OK : rc;
    }
    return rc;
}

int ah_planner_plan(const struct ah_plan_request *request, struct ah_arena *arena, struct ah_plan *ret_plan,
                    struct ah_diagnosis *ret_diagnosis, struct ah_error *err)
{
    struct ah_plan plan = {0};
    *ret_diagnosis = (struct ah_diagnosis){0};
    int rc = request->any_micro_batches ? plan_any_micro_batches(request, arena, &plan, ret_diagnosis, err)
                                        : plan_once(request, arena, &plan, ret_diagnosis, err);
    if (!rc && request->alternatives)
        rc = fill_alternatives(request, arena, &plan, err);
    if (!rc)
        *ret_plan = plan;
    return rc;
}

/* ---- all policies ---- */

static char *describe(const struct ah_plan *plan, const struct ah_knobs *knobs, struct ah_arena *arena)
{
    size_t recompute = 0, selective = 0, weights = 0, host = 0, streamed = 0;
    char text[160];
    for (size_t i = 0; i < plan->n_blocks; i++) {
        recompute += plan->blocks[i].activations == AH_ACTIVATIONS_RECOMPUTE;
        selective += plan->blocks[i].activations == AH_ACTIVATIONS_SELECTIVE;
        weights += plan->blocks[i].weights == AH_WEIGHTS_HOST;
        host += plan->blocks[i].optimizer == AH_OPTIMIZER_HOST;
        streamed += plan->blocks[i].optimizer == AH_OPTIMIZER_STREAMED;
    }
    int used = snprintf(text, sizeof text, "recompute %zu", recompute);
    if (selective)
        used += snprintf(text + used, sizeof text - (size_t)used, ", selective %zu", selective);
    used += snprintf(text + used, sizeof text - (size_t)used, ", host weights %zu, host optimizers %zu",
                     weights, host);
    if (streamed)
        used += snprintf(text + used, sizeof text - (size_t)used, ", streamed %zu", streamed);
    snprintf(text + used, sizeof text - (size_t)used, "; ahead %" PRIu32 ", behind %" PRIu32,
             knobs->fetch_ahead, knobs->send_behind);
    return ah_arena_strdup(arena, text);
}

static void shortage_row(const struct ah_planning *p, struct ah_comparison *row)
{
    struct ah_diagnosis diagnosis;
    ah_shortage_find(p, &diagnosis);
    row->resource = diagnosis.resource;
    if (diagnosis.needed_bytes > diagnosis.available_bytes)
        row->short_bytes = diagnosis.needed_bytes - diagnosis.available_bytes;
}

static int compare_one(const struct ah_plan_request *request, struct ah_arena *arena,
                       struct ah_comparison *row, struct ah_error *err)
{
    struct ah_planning planning;
    struct ah_plan plan = {0};
    int rc = ah_planning_init(&planning, request, arena, err);
    if (rc)
        return rc;
    rc = ah_planning_solve(&planning, err);
    *row = (struct ah_comparison){.policy = request->policy, .feasible = planning.winner != NULL};
    if (!rc && !planning.winner)
        shortage_row(&planning, row);
    else if (!rc)
        rc = fill_plan(&planning, &plan, err);
    if (!rc && planning.winner) {
        row->step_us = plan.time.step_us;
        row->tokens_per_s = plan.tokens_per_s;
        row->device_bytes = plan.memory.device_bytes;
        row->host_bytes = plan.memory.host_bytes;
        row->setting = describe(&plan, &planning.winner->trial.best.knobs, arena);
        rc = row->setting ? AH_OK : ah_error_memory(err);
    }
    ah_planning_release(&planning);
    return rc;
}

int ah_planner_compare(const struct ah_plan_request *request, struct ah_arena *arena,
                       struct ah_comparison ret_rows[AH_POLICIES], struct ah_error *err)
{
    struct ah_plan_request each = *request;
    int rc = AH_OK;
    for (int policy = 0; policy < AH_POLICIES && !rc; policy++) {
        each.policy = (enum ah_policy)policy;
        rc = compare_one(&each, arena, &ret_rows[policy], err);
    }
    return rc;
}
