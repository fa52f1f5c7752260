/* SPDX-License-Identifier: Apache-2.0
 *
 * Times: checks that dispatching gives the stated orders of lanes, and that these take the stated times on the clock.
 */
#include "runtime/schedule/check_internal.h"

#include "runtime/schedule/replay.h"

#include <inttypes.h>
#include <math.h>

static int compare_lane(const struct ah_plan *plan, const struct ah_plan_lanes *lanes, unsigned lane,
                        struct ah_error *err)
{
    const uint64_t *stated = plan->lanes.order[lane], *derived = lanes->order[lane];
    size_t i = 0, n = lanes->n_order[lane];
    while (i < n && stated[i] == derived[i])
        i++;
    if (i == n)
        return AH_OK;
    return ah_error_set(err, AH_E_DOCUMENT, "lanes.%s[%zu]: is %" PRIu64 "; %" PRIu64 " is next by %s",
                        ah_words_plan_lane[lane], i, stated[i], derived[i],
                        ah_words_scheduling[plan->scheduling]);
}

static int check_orders(const struct ah_plan *plan, struct ah_error *err)
{
    struct ah_arena arena = {0};
    struct ah_plan_lanes lanes;
    int rc = ah_replay_dispatch(plan, &arena, &lanes, err);
    for (unsigned lane = AH_PLAN_LANE_H2D; lane < AH_PLAN_LANES && !rc; lane++)
        rc = compare_lane(plan, &lanes, lane, err);
    ah_arena_release(&arena);
    return rc;
}

static int compare_time(const char *place, const char *word, const char *unit, double stated, double derived,
                        double period_us, struct ah_error *err)
{
    if (fabs(stated - derived) <= 1e-9 * period_us)
        return AH_OK;
    return ah_error_set(err, AH_E_DOCUMENT, "%s%s%s: is %.17g; these orders make it %.17g", place, word, unit,
                        stated, derived);
}

static int compare_times(const struct ah_plan_time *stated, const struct ah_replay *derived,
                         struct ah_error *err)
{
    double period_us = derived->period_us;
    int rc = compare_time("time.step_us", "", "", stated->step_us, period_us, period_us, err);
    for (size_t lane = 0; lane < AH_PLAN_LANES && !rc; lane++)
        rc = compare_time("time.", ah_words_plan_lane[lane], "_us", stated->busy_us[lane],
                          derived->lanes[lane].busy_us, period_us, err);
    for (size_t lane = AH_PLAN_LANE_H2D; lane < AH_PLAN_LANES && !rc; lane++)
        rc = compare_time("time.exposed_us.", ah_words_plan_lane[lane], "", stated->exposed_us.of[lane],
                          derived->exposed_us[lane], period_us, err);
    return rc;
}

static int check_iteration(const struct ah_plan *plan, struct ah_error *err)
{
    struct ah_arena arena = {0};
    struct ah_replay replay;
    int rc = ah_replay_steady(plan, &arena, &replay, err);
    ah_arena_release(&arena);
    return rc ? rc : compare_times(&plan->time, &replay, err);
}

int ah_check_times(const struct ah_plan *plan, struct ah_error *err)
{
    int rc = check_orders(plan, err);
    return rc ? rc : check_iteration(plan, err);
}
