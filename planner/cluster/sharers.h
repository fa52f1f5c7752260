/* SPDX-License-Identifier: Apache-2.0
 *
 * Sharers: how many units of each node work and share its host. It counts and visits the ways, and makes an instance in
 * which the numbers are fixed.
 */
#ifndef AH_PLANNER_CLUSTER_SHARERS_H
#define AH_PLANNER_CLUSTER_SHARERS_H

#include "base/error.h"
#include "planner/cluster/instance.h"

enum { AH_SHARERS_FEW = 27 };

/* Number of ways to pick how many units of each node use the host; AH_SHARERS_FEW + 1 means too many. */
size_t ah_sharers_ways(const struct ah_instance *instance);

/* Steps `units`, by class, which begins with all of them (nodes without a host keep all). If there are few ways, it
 * goes through all of them; else it caps each number at half the largest one. False: there are no more. */
bool ah_sharers_next(const struct ah_instance *instance, size_t *units);

/* An instance with these units of each class; that many share its host even if some of them idle. */
struct ah_sharers_fixed {
    struct ah_instance instance;
    struct ah_instance_class *classes; /* owned */
    struct ah_instance_kind *kinds;    /* owned */
};

/* The rest is borrowed from `instance`. AH_E_MEMORY. */
int ah_sharers_fix(struct ah_sharers_fixed *ret_fixed, const struct ah_instance *instance,
                   const size_t *units, struct ah_error *err);
void ah_sharers_release(struct ah_sharers_fixed *fixed);

#endif
