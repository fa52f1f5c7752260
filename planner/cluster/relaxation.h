/* SPDX-License-Identifier: Apache-2.0
 *
 * Relaxation: how fast a step can be at most, and whether anything can fit at all.
 */
#ifndef AH_PLANNER_CLUSTER_RELAXATION_H
#define AH_PLANNER_CLUSTER_RELAXATION_H

#include "base/error.h"
#include "planner/cluster/instance.h"

/* No arrangement is rehearsed in less than `ret_us`. AH_E_MEMORY. */
int ah_relaxation_time(const struct ah_instance *instance, double *ret_us, struct ah_error *err);

/* Bytes that one copy of the model's states takes at least, on all GPUs (and hosts, where anything may be away), and
 * bytes that these have: where the first is more, there is no arrangement. Of what GPUs need alone, and with hosts, the
 * one that is shorter. */
void ah_relaxation_bytes(const struct ah_instance *instance, double *ret_needed, double *ret_available);

#endif
