/* SPDX-License-Identifier: Apache-2.0
 *
 * Split: chooses which blocks each stage of a pipeline holds, so that
 *
 *     (m - 1) max over stages (t + q) + sum over stages (t + q)
 *
 * is the exact minimum over all splits whose stages fit in memory. t is forward and backward of the stage, q its sends.
 */
#ifndef AH_PLANNER_CLUSTER_SEARCH_SPLIT_H
#define AH_PLANNER_CLUSTER_SEARCH_SPLIT_H

#include "base/error.h"
#include "planner/cluster/cluster_problem.h"

/* Fits of one kind of unit, for one number of sharers. */
struct ah_fits_table {
    double *us; /* owned: (most_in_flight, blocks, blocks); negative: not computed yet; INFINITY: no room */
    struct ah_stage *stages; /* owned: the fitted stages, where `us` is known and finite */
};

/* Remembers how a unit of each kind fits a run of blocks with a number of micro-batches in flight. A table that cannot
 * be allocated stays empty. Runs of equal blocks are remembered once, wherever in the model they are. */
struct ah_fits {
    const struct ah_cluster_problem *problem; /* borrowed */
    size_t most_in_flight;
    struct ah_fits_table
        *tables;         /* owned: one for each kind, or for each number of sharers; made on first use */
    size_t *first_table; /* owned: (kinds + 1) */
    double *scratch;     /* owned: for ah_split_best() */
    size_t *from;        /* owned: for ah_split_best() */
    size_t *alike;       /* owned: by block: where the run of equal blocks (on every kind) up to it begins */
};

/* A unit and its load. Sharers matter only if blocks may be away. */
struct ah_fits_unit {
    size_t class;
    size_t sharers;
    uint64_t in_flight;
};

int ah_fits_init(struct ah_fits *ret_fits, const struct ah_cluster_problem *problem, struct ah_error *err);
void ah_fits_release(struct ah_fits *fits);

/* Returns the time of forward and backward of blocks [first, end); INFINITY: they do not fit. */
double ah_fits_us(struct ah_fits *fits, const struct ah_fits_unit *unit, size_t first, size_t end);

/* As ah_stage_fit() and ah_pipeline_fit(), but with remembered results. */
bool ah_fits_stage(struct ah_fits *fits, uint64_t in_flight, struct ah_stage *stage);
bool ah_fits_pipeline(struct ah_fits *fits, struct ah_pipeline *pipeline);

/* Sets first and end of every stage, for the pipeline's micro-batches. False: no split fits. */
bool ah_split_best(struct ah_fits *fits, struct ah_pipeline *pipeline);

/* Returns (m - 1) max + sum, for a pipeline whose stages are fitted. */
double ah_split_formula_us(const struct ah_cluster_problem *problem, const struct ah_pipeline *pipeline);

#endif
