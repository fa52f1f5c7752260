/* SPDX-License-Identifier: Apache-2.0
 *
 * Shared by the files of the transfer solver.
 */
#ifndef AH_PLANNER_RECOVERY_TRANSFER_SOLVER_INTERNAL_H
#define AH_PLANNER_RECOVERY_TRANSFER_SOLVER_INTERNAL_H

#include "planner/recovery/transfer_solver.h"

/* Returns the option behind a choice of receiver `d`: a relay from `leader`, or a direct one. */
const struct ah_transfer_option *ah_transfer_option_of(const struct ah_transfer_bundle *bundle, size_t leader,
                                                       size_t d, int choice);

/* True if receiver `d` may take option `choice` of shards led by `leader`. */
bool ah_transfer_allows(const struct ah_transfer_bundle *bundle, size_t leader, size_t d, int choice);

/* Returns a lower bound of T, from the price of a byte on each resource (in any scale). `cheapest_bytes` (optional):
 * the bytes through each resource if every shard moves in its cheapest way. */
double ah_transfer_bound(const struct ah_transfer_problem *problem, const double *prices,
                         double *cheapest_bytes);

/* Finds a bound without the solver, by raising the prices of resources overloaded by the cheapest ways. AH_E_MEMORY. */
int ah_transfer_bound_search(const struct ah_transfer_problem *problem, double *ret_bound_s,
                             struct ah_error *err);

/* Returns the number of columns of the program. */
size_t ah_transfer_columns(const struct ah_transfer_problem *problem);

/* Solves the program for its bound, and for ways if some take less than `below_s`. `ret_ways`: by bundle, then shard,
 * the leader and the choice of each receiver. */
int ah_transfer_program(const struct ah_transfer_problem *problem, size_t nodes, double below_s,
                        int *ret_ways, bool *ret_found, double *ret_bound_s, struct ah_error *err);

#endif
