/* SPDX-License-Identifier: Apache-2.0
 *
 * Search, in this order:
 *   1. starts (starts.h), one for each of CHAINS chains
 *   2. ROUNDS rounds of annealing with the same share of the work each, split among the chains that are left. After a
 *      round the better half of the chains goes on, colder
 *   3. knobs of the best, one by one
 *   4. where assignments are few: all of them, with the knobs found and some others; again if knobs change then
 */
#include "planner/search.h"

#include "planner/anneal.h"
#include "planner/assignments.h"
#include "planner/knobs.h"
#include "planner/starts.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { CHAINS = 8, ROUNDS = 4, LAST_CHAINS = 2 };

/* By round: shares of what a block takes of the period, on average. */
static const double temperatures[ROUNDS + 1] = {0.12, 0.08, 0.05, 0.03, 0.012};

struct chain {
    struct ah_anneal anneal;
    struct runner *runner;
    bool on_caller; /* runs on the thread that called the search */
    int rc;
    struct ah_error err;
};

struct runner {
    const struct ah_search *search;
    struct ah_arena arena;
    struct chain chains[CHAINS];
    struct chain *order[CHAINS]; /* the best first */
    size_t n;
    int round;
    atomic_uint_fast64_t evaluations;
    atomic_bool stopped;
};

/* Only the caller's thread asks the caller. */
static bool stop(void *context, uint64_t evaluations)
{
    struct chain *chain = context;
    struct runner *r = chain->runner;
    const struct ah_trial_limits *limits = &r->search->trial->limits;
    (void)evaluations;
    uint64_t all = r->search->trial->evaluations + atomic_fetch_add(&r->evaluations, 1) + 1;
    if (chain->on_caller && limits->stop && limits->stop(limits->context, all))
        atomic_store(&r->stopped, true);
    return atomic_load(&r->stopped);
}

/* ---- rounds ---- */

static void run_chain(void *context, size_t i, unsigned worker)
{
    struct runner *r = context;
    struct chain *chain = r->order[i];
    struct ah_trial *trial = &chain->anneal.trial;
    double share = 1 / (double)trial->limits.job->n_blocks;
    chain->on_caller = !worker;
    trial->limits.work = trial->spent + 1 + r->search->work / (ROUNDS * r->n);
    chain->rc = ah_anneal_run(&chain->anneal, share * temperatures[r->round],
                              share * temperatures[r->round + 1], &chain->err);
}

static bool is_better(const struct chain *a, const struct chain *b)
{
    const struct ah_trial *x = &a->anneal.trial, *y = &b->anneal.trial;
    if (x->found != y->found)
        return x->found;
    if (x->found)
        return x->best.score.period_us < y->best.score.period_us;
    return a->anneal.height.over_bytes < b->anneal.height.over_bytes;
}

static void sort_chains(struct runner *r)
{
    for (size_t i = 1; i < r->n; i++) {
        struct chain *chain = r->order[i];
        size_t at = i;
        for (; at > 0 && is_better(chain, r->order[at - 1]); at--)
            r->order[at] = r->order[at - 1];
        r->order[at] = chain;
    }
}

static int run_rounds(struct runner *r, struct ah_error *err)
{
    for (r->round = 0; r->round < ROUNDS && r->n; r->round++) {
        ah_pool_run(r->search->pool, run_chain, r, r->n);
        for (size_t i = 0; i < r->n; i++) {
            if (r->order[i]->rc) {
                *err = r->order[i]->err;
                return r->order[i]->rc;
            }
        }
        sort_chains(r);
        if (r->n > LAST_CHAINS)
            r->n = (r->n + 1) / 2;
    }
    return AH_OK;
}

/* ---- chains ---- */

static int open_chains(struct runner *r, struct ah_error *err)
{
    const struct ah_search *search = r->search;
    struct ah_start starts[CHAINS];
    size_t n;
    int rc = ah_starts_find(search, CHAINS, &r->arena, starts, &n, err);
    for (size_t i = 0; i < n && !rc; i++) {
        struct chain *chain = &r->chains[i];
        struct ah_trial_limits limits = search->trial->limits;
        chain->runner = r;
        chain->on_caller = true;
        limits.work = 0;
        limits.stop = stop;
        limits.context = chain;
        rc = ah_anneal_init(&chain->anneal, &limits, search->allowed, i + 1, err);
        r->n += !rc;
        chain->anneal.trial.us_per_byte = search->us_per_byte;
        rc = rc ? rc : ah_anneal_start(&chain->anneal, starts[i].configs, &starts[i].knobs, err);
        r->order[i] = chain;
    }
    return rc;
}

/* What the chains found, into the search's trial. */
static int gather(struct runner *r, struct ah_error *err)
{
    struct ah_trial *trial = r->search->trial;
    int rc = AH_OK;
    for (size_t i = 0; i < CHAINS && !rc; i++) {
        const struct ah_trial *found = &r->chains[i].anneal.trial;
        enum ah_verdict verdict;
        if (found->found)
            rc = ah_trial_run(trial, found->best.configs, &found->best.knobs, &verdict, err);
        trial->evaluations += found->evaluations;
        trial->spent += found->spent;
        if (found->evaluations && found->least_device_bytes < trial->least_device_bytes)
            trial->least_device_bytes = found->least_device_bytes;
        if (found->evaluations && found->least_host_bytes < trial->least_host_bytes)
            trial->least_host_bytes = found->least_host_bytes;
    }
    return rc;
}

/* ---- the rest ---- */

/* All assignments with these knobs and, where that is not too many, with their kinds. */
static int try_all_with(const struct ah_search *search, const struct ah_vary *vary,
                        const struct ah_knobs *knobs, struct ah_error *err)
{
    struct ah_knobs kinds[AH_KNOBS_KINDS_MAX];
    size_t n = ah_knobs_kinds(vary->job, knobs, search->orders, kinds);
    bool few = ah_assignments_count(vary) <= search->all_below / n;
    int rc = ah_assignments_try(search->trial, vary, knobs, err);
    for (size_t i = 0; i < n && few && !rc; i++)
        rc = ah_assignments_try(search->trial, vary, &kinds[i], err);
    return rc;
}

/* Where assignments are few: all of them, again where better knobs follow. */
static int try_all(const struct ah_search *search, struct ah_error *err)
{
    struct ah_trial *trial = search->trial;
    const struct ah_job *job = trial->limits.job;
    const struct ah_vary vary = {job, search->allowed};
    bool improved = ah_assignments_count(&vary) <= search->all_below;
    int rc = AH_OK;
    for (int round = 0; improved && round < ROUNDS && !rc; round++) {
        double before_us = trial->found ? trial->best.score.period_us : 0;
        struct ah_knobs knobs = ah_knobs_leanest(job, search->scheduling, AH_MICRO_BATCH_MAJOR);
        if (trial->found)
            knobs = ah_knobs_with_states(&trial->best.knobs);
        rc = try_all_with(search, &vary, &knobs, err);
        rc = rc ? rc : ah_knobs_sweep(trial, false, err);
        improved = trial->found && trial->best.score.period_us != before_us &&
                   !ah_knobs_equal(&knobs, &trial->best.knobs);
    }
    return rc;
}

int ah_search_run(const struct ah_search *search, struct ah_error *err)
{
    struct runner *r = calloc(1, sizeof *r);
    if (!r)
        return ah_error_memory(err);
    r->search = search;
    int rc = open_chains(r, err);
    rc = rc ? rc : run_rounds(r, err);
    rc = rc ? rc : gather(r, err);
    for (size_t i = 0; i < CHAINS; i++)
        if (r->chains[i].runner)
            ah_anneal_release(&r->chains[i].anneal);
    ah_arena_release(&r->arena);
    free(r);
    rc = rc ? rc : ah_knobs_sweep(search->trial, false, err);
    return rc ? rc : try_all(search, err);
}
