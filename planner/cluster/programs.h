/* SPDX-License-Identifier: Apache-2.0
 *
 * Programs: the plan of each rank of an arrangement. Stages share a program if they do the same work with equal blocks,
 * on GPUs with the same costs, and with neighbours at the same distance.
 *
 * A program is compiled, laid out and dispatched like a plan for one machine (runtime/schedule). Its times are those of
 * the rank alone. The cluster plan adds when the rank may begin a pass, and when gradients are added up.
 */
#ifndef AH_PLANNER_CLUSTER_PROGRAMS_H
#define AH_PLANNER_CLUSTER_PROGRAMS_H

#include "base/arena.h"
#include "base/error.h"
#include "planner/cluster/cluster_problem.h"
#include "schemas/cluster.h"
#include "schemas/cluster_plan.h"

struct ah_programs_input {
    const struct ah_model *model;
    const struct ah_cluster *cluster;
    struct ah_plan_training training; /* micro_batches and sums: of all pipelines together */
    const struct ah_cluster_problem *problem;
    const struct ah_arrangement *arrangement;
    bool estimated;
};

/* Fills `programs` of a filled plan, and the program of each stage. AH_E_CAPACITY: a rank's laid-out program exceeds
 * its GPU's memory or its share of the host's; the message says which. */
int ah_programs_fill(const struct ah_programs_input *input, struct ah_arena *arena,
                     struct ah_cluster_plan *plan, struct ah_error *err);

#endif
