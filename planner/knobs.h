/* SPDX-License-Identifier: Apache-2.0
 *
 * Knobs: everything about a plan that is not a config: where a search starts, and the rungs that it tries.
 */
#ifndef AH_PLANNER_KNOBS_H
#define AH_PLANNER_KNOBS_H

#include "planner/trial.h"

/* With so few blocks each is a large piece of the memory: the best choices lie alone, and often with knobs that are of no
 * use elsewhere. */
enum { AH_FEW_BLOCKS = 8 };

/* To start from: a quarter of a layer is a tile. */
struct ah_knobs ah_knobs_first(const struct ah_job *job, enum ah_scheduling scheduling,
                               enum ah_micro_order micro_order);

/* The same with whole layers as tiles: what takes the least work to simulate. */
struct ah_knobs ah_knobs_coarse(const struct ah_job *job, enum ah_scheduling scheduling,
                                enum ah_micro_order micro_order);

/* Those that take the least memory: nothing is fetched ahead, rings have one place. */
struct ah_knobs ah_knobs_leanest(const struct ah_job *job, enum ah_scheduling scheduling,
                                 enum ah_micro_order micro_order);

/* The same, with a ring of states though the choice that they are of may stream none. */
struct ah_knobs ah_knobs_with_states(const struct ah_knobs *knobs);

bool ah_knobs_equal(const struct ah_knobs *a, const struct ah_knobs *b);

/* One knob on another rung of its ladder, as `random` says. */
void ah_knobs_shake(const struct ah_job *job, uint64_t random, struct ah_knobs *knobs);

/* The same, with those that these configs give nothing to decide at a rung that stands for all: what differs in no more
 * is the same plan. */
struct ah_knobs ah_knobs_that_count(const struct ah_job *job, const struct ah_config *configs,
                                    const struct ah_knobs *knobs);

/* The same with one knob on another rung of its ladder, in every way. Returns how many. */
enum { AH_KNOBS_NEIGHBOURS_MAX = 54 };
size_t ah_knobs_neighbours(const struct ah_job *job, const struct ah_knobs *knobs,
                           struct ah_knobs ret_neighbours[AH_KNOBS_NEIGHBOURS_MAX]);

/* Tries these configs with other knobs than the given, whose period is given too: one after the other, each better one
 * kept, until none helps. */
int ah_knobs_climb(struct ah_trial *trial, const struct ah_config *configs, struct ah_knobs *knobs,
                   double *period_us, struct ah_error *err);

#endif
