/* SPDX-License-Identifier: Apache-2.0
 *
 * What a plan predicts of its concert, and whether that is true.
 */
#include "planner/cluster/concert.h"

#include <math.h>

enum { DIGITS = 1000000000 };

int ah_concert_predict(struct ah_cluster_plan *plan, struct ah_error *err)
{
    struct ah_concert_result result;
    if (!plan->n_programs)
        return AH_OK;
    int rc = ah_concert_play(plan, NULL, &result, err);
    if (rc)
        return rc;
    plan->predicted.programs_us = result.step_us;
    plan->predicted.programs_period_us = result.period_us;
    return AH_OK;
}

static bool differ(double told, double played)
{
    return fabs(told - played) > played / DIGITS;
}

int ah_concert_check(const struct ah_cluster_plan *plan, struct ah_error *err)
{
    const struct ah_cluster_plan_predicted *told = &plan->predicted;
    struct ah_concert_result result = {0}; /* of no programs */
    int rc = plan->n_programs ? ah_concert_play(plan, NULL, &result, err) : AH_OK;
    if (rc)
        return rc;
    if (differ(told->programs_us, result.step_us))
        return ah_error_set(err, AH_E_DOCUMENT,
                            "predicted.programs_us: is %.9g; played together, programs take %.9g",
                            told->programs_us, result.step_us);
    if (differ(told->programs_period_us, result.period_us))
        return ah_error_set(
            err, AH_E_DOCUMENT,
            "predicted.programs_period_us: is %.9g; played again and again, programs take %.9g",
            told->programs_period_us, result.period_us);
    return AH_OK;
}
