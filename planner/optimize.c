/* SPDX-License-Identifier: Apache-2.0
 *
 * Optimize.
 *
 * THE LADDER. Searches are not monotone: with more memory one may end worse. So it solves at fixed budgets
 * (LADDER_LEAST_BYTES, doubled again and again) below the one asked for, and each search starts from the winner of the
 * one before. What is found at a rung is a candidate at every higher one: at rungs, more memory is never slower.
 *
 * WITHOUT SOME TECHNIQUES. From where the relaxation and the paper's family start, a search ends in one valley; what
 * is best without one technique often lies in another, and is sometimes better than all that was found. So each search
 * is preceded by short ones that do without one, and goes on from the best of all.
 *
 * The bound of a choice among several micro-batch orders is the least of theirs.
 */
#include "planner/optimize.h"

#include "planner/planner.h"
#include "planner/policies.h"
#include "planner/search.h"

#include <string.h>

#define LADDER_LEAST_BYTES (UINT64_C(1) << 28)

/* Real layouts take more than the relaxation says: counts for smaller budgets are starts, too. */
enum { TIGHTER = 4 };
#define VALLEY_SPACE 0.97

/* An evaluation takes as long as the iteration has blocks: a smaller model gets more of them. */
struct effort {
    uint64_t evaluations; /* of each rung */
    uint64_t all_below;
    bool ladder;
};

static struct effort effort_of(const struct ah_optimize *o)
{
    uint32_t level = o->effort ? o->effort : AH_EFFORT_DEFAULT;
    uint64_t items = o->trial->limits.job->n_blocks * o->trial->limits.job->training.micro_batches;
    if (level == AH_EFFORT_QUICK)
        return (struct effort){50 + 15000 / items, 2000, false};
    uint64_t more = UINT64_C(1) << 2 * (level - AH_EFFORT_DEFAULT);
    return (struct effort){(100 + 20000 / items) * more, 100000 * more, true};
}

static int orders_of(const struct ah_optimize *o)
{
    return o->trial->limits.job->training.micro_batches > 1 ? AH_BLOCK_MAJOR + 1 : AH_MICRO_BATCH_MAJOR + 1;
}

static int solve(const struct ah_optimize *o, uint64_t device_bytes, int order, struct ah_arena *arena,
                 struct ah_milp_result *ret_milp, struct ah_error *err)
{
    const struct ah_trial_limits *limits = &o->trial->limits;
    struct ah_milp_input input = {.job = limits->job,
                                  .costs = limits->costs,
                                  .device_bytes = device_bytes,
                                  .host_bytes = limits->host_bytes,
                                  .micro_order = (enum ah_micro_order)order,
                                  .allowed = o->allowed};
    return ah_milp_solve(&input, arena, ret_milp, err);
}

static uint64_t lesser(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* What is short is what the order lacks that lacks less. */
static void take_shortage(struct ah_milp_shortage *least, const struct ah_milp_shortage *other)
{
    bool less = other->both_device_bytes < least->both_device_bytes;
    *least = (struct ah_milp_shortage){
        .device_bytes = lesser(least->device_bytes, other->device_bytes),
        .host_bytes = lesser(least->host_bytes, other->host_bytes),
        .both_device_bytes = less ? other->both_device_bytes : least->both_device_bytes,
        .both_host_bytes = less ? other->both_host_bytes : least->both_host_bytes};
}

/* Bound and feasibility over all orders. */
static void take(struct ah_optimize_result *result, const struct ah_milp_result *milp, int order)
{
    if (!milp->feasible) {
        result->infeasible = !order || result->infeasible;
        if (order)
            take_shortage(&result->shortage, &milp->shortage);
        else
            result->shortage = milp->shortage;
        return;
    }
    result->infeasible = false;
    if (!result->bound_us || milp->bound_us < result->bound_us)
        result->bound_us = milp->bound_us;
}

int ah_optimize_bound(const struct ah_optimize *optimize, struct ah_arena *arena,
                      struct ah_optimize_result *ret_result, struct ah_error *err)
{
    struct ah_optimize_result result = {0};
    int rc = AH_OK;
    for (int order = 0; order < orders_of(optimize) && !rc; order++) {
        struct ah_milp_result milp;
        rc = solve(optimize, optimize->trial->limits.device_bytes, order, arena, &milp, err);
        if (!rc)
            take(&result, &milp, order);
    }
    if (!rc)
        *ret_result = result;
    return rc;
}

/* The best of the paper's family, found as if nothing else were: what is known would cut its trials short. */
static int search_paper(const struct ah_optimize *o, struct ah_arena *arena, struct ah_error *err)
{
    struct ah_trial *trial = o->trial;
    size_t n = trial->limits.job->n_blocks;
    struct ah_candidate known = trial->best;
    bool found = trial->found;
    struct ah_config *configs = ah_arena_array(arena, n, sizeof *configs);
    if (!configs)
        return ah_error_memory(err);
    memcpy(configs, known.configs, n * sizeof *configs);
    trial->found = false;
    int rc = ah_policies_search(trial, AH_POLICY_AUTOHETE_PAPER, o->scheduling, err);
    if (found && (!trial->found || known.score.period_us <= trial->best.score.period_us)) {
        memcpy(known.configs, configs, n * sizeof *configs);
        trial->best = known;
        trial->found = true;
    }
    return rc;
}

#define WITHOUT(technique) (UINT32_C(1) << AH_TECHNIQUE_##technique)
static const uint32_t valleys[] = {WITHOUT(STREAMED), WITHOUT(SELECTIVE), WITHOUT(HOST_WEIGHTS),
                                   WITHOUT(KEEP) | WITHOUT(SELECTIVE)};

enum { VALLEYS = sizeof valleys / sizeof *valleys, VALLEY_SHARE = 6 };

/* A search with a part of the budget that does without techniques; what it finds is there for the next. */
static int search_valley(const struct ah_optimize *o, const struct ah_search *whole, uint32_t without,
                         struct ah_arena *arena, struct ah_error *err)
{
    struct ah_trial_limits *limits = &o->trial->limits;
    struct ah_restriction restriction;
    struct ah_milp_result counts;
    int rc = ah_restriction_init(&restriction, limits->job, without, arena, err);
    if (rc == AH_E_USAGE)
        return AH_OK; /* a block would be left with nothing */
    struct ah_optimize restricted = *o;
    restricted.allowed = restriction.allowed;
    if (!rc)
        rc = solve(&restricted, (uint64_t)((double)limits->device_bytes * VALLEY_SPACE), whole->micro_order,
                   arena, &counts, err);
    if (rc || !counts.feasible)
        return rc;
    struct ah_search search = *whole;
    search.counts = &counts;
    search.n_counts = 1;
    search.allowed = restriction.allowed;
    search.all_below = 0;
    limits->restriction = &restriction;
    limits->evaluations = ah_trial_spent(o->trial) + effort_of(o).evaluations / VALLEY_SHARE;
    rc = ah_search_run(&search, err);
    limits->restriction = NULL;
    return rc;
}

/* One budget, one order. */
static int search(const struct ah_optimize *o, uint64_t device_bytes, int order, struct ah_arena *arena,
                  struct ah_optimize_result *result, struct ah_error *err)
{
    static const double shares[TIGHTER] = {1, 0.97, 0.93, 0.85};
    struct effort effort = effort_of(o);
    struct ah_milp_result counts[TIGHTER] = {0};
    int rc = AH_OK;
    for (size_t i = 0; i < TIGHTER && !rc && (!i || counts[0].feasible); i++)
        rc = solve(o, (uint64_t)((double)device_bytes * shares[i]), order, arena, &counts[i], err);
    if (rc)
        return rc;
    take(result, &counts[0], order);
    if (!counts[0].feasible)
        return AH_OK;
    ah_trial_limit(o->trial, device_bytes, 0);
    if (order == AH_MICRO_BATCH_MAJOR && (!o->allowed || o->trial->limits.restriction))
        rc = search_paper(o, arena, err);
    struct ah_search search = {.trial = o->trial,
                               .counts = counts,
                               .n_counts = TIGHTER,
                               .allowed = o->allowed,
                               .scheduling = o->scheduling,
                               .micro_order = (enum ah_micro_order)order,
                               .all_below = effort.all_below};
    for (size_t i = 0; i < VALLEYS && !rc && !o->allowed && !o->trial->limits.restriction; i++)
        rc = search_valley(o, &search, valleys[i], arena, err);
    o->trial->limits.evaluations = ah_trial_spent(o->trial) + effort.evaluations;
    return rc ? rc : ah_search_run(&search, err);
}

int ah_optimize_run(const struct ah_optimize *optimize, struct ah_arena *arena,
                    struct ah_optimize_result *ret_result, struct ah_error *err)
{
    uint64_t top = optimize->trial->limits.device_bytes, reserve = optimize->reserve_bytes;
    struct ah_optimize_result result = {0};
    int rc = AH_OK;
    for (uint64_t rung = LADDER_LEAST_BYTES; effort_of(optimize).ladder && rung < top + reserve && !rc;
         rung *= 2)
        for (int order = 0; order < orders_of(optimize) && rung > reserve && !rc; order++)
            rc = search(optimize, rung - reserve, order, arena, &result, err);
    result = (struct ah_optimize_result){0};
    for (int order = 0; order < orders_of(optimize) && !rc; order++)
        rc = search(optimize, top, order, arena, &result, err);
    if (!rc)
        *ret_result = result;
    return rc;
}
