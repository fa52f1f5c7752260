/* SPDX-License-Identifier: Apache-2.0
 *
 * Grids: the units of some nodes in a row, cut into d pipelines of p stages in the way that launchers number ranks.
 *
 * It visits all choices of nodes in all orders; swapping equal nodes gives no new order. If there are more than
 * AH_GRIDS_ORDERS orders, nodes of equal units stay together: all of them work or none. Then at most
 * AH_GRIDS_ORDERS_TOGETHER orders of each choice are visited: enough for all 4! orders of four kinds.
 */
#ifndef AH_PLANNER_CLUSTER_POLICIES_GRIDS_H
#define AH_PLANNER_CLUSTER_POLICIES_GRIDS_H

#include "base/error.h"
#include "planner/cluster/search/draft.h"

enum { AH_GRIDS_ORDERS = 20000, AH_GRIDS_ORDERS_TOGETHER = 24 };

struct ah_grid {
    const size_t *classes; /* (pipelines * stages): classes of the units in a row */
    size_t pipelines, stages;
    bool rows; /* neighbours are stages of one pipeline; false: the same stage of different pipelines */
};

static inline size_t ah_grid_class(const struct ah_grid *grid, size_t pipeline, size_t stage)
{
    return grid->classes[grid->rows ? pipeline * grid->stages + stage : stage * grid->pipelines + pipeline];
}

struct ah_grids_visitor {
    void *context;
    bool together; /* nodes of equal units stay together even if there are few orders */
    bool uncut;    /* one visit for each choice of nodes, as one pipeline of any length */
    /* (optional) True if some order of these units is worth a visit; the order of `classes` does not matter. */
    bool (*worth)(void *context, const struct ah_grid *grid);
    int (*visit)(void *context, const struct ah_grid *grid, struct ah_error *err);
};

/* Visits grids of at most `most_pipelines` pipelines and as many stages as there are blocks. Stops if a visit fails. */
int ah_grids_visit(const struct ah_cluster_problem *problem, uint64_t most_pipelines,
                   const struct ah_grids_visitor *visitor, struct ah_error *err);

/* Fills the draft with the pipelines of a grid; only the class of each stage is set. */
void ah_grid_draft(const struct ah_grid *grid, struct ah_draft *draft);

#endif
