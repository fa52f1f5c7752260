/* SPDX-License-Identifier: Apache-2.0
 *
 * Host shares: how many units of each node work and share its host. This file counts and visits the possible numbers,
 * and makes a problem with fixed numbers.
 */
#ifndef AH_PLANNER_CLUSTER_SEARCH_HOST_SHARES_H
#define AH_PLANNER_CLUSTER_SEARCH_HOST_SHARES_H

#include "base/error.h"
#include "planner/cluster/cluster_problem.h"

enum { AH_HOST_SHARES_FEW = 27 };

/* Returns the number of ways to choose how many units of each node work; AH_HOST_SHARES_FEW + 1: too many. */
size_t ah_host_shares_ways(const struct ah_cluster_problem *problem);

/* Steps `units` (by class) to the next way; begin with all units. Nodes without a host keep all units. Visits all ways
 * if they are few; otherwise halves the largest number, and caps the others at it. False: there are no more. */
bool ah_host_shares_next(const struct ah_cluster_problem *problem, size_t *units);

/* A problem with a fixed number of units in each class. They share its host even if some of them are idle. */
struct ah_host_shares_fixed {
    struct ah_cluster_problem problem;
    struct ah_problem_class *classes; /* owned */
    struct ah_problem_kind *kinds;    /* owned */
};

/* Makes a problem with `units` (by class). Everything else is borrowed from `problem`. AH_E_MEMORY. */
int ah_host_shares_fix(struct ah_host_shares_fixed *ret_fixed, const struct ah_cluster_problem *problem,
                       const size_t *units, struct ah_error *err);
void ah_host_shares_release(struct ah_host_shares_fixed *fixed);

#endif
