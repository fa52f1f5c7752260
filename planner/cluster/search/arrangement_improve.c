/* SPDX-License-Identifier: Apache-2.0
 *
 * Improvement: makes the first change that makes the simulation faster. Repeats this until no change helps or the
 * budget is spent. Changes, from small to large:
 *
 *   a block moves to the stage before or behind · a micro-batch moves to another pipeline, or groups swap ·
 *   a unit stops working, or starts · two units swap · a unit moves
 *
 * The last three kinds split blocks and share micro-batches anew.
 */
#include "planner/cluster/search/arrangement_search_internal.h"

#include <math.h>

struct improving {
    struct ah_arrangement_search *search;
    struct ah_arrangement_search_start *at; /* the arrangement being improved */
    struct ah_draft trial;
    bool better;     /* the trial was faster and is now in `at` */
    uint64_t budget; /* stop at this number of evaluations of the search */
    struct ah_error *err;
};

enum { NEIGHBOUR_PLACES = 4 }; /* number of places tried in a pipeline for a moved unit */

static bool must_stop(const struct improving *m)
{
    return m->better || m->search->evaluations >= m->budget;
}

/* Times the trial if it fits. Copies a faster trial to `at`, otherwise resets the trial to `at`. */
static int judge_trial(struct improving *m, bool fits)
{
    double us = INFINITY, limit_us = m->at->us * (1 - 1e-9);
    m->search->evaluations++;
    int rc = fits ? ah_arrangement_search_time(m->search, &m->trial, limit_us, &us, m->err) : AH_OK;
    m->better = !rc && us < limit_us;
    if (!m->better) {
        ah_draft_copy(&m->trial, &m->at->draft);
        return rc;
    }
    ah_draft_copy(&m->at->draft, &m->trial);
    m->at->us = us;
    return rc;
}

static int judge_anew(struct improving *m)
{
    return judge_trial(m, ah_draft_mend(&m->trial, &m->search->fits));
}

/* True if two pipelines have equal stages. */
static bool alike(const struct ah_pipeline *p, const struct ah_pipeline *q)
{
    bool same = p->n_stages == q->n_stages;
    for (size_t i = 0; i < p->n_stages && same; i++)
        same = p->stages[i].class == q->stages[i].class && p->stages[i].end == q->stages[i].end;
    return same;
}

/* Moves the end of a stage by one block; with `all`, in every pipeline equal to this one. */
static int shift_block(struct improving *m, size_t p, size_t i, bool back, bool all)
{
    struct ah_arrangement *arrangement = &m->trial.arrangement;
    const struct ah_pipeline *given = &m->at->draft.arrangement.pipelines[p];
    bool fits = true;
    for (size_t q = all ? 0 : p; q < (all ? arrangement->n_pipelines : p + 1) && fits; q++) {
        struct ah_pipeline *pipeline = &arrangement->pipelines[q];
        if (!alike(given, &m->at->draft.arrangement.pipelines[q]))
            continue;
        pipeline->stages[i].end += back ? (size_t)-1 : 1;
        pipeline->stages[i + 1].first = pipeline->stages[i].end;
        fits = ah_fits_pipeline(&m->search->fits, pipeline);
    }
    return judge_trial(m, fits);
}

static int shift_blocks(struct improving *m)
{
    int rc = AH_OK;
    for (size_t p = 0; p < m->trial.arrangement.n_pipelines; p++)
        for (size_t i = 0; i < 4 * (m->trial.arrangement.pipelines[p].n_stages - 1) && !must_stop(m) && !rc;
             i++) {
            const struct ah_stage *stage = &m->trial.arrangement.pipelines[p].stages[i / 4];
            bool back = i % 2 == 0;
            if ((back ? stage->end - stage->first : stage[1].end - stage[1].first) >= 2)
                rc = shift_block(m, p, i / 4, back, i / 2 % 2);
        }
    return rc;
}

static int move_micro_batches(struct improving *m)
{
    size_t n = m->trial.arrangement.n_pipelines;
    int rc = AH_OK;
    for (size_t i = 0; i < n * n && !must_stop(m) && !rc; i++) {
        struct ah_pipeline *from = &m->trial.arrangement.pipelines[i / n];
        struct ah_pipeline *to = &m->trial.arrangement.pipelines[i % n];
        if (from == to || !ah_draft_pass_on(&m->trial, from, to))
            continue;
        rc = judge_trial(m,
                         ah_fits_pipeline(&m->search->fits, from) && ah_fits_pipeline(&m->search->fits, to));
    }
    return rc;
}

/* Tries an idle unit before stage `at` (counted over all pipelines), behind it if it is the last, and instead of it. */
static int use_unit(struct improving *m, size_t at, size_t class)
{
    size_t p, i;
    ah_draft_find(&m->trial, at, &p, &i);
    bool last = i + 1 == m->trial.arrangement.pipelines[p].n_stages;
    ah_draft_insert(&m->trial, p, i, class);
    int rc = judge_anew(m);
    if (!rc && !must_stop(m) && last) {
        ah_draft_insert(&m->trial, p, i + 1, class);
        rc = judge_anew(m);
    }
    if (!rc && !must_stop(m)) {
        m->trial.stages[at].class = class;
        m->trial.stages[at].end = 0;
        rc = judge_anew(m);
    }
    return rc;
}

static int use_or_drop(struct improving *m)
{
    size_t p, i;
    int rc = AH_OK;
    for (size_t class = 0; class < m->search->problem->n_classes; class ++)
        for (size_t at = 0; at < m->trial.n_stages && ah_draft_idle(&m->trial, class) && !must_stop(m) && !rc;
             at++)
            rc = use_unit(m, at, class);
    for (size_t at = 0; at < m->trial.n_stages && m->trial.n_stages > 1 && !must_stop(m) && !rc; at++) {
        ah_draft_find(&m->trial, at, &p, &i);
        ah_draft_remove(&m->trial, p, i);
        rc = judge_anew(m);
    }
    return rc;
}

static int swap_units(struct improving *m)
{
    int rc = AH_OK;
    for (size_t i = 0; i < m->trial.n_stages; i++)
        for (size_t j = i + 1; j < m->trial.n_stages && !must_stop(m) && !rc; j++) {
            struct ah_stage *a = &m->trial.stages[i], *b = &m->trial.stages[j];
            size_t class = a->class;
            if (class == b->class)
                continue;
            a->class = b->class;
            b->class = class;
            a->end = b->end = 0;
            rc = judge_anew(m);
        }
    return rc;
}

static int move_units(struct improving *m)
{
    int rc = AH_OK;
    for (size_t at = 0; at < m->trial.n_stages; at++)
        for (size_t q = 0; q < m->trial.arrangement.n_pipelines; q++)
            for (size_t place = 0; place < NEIGHBOUR_PLACES && !must_stop(m) && !rc; place++) {
                size_t p, i, class = m->trial.stages[at].class, n = m->trial.arrangement.n_pipelines;
                ah_draft_find(&m->trial, at, &p, &i);
                ah_draft_remove(&m->trial, p, i);
                bool same = m->trial.arrangement.n_pipelines == n && q < n;
                size_t room = same ? m->trial.arrangement.pipelines[q].n_stages : 0;
                if (!same || place > room) {
                    ah_draft_copy(&m->trial, &m->at->draft);
                    break;
                }
                ah_draft_insert(&m->trial, q, place, class);
                rc = judge_anew(m);
            }
    return rc;
}

static int improve_draft(struct improving *m)
{
    int (*const changes[])(struct improving *) = {shift_blocks, move_micro_batches, use_or_drop, swap_units,
                                                  move_units};
    int rc = AH_OK;
    ah_draft_copy(&m->trial, &m->at->draft);
    for (m->better = true; m->better && m->search->evaluations < m->budget && !rc;) {
        m->better = false;
        for (size_t i = 0; i < sizeof changes / sizeof *changes && !must_stop(m) && !rc; i++)
            rc = changes[i](m);
    }
    return rc;
}

int ah_arrangement_search_improve(struct ah_arrangement_search *search,
                                  struct ah_arrangement_search_start *start, uint64_t budget,
                                  struct ah_error *err)
{
    struct improving m = {.search = search, .at = start, .budget = budget, .err = err};
    int rc = ah_draft_init(&m.trial, search->problem, err);
    if (!rc)
        rc = improve_draft(&m);
    ah_draft_release(&m.trial);
    return rc;
}
