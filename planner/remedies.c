/* SPDX-License-Identifier: Apache-2.0
 *
 * Remedies: finds the smallest changes that help, and plans each to verify it.
 *
 * Quick plans search for a change. The result is then planned as the user will plan it: with the request's effort and,
 * unless the request fixes it, with any number of micro-batches.
 *
 * MEMORY. Budgets rise in steps from a floor that is too little: what the relaxation proves, or what the machine has.
 * Steps double until there is a plan. The interval between the last budget without a plan and the first with one is
 * then bisected. A budget above the machine's is a what-if; its memory holds the budget and the system's share.
 */
#include "planner/planner_internal.h"

#include <string.h>

#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)

enum { DOUBLINGS = 12, HALVINGS = 11, FINAL_TRIES = 4, STEPS_OF_A_BUDGET = 32, COUNTS_MOST = 4096 };

/* ---- changes ---- */

/* A changed copy of a request for which no plan was found, and the remedy to report if the change helps. */
struct change {
    struct ah_plan_request request;
    struct ah_remedy remedy;
};

static struct change unchanged(const struct ah_planning *p, enum ah_remedy_kind kind, uint64_t value)
{
    struct change change = {.request = *p->request, .remedy = {.kind = kind, .value = value}};
    change.request.alternatives = false;
    change.request.training = p->step;
    change.remedy.changes_mathematics =
        kind == AH_REMEDY_BATCH || kind == AH_REMEDY_SEQ || kind == AH_REMEDY_STATE_DTYPE;
    return change;
}

/* Plans a request. `ret_step_us` 0: there is no plan, perhaps because the job or the machine does not allow one. */
static int plan_once(const struct ah_plan_request *request, double *ret_step_us, struct ah_error *err)
{
    struct ah_arena arena = {0};
    struct ah_planning planning;
    *ret_step_us = 0;
    int rc = ah_planning_init(&planning, request, &arena, err);
    if (!rc) {
        rc = ah_planning_solve(&planning, err);
        if (!rc && planning.winner)
            *ret_step_us = planning.winner->evaluator.best.score.period_us;
        ah_planning_release(&planning);
    } else if (rc == AH_E_USAGE) {
        rc = AH_OK;
    }
    ah_arena_release(&arena);
    return rc;
}

/* Looks for a plan with few evaluations. Begins with the most micro-batches: single sequences fit most likely. */
static int works_quickly(const struct change *change, bool *ret_works, struct ah_error *err)
{
    struct ah_plan_request request = change->request;
    size_t n = 0;
    int rc = AH_OK;
    request.effort = AH_EFFORT_QUICK;
    while (ah_planning_micro_batches(&change->request, n, false))
        n++;
    *ret_works = false;
    while (n && !rc && !*ret_works) {
        double step_us;
        request.training.micro_batches = ah_planning_micro_batches(&change->request, --n, false);
        rc = plan_once(&request, &step_us, err);
        *ret_works = !rc && step_us > 0;
    }
    return rc;
}

/* Looks for a plan with the request's effort and stores the time of its step in the remedy. */
static int works(struct change *change, bool *ret_works, struct ah_error *err)
{
    struct ah_plan_request request = change->request;
    double best_us = 0;
    uint64_t n;
    int rc = AH_OK;
    for (size_t i = 0; !rc && (n = ah_planning_micro_batches(&change->request, i, best_us > 0)); i++) {
        double step_us;
        request.training.micro_batches = n;
        rc = plan_once(&request, &step_us, err);
        if (!rc && step_us > 0 && (best_us <= 0 || step_us < best_us))
            best_us = step_us;
    }
    change->remedy.step_us = best_us;
    *ret_works = !rc && best_us > 0;
    return rc;
}

static int keep_if_works(struct change *change, struct ah_diagnosis *diagnosis, bool *ret_works,
                         struct ah_error *err)
{
    int rc = works_quickly(change, ret_works, err);
    if (!rc && *ret_works)
        rc = works(change, ret_works, err);
    if (!rc && *ret_works)
        diagnosis->remedies[diagnosis->n_remedies++] = change->remedy;
    return rc;
}

/* ---- memory ---- */

/* The budgets to try for one memory: multiples of the step from the floor on. */
struct axis {
    uint64_t floor_bytes;
    uint64_t step_bytes;
    uint64_t machine_bytes; /* the most that a flag can request */
};

struct memory_search {
    const struct ah_planning *planning;
    enum ah_remedy_kind kind;
    struct axis device, host;
};

/* Returns an axis. The step is a power of two, from 1 MiB to 1 GiB, and at most a thirty-second of a large floor. */
static struct axis axis_above(uint64_t floor_bytes, uint64_t machine_bytes)
{
    struct axis axis = {floor_bytes, MIB, machine_bytes};
    while (axis.step_bytes < GIB && 2 * axis.step_bytes * STEPS_OF_A_BUDGET <= floor_bytes)
        axis.step_bytes *= 2;
    return axis;
}

/* Returns the budget `steps` (1 or more) above the floor. A step across the machine's memory ends at that memory. */
static uint64_t budget_at(const struct axis *axis, uint64_t steps)
{
    uint64_t first = axis->floor_bytes / axis->step_bytes + !!(axis->floor_bytes % axis->step_bytes);
    uint64_t bytes = (first + steps - 1) * axis->step_bytes;
    bool crosses = bytes > axis->machine_bytes && bytes - axis->step_bytes < axis->machine_bytes;
    return crosses && axis->machine_bytes >= axis->floor_bytes ? axis->machine_bytes : bytes;
}

/* Returns the least host memory whose share for plans is `budget_bytes`, as a multiple of `step_bytes`. */
static uint64_t host_memory_for(const struct ah_plan_request *request, uint64_t budget_bytes,
                                uint64_t step_bytes)
{
    const struct ah_machine *machine = request->machine;
    const uint64_t gpus = request->gpus > 1 ? request->gpus : 1;
    const uint64_t device = request->device_bytes ? request->device_bytes : ah_planning_device_bytes(request);
    uint64_t bytes = budget_bytes / step_bytes * step_bytes;
    while (ah_planning_host_budget(machine, bytes, gpus, device) < budget_bytes)
        bytes += step_bytes;
    return bytes;
}

/* How many steps to raise each memory; 0: leave it as it is. */
struct steps {
    uint64_t device, host;
};

static uint64_t set_device(struct change *change, const struct axis *axis, uint64_t steps)
{
    uint64_t bytes = budget_at(axis, steps);
    change->request.device_bytes = bytes;
    change->remedy.beyond_machine |= bytes > axis->machine_bytes;
    return bytes;
}

static uint64_t set_host(struct change *change, const struct axis *axis, uint64_t steps)
{
    uint64_t bytes = budget_at(axis, steps);
    if (bytes > axis->machine_bytes) {
        bytes = host_memory_for(&change->request, bytes, axis->step_bytes);
        change->remedy.beyond_machine = true;
    }
    change->request.host_bytes = bytes;
    return bytes;
}

static struct change more_memory(const struct memory_search *search, struct steps steps)
{
    struct change change = unchanged(search->planning, search->kind, 0);
    if (steps.device)
        change.remedy.value = set_device(&change, &search->device, steps.device);
    if (steps.host) {
        uint64_t host = set_host(&change, &search->host, steps.host);
        *(steps.device ? &change.remedy.host_bytes : &change.remedy.value) = host;
    }
    return change;
}

static int enough(const struct memory_search *search, struct steps steps, bool *ret_enough,
                  struct ah_error *err)
{
    struct change change = more_memory(search, steps);
    return works_quickly(&change, ret_enough, err);
}

/* Adds `more` to both numbers of steps, except to a 0. */
static struct steps further(struct steps steps, uint64_t more)
{
    return (struct steps){steps.device ? steps.device + more : 0, steps.host ? steps.host + more : 0};
}

/* Raises `steps` until there is a plan. `ret_last`: how many steps the last rise added; 0 if there was no rise. */
static int rise(const struct memory_search *search, struct steps *steps, bool *ret_found, uint64_t *ret_last,
                struct ah_error *err)
{
    int rc = AH_OK;
    *ret_found = false;
    *ret_last = 0;
    for (int i = 0; i < DOUBLINGS && !rc; i++) {
        rc = enough(search, *steps, ret_found, err);
        if (rc || *ret_found)
            break;
        *ret_last = UINT64_C(1) << i;
        *steps = further(*steps, *ret_last);
    }
    return rc;
}

/* Lowers the memories in `which` by as many steps, below `most`, as still leave a plan; bisects for the number. */
static int fall(const struct memory_search *search, struct steps which, uint64_t most, struct steps *steps,
                struct ah_error *err)
{
    uint64_t holds = 0; /* a plan still exists with this many steps fewer */
    int rc = AH_OK;
    for (int i = 0; i < HALVINGS && !rc && most - holds > 1; i++) {
        uint64_t fewer = holds + (most - holds) / 2;
        struct steps next = {steps->device - (which.device ? fewer : 0),
                             steps->host - (which.host ? fewer : 0)};
        bool found;
        rc = enough(search, next, &found, err);
        *(found ? &holds : &most) = fewer;
    }
    steps->device -= which.device ? holds : 0;
    steps->host -= which.host ? holds : 0;
    return rc;
}

/* Raises all memories until there is a plan, lowers them together, then lowers each alone. */
static int find_steps(const struct memory_search *search, struct steps *steps, bool *ret_found,
                      struct ah_error *err)
{
    const struct steps device = {1, 0}, host = {0, 1}, all = *steps;
    uint64_t last;
    int rc = rise(search, steps, ret_found, &last, err);
    if (rc || !*ret_found)
        return rc;
    rc = fall(search, all, last ? last : all.device ? all.device : all.host, steps, err);
    if (all.device && all.host) {
        rc = rc ? rc : fall(search, device, steps->device, steps, err);
        rc = rc ? rc : fall(search, host, steps->host, steps, err);
    }
    return rc;
}

static int find_memory(const struct memory_search *search, struct steps steps, struct ah_diagnosis *diagnosis,
                       struct ah_error *err)
{
    bool found;
    int rc = find_steps(search, &steps, &found, err);
    bool kept = !found;
    for (uint64_t i = 0; i < FINAL_TRIES && !rc && !kept; i++) {
        struct change change = more_memory(search, further(steps, i));
        rc = works(&change, &kept, err);
        if (!rc && kept)
            diagnosis->remedies[diagnosis->n_remedies++] = change.remedy;
    }
    return rc;
}

/* Returns an axis whose floor is what the relaxation needs or, if that is unknown, one byte more than there is. */
static struct axis axis_of(const struct ah_planning *p, bool device, uint64_t missing_bytes)
{
    const uint64_t available_bytes = device ? p->device_capacity_bytes : p->host_capacity_bytes;
    const uint64_t least_bytes = available_bytes + (p->infeasible && missing_bytes ? missing_bytes : 1);
    return axis_above(device ? least_bytes : p->gpus * least_bytes,
                      device ? ah_planning_device_bytes(p->request) : ah_planning_host_most(p));
}

/* Returns the number of steps at which a search begins: what the best trial needs, as a plan is likely there. */
static uint64_t likely_steps(const struct axis *axis, const struct ah_diagnosis *diagnosis,
                             const char *resource)
{
    uint64_t bytes = 0;
    if (!strcmp(diagnosis->resource, resource))
        bytes = diagnosis->needed_bytes;
    else if (diagnosis->other_resource)
        bytes = diagnosis->other_needed_bytes;
    return bytes > axis->floor_bytes ? (bytes - axis->floor_bytes) / axis->step_bytes + 1 : 1;
}

static int more_of_one(const struct ah_planning *p, bool device, struct ah_diagnosis *diagnosis,
                       struct ah_error *err)
{
    uint64_t missing = device ? p->shortage.device_bytes : p->shortage.host_bytes;
    struct memory_search search = {.planning = p,
                                   .kind = device ? AH_REMEDY_DEVICE_MEMORY : AH_REMEDY_HOST_MEMORY};
    if (p->infeasible && missing == AH_MILP_NEVER)
        return AH_OK;
    struct axis *axis = device ? &search.device : &search.host;
    *axis = axis_of(p, device, missing);
    uint64_t first = likely_steps(axis, diagnosis, device ? ah_shortage_device : ah_shortage_host);
    return find_memory(&search, (struct steps){device ? first : 0, device ? 0 : first}, diagnosis, err);
}

static int more_of_both(const struct ah_planning *p, struct ah_diagnosis *diagnosis, struct ah_error *err)
{
    struct memory_search search = {.planning = p,
                                   .kind = AH_REMEDY_BOTH_MEMORIES,
                                   .device = axis_of(p, true, p->shortage.both_device_bytes),
                                   .host = axis_of(p, false, p->shortage.both_host_bytes)};
    return find_memory(&search, (struct steps){1, 1}, diagnosis, err);
}

static int memory(const struct ah_planning *p, struct ah_diagnosis *diagnosis, struct ah_error *err)
{
    size_t before = diagnosis->n_remedies;
    int rc = more_of_one(p, true, diagnosis, err);
    rc = rc ? rc : more_of_one(p, false, diagnosis, err);
    return rc || diagnosis->n_remedies > before ? rc : more_of_both(p, diagnosis, err);
}

/* ---- policies, micro-batches, states ---- */

static int other_policy(const struct ah_planning *p, struct ah_diagnosis *diagnosis, struct ah_error *err)
{
    struct change change = unchanged(p, AH_REMEDY_POLICY, AH_POLICY_OPTIMAL);
    bool found;
    if (p->request->policy == AH_POLICY_OPTIMAL)
        return AH_OK;
    change.request.policy = AH_POLICY_OPTIMAL;
    return keep_if_works(&change, diagnosis, &found, err);
}

static int more_micro_batches(const struct ah_planning *p, struct ah_diagnosis *diagnosis,
                              struct ah_error *err)
{
    uint64_t batch = p->step.batch, most = batch < COUNTS_MOST ? batch : COUNTS_MOST;
    bool found = p->request->any_micro_batches; /* the planner has already tried the other numbers */
    int rc = AH_OK;
    for (uint64_t n = p->step.micro_batches + 1; n <= most && !rc && !found; n++) {
        struct change change = unchanged(p, AH_REMEDY_MICRO_BATCHES, n);
        change.request.training.micro_batches = n;
        if (batch % n == 0)
            rc = keep_if_works(&change, diagnosis, &found, err);
    }
    return rc;
}

/* Halves the batch until there is a plan. Keeps the number of micro-batches, unless the planner may choose it. */
static int smaller_batch(const struct ah_planning *p, struct ah_diagnosis *diagnosis, struct ah_error *err)
{
    bool chosen = p->request->any_micro_batches, found = false;
    uint64_t parts = chosen ? p->gpus : p->step.micro_batches;
    int rc = AH_OK;
    for (uint64_t each = p->step.batch / parts / 2; each && !rc && !found; each /= 2) {
        struct change change = unchanged(p, AH_REMEDY_BATCH, each * parts);
        change.request.training.batch = each * parts;
        change.request.training.micro_batches = parts;
        rc = keep_if_works(&change, diagnosis, &found, err);
    }
    return rc;
}

static int shorter_sequences(const struct ah_planning *p, struct ah_diagnosis *diagnosis,
                             struct ah_error *err)
{
    enum { LEAST = 64 };
    bool found = false;
    int rc = AH_OK;
    for (uint64_t seq = p->training.seq / 2; seq >= LEAST && !rc && !found; seq /= 2) {
        struct change change = unchanged(p, AH_REMEDY_SEQ, seq);
        change.request.training.seq = seq;
        rc = keep_if_works(&change, diagnosis, &found, err);
    }
    return rc;
}

static int smaller_states(const struct ah_planning *p, struct ah_diagnosis *diagnosis, struct ah_error *err)
{
    struct change change = unchanged(p, AH_REMEDY_STATE_DTYPE, AH_BF16);
    bool found;
    if (p->training.state_dtype == AH_BF16)
        return AH_OK;
    change.request.training.state_dtype = AH_BF16;
    return keep_if_works(&change, diagnosis, &found, err);
}

/* ---- all remedies ---- */

/* Returns the part of `bytes` open to plans: all if a flag can request that, otherwise all but the system's share. */
static uint64_t host_budget(const struct ah_planning *p, uint64_t bytes)
{
    const struct ah_machine *machine = p->request->machine;
    return bytes <= machine->host.memory_bytes
               ? bytes
               : ah_planning_host_budget(machine, bytes, p->gpus, p->device_capacity_bytes);
}

/* If no trial showed how much memory a plan needs, takes the need from the first remedy of memory. */
static void take_from_remedies(const struct ah_planning *p, struct ah_diagnosis *diagnosis)
{
    for (size_t i = 0; i < diagnosis->n_remedies && !diagnosis->needed_bytes; i++) {
        const struct ah_remedy *remedy = &diagnosis->remedies[i];
        diagnosis->at_least = false;
        diagnosis->both = remedy->kind == AH_REMEDY_BOTH_MEMORIES;
        if (remedy->kind == AH_REMEDY_DEVICE_MEMORY || diagnosis->both) {
            diagnosis->resource = ah_shortage_device;
            diagnosis->needed_bytes = remedy->value;
            diagnosis->available_bytes = p->device_capacity_bytes;
        } else if (remedy->kind == AH_REMEDY_HOST_MEMORY) {
            diagnosis->resource = ah_shortage_host;
            diagnosis->needed_bytes = host_budget(p, remedy->value);
            diagnosis->available_bytes = p->gpus * p->host_capacity_bytes;
        }
        if (diagnosis->both) {
            diagnosis->other_resource = ah_shortage_host;
            diagnosis->other_needed_bytes = host_budget(p, remedy->host_bytes);
            diagnosis->other_available_bytes = p->gpus * p->host_capacity_bytes;
        }
    }
}

int ah_remedies_find(const struct ah_planning *p, struct ah_diagnosis *diagnosis, struct ah_error *err)
{
    static const struct {
        int (*find)(const struct ah_planning *, struct ah_diagnosis *, struct ah_error *);
        bool trains_otherwise;
    } kinds[] = {{other_policy, false}, {memory, false},           {more_micro_batches, true},
                 {smaller_batch, true}, {shorter_sequences, true}, {smaller_states, true}};
    int rc = AH_OK;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds && !rc; i++)
        if (!kinds[i].trains_otherwise || !p->request->training_stays)
            rc = kinds[i].find(p, diagnosis, err);
    if (!rc)
        take_from_remedies(p, diagnosis);
    return rc;
}
