/* SPDX-License-Identifier: Apache-2.0
 *
 * Groups: which pipelines may have which micro-batches where a plan is to add gradients up as another one does.
 *
 * A step's micro-batches are groups, each added up by itself, then onto those before it (docs/numerics.md, "Sums"). Pipelines
 * are added from the first to the last. So the first one may have any number of leading groups, and each of the others exactly
 * one: P pipelines of G groups have
 *
 *     groups 0 to G - P   group G - P + 1   ...   group G - 1                                                     (1)
 *
 * A table that embedding and head share has one gradient, or one each (`tied`): that decides bits, too. Where the plan has one,
 * every pipeline is one stage; where it has two, any will do.
 *
 * The micro-batches of the first group are a group each here: they add up the same, so pipelines may share that group, all but
 * the first with one micro-batch of it. A plan that names no groups has this one alone.
 *
 * A search changes pipelines in any order. It keeps the numbers of micro-batches of (1), and ah_groups_order() gives each
 * pipeline its place at the end.
 */
#ifndef AH_PLANNER_CLUSTER_GROUPS_H
#define AH_PLANNER_CLUSTER_GROUPS_H

#include "base/arena.h"
#include "base/error.h"
#include "planner/cluster/instance.h"
#include "schemas/plan.h"

/* Sets the groups of a training in `instance`, whose sizes are known, and the numbers of pipelines of which the first one adds
 * groups up apart, which takes a second place for sums; or all others. `ret_any` false: there are none. In `arena`. */
int ah_groups_read(struct ah_instance *instance, const struct ah_plan_training *training, bool apart,
                   struct ah_arena *arena, bool *ret_any, struct ah_error *err);

/* At most so many pipelines, whether there are groups or not. */
uint64_t ah_groups_most_pipelines(const struct ah_instance *instance);

/* Micro-batches of pipeline `p` of `n` (1); n is one of those that are allowed. */
uint64_t ah_groups_share(const struct ah_instance *instance, size_t n, size_t p);

/* Does every pipeline have a place in (1)? Always, where there are no groups. */
bool ah_groups_allow(const struct ah_instance *instance, const struct ah_arrangement *arrangement);

/* May the first `n` pipelines of so many be part of that? */
bool ah_groups_may_begin(const struct ah_instance *instance, const struct ah_arrangement *arrangement,
                         size_t n);

/* Puts pipelines that are allowed in the order of (1); equal ones stay in theirs. */
void ah_groups_order(const struct ah_instance *instance, struct ah_arrangement *arrangement);

#endif
