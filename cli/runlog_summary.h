/* SPDX-License-Identifier: Apache-2.0
 *
 * Run log summary: what was measured beside what was predicted. Pure; report and inspect print it.
 *
 * Times of steps are medians over the last AH_RUNLOG_MEDIAN_STEPS steps. Those that follow a drain (the first one, one after an
 * evaluation or a save) are left out where there are others. A log that was cut off has no parts and no waits measured; one
 * without a prediction has nothing predicted.
 */
#ifndef AH_CLI_RUNLOG_SUMMARY_H
#define AH_CLI_RUNLOG_SUMMARY_H

#include "base/arena.h"
#include "base/buffer.h"
#include "base/error.h"
#include "base/units.h"
#include "schemas/runlog.h"

#include <stdbool.h>
#include <stddef.h>

enum { AH_RUNLOG_LANES = AH_PLAN_LANE_HOST + 1 };

/* A number on both sides. */
struct ah_runlog_pair {
    bool is_measured, is_predicted;
    double measured, predicted;
    double spread; /* of what is measured: median absolute deviation over median; 0 where it is not known */
};

struct ah_runlog_pair_of_part {
    unsigned op; /* as in struct ah_runlog_part */
    enum ah_plan_lane lane;
    struct ah_runlog_pair us;
};

struct ah_runlog_summary {
    size_t steps; /* that medians are of */
    struct ah_runlog_pair step_us;
    struct ah_runlog_pair lane_us[AH_RUNLOG_LANES]; /* time that each works */
    struct ah_runlog_pair waits_us
        [AH_RUNLOG_LANES]; /* time that compute waits for each; of compute: is idle for no lane's sake */
    struct ah_runlog_pair tokens_per_s;         /* batch x sequence */
    struct ah_runlog_pair learned_tokens_per_s; /* tokens that have a loss; predicted: their share of all */
    double tokens_share; /* of all tokens of a step; 1 without masks and padding, or if not known */
    struct ah_runlog_pair device_bytes, host_bytes;      /* highest */
    struct ah_runlog_pair copied_bytes[AH_RUNLOG_LANES]; /* of h2d and d2h; nothing is predicted */
    struct ah_runlog_pair_of_part *parts;                /* in the arena; by lane, the longest first */
    size_t n_parts;
};

/* `runlog` was read from a document. AH_E_MEMORY. */
int ah_runlog_summary_init(struct ah_runlog_summary *ret_summary, const struct ah_runlog *runlog,
                           struct ah_arena *arena, struct ah_error *err);

/* Are both sides known, and is there something to be off from? Then measured / predicted - 1. */
bool ah_runlog_summary_has_error(const struct ah_runlog_pair *pair);
double ah_runlog_summary_error(const struct ah_runlog_pair *pair);

/* "+20.8 %", beyond ten times "x 182"; "" where it has none. Returns `out`, which has room for AH_UNITS_TEXT_MAX. */
const char *ah_runlog_summary_print_error(char out[AH_UNITS_TEXT_MAX], const struct ah_runlog_pair *pair);

/* More than AH_RUNLOG_SUMMARY_OFF off, and by at least a thousandth of the step. */
#define AH_RUNLOG_SUMMARY_OFF 0.05
bool ah_runlog_summary_is_off(const struct ah_runlog_summary *summary, const struct ah_runlog_pair *us);

/* What most of the difference of the step comes from. */
struct ah_runlog_cause {
    double step_us;         /* measured - predicted; 0: nothing to explain */
    enum ah_plan_lane lane; /* compute: what it works, or `is_idle`; else that compute waits for it */
    bool is_idle;           /* for no lane's sake, or nobody knows whose */
    double us;              /* the part of step_us */
    const struct ah_runlog_pair_of_part
        *part; /* (optional) of that lane, that differs most in the same direction */
};
struct ah_runlog_cause ah_runlog_summary_cause(const struct ah_runlog_summary *summary);

/* The same in a sentence or two; nothing where nothing was predicted or measured. */
void ah_runlog_summary_put_cause(struct ah_buffer *out, const struct ah_runlog_summary *summary);

#endif
