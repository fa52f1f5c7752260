/* SPDX-License-Identifier: Apache-2.0
 *
 * Event tree: finds the first of n events while their times change, with a tree of winners. Of events with equal times,
 * the one with the lower index wins.
 */
#ifndef AH_PLANNER_CLUSTER_SIM_EVENT_TREE_H
#define AH_PLANNER_CLUSTER_SIM_EVENT_TREE_H

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

struct ah_event_tree {
    double *us;        /* owned: (slots), by event */
    uint32_t *winners; /* owned: by node: the earlier of nodes 2i and 2i + 1; nodes >= `slots` are events */
    size_t slots;      /* a power of two */
};

/* Makes a tree with all events at INFINITY. AH_E_MEMORY. */
int ah_event_tree_init(struct ah_event_tree *ret_tree, size_t n, struct ah_error *err);
void ah_event_tree_release(struct ah_event_tree *tree);

void ah_event_tree_set(struct ah_event_tree *tree, size_t thing, double us);

static inline size_t ah_event_tree_first(const struct ah_event_tree *tree)
{
    return tree->winners[1];
}

#endif
