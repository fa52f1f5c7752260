/* SPDX-License-Identifier: Apache-2.0
 *
 * Chooses which blocks of a stage are recomputed, and which are away, on the host. The first r blocks are recomputed,
 * the next s are selective. The first h blocks have their states away, and the first w of those their weights, too.
 * Passes get longer with r, s and w, but not with h; memory falls as h grows. So for each w:
 *
 *   1. h is the largest that keeps the limit of the update and the host's memory, both of which grow with h;
 *   2. r and s give the shortest backward that then fits;
 *   3. h falls as far as memory allows with these r and s.
 *
 * w grows until passes would be longer even with all activations kept; such passes do not get shorter as w grows.
 */
#include "planner/cluster/cluster_problem.h"

size_t ah_problem_units(const struct ah_cluster_problem *problem)
{
    size_t units = 0;
    for (size_t c = 0; c < problem->n_classes; c++)
        units += problem->classes[c].units;
    return units;
}

double ah_problem_send_us(const struct ah_cluster_problem *problem, size_t from, size_t to)
{
    const struct ah_problem_link *link = &problem->links[from * problem->n_classes + to];
    uint64_t a = ah_problem_kind_of(problem, from)->tp, b = ah_problem_kind_of(problem, to)->tp;
    bool inside = problem->classes[from].node == problem->classes[to].node;
    double bytes = (double)problem->boundary_bytes / (inside ? (double)(a < b ? a : b) : 1);
    return link->latency_us + 1e6 * bytes / link->bytes_per_s;
}

bool ah_problem_has_host(const struct ah_cluster_problem *problem, size_t kind)
{
    return problem->update_limit_us > 0 && problem->kinds[kind].n_hosts &&
           problem->kinds[kind].hosts[0].bytes;
}

size_t ah_arrangement_stages(const struct ah_arrangement *arrangement)
{
    size_t n = 0;
    for (size_t p = 0; p < arrangement->n_pipelines; p++)
        n += arrangement->pipelines[p].n_stages;
    return n;
}

/* Returns the number of a node's GPUs that work. */
static uint64_t working(const struct ah_cluster_problem *problem, const struct ah_arrangement *arrangement,
                        size_t node)
{
    uint64_t gpus = 0;
    for (size_t p = 0; p < arrangement->n_pipelines; p++)
        for (size_t i = 0; i < arrangement->pipelines[p].n_stages; i++) {
            size_t class = arrangement->pipelines[p].stages[i].class;
            gpus += problem->classes[class].node == node ? ah_problem_kind_of(problem, class)->tp : 0;
        }
    return gpus;
}

void ah_arrangement_share(const struct ah_cluster_problem *problem, struct ah_arrangement *arrangement)
{
    for (size_t c = 0; c < problem->n_classes; c++) {
        const uint64_t tp = ah_problem_kind_of(problem, c)->tp;
        const size_t sharers =
            (size_t)((working(problem, arrangement, problem->classes[c].node) + tp - 1) / tp);
        for (size_t p = 0; p < arrangement->n_pipelines; p++)
            for (size_t i = 0; i < arrangement->pipelines[p].n_stages; i++)
                if (arrangement->pipelines[p].stages[i].class == c)
                    arrangement->pipelines[p].stages[i].sharers = sharers;
    }
}

enum ah_activations ah_stage_way(const struct ah_stage *stage, size_t block)
{
    size_t at = block - stage->first;
    if (at < stage->recompute)
        return AH_ACTIVATIONS_RECOMPUTE;
    return at < stage->recompute + stage->selective ? AH_ACTIVATIONS_SELECTIVE : AH_ACTIVATIONS_KEEP;
}

static double larger(double a, double b)
{
    return a > b ? a : b;
}

/* Returns the stage's share of its host. The stage's kind must have hosts. */
static const struct ah_problem_host *host_of(const struct ah_cluster_problem *problem,
                                             const struct ah_stage *stage)
{
    return &ah_problem_kind_of(problem, stage->class)->hosts[stage->sharers - 1];
}

static const struct ah_problem_block *blocks_of(const struct ah_cluster_problem *problem,
                                                const struct ah_stage *stage)
{
    return ah_problem_kind_of(problem, stage->class)->blocks;
}

const struct ah_problem_away *ah_stage_away(const struct ah_cluster_problem *problem,
                                            const struct ah_stage *stage, size_t block)
{
    size_t at = block - stage->first;
    if (at >= stage->states_away)
        return NULL;
    return &host_of(problem, stage)
                ->away[block * AH_PROBLEM_AWAYS +
                       (at < stage->weights_away ? AH_OFFLOAD_WEIGHTS : AH_OFFLOAD_STATES)];
}

double ah_stage_backward_us(const struct ah_cluster_problem *problem, const struct ah_stage *stage,
                            size_t block)
{
    const struct ah_problem_away *away = ah_stage_away(problem, stage, block);
    double us = blocks_of(problem, stage)[block].backward_us[ah_stage_way(stage, block)];
    return away ? larger(us, away->backward_us) : us;
}

/* Returns the bytes that stay on a GPU between passes. `ret_work`: those used only during a pass. */
static uint64_t lying_bytes(const struct ah_cluster_problem *problem, const struct ah_stage *stage,
                            uint64_t *ret_work)
{
    const struct ah_problem_block *block = blocks_of(problem, stage) + stage->first;
    const struct ah_problem_away *away =
        stage->states_away ? host_of(problem, stage)->away + stage->first * AH_PROBLEM_AWAYS : NULL;
    uint64_t state = 0, saved = 0, work = 0, staging = 0;
    for (size_t at = 0; at < stage->end - stage->first; at++, block++) {
        const enum ah_activations way = ah_stage_way(stage, stage->first + at);
        saved += block->saved_bytes[way];
        work = block->work_bytes[way] > work ? block->work_bytes[way] : work;
        if (!away || at >= stage->states_away) {
            state += block->state_bytes;
            continue;
        }
        const struct ah_problem_away *of =
            away + at * AH_PROBLEM_AWAYS +
            (at < stage->weights_away ? AH_OFFLOAD_WEIGHTS : AH_OFFLOAD_STATES);
        state += of->state_bytes;
        staging = of->staging_bytes > staging ? of->staging_bytes : staging;
    }
    *ret_work = work + staging;
    return state + stage->in_flight * saved;
}

void ah_stage_price(const struct ah_cluster_problem *problem, struct ah_stage *stage)
{
    const struct ah_problem_block *blocks = blocks_of(problem, stage);
    uint64_t host = 0, work, lying = lying_bytes(problem, stage, &work);
    double forward_us = 0, backward_us = 0, update_us = 0;
    for (size_t i = stage->first; i < stage->end; i++) {
        const struct ah_problem_away *away = ah_stage_away(problem, stage, i);
        host += away ? away->host_bytes : 0;
        forward_us += away ? larger(blocks[i].forward_us, away->forward_us) : blocks[i].forward_us;
        backward_us += ah_stage_backward_us(problem, stage, i);
        update_us += away ? away->update_us : blocks[i].update_us;
    }
    stage->forward_us = forward_us;
    stage->backward_us = backward_us;
    stage->update_us = update_us;
    stage->memory_bytes = lying + work;
    stage->host_bytes = host;
}

/* ---- activations ---- */

static bool fits(const struct ah_cluster_problem *problem, const struct ah_stage *stage)
{
    uint64_t work, lying = lying_bytes(problem, stage, &work);
    return lying + work <= ah_problem_kind_of(problem, stage->class)->capacity_bytes;
}

/* Bisects for the fewest selective blocks with which the stage fits; more of them need less memory, except for work.
 * Returns false if the stage does not fit even with all blocks that are not recomputed selective. */
static bool fit_selective(const struct ah_cluster_problem *problem, struct ah_stage *stage)
{
    size_t low = 0, high = stage->end - stage->first - stage->recompute;
    stage->selective = high;
    if (!fits(problem, stage))
        return false;
    while (low < high) {
        stage->selective = low + (high - low) / 2;
        if (fits(problem, stage))
            high = stage->selective;
        else
            low = stage->selective + 1;
    }
    stage->selective = high;
    return true;
}

/* Returns a lower bound on the number of recomputed blocks. With fewer, the stage does not fit even if the rest is
 * selective and work needs no memory. If the bound exceeds the number of blocks, the stage never fits. */
static size_t least_recompute(const struct ah_cluster_problem *problem, const struct ah_stage *stage)
{
    const uint64_t room = ah_problem_kind_of(problem, stage->class)->capacity_bytes;
    const size_t n = stage->end - stage->first;
    struct ah_stage next = *stage;
    size_t low = 0, high = n + 1;
    while (low < high) {
        uint64_t work;
        next.recompute = (low + high) / 2 < n ? (low + high) / 2 : n;
        next.selective = n - next.recompute;
        if (lying_bytes(problem, &next, &work) <= room)
            high = next.recompute;
        else
            low = next.recompute + 1;
    }
    return low;
}

/* Finds the shortest backward that fits, without changing what is away; between equals, with the fewest recomputed. */
static bool fit_activations(const struct ah_cluster_problem *problem, struct ah_stage *stage)
{
    struct ah_stage best, next = *stage;
    bool found = false;
    for (next.recompute = least_recompute(problem, stage); next.recompute <= next.end - next.first;
         next.recompute++) {
        next.selective = 0;
        ah_stage_price(problem, &next);
        if (found && next.backward_us >= best.backward_us) /* recomputing more blocks only takes longer */
            break;
        if (next.memory_bytes > ah_problem_kind_of(problem, next.class)->capacity_bytes) {
            if (!fit_selective(problem, &next))
                continue;
            ah_stage_price(problem, &next);
        }
        if (!found || next.backward_us < best.backward_us)
            best = next;
        found = true;
    }
    if (found)
        *stage = best;
    return found;
}

/* ---- the host ---- */

/* True if the passes of `a` are shorter by more than a rounding error. */
static bool is_shorter(const struct ah_stage *a, const struct ah_stage *b)
{
    return a->forward_us + a->backward_us < (b->forward_us + b->backward_us) * (1 - 1e-12);
}

static bool host_suffices(const struct ah_cluster_problem *problem, const struct ah_stage *stage)
{
    return stage->host_bytes <= host_of(problem, stage)->bytes &&
           stage->update_us <= problem->update_limit_us;
}

/* Moves as many states away as the host allows, beginning with `weights_away`. False: it does not even allow these. */
static bool most_away(const struct ah_cluster_problem *problem, struct ah_stage *stage)
{
    size_t low = stage->weights_away, high = stage->end - stage->first;
    stage->states_away = low;
    ah_stage_price(problem, stage);
    if (low && !host_suffices(problem, stage))
        return false;
    while (low < high) {
        stage->states_away = high - (high - low) / 2;
        ah_stage_price(problem, stage);
        if (host_suffices(problem, stage))
            low = stage->states_away;
        else
            high = stage->states_away - 1;
    }
    stage->states_away = low;
    ah_stage_price(problem, stage);
    return true;
}

/* Keeps as few states away as fit with the present treatment of activations. */
static void least_away(const struct ah_cluster_problem *problem, struct ah_stage *stage)
{
    size_t low = stage->weights_away, high = stage->states_away;
    while (low < high) {
        stage->states_away = low + (high - low) / 2;
        if (fits(problem, stage))
            high = stage->states_away;
        else
            low = stage->states_away + 1;
    }
    stage->states_away = high;
    ah_stage_price(problem, stage);
}

/* Makes `stage` faster with blocks on the host or, if not `found`, makes it fit. False: it does not fit. */
static bool fit_away(const struct ah_cluster_problem *problem, bool found, struct ah_stage *stage)
{
    struct ah_stage next = *stage;
    next.recompute = next.selective = 0;
    for (size_t w = 0; w <= stage->end - stage->first; w++) {
        next.weights_away = w;
        next.recompute = next.selective = 0;
        if (!most_away(problem, &next))
            continue;
        if (found && !is_shorter(&next, stage))
            break;
        if (!fit_activations(problem, &next) || (found && !is_shorter(&next, stage)))
            continue;
        least_away(problem, &next);
        *stage = next;
        found = true;
    }
    return found;
}

bool ah_stage_fit(const struct ah_cluster_problem *problem, uint64_t in_flight, struct ah_stage *stage)
{
    struct ah_stage next = *stage;
    next.in_flight = in_flight;
    next.states_away = next.weights_away = 0;
    bool found = fit_activations(problem, &next);
    bool kept = found && !next.recompute && !next.selective;
    if (!kept && ah_problem_has_host(problem, problem->classes[stage->class].kind) &&
        host_of(problem, stage)->bytes)
        found = fit_away(problem, found, &next);
    if (found)
        *stage = next;
    return found;
}

bool ah_pipeline_fit(const struct ah_cluster_problem *problem, struct ah_pipeline *pipeline)
{
    for (size_t i = 0; i < pipeline->n_stages; i++) {
        uint64_t behind = pipeline->n_stages - i;
        if (!ah_stage_fit(problem, pipeline->micro_batches < behind ? pipeline->micro_batches : behind,
                          &pipeline->stages[i]))
            return false;
    }
    return true;
}
