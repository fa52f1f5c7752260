/* SPDX-License-Identifier: Apache-2.0
 *
 * Knobs: everything about a plan that is not a config: where a search starts, and the rungs that it tries.
 */
#ifndef AH_PLANNER_KNOBS_H
#define AH_PLANNER_KNOBS_H

#include "planner/trial.h"

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

/* The same with each size of tiles and each of the first `orders` orders of micro-batches: what decides most which configs
 * are good. Returns how many. */
enum { AH_KNOBS_KINDS_MAX = 8 };
size_t ah_knobs_kinds(const struct ah_job *job, const struct ah_knobs *knobs, int orders,
                      struct ah_knobs ret_kinds[AH_KNOBS_KINDS_MAX]);

/* Tries the best configs with other knobs, one knob after the other, until none helps. `fixed_rules`: only knobs
 * that no rule of another system fixes. */
int ah_knobs_sweep(struct ah_trial *trial, bool fixed_rules, struct ah_error *err);

#endif
