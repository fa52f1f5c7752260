/* SPDX-License-Identifier: Apache-2.0
 *
 * Megatron-LM: t x p x d grids (docs/policies/megatron.md). Every pipeline has p stages with the same number of layers,
 * and the same number of micro-batches. The embedding, the head, or both may count as a layer.
 */
#include "planner/cluster/policies/cluster_policies_internal.h"
#include "planner/cluster/policies/grids.h"

#include <math.h>

enum { COUNTS = 4 }; /* bit 0: the embedding counts as a layer; bit 1: the head does */

/* Sets the first block of stage `i` of `n`. Returns false if the number of layers is not divisible. */
static bool even_first(const struct ah_cluster_problem *problem, unsigned counts, size_t n, size_t i,
                       size_t *ret_first)
{
    size_t layers = problem->n_blocks - 2, all = layers + (counts & 1) + (counts >> 1);
    if (all % n)
        return false;
    *ret_first = i == 0 ? 0 : i == n ? problem->n_blocks : i * (all / n) + 1 - (counts & 1);
    return *ret_first <= problem->n_blocks;
}

/* Gives all pipelines of the trial the same blocks and micro-batches. */
static bool deal_evenly(struct ah_policy_search *search, unsigned counts)
{
    struct ah_arrangement *arrangement = &search->trial.arrangement;
    for (size_t p = 0; p < arrangement->n_pipelines; p++) {
        struct ah_pipeline *pipeline = &arrangement->pipelines[p];
        pipeline->micro_batches = search->problem->micro_batches / arrangement->n_pipelines;
        for (size_t i = 0; i < pipeline->n_stages; i++) {
            struct ah_stage *stage = &pipeline->stages[i];
            if (!even_first(search->problem, counts, pipeline->n_stages, i, &stage->first) ||
                !even_first(search->problem, counts, pipeline->n_stages, i + 1, &stage->end) ||
                stage->first >= stage->end)
                return false;
        }
    }
    return true;
}

/* Returns the least time of any stage on a unit of `class`; INFINITY: the number of layers is not divisible. */
static double least_stage_us(struct ah_policy_search *search, const struct ah_grid *grid, unsigned counts,
                             size_t class)
{
    uint64_t m = search->problem->micro_batches / grid->pipelines;
    double least_us = INFINITY;
    for (size_t i = 0; i < grid->stages; i++) {
        uint64_t behind = grid->stages - i;
        const struct ah_fits_unit unit = {class, 1, m < behind ? m : behind};
        size_t first, end;
        if (!even_first(search->problem, counts, grid->stages, i, &first) ||
            !even_first(search->problem, counts, grid->stages, i + 1, &end) || first >= end)
            return INFINITY;
        least_us = fmin(least_us, ah_fits_us(&search->fits, &unit, first, end));
    }
    return least_us;
}

/* True if some order of these units could be the fastest. Whatever the order, the slowest units have some stage. */
static bool worth(void *context, const struct ah_grid *grid)
{
    struct ah_policy_search *search = context;
    double least_us = INFINITY;
    if (search->problem->micro_batches % grid->pipelines)
        return false;
    for (unsigned counts = 0; counts < COUNTS; counts++) {
        double most_us = 0;
        for (size_t u = 0; u < grid->pipelines * grid->stages; u++)
            if (!u || grid->classes[u] != grid->classes[u - 1])
                most_us = fmax(most_us, least_stage_us(search, grid, counts, grid->classes[u]));
        least_us = fmin(least_us, most_us);
    }
    return (double)(search->problem->micro_batches / grid->pipelines) * least_us < search->best_us;
}

static int visit_grid(void *context, const struct ah_grid *grid, struct ah_error *err)
{
    struct ah_policy_search *search = context;
    int rc = AH_OK;
    for (unsigned counts = 0; counts < COUNTS && !rc; counts++) {
        ah_grid_draft(grid, &search->trial); /* anew, because each trial sorts its pipelines */
        if (deal_evenly(search, counts))
            rc = ah_cluster_policies_try(search, err);
    }
    return rc;
}

int ah_policy_megatron(struct ah_policy_search *search, struct ah_error *err)
{
    const struct ah_grids_visitor visitor = {.context = search, .worth = worth, .visit = visit_grid};
    return ah_grids_visit(search->problem, search->problem->micro_batches, &visitor, err);
}
