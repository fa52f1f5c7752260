/* SPDX-License-Identifier: Apache-2.0
 *
 * Mixed: instances that differ in their degrees only, as one: every node may be cut into units of several degrees at once.
 *
 * A class is then a node cut one way, and says how many units there are if all its GPUs are; classes of a node follow each
 * other. An arrangement may take no more GPUs of a node than it has: that is the arranger's to see to.
 */
#ifndef AH_PLANNER_CLUSTER_MIXED_H
#define AH_PLANNER_CLUSTER_MIXED_H

#include "base/arena.h"
#include "base/error.h"
#include "planner/cluster/instance.h"

/* `instances`, borrowed: the first has all nodes that the others have. `ret_mixed` lies in `arena`. AH_E_MEMORY. */
int ah_mixed_build(const struct ah_instance *const *instances, size_t n, struct ah_arena *arena,
                   struct ah_instance *ret_mixed, struct ah_error *err);

#endif
