/* SPDX-License-Identifier: Apache-2.0
 *
 * Policies: each other system is a family of choices, and is compared at its best setting. policies.c implements the
 * table in docs/policies/README.md, which quotes the sources.
 *
 *     rc = ah_policies_search(&evaluator, AH_POLICY_ZERO_OFFLOAD, AH_SCHEDULING_PRIORITY, err);
 *     if (evaluator.found) ... evaluator.best
 */
#ifndef AH_PLANNER_POLICIES_POLICIES_H
#define AH_PLANNER_POLICIES_POLICIES_H

#include "planner/search/evaluator.h"

/* Searches the settings of one policy (not `optimal`). autohete-paper follows `scheduling`; the others use fifo. */
int ah_policies_search(struct ah_evaluator *evaluator, enum ah_policy policy, enum ah_scheduling scheduling,
                       struct ah_error *err);

/* Tries the remaining settings after a search that found nothing, unless there are too many. `ret_exhausted`: every
 * setting was tried with every order, so the policy has no plan. */
int ah_policies_exhaust(struct ah_evaluator *evaluator, enum ah_policy policy, enum ah_scheduling scheduling,
                        bool *ret_exhausted, struct ah_error *err);

/* Returns how many numbers a setting of the policy has. Number i takes the values below ret_sizes[i]. */
size_t ah_policies_sizes(const struct ah_job *job, enum ah_policy policy,
                         uint32_t ret_sizes[AH_PLAN_POLICY_NUMBERS]);

/* Writes the configs of the setting with these numbers; false: there is no such setting. */
bool ah_policies_configs(const struct ah_job *job, enum ah_policy policy,
                         const uint32_t numbers[AH_PLAN_POLICY_NUMBERS], struct ah_config *ret_configs);

/* Writes the knobs of the i-th order allowed by a policy; false: there are no more. */
bool ah_policies_knobs(const struct ah_job *job, enum ah_policy policy, enum ah_scheduling scheduling,
                       size_t i, struct ah_knobs *ret_knobs);

#endif
