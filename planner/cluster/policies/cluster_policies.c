/* SPDX-License-Identifier: Apache-2.0
 *
 * A stage takes time t for the forward and backward of a micro-batch, and q for its sends. For any stage, a pipeline of
 * m micro-batches takes at least
 *
 *     m (t + q) + sum over j before it of (t + q)(j)                                                          (1)
 *
 * because its first input has to pass all stages j before it, and its last gradient has to go back through them.
 */
#include "planner/cluster/policies/cluster_policies_internal.h"

#include "planner/cluster/sim/stage_sim.h"

#include <math.h>

static const struct policy {
    int (*search)(struct ah_policy_search *search, struct ah_error *err);
    bool symmetric;
} policies[AH_CLUSTER_POLICIES] = {
    [AH_CLUSTER_POLICY_MEGATRON] = {ah_policy_megatron, true},
    [AH_CLUSTER_POLICY_WHALE] = {ah_policy_whale, true},
    [AH_CLUSTER_POLICY_HEXISCALE] = {ah_policy_hexiscale, false},
    [AH_CLUSTER_POLICY_METIS] = {ah_policy_metis, true},
    [AH_CLUSTER_POLICY_AUTOHET] = {ah_policy_autohet, true},
};

static double pipeline_bound_us(struct ah_policy_search *search, const struct ah_pipeline *pipeline)
{
    double before_us = 0, most_us = 0;
    uint64_t m = pipeline->micro_batches;
    for (size_t i = 0; i < pipeline->n_stages; i++) {
        const struct ah_stage *stage = &pipeline->stages[i];
        uint64_t behind = pipeline->n_stages - i;
        const struct ah_fits_unit unit = {stage->class, stage->sharers, m < behind ? m : behind};
        double us = ah_fits_us(&search->fits, &unit, stage->first, stage->end);
        if (i + 1 < pipeline->n_stages)
            us += ah_problem_send_us(search->problem, stage->class, stage[1].class);
        if (i > 0)
            us += ah_problem_send_us(search->problem, stage->class, stage[-1].class);
        most_us = fmax(most_us, (double)m * us + before_us); /* (1) */
        before_us += us;
    }
    return most_us;
}

double ah_cluster_policies_bound_us(struct ah_policy_search *search, const struct ah_arrangement *arrangement)
{
    double most_us = 0;
    for (size_t p = 0; p < arrangement->n_pipelines; p++)
        most_us = fmax(most_us, pipeline_bound_us(search, &arrangement->pipelines[p]));
    return most_us;
}

int ah_cluster_policies_try(struct ah_policy_search *search, struct ah_error *err)
{
    struct ah_arrangement *arrangement = &search->trial.arrangement;
    struct ah_stage_sim_result result = {.limit_us = isinf(search->best_us) ? 0 : search->best_us};
    if (ah_cluster_policies_bound_us(search, arrangement) >= search->best_us)
        return AH_OK;
    for (size_t p = 0; p < arrangement->n_pipelines; p++) {
        double alone_us;
        if (!ah_fits_pipeline(&search->fits, &arrangement->pipelines[p]))
            return AH_OK;
        int rc = ah_pipeline_time(search->problem, &arrangement->pipelines[p], &alone_us, err);
        if (rc || alone_us >= search->best_us)
            return rc;
    }
    ah_draft_sort(&search->trial);
    int rc = ah_stage_sim_run(search->problem, arrangement, &result, err);
    if (rc || result.step_us >= search->best_us)
        return rc;
    ah_draft_copy(search->best, &search->trial);
    search->best_us = result.step_us;
    search->found = true;
    return AH_OK;
}

double ah_cluster_policies_flops(const struct ah_policy_search *search, size_t class)
{
    size_t kind = search->problem->classes[class].kind;
    return search->input->flops_per_s[kind] * (double)search->problem->kinds[kind].tp;
}

double ah_cluster_policies_pipeline_flops(const struct ah_policy_search *search,
                                          const struct ah_pipeline *pipeline)
{
    double flops = 0;
    for (size_t i = 0; i < pipeline->n_stages; i++)
        flops += ah_cluster_policies_flops(search, pipeline->stages[i].class);
    return flops;
}

double ah_cluster_policies_work(const struct ah_policy_search *search, size_t block)
{
    const struct ah_problem_block *on_first = &search->problem->kinds[0].blocks[block];
    return on_first->forward_us + on_first->backward_us[AH_ACTIVATIONS_KEEP];
}

/* Gives each micro-batch, one by one, to the pipeline that is furthest below its share. */
bool ah_cluster_policies_share(struct ah_policy_search *search, const double *weights)
{
    struct ah_arrangement *arrangement = &search->trial.arrangement;
    uint64_t left = search->problem->micro_batches;
    double all = 0;
    if (arrangement->n_pipelines > left)
        return false;
    for (size_t p = 0; p < arrangement->n_pipelines; p++)
        all += weights[p];
    for (size_t p = 0; p < arrangement->n_pipelines; p++, left--)
        arrangement->pipelines[p].micro_batches = 1;
    for (; left; left--) {
        double most = -INFINITY;
        size_t at = 0;
        for (size_t p = 0; p < arrangement->n_pipelines; p++) {
            double lacks = weights[p] / all * (double)search->problem->micro_batches -
                           (double)arrangement->pipelines[p].micro_batches;
            if (lacks > most) {
                most = lacks;
                at = p;
            }
        }
        arrangement->pipelines[at].micro_batches++;
    }
    return true;
}

bool ah_cluster_policies_can_hold(const struct ah_cluster_problem *problem, const size_t *classes, size_t n,
                                  size_t d)
{
    double copies = 0;
    for (size_t u = 0; u < n; u++) {
        const struct ah_problem_kind *kind = ah_problem_kind_of(problem, classes[u]);
        double states = 0;
        for (size_t b = 0; b < problem->n_blocks; b++)
            states += (double)kind->blocks[b].state_bytes;
        copies += (double)kind->capacity_bytes / fmax(states, 1);
    }
    return copies >= (double)d;
}

bool ah_cluster_policies_symmetric(enum ah_cluster_policy policy)
{
    return policies[policy].symmetric;
}

int ah_cluster_policies_search(const struct ah_cluster_policy_input *input, enum ah_cluster_policy policy,
                               double none_above_us, struct ah_draft *best, double *ret_us,
                               struct ah_error *err)
{
    struct ah_cluster_problem plain = *input->problem; /* no policy uses the host */
    plain.update_limit_us = 0;
    struct ah_policy_search search = {
        .input = input, .problem = &plain, .best = best, .best_us = none_above_us};
    int rc = ah_fits_init(&search.fits, search.problem, err);
    rc = rc ? rc : ah_draft_init(&search.trial, search.problem, err);
    if (!rc && policies[policy].search)
        rc = policies[policy].search(&search, err);
    if (!rc)
        *ret_us = search.found ? search.best_us : (double)INFINITY;
    ah_draft_release(&search.trial);
    ah_fits_release(&search.fits);
    return rc;
}
