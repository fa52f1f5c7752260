/* SPDX-License-Identifier: Apache-2.0
 *
 * Verify: rebuilds a plan's request from the plan and its inputs, and computes its costs. The plan is compiled with
 * these costs (runtime/schedule/check.h) and compared, and its bound is computed a second time.
 */
#include "planner/verify.h"

#include "planner/planner_internal.h"
#include "planner/search/optimize.h"
#include "runtime/schedule/check.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

struct verify {
    const struct ah_plan *plan;
    const struct ah_verify_inputs *inputs;
    struct ah_arena arena;
    struct ah_plan_request request;
    struct ah_planning planning;
    const struct ah_costs *costs; /* costs with the plan's threads */
    struct ah_error *err;
};

int ah_verify_input(const char *what, const struct ah_plan_input *stated, const char *given_sha256,
                    struct ah_error *err)
{
    if (!strcmp(stated->sha256, given_sha256))
        return AH_OK;
    return ah_error_set(err, AH_E_MISMATCH,
                        "inputs.%s.sha256: is %s, but the %s given has %s; give the one that the plan was "
                        "made from, or plan again",
                        what, stated->sha256, what, given_sha256);
}

/* ---- the request ---- */

/* Returns the host memory of the request: a what-if names it, while the plan's capacity is only the part for plans, and
 * for one GPU. */
static uint64_t asked_host_bytes(const struct ah_plan *plan)
{
    for (size_t i = 0; i < plan->n_what_if; i++)
        if (plan->what_if[i].field == AH_WHAT_IF_HOST_MEMORY)
            return plan->what_if[i].planned_bytes;
    return ah_plan_shards(plan) * plan->memory.host_capacity_bytes;
}

static int check_what_if(const struct verify *v)
{
    const struct ah_plan *plan = v->plan;
    const struct ah_planning *given = &v->planning;
    bool same = plan->n_what_if == given->n_what_if;
    for (size_t i = 0; i < plan->n_what_if && same; i++)
        same = plan->what_if[i].field == given->what_if[i].field &&
               plan->what_if[i].machine_bytes == given->what_if[i].machine_bytes &&
               plan->what_if[i].planned_bytes == given->what_if[i].planned_bytes;
    if (!same)
        return ah_error_set(v->err, AH_E_DOCUMENT,
                            "what_if: does not match the difference between the plan's capacities and this "
                            "machine's");
    if (plan->memory.host_capacity_bytes != given->host_capacity_bytes)
        return ah_error_set(v->err, AH_E_DOCUMENT,
                            "memory.host_capacity_bytes: is %" PRIu64 "; a host with that much leaves "
                            "%" PRIu64,
                            plan->memory.host_capacity_bytes, given->host_capacity_bytes);
    return AH_OK;
}

static int make_request(struct verify *v)
{
    const struct ah_plan *plan = v->plan;
    int rc = ah_verify_input("model", &plan->inputs.model, v->inputs->model_sha256, v->err);
    if (!rc)
        rc = ah_verify_input("machine", &plan->inputs.machine, v->inputs->machine_sha256, v->err);
    if (rc)
        return rc;
    v->request = (struct ah_plan_request){.model = v->inputs->model,
                                          .model_sha256 = v->inputs->model_sha256,
                                          .machine = v->inputs->machine,
                                          .machine_sha256 = v->inputs->machine_sha256,
                                          .training = plan->training,
                                          .device_bytes = plan->memory.device_capacity_bytes,
                                          .host_bytes = asked_host_bytes(plan),
                                          .policy = plan->policy,
                                          .scheduling = plan->scheduling,
                                          .without = ah_restriction_bits(plan->without, plan->n_without),
                                          .gpus = v->inputs->gpus,
                                          .fabric_bytes_per_s = v->inputs->fabric_bytes_per_s};
    if (v->inputs->gpus) {
        v->request.training.batch = v->inputs->batch;
        v->request.training.micro_batches = v->inputs->micro_batches;
    }
    struct ah_error cause = {0};
    rc = ah_planning_init(&v->planning, &v->request, &v->arena, &cause);
    if (rc && rc != AH_E_MEMORY)
        return ah_error_set(v->err, AH_E_DOCUMENT, "training, memory: autohete does not plan for this: %s",
                            cause.text);
    return rc ? ah_error_memory(v->err) : check_what_if(v);
}

/* ---- the machine's numbers ---- */

static bool same_threads(const struct ah_costs *costs, const struct ah_plan_threads *threads)
{
    return costs->has_threads == (threads != NULL) &&
           (!threads || (costs->threads.compute == threads->compute && costs->threads.host == threads->host));
}

static int find_costs(struct verify *v)
{
    for (size_t i = 0; i < v->planning.n_splits && !v->costs; i++)
        if (same_threads(&v->planning.splits[i].costs, v->plan->threads))
            v->costs = &v->planning.splits[i].costs;
    return v->costs ? AH_OK
                    : ah_error_set(v->err, AH_E_DOCUMENT,
                                   "threads: the machine was not measured with this division of its cores");
}

static bool same_sharing(const struct ah_plan_sharing *a, const struct ah_plan_sharing *b)
{
    bool same = a->n_resources == b->n_resources;
    for (size_t lane = 0; same && lane < AH_PLAN_LANES; lane++)
        same = a->weights.of[lane] == b->weights.of[lane];
    for (size_t i = 0; same && i < a->n_resources; i++) {
        const struct ah_plan_resource *x = &a->resources[i], *y = &b->resources[i];
        same = !strcmp(x->name, y->name);
        for (size_t lane = 0; same && lane < AH_PLAN_LANES; lane++)
            same = x->demand[lane] == y->demand[lane];
    }
    return same;
}

/* Checks the emulated rates. They are copied, not computed, so every bit must be equal. */
static int check_emulated(struct verify *v)
{
    const struct ah_plan_emulated *stated = v->plan->inputs.emulated;
    struct ah_plan_emulated *given = NULL;
    int rc = ah_planner_emulated(v->inputs->machine, v->plan->training.dtype, &v->arena, &given, v->err);
    if (rc)
        return rc;
    bool same = !stated == !given;
    if (stated && given)
        same = !strcmp(stated->name, given->name) && stated->h2d_bytes_per_s == given->h2d_bytes_per_s &&
               stated->d2h_bytes_per_s == given->d2h_bytes_per_s &&
               stated->copy_latency_us == given->copy_latency_us && stated->both_kept == given->both_kept &&
               stated->host_adam_params_per_s == given->host_adam_params_per_s;
    return same ? AH_OK
                : ah_error_set(v->err, AH_E_DOCUMENT,
                               "inputs.emulated: differs from what the machine's document says it emulates");
}

static int check_machine(struct verify *v)
{
    const struct ah_plan *plan = v->plan;
    const struct ah_machine *machine = v->inputs->machine;
    int rc = find_costs(v);
    if (rc)
        return rc;
    if (plan->numeric_signature.device != machine->device.kind)
        return ah_error_set(v->err, AH_E_DOCUMENT, "numeric_signature.device: is '%s'; the machine's is '%s'",
                            ah_words_device_kind[plan->numeric_signature.device],
                            ah_words_device_kind[machine->device.kind]);
    if (plan->memory.reserved_bytes != v->planning.reserve_bytes)
        return ah_error_set(v->err, AH_E_DOCUMENT,
                            "memory.reserved_bytes: is %" PRIu64 "; the machine's device reserves %" PRIu64,
                            plan->memory.reserved_bytes, v->planning.reserve_bytes);
    if (plan->memory.process_bytes != machine->host.process_bytes)
        return ah_error_set(v->err, AH_E_DOCUMENT,
                            "memory.process_bytes: is %" PRIu64 "; a run on this machine takes %" PRIu64,
                            plan->memory.process_bytes, machine->host.process_bytes);
    if (plan->time.estimated != v->costs->estimated)
        return ah_error_set(v->err, AH_E_DOCUMENT, "time.estimated: is %s; for this machine it is %s",
                            plan->time.estimated ? "true" : "false", v->costs->estimated ? "true" : "false");
    if (!same_sharing(&plan->sharing, &v->costs->sharing))
        return ah_error_set(v->err, AH_E_DOCUMENT,
                            "sharing: does not follow from the machine's "
                            "measurements");
    return check_emulated(v);
}

static int check_schedule(struct verify *v)
{
    return ah_schedule_check_against(v->plan, &v->planning.job, v->costs, v->err);
}

/* ---- the bound ---- */

static int solve_bound(struct verify *v, double *ret_bound_us)
{
    double bound_us = 0;
    for (size_t i = 0; i < v->planning.n_splits; i++) {
        struct ah_optimize optimize = {.evaluator = &v->planning.splits[i].evaluator,
                                       .reserve_bytes = v->planning.reserve_bytes,
                                       .scheduling = v->request.scheduling,
                                       .allowed = v->planning.restriction.allowed};
        struct ah_optimize_result result;
        int rc = ah_optimize_bound(&optimize, &v->arena, &result, v->err);
        if (rc)
            return rc;
        if (!result.infeasible && (bound_us <= 0 || result.bound_us < bound_us))
            bound_us = result.bound_us;
    }
    *ret_bound_us = fmin(bound_us, v->plan->solver.objective_us);
    return AH_OK;
}

static int check_bound(struct verify *v)
{
    double stated_us = v->plan->solver.bound_us, bound_us;
    int rc = solve_bound(v, &bound_us);
    if (rc || fabs(stated_us - bound_us) <= 1e-9 * bound_us)
        return rc;
    return ah_error_set(v->err, AH_E_DOCUMENT, "solver.bound_us: is %.17g; for these inputs it is %.17g",
                        stated_us, bound_us);
}

int ah_verify_inputs(const struct ah_plan *plan, const struct ah_verify_inputs *inputs, struct ah_error *err)
{
    static int (*const parts[])(struct verify *) = {make_request, check_machine, check_schedule, check_bound};
    struct verify v = {.plan = plan, .inputs = inputs, .err = err};
    int rc = AH_OK;
    for (size_t i = 0; i < sizeof parts / sizeof *parts && !rc; i++)
        rc = parts[i](&v);
    ah_planning_release(&v.planning);
    ah_arena_release(&v.arena);
    return rc;
}
