/* SPDX-License-Identifier: Apache-2.0
 *
 * Times: checks that dispatching gives the stated orders of lanes, and that these take the stated times on the clock.
 */
#include "runtime/schedule/check_internal.h"

#include "runtime/schedule/replay.h"

#include <inttypes.h>
#include <math.h>

static int compare_lane(const struct ah_plan *plan, enum ah_plan_lane lane, const uint64_t *stated,
                        const uint64_t *derived, size_t n, struct ah_error *err)
{
    size_t i = 0;
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
    if (!rc)
        rc = compare_lane(plan, AH_PLAN_LANE_H2D, plan->lanes.h2d, lanes.h2d, lanes.n_h2d, err);
    if (!rc)
        rc = compare_lane(plan, AH_PLAN_LANE_D2H, plan->lanes.d2h, lanes.d2h, lanes.n_d2h, err);
    if (!rc)
        rc = compare_lane(plan, AH_PLAN_LANE_HOST, plan->lanes.host, lanes.host, lanes.n_host, err);
    ah_arena_release(&arena);
    return rc;
}

static int compare_time(const struct ah_plan_time *stated, const struct ah_replay *derived,
                        struct ah_error *err)
{
    const struct {
        const char *place;
        double stated, derived;
    } times[] = {
        {"time.step_us", stated->step_us, derived->period_us},
        {"time.compute_us", stated->compute_us, derived->lanes[AH_PLAN_LANE_COMPUTE].busy_us},
        {"time.h2d_us", stated->h2d_us, derived->lanes[AH_PLAN_LANE_H2D].busy_us},
        {"time.d2h_us", stated->d2h_us, derived->lanes[AH_PLAN_LANE_D2H].busy_us},
        {"time.host_us", stated->host_us, derived->lanes[AH_PLAN_LANE_HOST].busy_us},
        {"time.exposed_us.h2d", stated->exposed_us.h2d, derived->exposed_us[AH_WAIT_H2D]},
        {"time.exposed_us.d2h", stated->exposed_us.d2h, derived->exposed_us[AH_WAIT_D2H]},
        {"time.exposed_us.host", stated->exposed_us.host, derived->exposed_us[AH_WAIT_HOST]},
    };
    for (size_t i = 0; i < sizeof times / sizeof *times; i++)
        if (fabs(times[i].stated - times[i].derived) > 1e-9 * derived->period_us)
            return ah_error_set(err, AH_E_DOCUMENT, "%s: is %.17g; these orders make it %.17g",
                                times[i].place, times[i].stated, times[i].derived);
    return AH_OK;
}

static int check_iteration(const struct ah_plan *plan, struct ah_error *err)
{
    struct ah_arena arena = {0};
    struct ah_replay replay;
    int rc = ah_replay_steady(plan, &arena, &replay, err);
    ah_arena_release(&arena);
    return rc ? rc : compare_time(&plan->time, &replay, err);
}

int ah_check_times(const struct ah_plan *plan, struct ah_error *err)
{
    int rc = check_orders(plan, err);
    return rc ? rc : check_iteration(plan, err);
}
