/* SPDX-License-Identifier: Apache-2.0
 *
 * Multilevel: a graph in k parts of like weight, each with enough memory, with little weight on the edges between them.
 * Complete graphs of up to some hundred vertices.
 *
 * 1. coarsen.c      pairs of vertices with heavy edges become one, again and again;
 * 2. multilevel.c   the coarsest graph is cut in three ways: parts grow, rows of neighbours, heavy vertices first;
 * 3. refine.c       vertices move for as long as the cut gets smaller, there and on each finer graph.
 */
#ifndef AH_PLANNER_CLUSTER_MULTILEVEL_H
#define AH_PLANNER_CLUSTER_MULTILEVEL_H

#include "planner/cluster/cuts.h"

struct ah_multilevel_problem {
    struct ah_cut_graph graph;
    const double *memory; /* (optional) (n): each part is to have 1 at least */
};

/* What a partition is like. */
struct ah_multilevel_measure {
    double cut;
    double heaviest;     /* part's weight */
    double least_memory; /* of a part; INFINITY: vertices have none */
    double excess;       /* of weights and memory, by part relative to what is allowed, added up; 0: none */
};

/* No part is empty. No part weighs more than 1.03 times the mean, or than the heaviest one if vertices are dealt out heaviest
 * first, and each has its memory, where that is found: else `excess` is above 0. 1 <= k <= n. Equal problems, equal parts.
 * AH_E_MEMORY. */
int ah_multilevel_cut(const struct ah_multilevel_problem *problem, size_t k, size_t *ret_part,
                      struct ah_multilevel_measure *ret_measure, struct ah_error *err);

#endif
