/* SPDX-License-Identifier: Apache-2.0
 *
 * Settings: what is decided before arrangements are searched: a degree of tensor parallelism for each type of GPU, and a
 * number of micro-batches. Each is an instance to search.
 *
 * One degree for all types: every one. A degree for each type (asym): of all combinations the ones with the lowest bounds,
 * so many as can be searched; the others are counted, with the least of their bounds.
 *
 * Where sums stay as another plan has them (groups.h), each has up to two instances, by the place that sums take.
 */
#ifndef AH_PLANNER_CLUSTER_SETTINGS_H
#define AH_PLANNER_CLUSTER_SETTINGS_H

#include "planner/cluster/cluster_planner.h"
#include "planner/cluster/instance.h"

struct ah_setting {
    uint64_t *tp; /* by type of GPU */
    struct ah_plan_training training;
    struct ah_instance instance;
    bool estimated;
    bool away; /* states and weights may be on hosts; there is a setting like this one where they may not */
    bool away_as_well; /* there is a setting like this one where they may */
    bool exhausted;
    double quick_us, bound_us;
    struct ah_arrangement start; /* the best of other systems here; no pipelines: none */
    double start_us;
    size_t index;
};

struct ah_settings {
    struct ah_setting *items; /* in the arena */
    size_t n;
    size_t left_out;
    double left_out_bound_us; /* none of those left out is faster; INFINITY: there are none */
};

/* All settings that a request allows. AH_E_USAGE: there are none; AH_E_DOCUMENT: of the training. */
int ah_settings_make(const struct ah_cluster_request *request, struct ah_arena *arena,
                     struct ah_settings *ret_settings, struct ah_error *err);

/* Has every type the same degree? */
bool ah_setting_is_symmetric(const struct ah_cluster_request *request, const struct ah_setting *setting);

/* Do any of its units have a host for states or weights? */
bool ah_setting_has_hosts(const struct ah_setting *setting);

#endif
