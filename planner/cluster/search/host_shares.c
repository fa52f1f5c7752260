/* SPDX-License-Identifier: Apache-2.0 */
#include "planner/cluster/search/host_shares.h"

#include <stdlib.h>

static bool has_host(const struct ah_cluster_problem *problem, size_t class)
{
    return ah_problem_has_host(problem, problem->classes[class].kind);
}

size_t ah_host_shares_ways(const struct ah_cluster_problem *problem)
{
    size_t ways = 1;
    for (size_t c = 0; c < problem->n_classes; c++) {
        const size_t units = problem->classes[c].units;
        if (has_host(problem, c))
            ways = units > AH_HOST_SHARES_FEW || ways * units > AH_HOST_SHARES_FEW ? AH_HOST_SHARES_FEW + 1
                                                                                   : ways * units;
    }
    return ways;
}

/* Steps to the next vector of units, like an odometer that counts down. */
static bool count_down(const struct ah_cluster_problem *problem, size_t *units)
{
    for (size_t c = 0; c < problem->n_classes; c++) {
        if (has_host(problem, c) && units[c] > 1) {
            units[c]--;
            return true;
        }
        units[c] = problem->classes[c].units;
    }
    return false;
}

static bool halve(const struct ah_cluster_problem *problem, size_t *units)
{
    size_t most = 0;
    for (size_t c = 0; c < problem->n_classes; c++)
        most = has_host(problem, c) && units[c] > most ? units[c] : most;
    for (size_t c = 0; c < problem->n_classes && most > 1; c++)
        units[c] = has_host(problem, c) && units[c] > most / 2 ? most / 2 : units[c];
    return most > 1;
}

bool ah_host_shares_next(const struct ah_cluster_problem *problem, size_t *units)
{
    return ah_host_shares_ways(problem) <= AH_HOST_SHARES_FEW ? count_down(problem, units)
                                                              : halve(problem, units);
}

/* Returns the index of a kind like `like` that has only the host share for `sharers` units; adds the kind if needed. */
static size_t find_kind(struct ah_host_shares_fixed *fixed, const struct ah_problem_kind *like,
                        size_t sharers)
{
    struct ah_problem_kind kind = *like;
    size_t k = 0;
    if (kind.n_hosts) {
        kind.hosts += sharers - 1;
        kind.n_hosts = 1;
    }
    while (k < fixed->problem.n_kinds &&
           (fixed->kinds[k].blocks != kind.blocks || fixed->kinds[k].hosts != kind.hosts))
        k++;
    if (k == fixed->problem.n_kinds)
        fixed->kinds[fixed->problem.n_kinds++] = kind;
    return k;
}

int ah_host_shares_fix(struct ah_host_shares_fixed *ret_fixed, const struct ah_cluster_problem *problem,
                       const size_t *units, struct ah_error *err)
{
    struct ah_host_shares_fixed fixed = {.problem = *problem};
    fixed.classes = calloc(problem->n_classes, sizeof *fixed.classes);
    fixed.kinds = calloc(problem->n_classes, sizeof *fixed.kinds);
    if (!fixed.classes || !fixed.kinds) {
        ah_host_shares_release(&fixed);
        return ah_error_memory(err);
    }
    fixed.problem.n_kinds = 0;
    for (size_t c = 0; c < problem->n_classes; c++) {
        fixed.classes[c] = problem->classes[c];
        fixed.classes[c].units = units[c];
        fixed.classes[c].kind = find_kind(&fixed, ah_problem_kind_of(problem, c), units[c]);
    }
    fixed.problem.classes = fixed.classes;
    fixed.problem.kinds = fixed.kinds;
    *ret_fixed = fixed;
    return AH_OK;
}

void ah_host_shares_release(struct ah_host_shares_fixed *fixed)
{
    if (!fixed)
        return;
    free(fixed->classes);
    free(fixed->kinds);
    *fixed = (struct ah_host_shares_fixed){0};
}
