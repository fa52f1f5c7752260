/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/plan_summary.h"

#include "base/units.h"

#include <string.h>

struct ah_plan_lane_times ah_plan_lane_times(const struct ah_plan *plan)
{
    const struct ah_plan_time *time = &plan->time;
    return (struct ah_plan_lane_times){
        .busy_us = {[AH_PLAN_LANE_COMPUTE] = time->compute_us,
                    [AH_PLAN_LANE_H2D] = time->h2d_us,
                    [AH_PLAN_LANE_D2H] = time->d2h_us,
                    [AH_PLAN_LANE_HOST] = time->host_us},
        .exposed_us = {[AH_PLAN_LANE_H2D] = time->exposed_us.h2d,
                       [AH_PLAN_LANE_D2H] = time->exposed_us.d2h,
                       [AH_PLAN_LANE_HOST] = time->exposed_us.host},
    };
}

/* ---- what limits the speed ---- */

static const char *const lane_names[AH_PLAN_LANES] = {
    [AH_PLAN_LANE_COMPUTE] = "compute",
    [AH_PLAN_LANE_H2D] = "the link to the device",
    [AH_PLAN_LANE_D2H] = "the link to the host",
    [AH_PLAN_LANE_HOST] = "host Adam",
};

/* The lane that compute waits for most. */
static enum ah_plan_lane worst_lane(const struct ah_plan_lane_times *times)
{
    enum ah_plan_lane worst = AH_PLAN_LANE_H2D;
    for (int lane = AH_PLAN_LANE_H2D; lane < AH_PLAN_LANES; lane++)
        if (times->exposed_us[lane] > times->exposed_us[worst])
            worst = (enum ah_plan_lane)lane;
    return worst;
}

static void put_capital(struct ah_buffer *out, const char *text)
{
    char first = text[0] >= 'a' && text[0] <= 'z' ? (char)(text[0] - 'a' + 'A') : text[0];
    ah_buffer_printf(out, "%c%s", first, text + 1);
}

void ah_plan_put_bottleneck(struct ah_buffer *out, double step_us, const struct ah_plan_lane_times *times)
{
    const double noticed = 0.01; /* of the step: waits below are not worth a word */
    const double saturated = 0.8;
    double busy[AH_PLAN_LANES];
    double exposed[AH_PLAN_LANES];
    for (int lane = 0; lane < AH_PLAN_LANES; lane++) {
        busy[lane] = step_us > 0 ? times->busy_us[lane] / step_us : 0;
        exposed[lane] = step_us > 0 ? times->exposed_us[lane] / step_us : 0;
    }
    enum ah_plan_lane worst = worst_lane(times);
    if (exposed[worst] < noticed) {
        ah_buffer_printf(out, "Compute is the bottleneck: it works %.0f %% of the step and hardly waits.",
                         100 * busy[AH_PLAN_LANE_COMPUTE]);
        return;
    }
    put_capital(out, lane_names[worst]);
    if (busy[worst] >= saturated)
        ah_buffer_printf(out,
                         " is the bottleneck: it works %.0f %% of the step, and compute waits %.0f %% of the "
                         "step for it.",
                         100 * busy[worst], 100 * exposed[worst]);
    else
        ah_buffer_printf(
            out,
            " holds compute up for %.0f %% of the step, though it works only %.0f %% of it: they "
            "take turns where they could overlap, or memory leaves no room to.",
            100 * exposed[worst], 100 * busy[worst]);
    for (int lane = AH_PLAN_LANE_H2D; lane < AH_PLAN_LANES; lane++)
        if (lane != (int)worst && exposed[lane] >= noticed)
            ah_buffer_printf(out, " Compute also waits %.0f %% for %s.", 100 * exposed[lane],
                             lane_names[lane]);
}

void ah_plan_put_quality(struct ah_buffer *out, const struct ah_plan_solver *solver)
{
    char text[AH_UNITS_TEXT_MAX];
    if (solver->status == AH_PLAN_OPTIMAL)
        ah_buffer_puts(out, "proven optimal");
    else if (solver->bound_us > 0)
        ah_buffer_printf(out, "within %.1f %% of the bound (%s), which no plan can beat", 100 * solver->gap,
                         ah_units_print_time(text, solver->bound_us));
    else
        ah_buffer_puts(out, "how close to the best is not known: there is no bound");
}

/* ---- blocks ---- */

bool ah_plan_same_config(const struct ah_plan_block *a, const struct ah_plan_block *b)
{
    return a->activations == b->activations && a->weights == b->weights && a->optimizer == b->optimizer &&
           a->accumulator == b->accumulator;
}

/* "layer" of "layer.12"; all of a name without a dot. */
static size_t kind_length(const char *name)
{
    const char *dot = strrchr(name, '.');
    return dot ? (size_t)(dot - name) : strlen(name);
}

static bool same_kind(const char *a, const char *b)
{
    size_t length = kind_length(a);
    return length == kind_length(b) && !strncmp(a, b, length);
}

size_t ah_plan_range_end(const struct ah_plan *plan, size_t first)
{
    const struct ah_plan_block *block = &plan->blocks[first];
    size_t end = first + 1;
    while (end < plan->n_blocks && same_kind(block->name, plan->blocks[end].name) &&
           ah_plan_same_config(block, &plan->blocks[end]))
        end++;
    return end;
}

void ah_plan_put_range(struct ah_buffer *out, const struct ah_plan *plan, size_t first, size_t end)
{
    const char *last = plan->blocks[end - 1].name;
    const char *number = strrchr(last, '.');
    ah_buffer_puts(out, plan->blocks[first].name);
    if (end - first > 1)
        ah_buffer_printf(out, "-%s", number ? number + 1 : last);
}
