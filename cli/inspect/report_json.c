/* SPDX-License-Identifier: Apache-2.0
 *
 * Emits a report's summary, field by field.
 */
#include "cli/inspect/report_json.h"

#include "cli/inspect/inspect.h"
#include "cli/inspect/report_ranks.h"

#include <stdio.h>

enum { NAME_MAX_BYTES = 64 };

static double value_of(const struct ah_runlog_pair *pair, bool measured)
{
    return measured ? pair->measured : pair->predicted;
}

static bool is_there(const struct ah_runlog_pair *pair, bool measured)
{
    return measured ? pair->is_measured : pair->is_predicted;
}

static void emit_bytes(struct ah_emit *emit, const char *key, const struct ah_runlog_pair *pair,
                       bool measured)
{
    if (is_there(pair, measured))
        ah_emit_integer(emit, key, (uint64_t)value_of(pair, measured));
}

static void emit_side(struct ah_emit *emit, const struct ah_runlog_summary *summary, bool measured)
{
    if (!is_there(&summary->step_us, measured)) {
        ah_emit_text(emit, measured ? "measured" : "predicted", NULL);
        return;
    }
    ah_emit_open(emit, measured ? "measured" : "predicted", '{');
    ah_inspect_runlog_times(emit, summary, measured);
    if (is_there(&summary->waits_us[AH_PLAN_LANE_H2D], measured)) {
        ah_emit_open(emit, "exposed_us", '{');
        for (size_t lane = AH_PLAN_LANE_H2D; lane < summary->n_lanes; lane++)
            ah_emit_number(emit, ah_words_plan_lane[lane], value_of(&summary->waits_us[lane], measured));
        ah_emit_close(emit);
    }
    ah_emit_number(emit, "idle_us", value_of(&summary->waits_us[AH_PLAN_LANE_COMPUTE], measured));
    ah_emit_number(emit, "tokens_per_s", value_of(&summary->tokens_per_s, measured));
    ah_emit_number(emit, "learned_tokens_per_s", value_of(&summary->learned_tokens_per_s, measured));
    if (is_there(&summary->mfu, measured))
        ah_emit_number(emit, "mfu", value_of(&summary->mfu, measured));
    if (!measured)
        ah_emit_number(emit, "tokens_share", summary->tokens_share);
    emit_bytes(emit, "device_bytes", &summary->device_bytes, measured);
    emit_bytes(emit, "host_bytes", &summary->host_bytes, measured);
    emit_bytes(emit, "h2d_bytes", &summary->copied_bytes[AH_PLAN_LANE_H2D], measured);
    emit_bytes(emit, "d2h_bytes", &summary->copied_bytes[AH_PLAN_LANE_D2H], measured);
    ah_emit_close(emit);
}

static void emit_error(struct ah_emit *emit, const char *key, const struct ah_runlog_pair *pair)
{
    if (ah_runlog_summary_has_error(pair))
        ah_emit_number(emit, key, ah_runlog_summary_error(pair));
}

static void emit_errors(struct ah_emit *emit, const struct ah_runlog_summary *summary)
{
    ah_emit_open(emit, "errors", '{');
    emit_error(emit, "step_us", &summary->step_us);
    for (size_t lane = 0; lane < summary->n_lanes; lane++) {
        char key[NAME_MAX_BYTES];
        snprintf(key, sizeof key, "%s_us", ah_words_plan_lane[lane]);
        emit_error(emit, key, &summary->lane_us[lane]);
    }
    emit_error(emit, "tokens_per_s", &summary->tokens_per_s);
    emit_error(emit, "learned_tokens_per_s", &summary->learned_tokens_per_s);
    emit_error(emit, "device_bytes", &summary->device_bytes);
    emit_error(emit, "host_bytes", &summary->host_bytes);
    ah_emit_close(emit);
}

static void emit_parts(struct ah_emit *emit, const struct ah_runlog_summary *summary)
{
    ah_emit_open(emit, "parts", '[');
    for (size_t i = 0; i < summary->n_parts; i++) {
        const struct ah_runlog_pair_of_part *part = &summary->parts[i];
        ah_emit_open(emit, NULL, '{');
        ah_emit_text(emit, "op", ah_words_runlog_op[part->op]);
        ah_emit_text(emit, "lane", ah_words_plan_lane[part->lane]);
        if (part->us.is_measured)
            ah_emit_number(emit, "measured_us", part->us.measured);
        if (part->us.is_predicted)
            ah_emit_number(emit, "predicted_us", part->us.predicted);
        emit_error(emit, "error", &part->us);
        ah_emit_close(emit);
    }
    ah_emit_close(emit);
}

static void emit_cause(struct ah_emit *emit, const struct ah_runlog_summary *summary)
{
    struct ah_runlog_cause cause = ah_runlog_summary_cause(summary);
    if (cause.step_us == 0) {
        ah_emit_text(emit, "cause", NULL);
        return;
    }
    bool waits = !cause.is_idle && cause.lane != AH_PLAN_LANE_COMPUTE;
    ah_emit_open(emit, "cause", '{');
    ah_emit_number(emit, "of_us", cause.step_us);
    ah_emit_number(emit, "us", cause.us);
    ah_emit_text(emit, "compute", cause.is_idle ? "idle" : waits ? "waits" : "works");
    ah_emit_text(emit, "lane", ah_words_plan_lane[cause.lane]);
    ah_emit_text(emit, "op", cause.part ? ah_words_runlog_op[cause.part->op] : NULL);
    ah_emit_close(emit);
}

static void emit_events(struct ah_emit *emit, const struct ah_runlog *runlog)
{
    ah_emit_open(emit, "evaluations", '[');
    for (size_t i = 0; i < runlog->n_evaluations; i++) {
        ah_emit_open(emit, NULL, '{');
        ah_emit_integer(emit, "step", runlog->evaluations[i].step);
        ah_emit_number(emit, "loss", runlog->evaluations[i].loss);
        ah_emit_integer(emit, "tokens", runlog->evaluations[i].tokens);
        ah_emit_close(emit);
    }
    ah_emit_close(emit);
    ah_emit_open(emit, "saves", '[');
    for (size_t i = 0; i < runlog->n_saves; i++) {
        ah_emit_open(emit, NULL, '{');
        ah_emit_integer(emit, "step", runlog->saves[i].step);
        ah_emit_number(emit, "us", runlog->saves[i].us);
        ah_emit_integer(emit, "bytes", runlog->saves[i].bytes);
        ah_emit_close(emit);
    }
    ah_emit_close(emit);
    ah_emit_open(emit, "samples", '[');
    for (size_t i = 0; i < runlog->n_samples; i++) {
        ah_emit_open(emit, NULL, '{');
        ah_emit_integer(emit, "step", runlog->samples[i].step);
        ah_emit_text(emit, "prompt", runlog->samples[i].prompt);
        ah_emit_text(emit, "text", runlog->samples[i].text);
        if (runlog->samples[i].data)
            ah_emit_text(emit, "data", runlog->samples[i].data);
        ah_emit_close(emit);
    }
    ah_emit_close(emit);
    ah_emit_open(emit, "resumes", '[');
    for (size_t i = 0; i < runlog->n_resumes; i++)
        ah_emit_integer(emit, NULL, runlog->resumes[i].step);
    ah_emit_close(emit);
}

static void emit_overlap(struct ah_emit *emit, const struct ah_runlog_overlap *overlap)
{
    if (!overlap)
        return;
    ah_emit_open(emit, "overlap", '{');
    ah_emit_text(emit, "source", ah_words_runlog_source[overlap->source]);
    ah_emit_integer(emit, "first_step", overlap->first_step);
    ah_emit_integer(emit, "steps", overlap->steps);
    ah_emit_number(emit, "total_us", overlap->total_us);
    ah_emit_number(emit, "compute_us", overlap->compute_us);
    ah_emit_number(emit, "copy_us", overlap->copy_us);
    ah_emit_number(emit, "host_us", overlap->host_us);
    ah_emit_number(emit, "idle_us", overlap->idle_us);
    ah_emit_open(emit, "lanes", '[');
    for (size_t i = 0; i < overlap->n_lanes; i++) {
        ah_emit_open(emit, NULL, '{');
        ah_emit_text(emit, "lane", ah_words_plan_lane[overlap->lanes[i].lane]);
        ah_emit_number(emit, "busy_us", overlap->lanes[i].busy_us);
        ah_emit_number(emit, "exposed_us", overlap->lanes[i].exposed_us);
        ah_emit_close(emit);
    }
    ah_emit_close(emit);
    ah_emit_integer(emit, "records", overlap->records);
    ah_emit_integer(emit, "lost", overlap->lost);
    ah_emit_number(emit, "overhead_us", overlap->overhead_us);
    ah_emit_close(emit);
}

void ah_report_json(struct ah_emit *emit, const struct ah_run_log_text *text,
                    const struct ah_runlog_summary *summary)
{
    const struct ah_runlog *runlog = text->document.body.runlog;
    ah_inspect_runlog_head(emit, runlog);
    ah_emit_bool(emit, "estimated", runlog->predicted && runlog->predicted->estimated);
    ah_emit_text(emit, "failure", runlog->end ? runlog->end->error : NULL);
    if (text->cut_bytes)
        ah_emit_integer(emit, "cut_bytes", text->cut_bytes);
    ah_emit_integer(emit, "median_of_steps", summary->steps);
    emit_side(emit, summary, true);
    emit_side(emit, summary, false);
    emit_errors(emit, summary);
    emit_parts(emit, summary);
    emit_cause(emit, summary);
    ah_report_ranks_json(emit, runlog);
    emit_overlap(emit, runlog->end ? runlog->end->overlap : NULL);
    emit_events(emit, runlog);
}
