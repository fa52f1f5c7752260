/* SPDX-License-Identifier: Apache-2.0
 *
 * Mixed: joins problems that differ only in their degrees, so that a node may be cut into units of several degrees.
 *
 * A class is then a node cut into units of one degree, as many as all its GPUs would form. Classes of a node are
 * adjacent. The caller must ensure that an arrangement uses no more GPUs of a node than there are.
 */
#ifndef AH_PLANNER_CLUSTER_MIXED_H
#define AH_PLANNER_CLUSTER_MIXED_H

#include "base/arena.h"
#include "base/error.h"
#include "planner/cluster/cluster_problem.h"

/* Joins borrowed problems, in `arena`. The first problem must have all nodes of the others. AH_E_MEMORY. */
int ah_mixed_build(const struct ah_cluster_problem *const *problems, size_t n, struct ah_arena *arena,
                   struct ah_cluster_problem *ret_mixed, struct ah_error *err);

#endif
