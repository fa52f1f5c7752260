/* SPDX-License-Identifier: Apache-2.0
 *
 * Route: orders the stages of one pipeline along fast links, so that neighbours need little time to send.
 */
#ifndef AH_PLANNER_CLUSTER_SEARCH_ROUTE_H
#define AH_PLANNER_CLUSTER_SEARCH_ROUTE_H

#include "planner/cluster/cluster_problem.h"

/* Returns the total time of sending one micro-batch in each direction between all neighbours in this order. */
double ah_route_us(const struct ah_cluster_problem *problem, const size_t *classes, size_t n);

/* Reverses and moves pieces of the order as long as that saves time. Adjacent units of a class stay together. True if
 * the order changed. */
bool ah_route_improve(const struct ah_cluster_problem *problem, size_t *classes, size_t n);

#endif
