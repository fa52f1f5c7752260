/* SPDX-License-Identifier: Apache-2.0
 *
 * Takes each column of a run's curves from the lines of its log.
 */
#include "cli/inspect/report_curves.h"

#include "runtime/run/runlog_summary.h"

#include <math.h>

#define NONE ((double)NAN)

static double loss(const struct ah_report_row *row)
{
    return row->step ? row->step->loss : NONE;
}

static double rate(const struct ah_report_row *row)
{
    return row->step ? row->step->lr : NONE;
}

static double norm(const struct ah_report_row *row)
{
    return row->step && row->step->grad_norm >= 0 ? row->step->grad_norm : NONE;
}

static double step_ms(const struct ah_report_row *row)
{
    return row->step ? row->step->step_us * 1e-3 : NONE;
}

static double speed(const struct ah_report_row *row)
{
    return row->step ? row->step->tokens_per_s : NONE;
}

static double learned(const struct ah_report_row *row)
{
    return row->step && row->step->learned_tokens_per_s > 0 ? row->step->learned_tokens_per_s : NONE;
}

static double utilisation(const struct ah_report_row *row)
{
    const double share = row->step ? ah_runlog_summary_mfu(row->runlog, row->step->step_us) : 0;
    return share > 0 ? share : NONE;
}

static double held_out(const struct ah_report_row *row)
{
    return row->evaluation ? row->evaluation->loss : NONE;
}

static double perplexity(const struct ah_report_row *row)
{
    const double value = row->evaluation ? exp(row->evaluation->loss) : NONE;
    return isfinite(value) ? value : NONE;
}

const struct ah_report_curve ah_report_curves[AH_REPORT_CURVES] = {
    {"loss", "train/loss", loss},
    {"lr", "train/learning_rate", rate},
    {"grad_norm", "train/gradient_norm", norm},
    {"step_ms", "speed/step_ms", step_ms},
    {"tokens_per_s", "speed/tokens_per_s", speed},
    {"learned_tokens_per_s", "speed/learned_tokens_per_s", learned},
    {"mfu", "speed/mfu", utilisation},
    {"valid_loss", "valid/loss", held_out},
    {"valid_perplexity", "valid/perplexity", perplexity}};

void ah_report_each_row(const struct ah_runlog *runlog,
                        void (*put)(void *context, const struct ah_report_row *row), void *context)
{
    size_t next = 0;
    for (size_t i = 0; i <= runlog->n_steps; i++) {
        const uint64_t until = i < runlog->n_steps ? runlog->steps[i].step : UINT64_MAX;
        for (; next < runlog->n_evaluations && runlog->evaluations[next].step < until; next++)
            put(context, &(struct ah_report_row){runlog, runlog->evaluations[next].step, NULL,
                                                 &runlog->evaluations[next]});
        if (i < runlog->n_steps)
            put(context, &(struct ah_report_row){runlog, until, &runlog->steps[i], NULL});
    }
}
