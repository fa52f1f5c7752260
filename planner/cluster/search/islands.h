/* SPDX-License-Identifier: Apache-2.0
 *
 * Islands: groups of classes with much faster links inside than between them: racks, zones or sites, for example.
 */
#ifndef AH_PLANNER_CLUSTER_SEARCH_ISLANDS_H
#define AH_PLANNER_CLUSTER_SEARCH_ISLANDS_H

#include "base/error.h"
#include "planner/cluster/cluster_problem.h"

struct ah_islands {
    size_t n_classes;
    size_t *order; /* owned: classes; at every level, those of an island are adjacent */
    double *links; /* owned: bytes/s of the fastest link from order[i] to any class before it; links[0] = 0 */
    double *levels; /* owned: the slowest link inside islands; from the coarsest islands to the finest */
    size_t n_levels;
};

/* Finds the levels: the fastest link between islands has at most a quarter of the slowest inside. AH_E_MEMORY. */
int ah_islands_init(struct ah_islands *ret_islands, const struct ah_cluster_problem *problem,
                    struct ah_error *err);
void ah_islands_release(struct ah_islands *islands);

/* Numbers the islands of a level in `order`. `ret_island`: by class. Returns the number of islands, at least two. */
size_t ah_islands_at(const struct ah_islands *islands, size_t level, size_t *ret_island);

#endif
