/* SPDX-License-Identifier: Apache-2.0
 *
 * Update limit: how long an update may take, chosen for one arrangement.
 *
 * States that are away make the update longer, and passes shorter because fewer blocks are recomputed. All stages
 * update at the end and the slowest counts, so one limit serves for all of them: under it each stage takes its
 * shortest passes (ah_stage_fit()). A lower limit never makes passes shorter, so only a few limits matter. The first
 * is the problem's; each next one lies just below the longest update of a stage with anything away, until there is
 * no such stage, or nothing fits.
 */
#ifndef AH_PLANNER_CLUSTER_SEARCH_UPDATE_LIMIT_H
#define AH_PLANNER_CLUSTER_SEARCH_UPDATE_LIMIT_H

#include "base/error.h"
#include "planner/cluster/cluster_problem.h"

/* The longest update of a stage with anything away; 0: nothing is away. */
double ah_update_limit_longest_us(const struct ah_arrangement *arrangement);

/* Leaves the stages of `arrangement` fitted for the limit with the fastest simulation; of equals, for the largest
 * limit. `ret_us`: that simulation; INFINITY: nothing fits, and stages are undefined. `evaluations` grows by the
 * simulations. AH_E_MEMORY. */
int ah_update_limit_choose(const struct ah_cluster_problem *problem, struct ah_arrangement *arrangement,
                           double *ret_us, uint64_t *evaluations, struct ah_error *err);

#endif
