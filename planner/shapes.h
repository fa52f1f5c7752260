/* SPDX-License-Identifier: Apache-2.0
 *
 * Shapes: assignments that follow the monotone rule, as a few numbers.
 *
 * Of the transformer blocks, the first ones recompute, then some are selective, the rest keep; the first ones have
 * their weights on the host; the last ones have their optimizer away from the device: streamed before host, host before
 * streamed, or mixed evenly. Embedding and head have a config each. A walk changes one or two of the numbers at a
 * time, in steps that become smaller.
 */
#ifndef AH_PLANNER_SHAPES_H
#define AH_PLANNER_SHAPES_H

#include "planner/milp.h"
#include "planner/trial.h"

enum ah_shape_number {
    AH_SHAPE_RECOMPUTE,
    AH_SHAPE_SELECTIVE,
    AH_SHAPE_HOST_WEIGHTS,
    AH_SHAPE_STREAMED,
    AH_SHAPE_HOST_OPTIMIZER,
    AH_SHAPE_HOST_SUMS, /* the last ones sum gradients on the host (several micro-batches, optimizer host) */
    AH_SHAPE_COUNTS,
    AH_SHAPE_MIX = AH_SHAPE_COUNTS, /* streamed first, host first, mixed */
    AH_SHAPE_EMBEDDING,             /* index into ah_configs() */
    AH_SHAPE_HEAD,
    AH_SHAPE_NUMBERS
};

struct ah_shape {
    int32_t at[AH_SHAPE_NUMBERS];
};

/* The shape with a candidate's marginal counts. */
struct ah_shape ah_shapes_of_counts(const struct ah_job *job, const struct ah_milp_result *result,
                                    const uint32_t *counts);

/* The shape with an assignment's counts. */
struct ah_shape ah_shapes_of_configs(const struct ah_job *job, const struct ah_config *configs);

/* Configs by block; what a block may not have (`allowed` as in search.h) becomes the first that it may. */
void ah_shapes_configs(const struct ah_job *job, const uint32_t *allowed, const struct ah_shape *shape,
                       struct ah_config *ret_configs);

/* Walks from `shape` with these knobs until no step helps or the budget is spent; `shape` becomes the best met.
 * `largest`: the first step; 0: an eighth of the layers. Where the start does not fit, steps that take less memory come first. */
int ah_shapes_walk(struct ah_trial *trial, const uint32_t *allowed, const struct ah_knobs *knobs,
                   int32_t largest, struct ah_shape *shape, struct ah_error *err);

#endif
