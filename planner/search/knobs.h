/* SPDX-License-Identifier: Apache-2.0
 *
 * Knobs: the choices of a plan that hold for all blocks; where searches start, and the ladders of values to try.
 */
#ifndef AH_PLANNER_SEARCH_KNOBS_H
#define AH_PLANNER_SEARCH_KNOBS_H

#include "planner/search/evaluator.h"

/* With this few blocks, each is a large part of the memory. Then good choices have no good neighbours, and often knobs
 * that are useless elsewhere. */
enum { AH_FEW_BLOCKS = 8 };

/* Returns the knobs to start from: a tile is a quarter of a layer. */
struct ah_knobs ah_knobs_first(const struct ah_job *job, enum ah_scheduling scheduling,
                               enum ah_micro_order micro_order);

/* Returns the same with whole layers as tiles, which takes the least work to simulate. */
struct ah_knobs ah_knobs_coarse(const struct ah_job *job, enum ah_scheduling scheduling,
                                enum ah_micro_order micro_order);

/* Returns the knobs that need the least memory: nothing is fetched ahead, and rings have one slot. */
struct ah_knobs ah_knobs_leanest(const struct ah_job *job, enum ah_scheduling scheduling,
                                 enum ah_micro_order micro_order);

/* Returns these knobs with a ring of states, even if no states are streamed. */
struct ah_knobs ah_knobs_with_states(const struct ah_knobs *knobs);

bool ah_knobs_equal(const struct ah_knobs *a, const struct ah_knobs *b);

/* Moves one knob to another rung of its ladder, chosen by `random`. */
void ah_knobs_shake(const struct ah_job *job, uint64_t random, struct ah_knobs *knobs);

/* Returns these knobs, but with each knob that does not matter for these configs set to a fixed value. Then equal
 * configs and equal knobs mean the same plan. */
struct ah_knobs ah_knobs_that_count(const struct ah_job *job, const struct ah_config *configs,
                                    const struct ah_knobs *knobs);

/* Lists all knobs that differ from the given ones in one knob, by one rung of its ladder. Returns how many. */
enum { AH_KNOBS_NEIGHBOURS_MAX = 54 };
size_t ah_knobs_neighbours(const struct ah_job *job, const struct ah_knobs *knobs,
                           struct ah_knobs ret_neighbours[AH_KNOBS_NEIGHBOURS_MAX]);

/* Improves the knobs for these configs, one knob after another, until no change helps. `*period_us`: the period with
 * `*knobs`, before and after the call. */
int ah_knobs_climb(struct ah_evaluator *evaluator, const struct ah_config *configs, struct ah_knobs *knobs,
                   double *period_us, struct ah_error *err);

#endif
