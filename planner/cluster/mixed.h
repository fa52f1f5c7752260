/* SPDX-License-Identifier: Apache-2.0
 *
 * Mixed: joins problems that differ only in their degrees, so that a node may be cut into units of several degrees.
 *
 * A class is then a node cut in one way, with the units that all its GPUs would form. Classes of a node are adjacent.
 * The caller must make sure that an arrangement uses no more GPUs of a node than it has.
 */
#ifndef AH_PLANNER_CLUSTER_MIXED_H
#define AH_PLANNER_CLUSTER_MIXED_H

#include "base/arena.h"
#include "base/error.h"
#include "planner/cluster/cluster_problem.h"

/* Joins borrowed `problems`; the first must have all nodes of the others. `ret_mixed`: in `arena`. AH_E_MEMORY. */
int ah_mixed_build(const struct ah_cluster_problem *const *problems, size_t n, struct ah_arena *arena,
                   struct ah_cluster_problem *ret_mixed, struct ah_error *err);

#endif
