/* SPDX-License-Identifier: Apache-2.0
 *
 * Kinds of starts: the best so far, placed counts for each order of micro-batches, and for each config a choice with it
 * in all layers. A kind's best is found over placements, configs of embedding and head, and coarse or lean knobs.
 *
 * Equal layers are tried only until an order has cost TIMES_WORK times what chains may spend. With hundreds of
 * micro-batches, where evaluations are slow, they would take most of the time.
 *
 * MONOTONE RULE of placement: recompute and host weights toward the first blocks, host and streamed optimizers toward
 * the last. Counts are of whole configs, so one field after another follows the rule, in all six orders of fields.
 */
#include "planner/search/starts.h"

#include "planner/search/knobs.h"

#include <float.h>
#include <string.h>

enum { TIMES_WORK = 4 };
enum { FIELD_ACTIVATIONS, FIELD_WEIGHTS, FIELD_OPTIMIZER, FIELD_ACCUMULATOR, FIELDS };

struct finder {
    const struct ah_search *search;
    struct ah_vary vary;
    struct ah_arena *arena;
    struct ah_start *starts; /* the best first */
    size_t n, most;
    struct ah_config *configs; /* by block: the choice being tried */
    struct ah_config *kept;    /* by block: the best of its kind */
    struct ah_start kind;      /* configs NULL: none of this kind was tried */
    struct ah_error *err;
};

static bool is_better(const struct ah_height *a, const struct ah_height *b)
{
    if (a->over_bytes != b->over_bytes)
        return a->over_bytes < b->over_bytes;
    return !a->over_bytes && a->cost_us < b->cost_us;
}

static int try_start(struct finder *f, const struct ah_knobs *knobs)
{
    struct ah_evaluator *evaluator = f->search->evaluator;
    enum ah_verdict verdict;
    int rc = ah_evaluator_try(evaluator, f->configs, knobs, &verdict, f->err);
    struct ah_height height = ah_height_of_last(evaluator);
    if (rc || (f->kind.configs && !is_better(&height, &f->kind.height)))
        return rc;
    f->kind = (struct ah_start){f->kept, *knobs, height};
    memcpy(f->kept, f->configs, f->vary.job->n_blocks * sizeof *f->kept);
    return AH_OK;
}

/* Inserts the best of a kind into the starts, and prepares for the next kind. */
static int end_kind(struct finder *f)
{
    struct ah_start start = f->kind;
    size_t at = f->n, bytes = f->vary.job->n_blocks * sizeof *start.configs;
    f->kind.configs = NULL;
    if (!start.configs)
        return AH_OK;
    while (at > 0 && is_better(&start.height, &f->starts[at - 1].height))
        at--;
    if (at == f->most)
        return AH_OK;
    struct ah_config *configs = ah_arena_array(f->arena, f->vary.job->n_blocks, sizeof *configs);
    if (!configs)
        return ah_error_memory(f->err);
    start.configs = memcpy(configs, start.configs, bytes);
    f->n += f->n < f->most;
    memmove(&f->starts[at + 1], &f->starts[at], (f->n - 1 - at) * sizeof start);
    f->starts[at] = start;
    return AH_OK;
}

/* ---- placing counts ---- */

/* Returns a config's rank by the monotone rule in one field. Configs with small ranks belong to the first blocks. */
static int rank(const struct ah_config *config, int field)
{
    const int ranks[FIELDS] = {
        AH_ACTIVATIONS_RECOMPUTE - config->activations, AH_WEIGHTS_HOST - config->weights,
        config->optimizer == AH_OPTIMIZER_DEVICE ? 0 : 1 + config->optimizer, config->accumulator};
    return ranks[field];
}

static bool stands_before(const struct ah_config *a, const struct ah_config *b, const int order[3])
{
    for (int i = 0; i < 3; i++)
        if (rank(a, order[i]) != rank(b, order[i]))
            return rank(a, order[i]) < rank(b, order[i]);
    return rank(a, FIELD_ACCUMULATOR) < rank(b, FIELD_ACCUMULATOR);
}

/* Returns the first config, sorted by `order`, of which some are left. */
static size_t next_config(const struct ah_config *all, size_t n, const uint32_t *left, const int order[3])
{
    size_t best = n;
    for (size_t i = 0; i < n; i++)
        if (left[i] && (best == n || stands_before(&all[i], &all[best], order)))
            best = i;
    return best;
}

static int place_counts(struct finder *f, const struct ah_milp_result *counts, const struct ah_knobs *knobs)
{
    static const int orders[][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    const struct ah_job *job = f->vary.job;
    size_t cells = counts->n_classes * AH_CONFIGS_MAX;
    uint32_t *left = ah_arena_array(f->arena, cells, sizeof *left);
    if (!left)
        return ah_error_memory(f->err);
    int rc = AH_OK;
    for (size_t o = 0; o < sizeof orders / sizeof *orders && !rc; o++) {
        memcpy(left, counts->candidates[0].counts, cells * sizeof *left);
        for (size_t block = 0; block < job->n_blocks; block++) {
            struct ah_config all[AH_CONFIGS_MAX];
            size_t n = ah_configs(job, ah_job_block(job, block), all);
            uint32_t *mine = left + counts->class_of[block] * (size_t)AH_CONFIGS_MAX;
            size_t config = next_config(all, n, mine, orders[o]);
            mine[config]--;
            f->configs[block] = all[config];
        }
        rc = try_start(f, knobs);
    }
    return rc;
}

/* ---- equal layers ---- */

/* Gives every layer its `way`-th config, or its last if it has fewer, as frozen layers do. Embedding and head get the
 * first config of the `end`-th half of theirs. Returns false if no layer has that many configs. */
static bool set_alike(struct finder *f, size_t way, size_t end)
{
    bool exists = false;
    for (size_t block = 0; block < f->vary.job->n_blocks; block++) {
        struct ah_config all[AH_CONFIGS_MAX];
        const struct ah_job_group *group = ah_job_block(f->vary.job, block);
        size_t n = ah_vary_options(&f->vary, block, all);
        size_t pick = group->kind == AH_BLOCK_LAYER ? way : end * n / 2;
        exists |= group->kind == AH_BLOCK_LAYER && way < n;
        f->configs[block] = all[pick < n ? pick : n - 1];
    }
    return exists;
}

static int try_alike(struct finder *f, size_t way, const struct ah_knobs knobs[2])
{
    int rc = AH_OK;
    for (size_t end = 0; end < 2 && set_alike(f, way, end); end++)
        for (size_t k = 0; k < 2 && !rc; k++)
            rc = try_start(f, &knobs[k]);
    return rc;
}

/* ---- all kinds ---- */

static int find_of_order(struct finder *f, enum ah_micro_order order)
{
    const struct ah_search *search = f->search;
    const struct ah_knobs knobs[2] = {
        ah_knobs_coarse(f->vary.job, search->scheduling, order),
        ah_knobs_leanest(f->vary.job, search->scheduling, order),
    };
    const uint64_t most = search->evaluator->spent + TIMES_WORK * search->work;
    int rc = AH_OK;
    for (size_t k = 0; k < search->n_counts && !rc; k++)
        if (search->counts[k].n_candidates)
            rc = place_counts(f, &search->counts[k], &knobs[0]);
    rc = rc ? rc : end_kind(f);
    for (size_t way = 0; way < AH_CONFIGS_MAX && !rc && search->evaluator->spent < most; way++) {
        rc = try_alike(f, way, knobs);
        rc = rc ? rc : end_kind(f);
    }
    return rc;
}

int ah_starts_find(const struct ah_search *search, size_t most, struct ah_arena *arena,
                   struct ah_start *ret_starts, size_t *ret_n, struct ah_error *err)
{
    struct ah_evaluator *evaluator = search->evaluator;
    size_t n = evaluator->limits.job->n_blocks;
    struct finder f = {.search = search,
                       .vary = {evaluator->limits.job, search->allowed},
                       .arena = arena,
                       .starts = ret_starts,
                       .most = most,
                       .configs = ah_arena_array(arena, n, sizeof *f.configs),
                       .kept = ah_arena_array(arena, n, sizeof *f.kept),
                       .err = err};
    if (!f.configs || !f.kept)
        return ah_error_memory(err);
    int rc = AH_OK;
    if (evaluator->found) {
        f.kind = (struct ah_start){
            evaluator->best.configs, evaluator->best.knobs, {0, evaluator->best.score.period_us}};
        rc = end_kind(&f);
    }
    evaluator->enough_us = DBL_MAX;
    for (int order = 0; order < search->orders && !rc; order++)
        rc = find_of_order(&f, (enum ah_micro_order)order);
    evaluator->enough_us = 0;
    *ret_n = f.n;
    return rc;
}
