/* SPDX-License-Identifier: Apache-2.0
 *
 * Run line: what a run says of a step in one line. Speeds and shares are medians of the latest steps, because one time
 * says little: the last step before a save, for example, overlaps no other step.
 *
 *     ah_run_line_add(&line, record, step_us, tokens);         // each step
 *     ah_run_line_put(&line, &text, steps, &run.utilisation);  // "step 12/188  loss 3.1  9.4 k tokens/s  ..."
 */
#ifndef AH_CLI_RUN_RUN_LINE_H
#define AH_CLI_RUN_RUN_LINE_H

#include "base/buffer.h"
#include "runtime/run/utilisation.h"
#include "runtime/train/trainer.h"

#include <stdbool.h>
#include <stdint.h>

enum { AH_RUN_LINE_STEPS = 32 }; /* number of steps for the medians */

struct ah_run_line {
    bool no_lanes; /* for a run of several ranks, whose lanes limit each other: say nothing of them */
    uint64_t n;    /* number of steps so far, of which the last AH_RUN_LINE_STEPS are kept */
    struct ah_step_record last;
    double us[AH_RUN_LINE_STEPS], tokens_per_s[AH_RUN_LINE_STEPS], learned_tokens_per_s[AH_RUN_LINE_STEPS];
    double busy[AH_DEVICE_LANES][AH_RUN_LINE_STEPS]; /* share of the step for which each lane worked */
};

/* Adds a step of `tokens` tokens, those without a loss included. */
void ah_run_line_add(struct ah_run_line *line, const struct ah_step_record *record, double step_us,
                     double tokens);

/* Appends the line about the last step of `steps`, without a newline. The MFU is left out if it is unknown. At its end
 * is the busiest lane, and the share of the time for which it works: what limits the speed. */
void ah_run_line_put(const struct ah_run_line *line, struct ah_buffer *out, uint64_t steps,
                     const struct ah_utilisation *utilisation);

#endif
