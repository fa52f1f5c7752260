/* SPDX-License-Identifier: Apache-2.0
 *
 * Remedies: what is short, and the smallest changes that help, each verified by planning it.
 *
 * Where the relaxation has no solution it says what is missing; where it has, but nothing was found, the best tries say.
 * Memory: from the least amount the relaxation allows upward in small steps. Counts: doubled or halved.
 */
#include "planner/planner_internal.h"

enum { MEMORY_TRIES = 6 };
#define MEMORY_STEP (UINT64_C(1) << 28)

static void say_what(const struct ah_planning *p, struct ah_diagnosis *diagnosis)
{
    const struct ah_milp_shortage *shortage = &p->shortage;
    const struct ah_trial *trial = &p->splits[0].trial;
    uint64_t arena = p->device_capacity_bytes - p->reserve_bytes;
    bool device = p->infeasible ? shortage->device_bytes != AH_MILP_NEVER : trial->least_device_bytes > arena;
    diagnosis->proven = p->infeasible;
    diagnosis->resource = device ? "device memory" : "host memory";
    diagnosis->available_bytes = device ? p->device_capacity_bytes : p->host_capacity_bytes;
    if (p->infeasible)
        diagnosis->needed_bytes = device ? p->device_capacity_bytes + shortage->device_bytes
                                  : shortage->host_bytes != AH_MILP_NEVER
                                      ? p->host_capacity_bytes + shortage->host_bytes
                                      : p->host_capacity_bytes + shortage->both_host_bytes;
    else if (device)
        diagnosis->needed_bytes =
            trial->least_device_bytes == UINT64_MAX ? 0 : trial->least_device_bytes + p->reserve_bytes;
    else
        diagnosis->needed_bytes = trial->least_host_bytes == UINT64_MAX ? 0 : trial->least_host_bytes;
}

/* Plans the request; true: there is a plan. */
static int works(const struct ah_plan_request *request, bool *ret_works, double *ret_step_us,
                 struct ah_error *err)
{
    struct ah_arena arena = {0};
    struct ah_planning planning;
    struct ah_plan_request quick = *request;
    quick.effort = AH_EFFORT_QUICK;
    quick.alternatives = quick.any_micro_batches = false;
    int rc = ah_planning_init(&planning, &quick, &arena, err);
    *ret_works = false;
    if (!rc) {
        rc = ah_planning_solve(&planning, err);
        *ret_works = !rc && planning.winner;
        if (*ret_works)
            *ret_step_us = planning.winner->trial.best.score.period_us;
        ah_planning_release(&planning);
    } else if (rc == AH_E_USAGE) {
        rc = AH_OK; /* a change that the job or the machine does not allow */
    }
    ah_arena_release(&arena);
    return rc;
}

static int try_remedy(const struct ah_plan_request *changed, enum ah_remedy_kind kind, uint64_t value,
                      struct ah_diagnosis *diagnosis, bool *ret_works, struct ah_error *err)
{
    double step_us = 0;
    int rc = works(changed, ret_works, &step_us, err);
    if (rc || !*ret_works)
        return rc;
    bool changes = kind == AH_REMEDY_BATCH || kind == AH_REMEDY_SEQ || kind == AH_REMEDY_STATE_DTYPE;
    diagnosis->remedies[diagnosis->n_remedies++] = (struct ah_remedy){kind, value, changes, step_us};
    return AH_OK;
}

static int more_memory(const struct ah_planning *p, enum ah_remedy_kind kind, struct ah_diagnosis *diagnosis,
                       struct ah_error *err)
{
    bool device = kind == AH_REMEDY_DEVICE_MEMORY;
    uint64_t now = device ? p->device_capacity_bytes : p->host_capacity_bytes;
    uint64_t missing = p->infeasible ? (device ? p->shortage.device_bytes : p->shortage.host_bytes) : 0;
    uint64_t most =
        device ? p->request->machine->device.memory_bytes : p->request->machine->host.memory_bytes;
    bool found = false;
    int rc = AH_OK;
    if (missing == AH_MILP_NEVER || missing > most)
        return AH_OK;
    uint64_t bytes = now + missing;
    for (int i = 0; i < MEMORY_TRIES && !rc && !found; i++) {
        struct ah_plan_request changed = *p->request;
        bytes = (bytes / MEMORY_STEP + 1) * MEMORY_STEP;
        uint64_t value = bytes < most ? bytes : most;
        *(device ? &changed.device_bytes : &changed.host_bytes) = value;
        if (value > now)
            rc = try_remedy(&changed, kind, value, diagnosis, &found, err);
        if (value == most)
            break;
        bytes += bytes / 16;
    }
    return rc;
}

static int other_counts(const struct ah_planning *p, struct ah_diagnosis *diagnosis, struct ah_error *err)
{
    const struct ah_plan_training *training = &p->training;
    bool found = false;
    int rc = AH_OK;
    for (uint64_t n = training->micro_batches * 2; n <= training->batch && !rc && !found; n *= 2) {
        struct ah_plan_request changed = *p->request;
        changed.training.micro_batches = n;
        if (training->batch % n == 0)
            rc = try_remedy(&changed, AH_REMEDY_MICRO_BATCHES, n, diagnosis, &found, err);
    }
    found = false;
    for (uint64_t n = training->batch / 2; n && !rc && !found; n /= 2) {
        struct ah_plan_request changed = *p->request;
        changed.training.batch = n;
        if (n % training->micro_batches == 0)
            rc = try_remedy(&changed, AH_REMEDY_BATCH, n, diagnosis, &found, err);
    }
    found = false;
    for (uint64_t n = training->seq / 2; n >= 64 && !rc && !found; n /= 2) {
        struct ah_plan_request changed = *p->request;
        changed.training.seq = n;
        rc = try_remedy(&changed, AH_REMEDY_SEQ, n, diagnosis, &found, err);
    }
    return rc;
}

static int smaller_states(const struct ah_planning *p, struct ah_diagnosis *diagnosis, struct ah_error *err)
{
    struct ah_plan_request changed = *p->request;
    bool found;
    if (p->training.state_dtype == AH_BF16)
        return AH_OK;
    changed.training.state_dtype = AH_BF16;
    return try_remedy(&changed, AH_REMEDY_STATE_DTYPE, AH_BF16, diagnosis, &found, err);
}

static int other_policy(const struct ah_planning *p, struct ah_diagnosis *diagnosis, struct ah_error *err)
{
    struct ah_plan_request changed = *p->request;
    bool found;
    if (p->request->policy == AH_POLICY_OPTIMAL)
        return AH_OK;
    changed.policy = AH_POLICY_OPTIMAL;
    return try_remedy(&changed, AH_REMEDY_POLICY, AH_POLICY_OPTIMAL, diagnosis, &found, err);
}

int ah_remedies_find(struct ah_planning *planning, struct ah_diagnosis *ret_diagnosis, struct ah_error *err)
{
    struct ah_diagnosis diagnosis = {0};
    say_what(planning, &diagnosis);
    int rc = other_policy(planning, &diagnosis, err);
    rc = rc ? rc : more_memory(planning, AH_REMEDY_DEVICE_MEMORY, &diagnosis, err);
    rc = rc ? rc : more_memory(planning, AH_REMEDY_HOST_MEMORY, &diagnosis, err);
    rc = rc ? rc : other_counts(planning, &diagnosis, err);
    rc = rc ? rc : smaller_states(planning, &diagnosis, err);
    if (!rc)
        *ret_diagnosis = diagnosis;
    return rc;
}
