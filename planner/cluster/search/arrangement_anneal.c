/* SPDX-License-Identifier: Apache-2.0
 *
 * Shaking: simulated annealing, for arrangements that no series of improvements reaches. Each step makes a random
 * change of units, blocks or micro-batches. A slower arrangement is accepted with a probability that falls during a
 * round. Every other round begins with the best result so far. The rounds between begin, in turn, with the best result
 * for a different number of pipelines. Each round ends with an improvement.
 *
 * "Random" is a fixed sequence: the same problem and budget give the same arrangement.
 */
#include "planner/cluster/groups.h"
#include "planner/cluster/search/arrangement_search_internal.h"

#include <math.h>

enum { ROUND_EVALUATIONS = 1250, ROUGH_ROUND = 512, ROUGH_COOLER = 40, WAYS = 9, CHANGES_MOST = 3 };

/* How much slower an accepted arrangement may be on average, at the start and at the end of a round. */
static const double hot = 0.1, cold = 0.001;

struct shaking {
    struct ah_arrangement_search *search;
    struct ah_arrangement_search_start at;
    struct ah_draft trial;
    uint64_t random;
    struct ah_error *err;
};

static size_t draw_below(struct shaking *s, size_t below)
{
    s->random ^= s->random << 13;
    s->random ^= s->random >> 7;
    s->random ^= s->random << 17;
    return (size_t)((s->random >> 11) % below);
}

/* ---- changes of the trial. A pipeline that no longer covers all blocks is split anew afterwards. ---- */

/* Inserts a unit into a random pipeline, or makes it a new pipeline. */
static void put_unit(struct shaking *s, size_t class)
{
    struct ah_draft *draft = &s->trial;
    size_t p = draw_below(s, draft->arrangement.n_pipelines + 1);
    if (p < draft->arrangement.n_pipelines) {
        ah_draft_insert(draft, p, draw_below(s, draft->arrangement.pipelines[p].n_stages + 1), class);
    } else {
        ah_draft_open(draft);
        ah_draft_add(draft, class);
    }
}

static size_t take_unit(struct shaking *s)
{
    size_t p, i, at = draw_below(s, s->trial.n_stages), class = s->trial.stages[at].class;
    ah_draft_find(&s->trial, at, &p, &i);
    ah_draft_remove(&s->trial, p, i);
    return class;
}

static void swap(struct shaking *s)
{
    struct ah_stage *a = &s->trial.stages[draw_below(s, s->trial.n_stages)];
    struct ah_stage *b = &s->trial.stages[draw_below(s, s->trial.n_stages)];
    size_t class = a->class;
    a->class = b->class;
    b->class = class;
    a->end = b->end = 0;
}

/* Replaces a random working unit by an idle one. */
static void replace_unit(struct shaking *s, size_t class)
{
    struct ah_stage *stage = &s->trial.stages[draw_below(s, s->trial.n_stages)];
    stage->class = class;
    stage->end = 0;
}

/* Makes a random stage and those behind it a new pipeline. */
static void split_row(struct shaking *s)
{
    struct ah_draft *draft = &s->trial;
    size_t p, i, at = draw_below(s, draft->n_stages);
    ah_draft_find(draft, at, &p, &i);
    size_t n = draft->arrangement.pipelines[p].n_stages - i;
    if (i == 0)
        return;
    ah_draft_open(draft);
    for (size_t left = n; left; left--) {
        size_t class = draft->arrangement.pipelines[p].stages[i].class;
        ah_draft_remove(draft, p, i);
        ah_draft_add(draft, class);
    }
}

/* Appends the stages of a pipeline to those of another pipeline. */
static void join_rows(struct shaking *s)
{
    struct ah_draft *draft = &s->trial;
    size_t p = draw_below(s, draft->arrangement.n_pipelines),
           to = draw_below(s, draft->arrangement.n_pipelines);
    if (p == to)
        return;
    for (size_t left = draft->arrangement.pipelines[p].n_stages; left; left--) {
        size_t class = draft->arrangement.pipelines[p].stages[0].class;
        ah_draft_remove(draft, p, 0);
        to -= left == 1 && p < to;
        ah_draft_insert(draft, to, draft->arrangement.pipelines[to].n_stages, class);
    }
}

/* Returns the number of a pipeline's units of `class`. */
static size_t count_units(const struct ah_pipeline *pipeline, size_t class)
{
    size_t n = 0;
    for (size_t i = 0; i < pipeline->n_stages; i++)
        n += pipeline->stages[i].class == class;
    return n;
}

/* Makes pipeline `q` equal to `p`, if the units of `q` and idle units suffice for that. */
static void imitate(struct shaking *s, size_t p, size_t q)
{
    struct ah_pipeline *pipelines = s->trial.arrangement.pipelines;
    for (size_t class = 0; class < s->search->problem->n_classes; class ++)
        if (count_units(&pipelines[p], class) >
            count_units(&pipelines[q], class) + ah_draft_idle(&s->trial, class))
            return;
    while (pipelines[q].n_stages > pipelines[p].n_stages)
        ah_draft_remove(&s->trial, q, 0);
    while (pipelines[q].n_stages < pipelines[p].n_stages)
        ah_draft_insert(&s->trial, q, 0, 0);
    for (size_t i = 0; i < pipelines[p].n_stages; i++)
        pipelines[q].stages[i] = pipelines[p].stages[i];
}

/* Makes one other pipeline, or all, equal to a random one where possible. */
static void imitate_some(struct shaking *s)
{
    size_t n = s->trial.arrangement.n_pipelines, p = draw_below(s, n), one = draw_below(s, n);
    bool all = draw_below(s, 2);
    for (size_t q = 0; q < n; q++)
        if (q != p && (all || q == one))
            imitate(s, p, q);
}

static void change_units(struct shaking *s)
{
    size_t way = draw_below(s, WAYS), class = draw_below(s, s->search->problem->n_classes);
    bool idle = ah_draft_idle(&s->trial, class) > 0;
    if (way < 2)
        put_unit(s, take_unit(s));
    else if (way == 2 && draw_below(s, 2))
        split_row(s);
    else if (way == 2)
        join_rows(s);
    else if (way == 3 && idle)
        put_unit(s, class);
    else if (way == 4 && idle)
        replace_unit(s, class);
    else if (way == 5 && s->trial.n_stages > 1)
        take_unit(s);
    else
        swap(s);
}

/* Moves the end of a random stage. This stage and the next one keep at least one block each. */
static void change_blocks(struct shaking *s)
{
    struct ah_pipeline *p = &s->trial.arrangement.pipelines[draw_below(s, s->trial.arrangement.n_pipelines)];
    if (p->n_stages < 2)
        return;
    struct ah_stage *stage = &p->stages[draw_below(s, p->n_stages - 1)];
    size_t both = stage[1].end - stage->first;
    stage->end = stage[1].first = stage->first + 1 + draw_below(s, both - 1);
}

static void change_share(struct shaking *s)
{
    struct ah_arrangement *arrangement = &s->trial.arrangement;
    struct ah_pipeline *from = &arrangement->pipelines[draw_below(s, arrangement->n_pipelines)];
    struct ah_pipeline *to = &arrangement->pipelines[draw_below(s, arrangement->n_pipelines)];
    ah_draft_pass_on(&s->trial, from, to);
}

/* Splits changed pipelines for an average or random number of micro-batches, then shares out micro-batches anew. */
static bool split_and_share(struct shaking *s)
{
    struct ah_draft *draft = &s->trial;
    size_t n = draft->arrangement.n_pipelines;
    uint64_t total = draft->problem->micro_batches;
    if (!n || n > ah_groups_most_pipelines(draft->problem))
        return false;
    ah_draft_change_shared(draft);
    for (size_t p = 0; p < n; p++) {
        uint64_t share = draw_below(s, 2) ? (total + n - 1) / n : 1 + draw_below(s, total - n + 1);
        if (!ah_draft_covers(draft, p) && !ah_draft_split(draft, p, share, &s->search->fits))
            return false;
    }
    return ah_draft_share(draft, &s->search->fits);
}

static bool change(struct shaking *s)
{
    size_t way = draw_below(s, 6);
    if (way < 3) {
        for (size_t changes = draw_below(s, CHANGES_MOST) + 1; changes; changes--)
            change_units(s);
        if (!draw_below(s, 3))
            imitate_some(s);
        return split_and_share(s);
    }
    if (way == 3) {
        change_share(s);
    } else {
        change_blocks(s);
        if (!draw_below(s, 3))
            imitate_some(s);
        ah_draft_count_sharers(&s->trial);
        if (way == 4)
            return ah_draft_share(&s->trial, &s->search->fits);
    }
    bool fits = true;
    for (size_t p = 0; p < s->trial.arrangement.n_pipelines && fits; p++)
        fits = ah_fits_pipeline(&s->search->fits, &s->trial.arrangement.pipelines[p]);
    return fits;
}

/* ---- rounds ---- */

/* Makes one change and keeps it if it is fast enough. `warmth`: by how much it may be slower on average. */
static int try_change(struct shaking *s, double warmth)
{
    double us, share = (double)(1 + draw_below(s, 1000000)) / 1e6;
    double limit_us = s->at.us * (1 - warmth * log(share));
    ah_draft_copy(&s->trial, &s->at.draft);
    s->search->evaluations++;
    if (!change(s))
        return AH_OK;
    int rc = ah_arrangement_search_time(s->search, &s->trial, limit_us, &us, s->err);
    if (rc || us >= limit_us)
        return rc;
    ah_draft_copy(&s->at.draft, &s->trial);
    s->at.us = us;
    if (us < s->search->starts[0].us)
        ah_arrangement_search_add_start(s->search, &s->trial, us);
    return AH_OK;
}

static int anneal_round(struct shaking *s, const struct ah_arrangement_search_start *from)
{
    struct ah_arrangement_search *search = s->search;
    uint64_t length = ROUND_EVALUATIONS * (search->rough ? ROUGH_ROUND : 1);
    uint64_t begin = search->evaluations, end = begin + length;
    double warmth = search->rough ? hot / ROUGH_COOLER : hot;
    end = end < search->budget ? end : search->budget;
    int rc = AH_OK;
    ah_draft_copy(&s->at.draft, &from->draft);
    s->at.us = from->us;
    while (search->evaluations < end && !rc)
        rc = try_change(s, warmth * pow(cold / hot, (double)(search->evaluations - begin) / (double)length));
    rc = rc ? rc : ah_arrangement_search_improve(search, &s->at, search->budget, s->err);
    if (!rc)
        ah_arrangement_search_add_start(search, &s->at.draft, s->at.us);
    return rc;
}

int ah_arrangement_search_anneal(struct ah_arrangement_search *search, struct ah_error *err)
{
    struct shaking s = {.search = search, .random = 0x9e3779b97f4a7c15, .err = err};
    int rc = ah_draft_init(&s.trial, search->problem, err);
    rc = rc ? rc : ah_draft_init(&s.at.draft, search->problem, err);
    for (size_t round = 0; search->evaluations < search->budget && !rc; round++)
        rc = anneal_round(&s, &search->starts[round % 2 ? (round + 1) / 2 % search->n_starts : 0]);
    ah_draft_release(&s.trial);
    ah_draft_release(&s.at.draft);
    return rc;
}
