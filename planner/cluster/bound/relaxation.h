/* SPDX-License-Identifier: Apache-2.0
 *
 * Relaxation: a bound on the step, and a test whether anything can fit at all.
 */
#ifndef AH_PLANNER_CLUSTER_BOUND_RELAXATION_H
#define AH_PLANNER_CLUSTER_BOUND_RELAXATION_H

#include "base/error.h"
#include "planner/cluster/cluster_problem.h"

/* Computes a time that no arrangement's simulation beats. AH_E_MEMORY. */
int ah_relaxation_time(const struct ah_cluster_problem *problem, double *ret_us, struct ah_error *err);

/* Computes the least bytes for the states of one copy of the model, and the bytes available. If fewer are available
 * than needed, there is no arrangement. Compares GPUs alone and, if anything may be away, GPUs with hosts; returns the
 * pair with the larger shortage. */
void ah_relaxation_bytes(const struct ah_cluster_problem *problem, double *ret_needed, double *ret_available);

#endif
