/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of the transfer solver share.
 */
#ifndef AH_PLANNER_RECOVERY_TRANSFER_SOLVER_INTERNAL_H
#define AH_PLANNER_RECOVERY_TRANSFER_SOLVER_INTERNAL_H

#include "planner/recovery/transfer_solver.h"

/* Returns the option by which receiver `d` of a piece gets its shards. */
const struct ah_transfer_option *ah_transfer_option_of(const struct ah_transfer_bundle *bundle, size_t leader,
                                                       size_t d, int choice);

/* True if receiver `d` may take option `choice` of shards led by `leader`. */
bool ah_transfer_allows(const struct ah_transfer_bundle *bundle, size_t leader, size_t d, int choice);

/* Returns a lower bound of T, from prices of a byte by resource (not scaled). `cheapest_bytes` (optional) gets the
 * bytes through each resource if every shard moves in its cheapest way. */
double ah_transfer_bound(const struct ah_transfer_problem *problem, const double *prices,
                         double *cheapest_bytes);

/* Finds a bound without the solver: prices rise where the cheapest ways overload a resource. AH_E_MEMORY. */
int ah_transfer_bound_search(const struct ah_transfer_problem *problem, double *ret_bound_s,
                             struct ah_error *err);

/* Returns the number of columns of the program. */
size_t ah_transfer_columns(const struct ah_transfer_problem *problem);

/* Solves the program for its bound, and for choices if it finds some that take less than `below_s`. `ret_ways`, bundle
 * after bundle, gets the leader of every shard, then the choice of each receiver. */
int ah_transfer_program(const struct ah_transfer_problem *problem, size_t nodes, double below_s,
                        int *ret_ways, bool *ret_found, double *ret_bound_s, struct ah_error *err);

#endif
