/* SPDX-License-Identifier: Apache-2.0
 *
 * Knobs: the choices that hold for all blocks, the starts of searches, and the ladders of values to try.
 */
#ifndef AH_PLANNER_SEARCH_KNOBS_H
#define AH_PLANNER_SEARCH_KNOBS_H

#include "planner/search/evaluator.h"

/* With this few blocks, each block is a large part of the memory. Good choices then have no good neighbours, and often
 * need knobs that are useless for larger models. */
enum { AH_FEW_BLOCKS = 8 };

/* Returns the knobs with which a search starts; a tile is a quarter of a layer. */
struct ah_knobs ah_knobs_first(const struct ah_job *job, enum ah_scheduling scheduling,
                               enum ah_micro_order micro_order);

/* Returns the knobs of ah_knobs_first() with whole layers as tiles, which take the least work to simulate. */
struct ah_knobs ah_knobs_coarse(const struct ah_job *job, enum ah_scheduling scheduling,
                                enum ah_micro_order micro_order);

/* Returns the knobs that need the least memory: nothing is fetched ahead, and rings have one slot. */
struct ah_knobs ah_knobs_leanest(const struct ah_job *job, enum ah_scheduling scheduling,
                                 enum ah_micro_order micro_order);

/* Returns `knobs` with a ring of states, whether or not any states are streamed. */
struct ah_knobs ah_knobs_with_states(const struct ah_knobs *knobs);

bool ah_knobs_equal(const struct ah_knobs *a, const struct ah_knobs *b);

/* Sets one knob to another value of its ladder; `random` decides which. */
void ah_knobs_shake(const struct ah_job *job, uint64_t random, struct ah_knobs *knobs);

/* Returns `knobs` with a fixed value for each knob that has no effect with these configs. After that, equal configs and
 * equal knobs mean the same plan. */
struct ah_knobs ah_knobs_that_count(const struct ah_job *job, const struct ah_config *configs,
                                    const struct ah_knobs *knobs);

/* Lists all knobs that differ from the given ones in one value. Returns their number. */
enum { AH_KNOBS_NEIGHBOURS_MAX = 54 };
size_t ah_knobs_neighbours(const struct ah_job *job, const struct ah_knobs *knobs,
                           struct ah_knobs ret_neighbours[AH_KNOBS_NEIGHBOURS_MAX]);

/* Improves the knobs for these configs, one after another, until no change helps. `*period_us` is the period with
 * `*knobs`, on entry and on return. */
int ah_knobs_climb(struct ah_evaluator *evaluator, const struct ah_config *configs, struct ah_knobs *knobs,
                   double *period_us, struct ah_error *err);

#endif
