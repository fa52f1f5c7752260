/* SPDX-License-Identifier: Apache-2.0
 *
 * Estimate: about what ah_rehearsal_run() would say, without playing every pass of every pipeline: for the search of large
 * clusters, whose ends are rehearsed.
 */
#ifndef AH_PLANNER_CLUSTER_ESTIMATE_H
#define AH_PLANNER_CLUSTER_ESTIMATE_H

#include "base/error.h"
#include "planner/cluster/instance.h"

/* Times an arrangement whose stages were fitted. Pipelines with equal stages and micro-batches that stand side by side are
 * timed once. Smoother than a rehearsal: within 15 % of it, mostly within 5 %, where blocks and many micro-batches are dealt
 * as ah_draft_finish() does; far less where they are dealt badly. `ret_passes`: how many were played. AH_E_MEMORY. */
int ah_estimate_time(const struct ah_instance *instance, const struct ah_arrangement *arrangement,
                     double *ret_us, uint64_t *ret_passes, struct ah_error *err);

#endif
