/* SPDX-License-Identifier: Apache-2.0
 *
 * Relaxation: a bound on the step, and whether anything can fit at all.
 */
#ifndef AH_PLANNER_CLUSTER_BOUND_RELAXATION_H
#define AH_PLANNER_CLUSTER_BOUND_RELAXATION_H

#include "base/error.h"
#include "planner/cluster/cluster_problem.h"

/* No arrangement's simulation takes less than `ret_us`. AH_E_MEMORY. */
int ah_relaxation_time(const struct ah_cluster_problem *problem, double *ret_us, struct ah_error *err);

/* The least bytes that the states of one copy of the model need, and the bytes available; if these are fewer, there is
 * no arrangement. It counts GPUs alone and, if anything may be away, GPUs with hosts. It returns the count that lacks
 * more. */
void ah_relaxation_bytes(const struct ah_cluster_problem *problem, double *ret_needed, double *ret_available);

#endif
