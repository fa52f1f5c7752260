/* SPDX-License-Identifier: Apache-2.0
 *
 * Groups: the numbers of micro-batches that pipelines may have, from equation (1) of groups.h.
 */
#include "planner/cluster/groups.h"

#include "schemas/cluster_plan.h"

/* Returns the least number of pipelines with which the first one sums no group separately. */
static size_t fewest_plain(const uint64_t *groups, size_t n)
{
    size_t fewest = 1;
    while (ah_cluster_plan_first_sums(groups, n, fewest))
        fewest++;
    return fewest;
}

int ah_groups_read(struct ah_cluster_problem *problem, const struct ah_plan_training *training,
                   bool separate_sums, struct ah_arena *arena, bool *ret_any, struct ah_error *err)
{
    const size_t first = (size_t)(training->n_sums ? training->sums[0] : training->micro_batches);
    const size_t behind = training->n_sums ? training->n_sums - 1 : 0, n = first + behind;
    uint64_t *groups = ah_arena_array(arena, n, sizeof *groups);
    if (!groups)
        return ah_error_memory(err);
    for (size_t i = 0; i < n; i++)
        groups[i] = i < first ? 1 : training->sums[i - first + 1];
    const size_t plain = fewest_plain(groups, n);
    problem->groups =
        (struct ah_problem_groups){.micro_batches = groups,
                                   .n = n,
                                   .fewest = separate_sums ? 1 : plain,
                                   .most = separate_sums ? plain - 1 : n,
                                   .one_stage = problem->tied_bytes && training->tied == AH_TIED_JOINT};
    *ret_any = problem->groups.most > 0;
    return AH_OK;
}

uint64_t ah_groups_most_pipelines(const struct ah_cluster_problem *problem)
{
    return problem->groups.n ? problem->groups.most : problem->micro_batches;
}

uint64_t ah_groups_share(const struct ah_cluster_problem *problem, size_t n, size_t p)
{
    const struct ah_problem_groups *groups = &problem->groups;
    uint64_t share = problem->micro_batches;
    if (p)
        return groups->micro_batches[groups->n - n + p];
    for (size_t i = 1; i < n; i++)
        share -= groups->micro_batches[groups->n - n + i];
    return share;
}

/* Returns the number of places among the `n` of (1) that have `micro_batches`. */
static size_t count_places(const struct ah_cluster_problem *problem, size_t n, uint64_t micro_batches)
{
    size_t count = 0;
    for (size_t i = 0; i < n; i++)
        count += ah_groups_share(problem, n, i) == micro_batches;
    return count;
}

bool ah_groups_may_begin(const struct ah_cluster_problem *problem, const struct ah_arrangement *arrangement,
                         size_t n)
{
    const struct ah_problem_groups *groups = &problem->groups;
    const size_t all = arrangement->n_pipelines;
    if (!groups->n)
        return true;
    if (all < groups->fewest || all > groups->most)
        return false;
    for (size_t p = 0; p < n; p++) {
        const uint64_t micro_batches = arrangement->pipelines[p].micro_batches;
        size_t taken = 0;
        for (size_t q = 0; q <= p; q++)
            taken += arrangement->pipelines[q].micro_batches == micro_batches;
        if (taken > count_places(problem, all, micro_batches) ||
            (groups->one_stage && arrangement->pipelines[p].n_stages > 1))
            return false;
    }
    return true;
}

bool ah_groups_allow(const struct ah_cluster_problem *problem, const struct ah_arrangement *arrangement)
{
    return ah_groups_may_begin(problem, arrangement, arrangement->n_pipelines);
}

void ah_groups_order(const struct ah_cluster_problem *problem, struct ah_arrangement *arrangement)
{
    struct ah_pipeline *pipelines = arrangement->pipelines;
    const size_t n = arrangement->n_pipelines;
    if (!problem->groups.n || !ah_groups_allow(problem, arrangement))
        return;
    for (size_t i = 0; i < n; i++) {
        const uint64_t share = ah_groups_share(problem, n, i);
        size_t at = i;
        while (pipelines[at].micro_batches != share)
            at++;
        const struct ah_pipeline found = pipelines[at];
        for (; at > i; at--)
            pipelines[at] = pipelines[at - 1];
        pipelines[i] = found;
    }
}
