/* SPDX-License-Identifier: Apache-2.0
 *
 * Exhaustion: every arrangement that could beat the best one.
 *
 * A CANDIDATE is a pipeline: a sequence of classes and a split of the blocks. Its cap is the most micro-batches that it
 * can do, without contention, before the best time minus its update. ah_pipeline_time() never exceeds the simulation,
 * so an arrangement with more than that is not better. Candidates with cap 0 are dropped. Let
 *
 *   room(R) = the most micro-batches that candidates on the units R take together
 *           = max over candidates c within R of cap(c) + room(R - units(c))                                       (1)
 *
 * for every vector R of units by class (a place in a lattice). A set of pipelines is extended only while its caps plus
 * the room of the remaining units reach all micro-batches (2). Sets grow in the order of candidates, so no set is seen
 * twice. For each set, every share of the micro-batches within the caps is simulated.
 *
 * If blocks may be away, each of these is simulated with every limit on the update that matters (update_limit.h). The
 * sum of forward and backward of a stage is shortest under the largest limit, but each of the two may not be. So for
 * the caps, such a stage is taken to be as fast as if everything fitted. The pipeline then takes at least as long as
 * its busiest stage, and as one micro-batch's path, with the shortest passes (3). These are the shortest over all
 * possible numbers of sharers of the hosts (4), because only the set decides that number.
 */
#include "planner/cluster/groups.h"
#include "planner/cluster/search/arrangement_search_internal.h"

#include "planner/cluster/search/update_limit.h"
#include "planner/cluster/sim/stage_sim.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* This many steps without a candidate take as long as one evaluation. */
enum { IDLE_STEPS = 16 };

enum { CANDIDATES_MAX = 400000, LATTICE_MAX = 1 << 16, CLASSES_MAX = 16, STAGES_MAX = 64 };

struct candidate {
    size_t units;  /* its units, as a place in the lattice */
    size_t stages; /* index of its first stage in the pool */
    size_t n_stages;
    uint64_t cap;
};

struct place {
    uint32_t class, first, end;
};

struct exhausting {
    struct ah_arrangement_search *search;
    struct ah_error *err;
    size_t radix[CLASSES_MAX + 1]; /* what one unit of each class adds to a lattice place */
    struct candidate *candidates;
    size_t n_candidates, candidate_room;
    struct place *pool;
    size_t n_places, place_room;
    size_t *bucket;                     /* (lattice + 1): index of the first candidate of a place */
    uint64_t *room;                     /* (lattice): (1) */
    struct ah_stage stages[STAGES_MAX]; /* stages of the candidate being made */
    size_t used[CLASSES_MAX];
    size_t longest[CLASSES_MAX]; /* by class: the most blocks of a stage */
    uint64_t idle;               /* steps that led to no candidate */
    struct ah_draft trial;
    struct ah_draft timed; /* copy of `trial`; timing may sort it */
    const struct candidate *chosen[STAGES_MAX];
    size_t n_chosen;
    bool gave_up;
};

static bool give_up(struct exhausting *x)
{
    x->gave_up |= x->search->evaluations >= x->search->budget || x->idle / IDLE_STEPS >= x->search->budget;
    return x->gave_up;
}

/* ---- candidates ---- */

static bool may_be_away(const struct ah_cluster_problem *problem, const struct ah_stage *stage)
{
    return ah_problem_has_host(problem, problem->classes[stage->class].kind);
}

/* Returns the shortest forward plus backward over the numbers of sharers in (4). */
static double shared_us(struct exhausting *x, uint64_t in_flight, const struct ah_stage *stage)
{
    const struct ah_cluster_problem *problem = x->search->problem;
    struct ah_fits_unit unit = {stage->class, x->used[stage->class], in_flight};
    const size_t most = may_be_away(problem, stage) ? problem->classes[stage->class].units : unit.sharers;
    double least_us = INFINITY;
    for (; unit.sharers <= most; unit.sharers++)
        least_us = fmin(least_us, ah_fits_us(&x->search->fits, &unit, stage->first, stage->end));
    return least_us;
}

/* Sets the times of a stage as if everything fitted on its device. */
static void relax(const struct ah_cluster_problem *problem, struct ah_stage *stage)
{
    const struct ah_problem_block *blocks = ah_problem_kind_of(problem, stage->class)->blocks;
    stage->forward_us = stage->backward_us = stage->update_us = 0;
    for (size_t b = stage->first; b < stage->end; b++) {
        stage->forward_us += blocks[b].forward_us;
        stage->backward_us += blocks[b].backward_us[AH_ACTIVATIONS_KEEP];
        stage->update_us += blocks[b].update_us;
    }
}

/* Fits a stage, or relaxes it (3) if blocks may be away. Returns its shortest passes; INFINITY: there is no room. */
static double passes_us(struct exhausting *x, uint64_t in_flight, struct ah_stage *stage)
{
    const struct ah_cluster_problem *problem = x->search->problem;
    if (may_be_away(problem, stage)) {
        relax(problem, stage);
        return shared_us(x, in_flight, stage);
    }
    return ah_fits_stage(&x->search->fits, in_flight, stage) ? stage->forward_us + stage->backward_us
                                                             : (double)INFINITY;
}

/* Fits or relaxes the stages of a pipeline. Returns the lower bound of its time by (3); INFINITY: no room. */
static double least_us(struct exhausting *x, struct ah_pipeline *pipeline)
{
    double path_us = 0, busiest_us = 0;
    for (size_t i = 0; i < pipeline->n_stages; i++) {
        uint64_t behind = pipeline->n_stages - i, m = pipeline->micro_batches;
        double us = passes_us(x, m < behind ? m : behind, &pipeline->stages[i]);
        if (isinf(us))
            return us;
        path_us += us;
        busiest_us = fmax(busiest_us, (double)m * us);
    }
    return fmax(path_us, busiest_us) * (1 - 1e-12); /* roundings */
}

static int in_time(struct exhausting *x, struct ah_pipeline *pipeline, uint64_t micro_batches, bool *ret_is)
{
    double update_us = 0, alone_us;
    *ret_is = false;
    pipeline->micro_batches = micro_batches;
    x->search->evaluations++;
    double least = least_us(x, pipeline);
    for (size_t i = 0; i < pipeline->n_stages && !isinf(least); i++)
        update_us = fmax(update_us, pipeline->stages[i].update_us);
    if (least + update_us >= x->search->best_us)
        return AH_OK;
    int rc = ah_pipeline_time(x->search->problem, pipeline, &alone_us, x->err);
    *ret_is = !rc && alone_us + update_us < x->search->best_us;
    return rc;
}

/* Finds the most micro-batches with which the pipeline ends in time. Memory and time grow with their number. */
static int find_cap(struct exhausting *x, struct ah_pipeline *pipeline, uint64_t *ret_cap)
{
    uint64_t low = 0, high = x->search->problem->micro_batches, middle = 1;
    int rc = AH_OK;
    while (low < high && !rc) {
        bool is;
        rc = in_time(x, pipeline, middle, &is);
        if (is)
            low = middle;
        else
            high = middle - 1;
        middle = high - (high - low) / 2;
    }
    *ret_cap = low;
    return rc;
}

/* Returns the array, grown if needed; NULL: out of memory, and the array is unchanged. */
static void *grown(void *items, size_t *room, size_t needed, size_t item_bytes)
{
    size_t larger = *room ? *room : 1024;
    while (larger < needed)
        larger *= 2;
    if (items && larger == *room)
        return items;
    void *moved = realloc(items, larger * item_bytes);
    if (moved)
        *room = larger;
    return moved;
}

/* Makes room for one more candidate of `n_stages`. */
static int make_room(struct exhausting *x, size_t n_stages)
{
    struct candidate *candidates =
        grown(x->candidates, &x->candidate_room, x->n_candidates + 1, sizeof *candidates);
    if (!candidates)
        return ah_error_memory(x->err);
    x->candidates = candidates;
    struct place *pool = grown(x->pool, &x->place_room, x->n_places + n_stages, sizeof *pool);
    if (!pool)
        return ah_error_memory(x->err);
    x->pool = pool;
    return AH_OK;
}

static int add_candidate(struct exhausting *x, size_t n_stages)
{
    struct ah_pipeline pipeline = {.stages = x->stages, .n_stages = n_stages};
    struct candidate candidate = {.stages = x->n_places, .n_stages = n_stages};
    int rc = find_cap(x, &pipeline, &candidate.cap);
    if (rc || !candidate.cap)
        return rc;
    x->gave_up |= x->n_candidates == CANDIDATES_MAX;
    rc = make_room(x, n_stages);
    if (rc)
        return rc;
    for (size_t i = 0; i < n_stages; i++) {
        const struct ah_stage *stage = &x->stages[i];
        candidate.units += x->radix[stage->class];
        x->pool[x->n_places++] =
            (struct place){(uint32_t)stage->class, (uint32_t)stage->first, (uint32_t)stage->end};
    }
    x->candidates[x->n_candidates++] = candidate;
    return AH_OK;
}

/* Returns the largest number of blocks in a stage of a class, with one micro-batch in flight. If blocks [first, end)
 * fit, so do blocks [first + 1, end). */
static size_t longest_of(struct exhausting *x, size_t class)
{
    const size_t n = x->search->problem->n_blocks;
    struct ah_stage stage = {.class = class, .end = 1};
    size_t longest = 0;
    x->used[class] = 1;
    for (; stage.first < n; stage.first++) {
        stage.end = stage.end > stage.first ? stage.end : stage.first + 1;
        while (stage.end <= n && !isinf(shared_us(x, 1, &stage)))
            stage.end++;
        longest = stage.end - 1 - stage.first > longest ? stage.end - 1 - stage.first : longest;
    }
    x->used[class] = 0;
    return longest;
}

/* Returns the largest number of blocks in stage `i` and later stages together. */
static size_t most_blocks(const struct exhausting *x, size_t i, size_t n_stages)
{
    size_t blocks = 0;
    for (; i < n_stages; i++)
        blocks += x->longest[x->stages[i].class];
    return blocks;
}

/* Tries all splits of the blocks over stage `i` and later stages. */
static int split_from(struct exhausting *x, size_t i, size_t n_stages)
{
    const size_t n = x->search->problem->n_blocks, first = i ? x->stages[i - 1].end : 0,
                 before = x->n_candidates, behind = most_blocks(x, i + 1, n_stages);
    size_t end = i + 1 == n_stages ? n : first + 1;
    int rc = AH_OK;
    end = end + behind < n ? n - behind : end;
    x->stages[i].first = first;
    for (; end + n_stages <= n + i + 1 && !rc && !give_up(x); end++) {
        x->stages[i].end = end;
        if (isinf(shared_us(x, 1, &x->stages[i])))
            break;
        rc = i + 1 == n_stages ? add_candidate(x, n_stages) : split_from(x, i + 1, n_stages);
    }
    x->idle += x->n_candidates == before;
    return rc;
}

/* Tries all sequences of classes for stage `i` and later stages. */
static int sequence_from(struct exhausting *x, size_t i)
{
    const struct ah_cluster_problem *problem = x->search->problem;
    int rc = AH_OK;
    for (size_t class = 0; class < problem->n_classes && i < problem->n_blocks && !rc; class ++) {
        if (x->used[class] == problem->classes[class].units || give_up(x))
            continue;
        x->used[class]++;
        x->stages[i].class = class;
        rc = split_from(x, 0, i + 1);
        if (!rc)
            rc = sequence_from(x, i + 1);
        x->used[class]--;
    }
    return rc;
}

/* ---- the lattice ---- */

static size_t digit(const struct exhausting *x, size_t place, size_t class)
{
    return place / x->radix[class] % (x->search->problem->classes[class].units + 1);
}

static bool within(const struct exhausting *x, size_t small, size_t large)
{
    for (size_t c = 0; c < x->search->problem->n_classes; c++)
        if (digit(x, small, c) > digit(x, large, c))
            return false;
    return true;
}

static int by_units_and_cap(const void *a, const void *b)
{
    const struct candidate *p = a, *q = b;
    if (p->units != q->units)
        return p->units < q->units ? -1 : 1;
    if (p->cap != q->cap)
        return p->cap > q->cap ? -1 : 1;
    return (p->stages > q->stages) - (p->stages < q->stages);
}

static int fill_lattice(struct exhausting *x, size_t lattice)
{
    x->bucket = calloc(lattice + 1, sizeof *x->bucket);
    x->room = calloc(lattice, sizeof *x->room);
    if (!x->bucket || !x->room)
        return ah_error_memory(x->err);
    if (x->n_candidates)
        qsort(x->candidates, x->n_candidates, sizeof *x->candidates, by_units_and_cap);
    for (size_t i = 0; i < x->n_candidates; i++)
        x->bucket[x->candidates[i].units + 1]++;
    for (size_t place = 0; place < lattice; place++)
        x->bucket[place + 1] += x->bucket[place];
    for (size_t place = 1; place < lattice; place++) /* (1) */
        for (size_t units = 1; units <= place; units++) {
            if (x->bucket[units] == x->bucket[units + 1] || !within(x, units, place))
                continue;
            uint64_t together = x->candidates[x->bucket[units]].cap + x->room[place - units];
            x->room[place] = together > x->room[place] ? together : x->room[place];
        }
    return AH_OK;
}

/* ---- sets of pipelines ---- */

static int simulate(struct exhausting *x)
{
    double us;
    int rc;
    ah_draft_copy(&x->timed, &x->trial);
    if (x->search->problem->update_limit_us > 0) {
        ah_draft_sort(&x->timed);
        rc = ah_update_limit_choose(x->search->problem, &x->timed.arrangement, &us, &x->search->evaluations,
                                    x->err);
    } else {
        rc = ah_arrangement_search_time(x->search, &x->timed, x->search->best_us, &us, x->err);
    }
    if (!rc && us < x->search->best_us)
        ah_arrangement_search_keep(x->search, &x->timed, us);
    return rc;
}

static int simulate_shares(struct exhausting *x, size_t p, uint64_t left)
{
    struct ah_pipeline *pipeline = &x->trial.arrangement.pipelines[p];
    uint64_t behind = 0, least = 1, cap = x->chosen[p]->cap;
    int rc = AH_OK;
    for (size_t i = p + 1; i < x->n_chosen; i++)
        behind += x->chosen[i]->cap;
    least = left > behind ? left - behind : 1;
    if (p + 1 < x->n_chosen) {
        for (uint64_t m = least; m <= cap && m + (x->n_chosen - p - 1) <= left && !rc && !give_up(x); m++) {
            pipeline->micro_batches = m;
            if (ah_groups_may_begin(x->search->problem, &x->trial.arrangement, p + 1) &&
                ah_fits_pipeline(&x->search->fits, pipeline))
                rc = simulate_shares(x, p + 1, left - m);
        }
        return rc;
    }
    pipeline->micro_batches = left;
    if (left > cap || !ah_groups_allow(x->search->problem, &x->trial.arrangement) ||
        !ah_fits_pipeline(&x->search->fits, pipeline))
        return AH_OK;
    return simulate(x);
}

static int simulate_set(struct exhausting *x)
{
    ah_draft_begin(&x->trial);
    for (size_t c = 0; c < x->n_chosen; c++) {
        ah_draft_open(&x->trial);
        for (size_t i = 0; i < x->chosen[c]->n_stages; i++) {
            const struct place *place = &x->pool[x->chosen[c]->stages + i];
            ah_draft_add(&x->trial, place->class);
            x->trial.stages[x->trial.n_stages - 1].first = place->first;
            x->trial.stages[x->trial.n_stages - 1].end = place->end;
        }
    }
    ah_arrangement_share(x->search->problem, &x->trial.arrangement);
    return simulate_shares(x, 0, x->search->problem->micro_batches);
}

/* Adds each candidate from index `from` on that fits the units `left` and keeps (2), and extends the set further. */
static int extend_set(struct exhausting *x, size_t from, size_t left, uint64_t caps)
{
    const uint64_t all = x->search->problem->micro_batches;
    int rc = AH_OK;
    if (x->n_chosen && caps >= all)
        rc = simulate_set(x);
    if (x->n_chosen == ah_groups_most_pipelines(x->search->problem) || x->n_chosen == STAGES_MAX)
        return rc;
    for (size_t i = from; i < x->n_candidates && !rc && !give_up(x); i++) {
        const struct candidate *candidate = &x->candidates[i];
        size_t end = x->bucket[candidate->units + 1];
        if (!within(x, candidate->units, left) ||
            caps + candidate->cap + x->room[left - candidate->units] < all) {
            i = end - 1; /* skips other candidates with these units, whose caps are no larger */
            continue;
        }
        x->chosen[x->n_chosen++] = candidate;
        rc = extend_set(x, i, left - candidate->units, caps + candidate->cap);
        x->n_chosen--;
    }
    return rc;
}

static size_t set_radix(struct exhausting *x)
{
    size_t lattice = 1;
    for (size_t c = 0; c < x->search->problem->n_classes; c++) {
        x->radix[c] = lattice;
        lattice *= x->search->problem->classes[c].units + 1;
        if (lattice > LATTICE_MAX)
            return 0;
    }
    return lattice;
}

int ah_arrangement_search_exhaust(struct ah_arrangement_search *search, bool *ret_done, struct ah_error *err)
{
    *ret_done = false;
    if (search->problem->n_classes > CLASSES_MAX || ah_problem_units(search->problem) > STAGES_MAX)
        return AH_OK;
    struct exhausting *x = calloc(1, sizeof *x);
    if (!x)
        return ah_error_memory(err);
    x->search = search;
    x->err = err;
    size_t lattice = set_radix(x);
    int rc = ah_draft_init(&x->trial, search->problem, err);
    if (!rc)
        rc = ah_draft_init(&x->timed, search->problem, err);
    for (size_t class = 0; class < search->problem->n_classes && !rc && lattice; class ++)
        x->longest[class] = longest_of(x, class);
    if (!rc && lattice)
        rc = sequence_from(x, 0);
    if (!rc && lattice && !x->gave_up)
        rc = fill_lattice(x, lattice);
    if (!rc && lattice && !x->gave_up)
        rc = extend_set(x, 0, lattice - 1, 0);
    *ret_done = !rc && lattice && !x->gave_up;
    ah_draft_release(&x->trial);
    ah_draft_release(&x->timed);
    free(x->candidates);
    free(x->pool);
    free(x->bucket);
    free(x->room);
    free(x);
    return rc;
}
