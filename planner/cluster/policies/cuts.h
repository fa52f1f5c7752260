/* SPDX-License-Identifier: Apache-2.0
 *
 * Cuts: splits a graph into k parts of about equal weight, with little weight on the edges between parts. It replaces
 * METIS's k-way partitioning in planners that use METIS. It is meant for small complete graphs. From two initial
 * partitions, vertices move and swap as long as the cut shrinks.
 */
#ifndef AH_PLANNER_CLUSTER_POLICIES_CUTS_H
#define AH_PLANNER_CLUSTER_POLICIES_CUTS_H

#include "base/error.h"

#include <stddef.h>

struct ah_cut_graph {
    size_t n;
    const double *weights; /* (n) */
    const double *edges;   /* (n, n), symmetric; the diagonal is ignored */
};

/* Finds a part for each vertex; 1 <= k <= n. No part is empty. If possible, none exceeds the mean by over 3 %.
 * AH_E_MEMORY. */
int ah_cuts_find(const struct ah_cut_graph *graph, size_t k, size_t *ret_part, struct ah_error *err);

#endif
