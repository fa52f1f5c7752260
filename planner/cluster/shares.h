/* SPDX-License-Identifier: Apache-2.0
 *
 * Shares: settings in which GPUs of nodes with hosts idle, so that the others have more of the host.
 *
 * Of a node's host each GPU that a setting plans with has an equal share. One GPU more makes the shares of the others
 * smaller, and would make plans slower where hosts are short, were it not for the settings that do without it:
 *
 * 1. Up to 27 combinations, and 96 settings in all, one is there for every number of units of every node with a host, from
 *    one to all: whatever a cluster with fewer GPUs could plan, one with more can.
 * 2. Of more, those in which no node has more than a half, a quarter, ... of the largest number of units; 96 in all.
 *
 * What 2 leaves out has a bound: a setting that is FAVOURED has all units, each with its host to itself.
 */
#ifndef AH_PLANNER_CLUSTER_SHARES_H
#define AH_PLANNER_CLUSTER_SHARES_H

#include "planner/cluster/settings.h"

/* Adds them behind all others, for each in which blocks may be away; and favoured ones of those with 2. AH_E_MEMORY. */
int ah_shares_add(const struct ah_cluster_request *request, struct ah_arena *arena,
                  struct ah_settings *settings, struct ah_error *err);

/* The same setting, favoured: what ah_grouping_proves() of it, and the relaxation, holds for the setting with any number of
 * its units in every node. AH_E_MEMORY. */
int ah_shares_favour(const struct ah_cluster_request *request, struct ah_arena *arena,
                     const struct ah_setting *setting, struct ah_setting *ret_favoured, struct ah_error *err);

#endif
