/* SPDX-License-Identifier: Apache-2.0
 *
 * Micro-batches are shared out one by one. Each goes to the pipeline that, by the formula, is the first to end with it.
 */
#include "planner/cluster/search/draft.h"

#include "planner/cluster/groups.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int ah_draft_init(struct ah_draft *ret_draft, const struct ah_cluster_problem *problem, struct ah_error *err)
{
    struct ah_draft draft = {.problem = problem, .room = ah_problem_units(problem)};
    draft.stages = calloc(draft.room, sizeof *draft.stages);
    draft.scratch = calloc(draft.room, sizeof *draft.scratch);
    draft.shares = calloc(draft.room, sizeof *draft.shares);
    draft.arrangement.pipelines = calloc(draft.room, sizeof *draft.arrangement.pipelines);
    if (!draft.stages || !draft.scratch || !draft.shares || !draft.arrangement.pipelines) {
        ah_draft_release(&draft);
        return ah_error_memory(err);
    }
    *ret_draft = draft;
    return AH_OK;
}

void ah_draft_release(struct ah_draft *draft)
{
    if (!draft)
        return;
    free(draft->stages);
    free(draft->scratch);
    free(draft->shares);
    free(draft->arrangement.pipelines);
    *draft = (struct ah_draft){0};
}

/* Sets each pipeline's pointer to its stages, after numbers of stages changed. */
static void place_stages(struct ah_draft *draft)
{
    struct ah_stage *at = draft->stages;
    for (size_t p = 0; p < draft->arrangement.n_pipelines; p++) {
        draft->arrangement.pipelines[p].stages = at;
        at += draft->arrangement.pipelines[p].n_stages;
    }
}

void ah_draft_copy(struct ah_draft *to, const struct ah_draft *from)
{
    memcpy(to->stages, from->stages, from->n_stages * sizeof *to->stages);
    memcpy(to->arrangement.pipelines, from->arrangement.pipelines,
           from->arrangement.n_pipelines * sizeof *to->arrangement.pipelines);
    to->n_stages = from->n_stages;
    to->arrangement.n_pipelines = from->arrangement.n_pipelines;
    place_stages(to);
}

void ah_draft_take(struct ah_draft *draft, const struct ah_arrangement *arrangement)
{
    ah_draft_begin(draft);
    for (size_t p = 0; p < arrangement->n_pipelines; p++) {
        const struct ah_pipeline *from = &arrangement->pipelines[p];
        ah_draft_open(draft);
        for (size_t i = 0; i < from->n_stages; i++) {
            ah_draft_add(draft, from->stages[i].class);
            draft->stages[draft->n_stages - 1] = from->stages[i];
        }
        draft->arrangement.pipelines[p].micro_batches = from->micro_batches;
    }
}

void ah_draft_begin(struct ah_draft *draft)
{
    draft->n_stages = 0;
    draft->arrangement.n_pipelines = 0;
}

void ah_draft_open(struct ah_draft *draft)
{
    draft->arrangement.pipelines[draft->arrangement.n_pipelines++] =
        (struct ah_pipeline){.stages = draft->stages + draft->n_stages};
}

void ah_draft_add(struct ah_draft *draft, size_t class)
{
    draft->stages[draft->n_stages++] = (struct ah_stage){.class = class};
    draft->arrangement.pipelines[draft->arrangement.n_pipelines - 1].n_stages++;
}

void ah_draft_insert(struct ah_draft *draft, size_t p, size_t i, size_t class)
{
    struct ah_pipeline *pipeline = &draft->arrangement.pipelines[p];
    size_t at = (size_t)(pipeline->stages - draft->stages) + i;
    memmove(draft->stages + at + 1, draft->stages + at, (draft->n_stages - at) * sizeof *draft->stages);
    draft->stages[at] = (struct ah_stage){.class = class};
    draft->n_stages++;
    pipeline->n_stages++;
    place_stages(draft);
}

void ah_draft_remove(struct ah_draft *draft, size_t p, size_t i)
{
    struct ah_pipeline *pipelines = draft->arrangement.pipelines;
    size_t at = (size_t)(pipelines[p].stages - draft->stages) + i;
    draft->n_stages--;
    memmove(draft->stages + at, draft->stages + at + 1, (draft->n_stages - at) * sizeof *draft->stages);
    if (--pipelines[p].n_stages == 0) {
        draft->arrangement.n_pipelines--;
        memmove(pipelines + p, pipelines + p + 1, (draft->arrangement.n_pipelines - p) * sizeof *pipelines);
    }
    place_stages(draft);
}

size_t ah_draft_idle(const struct ah_draft *draft, size_t class)
{
    size_t idle = draft->problem->classes[class].units;
    for (size_t i = 0; i < draft->n_stages; i++)
        idle -= draft->stages[i].class == class;
    return idle;
}

void ah_draft_find(const struct ah_draft *draft, size_t at, size_t *ret_pipeline, size_t *ret_stage)
{
    size_t p = 0;
    while (at >= draft->arrangement.pipelines[p].n_stages)
        at -= draft->arrangement.pipelines[p++].n_stages;
    *ret_pipeline = p;
    *ret_stage = at;
}

static int by_stages(const void *a, const void *b)
{
    const struct ah_pipeline *p = a, *q = b;
    for (size_t i = 0; i < p->n_stages && i < q->n_stages; i++) {
        const struct ah_stage *s = &p->stages[i], *t = &q->stages[i];
        if (s->class != t->class)
            return s->class < t->class ? -1 : 1;
        if (s->end != t->end)
            return s->end < t->end ? -1 : 1;
    }
    if (p->n_stages != q->n_stages)
        return p->n_stages < q->n_stages ? -1 : 1;
    return (p->micro_batches > q->micro_batches) - (p->micro_batches < q->micro_batches);
}

void ah_draft_sort(struct ah_draft *draft)
{
    struct ah_arrangement *arrangement = &draft->arrangement;
    size_t at = 0;
    if (!arrangement->n_pipelines)
        return;
    qsort(arrangement->pipelines, arrangement->n_pipelines, sizeof *arrangement->pipelines, by_stages);
    ah_groups_order(draft->problem, arrangement);
    for (size_t p = 0; p < arrangement->n_pipelines; p++) {
        memcpy(draft->scratch + at, arrangement->pipelines[p].stages,
               arrangement->pipelines[p].n_stages * sizeof *draft->scratch);
        at += arrangement->pipelines[p].n_stages;
    }
    memcpy(draft->stages, draft->scratch, at * sizeof *draft->stages);
    place_stages(draft);
}

/* Sets the time that the next micro-batch adds to a pipeline with fitted stages. */
static void price_micro_batch(const struct ah_draft *draft, size_t p)
{
    struct ah_pipeline next = draft->arrangement.pipelines[p];
    double now_us = ah_split_formula_us(draft->problem, &next);
    next.micro_batches++;
    draft->shares[p].next_us = ah_split_formula_us(draft->problem, &next);
    draft->shares[p].more_us = draft->shares[p].next_us - now_us;
}

/* Gives a pipeline one more micro-batch, unless it does not fit. Each one up to the number of stages adds one in
 * flight. Returns 1, or 0 if it did not fit; the pipeline then gets no more. */
static uint64_t give_micro_batch(const struct ah_draft *draft, size_t p, struct ah_fits *fits)
{
    struct ah_pipeline *pipeline = &draft->arrangement.pipelines[p];
    draft->shares[p].next_us += draft->shares[p].more_us;
    if (pipeline->micro_batches++ >= pipeline->n_stages)
        return 1;
    if (ah_fits_pipeline(fits, pipeline)) {
        price_micro_batch(draft, p);
        return 1;
    }
    pipeline->micro_batches--;
    ah_fits_pipeline(fits, pipeline);
    draft->shares[p].next_us = INFINITY;
    return 0;
}

/* ---- groups ---- */

/* Gives `micro_batches` to the pipeline that then ends first, among those with none. False: none of them has room. */
static bool give_share(const struct ah_draft *draft, uint64_t micro_batches, struct ah_fits *fits)
{
    const struct ah_arrangement *arrangement = &draft->arrangement;
    const size_t none = arrangement->n_pipelines;
    double best_us = INFINITY;
    size_t best = none;
    for (size_t p = 0; p < none; p++) {
        struct ah_pipeline *pipeline = &arrangement->pipelines[p];
        if (pipeline->micro_batches)
            continue;
        pipeline->micro_batches = micro_batches;
        const double us = ah_fits_pipeline(fits, pipeline) ? ah_split_formula_us(draft->problem, pipeline)
                                                           : (double)INFINITY;
        pipeline->micro_batches = 0;
        best = us < best_us ? p : best;
        best_us = fmin(us, best_us);
    }
    if (best == none)
        return false;
    arrangement->pipelines[best].micro_batches = micro_batches;
    return true;
}

/* Gives out the shares fixed by the groups, the largest first. */
static bool share_groups(const struct ah_draft *draft, struct ah_fits *fits)
{
    const struct ah_arrangement *arrangement = &draft->arrangement;
    const size_t n = arrangement->n_pipelines;
    if (n < draft->problem->groups.fewest)
        return false;
    for (size_t p = 0; p < n; p++)
        arrangement->pipelines[p].micro_batches = 0;
    for (uint64_t before = UINT64_MAX, next = 0, given = 0; given < n; before = next) {
        next = 0;
        for (size_t i = 0; i < n; i++) {
            const uint64_t share = ah_groups_share(draft->problem, n, i);
            next = share < before && share > next ? share : next;
        }
        for (size_t i = 0; i < n; i++)
            if (ah_groups_share(draft->problem, n, i) == next) {
                if (!give_share(draft, next, fits))
                    return false;
                given++;
            }
    }
    for (size_t p = 0; p < n; p++)
        if (!ah_fits_pipeline(fits, &arrangement->pipelines[p]))
            return false;
    return true;
}

bool ah_draft_share(struct ah_draft *draft, struct ah_fits *fits)
{
    const struct ah_arrangement *arrangement = &draft->arrangement;
    if (!arrangement->n_pipelines || arrangement->n_pipelines > ah_groups_most_pipelines(draft->problem))
        return false;
    if (draft->problem->groups.n)
        return share_groups(draft, fits);
    for (size_t p = 0; p < arrangement->n_pipelines; p++) {
        arrangement->pipelines[p].micro_batches = 1;
        if (!ah_fits_pipeline(fits, &arrangement->pipelines[p]))
            return false;
        price_micro_batch(draft, p);
    }
    for (uint64_t left = draft->problem->micro_batches - arrangement->n_pipelines; left;) {
        size_t first = 0;
        for (size_t p = 1; p < arrangement->n_pipelines; p++)
            if (draft->shares[p].next_us < draft->shares[first].next_us)
                first = p;
        if (isinf(draft->shares[first].next_us))
            return false;
        left -= give_micro_batch(draft, first, fits);
    }
    return true;
}

bool ah_draft_pass_on(const struct ah_draft *draft, struct ah_pipeline *from, struct ah_pipeline *to)
{
    const uint64_t changed = draft->problem->groups.n ? from->micro_batches - to->micro_batches : 1;
    const bool is =
        draft->problem->groups.n ? from->micro_batches > to->micro_batches : from->micro_batches > 1;
    from->micro_batches -= is ? changed : 0;
    to->micro_batches += is ? changed : 0;
    return is;
}

bool ah_draft_split(struct ah_draft *draft, size_t p, uint64_t micro_batches, struct ah_fits *fits)
{
    struct ah_pipeline *pipeline = &draft->arrangement.pipelines[p];
    pipeline->micro_batches = micro_batches;
    if (ah_split_best(fits, pipeline))
        return true;
    pipeline->micro_batches = 1;
    return ah_split_best(fits, pipeline);
}

bool ah_draft_covers(const struct ah_draft *draft, size_t p)
{
    const struct ah_pipeline *pipeline = &draft->arrangement.pipelines[p];
    size_t at = 0;
    for (size_t i = 0; i < pipeline->n_stages; at = pipeline->stages[i++].end)
        if (pipeline->stages[i].first != at || pipeline->stages[i].end <= at)
            return false;
    return at == draft->problem->n_blocks;
}

void ah_draft_count_sharers(struct ah_draft *draft)
{
    if (draft->problem->update_limit_us > 0)
        ah_arrangement_share(draft->problem, &draft->arrangement);
}

void ah_draft_change_shared(struct ah_draft *draft)
{
    const struct ah_cluster_problem *problem = draft->problem;
    memcpy(draft->scratch, draft->stages, draft->n_stages * sizeof *draft->scratch);
    ah_draft_count_sharers(draft);
    for (size_t i = 0; i < draft->n_stages; i++) {
        struct ah_stage *stage = &draft->stages[i];
        if (stage->sharers != draft->scratch[i].sharers &&
            ah_problem_has_host(problem, problem->classes[stage->class].kind))
            stage->end = 0;
    }
}

bool ah_draft_mend(struct ah_draft *draft, struct ah_fits *fits)
{
    uint64_t total = draft->problem->micro_batches, n = draft->arrangement.n_pipelines;
    if (!n || n > ah_groups_most_pipelines(draft->problem))
        return false;
    ah_draft_change_shared(draft);
    for (size_t p = 0; p < n; p++)
        if (!ah_draft_covers(draft, p) && !ah_draft_split(draft, p, (total + n - 1) / n, fits))
            return false;
    return ah_draft_share(draft, fits);
}

/* True if a split of p is also valid for q: their stages have the same kinds, sharers and sends. */
static bool splits_alike(const struct ah_cluster_problem *problem, const struct ah_pipeline *p,
                         const struct ah_pipeline *q)
{
    bool alike = p->n_stages == q->n_stages;
    for (size_t i = 0; i < p->n_stages && alike; i++) {
        const struct ah_stage *a = &p->stages[i], *b = &q->stages[i];
        alike =
            problem->classes[a->class].kind == problem->classes[b->class].kind && a->sharers == b->sharers;
        if (a->class == b->class && (i == 0 || a[-1].class == b[-1].class))
            continue;
        if (i > 0)
            alike &= ah_problem_send_us(problem, a[-1].class, a->class) ==
                         ah_problem_send_us(problem, b[-1].class, b->class) &&
                     ah_problem_send_us(problem, a->class, a[-1].class) ==
                         ah_problem_send_us(problem, b->class, b[-1].class);
    }
    return alike;
}

/* Copies the split of an earlier pipeline, if one is alike. All pipelines are split for the same micro-batches. */
static bool split_as_before(struct ah_draft *draft, size_t p)
{
    struct ah_pipeline *pipeline = &draft->arrangement.pipelines[p];
    for (size_t q = p; q-- > 0;) {
        const struct ah_pipeline *before = &draft->arrangement.pipelines[q];
        if (!splits_alike(draft->problem, pipeline, before))
            continue;
        for (size_t i = 0; i < pipeline->n_stages; i++) {
            pipeline->stages[i].first = before->stages[i].first;
            pipeline->stages[i].end = before->stages[i].end;
        }
        pipeline->micro_batches = before->micro_batches;
        return true;
    }
    return false;
}

bool ah_draft_finish(struct ah_draft *draft, struct ah_fits *fits)
{
    struct ah_arrangement *arrangement = &draft->arrangement;
    uint64_t total = draft->problem->micro_batches, n = arrangement->n_pipelines;
    if (!n || n > ah_groups_most_pipelines(draft->problem))
        return false;
    ah_draft_count_sharers(draft);
    for (size_t p = 0; p < n; p++)
        if (!split_as_before(draft, p) && !ah_draft_split(draft, p, (total + n - 1) / n, fits))
            return false;
    return ah_draft_share(draft, fits);
}
