/* SPDX-License-Identifier: Apache-2.0
 *
 * Adapt: an old cluster plan, changed no more than it must be for a new cluster.
 *
 * Stages whose node is there and has a unit for them stay, with their blocks; degrees stay. The others go, in one of these
 * ways. Micro-batches are shared out anew (where sums stay, as the groups of the training allow: planner/cluster/groups.h); where blocks do not fit then, all pipelines are split anew.
 */
#ifndef AH_PLANNER_RECOVERY_ADAPT_H
#define AH_PLANNER_RECOVERY_ADAPT_H

#include "base/arena.h"
#include "base/error.h"
#include "planner/cluster/cluster_planner.h"

enum ah_adapt_way {
    AH_ADAPT_REPLACE, /* a unit without work takes the stage, of the same type if there is one; else as SHRINK */
    AH_ADAPT_SHRINK, /* the rest of the pipeline takes its blocks */
    AH_ADAPT_DROP,   /* the pipeline goes; its units are idle */
    AH_ADAPT_WAYS
};

/* `request`: of the new cluster; its training's micro-batches count. `ret_fits` false: this way leads nowhere, `ret_plan` is
 * not written. In `arena`. AH_E_MEMORY; AH_E_USAGE, AH_E_DOCUMENT as ah_cluster_costs_build(). */
int ah_adapt_plan(const struct ah_cluster_request *request, const struct ah_cluster_plan *old,
                  enum ah_adapt_way way, struct ah_arena *arena, struct ah_cluster_plan *ret_plan,
                  bool *ret_fits, struct ah_error *err);

#endif
