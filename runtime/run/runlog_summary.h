/* SPDX-License-Identifier: Apache-2.0
 *
 * Run log summary: measurements beside predictions. Pure; report and inspect print it.
 *
 * Times of steps are medians over the last AH_RUNLOG_MEDIAN_STEPS steps. Steps after a drain (the first one, or one
 * after an evaluation or a save) are left out if there are others. A log that was cut off has no measured parts and
 * waits; without a prediction, all pairs lack `predicted`.
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

enum { AH_RUNLOG_LANES = AH_PLAN_LANE_HOST + 1 };

/* A number, measured and predicted. */
struct ah_runlog_pair {
    bool is_measured, is_predicted;
    double measured, predicted;
    double spread; /* of the measurement: median absolute deviation over median; 0: not known */
};

struct ah_runlog_pair_of_part {
    unsigned op; /* as in struct ah_runlog_part */
    enum ah_plan_lane lane;
    struct ah_runlog_pair us;
};

struct ah_runlog_summary {
    size_t steps; /* how many steps the medians are over */
    struct ah_runlog_pair step_us;
    struct ah_runlog_pair lane_us[AH_RUNLOG_LANES]; /* how long each lane works */
    struct ah_runlog_pair waits_us
        [AH_RUNLOG_LANES]; /* how long compute waits for each; for compute: idle, waiting for no lane */
    struct ah_runlog_pair tokens_per_s; /* batch x sequence */
    struct ah_runlog_pair
        learned_tokens_per_s; /* tokens that have a loss; predicted: tokens_share of all tokens */
    double
        tokens_share; /* share of a step's tokens that have a loss; 1 without masks and padding, or if unknown */
    struct ah_runlog_pair device_bytes, host_bytes;      /* peak bytes */
    struct ah_runlog_pair copied_bytes[AH_RUNLOG_LANES]; /* bytes that h2d and d2h copied; never predicted */
    struct ah_runlog_pair_of_part *parts; /* in the arena; parts of ops by lane, the longest first */
    size_t n_parts;
};

/* Summarises `runlog`, which was read from a document. AH_E_MEMORY. */
int ah_runlog_summary_init(struct ah_runlog_summary *ret_summary, const struct ah_runlog *runlog,
                           struct ah_arena *arena, struct ah_error *err);

/* True if both numbers are known and the prediction is not 0. Then the error is measured / predicted - 1. */
bool ah_runlog_summary_has_error(const struct ah_runlog_pair *pair);
double ah_runlog_summary_error(const struct ah_runlog_pair *pair);

/* "+20.8 %", or "x 182" beyond ten times; "" if there is no error. Returns `out`, with room for AH_UNITS_TEXT_MAX. */
const char *ah_runlog_summary_print_error(char out[AH_UNITS_TEXT_MAX], const struct ah_runlog_pair *pair);

/* True if the error exceeds AH_RUNLOG_SUMMARY_OFF and is at least a thousandth of the step in time. */
#define AH_RUNLOG_SUMMARY_OFF 0.05
bool ah_runlog_summary_is_off(const struct ah_runlog_summary *summary, const struct ah_runlog_pair *us);

/* What causes most of the step's difference. */
struct ah_runlog_cause {
    double step_us;         /* measured - predicted; 0: nothing to explain */
    enum ah_plan_lane lane; /* compute: its work, or `is_idle`; another lane: compute waits for it */
    bool is_idle;           /* compute waits for no lane, or for an unknown one */
    double us;              /* the part of step_us that this cause explains */
    const struct ah_runlog_pair_of_part
        *part; /* (optional) the part of that lane that differs most in the same direction */
};
struct ah_runlog_cause ah_runlog_summary_cause(const struct ah_runlog_summary *summary);

/* Prints the cause in a sentence or two; nothing if nothing was predicted or measured. */
void ah_runlog_summary_put_cause(struct ah_buffer *out, const struct ah_runlog_summary *summary);

#endif
