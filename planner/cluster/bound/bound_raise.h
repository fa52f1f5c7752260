/* SPDX-License-Identifier: Apache-2.0
 *
 * Bound raise: raises the bounds of settings with grouping (grouping.h) while that is worth the work.
 */
#ifndef AH_PLANNER_CLUSTER_BOUND_BOUND_RAISE_H
#define AH_PLANNER_CLUSTER_BOUND_BOUND_RAISE_H

#include "base/error.h"
#include "planner/cluster/search/settings.h"

/* Raises `bound_us` of the settings in about `steps` steps, all settings together. No bound rises above `most_us`, or
 * above what the lowest can reach, because the lowest bound is that of all settings. AH_E_MEMORY. */
int ah_bound_raise(struct ah_setting *settings, size_t n, double most_us, uint64_t steps,
                   struct ah_error *err);

#endif
