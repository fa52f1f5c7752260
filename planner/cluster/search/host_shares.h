/* SPDX-License-Identifier: Apache-2.0
 *
 * Host shares: how many units of each node work and share its host. It counts and visits the possible numbers, and
 * makes a problem in which they are fixed.
 */
#ifndef AH_PLANNER_CLUSTER_SEARCH_HOST_SHARES_H
#define AH_PLANNER_CLUSTER_SEARCH_HOST_SHARES_H

#include "base/error.h"
#include "planner/cluster/cluster_problem.h"

enum { AH_HOST_SHARES_FEW = 27 };

/* Returns in how many ways numbers of units can be chosen for all nodes; AH_HOST_SHARES_FEW + 1: too many. */
size_t ah_host_shares_ways(const struct ah_cluster_problem *problem);

/* Steps `units` (by class) to the next way; begin with all units. Nodes without a host keep all units. If there are few
 * ways, it visits all; otherwise it halves the largest number, as a cap on all. False: there are no more. */
bool ah_host_shares_next(const struct ah_cluster_problem *problem, size_t *units);

/* A problem with a fixed number of units in each class; they share its host even if some are idle. */
struct ah_host_shares_fixed {
    struct ah_cluster_problem problem;
    struct ah_problem_class *classes; /* owned */
    struct ah_problem_kind *kinds;    /* owned */
};

/* Makes a problem with `units` (by class); the rest is borrowed from `problem`. AH_E_MEMORY. */
int ah_host_shares_fix(struct ah_host_shares_fixed *ret_fixed, const struct ah_cluster_problem *problem,
                       const size_t *units, struct ah_error *err);
void ah_host_shares_release(struct ah_host_shares_fixed *fixed);

#endif
