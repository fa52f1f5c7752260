/* SPDX-License-Identifier: Apache-2.0
 *
 * Adapt: fits an old cluster plan to a new cluster with as few changes as possible. Degrees stay. A stage keeps its
 * blocks and unit if its node still has a unit for it; otherwise enum ah_adapt_way decides. Micro-batches are shared
 * out anew; if sums stay, planner/cluster/groups.h limits how. If blocks then do not fit, all pipelines are split anew.
 */
#ifndef AH_PLANNER_RECOVERY_ADAPT_H
#define AH_PLANNER_RECOVERY_ADAPT_H

#include "base/arena.h"
#include "base/error.h"
#include "planner/cluster/cluster_planner.h"

enum ah_adapt_way {
    AH_ADAPT_REPLACE, /* an idle unit replaces the lost one, if possible of its type; without an idle unit, as SHRINK */
    AH_ADAPT_SHRINK, /* the pipeline's other stages take over the blocks */
    AH_ADAPT_DROP,   /* the pipeline is removed; its units become idle */
    AH_ADAPT_WAYS
};

/* Adapts `old`, in `arena`. `request` is for the new cluster and fixes the micro-batches. `ret_fits` false: this way
 * gives no plan, and `ret_plan` is not written. AH_E_MEMORY; AH_E_USAGE, AH_E_DOCUMENT: as ah_cluster_costs_build(). */
int ah_adapt_plan(const struct ah_cluster_request *request, const struct ah_cluster_plan *old,
                  enum ah_adapt_way way, struct ah_arena *arena, struct ah_cluster_plan *ret_plan,
                  bool *ret_fits, struct ah_error *err);

#endif
