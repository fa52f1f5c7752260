/* SPDX-License-Identifier: Apache-2.0
 *
 * Cuts: a graph in k parts of like weight, with little weight on the edges between them; what METIS's k-way partitioning
 * does for planners that use it. Small complete graphs: from two first partitions, vertices move and change places for
 * as long as the cut gets smaller.
 */
#ifndef AH_PLANNER_CLUSTER_CUTS_H
#define AH_PLANNER_CLUSTER_CUTS_H

#include "base/error.h"

#include <stddef.h>

struct ah_cut_graph {
    size_t n;
    const double *weights; /* (n) */
    const double *edges;   /* (n, n), symmetric; the diagonal does not matter */
};

/* No part is empty; the heaviest is at most 3 % above the mean where that is found. 1 <= k <= n. AH_E_MEMORY. */
int ah_cuts_find(const struct ah_cut_graph *graph, size_t k, size_t *ret_part, struct ah_error *err);

#endif
