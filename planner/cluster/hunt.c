/* SPDX-License-Identifier: Apache-2.0 */
#include "planner/cluster/hunt_internal.h"

#include "planner/cluster/groups.h"
#include "planner/cluster/limits.h"
#include "planner/cluster/relaxation.h"
#include "planner/cluster/sim/stage_estimate.h"
#include "planner/cluster/sim/stage_sim.h"

#include <math.h>

enum {
    LIMITED_UNITS = 16,     /* with more units, limits are chosen only in the end */
    ROUGH_UNITS = 32,       /* with more units, arrangements are estimated first */
    SIMULATED_PASSES = 32,  /* take as long as one evaluation of a small instance */
    ESTIMATED_PASSES = 128, /* the same, when estimated */
    CONFIRMED_STARTS = 4
};

static uint64_t passes_of(const struct ah_arrangement *arrangement)
{
    uint64_t passes = 0;
    for (size_t p = 0; p < arrangement->n_pipelines; p++)
        passes += 2 * arrangement->pipelines[p].n_stages * arrangement->pipelines[p].micro_batches;
    return passes;
}

static int simulate(struct ah_hunt *hunt, struct ah_draft *draft, double limit_us, double *ret_us,
                    struct ah_error *err)
{
    const struct ah_arrangement *arrangement = &draft->arrangement;
    struct ah_stage_sim_result result = {.limit_us = isinf(limit_us) ? 0 : limit_us};
    double alone_us;
    for (size_t p = 0; p < arrangement->n_pipelines; p++) {
        hunt->evaluations++;
        int rc = ah_pipeline_time(hunt->instance, &arrangement->pipelines[p], &alone_us, err);
        if (rc || alone_us >= limit_us)
            return rc;
    }
    const uint64_t cost = hunt->exhausting ? 1 : 1 + passes_of(arrangement) / SIMULATED_PASSES;
    hunt->evaluations += cost;
    ah_draft_sort(draft);
    int rc = ah_stage_sim_run(hunt->instance, arrangement, &result, err);
    if (rc)
        return rc;
    *ret_us = result.step_us;
    if (result.step_us >= limit_us || isinf(result.step_us) || !hunt->limits ||
        ah_limits_longest_us(arrangement) <= 0)
        return AH_OK;
    uint64_t simulations = 0;
    ah_draft_copy(&hunt->limited, draft);
    rc = ah_limits_choose(hunt->instance, &hunt->limited.arrangement, ret_us, &simulations, err);
    hunt->evaluations += simulations * cost;
    return rc;
}

int ah_hunt_time(struct ah_hunt *hunt, struct ah_draft *draft, double limit_us, double *ret_us,
                 struct ah_error *err)
{
    uint64_t passes = 0;
    *ret_us = INFINITY;
    if (!ah_groups_allow(hunt->instance, &draft->arrangement))
        return AH_OK;
    if (!hunt->rough)
        return simulate(hunt, draft, limit_us, ret_us, err);
    ah_draft_sort(draft);
    int rc = ah_estimate_time(hunt->instance, &draft->arrangement, ret_us, &passes, err);
    hunt->evaluations += 1 + draft->n_stages / 4 + passes / ESTIMATED_PASSES;
    return rc;
}

void ah_hunt_keep(struct ah_hunt *hunt, const struct ah_draft *draft, double us)
{
    if (draft != hunt->best)
        ah_draft_copy(hunt->best, draft);
    hunt->best_us = us;
    hunt->found = true;
}

static int make_starts(struct ah_hunt *hunt, struct ah_error *err)
{
    int rc = AH_OK;
    for (size_t i = 0; i < AH_HUNT_STARTS && !rc; i++)
        rc = ah_draft_init(&hunt->starts[i].draft, hunt->instance, err);
    rc = rc ? rc : ah_draft_init(&hunt->limited, hunt->instance, err);
    return rc;
}

static void sort_starts(struct ah_hunt *hunt)
{
    for (size_t i = 1; i < hunt->n_starts; i++)
        for (size_t j = i; j > 0 && hunt->starts[j].us < hunt->starts[j - 1].us; j--) {
            struct ah_hunt_start other = hunt->starts[j];
            hunt->starts[j] = hunt->starts[j - 1];
            hunt->starts[j - 1] = other;
        }
}

/* Improves the starts, which share the budget, and sorts them again. */
static int improve_starts(struct ah_hunt *hunt, struct ah_error *err)
{
    size_t n = hunt->n_starts;
    int rc = AH_OK;
    for (size_t i = 0; i < n && !rc; i++) {
        uint64_t left = hunt->budget > hunt->evaluations ? hunt->budget - hunt->evaluations : 0;
        rc = ah_hunt_improve(hunt, &hunt->starts[i], hunt->evaluations + left / (n - i), err);
    }
    sort_starts(hunt);
    return rc;
}

/* Simulates the best estimated starts, and improves the fastest of them by simulation. */
static int confirm(struct ah_hunt *hunt, uint64_t polish, struct ah_error *err)
{
    int rc = AH_OK;
    hunt->rough = false;
    hunt->n_starts = hunt->n_starts < CONFIRMED_STARTS ? hunt->n_starts : CONFIRMED_STARTS;
    for (size_t i = 0; i < hunt->n_starts && !rc; i++)
        rc = ah_hunt_time(hunt, &hunt->starts[i].draft, INFINITY, &hunt->starts[i].us, err);
    sort_starts(hunt);
    if (!rc && hunt->n_starts)
        rc = ah_hunt_improve(hunt, &hunt->starts[0], hunt->evaluations + polish, err);
    return rc;
}

static int add_given(struct ah_hunt *hunt, const struct ah_arrangement *start, struct ah_error *err)
{
    struct ah_draft draft;
    double us;
    int rc = ah_draft_init(&draft, hunt->instance, err);
    if (rc)
        return rc;
    ah_draft_take(&draft, start);
    rc = ah_hunt_time(hunt, &draft, INFINITY, &us, err);
    if (!rc && !isinf(us))
        ah_hunt_add_start(hunt, &draft, us);
    ah_draft_release(&draft);
    return rc;
}

/* If blocks may be away: gives each start the limit on its update that suits it best. */
static int choose_limits(struct ah_hunt *hunt, struct ah_error *err)
{
    int rc = AH_OK;
    for (size_t i = 0; i < hunt->n_starts && !rc; i++) {
        ah_draft_sort(&hunt->starts[i].draft);
        rc = ah_limits_choose(hunt->instance, &hunt->starts[i].draft.arrangement, &hunt->starts[i].us,
                              &hunt->evaluations, err);
    }
    sort_starts(hunt);
    return rc;
}

/* Steps 1 to 3. */
static int search(struct ah_hunt *hunt, const struct ah_hunt_limits *limits, struct ah_error *err)
{
    bool rough = hunt->rough = ah_instance_units(hunt->instance) > ROUGH_UNITS;
    int rc = ah_hunt_starts(hunt, err);
    if (!rc && limits->start)
        rc = add_given(hunt, limits->start, err);
    hunt->limits = ah_instance_units(hunt->instance) <= LIMITED_UNITS;
    rc = rc ? rc : improve_starts(hunt, err);
    hunt->budget = hunt->evaluations + limits->shaking;
    if (!rc && hunt->n_starts)
        rc = ah_hunt_shake(hunt, err);
    if (!rc && rough)
        rc = confirm(hunt, limits->shaking / 2, err);
    if (!rc && hunt->instance->update_limit_us > 0)
        rc = choose_limits(hunt, err);
    if (!rc && hunt->n_starts && hunt->starts[0].us < hunt->best_us)
        ah_hunt_keep(hunt, &hunt->starts[0].draft, hunt->starts[0].us);
    return rc;
}

static void release(struct ah_hunt *hunt)
{
    for (size_t i = 0; i < AH_HUNT_STARTS; i++)
        ah_draft_release(&hunt->starts[i].draft);
    ah_draft_release(&hunt->limited);
    ah_fits_release(&hunt->fits);
}

int ah_hunt_run(const struct ah_instance *instance, const struct ah_hunt_limits *limits, double none_above_us,
                struct ah_draft *best, struct ah_hunt_result *ret_result, struct ah_error *err)
{
    struct ah_hunt hunt = {
        .instance = instance, .best = best, .best_us = none_above_us, .budget = limits->improvements};
    bool exhausted = false;
    double relaxed_us = 0;
    int rc = ah_relaxation_time(instance, &relaxed_us, err);
    rc = rc ? rc : ah_fits_init(&hunt.fits, instance, err);
    rc = rc ? rc : make_starts(&hunt, err);
    if (!rc && relaxed_us < none_above_us)
        rc = search(&hunt, limits, err);
    hunt.budget = hunt.evaluations + limits->exhaustion;
    hunt.exhausting = true;
    if (relaxed_us >= hunt.best_us)
        exhausted = true;
    else if (!rc && limits->exhaustion)
        rc = ah_hunt_exhaust(&hunt, &exhausted, err);
    if (!rc)
        *ret_result = (struct ah_hunt_result){.step_us = hunt.found ? hunt.best_us : (double)INFINITY,
                                              .bound_us = exhausted ? hunt.best_us : relaxed_us,
                                              .exhausted = exhausted,
                                              .evaluations = hunt.evaluations};
    release(&hunt);
    return rc;
}
