/* SPDX-License-Identifier: Apache-2.0
 *
 * Anneal: a chain of choices, each a random change of the previous one (vary.h). A change for the worse is accepted
 * less often the more it loses and the colder the chain is. So a chain can leave a valley, and ends in a deep one.
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

/* The height of a choice; lower is better. A choice that fits is lower than every choice that does not fit. */
struct ah_height {
    uint64_t over_bytes; /* bytes beyond its budgets; 0: it fits */
    double cost_us;      /* if it fits: its period plus the worth of its live bytes */
};

/* Returns the height of the last choice tried by `evaluator`. */
struct ah_height ah_height_of_last(const struct ah_evaluator *evaluator);

struct ah_anneal {
    struct ah_evaluator evaluator; /* owned */
    struct ah_vary vary;
    uint64_t random;
    struct ah_config *configs; /* by block; owned: the chain's current choice */
    struct ah_config *changed; /* by block; owned: the choice being tried */
    struct ah_knobs knobs;
    struct ah_height height;
};

/* Makes a chain. `allowed` (as in vary.h) and the objects in `limits` stay borrowed. `seed` must not be 0. */
int ah_anneal_init(struct ah_anneal *chain, const struct ah_evaluator_limits *limits, const uint32_t *allowed,
                   uint64_t seed, struct ah_error *err);

/* Moves the chain to a choice, which need not fit. */
int ah_anneal_start(struct ah_anneal *chain, const struct ah_config *configs, const struct ah_knobs *knobs,
                    struct ah_error *err);

/* Runs until the evaluator's work is spent. A temperature is the fraction of the period that a change typically may
 * lose. It falls linearly from `hot` to `cold` as the work is spent. */
int ah_anneal_run(struct ah_anneal *chain, double hot, double cold, struct ah_error *err);

void ah_anneal_release(struct ah_anneal *chain);

#endif
