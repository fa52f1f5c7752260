/* SPDX-License-Identifier: Apache-2.0
 *
 * Optimize: the ladder of budgets, and the bound.
 *
 * THE LADDER. Searches are not monotone: with more memory, a search may end with a slower plan. Therefore fixed budgets
 * are searched (LADDER_LEAST_BYTES, doubled repeatedly) up to the requested one, each from the winner of the previous
 * search. The winner of a rung is a candidate at every higher rung, so a higher rung is never slower. If everything
 * fits at a rung, higher rungs are not searched.
 *
 * The bound over several micro-batch orders is the least of the orders' bounds.
 */
#include "planner/search/optimize.h"

#include "planner/planner.h"
#include "planner/policies/policies.h"
#include "planner/search/knobs.h"
#include "planner/search/search.h"

#include <string.h>

#define LADDER_LEAST_BYTES (UINT64_C(1) << 28)

/* Fractions of a budget whose optimal counts are starts, because layouts need more memory than the relaxation says. */
enum { TIGHTER = 4 };
static const double tighter[TIGHTER] = {1, 0.97, 0.93, 0.85};

/* WORK is the work of each rung at the default effort: up to half a second of one core. A model with fewer than
 * FEW_BLOCKS gets proportionally less; one with more than MANY_BLOCKS gets a quarter, so its search takes no longer. */
enum { WORK = 2000000, FEW_BLOCKS = 16, MANY_BLOCKS = 64, RUNS = 32 };

struct effort {
    uint64_t work; /* work of each rung (evaluator.h) */
    uint64_t all_below;
    size_t runs;
    bool ladder;
};

static struct effort effort_of(const struct ah_optimize *o)
{
    uint64_t blocks = o->evaluator->limits.job->n_blocks;
    uint32_t level = o->effort ? o->effort : AH_EFFORT_DEFAULT;
    uint64_t work =
        WORK / FEW_BLOCKS * (blocks < FEW_BLOCKS ? blocks : FEW_BLOCKS) / (blocks > MANY_BLOCKS ? 4 : 1);
    if (level == AH_EFFORT_QUICK)
        return (struct effort){work / 4, 2000, 0, false};
    uint64_t more = UINT64_C(1) << 2 * (level - AH_EFFORT_DEFAULT);
    return (struct effort){work * more, 100000 * more, RUNS, true};
}

static int orders_of(const struct ah_optimize *o)
{
    return o->evaluator->limits.job->training.micro_batches > 1 ? AH_BLOCK_MAJOR + 1
                                                                : AH_MICRO_BATCH_MAJOR + 1;
}

static int solve(const struct ah_optimize *o, uint64_t device_bytes, int order, struct ah_arena *arena,
                 struct ah_milp_result *ret_milp, struct ah_error *err)
{
    const struct ah_evaluator_limits *limits = &o->evaluator->limits;
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

/* Lowers each shortage in `least` to that in `other`; the two for both memories are taken together. */
static void take_shortage(struct ah_milp_shortage *least, const struct ah_milp_shortage *other)
{
    bool less = other->both_device_bytes < least->both_device_bytes;
    *least = (struct ah_milp_shortage){
        .device_bytes = lesser(least->device_bytes, other->device_bytes),
        .host_bytes = lesser(least->host_bytes, other->host_bytes),
        .both_device_bytes = less ? other->both_device_bytes : least->both_device_bytes,
        .both_host_bytes = less ? other->both_host_bytes : least->both_host_bytes};
}

/* Merges the bound of one micro-batch order: the least counts, and all orders must be infeasible. */
static void take_bound(struct ah_optimize_result *result, const struct ah_milp_result *milp, int order)
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
        rc = solve(optimize, optimize->evaluator->limits.device_bytes, order, arena, &milp, err);
        if (!rc)
            take_bound(&result, &milp, order);
    }
    if (!rc)
        *ret_result = result;
    return rc;
}

/* Searches the paper's family. Hides the best so far during the search, because it would cut trials short. */
static int search_paper(const struct ah_optimize *o, struct ah_arena *arena, struct ah_error *err)
{
    struct ah_evaluator *evaluator = o->evaluator;
    size_t n = evaluator->limits.job->n_blocks;
    struct ah_candidate known = evaluator->best;
    bool found = evaluator->found;
    struct ah_config *configs = ah_arena_array(arena, n, sizeof *configs);
    if (!configs)
        return ah_error_memory(err);
    memcpy(configs, known.configs, n * sizeof *configs);
    evaluator->found = false;
    int rc = ah_policies_search(evaluator, AH_POLICY_AUTOHETE_PAPER, o->scheduling, err);
    if (found && (!evaluator->found || known.score.period_us <= evaluator->best.score.period_us)) {
        memcpy(known.configs, configs, n * sizeof *configs);
        evaluator->best = known;
        evaluator->found = true;
    }
    return rc;
}

/* the fraction of the bound's worth at which chains value a byte; at its full worth they would leave memory unused */
static const double worth = 0.6;

/* Returns the time that one more byte saves, from the bounds of the budget and of its least feasible fraction. */
static double us_per_byte(const struct ah_milp_result *counts, uint64_t device_bytes)
{
    size_t last = TIGHTER - 1;
    while (last && !counts[last].feasible)
        last--;
    double bytes = (1 - tighter[last]) * (double)device_bytes;
    return last ? worth * (counts[last].bound_us - counts[0].bound_us) / bytes : 0;
}

struct climb {
    const struct ah_optimize *optimize;
    struct ah_pool *pool;
    struct ah_arena *arena;
    uint64_t roomy_bytes;    /* device memory beyond which more makes no difference */
    uint64_t searched_bytes; /* the highest budget searched so far */
};

/* Sets `roomy_bytes`: a quarter more than is live if everything is on the device; UINT64_MAX with restrictions. */
static int find_roomy(struct climb *climb, struct ah_error *err)
{
    const struct ah_optimize *o = climb->optimize;
    const struct ah_job *job = o->evaluator->limits.job;
    climb->roomy_bytes = UINT64_MAX;
    if (o->allowed || o->evaluator->limits.restriction)
        return AH_OK;
    struct ah_config *configs = ah_arena_array(climb->arena, job->n_blocks, sizeof *configs);
    if (!configs)
        return ah_error_memory(err);
    for (size_t block = 0; block < job->n_blocks; block++) {
        struct ah_config all[AH_CONFIGS_MAX];
        ah_configs(job, ah_job_block(job, block), all);
        configs[block] = all[0];
    }
    const struct ah_choice choice = {.configs = configs,
                                     .costs = o->evaluator->limits.costs,
                                     .knobs = ah_knobs_first(job, o->scheduling, AH_MICRO_BATCH_MAJOR)};
    struct ah_score score;
    int rc = ah_schedule_measure(&o->evaluator->schedule, &choice, &score, err);
    if (!rc)
        climb->roomy_bytes = score.device.peak_bytes + score.device.peak_bytes / 4;
    return rc;
}

/* Solves the MILP of every micro-batch order for a budget and for its fractions in `tighter`. */
static int solve_counts(const struct climb *climb, uint64_t device_bytes, struct ah_search *search,
                        struct ah_milp_result *counts, struct ah_optimize_result *result,
                        struct ah_error *err)
{
    const struct ah_optimize *o = climb->optimize;
    int rc = AH_OK;
    for (int order = 0; order < search->orders && !rc; order++) {
        struct ah_milp_result *first = &counts[search->n_counts];
        for (size_t i = 0; i < TIGHTER && !rc && (!i || first->feasible); i++)
            rc = solve(o, (uint64_t)((double)device_bytes * tighter[i]), order, climb->arena, &first[i], err);
        if (!rc)
            take_bound(result, first, order);
        if (rc || !first->feasible)
            continue;
        search->n_counts += TIGHTER;
        search->bounds[order] = first;
    }
    return rc;
}

/* Searches one budget with all orders. */
static int search_budget(struct climb *climb, uint64_t device_bytes, struct ah_optimize_result *result,
                         struct ah_error *err)
{
    const struct ah_optimize *o = climb->optimize;
    struct effort effort = effort_of(o);
    struct ah_milp_result counts[AH_SEARCH_ORDERS * TIGHTER] = {0};
    struct ah_search search = {.evaluator = o->evaluator,
                               .pool = climb->pool,
                               .counts = counts,
                               .allowed = o->allowed,
                               .scheduling = o->scheduling,
                               .orders = orders_of(o),
                               .work = effort.work,
                               .runs = effort.runs,
                               .all_below = effort.all_below};
    int rc = solve_counts(climb, device_bytes, &search, counts, result, err);
    if (rc || !search.n_counts)
        return rc;
    search.us_per_byte = us_per_byte(counts, device_bytes);
    ah_evaluator_limit(o->evaluator, device_bytes, 0);
    if (o->evaluator->found && climb->searched_bytes >= climb->roomy_bytes)
        return AH_OK;
    climb->searched_bytes = device_bytes;
    if (!o->allowed || o->evaluator->limits.restriction)
        rc = search_paper(o, climb->arena, err);
    return rc ? rc : ah_search_run(&search, err);
}

/* Searches the budgets of the ladder, then the requested one. */
static int climb_ladder(struct climb *climb, struct ah_optimize_result *ret_result, struct ah_error *err)
{
    const struct ah_optimize *o = climb->optimize;
    uint64_t top = o->evaluator->limits.device_bytes, reserve = o->reserve_bytes;
    struct ah_optimize_result result = {0};
    int rc = find_roomy(climb, err);
    for (uint64_t rung = LADDER_LEAST_BYTES; effort_of(o).ladder && rung < top + reserve && !rc; rung *= 2)
        if (rung > reserve)
            rc = search_budget(climb, rung - reserve, &result, err);
    *ret_result = (struct ah_optimize_result){0};
    return rc ? rc : search_budget(climb, top, ret_result, err);
}

int ah_optimize_run(const struct ah_optimize *optimize, struct ah_arena *arena,
                    struct ah_optimize_result *ret_result, struct ah_error *err)
{
    struct ah_pool *pool = NULL;
    int rc = ah_pool_new(&pool, &(struct ah_pool_options){0}, err);
    if (rc && rc != AH_E_FAILED)
        return rc;
    struct climb climb = {.optimize = optimize, .pool = pool, .arena = arena};
    rc = climb_ladder(&climb, ret_result, err); /* without a pool, chains run one after another */
    ah_pool_free(pool);
    return rc;
}
