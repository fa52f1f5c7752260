/* SPDX-License-Identifier: Apache-2.0
 *
 * Search, in this order:
 *   1. starts: candidates of the MILP, placed in several orders; every block the same config
 *   2. walks over shapes (shapes.h) from the candidates' marginal counts; knobs; a walk with these knobs
 *   3. knobs, then moves, then knobs, until a round brings nothing
 *   4. where assignments are few: all of them, with the knobs found; again if knobs change then; where they are
 *      many: shakes, some blocks of the best at random and down again
 */
#include "planner/search.h"

#include "planner/knobs.h"
#include "planner/search_internal.h"
#include "planner/shapes.h"

#include <stdlib.h>
#include <string.h>

enum { ROUNDS_MAX = 64 };

/* ---- walks ---- */

enum { WALKS_OF_A_BUDGET = 8 };

/* A walk with a share of the budget. */
static int walk(struct mover *m, struct ah_shape *shape)
{
    uint64_t limit = m->trial->limits.evaluations;
    uint64_t spent = ah_trial_spent(m->trial);
    uint64_t share = spent + (limit > spent ? limit - spent : 0) / WALKS_OF_A_BUDGET;
    m->trial->limits.evaluations = limit ? share : 0;
    int rc = ah_shapes_walk(m->trial, m->search->allowed, &m->knobs, 0, shape, m->err);
    m->trial->limits.evaluations = limit;
    return rc;
}

/* From the best's counts, with its knobs. */
static int walk_on(struct mover *m)
{
    ah_mover_take_knobs(m);
    struct ah_shape shape = ah_shapes_of_configs(m->job, m->trial->best.configs);
    return walk(m, &shape);
}

static int walks(struct mover *m, const struct ah_knobs *knobs)
{
    int rc = m->trial->found && !m->search->knobs ? walk_on(m) : AH_OK;
    m->knobs = *knobs;
    for (size_t i = 0; i < 2 && !rc; i++) {
        for (size_t k = 0; k < m->search->n_counts && !rc; k++) {
            const struct ah_milp_result *counts = &m->search->counts[k];
            if (i >= counts->n_candidates)
                continue;
            struct ah_shape shape = ah_shapes_of_counts(m->job, counts, counts->candidates[i].counts);
            rc = walk(m, &shape);
        }
    }
    for (int round = 0; round < 2 && !rc && m->trial->found && !m->search->knobs; round++) {
        rc = ah_knobs_sweep(m->trial, false, m->err);
        rc = rc ? rc : walk_on(m);
    }
    return rc;
}

static int begin(struct mover *m, const struct ah_knobs *knobs)
{
    m->knobs = *knobs;
    int rc = ah_mover_start(m);
    return rc ? rc : walks(m, knobs);
}

/* Knobs and moves in turn. */
static int improve(struct mover *m)
{
    double before_us = 0;
    int rc = AH_OK;
    for (int round = 0; round < ROUNDS_MAX && !rc && m->trial->found && !m->spent; round++) {
        if (m->trial->best.score.period_us == before_us)
            break;
        before_us = m->trial->best.score.period_us;
        if (!m->search->knobs)
            rc = ah_knobs_sweep(m->trial, false, m->err);
        if (!rc)
            rc = ah_mover_climb(m);
    }
    return rc;
}

int ah_search_run(const struct ah_search *search, struct ah_error *err)
{
    const struct ah_job *job = search->trial->limits.job;
    struct mover m = {.search = search, .trial = search->trial, .job = job, .n = job->n_blocks, .err = err};
    struct ah_config *configs = malloc(3 * m.n * sizeof *configs);
    if (!configs)
        return ah_error_memory(err);
    m.base = configs;
    m.moved = configs + m.n;
    m.both = configs + 2 * m.n;
    struct ah_knobs first = ah_knobs_first(job, search->scheduling, search->micro_order);
    struct ah_knobs leanest = ah_knobs_leanest(job, search->scheduling, search->micro_order);
    int rc = begin(&m, search->knobs ? search->knobs : &first);
    if (!rc && !m.trial->found && !search->knobs)
        rc = begin(&m, &leanest);
    rc = rc ? rc : improve(&m);
    if (!rc)
        rc = ah_mover_can_try_all(&m) ? ah_mover_try_all(&m) : ah_mover_shake(&m);
    free(configs);
    return rc;
}
