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

/* Finds the part of each vertex; 1 <= k <= n. No part is empty or, if possible, 3 % above the mean. AH_E_MEMORY. */
int ah_cuts_find(const struct ah_cut_graph *graph, size_t k, size_t *ret_part, struct ah_error *err);

#endif
