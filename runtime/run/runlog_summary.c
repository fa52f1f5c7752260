/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/run/runlog_summary.h"

#include "base/stats.h"
#include "runtime/run/utilisation.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- steps ---- */

struct steps {
    const struct ah_runlog_step **items; /* the steps that count for medians */
    size_t n;
    double *sorted; /* room for one value per step */
};

/* True if the step is the first, or came right after an evaluation, a save or a resume. The log's lines are in order of
 * steps. */
static bool follows_drain(const struct ah_runlog *runlog, uint64_t step, size_t next[3])
{
    while (next[0] < runlog->n_evaluations && runlog->evaluations[next[0]].step + 1 < step)
        next[0]++;
    while (next[1] < runlog->n_saves && runlog->saves[next[1]].step + 1 < step)
        next[1]++;
    while (next[2] < runlog->n_resumes && runlog->resumes[next[2]].step + 1 < step)
        next[2]++;
    return step == runlog->first_step ||
           (next[0] < runlog->n_evaluations && runlog->evaluations[next[0]].step + 1 == step) ||
           (next[1] < runlog->n_saves && runlog->saves[next[1]].step + 1 == step) ||
           (next[2] < runlog->n_resumes && runlog->resumes[next[2]].step + 1 == step);
}

static size_t steps_by_drain(const struct ah_runlog *runlog, bool drained,
                             const struct ah_runlog_step **items)
{
    size_t next[3] = {0, 0, 0}, n = 0;
    for (size_t i = 0; i < runlog->n_steps; i++)
        if (follows_drain(runlog, runlog->steps[i].step, next) == drained)
            items[n++] = &runlog->steps[i];
    return n;
}

static int pick_steps(const struct ah_runlog *runlog, struct ah_arena *arena, struct steps *ret_steps,
                      struct ah_error *err)
{
    struct steps steps = {.items = ah_arena_array(arena, runlog->n_steps + 1, sizeof *steps.items),
                          .sorted = ah_arena_array(arena, AH_RUNLOG_MEDIAN_STEPS, sizeof *steps.sorted)};
    if (!steps.items || !steps.sorted)
        return ah_error_memory(err);
    steps.n = steps_by_drain(runlog, false, steps.items);
    if (!steps.n)
        steps.n = steps_by_drain(runlog, true, steps.items);
    if (steps.n > AH_RUNLOG_MEDIAN_STEPS) {
        steps.items += steps.n - AH_RUNLOG_MEDIAN_STEPS;
        steps.n = AH_RUNLOG_MEDIAN_STEPS;
    }
    *ret_steps = steps;
    return AH_OK;
}

static void measure_pair(struct ah_runlog_pair *pair, const struct steps *steps, size_t offset)
{
    if (!steps->n)
        return;
    for (size_t i = 0; i < steps->n; i++)
        steps->sorted[i] = *(const double *)((const char *)steps->items[i] + offset);
    struct ah_stats stats = ah_stats_of(steps->sorted, steps->n);
    pair->is_measured = true;
    pair->measured = stats.median;
    pair->spread = stats.median > 0 ? stats.mad / stats.median : 0;
}

static void measure_count(struct ah_runlog_pair *pair, const struct steps *steps, size_t offset)
{
    for (size_t i = 0; i < steps->n; i++)
        steps->sorted[i] = (double)*(const uint64_t *)((const char *)steps->items[i] + offset);
    pair->measured = ah_stats_of(steps->sorted, steps->n).median;
    pair->is_measured = pair->measured > 0; /* 0: unknown */
}

static void predict(struct ah_runlog_pair *pair, double predicted)
{
    pair->is_predicted = true;
    pair->predicted = predicted;
}

/* ---- both sides ---- */

static void measure_peaks(struct ah_runlog_summary *summary, const struct ah_runlog *runlog)
{
    struct ah_runlog_pair *device = &summary->device_bytes, *host = &summary->host_bytes;
    device->is_measured = host->is_measured = runlog->n_steps > 0;
    for (size_t i = 0; i < runlog->n_steps; i++) {
        device->measured = fmax(device->measured, (double)runlog->steps[i].device_peak_bytes);
        host->measured = fmax(host->measured, (double)runlog->steps[i].host_peak_bytes);
    }
}

static void measure_all(struct ah_runlog_summary *summary, const struct ah_runlog *runlog,
                        const struct steps *steps)
{
    summary->steps = steps->n;
    measure_pair(&summary->step_us, steps, offsetof(struct ah_runlog_step, step_us));
    measure_pair(&summary->tokens_per_s, steps, offsetof(struct ah_runlog_step, tokens_per_s));
    measure_pair(&summary->learned_tokens_per_s, steps,
                 offsetof(struct ah_runlog_step, learned_tokens_per_s));
    summary->learned_tokens_per_s.is_measured = summary->learned_tokens_per_s.measured > 0; /* 0: unknown */
    for (size_t lane = 0; lane < AH_PLAN_LANES; lane++)
        measure_pair(&summary->lane_us[lane], steps,
                     offsetof(struct ah_runlog_step, busy_us) + lane * sizeof(double));
    measure_count(&summary->copied_bytes[AH_PLAN_LANE_H2D], steps,
                  offsetof(struct ah_runlog_step, h2d_bytes));
    measure_count(&summary->copied_bytes[AH_PLAN_LANE_D2H], steps,
                  offsetof(struct ah_runlog_step, d2h_bytes));
    measure_peaks(summary, runlog);
}

/* Returns the fraction of tokens with a loss. A prediction counts all tokens; a log, only those with a loss. */
static double share_of_tokens(const struct ah_runlog_predicted *predicted, const struct steps *steps)
{
    double all = predicted->tokens_per_s * predicted->step_us * 1e-6;
    struct ah_runlog_pair tokens = {0};
    measure_count(&tokens, steps, offsetof(struct ah_runlog_step, tokens));
    return tokens.is_measured && tokens.measured < all - 0.5 ? tokens.measured / all : 1;
}

static void predict_all(struct ah_runlog_summary *summary, const struct ah_runlog_predicted *predicted)
{
    predict(&summary->step_us, predicted->step_us);
    for (size_t lane = 0; lane < AH_PLAN_LANES; lane++)
        predict(&summary->lane_us[lane], predicted->busy_us[lane]);
    predict(&summary->tokens_per_s, predicted->tokens_per_s);
    predict(&summary->learned_tokens_per_s, predicted->tokens_per_s * summary->tokens_share);
    predict(&summary->device_bytes, (double)predicted->device_bytes);
    predict(&summary->host_bytes, (double)predicted->host_bytes);
}

/* Sets how long compute waits for each lane. Other time in which compute does not work counts for compute itself. */
static void set_waits(struct ah_runlog_summary *summary, const struct ah_plan_by_lane *exposed, bool measured)
{
    const struct ah_runlog_pair *step = &summary->step_us, *compute = &summary->lane_us[AH_PLAN_LANE_COMPUTE];
    double all_us = measured ? step->measured : step->predicted;
    double rest_us = all_us - (measured ? compute->measured : compute->predicted);
    const struct ah_plan_by_lane us = exposed ? *exposed : (struct ah_plan_by_lane){{0}};
    for (size_t lane = AH_PLAN_LANES; lane-- > 0;) {
        struct ah_runlog_pair *pair = &summary->waits_us[lane];
        bool of_compute = lane == AH_PLAN_LANE_COMPUTE;
        double value_us = of_compute ? (rest_us > 1e-9 * all_us ? rest_us : 0) : us.of[lane];
        rest_us -= us.of[lane];
        if (!of_compute && !exposed)
            continue;
        *(measured ? &pair->is_measured : &pair->is_predicted) = true;
        *(measured ? &pair->measured : &pair->predicted) = value_us;
    }
}

/* Sets waits for lanes, but only if each existing side has them, so that comparisons are between the same numbers. */
static void set_both_waits(struct ah_runlog_summary *summary, const struct ah_runlog *runlog)
{
    const struct ah_plan_by_lane *measured = runlog->end ? runlog->end->exposed_us : NULL;
    const struct ah_plan_by_lane *predicted = runlog->predicted ? runlog->predicted->exposed_us : NULL;
    bool known = (measured || !summary->steps) && (predicted || !runlog->predicted);
    if (summary->steps)
        set_waits(summary, known ? measured : NULL, true);
    if (runlog->predicted)
        set_waits(summary, known ? predicted : NULL, false);
}

double ah_runlog_summary_mfu(const struct ah_runlog *runlog, double step_us)
{
    return ah_utilisation_mfu(&(struct ah_utilisation){runlog->model_flops, runlog->peak_flops_per_s},
                              step_us);
}

static void set_mfu(struct ah_runlog_summary *summary, const struct ah_runlog *runlog)
{
    struct ah_runlog_pair *mfu = &summary->mfu;
    mfu->measured = ah_runlog_summary_mfu(runlog, summary->step_us.measured);
    mfu->predicted = ah_runlog_summary_mfu(runlog, summary->step_us.predicted);
    mfu->is_measured = mfu->measured > 0;
    mfu->is_predicted = mfu->predicted > 0;
}

/* ---- parts ---- */

static struct ah_runlog_pair_of_part *part_of(struct ah_runlog_summary *summary,
                                              const struct ah_runlog_part *part)
{
    size_t i = 0;
    while (i < summary->n_parts && (summary->parts[i].op != part->op || summary->parts[i].lane != part->lane))
        i++;
    if (i == summary->n_parts)
        summary->parts[summary->n_parts++] =
            (struct ah_runlog_pair_of_part){.op = part->op, .lane = part->lane};
    return &summary->parts[i];
}

static double longest(const struct ah_runlog_pair_of_part *part)
{
    return fmax(part->us.measured, part->us.predicted);
}

static int compare_parts(const void *left, const void *right)
{
    const struct ah_runlog_pair_of_part *a = left, *b = right;
    if (a->lane != b->lane)
        return a->lane < b->lane ? -1 : 1;
    if (longest(a) != longest(b))
        return longest(a) > longest(b) ? -1 : 1;
    return a->op < b->op ? -1 : a->op > b->op;
}

/* Sets which sides of the parts are known. A part that such a side omits is 0 there. Data are never predicted. */
static void fill_absent(struct ah_runlog_summary *summary, bool measured, bool predicted)
{
    for (size_t i = 0; i < summary->n_parts; i++) {
        summary->parts[i].us.is_measured = measured;
        summary->parts[i].us.is_predicted = predicted && summary->parts[i].op != AH_RUNLOG_OP_DATA;
    }
}

static int pair_parts(struct ah_runlog_summary *summary, const struct ah_runlog *runlog,
                      struct ah_arena *arena, struct ah_error *err)
{
    size_t n_measured = runlog->end ? runlog->end->n_parts : 0;
    size_t n_predicted = runlog->predicted ? runlog->predicted->n_parts : 0;
    summary->parts = ah_arena_array(arena, n_measured + n_predicted + 1, sizeof *summary->parts);
    if (!summary->parts)
        return ah_error_memory(err);
    for (size_t i = 0; i < n_measured; i++)
        part_of(summary, &runlog->end->parts[i])->us.measured += runlog->end->parts[i].us;
    for (size_t i = 0; i < n_predicted; i++)
        part_of(summary, &runlog->predicted->parts[i])->us.predicted += runlog->predicted->parts[i].us;
    fill_absent(summary, n_measured > 0, n_predicted > 0);
    qsort(summary->parts, summary->n_parts, sizeof *summary->parts, compare_parts);
    return AH_OK;
}

int ah_runlog_summary_init(struct ah_runlog_summary *ret_summary, const struct ah_runlog *runlog,
                           struct ah_arena *arena, struct ah_error *err)
{
    struct ah_runlog_summary summary = {0};
    struct steps steps = {0};
    int rc = pick_steps(runlog, arena, &steps, err);
    if (!rc)
        rc = pair_parts(&summary, runlog, arena, err);
    if (rc)
        return rc;
    measure_all(&summary, runlog, &steps);
    summary.tokens_share = runlog->predicted ? share_of_tokens(runlog->predicted, &steps) : 1;
    if (runlog->predicted)
        predict_all(&summary, runlog->predicted);
    set_both_waits(&summary, runlog);
    set_mfu(&summary, runlog);
    const struct ah_runlog_pair *net_us = &summary.lane_us[AH_PLAN_LANE_NET];
    summary.n_lanes = net_us->measured > 0 || net_us->predicted > 0 ? AH_PLAN_LANES : AH_PLAN_LANE_NET;
    *ret_summary = summary;
    return AH_OK;
}

/* ---- errors ---- */

bool ah_runlog_summary_has_error(const struct ah_runlog_pair *pair)
{
    return pair->is_measured && pair->is_predicted && pair->predicted > 0;
}

double ah_runlog_summary_error(const struct ah_runlog_pair *pair)
{
    return pair->measured / pair->predicted - 1;
}

const char *ah_runlog_summary_print_error(char out[AH_UNITS_TEXT_MAX], const struct ah_runlog_pair *pair)
{
    double error = ah_runlog_summary_has_error(pair) ? ah_runlog_summary_error(pair) : 0;
    if (!ah_runlog_summary_has_error(pair))
        out[0] = '\0';
    else if (error < 10)
        snprintf(out, AH_UNITS_TEXT_MAX, "%+.1f %%", 100 * error);
    else
        snprintf(out, AH_UNITS_TEXT_MAX, "x %.3g", 1 + error);
    return out;
}

static double difference(const struct ah_runlog_pair *pair)
{
    return pair->is_measured && pair->is_predicted ? pair->measured - pair->predicted : 0;
}

bool ah_runlog_summary_is_off(const struct ah_runlog_summary *summary, const struct ah_runlog_pair *us)
{
    return fabs(difference(us)) > AH_RUNLOG_SUMMARY_OFF * us->predicted &&
           fabs(difference(us)) >= 1e-3 * summary->step_us.predicted;
}

/* Returns the part of a lane that differs most in the direction of `sign`; NULL if none does. */
static const struct ah_runlog_pair_of_part *worst_part(const struct ah_runlog_summary *summary,
                                                       enum ah_plan_lane lane, double sign)
{
    const struct ah_runlog_pair_of_part *worst = NULL;
    for (size_t i = 0; i < summary->n_parts; i++) {
        const struct ah_runlog_pair_of_part *part = &summary->parts[i];
        double most = worst ? sign * difference(&worst->us) : 0;
        if (part->lane == lane && sign * difference(&part->us) > most)
            worst = part;
    }
    return worst;
}

struct ah_runlog_cause ah_runlog_summary_cause(const struct ah_runlog_summary *summary)
{
    struct ah_runlog_cause cause = {.step_us = difference(&summary->step_us)};
    double sign = cause.step_us < 0 ? -1 : 1;
    if (cause.step_us == 0)
        return cause;
    cause.us = difference(&summary->lane_us[AH_PLAN_LANE_COMPUTE]);
    for (size_t lane = 0; lane < AH_PLAN_LANES; lane++) {
        double us = difference(&summary->waits_us[lane]);
        if (sign * us > sign * cause.us) {
            cause.us = us;
            cause.lane = (enum ah_plan_lane)lane;
            cause.is_idle = lane == AH_PLAN_LANE_COMPUTE;
        }
    }
    if (!cause.is_idle)
        cause.part = worst_part(summary, cause.lane, sign);
    return cause;
}

/* ---- in words ---- */

static void put_pair(struct ah_buffer *out, const struct ah_runlog_pair *us)
{
    char measured[AH_UNITS_TEXT_MAX], predicted[AH_UNITS_TEXT_MAX];
    ah_buffer_printf(out, "%s, predicted %s", ah_units_print_time(measured, us->measured),
                     ah_units_print_time(predicted, us->predicted));
}

static void put_source(struct ah_buffer *out, const struct ah_runlog_summary *summary,
                       const struct ah_runlog_cause *cause)
{
    const char *lane = ah_words_plan_lane[cause->lane];
    const struct ah_runlog_pair_of_part *part = cause->part;
    if (cause->is_idle) {
        ah_buffer_puts(out, summary->waits_us[AH_PLAN_LANE_H2D].is_measured
                                ? "compute idle without waiting for a lane: "
                                : "compute idle: ");
        put_pair(out, &summary->waits_us[AH_PLAN_LANE_COMPUTE]);
        return;
    }
    if (cause->lane != AH_PLAN_LANE_COMPUTE) {
        ah_buffer_printf(out, "compute waiting for %s: ", lane);
        put_pair(out, &summary->waits_us[cause->lane]);
        if (!part)
            return;
        ah_buffer_puts(out, "; there ");
    }
    ah_buffer_printf(out, "%s%s: ", part ? ah_words_runlog_op[part->op] : "what compute works",
                     part && cause->lane == AH_PLAN_LANE_COMPUTE ? " on compute" : "");
    put_pair(out, part ? &part->us : &summary->lane_us[AH_PLAN_LANE_COMPUTE]);
}

void ah_runlog_summary_put_cause(struct ah_buffer *out, const struct ah_runlog_summary *summary)
{
    const double noticed = 0.005; /* smallest fraction of the step that is mentioned */
    struct ah_runlog_cause cause = ah_runlog_summary_cause(summary);
    char text[AH_UNITS_TEXT_MAX];
    if (!ah_runlog_summary_has_error(&summary->step_us))
        return;
    double error = ah_runlog_summary_error(&summary->step_us);
    if (fabs(error) < noticed) {
        ah_buffer_puts(out, "A step takes as long as predicted.");
        return;
    }
    ah_buffer_printf(out, "A step takes %s %s than predicted", ah_units_print_time(text, fabs(cause.step_us)),
                     error > 0 ? "longer" : "less");
    ah_buffer_printf(out, " (%s). ", ah_runlog_summary_print_error(text, &summary->step_us));
    ah_buffer_puts(out,
                   cause.us / cause.step_us > 0.5 ? "Most of that is " : "The largest share of that is ");
    put_source(out, summary, &cause);
    ah_buffer_puts(out, ".");
}
