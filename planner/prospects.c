/* SPDX-License-Identifier: Apache-2.0
 *
 * Prospects: plans again with one thing of the request changed.
 */
#include "planner/prospects.h"

#include "planner/planner_internal.h"

#include <inttypes.h>

#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)

/* A ladder of device memory: the most coarse steps, fine steps in the first coarse one, and halvings to find the least
 * memory that fits. A ladder of batches or sequences: from 1 / RANGE_BELOW to RANGE_ABOVE times the request's. */
enum { LADDER_STEPS = 9, FINE = 8, HALVINGS = 8, RANGE_BELOW = 8, RANGE_ABOVE = 4 };

/* more memory than any plan needs, but far from an overflow of sums */
static const uint64_t unlimited_bytes = UINT64_C(1) << 50;

/* ---- changes ---- */

/* A request with its own copy of the machine. Do not move it: the request points into this struct. */
struct changed {
    struct ah_plan_request request;
    struct ah_machine machine;
    struct ah_arena arena;
};

static uint64_t device_capacity(const struct ah_plan_request *request)
{
    return request->device_bytes ? request->device_bytes : ah_planning_device_bytes(request);
}

static uint64_t host_capacity(const struct ah_plan_request *request)
{
    return request->host_bytes ? request->host_bytes : request->machine->host.memory_bytes;
}

static int double_links(struct changed *changed, bool h2d, bool d2h, struct ah_error *err)
{
    struct ah_machine *machine = &changed->machine;
    struct ah_machine_link *links = ah_arena_array(&changed->arena, machine->n_links + 1, sizeof *links);
    if (!links)
        return ah_error_memory(err);
    for (size_t i = 0; i < machine->n_links; i++) {
        links[i] = machine->links[i];
        if (links[i].direction == AH_H2D ? h2d : d2h)
            links[i].bytes_per_s.median *= 2;
    }
    machine->links = links;
    return AH_OK;
}

static int set_batch(struct changed *changed, uint64_t batch, struct ah_error *err)
{
    uint64_t parts = changed->request.any_micro_batches ? 1 : changed->request.training.micro_batches;
    if (!batch || batch % parts)
        return ah_error_set(err, AH_E_USAGE,
                            "batch %" PRIu64 " cannot be cut into %" PRIu64 " equal micro-batches; give "
                            "multiples, or '--micro-batches auto'",
                            batch, parts);
    changed->request.training.batch = batch;
    return AH_OK;
}

static int set_seq(struct changed *changed, uint64_t seq, struct ah_error *err)
{
    const struct ah_model *model = changed->request.model;
    if (!seq || (model->position == AH_POSITION_LEARNED && seq > model->max_positions))
        return ah_error_set(err, AH_E_USAGE,
                            "sequence %" PRIu64 ": the model '%s' has %" PRIu64 " learned positions; give at "
                            "most that many",
                            seq, model->name, model->max_positions);
    changed->request.training.seq = seq;
    return AH_OK;
}

static int apply_change(struct changed *changed, struct ah_prospect_change change, struct ah_error *err)
{
    switch (change.kind) {
    case AH_PROSPECT_MORE_DEVICE_MEMORY:
    case AH_PROSPECT_DEVICE_MEMORY:
        changed->request.device_bytes = change.value;
        break;
    case AH_PROSPECT_H2D:
        return double_links(changed, true, false, err);
    case AH_PROSPECT_D2H:
        return double_links(changed, false, true, err);
    case AH_PROSPECT_LINKS:
        return double_links(changed, true, true, err);
    case AH_PROSPECT_MORE_HOST_MEMORY:
        changed->request.host_bytes = change.value;
        break;
    case AH_PROSPECT_BATCH:
        return set_batch(changed, change.value, err);
    case AH_PROSPECT_SEQ:
        return set_seq(changed, change.value, err);
    case AH_PROSPECT_UNCHANGED:
        break;
    }
    return AH_OK;
}

static bool is_as_asked(const struct ah_plan_request *request, struct ah_prospect_change change)
{
    return change.kind == AH_PROSPECT_UNCHANGED ||
           (change.kind == AH_PROSPECT_DEVICE_MEMORY && change.value == device_capacity(request)) ||
           (change.kind == AH_PROSPECT_BATCH && change.value == request->training.batch) ||
           (change.kind == AH_PROSPECT_SEQ && change.value == request->training.seq);
}

/* ---- rows ---- */

struct ah_prospect_blocks ah_prospects_count(const struct ah_plan *plan)
{
    struct ah_prospect_blocks blocks = {.all = plan->n_blocks};
    for (size_t i = 0; i < plan->n_blocks; i++) {
        const struct ah_plan_block *block = &plan->blocks[i];
        blocks.recompute += block->activations == AH_ACTIVATIONS_RECOMPUTE;
        blocks.selective += block->activations == AH_ACTIVATIONS_SELECTIVE;
        blocks.weights_host += block->weights == AH_WEIGHTS_HOST;
        blocks.optimizer_host += block->optimizer == AH_OPTIMIZER_HOST;
        blocks.streamed += block->optimizer == AH_OPTIMIZER_STREAMED;
    }
    return blocks;
}

static void take_plan(struct ah_prospect *row, const struct ah_plan *plan)
{
    row->feasible = true;
    row->step_us = plan->time.step_us;
    row->tokens_per_s = plan->tokens_per_s;
    row->micro_batches = plan->training.micro_batches;
    row->device_bytes = plan->memory.device_bytes + plan->memory.reserved_bytes;
    row->host_bytes = plan->memory.host_bytes + plan->memory.process_bytes;
    row->blocks = ah_prospects_count(plan);
}

static void take_diagnosis(struct ah_prospect *row, const struct ah_diagnosis *diagnosis)
{
    row->proven = diagnosis->proven;
    row->resource = diagnosis->resource;
    row->at_least = diagnosis->at_least;
    if (diagnosis->needed_bytes > diagnosis->available_bytes)
        row->short_bytes = diagnosis->needed_bytes - diagnosis->available_bytes;
}

static int plan_changed(struct changed *changed, struct ah_prospect *row, struct ah_error *err)
{
    struct ah_plan plan = {0};
    struct ah_diagnosis diagnosis;
    struct ah_error why = {0};
    int rc = ah_planner_plan(&changed->request, &changed->arena, &plan, &diagnosis, &why);
    if (!rc)
        take_plan(row, &plan);
    else if (rc == AH_E_INFEASIBLE || rc == AH_E_NO_PLAN)
        take_diagnosis(row, &diagnosis);
    else
        *err = why;
    return rc == AH_E_INFEASIBLE || rc == AH_E_NO_PLAN ? AH_OK : rc;
}

int ah_prospects_plan(const struct ah_plan_request *request, struct ah_prospect_change change,
                      struct ah_prospect *ret_row, struct ah_error *err)
{
    struct changed changed = {.request = *request, .machine = *request->machine};
    struct ah_prospect row = {.change = change, .as_asked = is_as_asked(request, change)};
    changed.request.machine = &changed.machine;
    changed.request.alternatives = false;
    changed.request.no_remedies = true;
    int rc = apply_change(&changed, change, err);
    row.beyond_machine = changed.request.device_bytes > ah_planning_device_bytes(request) ||
                         changed.request.host_bytes > request->machine->host.memory_bytes ||
                         changed.machine.links != request->machine->links;
    rc = rc ? rc : plan_changed(&changed, &row, err);
    ah_arena_release(&changed.arena);
    if (!rc)
        *ret_row = row;
    return rc;
}

int ah_prospects_explain(const struct ah_plan_request *request,
                         struct ah_prospect ret_rows[AH_PROSPECTS_EXPLAINED], struct ah_error *err)
{
    const uint64_t values[AH_PROSPECTS_EXPLAINED] = {
        [AH_PROSPECT_MORE_DEVICE_MEMORY] = device_capacity(request) + GIB,
        [AH_PROSPECT_H2D] = 2,
        [AH_PROSPECT_D2H] = 2,
        [AH_PROSPECT_LINKS] = 2,
        [AH_PROSPECT_MORE_HOST_MEMORY] = 2 * host_capacity(request),
    };
    int rc = AH_OK;
    for (int kind = 0; kind < AH_PROSPECTS_EXPLAINED && !rc; kind++) {
        struct ah_prospect_change change = {(enum ah_prospect_kind)kind, values[kind]};
        rc = ah_prospects_plan(request, change, &ret_rows[kind], err);
    }
    return rc;
}

/* ---- ladders ---- */

struct ladder {
    uint64_t *values;
    size_t n;
};

/* Inserts a value in ascending order, unless the ladder contains it or is full. */
static void add_rung(struct ladder *ladder, uint64_t value)
{
    size_t at = ladder->n;
    for (size_t i = 0; i < ladder->n; i++)
        if (ladder->values[i] == value)
            return;
    if (ladder->n == AH_PROSPECTS_LADDER_MAX)
        return;
    for (; at && ladder->values[at - 1] > value; at--)
        ladder->values[at] = ladder->values[at - 1];
    ladder->values[at] = value;
    ladder->n++;
}

/* Adds `own`, its halves down to an eighth in whole units, and its doubles up to four times and `most`. */
static void add_multiples(struct ladder *ladder, uint64_t own, uint64_t unit, uint64_t most)
{
    add_rung(ladder, own);
    for (uint64_t part = 2; part <= RANGE_BELOW; part *= 2)
        if (own % (part * unit) == 0)
            add_rung(ladder, own / part);
    for (uint64_t times = 2; times <= RANGE_ABOVE; times *= 2)
        if (own <= most / times)
            add_rung(ladder, own * times);
}

static int fits(const struct ah_plan_request *request, uint64_t device_bytes, struct ah_prospect *ret_row,
                struct ah_error *err)
{
    struct ah_plan_request quick = *request;
    quick.effort = AH_EFFORT_QUICK;
    return ah_prospects_plan(&quick, (struct ah_prospect_change){AH_PROSPECT_DEVICE_MEMORY, device_bytes},
                             ret_row, err);
}

/* Bisects for the least device memory with a plan of a quick search, to 1 / 2^HALVINGS of the range. */
static int find_least(const struct ah_plan_request *request, uint64_t most_bytes, uint64_t *ret_bytes,
                      struct ah_error *err)
{
    uint64_t low = request->machine->device.reserve_bytes, high = most_bytes;
    int rc = AH_OK;
    for (int i = 0; i < HALVINGS && !rc; i++) {
        struct ah_prospect row;
        uint64_t middle = low + (high - low) / 2;
        rc = fits(request, middle, &row, err);
        if (!rc)
            *(row.feasible ? &high : &low) = middle;
    }
    *ret_bytes = high;
    return rc;
}

static int device_memory_ladder(const struct ah_plan_request *request, struct ladder *ladder,
                                struct ah_error *err)
{
    struct ah_prospect all;
    uint64_t least = 0, step = MIB;
    int rc = fits(request, unlimited_bytes, &all, err);
    if (!rc && !all.feasible)
        return ah_error_set(err, AH_E_NO_PLAN,
                            "'--sweep device-memory': %s is short with any amount of device memory; plan "
                            "without '--sweep' to see what helps",
                            all.resource);
    rc = rc ? rc : find_least(request, all.device_bytes, &least, err);
    if (rc)
        return rc;
    while (step * LADDER_STEPS < all.device_bytes - least)
        step *= 2;
    uint64_t fine = step / FINE < MIB ? MIB : step / FINE, below = least / fine * fine;
    if (below > request->machine->device.reserve_bytes)
        add_rung(ladder, below);
    add_rung(ladder, below + fine);
    for (uint64_t bytes = (below / step + 1) * step; bytes < all.device_bytes + step; bytes += step)
        add_rung(ladder, bytes);
    add_rung(ladder, device_capacity(request));
    return AH_OK;
}

int ah_prospects_ladder(const struct ah_plan_request *request, enum ah_prospect_kind kind,
                        uint64_t ret_values[AH_PROSPECTS_LADDER_MAX], size_t *ret_n, struct ah_error *err)
{
    const struct ah_plan_training *training = &request->training;
    struct ladder ladder = {.values = ret_values};
    int rc = AH_OK;
    if (kind == AH_PROSPECT_DEVICE_MEMORY)
        rc = device_memory_ladder(request, &ladder, err);
    else if (kind == AH_PROSPECT_BATCH)
        add_multiples(&ladder, training->batch, request->any_micro_batches ? 1 : training->micro_batches,
                      AH_BATCH_MAX);
    else
        add_multiples(&ladder, training->seq, 1,
                      request->model->max_positions < AH_SEQ_MAX ? request->model->max_positions
                                                                 : AH_SEQ_MAX);
    if (!rc)
        *ret_n = ladder.n;
    return rc;
}
