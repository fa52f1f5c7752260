/* SPDX-License-Identifier: Apache-2.0
 *
 * Starts: the choices that a search begins with.
 */
#ifndef AH_PLANNER_SEARCH_STARTS_H
#define AH_PLANNER_SEARCH_STARTS_H

#include "base/arena.h"
#include "planner/search/anneal.h"
#include "planner/search/search.h"

struct ah_start {
    const struct ah_config *configs; /* by block; in the arena */
    struct ah_knobs knobs;
    struct ah_height height;
};

/* Finds at most `most` starts, the best first, no two of one kind. Kinds: the best so far, placements of the MILP's
 * counts, and choices with equal layers. Tries each in the search's evaluator. */
int ah_starts_find(const struct ah_search *search, size_t most, struct ah_arena *arena,
                   struct ah_start *ret_starts, size_t *ret_n, struct ah_error *err);

#endif
