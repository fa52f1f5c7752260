/* SPDX-License-Identifier: Apache-2.0
 *
 * Shared by the files that solve the MILP: what to solve, and a list of the best counts.
 *
 *     milp_solve.c       the steps: bound, candidates, shortage
 *     milp_enumerate.c   every vector of counts
 *     milp_program.c     the choice as a linear or integer program for the solver
 *     milp_candidates.c  whole counts near the optimum of the relaxation
 *     milp_prices.c      the part of a bound that each config adds
 */
#ifndef AH_PLANNER_BOUND_MILP_SOLVE_INTERNAL_H
#define AH_PLANNER_BOUND_MILP_SOLVE_INTERNAL_H

#include "planner/bound/milp_internal.h"

/* A problem: minimise the largest sum among the rows of one kind, while the rows of other kinds keep their limits. */
struct ah_milp_choice {
    const size_t *active; /* ascending: the columns to use; no other column dominates them */
    size_t n_active;
    enum ah_milp_row_kind objective; /* AH_MILP_TIME, AH_MILP_DEVICE or AH_MILP_HOST */
    const int64_t *limits;           /* by row */
};

/* The best counts seen, best first. Equally good counts are in the order in which they were seen. */
struct ah_milp_best {
    size_t most; /* at most AH_MILP_CANDIDATES_MAX */
    size_t n;
    int64_t limit; /* new counts must have an objective below this */
    int64_t objective[AH_MILP_CANDIDATES_MAX];
    uint32_t *counts[AH_MILP_CANDIDATES_MAX]; /* by class x AH_CONFIGS_MAX + config */
};

int ah_milp_best_init(struct ah_milp_best *ret_best, const struct ah_milp *milp, size_t most,
                      struct ah_arena *arena, struct ah_error *err);

/* Inserts `counts` (by column), unless the list is full and none of its entries is worse. */
void ah_milp_best_offer(struct ah_milp_best *best, const struct ah_milp *milp, const uint32_t *counts,
                        int64_t objective);

/* Returns the number of vectors of counts, at most `most`. Only blocks and configs decide it. */
uint64_t ah_milp_vectors(const struct ah_milp *milp, uint64_t most);

/* Tries every vector of counts and offers the best to `best`. */
int ah_milp_enumerate(const struct ah_milp *milp, const struct ah_milp_choice *choice, struct ah_arena *arena,
                      struct ah_milp_best *best, struct ah_error *err);

/* Computes the exact optimum of the linear relaxation, in units of the rows; INFINITY: there is no solution.
 * `ret_values`: by active column, then the objective. `ret_prices` (optional): by row, approximate. */
int ah_milp_relax(const struct ah_milp *milp, const struct ah_milp_choice *choice, struct ah_arena *arena,
                  double *ret_objective, double *ret_values, double *ret_prices, struct ah_error *err);

/* Computes the prices of configs (milp.h) from the prices of rows. */
int ah_milp_prices(const struct ah_milp *milp, const double *row_prices, struct ah_arena *arena,
                   struct ah_milp_result *result, struct ah_error *err);

/* Searches at most `nodes` nodes for whole counts near the optimum. `ret_found`: some were found, still unchecked. */
int ah_milp_round(const struct ah_milp *milp, const struct ah_milp_choice *choice, size_t nodes,
                  struct ah_arena *arena, bool *ret_found, double *ret_values, struct ah_error *err);

/* Offers whole counts that keep every limit to `best`, if it finds any. `values` is a solution of the relaxation. */
int ah_milp_candidates(const struct ah_milp *milp, const struct ah_milp_choice *choice, const double *values,
                       struct ah_arena *arena, struct ah_milp_best *best, struct ah_error *err);

#endif
