/* SPDX-License-Identifier: Apache-2.0
 *
 * Sharers: how many units of each node with a host work, and share it: in how many ways, one after another, and an instance in
 * which that is fixed.
 */
#ifndef AH_PLANNER_CLUSTER_SHARERS_H
#define AH_PLANNER_CLUSTER_SHARERS_H

#include "base/error.h"
#include "planner/cluster/instance.h"

enum { AH_SHARERS_FEW = 27 };

/* In how many ways one to all units of each may work; of more than AH_SHARERS_FEW, one more. */
size_t ah_sharers_ways(const struct ah_instance *instance);

/* `units`: by class, at first all of them, as those of nodes without a host always are. One fewer in one node, through all
 * ways; where these are not few, at most half as many in each as the most in any. False: there are no more. */
bool ah_sharers_next(const struct ah_instance *instance, size_t *units);

/* An instance with these units of each class, whose hosts that many share even where some of them idle. */
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
