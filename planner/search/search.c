/* SPDX-License-Identifier: Apache-2.0
 *
 * Search, in this order:
 *   1. starts (starts.h), one for each of CHAINS chains
 *   2. ROUNDS rounds of annealing with equal shares of the work, divided among the remaining chains. After each round
 *      the better half of the chains continues, at a lower temperature
 *   3. a climb from the chains' results; with few blocks, 2 and 3 are repeated
 *   4. if blocks or assignments are few: all assignments that may be faster, unless there are too many, with the knobs
 *      found; after that a climb from the best of them. Step 4 is repeated while it improves the knobs
 */
#include "planner/search/search.h"

#include "planner/search/anneal.h"
#include "planner/search/assignments.h"
#include "planner/search/knobs.h"
#include "planner/search/starts.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { CHAINS = 8, ROUNDS = 4, LAST_CHAINS = 2, LISTED = 32 };

/* With few blocks, many short runs beat one long run, because luck matters more than length. A run gets 1 /
 * SHARE_OF_RUN of the work. */
enum { SHARE_OF_RUN = 8 };

/* Temperatures at the start of each round and after the last. Unit: the period divided by the number of blocks. */
static const double temperatures[ROUNDS + 1] = {0.12, 0.08, 0.05, 0.03, 0.012};

struct chain {
    struct ah_anneal anneal;
    struct runner *runner;
    bool on_caller; /* it runs on the thread that called the search */
    int rc;
    struct ah_error err;
};

struct runner {
    const struct ah_search *search;
    struct ah_shortlist list;
    struct ah_arena arena;
    struct ah_assignments sets[AH_SEARCH_ORDERS]; /* by order of micro-batches */
    struct chain chains[CHAINS];
    struct chain *order[CHAINS]; /* the chains, best first */
    size_t n;
    int round;
    uint64_t work; /* work of one run (evaluator.h) */
    struct ah_start starts[CHAINS];
    size_t n_starts;
    atomic_uint_fast64_t evaluations;
    atomic_bool stopped;
};

/* Returns true if the chain must stop. The user's callback is called only on the thread that called the search. */
static bool must_stop(void *context, uint64_t evaluations)
{
    struct chain *chain = context;
    struct runner *r = chain->runner;
    const struct ah_evaluator_limits *limits = &r->search->evaluator->limits;
    (void)evaluations;
    uint64_t all = r->search->evaluator->evaluations + atomic_fetch_add(&r->evaluations, 1) + 1;
    if (chain->on_caller && limits->stop && limits->stop(limits->context, all))
        atomic_store(&r->stopped, true);
    return atomic_load(&r->stopped);
}

/* ---- rounds ---- */

static void run_chain(void *context, size_t i, unsigned worker)
{
    struct runner *r = context;
    struct chain *chain = r->order[i];
    struct ah_evaluator *evaluator = &chain->anneal.evaluator;
    double share = 1 / (double)evaluator->limits.job->n_blocks;
    chain->on_caller = !worker;
    evaluator->limits.work = evaluator->spent + 1 + r->work / (ROUNDS * r->n);
    chain->rc = ah_anneal_run(&chain->anneal, share * temperatures[r->round],
                              share * temperatures[r->round + 1], &chain->err);
}

static bool is_better(const struct chain *a, const struct chain *b)
{
    const struct ah_evaluator *x = &a->anneal.evaluator, *y = &b->anneal.evaluator;
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

/* Opens a chain for each start. Its random numbers depend on the run and the start. */
static int open_chains(struct runner *r, size_t run, struct ah_error *err)
{
    const struct ah_search *search = r->search;
    int rc = AH_OK;
    r->n = 0;
    for (size_t i = 0; i < r->n_starts && !rc; i++) {
        struct chain *chain = &r->chains[i];
        struct ah_evaluator_limits limits = search->evaluator->limits;
        chain->runner = r;
        chain->on_caller = true;
        limits.work = 0;
        limits.stop = must_stop;
        limits.context = chain;
        rc = ah_anneal_init(&chain->anneal, &limits, search->allowed, run * CHAINS + i + 1, err);
        r->n += !rc;
        chain->anneal.evaluator.us_per_byte = search->us_per_byte;
        rc = rc ? rc : ah_anneal_start(&chain->anneal, r->starts[i].configs, &r->starts[i].knobs, err);
        r->order[i] = chain;
    }
    return rc;
}

static void close_chains(struct runner *r)
{
    for (size_t i = 0; i < CHAINS; i++) {
        if (r->chains[i].runner)
            ah_anneal_release(&r->chains[i].anneal);
        r->chains[i] = (struct chain){0};
    }
    atomic_store(&r->evaluations, 0);
}

/* Tries the chains' results in the search's evaluator, lists them, and adds up their work. */
static int gather_chains(struct runner *r, struct ah_error *err)
{
    struct ah_evaluator *evaluator = r->search->evaluator;
    int rc = AH_OK;
    for (size_t i = 0; i < CHAINS && !rc; i++) {
        const struct ah_evaluator *found = &r->chains[i].anneal.evaluator;
        enum ah_verdict verdict;
        if (found->found) {
            rc = ah_evaluator_try(evaluator, found->best.configs, &found->best.knobs, &verdict, err);
            ah_shortlist_take(&r->list, found->best.configs, &found->best.knobs, found->best.score.period_us);
        }
        evaluator->evaluations += found->evaluations;
        evaluator->spent += found->spent;
        if (found->evaluations && found->least_device_bytes < evaluator->least_device_bytes)
            evaluator->least_device_bytes = found->least_device_bytes;
        if (found->evaluations && found->least_host_bytes < evaluator->least_host_bytes)
            evaluator->least_host_bytes = found->least_host_bytes;
    }
    return rc;
}

/* ---- the rest ---- */

static int open_sets(struct runner *r, const struct ah_vary *vary, struct ah_error *err)
{
    const struct ah_search *search = r->search;
    int rc = AH_OK;
    for (int order = 0; order < search->orders && !rc; order++)
        rc = ah_assignments_init(&r->sets[order], vary, search->bounds[order], err);
    return rc;
}

static bool are_few(const struct runner *r)
{
    const struct ah_assignments *all = &r->sets[0];
    return all->n_blocks <= AH_FEW_BLOCKS ||
           ah_assignments_count(all, r->search->all_below) < r->search->all_below;
}

/* Limits the sets to assignments that may be faster than the best. */
static void narrow_sets(struct runner *r)
{
    const struct ah_evaluator *evaluator = r->search->evaluator;
    for (int order = 0; order < r->search->orders; order++) {
        const struct ah_milp_result *bound = r->search->bounds[order];
        if (bound && evaluator->found)
            r->sets[order].most_us = evaluator->best.score.period_us - bound->base_us;
    }
}

static int try_set(struct runner *r, const struct ah_knobs *knobs, struct ah_error *err)
{
    const struct ah_assignments *set = &r->sets[knobs->micro_order];
    uint64_t most = r->search->all_below;
    if (ah_assignments_count(set, most) == most)
        return AH_OK;
    return ah_assignments_try(set, r->search->evaluator, knobs, &r->list, err);
}

/* Tries the assignments, and repeats this while it finds better knobs. */
static int try_sets(struct runner *r, const struct ah_vary *vary, struct ah_error *err)
{
    const struct ah_search *search = r->search;
    struct ah_evaluator *evaluator = search->evaluator;
    int rc = open_sets(r, vary, err);
    bool improved = !rc && are_few(r);
    for (int round = 0; improved && round < ROUNDS && !rc; round++) {
        double before_us = evaluator->found ? evaluator->best.score.period_us : 0;
        struct ah_knobs knobs = ah_knobs_leanest(vary->job, search->scheduling, AH_MICRO_BATCH_MAJOR);
        if (evaluator->found)
            knobs = ah_knobs_with_states(&evaluator->best.knobs);
        narrow_sets(r);
        rc = try_set(r, &knobs, err);
        rc = rc ? rc : ah_shortlist_climb(&r->list, evaluator, vary, search->work, err);
        improved = evaluator->found && evaluator->best.score.period_us != before_us &&
                   !ah_knobs_equal(&knobs, &evaluator->best.knobs);
    }
    return rc;
}

/* Anneals from all starts, then climbs from the results. */
static int run_chains(struct runner *r, const struct ah_vary *vary, size_t run, struct ah_error *err)
{
    struct ah_evaluator *evaluator = r->search->evaluator;
    int rc = open_chains(r, run, err);
    rc = rc ? rc : run_rounds(r, err);
    rc = rc ? rc : gather_chains(r, err);
    close_chains(r);
    if (!rc && evaluator->found)
        ah_shortlist_take(&r->list, evaluator->best.configs, &evaluator->best.knobs,
                          evaluator->best.score.period_us);
    return rc ? rc : ah_shortlist_climb(&r->list, evaluator, vary, r->work / ROUNDS, err);
}

static int run_all(struct runner *r, struct ah_error *err)
{
    const struct ah_search *search = r->search;
    const struct ah_vary vary = {search->evaluator->limits.job, search->allowed};
    bool many = vary.job->n_blocks <= AH_FEW_BLOCKS && search->runs;
    size_t runs = many ? search->runs : 1;
    r->work = many ? search->work / SHARE_OF_RUN : search->work;
    int rc = ah_shortlist_init(&r->list, vary.job->n_blocks, LISTED, err);
    rc = rc ? rc : ah_starts_find(search, CHAINS, &r->arena, r->starts, &r->n_starts, err);
    for (size_t run = 0; run < runs && !rc; run++)
        rc = run_chains(r, &vary, run, err);
    return rc ? rc : try_sets(r, &vary, err);
}

int ah_search_run(const struct ah_search *search, struct ah_error *err)
{
    struct runner *r = calloc(1, sizeof *r);
    if (!r)
        return ah_error_memory(err);
    r->search = search;
    int rc = run_all(r, err);
    close_chains(r);
    for (int order = 0; order < AH_SEARCH_ORDERS; order++)
        ah_assignments_release(&r->sets[order]);
    ah_shortlist_release(&r->list);
    ah_arena_release(&r->arena);
    free(r);
    return rc;
}
