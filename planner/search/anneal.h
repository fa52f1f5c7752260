/* SPDX-License-Identifier: Apache-2.0
 *
 * Anneal: a chain of choices, each a random change of the one before (vary.h). A change for the worse is accepted, too,
 * but less often the more it loses and the colder it is. So the chain escapes from valleys, and ends in a deep one.
 *
 *     rc = ah_anneal_init(&chain, &limits, allowed, seed, err);
 *     rc = ah_anneal_start(&chain, configs, &knobs, err);
 *     chain.evaluator.limits.work = chain.evaluator.spent + 10000;
 *     rc = ah_anneal_run(&chain, 0.005, 0.001, err);      // the best seen is chain.evaluator.best
 *     ah_anneal_release(&chain);
 *
 * A chain shares nothing, so several may run at the same time. Its result depends only on its arguments.
 */
#ifndef AH_PLANNER_SEARCH_ANNEAL_H
#define AH_PLANNER_SEARCH_ANNEAL_H

#include "planner/search/evaluator.h"
#include "planner/search/vary.h"

/* How good a choice is: one that fits beats one that does not; between two alike, the lower height is better. */
struct ah_height {
    uint64_t over_bytes; /* excess over its budgets */
    double cost_us;      /* if it fits: the period plus the worth of its bytes to the evaluator */
};

/* Returns the height of the choice that `evaluator` tried last. */
struct ah_height ah_height_of_last(const struct ah_evaluator *evaluator);

struct ah_anneal {
    struct ah_evaluator evaluator; /* owned */
    struct ah_vary vary;
    uint64_t random;
    struct ah_config *configs; /* by block; owned: the chain's choice */
    struct ah_config *changed; /* by block; owned: scratch */
    struct ah_knobs knobs;
    struct ah_height height;
};

/* `allowed` as in vary.h. It stays borrowed, as do the objects that the limits point to. `seed` must not be 0. */
int ah_anneal_init(struct ah_anneal *chain, const struct ah_evaluator_limits *limits, const uint32_t *allowed,
                   uint64_t seed, struct ah_error *err);

/* Puts the chain at a choice, which need not fit. */
int ah_anneal_start(struct ah_anneal *chain, const struct ah_config *configs, const struct ah_knobs *knobs,
                    struct ah_error *err);

/* Runs until the evaluator's work is spent. A temperature is the share of the period that a change may typically lose;
 * it falls by a steady ratio from `hot` to `cold`. */
int ah_anneal_run(struct ah_anneal *chain, double hot, double cold, struct ah_error *err);

void ah_anneal_release(struct ah_anneal *chain);

#endif
