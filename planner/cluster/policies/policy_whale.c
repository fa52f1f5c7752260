/* SPDX-License-Identifier: Apache-2.0
 *
 * Whale: grids whose loads follow the rated speed (docs/policies/whale.md).
 *
 * 1. Inside a pipeline, units with more memory come first, because early stages hold more micro-batches.
 * 2. A stage gets blocks in proportion to its speed, and a pipeline gets micro-batches in proportion to its speed.
 * 3. While a stage exceeds its memory, the fullest stage (peak) gives a block towards the emptiest (valley). The
 *    stages between pass it on.
 */
#include "planner/cluster/policies/cluster_policies_internal.h"
#include "planner/cluster/policies/grids.h"

#include <math.h>
#include <stdlib.h>

struct whale {
    struct ah_policy_search *search;
    double *weights; /* (pipelines) */
};

static uint64_t unit_memory(const struct ah_cluster_problem *problem, const struct ah_stage *stage)
{
    const struct ah_problem_kind *kind = ah_problem_kind_of(problem, stage->class);
    return kind->capacity_bytes * kind->tp;
}

/* Step 1, with a stable sort. */
static void sort_by_memory(const struct ah_cluster_problem *problem, struct ah_pipeline *pipeline)
{
    for (size_t i = 1; i < pipeline->n_stages; i++) {
        struct ah_stage stage = pipeline->stages[i];
        size_t at = i;
        for (; at > 0 && unit_memory(problem, &pipeline->stages[at - 1]) < unit_memory(problem, &stage); at--)
            pipeline->stages[at] = pipeline->stages[at - 1];
        pipeline->stages[at] = stage;
    }
}

/* Step 2: a block belongs to the stage whose share contains the block's middle. Each stage gets at least one block. */
static void split_by_speed(const struct ah_policy_search *search, struct ah_pipeline *pipeline)
{
    size_t n = search->problem->n_blocks, block = 0;
    double all = 0, done = 0, speed = ah_cluster_policies_pipeline_flops(search, pipeline), share = 0;
    for (size_t b = 0; b < n; b++)
        all += ah_cluster_policies_work(search, b);
    for (size_t i = 0; i < pipeline->n_stages; i++) {
        struct ah_stage *stage = &pipeline->stages[i];
        size_t last = n - (pipeline->n_stages - i - 1); /* leaves one block for each later stage */
        share += ah_cluster_policies_flops(search, stage->class) / speed;
        stage->first = block;
        do
            done += ah_cluster_policies_work(search, block++);
        while (block < last && (i + 1 == pipeline->n_stages ||
                                done + ah_cluster_policies_work(search, block) / 2 <= share * all));
        stage->end = block;
    }
}

/* Returns the memory of a stage with all blocks recomputed, divided by its capacity. */
static double least_fill(const struct ah_cluster_problem *problem, const struct ah_pipeline *pipeline,
                         size_t i)
{
    const struct ah_stage *stage = &pipeline->stages[i];
    const struct ah_problem_kind *kind = ah_problem_kind_of(problem, stage->class);
    uint64_t behind = pipeline->n_stages - i, bytes = 0, work = 0;
    uint64_t in_flight = pipeline->micro_batches < behind ? pipeline->micro_batches : behind;
    for (size_t b = stage->first; b < stage->end; b++) {
        const struct ah_problem_block *block = &kind->blocks[b];
        uint64_t needed = block->work_bytes[AH_ACTIVATIONS_RECOMPUTE];
        bytes += block->state_bytes + in_flight * block->saved_bytes[AH_ACTIVATIONS_RECOMPUTE];
        work = needed > work ? needed : work;
    }
    return (double)(bytes + work) / (double)kind->capacity_bytes;
}

static double find_peak(const struct ah_cluster_problem *problem, const struct ah_pipeline *pipeline,
                        size_t *ret_peak, size_t *ret_valley)
{
    double most = -INFINITY, least = INFINITY;
    for (size_t i = 0; i < pipeline->n_stages; i++) {
        double full = least_fill(problem, pipeline, i);
        if (full > most)
            *ret_peak = i;
        if (full < least)
            *ret_valley = i;
        most = fmax(most, full);
        least = fmin(least, full);
    }
    return most;
}

/* Step 3. Returns false if some stage still exceeds its memory. */
static bool shift_by_memory(const struct ah_cluster_problem *problem, struct ah_pipeline *pipeline)
{
    size_t peak = 0, valley = 0;
    for (size_t steps = problem->n_blocks * pipeline->n_stages; steps; steps--) {
        if (find_peak(problem, pipeline, &peak, &valley) <= 1)
            return true;
        if (pipeline->stages[peak].end - pipeline->stages[peak].first < 2)
            return false;
        for (size_t i = peak; i < valley; i++)
            pipeline->stages[i + 1].first = --pipeline->stages[i].end;
        for (size_t i = peak; i > valley; i--)
            pipeline->stages[i - 1].end = ++pipeline->stages[i].first;
    }
    return false;
}

/* True if these units can hold the model, and would beat the best with blocks spread over them exactly by speed. */
static bool worth(void *context, const struct ah_grid *grid)
{
    const struct whale *w = context;
    const struct ah_cluster_problem *problem = w->search->problem;
    double per_us = 0;
    if (!ah_cluster_policies_can_hold(problem, grid->classes, grid->pipelines * grid->stages,
                                      grid->pipelines))
        return false;
    for (size_t u = 0; u < grid->pipelines * grid->stages; u++) {
        const struct ah_problem_block *blocks = ah_problem_kind_of(problem, grid->classes[u])->blocks;
        double us = 0;
        for (size_t b = 0; b < problem->n_blocks; b++)
            us += blocks[b].forward_us + blocks[b].backward_us[AH_ACTIVATIONS_KEEP];
        per_us += 1 / us;
    }
    return (double)problem->micro_batches / per_us < w->search->best_us;
}

static int visit_grid(void *context, const struct ah_grid *grid, struct ah_error *err)
{
    const struct whale *w = context;
    struct ah_policy_search *search = w->search;
    struct ah_arrangement *arrangement = &search->trial.arrangement;
    ah_grid_draft(grid, &search->trial);
    for (size_t p = 0; p < arrangement->n_pipelines; p++)
        w->weights[p] = ah_cluster_policies_pipeline_flops(search, &arrangement->pipelines[p]);
    if (!ah_cluster_policies_share(search, w->weights))
        return AH_OK;
    for (size_t p = 0; p < arrangement->n_pipelines; p++) {
        sort_by_memory(search->problem, &arrangement->pipelines[p]);
        split_by_speed(search, &arrangement->pipelines[p]);
        if (!shift_by_memory(search->problem, &arrangement->pipelines[p]))
            return AH_OK;
    }
    return ah_cluster_policies_try(search, err);
}

int ah_policy_whale(struct ah_policy_search *search, struct ah_error *err)
{
    struct whale w = {search, calloc(search->trial.room, sizeof *w.weights)};
    const struct ah_grids_visitor visitor = {
        .context = &w, .together = true, .worth = worth, .visit = visit_grid};
    int rc = w.weights ? ah_grids_visit(search->problem, search->problem->micro_batches, &visitor, err)
                       : ah_error_memory(err);
    free(w.weights);
    return rc;
}
