/* SPDX-License-Identifier: Apache-2.0
 *
 * Keeps the latest steps in a ring, and prints medians of them.
 */
#include "cli/run/run_line.h"

#include "base/stats.h"
#include "base/units.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

void ah_run_line_add(struct ah_run_line *line, const struct ah_step_record *record, double step_us,
                     double tokens)
{
    const size_t at = line->n++ % AH_RUN_LINE_STEPS;
    const bool timed = step_us > 0;
    line->last = *record;
    line->us[at] = step_us;
    line->tokens_per_s[at] = timed ? tokens / step_us * 1e6 : 0;
    line->learned_tokens_per_s[at] = timed ? (double)record->tokens / step_us * 1e6 : 0;
    for (size_t lane = 0; lane < AH_DEVICE_LANES; lane++)
        line->busy[lane][at] = timed ? (double)record->busy_ns[lane] * 1e-3 / step_us : 0;
}

static double median_of(const struct ah_run_line *line, const double values[AH_RUN_LINE_STEPS])
{
    double sorted[AH_RUN_LINE_STEPS];
    memcpy(sorted, values, sizeof sorted);
    return ah_stats_of(sorted, line->n < AH_RUN_LINE_STEPS ? line->n : AH_RUN_LINE_STEPS).median;
}

/* Appends the lane that works most. Its work of one round may reach into the next step, so the share is cut at 1. */
static void put_busiest(const struct ah_run_line *line, struct ah_buffer *out)
{
    size_t busiest = 0;
    double most = 0;
    for (size_t lane = 0; lane < AH_DEVICE_LANES; lane++) {
        const double share = median_of(line, line->busy[lane]);
        if (share > most) {
            most = share;
            busiest = lane;
        }
    }
    if (most > 0)
        ah_buffer_printf(out, "  %s %.0f %%", ah_words_plan_lane[busiest], 100 * fmin(most, 1));
}

void ah_run_line_put(const struct ah_run_line *line, struct ah_buffer *out, uint64_t steps,
                     const struct ah_utilisation *utilisation)
{
    char rate[AH_UNITS_TEXT_MAX], learned[AH_UNITS_TEXT_MAX], time[AH_UNITS_TEXT_MAX];
    const double us = median_of(line, line->us), percents = 100 * ah_utilisation_mfu(utilisation, us);
    ah_units_print_count(rate, median_of(line, line->tokens_per_s));
    ah_units_print_count(learned, median_of(line, line->learned_tokens_per_s));
    ah_buffer_printf(out, "step %*" PRIu64 "/%" PRIu64 "  loss %.4f  %s tokens/s",
                     snprintf(NULL, 0, "%" PRIu64, steps), line->last.step, steps, line->last.loss, rate);
    if (strcmp(rate, learned) != 0)
        ah_buffer_printf(out, " (%s learned)", learned);
    ah_buffer_printf(out, "  %s a step", ah_units_print_time(time, us));
    if (percents > 0)
        ah_buffer_printf(out, "  mfu %.*f %%", percents < 9.95 ? 1 : 0, percents);
    if (!line->no_lanes)
        put_busiest(line, out);
}
