/* SPDX-License-Identifier: Apache-2.0
 *
 * Relaxation: a bound on the step, and a test whether anything can fit at all.
 */
#ifndef AH_PLANNER_CLUSTER_BOUND_RELAXATION_H
#define AH_PLANNER_CLUSTER_BOUND_RELAXATION_H

#include "base/error.h"
#include "planner/cluster/cluster_problem.h"

/* Computes the bound: no arrangement's simulation takes less than `ret_us`. AH_E_MEMORY. */
int ah_relaxation_time(const struct ah_cluster_problem *problem, double *ret_us, struct ah_error *err);

/* Computes the least bytes that the states of one copy of the model need, and the bytes available. If fewer are
 * available, there is no arrangement. It compares for GPUs only and, if anything may be away, GPUs with hosts; the
 * larger shortage is returned. */
void ah_relaxation_bytes(const struct ah_cluster_problem *problem, double *ret_needed, double *ret_available);

#endif
