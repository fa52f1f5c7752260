/* SPDX-License-Identifier: Apache-2.0
 *
 * Raises the bounds of settings. A setting is done if a few steps prove that it takes `most_us` or more. Each other
 * setting is tested against the lowest bound so far. If it is not proven to take that long, its bound is bisected
 * between its old bound and the lowest, and becomes the lowest. Each setting gets half of the remaining steps.
 *
 * If there are few ways to share hosts, a time must be proven too short for each way. That covers every arrangement: it
 * fits the problem in which exactly its number of units share each host (host_shares.h). If there are more ways, the
 * proof is for a problem in which each unit has a host to itself.
 */
#include "planner/cluster/bound/bound_raise.h"

#include "planner/cluster/bound/grouping.h"
#include "planner/cluster/search/host_shares.h"

#include <math.h>
#include <stdlib.h>

enum { HALVES = 6, FEW_STEPS = 1000000 };

static bool is_open(const struct ah_setting *setting, double lowest_us)
{
    return !setting->away_as_well && !setting->exhausted && setting->bound_us < lowest_us;
}

/* The groupings of one setting. A time is too short only if this is proven for each of them. */
struct proof {
    struct ah_host_shares_fixed fixed[AH_HOST_SHARES_FEW];
    struct ah_grouping groupings[AH_HOST_SHARES_FEW];
    size_t n_fixed, n;
};

static void release_proof(struct proof *proof)
{
    for (size_t i = 0; i < proof->n; i++)
        ah_grouping_release(&proof->groupings[i]);
    for (size_t i = 0; i < proof->n_fixed; i++)
        ah_host_shares_release(&proof->fixed[i]);
    proof->n = proof->n_fixed = 0;
}

static int add_grouping(struct proof *proof, const struct ah_cluster_problem *problem, bool *ret_can,
                        struct ah_error *err)
{
    int rc = ah_grouping_init(&proof->groupings[proof->n], problem, ret_can, err);
    proof->n += !rc && *ret_can;
    return rc;
}

/* Adds one grouping for each way to share hosts. */
static int add_all(struct proof *proof, const struct ah_cluster_problem *problem, bool *ret_can,
                   struct ah_error *err)
{
    size_t *units = calloc(problem->n_classes, sizeof *units);
    bool more = units;
    int rc = units ? AH_OK : ah_error_memory(err);
    for (size_t c = 0; c < problem->n_classes && more; c++)
        units[c] = problem->classes[c].units;
    for (*ret_can = true; more && *ret_can && !rc; more = !rc && ah_host_shares_next(problem, units)) {
        struct ah_host_shares_fixed *fixed = &proof->fixed[proof->n_fixed];
        rc = ah_host_shares_fix(fixed, problem, units, err);
        proof->n_fixed += !rc;
        rc = rc ? rc : add_grouping(proof, &fixed->problem, ret_can, err);
    }
    free(units);
    return rc;
}

static int init_proof(struct proof *proof, const struct ah_cluster_problem *problem, bool *ret_can,
                      struct ah_error *err)
{
    const size_t ways = ah_host_shares_ways(problem);
    int rc = AH_OK;
    *ret_can = false;
    if (ways > 1 && ways <= AH_HOST_SHARES_FEW)
        rc = add_all(proof, problem, ret_can, err);
    if (rc || *ret_can)
        return rc;
    release_proof(proof);
    return add_grouping(proof, problem, ret_can, err);
}

static int prove(struct proof *proof, double step_us, uint64_t *steps, bool *ret_does, struct ah_error *err)
{
    int rc = AH_OK;
    *ret_does = true;
    for (size_t i = 0; i < proof->n && *ret_does && !rc; i++)
        rc = ah_grouping_proves(&proof->groupings[i], step_us, steps, ret_does, err);
    return rc;
}

static int raise_one(struct ah_setting *setting, double most_us, int halves, uint64_t *steps,
                     struct ah_error *err)
{
    struct proof *proof = calloc(1, sizeof *proof);
    bool can = false, does = false;
    int rc = proof ? init_proof(proof, &setting->problem, &can, err) : ah_error_memory(err);
    if (!rc && can)
        rc = prove(proof, most_us, steps, &does, err);
    double low = does ? most_us : setting->bound_us, high = most_us;
    for (int i = 0; i < halves && !rc && can && !does; i++) {
        bool half;
        double middle = low + (high - low) / 2;
        rc = prove(proof, middle, steps, &half, err);
        *(half ? &low : &high) = middle;
    }
    if (proof)
        release_proof(proof);
    free(proof);
    if (!rc)
        setting->bound_us = low;
    return rc;
}

int ah_bound_raise(struct ah_setting *settings, size_t n, double most_us, uint64_t steps,
                   struct ah_error *err)
{
    double lowest_us = most_us;
    int rc = AH_OK;
    for (size_t i = 0; i < n && !rc; i++) {
        uint64_t few = steps < FEW_STEPS ? steps : FEW_STEPS, left = few;
        if (is_open(&settings[i], most_us))
            rc = raise_one(&settings[i], most_us, 0, &left, err);
        steps -= few - left;
    }
    for (size_t i = 0; i < n && !rc; i++) {
        uint64_t part = steps / 2, left = part;
        if (is_open(&settings[i], lowest_us))
            rc = raise_one(&settings[i], lowest_us, HALVES, &left, err);
        steps -= part - left;
        if (!settings[i].away_as_well)
            lowest_us = fmin(lowest_us, settings[i].bound_us);
    }
    return rc;
}
