/* SPDX-License-Identifier: Apache-2.0
 *
 * autohete report RUNLOG: shows a run's measurements next to its plan's predictions.
 */
#include "base/units.h"
#include "cli/frame/outputs.h"
#include "cli/inspect/inspect.h"
#include "cli/inspect/plan_summary.h"
#include "cli/inspect/report_export.h"
#include "cli/inspect/report_ranks.h"
#include "cli/verbs.h"
#include "schemas/run_log_read.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { NAME_MAX_BYTES = 64 };

/* ---- for people ---- */

static void put_headline(struct ah_cli *cli, const struct ah_runlog *runlog,
                         const struct ah_runlog_summary *summary)
{
    char text[AH_UNITS_TEXT_MAX];
    const struct ah_runlog_pair *step = &summary->step_us;
    ah_buffer_printf(&cli->out, "%s%s on %s: ", cli->out_style.bold, ah_cli_clean(cli, runlog->model),
                     ah_cli_clean(cli, runlog->device));
    if (step->is_measured)
        ah_buffer_printf(&cli->out, "%s a step measured", ah_units_print_time(text, step->measured));
    else
        ah_buffer_puts(&cli->out, "no step was done");
    if (step->is_predicted)
        ah_buffer_printf(&cli->out, ", %s %s", ah_units_print_time(text, step->predicted),
                         ah_plan_predicted(runlog->predicted->estimated));
    if (ah_runlog_summary_has_error(step))
        ah_buffer_printf(&cli->out, " (%s)", ah_runlog_summary_print_error(text, step));
    ah_buffer_printf(&cli->out, "%s\n", cli->out_style.reset);
    if (runlog->paced)
        ah_buffer_puts(&cli->out, "paced: ops and messages were held to their planned times\n");
    struct ah_buffer sentence = {0};
    if (ah_report_ranks_any(runlog)) /* with several ranks, rank 0's lanes explain nothing */
        ah_report_ranks_put_sentence(cli, runlog, &sentence);
    else
        ah_runlog_summary_put_cause(&sentence, summary);
    if (sentence.size)
        ah_cli_put_wrapped(cli, &sentence, 0);
    ah_buffer_puts(&cli->out, "\n");
}

/* Adds cells: measured, spread, predicted, error. Marks an error of more than 5 %. */
static void put_time(struct ah_table *table, const struct ah_runlog_summary *summary, const char *what,
                     const struct ah_runlog_pair *us)
{
    char text[AH_UNITS_TEXT_MAX];
    bool is_off = us->is_measured && us->is_predicted && ah_runlog_summary_is_off(summary, us);
    ah_table_cell(table, "%s", what);
    ah_table_cell(table, "%s", us->is_measured ? ah_units_print_time(text, us->measured) : "-");
    if (us->spread > 0)
        ah_table_cell(table, "%.1f %%", 100 * us->spread);
    else
        ah_table_cell(table, "%s", "");
    ah_table_cell(table, "%s", us->is_predicted ? ah_units_print_time(text, us->predicted) : "-");
    ah_table_cell(table, "%s", ah_runlog_summary_print_error(text, us));
    ah_table_cell(table, "%s", is_off ? "!" : "");
}

static struct ah_table times_table(struct ah_cli *cli)
{
    return (struct ah_table){.arena = &cli->arena,
                             .columns = {"", ">measured", ">spread", ">predicted", ">error", ""}};
}

/* Prints the parts of a step in which compute works, waits, or is idle. */
static void put_step(struct ah_cli *cli, const struct ah_runlog_summary *summary)
{
    struct ah_table table = times_table(cli);
    const struct ah_runlog_pair *idle = &summary->waits_us[AH_PLAN_LANE_COMPUTE];
    bool split =
        summary->waits_us[AH_PLAN_LANE_H2D].is_measured || summary->waits_us[AH_PLAN_LANE_H2D].is_predicted;
    put_time(&table, summary, "step", &summary->step_us);
    put_time(&table, summary, "  compute works", &summary->lane_us[AH_PLAN_LANE_COMPUTE]);
    for (size_t lane = AH_PLAN_LANE_H2D; lane < summary->n_lanes && split; lane++) {
        char what[NAME_MAX_BYTES];
        snprintf(what, sizeof what, "  compute waits for %s", ah_words_plan_lane[lane]);
        put_time(&table, summary, what, &summary->waits_us[lane]);
    }
    put_time(&table, summary, split ? "  compute idle otherwise" : "  compute idle", idle);
    ah_inspect_table(cli, "a step, seen from the compute lane", &table);
}

static void put_lanes(struct ah_cli *cli, const struct ah_runlog_summary *summary)
{
    struct ah_table table = times_table(cli);
    size_t part = 0;
    for (size_t lane = 0; lane < summary->n_lanes; lane++) {
        put_time(&table, summary, ah_words_plan_lane[lane], &summary->lane_us[lane]);
        for (; part < summary->n_parts && summary->parts[part].lane == lane; part++) {
            char what[NAME_MAX_BYTES];
            snprintf(what, sizeof what, "  %s", ah_words_runlog_op[summary->parts[part].op]);
            put_time(&table, summary, what, &summary->parts[part].us);
        }
    }
    ah_inspect_table(cli, "work of each lane in a step", &table);
}

/* Explains the mark, if the tables above may contain it. */
static void put_marks(struct ah_cli *cli, const struct ah_runlog_summary *summary)
{
    if (summary->step_us.is_measured && summary->step_us.is_predicted)
        ah_buffer_printf(&cli->out, "  %s! more than %.0f %% off%s\n", cli->out_style.dim,
                         100 * AH_RUNLOG_SUMMARY_OFF, cli->out_style.reset);
}

static void put_amount(struct ah_table *table, const char *what, const struct ah_runlog_pair *pair,
                       const char *(*print)(char out[AH_UNITS_TEXT_MAX], double value))
{
    char text[AH_UNITS_TEXT_MAX];
    if (!pair->is_measured && !pair->is_predicted)
        return;
    ah_table_cell(table, "%s", what);
    ah_table_cell(table, "%s", pair->is_measured ? print(text, pair->measured) : "-");
    ah_table_cell(table, "%s", pair->is_predicted ? print(text, pair->predicted) : "-");
    ah_table_cell(table, "%s", ah_runlog_summary_print_error(text, pair));
}

static const char *print_bytes(char out[AH_UNITS_TEXT_MAX], double bytes)
{
    return ah_units_print_bytes(out, (uint64_t)bytes);
}

static void put_amounts(struct ah_cli *cli, const struct ah_runlog_summary *summary, bool of_ranks)
{
    struct ah_table table = {.arena = &cli->arena, .columns = {"", ">measured", ">predicted", ">error"}};
    put_amount(&table, "tokens per second", &summary->tokens_per_s, ah_units_print_count);
    if (summary->tokens_share < 1)
        put_amount(&table, "learned tokens per second", &summary->learned_tokens_per_s, ah_units_print_count);
    if (!of_ranks) {
        put_amount(&table, "device memory, highest", &summary->device_bytes, print_bytes);
        put_amount(&table, "host memory, highest", &summary->host_bytes, print_bytes);
        put_amount(&table, "copied to the device", &summary->copied_bytes[AH_PLAN_LANE_H2D], print_bytes);
        put_amount(&table, "copied from the device", &summary->copied_bytes[AH_PLAN_LANE_D2H], print_bytes);
    }
    ah_inspect_table(cli, of_ranks ? "speed" : "speed and memory", &table);
    if (summary->tokens_share < 1)
        ah_buffer_printf(&cli->out, "  %slearned: tokens with a loss, %.0f %% of all in the median step%s\n",
                         cli->out_style.dim, 100 * summary->tokens_share, cli->out_style.reset);
}

static void put_share(struct ah_table *table, const char *what, double us, double of_us)
{
    char text[AH_UNITS_TEXT_MAX];
    ah_table_cell(table, "%s", what);
    ah_table_cell(table, "%s", ah_units_print_time(text, us));
    ah_table_cell(table, "%.1f %%", of_us > 0 ? 100 * us / of_us : 0);
}

/* Prints how lanes overlap. Each moment counts in exactly one row. */
static void put_moments(struct ah_cli *cli, const struct ah_runlog_overlap *overlap)
{
    struct ah_table table = {.arena = &cli->arena, .columns = {"", ">time", ">share"}};
    char title[128];
    snprintf(title, sizeof title, "where the time of %" PRIu64 " %s from %" PRIu64 " on went, %s",
             overlap->steps, overlap->steps == 1 ? "step" : "steps", overlap->first_step,
             overlap->source == AH_RUNLOG_HARDWARE_SAYS ? "by kernels and copies" : "by lanes");
    put_share(&table, "compute works", overlap->compute_us, overlap->total_us);
    put_share(&table, "copies alone", overlap->copy_us, overlap->total_us);
    put_share(&table, "the host alone", overlap->host_us, overlap->total_us);
    put_share(&table, "nothing", overlap->idle_us, overlap->total_us);
    ah_inspect_table(cli, title, &table);
}

static void put_overlap(struct ah_cli *cli, const struct ah_runlog_overlap *overlap)
{
    struct ah_table table = {
        .arena = &cli->arena,
        .columns = {"", ">works", ">share", ">beside compute", ">exposed", ">of its work"}};
    char text[AH_UNITS_TEXT_MAX];
    if (!overlap)
        return;
    put_moments(cli, overlap);
    for (size_t i = 0; i < overlap->n_lanes; i++) {
        const struct ah_runlog_busy *lane = &overlap->lanes[i];
        if (lane->lane == AH_PLAN_LANE_COMPUTE)
            continue;
        put_share(&table, ah_words_plan_lane[lane->lane], lane->busy_us, overlap->total_us);
        ah_table_cell(&table, "%s", ah_units_print_time(text, lane->busy_us - lane->exposed_us));
        ah_table_cell(&table, "%s", ah_units_print_time(text, lane->exposed_us));
        ah_table_cell(&table, "%.1f %%", lane->busy_us > 0 ? 100 * lane->exposed_us / lane->busy_us : 0);
    }
    ah_inspect_table(cli, "work of other lanes in these steps", &table);
    if (overlap->source == AH_RUNLOG_HARDWARE_SAYS || overlap->lost)
        ah_buffer_printf(&cli->out, "  %s%" PRIu64 " records, %" PRIu64 " lost; recording took %s%s\n",
                         cli->out_style.dim, overlap->records, overlap->lost,
                         ah_units_print_time(text, overlap->overhead_us), cli->out_style.reset);
}

static void print_text(struct ah_cli *cli, const struct ah_runlog *runlog,
                       const struct ah_runlog_summary *summary, bool verbose)
{
    const bool of_ranks = ah_report_ranks_any(runlog);
    put_headline(cli, runlog, summary);
    ah_inspect_runlog_facts(cli, runlog, summary);
    if (of_ranks)
        ah_report_ranks_text(cli, runlog, verbose);
    else if (summary->step_us.is_measured || summary->step_us.is_predicted) {
        put_step(cli, summary);
        if (verbose)
            put_lanes(cli, summary);
        put_marks(cli, summary);
    }
    if (summary->step_us.is_measured || summary->step_us.is_predicted)
        put_amounts(cli, summary, of_ranks);
    if (verbose)
        put_overlap(cli, runlog->end ? runlog->end->overlap : NULL);
    ah_inspect_runlog_evaluations(cli, runlog);
}

/* ---- for programs ---- */

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

static void print_json(struct ah_cli *cli, const struct ah_run_log_text *text,
                       const struct ah_runlog_summary *summary)
{
    const struct ah_runlog *runlog = text->document.body.runlog;
    struct ah_emit emit = {.out = &cli->out};
    ah_emit_open(&emit, NULL, '{');
    ah_inspect_runlog_head(&emit, runlog);
    ah_emit_bool(&emit, "estimated", runlog->predicted && runlog->predicted->estimated);
    ah_emit_text(&emit, "failure", runlog->end ? runlog->end->error : NULL);
    if (text->cut_bytes)
        ah_emit_integer(&emit, "cut_bytes", text->cut_bytes);
    ah_emit_integer(&emit, "median_of_steps", summary->steps);
    emit_side(&emit, summary, true);
    emit_side(&emit, summary, false);
    emit_errors(&emit, summary);
    emit_parts(&emit, summary);
    emit_cause(&emit, summary);
    ah_report_ranks_json(&emit, runlog);
    emit_overlap(&emit, runlog->end ? runlog->end->overlap : NULL);
    emit_events(&emit, runlog);
    ah_emit_close(&emit);
}

struct report_options {
    bool verbose;
    const char *csv, *tensorboard;
    bool force;
};

static const char *const replaced_curves[] = {AH_OUTPUT_CURVES, NULL};

static const struct ah_option report_table[] = {
    {"verbose", 'v', AH_OPTION_FLAG, NULL, NULL, offsetof(struct report_options, verbose),
     "also show each lane's work, op by op, and where the time of traced steps went"},
    {"csv", 0, AH_OPTION_OUTPUT, "FILE", replaced_curves, offsetof(struct report_options, csv),
     "also write losses, rates and speeds to this file, a row per step and evaluation"},
    {"tensorboard", 0, AH_OPTION_FOLDER, "DIR", NULL, offsetof(struct report_options, tensorboard),
     "also write them to an event file in this folder; again and again while the run goes on, if you like"},
    AH_OUTPUT_FORCE_ROW(struct report_options),
    {NULL, 0, AH_OPTION_FLAG, NULL, NULL, 0, NULL}};

static int export_curves(struct ah_cli *cli, const struct ah_runlog *runlog,
                         const struct report_options *given, struct ah_error *err)
{
    int rc = given->csv ? ah_report_csv(runlog, given->csv, err) : AH_OK;
    if (!rc && given->csv)
        ah_cli_tell(cli, AH_CLI_WROTE, "%s", ah_cli_clean(cli, given->csv));
    rc = rc || !given->tensorboard ? rc : ah_report_tensorboard(runlog, given->tensorboard, err);
    if (!rc && given->tensorboard)
        ah_cli_tell(cli, AH_CLI_WROTE, "an event file in %s; see it with 'tensorboard --logdir %s'",
                    ah_cli_clean(cli, given->tensorboard), ah_cli_clean(cli, given->tensorboard));
    return rc;
}

static int report_run(struct ah_cli *cli, const void *options)
{
    const struct report_options *given = options;
    const char *path = cli->arguments.operands[0];
    char name[AH_DOCUMENT_NAME_MAX];
    struct ah_run_log_text text;
    struct ah_runlog_summary summary;
    struct ah_error err = {0};
    int rc = ah_run_log_read(path, &text, &err);
    if (!rc && !text.begun)
        rc = ah_run_log_not_begun(path, &err);
    if (!rc)
        rc = ah_runlog_summary_init(&summary, text.document.body.runlog, &cli->arena, &err);
    if (!rc && text.cut_bytes)
        ah_cli_tell(cli, AH_CLI_NOTE, "%s: its last line is cut after %" PRIu64 " bytes and was ignored",
                    ah_document_short_name(path, name), text.cut_bytes);
    rc = rc ? rc : export_curves(cli, text.document.body.runlog, given, &err);
    if (!rc && cli->json)
        print_json(cli, &text, &summary);
    else if (!rc)
        print_text(cli, text.document.body.runlog, &summary, given->verbose);
    ah_document_release(&text.document);
    return rc ? ah_cli_fail(cli, &err) : 0;
}

const struct ah_verb ah_verb_report = {
    .name = "report",
    .summary = "show a run's measurements beside its predictions",
    .description =
        "Reads the log of a run (run --log) and shows where the time of a step went, beside what the plan "
        "predicted: the step, how long compute worked and waited for each lane; what is more than 5 % off, "
        "and where most of the step's difference comes from; tokens per second, memory, losses on held-out "
        "data, and how the run ended. With --verbose it also shows each lane's work by kind of op.\n\nFor a "
        "cluster plan it shows each rank: how long its compute works, stands still for messages that it "
        "sends, waits for the stages before and after it, for sums and at the gate where all ranks meet; "
        "what it sends and holds; and the rank that holds up the others.\n\nWith --verbose the log of a run "
        "with --trace also shows where the time of the traced steps went: what worked at each moment, and "
        "how long copies and the host worked while compute did not.\n\nTimes are medians over the steps, at "
        "most the last 1024, without those that follow a start, an evaluation or a save. The log of a run "
        "that was cut off or is still running is shown as far as it goes; an incomplete last line is ignored "
        "with a warning.",
    .syntax = {.options = report_table, .operands = {AH_OPERAND_FILE, "RUNLOG", 1, 1, NULL}},
    .options_bytes = sizeof(struct report_options),
    .examples = {{"report run.ndjson", "did the prediction come true, and if not, where"},
                 {"report run.ndjson -v", "lane by lane and op by op"},
                 {"report run.ndjson --tensorboard curves", "the curves, for TensorBoard"},
                 {"report run.ndjson --json | jq .errors", "the same for a program"}},
    .run = report_run,
};
