/* SPDX-License-Identifier: Apache-2.0
 *
 * Split: chooses which blocks each stage of a pipeline holds, so that
 *
 *     (m - 1) max over stages (t + q) + sum over stages (t + q)
 *
 * is the exact minimum over all splits that fit in memory. A stage's forward and backward take t, its sends q.
 */
#ifndef AH_PLANNER_CLUSTER_SEARCH_SPLIT_H
#define AH_PLANNER_CLUSTER_SEARCH_SPLIT_H

#include "base/error.h"
#include "planner/cluster/cluster_problem.h"

/* The fits of one kind of unit with one number of sharers. */
struct ah_fits_table {
    double *us; /* owned: (most_in_flight, blocks, blocks); negative: not known yet; INFINITY: no room */
    struct ah_stage *stages; /* owned: the fitted stages, if `us` is known and finite */
};

/* Remembers how a run of blocks fits each kind of unit, by the number of micro-batches in flight. Runs of equal blocks
 * are remembered once, wherever in the model they are. A table that cannot be allocated stays empty. */
struct ah_fits {
    const struct ah_cluster_problem *problem; /* borrowed */
    size_t most_in_flight;
    struct ah_fits_table
        *tables; /* owned: one for each kind, or one for each of its numbers of sharers; made on first use */
    size_t *first_table; /* owned: (kinds + 1) */
    double *scratch;     /* owned: for ah_split_best() */
    size_t *from;        /* owned: for ah_split_best() */
    size_t *alike; /* owned: by block: first block of the run of equal blocks (on every kind) up to it */
};

/* A unit and its load. Sharers matter only if blocks may be away. */
struct ah_fits_unit {
    size_t class;
    size_t sharers;
    uint64_t in_flight;
};

int ah_fits_init(struct ah_fits *ret_fits, const struct ah_cluster_problem *problem, struct ah_error *err);
void ah_fits_release(struct ah_fits *fits);

/* Returns the time of forward plus backward of blocks [first, end); INFINITY: they do not fit. */
double ah_fits_us(struct ah_fits *fits, const struct ah_fits_unit *unit, size_t first, size_t end);

/* Does what ah_stage_fit() or, below, ah_pipeline_fit() does, with remembered results. */
bool ah_fits_stage(struct ah_fits *fits, uint64_t in_flight, struct ah_stage *stage);
bool ah_fits_pipeline(struct ah_fits *fits, struct ah_pipeline *pipeline);

/* Sets the blocks of every stage, for the pipeline's number of micro-batches. Returns false if no split fits. */
bool ah_split_best(struct ah_fits *fits, struct ah_pipeline *pipeline);

/* Returns (m - 1) max + sum for a pipeline with fitted stages. */
double ah_split_formula_us(const struct ah_cluster_problem *problem, const struct ah_pipeline *pipeline);

#endif
