/* SPDX-License-Identifier: Apache-2.0
 *
 * Update limit: chooses how long the update of an arrangement may take.
 *
 * States that are away make the update longer, but passes shorter, because fewer blocks are recomputed. All stages
 * update at the end and the slowest counts. So one limit serves for all of them: each stage takes its shortest passes
 * under it (ah_stage_fit()). A lower limit never makes passes shorter, so only a few limits matter. The first is the
 * problem's. Each next one is just below the longest update of a stage with anything away, until there is no such
 * stage, or nothing fits.
 */
#ifndef AH_PLANNER_CLUSTER_SEARCH_UPDATE_LIMIT_H
#define AH_PLANNER_CLUSTER_SEARCH_UPDATE_LIMIT_H

#include "base/error.h"
#include "planner/cluster/cluster_problem.h"

/* Returns the longest update of a stage with anything away; 0: nothing is away. */
double ah_update_limit_longest_us(const struct ah_arrangement *arrangement);

/* Fits the stages of `arrangement` for the limit with the fastest simulation; between equals, for the largest limit.
 * `ret_us`: the simulated time; INFINITY: nothing fits, and stages are undefined. Adds the number of simulations to
 * `evaluations`. AH_E_MEMORY. */
int ah_update_limit_choose(const struct ah_cluster_problem *problem, struct ah_arrangement *arrangement,
                           double *ret_us, uint64_t *evaluations, struct ah_error *err);

#endif
