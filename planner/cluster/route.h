/* SPDX-License-Identifier: Apache-2.0
 *
 * Route: the stages of one pipeline in an order along fast links, so that what neighbours send each other takes the least
 * time in all.
 */
#ifndef AH_PLANNER_CLUSTER_ROUTE_H
#define AH_PLANNER_CLUSTER_ROUTE_H

#include "planner/cluster/instance.h"

/* What neighbours in this order send each other for a micro-batch. */
double ah_route_us(const struct ah_instance *instance, const size_t *classes, size_t n);

/* Turns pieces of the order round and moves them, for as long as that takes less; units of a class that stand side by side
 * stay so. True: the order changed. */
bool ah_route_improve(const struct ah_instance *instance, size_t *classes, size_t n);

#endif
