/* SPDX-License-Identifier: Apache-2.0 */
#include "planner/recovery/recovery.h"

#include "planner/recovery/adapt.h"
#include "planner/recovery/relabel.h"
#include "planner/recovery/transfers.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* Limits of the program that chooses sources. If it has more columns than PROGRAM_COLUMNS, it is not solved. */
enum { PROGRAM_COLUMNS = 400, PROGRAM_NODES = 2000 };

struct recovering {
    const struct ah_recovery_request *request;
    struct ah_arena *arena;
    struct ah_states states;
    struct ah_holders holders;
    uint64_t horizon;
    bool found;
    double best_us;
    struct ah_cluster_plan plan;
    struct ah_moves moves;
};

static int check_inputs(const struct ah_recovery_request *request, struct ah_error *err)
{
    const struct ah_cluster_request *cluster = &request->cluster;
    const struct ah_inventory *inventory = request->inventory;
    const struct ah_cluster_plan *old = request->old_plan;
    if (strcmp(old->inputs.model.sha256, cluster->model_sha256) != 0)
        return ah_error_set(
            err, AH_E_MISMATCH,
            "the old plan was made for the model '%s', not for '%s'; give the model that it was made from",
            old->inputs.model.name, cluster->model->name);
    if (old->n_programs && old->programs[0].numeric_signature.device != cluster->cluster->device)
        return ah_error_set(
            err, AH_E_MISMATCH,
            "the old plan runs on devices of kind %s, but cluster '%s' has %s; give a cluster of the same "
            "kind",
            ah_words_device_kind[old->programs[0].numeric_signature.device], cluster->cluster->name,
            ah_words_device_kind[cluster->cluster->device]);
    if (strcmp(inventory->model.sha256, cluster->model_sha256) != 0)
        return ah_error_set(err, AH_E_MISMATCH,
                            "the inventory holds the model '%s', but the old plan trains '%s'",
                            inventory->model.name, old->inputs.model.name);
    if (inventory->blocks != old->blocks)
        return ah_error_set(err, AH_E_MISMATCH,
                            "the inventory has %" PRIu64 " blocks, but the old plan has "
                            "%" PRIu64,
                            inventory->blocks, old->blocks);
    return AH_OK;
}

static bool slices_suffice(const struct recovering *r, const struct ah_cluster_plan *plan)
{
    for (size_t p = 0; p < plan->n_pipelines; p++)
        for (size_t i = 0; i < plan->pipelines[p].n_stages; i++)
            if (r->states.slices % plan->pipelines[p].stages[i].tp)
                return false;
    return true;
}

/* Relabels the candidate, finds its moves, and keeps it if it is better than the best so far. */
static int consider(struct recovering *r, struct ah_cluster_plan *plan, struct ah_error *err)
{
    const struct ah_recovery_request *request = r->request;
    struct ah_moves moves = {
        .blocks = r->states.n_blocks, .slices = r->states.slices, .step = r->holders.step};
    if (!slices_suffice(r, plan))
        return AH_OK;
    int rc = ah_relabel_plan(request->cluster.cluster, &r->states, &r->holders, r->arena, plan, err);
    const struct ah_transfers_input input = {.cluster = request->cluster.cluster,
                                             .states = &r->states,
                                             .holders = &r->holders,
                                             .plan = plan,
                                             .sources = request->sources,
                                             .limits = {PROGRAM_COLUMNS, PROGRAM_NODES}};
    rc = rc ? rc : ah_transfers_plan(&input, r->arena, &moves, err);
    if (rc)
        return rc;
    double us = plan->predicted.step_us * (double)r->horizon + moves.predicted.time_us;
    if (us >= r->best_us)
        return AH_OK;
    r->best_us = us;
    r->plan = *plan;
    r->moves = moves;
    r->found = true;
    return AH_OK;
}

static int consider_old(struct recovering *r, struct ah_error *err)
{
    for (int way = 0; way < AH_ADAPT_WAYS; way++) {
        struct ah_cluster_plan plan;
        bool fits = false;
        int rc = ah_adapt_plan(&r->request->cluster, r->request->old_plan, (enum ah_adapt_way)way, r->arena,
                               &plan, &fits, err);
        if (!rc && fits)
            rc = consider(r, &plan, err);
        if (rc)
            return rc;
    }
    return AH_OK;
}

/* Copies the planner's bound to an adapted plan; the bound is valid for every plan of the cluster. */
static void certify(struct recovering *r, const struct ah_plan_solver *solver)
{
    struct ah_plan_solver *own = &r->plan.solver;
    if (own->status != AH_PLAN_NO_BOUND)
        return;
    double bound_us = fmin(solver->bound_us, own->objective_us);
    *own = (struct ah_plan_solver){.status = AH_PLAN_WITHIN_GAP,
                                   .objective_us = own->objective_us,
                                   .bound_us = bound_us,
                                   .gap = (own->objective_us - bound_us) / own->objective_us,
                                   .evaluations = solver->evaluations};
}

static int consider_new(struct recovering *r, struct ah_cluster_shortage *ret_shortage, struct ah_error *err)
{
    struct ah_cluster_plan plan;
    int rc = ah_cluster_planner_plan(&r->request->cluster, r->arena, &plan, ret_shortage, err);
    if ((rc == AH_E_NO_PLAN || rc == AH_E_INFEASIBLE) && r->found)
        return AH_OK;
    if (rc)
        return rc;
    rc = consider(r, &plan, err);
    if (!rc && r->found)
        certify(r, &plan.solver);
    return rc;
}

static void fill_moves(struct recovering *r)
{
    const struct ah_recovery_request *request = r->request;
    const struct ah_cluster_request *cluster = &request->cluster;
    r->moves.generator = cluster->generator;
    r->moves.inputs.model = (struct ah_plan_input){cluster->model->name, cluster->model_sha256};
    r->moves.inputs.cluster = (struct ah_plan_input){cluster->cluster->name, cluster->cluster_sha256};
    r->moves.sources = request->sources;
    r->moves.horizon_steps = r->horizon;
    r->moves.predicted.step_us = r->plan.predicted.step_us;
    r->moves.predicted.lost_steps = r->holders.lost_steps;
}

int ah_recovery_plan(const struct ah_recovery_request *request, struct ah_arena *arena,
                     struct ah_cluster_plan *ret_plan, struct ah_moves *ret_moves,
                     struct ah_cluster_shortage *ret_shortage, struct ah_error *err)
{
    struct recovering r = {.request = request, .arena = arena, .best_us = INFINITY};
    const struct ah_cluster_request *cluster = &request->cluster;
    r.horizon = request->horizon_steps ? request->horizon_steps : (uint64_t)AH_RECOVERY_HORIZON;
    int rc = check_inputs(request, err);
    rc = rc ? rc
            : ah_states_init(&r.states, cluster->model, &cluster->training, request->inventory->slices, arena,
                             err);
    rc = rc ? rc : ah_holders_init(&r.holders, request->inventory, cluster->cluster, &r.states, arena, err);
    rc = rc ? rc : consider_old(&r, err);
    rc = rc ? rc : consider_new(&r, ret_shortage, err);
    if (rc)
        return rc;
    if (!r.found)
        return ah_error_set(err, AH_E_NO_PLAN,
                            "no plan was found whose degrees divide the %zu slices of the inventory; cut "
                            "states into more slices",
                            r.states.slices);
    fill_moves(&r);
    *ret_plan = r.plan;
    *ret_moves = r.moves;
    return AH_OK;
}
