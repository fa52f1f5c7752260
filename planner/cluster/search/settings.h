/* SPDX-License-Identifier: Apache-2.0
 *
 * Settings: a setting fixes the degree of tensor parallelism for each type of GPU, and the number of micro-batches,
 * before arrangements are searched. Each setting is a problem to search.
 *
 * With one degree for all types, every degree is a setting. With a degree for each type (asym), only the combinations
 * with the lowest bounds are searched. The others are counted, and the least of their bounds is kept.
 *
 * If sums stay as in another plan (groups.h), a setting has up to two problems: with one vector of sums, or with two.
 */
#ifndef AH_PLANNER_CLUSTER_SEARCH_SETTINGS_H
#define AH_PLANNER_CLUSTER_SEARCH_SETTINGS_H

#include "planner/cluster/cluster_planner.h"
#include "planner/cluster/cluster_problem.h"

struct ah_setting {
    uint64_t *tp; /* by type of GPU */
    struct ah_plan_training training;
    struct ah_cluster_problem problem;
    bool estimated;
    bool away;         /* states and weights may be on hosts; an equal setting does not allow it */
    bool away_as_well; /* an equal setting allows states and weights on hosts */
    bool exhausted;
    double quick_us, bound_us;
    struct ah_arrangement start; /* best arrangement of other systems; no pipelines: there is none */
    double start_us;
    size_t index;
};

struct ah_settings {
    struct ah_setting *items; /* in the arena */
    size_t n;
    size_t left_out;
    double left_out_bound_us; /* lower bound of all left-out settings; INFINITY: none was left out */
};

/* Makes all settings allowed by a request. AH_E_USAGE: there are none; AH_E_DOCUMENT: the training makes no sense. */
int ah_settings_make(const struct ah_cluster_request *request, struct ah_arena *arena,
                     struct ah_settings *ret_settings, struct ah_error *err);

/* True if every type has the same degree. */
bool ah_setting_is_symmetric(const struct ah_cluster_request *request, const struct ah_setting *setting);

/* True if units of the setting can have states or weights on a host. */
bool ah_setting_has_hosts(const struct ah_setting *setting);

#endif
