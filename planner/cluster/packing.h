/* SPDX-License-Identifier: Apache-2.0
 *
 * Packing: whole pipelines, by integer programming, from those that the bound by grouping finds: starts of a search.
 *
 * grouping.h asks whether a step of T is possible, and finds pipelines as numbers of units of each kind that could do m
 * micro-batches in that time. For a number D of pipelines GLPK packs them:
 *
 *     maximise  sum of m(j) x(j)   subject to  sum of y(j, k) x(j) <= N(k) for each k,  sum of x(j) = D,  x whole      (1)
 *
 * What was found could do its share at most, so that a pack is where a search begins, not more. All are asked for, T by T,
 * from the shortest one on; what is found for one T is there for those that are longer.
 */
#ifndef AH_PLANNER_CLUSTER_PACKING_H
#define AH_PLANNER_CLUSTER_PACKING_H

#include "planner/cluster/compositions.h"

/* Units of each kind, by pipeline. */
typedef int (*ah_packing_visit)(void *context, const uint8_t (*units)[AH_COMPOSITIONS_KINDS],
                                size_t n_pipelines, struct ah_error *err);

/* Visits packs for steps of about `step_us`, each once for every T and D that has one of almost all micro-batches. What a visit
 * returns, if not AH_OK, ends it. AH_E_MEMORY. */
int ah_packing_each(const struct ah_instance *instance, double step_us, ah_packing_visit visit, void *context,
                    struct ah_error *err);

#endif
