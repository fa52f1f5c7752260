/* SPDX-License-Identifier: Apache-2.0
 *
 * Computes the plan's prediction for a step, as in a run log. Parts come from a steady iteration on the virtual clock.
 * Lanes slow each other down there, so parts add up to the lane times of the plan.
 */
#include "runtime/train/tally_internal.h"

#include "runtime/schedule/replay.h"

#include <string.h>

static int predict_parts(const struct ah_plan *plan, struct ah_arena *arena,
                         struct ah_runlog_predicted *predicted, struct ah_error *err)
{
    struct ah_arena of_replay = {0};
    struct ah_replay replay;
    double us[AH_RUNLOG_OPS][AH_PLAN_LANES] = {{0}};
    int rc = ah_replay_steady(plan, &of_replay, &replay, err);
    for (size_t i = 0; !rc && i < replay.n_items; i++) {
        const struct ah_replay_item *item = &replay.items[i];
        if (item->iteration + 2 == replay.iterations)
            us[plan->ops[item->op].op][item->lane] += item->finish_us - item->start_us;
    }
    ah_arena_release(&of_replay);
    return rc ? rc : ah_tally_parts(us, arena, &predicted->parts, &predicted->n_parts, err);
}

int ah_tally_predict(const struct ah_plan *plan, struct ah_arena *arena,
                     struct ah_runlog_predicted *ret_predicted, struct ah_error *err)
{
    const struct ah_plan_time *time = &plan->time;
    struct ah_plan_by_lane *exposed = ah_arena_alloc(arena, sizeof *exposed);
    if (!exposed)
        return ah_error_memory(err);
    *exposed = time->exposed_us;
    struct ah_runlog_predicted predicted = {.step_us = time->step_us,
                                            .tokens_per_s = plan->tokens_per_s,
                                            .device_bytes = plan->memory.device_bytes,
                                            .host_bytes = plan->memory.host_bytes,
                                            .estimated = time->estimated,
                                            .exposed_us = exposed};
    memcpy(predicted.busy_us, time->busy_us, sizeof predicted.busy_us);
    int rc = predict_parts(plan, arena, &predicted, err);
    if (!rc)
        *ret_predicted = predicted;
    return rc;
}
