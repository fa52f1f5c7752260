/* SPDX-License-Identifier: Apache-2.0
 *
 * Grids: the units of some nodes in a row, cut into d pipelines of p stages, in the way that launchers number ranks.
 *
 * All choices of nodes are visited in all orders; swapping equal nodes gives no new order. With more than
 * AH_GRIDS_ORDERS orders, nodes of equal units stay together: all of them work or none. Each choice is then visited in
 * at most AH_GRIDS_ORDERS_TOGETHER orders, enough for all 4! orders of four kinds.
 */
#ifndef AH_PLANNER_CLUSTER_POLICIES_GRIDS_H
#define AH_PLANNER_CLUSTER_POLICIES_GRIDS_H

#include "base/error.h"
#include "planner/cluster/search/draft.h"

enum { AH_GRIDS_ORDERS = 20000, AH_GRIDS_ORDERS_TOGETHER = 24 };

struct ah_grid {
    const size_t *classes; /* (pipelines * stages): classes of the units in a row */
    size_t pipelines, stages;
    bool rows; /* true: neighbours are stages of one pipeline; false: the same stage of different pipelines */
};

static inline size_t ah_grid_class(const struct ah_grid *grid, size_t pipeline, size_t stage)
{
    return grid->classes[grid->rows ? pipeline * grid->stages + stage : stage * grid->pipelines + pipeline];
}

struct ah_grids_visitor {
    void *context;
    bool together; /* nodes of equal units stay together, even if there are few orders */
    bool uncut;    /* visit each choice of nodes once, as one pipeline of any length */
    /* (optional) True if some order of these units is worth a visit. It must ignore the order of `classes`. */
    bool (*worth)(void *context, const struct ah_grid *grid);
    int (*visit)(void *context, const struct ah_grid *grid, struct ah_error *err);
};

/* Visits grids with at most `most_pipelines` pipelines and one stage for each block. Stops when a visit fails. */
int ah_grids_visit(const struct ah_cluster_problem *problem, uint64_t most_pipelines,
                   const struct ah_grids_visitor *visitor, struct ah_error *err);

/* Fills the draft with the pipelines of a grid; only the class of each stage is set. */
void ah_grid_draft(const struct ah_grid *grid, struct ah_draft *draft);

#endif
