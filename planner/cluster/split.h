/* SPDX-License-Identifier: Apache-2.0
 *
 * Split: which blocks each stage of a pipeline holds, so that
 *
 *     (m - 1) max over stages (t + q) + sum over stages (t + q)
 *
 * is least: exactly, of all splits whose stages fit their memory. t is forward and backward of the stage, q its sends.
 */
#ifndef AH_PLANNER_CLUSTER_SPLIT_H
#define AH_PLANNER_CLUSTER_SPLIT_H

#include "base/error.h"
#include "planner/cluster/instance.h"

/* Of units of one kind that share their host with so many. */
struct ah_fits_table {
    double *us; /* owned: (most_in_flight, blocks, blocks); negative: not asked yet; INFINITY: no room */
    struct ah_stage *stages; /* owned: likewise, fitted; where `us` is known and finite */
};

/* What a unit of each kind takes for each run of blocks with so many micro-batches in flight, and how it treats them,
 * remembered, as far as there is memory for it. Runs of blocks that are alike are remembered once, wherever they lie. */
struct ah_fits {
    const struct ah_instance *instance; /* borrowed */
    size_t most_in_flight;
    struct ah_fits_table
        *tables;         /* owned: of each kind one, or for every number of sharers; made when asked */
    size_t *first_table; /* owned: (kinds + 1) */
    double *scratch;     /* owned: of ah_split_best() */
    size_t *from;        /* owned: the same */
    size_t
        *alike; /* owned: (blocks): the first of the blocks before it that are all like it, on every kind */
};

/* Who is asked. Sharers matter where blocks may be away. */
struct ah_fits_unit {
    size_t class;
    size_t sharers;
    uint64_t in_flight;
};

int ah_fits_init(struct ah_fits *ret_fits, const struct ah_instance *instance, struct ah_error *err);
void ah_fits_release(struct ah_fits *fits);

/* Forward and backward of blocks [first, end); INFINITY: no room. */
double ah_fits_us(struct ah_fits *fits, const struct ah_fits_unit *unit, size_t first, size_t end);

/* ah_stage_fit() and ah_pipeline_fit(). */
bool ah_fits_stage(struct ah_fits *fits, uint64_t in_flight, struct ah_stage *stage);
bool ah_fits_pipeline(struct ah_fits *fits, struct ah_pipeline *pipeline);

/* Sets first and end of every stage, for the pipeline's micro-batches. False: no split fits. */
bool ah_split_best(struct ah_fits *fits, struct ah_pipeline *pipeline);

/* (m - 1) max + sum, of a pipeline whose stages are fitted. */
double ah_split_formula_us(const struct ah_instance *instance, const struct ah_pipeline *pipeline);

#endif
