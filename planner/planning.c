/* SPDX-License-Identifier: Apache-2.0
 *
 * Planning: a request made ready and solved.
 *
 * THE LADDER. Searches are not monotone: with more memory one may end worse. So the planner solves at fixed budgets
 * (LADDER_LEAST_BYTES, doubled again and again) below the one asked for, and each search starts from the winner of the
 * one before. What is found at a rung is a candidate at every higher one: at rungs, more memory is never slower.
 */
#include "planner/planner_internal.h"

#include "planner/policies.h"
#include "planner/search.h"

#include <inttypes.h>

#define LADDER_LEAST_BYTES (UINT64_C(1) << 28)
#define GIB                (UINT64_C(1) << 30)

/* ---- ready ---- */

static int init_budgets(struct ah_planning *p, struct ah_error *err)
{
    const struct ah_machine *machine = p->request->machine;
    uint64_t device = machine->device.memory_bytes, host = machine->host.memory_bytes;
    uint64_t system = host / 16 < 8 * GIB ? host / 16 : 8 * GIB;
    p->reserve_bytes = machine->device.reserve_bytes;
    p->device_capacity_bytes = p->request->device_bytes ? p->request->device_bytes : device;
    if (p->device_capacity_bytes > device)
        return ah_error_set(err, AH_E_USAGE,
                            "--device-memory %" PRIu64 " is more than the %" PRIu64 " bytes of machine '%s'",
                            p->device_capacity_bytes, device, machine->name);
    if (p->device_capacity_bytes <= p->reserve_bytes)
        return ah_error_set(err, AH_E_USAGE,
                            "--device-memory %" PRIu64 " is not more than the %" PRIu64
                            " bytes that the device keeps for itself; give more",
                            p->device_capacity_bytes, p->reserve_bytes);
    if (machine->device.kind == AH_DEVICE_CPU)
        system += p->device_capacity_bytes; /* the device's arena lies in the same memory */
    p->host_capacity_bytes = p->request->host_bytes ? p->request->host_bytes
                             : host > system        ? host - system
                                                    : 0;
    if (p->host_capacity_bytes > host)
        return ah_error_set(err, AH_E_USAGE,
                            "--host-memory %" PRIu64 " is more than the %" PRIu64 " bytes of machine '%s'",
                            p->host_capacity_bytes, host, machine->name);
    return AH_OK;
}

static bool stop(void *context, uint64_t evaluations)
{
    const struct ah_planning *p = context;
    if (!p->request->progress || evaluations % 16)
        return false;
    return p->request->progress(p->request->context, p->evaluations + evaluations, 0);
}

static int init_splits(struct ah_planning *p, struct ah_error *err)
{
    struct ah_plan_threads threads[AH_PRICING_SPLITS_MAX];
    size_t n = ah_pricing_thread_splits(p->request->machine, threads, AH_PRICING_SPLITS_MAX);
    int rc = AH_OK;
    for (size_t i = 0; i < (n ? n : 1) && !rc; i++) {
        struct ah_split *split = &p->splits[i];
        rc = ah_pricing_fill(p->request->machine, &p->job, n ? &threads[i] : NULL, p->arena, &split->costs,
                             err);
        struct ah_trial_limits limits = {.job = &p->job,
                                         .costs = &split->costs,
                                         .device_bytes = p->device_capacity_bytes - p->reserve_bytes,
                                         .host_bytes = p->host_capacity_bytes,
                                         .stop = stop,
                                         .context = p};
        rc = rc ? rc : ah_trial_init(&split->trial, &limits, err);
        p->n_splits += !rc;
    }
    return rc;
}

int ah_planning_init(struct ah_planning *planning, const struct ah_plan_request *request,
                     struct ah_arena *arena, struct ah_error *err)
{
    *planning = (struct ah_planning){.request = request, .training = request->training, .arena = arena};
    if (!planning->training.trainable) {
        const char **all = ah_arena_array(arena, 1, sizeof *all);
        if (!all)
            return ah_error_memory(err);
        all[0] = "*";
        planning->training.trainable = all;
        planning->training.n_trainable = 1;
    }
    if (planning->training.dtype == AH_BF16 && !request->machine->device.bf16)
        return ah_error_set(err, AH_E_USAGE, "machine '%s' has no bf16; plan with --dtype fp32",
                            request->machine->name);
    int rc = init_budgets(planning, err);
    if (!rc)
        rc = ah_job_init(&planning->job, request->model, &planning->training, arena, err);
    if (!rc)
        rc = init_splits(planning, err);
    if (rc)
        ah_planning_release(planning);
    return rc;
}

void ah_planning_release(struct ah_planning *planning)
{
    for (size_t i = 0; i < planning->n_splits; i++)
        ah_trial_release(&planning->splits[i].trial);
    planning->n_splits = 0;
}

/* ---- effort ---- */

struct effort {
    uint64_t evaluations; /* of each rung */
    uint64_t all_below;
    bool ladder;
};

static struct effort effort_of(const struct ah_planning *p)
{
    uint32_t level = p->request->effort ? p->request->effort : AH_EFFORT_DEFAULT;
    if (level == AH_EFFORT_QUICK)
        return (struct effort){150, 2000, false};
    uint64_t more = UINT64_C(1) << 2 * (level - AH_EFFORT_DEFAULT);
    return (struct effort){350 * more, 20000 * more, true};
}

/* ---- optimal ---- */

static struct ah_milp_input milp_input(const struct ah_planning *p, const struct ah_split *split,
                                       uint64_t device_bytes, enum ah_micro_order order)
{
    return (struct ah_milp_input){.job = &p->job,
                                  .costs = &split->costs,
                                  .device_bytes = device_bytes,
                                  .host_bytes = p->host_capacity_bytes,
                                  .micro_order = order};
}

/* Real layouts take more than the relaxation says: counts for smaller budgets are starts, too. */
enum { TIGHTER = 4 };

static int search_rung(struct ah_planning *p, struct ah_split *split, uint64_t device_bytes,
                       enum ah_micro_order order, struct ah_milp_result *milp, struct ah_error *err)
{
    static const double shares[TIGHTER] = {1, 0.97, 0.93, 0.85};
    struct effort effort = effort_of(p);
    struct ah_milp_result counts[TIGHTER] = {0};
    int rc = AH_OK;
    for (size_t i = 0; i < TIGHTER && !rc && (!i || counts[0].feasible); i++) {
        struct ah_milp_input input =
            milp_input(p, split, (uint64_t)((double)device_bytes * shares[i]), order);
        rc = ah_milp_solve(&input, p->arena, &counts[i], err);
    }
    *milp = counts[0];
    if (rc || !milp->feasible)
        return rc;
    ah_trial_limit(&split->trial, device_bytes, 0);
    if (order == AH_MICRO_BATCH_MAJOR)
        rc = ah_policies_search(&split->trial, AH_POLICY_AUTOHETE_PAPER, p->request->scheduling, err);
    split->trial.limits.evaluations = split->trial.evaluations + effort.evaluations;
    struct ah_search search = {.trial = &split->trial,
                               .counts = counts,
                               .n_counts = TIGHTER,
                               .scheduling = p->request->scheduling,
                               .micro_order = order,
                               .all_below = effort.all_below};
    return rc ? rc : ah_search_run(&search, err);
}

/* The bound of a choice among several is the least of theirs. */
static void take_bound(struct ah_planning *p, const struct ah_milp_result *milp, bool first)
{
    if (!milp->feasible) {
        p->infeasible = first || p->infeasible;
        p->shortage = milp->shortage;
        return;
    }
    p->infeasible = false;
    if (!p->bound_us || milp->bound_us < p->bound_us)
        p->bound_us = milp->bound_us;
}

static int search_optimal(struct ah_planning *p, struct ah_split *split, bool first, struct ah_error *err)
{
    uint64_t top = p->device_capacity_bytes - p->reserve_bytes;
    struct ah_milp_result milp;
    int rc = AH_OK;
    int orders = p->training.micro_batches > 1 ? 2 : 1;
    for (uint64_t rung = LADDER_LEAST_BYTES; effort_of(p).ladder && rung < p->device_capacity_bytes && !rc;
         rung *= 2)
        for (int order = 0; order < orders && rung > p->reserve_bytes && !rc; order++)
            rc = search_rung(p, split, rung - p->reserve_bytes, (enum ah_micro_order)order, &milp, err);
    for (int order = 0; order < orders && !rc; order++) {
        rc = search_rung(p, split, top, (enum ah_micro_order)order, &milp, err);
        if (!rc)
            take_bound(p, &milp, first && !order);
    }
    return rc;
}

/* What no plan can beat, for a policy that does not search everything. */
static int bound_policy(struct ah_planning *p, struct ah_split *split, bool first, struct ah_error *err)
{
    struct ah_milp_result milp;
    int rc = AH_OK;
    for (int order = 0; order < (p->training.micro_batches > 1 ? 2 : 1) && !rc; order++) {
        struct ah_milp_input input =
            milp_input(p, split, p->device_capacity_bytes - p->reserve_bytes, (enum ah_micro_order)order);
        rc = ah_milp_solve(&input, p->arena, &milp, err);
        if (!rc)
            take_bound(p, &milp, first && !order);
    }
    return rc;
}

static bool is_better(const struct ah_split *split, const struct ah_split *winner)
{
    return split->trial.found &&
           (!winner || split->trial.best.score.period_us < winner->trial.best.score.period_us * (1 - 1e-9));
}

int ah_planning_solve(struct ah_planning *p, struct ah_error *err)
{
    int rc = AH_OK;
    for (size_t i = 0; i < p->n_splits && !rc; i++) {
        struct ah_split *split = &p->splits[i];
        if (p->request->policy == AH_POLICY_OPTIMAL) {
            rc = search_optimal(p, split, !i, err);
        } else {
            rc = bound_policy(p, split, !i, err);
            rc = rc ? rc : ah_policies_search(&split->trial, p->request->policy, p->request->scheduling, err);
        }
        p->evaluations += split->trial.evaluations;
        if (!rc && is_better(split, p->winner))
            p->winner = split;
    }
    return rc;
}
