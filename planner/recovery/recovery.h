/* SPDX-License-Identifier: Apache-2.0
 *
 * Recovery: when nodes of a cluster are lost or added, chooses the plan to resume with, and the way in which its GPUs
 * get the training states. docs/recovery.md has the model.
 *
 *     struct ah_recovery_request request = {.cluster = {.model = model, ...}, .old_plan = old, .inventory = ...};
 *     rc = ah_recovery_plan(&request, &arena, &plan, &moves, &shortage, err);
 *
 * The states are those of the newest complete step. Candidates are the old plan, adapted to the new cluster (adapt.h),
 * and the cluster planner's best plan. Each is relabelled (relabel.h) and gets its moves (transfers.h). The candidate
 * with the least
 *
 *     time of a step x horizon + time of the moves
 *
 * wins; between equals, the one that changes less. The same request gives the same plan.
 */
#ifndef AH_PLANNER_RECOVERY_RECOVERY_H
#define AH_PLANNER_RECOVERY_RECOVERY_H

#include "planner/cluster/cluster_planner.h"
#include "schemas/cluster_plan.h"
#include "schemas/inventory.h"
#include "schemas/moves.h"

enum { AH_RECOVERY_HORIZON = 1000 };

struct ah_recovery_request {
    struct ah_cluster_request cluster; /* for the new cluster; its training is the old plan's */
    const struct ah_cluster_plan *old_plan;
    const struct ah_inventory *inventory;
    enum ah_sources sources;
    uint64_t horizon_steps; /* 0: AH_RECOVERY_HORIZON */
};

/* Chooses plan and moves. `ret_plan` and `ret_moves` point into `arena` and the request; the caller adds the hashes of
 * the moves' inputs. AH_E_MISMATCH: inventory, plan and model do not belong together. AH_E_INFEASIBLE: no step is
 * complete ("holdings: ..."), or no plan fits; `ret_shortage` is filled then, and with AH_E_NO_PLAN. Other errors: as
 * ah_cluster_planner_plan(). */
int ah_recovery_plan(const struct ah_recovery_request *request, struct ah_arena *arena,
                     struct ah_cluster_plan *ret_plan, struct ah_moves *ret_moves,
                     struct ah_cluster_shortage *ret_shortage, struct ah_error *err);

#endif
