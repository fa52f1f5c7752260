/* SPDX-License-Identifier: Apache-2.0 */
#include "planner/cluster/search/arrangement_search_internal.h"

#include "planner/cluster/bound/relaxation.h"
#include "planner/cluster/groups.h"
#include "planner/cluster/search/update_limit.h"
#include "planner/cluster/sim/stage_estimate.h"
#include "planner/cluster/sim/stage_sim.h"

#include <math.h>

enum {
    LIMITED_UNITS = 16,     /* with more units, update limits are chosen only at the end */
    ROUGH_UNITS = 32,       /* with more units, arrangements are estimated first */
    SIMULATED_PASSES = 32,  /* simulated passes in the time of an evaluation of a small problem */
    ESTIMATED_PASSES = 128, /* estimated passes in the time of an evaluation of a small problem */
    CONFIRMED_STARTS = 4
};

static uint64_t passes_of(const struct ah_arrangement *arrangement)
{
    uint64_t passes = 0;
    for (size_t p = 0; p < arrangement->n_pipelines; p++)
        passes += 2 * arrangement->pipelines[p].n_stages * arrangement->pipelines[p].micro_batches;
    return passes;
}

static int simulate(struct ah_arrangement_search *search, struct ah_draft *draft, double limit_us,
                    double *ret_us, struct ah_error *err)
{
    const struct ah_arrangement *arrangement = &draft->arrangement;
    struct ah_stage_sim_result result = {.limit_us = isinf(limit_us) ? 0 : limit_us};
    double alone_us;
    for (size_t p = 0; p < arrangement->n_pipelines; p++) {
        search->evaluations++;
        int rc = ah_pipeline_time(search->problem, &arrangement->pipelines[p], &alone_us, err);
        if (rc || alone_us >= limit_us)
            return rc;
    }
    const uint64_t cost = search->exhausting ? 1 : 1 + passes_of(arrangement) / SIMULATED_PASSES;
    search->evaluations += cost;
    ah_draft_sort(draft);
    int rc = ah_stage_sim_run(search->problem, arrangement, &result, err);
    if (rc)
        return rc;
    *ret_us = result.step_us;
    if (result.step_us >= limit_us || isinf(result.step_us) || !search->limits ||
        ah_update_limit_longest_us(arrangement) <= 0)
        return AH_OK;
    uint64_t simulations = 0;
    ah_draft_copy(&search->limited, draft);
    rc = ah_update_limit_choose(search->problem, &search->limited.arrangement, ret_us, &simulations, err);
    search->evaluations += simulations * cost;
    return rc;
}

int ah_arrangement_search_time(struct ah_arrangement_search *search, struct ah_draft *draft, double limit_us,
                               double *ret_us, struct ah_error *err)
{
    uint64_t passes = 0;
    *ret_us = INFINITY;
    if (!ah_groups_allow(search->problem, &draft->arrangement))
        return AH_OK;
    if (!search->rough)
        return simulate(search, draft, limit_us, ret_us, err);
    ah_draft_sort(draft);
    int rc = ah_estimate_time(search->problem, &draft->arrangement, ret_us, &passes, err);
    search->evaluations += 1 + draft->n_stages / 4 + passes / ESTIMATED_PASSES;
    return rc;
}

void ah_arrangement_search_keep(struct ah_arrangement_search *search, const struct ah_draft *draft, double us)
{
    if (draft != search->best)
        ah_draft_copy(search->best, draft);
    search->best_us = us;
    search->found = true;
}

static int make_starts(struct ah_arrangement_search *search, struct ah_error *err)
{
    int rc = AH_OK;
    for (size_t i = 0; i < AH_ARRANGEMENT_SEARCH_STARTS && !rc; i++)
        rc = ah_draft_init(&search->starts[i].draft, search->problem, err);
    rc = rc ? rc : ah_draft_init(&search->limited, search->problem, err);
    return rc;
}

static void sort_starts(struct ah_arrangement_search *search)
{
    for (size_t i = 1; i < search->n_starts; i++)
        for (size_t j = i; j > 0 && search->starts[j].us < search->starts[j - 1].us; j--) {
            struct ah_arrangement_search_start other = search->starts[j];
            search->starts[j] = search->starts[j - 1];
            search->starts[j - 1] = other;
        }
}

/* Improves all starts within the budget, and sorts them again. */
static int improve_starts(struct ah_arrangement_search *search, struct ah_error *err)
{
    size_t n = search->n_starts;
    int rc = AH_OK;
    for (size_t i = 0; i < n && !rc; i++) {
        uint64_t left = search->budget > search->evaluations ? search->budget - search->evaluations : 0;
        rc = ah_arrangement_search_improve(search, &search->starts[i], search->evaluations + left / (n - i),
                                           err);
    }
    sort_starts(search);
    return rc;
}

/* Simulates the starts with the best estimates, and improves the fastest of them by simulation. */
static int confirm_starts(struct ah_arrangement_search *search, uint64_t polish, struct ah_error *err)
{
    int rc = AH_OK;
    search->rough = false;
    search->n_starts = search->n_starts < CONFIRMED_STARTS ? search->n_starts : CONFIRMED_STARTS;
    for (size_t i = 0; i < search->n_starts && !rc; i++)
        rc = ah_arrangement_search_time(search, &search->starts[i].draft, INFINITY, &search->starts[i].us,
                                        err);
    sort_starts(search);
    if (!rc && search->n_starts)
        rc = ah_arrangement_search_improve(search, &search->starts[0], search->evaluations + polish, err);
    return rc;
}

static int add_given(struct ah_arrangement_search *search, const struct ah_arrangement *start,
                     struct ah_error *err)
{
    struct ah_draft draft;
    double us;
    int rc = ah_draft_init(&draft, search->problem, err);
    if (rc)
        return rc;
    ah_draft_take(&draft, start);
    rc = ah_arrangement_search_time(search, &draft, INFINITY, &us, err);
    if (!rc && !isinf(us))
        ah_arrangement_search_add_start(search, &draft, us);
    ah_draft_release(&draft);
    return rc;
}

/* Gives each start its best update limit. Only for problems in which blocks may be away. */
static int choose_limits(struct ah_arrangement_search *search, struct ah_error *err)
{
    int rc = AH_OK;
    for (size_t i = 0; i < search->n_starts && !rc; i++) {
        ah_draft_sort(&search->starts[i].draft);
        rc = ah_update_limit_choose(search->problem, &search->starts[i].draft.arrangement,
                                    &search->starts[i].us, &search->evaluations, err);
    }
    sort_starts(search);
    return rc;
}

/* Does steps 1 to 3 of the search. */
static int make_and_improve(struct ah_arrangement_search *search,
                            const struct ah_arrangement_search_limits *limits, struct ah_error *err)
{
    bool rough = search->rough = ah_problem_units(search->problem) > ROUGH_UNITS;
    int rc = ah_arrangement_search_starts(search, err);
    if (!rc && limits->start)
        rc = add_given(search, limits->start, err);
    search->limits = ah_problem_units(search->problem) <= LIMITED_UNITS;
    rc = rc ? rc : improve_starts(search, err);
    search->budget = search->evaluations + limits->shaking;
    if (!rc && search->n_starts)
        rc = ah_arrangement_search_anneal(search, err);
    if (!rc && rough)
        rc = confirm_starts(search, limits->shaking / 2, err);
    if (!rc && search->problem->update_limit_us > 0)
        rc = choose_limits(search, err);
    if (!rc && search->n_starts && search->starts[0].us < search->best_us)
        ah_arrangement_search_keep(search, &search->starts[0].draft, search->starts[0].us);
    return rc;
}

static void release_search(struct ah_arrangement_search *search)
{
    for (size_t i = 0; i < AH_ARRANGEMENT_SEARCH_STARTS; i++)
        ah_draft_release(&search->starts[i].draft);
    ah_draft_release(&search->limited);
    ah_fits_release(&search->fits);
}

int ah_arrangement_search_run(const struct ah_cluster_problem *problem,
                              const struct ah_arrangement_search_limits *limits, double none_above_us,
                              struct ah_draft *best, struct ah_arrangement_search_result *ret_result,
                              struct ah_error *err)
{
    struct ah_arrangement_search search = {
        .problem = problem, .best = best, .best_us = none_above_us, .budget = limits->improvements};
    bool exhausted = false;
    double relaxed_us = 0;
    int rc = ah_relaxation_time(problem, &relaxed_us, err);
    rc = rc ? rc : ah_fits_init(&search.fits, problem, err);
    rc = rc ? rc : make_starts(&search, err);
    if (!rc && relaxed_us < none_above_us)
        rc = make_and_improve(&search, limits, err);
    search.budget = search.evaluations + limits->exhaustion;
    search.exhausting = true;
    if (relaxed_us >= search.best_us)
        exhausted = true;
    else if (!rc && limits->exhaustion)
        rc = ah_arrangement_search_exhaust(&search, &exhausted, err);
    if (!rc)
        *ret_result =
            (struct ah_arrangement_search_result){.step_us = search.found ? search.best_us : (double)INFINITY,
                                                  .bound_us = exhausted ? search.best_us : relaxed_us,
                                                  .exhausted = exhausted,
                                                  .evaluations = search.evaluations};
    release_search(&search);
    return rc;
}
