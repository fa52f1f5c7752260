/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes and checks a plan's predictions about its replay.
 */
#include "planner/cluster/sim/cluster_replay.h"

#include <math.h>

enum { DIGITS = 1000000000 };

int ah_cluster_replay_predict(struct ah_cluster_plan *plan, struct ah_error *err)
{
    struct ah_cluster_replay_result result;
    if (!plan->n_programs)
        return AH_OK;
    int rc = ah_cluster_replay(plan, NULL, &result, err);
    if (rc)
        return rc;
    plan->predicted.programs_us = result.step_us;
    plan->predicted.programs_period_us = result.period_us;
    return AH_OK;
}

static bool differ(double claimed, double played)
{
    return fabs(claimed - played) > played / DIGITS;
}

int ah_cluster_replay_check(const struct ah_cluster_plan *plan, struct ah_error *err)
{
    const struct ah_cluster_plan_predicted *claimed = &plan->predicted;
    struct ah_cluster_replay_result result = {0}; /* all 0 for a plan without programs */
    int rc = plan->n_programs ? ah_cluster_replay(plan, NULL, &result, err) : AH_OK;
    if (rc)
        return rc;
    if (differ(claimed->programs_us, result.step_us))
        return ah_error_set(err, AH_E_DOCUMENT,
                            "predicted.programs_us: is %.9g; simulated together, the programs take %.9g",
                            claimed->programs_us, result.step_us);
    if (differ(claimed->programs_period_us, result.period_us))
        return ah_error_set(
            err, AH_E_DOCUMENT,
            "predicted.programs_period_us: is %.9g; simulated over many steps, the programs take %.9g",
            claimed->programs_period_us, result.period_us);
    return AH_OK;
}
