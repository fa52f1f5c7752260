/* SPDX-License-Identifier: Apache-2.0
 *
 * Policies: each other system is a family of choices, used at its best setting. docs/policies/README.md is the table
 * that policies.c implements; it quotes the sources.
 *
 *     rc = ah_policies_search(&evaluator, AH_POLICY_ZERO_OFFLOAD, AH_SCHEDULING_PRIORITY, err);
 *     if (evaluator.found) ... evaluator.best
 */
#ifndef AH_PLANNER_POLICIES_POLICIES_H
#define AH_PLANNER_POLICIES_POLICIES_H

#include "planner/search/evaluator.h"

/* Tries the settings of one policy (not `optimal`). `scheduling` is for autohete-paper; the others are fifo. */
int ah_policies_search(struct ah_evaluator *evaluator, enum ah_policy policy, enum ah_scheduling scheduling,
                       struct ah_error *err);

/* For a search that found nothing: tries the remaining settings, unless there are too many. `ret_exhausted`: every
 * setting was tried with every order, so the policy has no plan. */
int ah_policies_exhaust(struct ah_evaluator *evaluator, enum ah_policy policy, enum ah_scheduling scheduling,
                        bool *ret_exhausted, struct ah_error *err);

enum { AH_POLICIES_NUMBERS = 3 };

/* Describes a policy's family: a setting is a few numbers, number i below ret_sizes[i]. Returns how many numbers. */
size_t ah_policies_sizes(const struct ah_job *job, enum ah_policy policy,
                         uint32_t ret_sizes[AH_POLICIES_NUMBERS]);

/* Writes the configs of the setting with these numbers; false: there is no such setting. */
bool ah_policies_configs(const struct ah_job *job, enum ah_policy policy,
                         const uint32_t numbers[AH_POLICIES_NUMBERS], struct ah_config *ret_configs);

/* Writes the knobs of the i-th order that a policy may use; false: there are no more. */
bool ah_policies_knobs(const struct ah_job *job, enum ah_policy policy, enum ah_scheduling scheduling,
                       size_t i, struct ah_knobs *ret_knobs);

#endif
