/* SPDX-License-Identifier: Apache-2.0
 *
 * Shared by the files of the MILP: columns with their costs, and rows over the columns.
 *
 *     milp_columns.c   classes of blocks, columns, and the pieces of time and memory of each
 *     milp.c           rows: sums of these pieces; their statement and proofs
 *     milp_solve.c     bound, candidates, shortage
 */
#ifndef AH_PLANNER_BOUND_MILP_INTERNAL_H
#define AH_PLANNER_BOUND_MILP_INTERNAL_H

#include "planner/bound/milp.h"

struct ah_milp_class {
    uint32_t group;
    uint32_t allowed; /* bit i: config i */
    uint32_t blocks;
    uint32_t first_block;
    size_t first_column, n_columns;
};

/* What one block with one config needs in an iteration, at the full speed of each lane. */
struct ah_milp_pieces {
    double forward_us;  /* of one micro-batch; for the head, includes its backward */
    double backward_us; /* of one micro-batch */
    double gradient_us; /* sums and squares of gradients in the block's compute ops, for all micro-batches */
    double update_us;   /* device_adam */
    double lane_us[AH_PLAN_LANES]; /* all work of the block in the lane */
    double late_us[AH_PLAN_LANES]; /* work between the block's last gradient and its next forward */
    double late_gather_us;         /* the part of late_us of `net` for gathering new weights */
    double states_in_us;           /* copying states in for a streamed update */
    bool late;                     /* any of late_us is not zero */
    bool states;                   /* states_in_us is not zero */

    int64_t stays;          /* device bytes at all positions: weights, states */
    int64_t saved;          /* activations, from forward to backward */
    int64_t between;        /* weights fetched once for forward and backward */
    int64_t fetched;        /* weights fetched for the block's own op */
    int64_t table;          /* a tied table fetched for the head */
    int64_t gradient;       /* gradient at the block's own gradient op, sum included */
    int64_t part;           /* the part of `gradient` that one micro-batch needs */
    int64_t sum;            /* the part of `gradient` for the sum on the device */
    int64_t table_gradient; /* of `gradient`, if it is a tied table's, the part live at the head */
    int64_t waits;          /* with clipping: gradient that waits for an update on the device */
    int64_t work_forward;   /* scratch */
    int64_t work_backward;
    int64_t host; /* pinned and pageable host bytes */
};

/* A config of a class. If it fetches weights, a second column (`kept`) is for blocks that keep them until they are used
 * again. */
struct ah_milp_column {
    uint32_t of_class;
    uint32_t config;
    bool kept;
    struct ah_config choice;
    struct ah_milp_pieces pieces;
};

enum ah_milp_row_kind { AH_MILP_TIME, AH_MILP_DEVICE, AH_MILP_HOST, AH_MILP_CAP };

/* The row: sum of coefficients x counts <= limit. In a time row, the sum is <= T. */
struct ah_milp_row {
    const char *name;
    enum ah_milp_row_kind kind;
    int64_t limit;
};

/* Time in units of 2^-10 us, memory in bytes: whole numbers, so that sums are exact. */
#define AH_MILP_UNITS_PER_US 1024.0

struct ah_milp {
    const struct ah_milp_input *input;
    const struct ah_job *job;
    const struct ah_costs *costs;
    uint64_t micro_batches;
    bool clip, by_block;

    struct ah_milp_class *classes; /* the head's class is the last */
    size_t n_classes;
    uint32_t *class_of; /* by block */
    struct ah_milp_column *columns;
    size_t n_columns;
    uint64_t *keepable; /* by class: the most blocks in `kept` columns */
    struct ah_milp_row *rows;
    size_t n_rows;
    int64_t *coefficients; /* (n_rows, n_columns) */
};

/* Builds the MILP in `arena` with the two functions below: first classes, columns and pieces, then rows. */
int ah_milp_build(struct ah_milp *ret_milp, const struct ah_milp_input *input, struct ah_arena *arena,
                  struct ah_error *err);
int ah_milp_columns(struct ah_milp *milp, struct ah_arena *arena, struct ah_error *err);
int ah_milp_rows(struct ah_milp *milp, struct ah_arena *arena, struct ah_error *err);

static inline int64_t *ah_milp_coefficients(const struct ah_milp *milp, size_t row)
{
    return milp->coefficients + row * milp->n_columns;
}

/* True if ranks share states. */
static inline bool ah_milp_shares(const struct ah_milp *milp)
{
    return ah_job_shards(milp->job) > 1;
}

static inline const struct ah_job_group *ah_milp_group(const struct ah_milp *milp, size_t column)
{
    return &milp->job->groups[milp->classes[milp->columns[column].of_class].group];
}

#endif
