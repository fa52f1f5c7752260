/* SPDX-License-Identifier: Apache-2.0
 *
 * Run log summary: compares measurements with predictions. Pure; report and inspect print it.
 *
 * Times of steps are medians over the last AH_RUNLOG_MEDIAN_STEPS steps. Steps after a drain (the first one, or one
 * after an evaluation or a save) are left out if there are others. A log that was cut off has no measured parts and
 * waits. Without a prediction, no pair has `predicted`.
 */
#ifndef AH_RUN_RUNLOG_SUMMARY_H
#define AH_RUN_RUNLOG_SUMMARY_H

#include "base/arena.h"
#include "base/buffer.h"
#include "base/error.h"
#include "base/units.h"
#include "schemas/runlog.h"

#include <stdbool.h>
#include <stddef.h>

/* A measured number and the prediction for it. */
struct ah_runlog_pair {
    bool is_measured, is_predicted;
    double measured, predicted;
    double spread; /* of the measurement: median absolute deviation / median; 0: unknown */
};

struct ah_runlog_pair_of_part {
    unsigned op; /* as in struct ah_runlog_part */
    enum ah_plan_lane lane;
    struct ah_runlog_pair us;
};

struct ah_runlog_summary {
    size_t steps; /* number of steps whose medians are taken */
    struct ah_runlog_pair step_us;
    size_t n_lanes;                               /* `net`, the last lane, only counts if it has work */
    struct ah_runlog_pair lane_us[AH_PLAN_LANES]; /* time for which each lane works */
    /* Time for which compute waits for each lane; for compute itself, the time for which it waits for no lane. */
    struct ah_runlog_pair waits_us[AH_PLAN_LANES];
    struct ah_runlog_pair tokens_per_s; /* batch x sequence */
    /* Tokens with a loss; predicted as tokens_share of all tokens. */
    struct ah_runlog_pair learned_tokens_per_s;
    /* Fraction of a step's tokens with a loss; 1 without masks and padding, or if unknown. */
    double tokens_share;
    struct ah_runlog_pair mfu;                         /* of step_us (utilisation.h) */
    struct ah_runlog_pair device_bytes, host_bytes;    /* peak bytes */
    struct ah_runlog_pair copied_bytes[AH_PLAN_LANES]; /* bytes copied by h2d and d2h; never predicted */
    struct ah_runlog_pair_of_part *parts; /* in the arena; parts of ops, by lane, the longest first */
    size_t n_parts;
};

/* Summarises `runlog`, which was read from a document. AH_E_MEMORY. */
int ah_runlog_summary_init(struct ah_runlog_summary *ret_summary, const struct ah_runlog *runlog,
                           struct ah_arena *arena, struct ah_error *err);

/* Returns the MFU of a step of the log; 0: unknown. */
double ah_runlog_summary_mfu(const struct ah_runlog *runlog, double step_us);

/* True if both numbers are known and the prediction is not 0. The error of such a pair is measured / predicted - 1. */
bool ah_runlog_summary_has_error(const struct ah_runlog_pair *pair);
double ah_runlog_summary_error(const struct ah_runlog_pair *pair);

/* Prints the error as "+20.8 %", beyond ten times as "x 182", or as "" if there is none. Returns `out`. */
const char *ah_runlog_summary_print_error(char out[AH_UNITS_TEXT_MAX], const struct ah_runlog_pair *pair);

/* True if the error exceeds AH_RUNLOG_SUMMARY_OFF, and in time is at least a thousandth of the step. */
#define AH_RUNLOG_SUMMARY_OFF 0.05
bool ah_runlog_summary_is_off(const struct ah_runlog_summary *summary, const struct ah_runlog_pair *us);

/* The cause of most of the step's difference. */
struct ah_runlog_cause {
    double step_us;         /* measured - predicted; 0: there is nothing to explain */
    enum ah_plan_lane lane; /* compute: its own work, or `is_idle`; another lane: compute's wait for it */
    bool is_idle;           /* compute waits for no lane, or for an unknown lane */
    double us;              /* the part of step_us explained by this cause */
    /* (optional) The part of that lane that differs most in the same direction. */
    const struct ah_runlog_pair_of_part *part;
};
struct ah_runlog_cause ah_runlog_summary_cause(const struct ah_runlog_summary *summary);

/* Prints the cause in one or two sentences; prints nothing if nothing was predicted or measured. */
void ah_runlog_summary_put_cause(struct ah_buffer *out, const struct ah_runlog_summary *summary);

#endif
