/* SPDX-License-Identifier: Apache-2.0
 *
 * Islands: classes of units in groups whose links are much faster than those between the groups: racks, zones, sites.
 */
#ifndef AH_PLANNER_CLUSTER_ISLANDS_H
#define AH_PLANNER_CLUSTER_ISLANDS_H

#include "base/error.h"
#include "planner/cluster/instance.h"

struct ah_islands {
    size_t n_classes;
    size_t *order; /* owned: classes; those of an island stand side by side, however coarse islands are */
    double *
        links; /* owned: of each class in `order`, the fastest to any before it, bytes a second; the first one: 0 */
    double *levels; /* owned: the slowest link inside islands; from the coarsest islands to the finest */
    size_t n_levels;
};

/* A level is where the next slower link that holds classes together has a quarter of the bandwidth at most. AH_E_MEMORY. */
int ah_islands_init(struct ah_islands *ret_islands, const struct ah_instance *instance, struct ah_error *err);
void ah_islands_release(struct ah_islands *islands);

/* Which island each class is on, by their order. Returns how many there are: two or more. */
size_t ah_islands_at(const struct ah_islands *islands, size_t level, size_t *ret_island);

#endif
