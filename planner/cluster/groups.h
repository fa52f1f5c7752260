/* SPDX-License-Identifier: Apache-2.0
 *
 * Groups: which micro-batches each pipeline may have if a plan must add gradients up as another plan does.
 *
 * A step's micro-batches form groups. The gradients of each group are added up, and the sum is added to those of the
 * earlier groups (docs/numerics.md, "Sums"). Pipelines are added from the first to the last. So the first pipeline may
 * have any number of leading groups, and each other pipeline exactly one. With G groups, P pipelines have
 *
 *     groups 0 to G - P   group G - P + 1   ...   group G - 1                                                     (1)
 *
 * A tied table has one gradient, or one each for embedding and head (`tied`); this decides bits, too. With one
 * gradient, every pipeline must be one stage; with two, any number of stages is allowed.
 *
 * Here each micro-batch of the first group counts as a separate group, because the sum is the same. So pipelines may
 * share that group; all but the first have one micro-batch of it. If a plan names no groups, this is its only group.
 *
 * A search changes pipelines in any order. It keeps the numbers of micro-batches of (1), and at the end
 * ah_groups_order() puts the pipelines in order.
 */
#ifndef AH_PLANNER_CLUSTER_GROUPS_H
#define AH_PLANNER_CLUSTER_GROUPS_H

#include "base/arena.h"
#include "base/error.h"
#include "planner/cluster/cluster_problem.h"
#include "schemas/plan.h"

/* Sets the groups of a training in `problem`, in `arena`. With `separate_sums`, allows the numbers of pipelines with
 * which the first needs a second vector of sums; otherwise the other numbers. `ret_any` false: none is allowed. */
int ah_groups_read(struct ah_cluster_problem *problem, const struct ah_plan_training *training,
                   bool separate_sums, struct ah_arena *arena, bool *ret_any, struct ah_error *err);

/* Returns the largest allowed number of pipelines; without groups, the number of micro-batches. */
uint64_t ah_groups_most_pipelines(const struct ah_cluster_problem *problem);

/* Returns the micro-batches of pipeline `p` of `n`, by (1). The number `n` must be allowed. */
uint64_t ah_groups_share(const struct ah_cluster_problem *problem, size_t n, size_t p);

/* True if every pipeline has a place in (1), or if there are no groups. */
bool ah_groups_allow(const struct ah_cluster_problem *problem, const struct ah_arrangement *arrangement);

/* True if places in (1) exist for the first `n` pipelines, whatever the other pipelines have. */
bool ah_groups_may_begin(const struct ah_cluster_problem *problem, const struct ah_arrangement *arrangement,
                         size_t n);

/* Sorts allowed pipelines into the order of (1). Equal pipelines keep their order. */
void ah_groups_order(const struct ah_cluster_problem *problem, struct ah_arrangement *arrangement);

#endif
