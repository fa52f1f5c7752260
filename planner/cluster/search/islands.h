/* SPDX-License-Identifier: Apache-2.0
 *
 * Islands: groups of classes whose links inside are much faster than those between, for example racks, zones or sites.
 */
#ifndef AH_PLANNER_CLUSTER_SEARCH_ISLANDS_H
#define AH_PLANNER_CLUSTER_SEARCH_ISLANDS_H

#include "base/error.h"
#include "planner/cluster/cluster_problem.h"

struct ah_islands {
    size_t n_classes;
    size_t *order;  /* owned: classes; at every level, the classes of an island are adjacent */
    double *links;  /* owned: bytes/s of the fastest link from order[i] to any class before; links[0] = 0 */
    double *levels; /* owned: the slowest link inside islands, from the coarsest level to the finest */
    size_t n_levels;
};

/* Finds the levels. Links between islands have at most a quarter of the slowest rate inside. AH_E_MEMORY. */
int ah_islands_init(struct ah_islands *ret_islands, const struct ah_cluster_problem *problem,
                    struct ah_error *err);
void ah_islands_release(struct ah_islands *islands);

/* Assigns numbers to the islands of a level, in `order`. `ret_island`: by class. Returns their number, at least two. */
size_t ah_islands_at(const struct ah_islands *islands, size_t level, size_t *ret_island);

#endif
