/* SPDX-License-Identifier: Apache-2.0
 *
 * Shared by the planner's parts: cluster_planner.c finds arrangements, cluster_result.c reports them.
 */
#ifndef AH_PLANNER_CLUSTER_CLUSTER_PLANNER_INTERNAL_H
#define AH_PLANNER_CLUSTER_CLUSTER_PLANNER_INTERNAL_H

#include "planner/cluster/cluster_planner.h"
#include "planner/cluster/search/settings.h"

/* An arrangement found by a search; in the arena. */
struct ah_cluster_found {
    struct ah_arrangement arrangement;
    const struct ah_setting *setting;
    double us; /* time of a step; INFINITY: there is no arrangement */
};

struct ah_cluster_planning {
    const struct ah_cluster_request *request;
    struct ah_arena *arena;
    struct ah_setting *settings;
    size_t n_settings;
    size_t left_out;                                   /* number of settings that were not made */
    double left_out_bound_us;                          /* their least bound; INFINITY: none was left out */
    struct ah_cluster_found best[AH_CLUSTER_POLICIES]; /* by policy; `optimal` is our own search */
    uint64_t evaluations;
    bool exhausted; /* every setting was exhausted */
    uint64_t done, planned;
};

/* Writes the best arrangement of `policy`, which must exist, as a plan with certificate and notes. AH_E_MEMORY. */
int ah_cluster_result_write(const struct ah_cluster_planning *p, enum ah_cluster_policy policy,
                            struct ah_cluster_plan *ret_plan, struct ah_error *err);

/* Fills the shortage and returns AH_E_INFEASIBLE if it is proven that no plan exists, otherwise AH_E_NO_PLAN. */
int ah_cluster_result_fail(const struct ah_cluster_planning *p, struct ah_cluster_shortage *ret_shortage,
                           struct ah_error *err);

#endif
