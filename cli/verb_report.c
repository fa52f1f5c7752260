/* SPDX-License-Identifier: Apache-2.0
 *
 * autohete report RUNLOG: shows a run's measurements next to its plan's predictions.
 */
#include "base/units.h"
#include "cli/frame/outputs.h"
#include "cli/inspect/inspect.h"
#include "cli/inspect/plan_summary.h"
#include "cli/inspect/report_export.h"
#include "cli/inspect/report_json.h"
#include "cli/inspect/report_ranks.h"
#include "cli/page/page.h"
#include "cli/verbs.h"
#include "schemas/run_log_read.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { NAME_MAX_BYTES = 64, SAMPLES_SHOWN = 4, SAID_BYTES = 240 };

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

/* Prints a text as one line, without its end or, of a prompt, its beginning if it is long. */
static void put_said(struct ah_cli *cli, const char *mark, const char *text, bool is_prompt)
{
    const size_t size = strlen(text);
    const bool cut = size > SAID_BYTES;
    const char *at = cut && is_prompt ? text + size - SAID_BYTES : text;
    const char *end = cut && !is_prompt ? text + SAID_BYTES : text + size;
    struct ah_buffer line = {0};
    while (cut && ((unsigned char)*at & 0xC0) == 0x80) /* inside a character */
        at++;
    while (cut && ((unsigned char)*end & 0xC0) == 0x80)
        end--;
    ah_buffer_printf(&line, "%s%s", mark, cut && is_prompt ? "..." : "");
    for (; at < end; at++)
        ah_buffer_append(&line, strchr("\n\r\t", *at) ? " " : at, 1);
    ah_buffer_puts(&line, cut && !is_prompt ? "..." : "");
    if (!line.failed)
        ah_terminal_clean(line.data);
    ah_cli_put_wrapped(cli, &line, 2);
}

/* Prints the last answers. */
static void put_samples(struct ah_cli *cli, const struct ah_runlog *runlog)
{
    char heading[64];
    if (!runlog->n_samples)
        return;
    size_t first = runlog->n_samples - 1;
    while (first && runlog->samples[first - 1].step == runlog->samples[first].step)
        first--;
    snprintf(heading, sizeof heading, "what it says after step %" PRIu64, runlog->samples[first].step);
    ah_inspect_heading(cli, heading);
    for (size_t i = first; i < runlog->n_samples && i < first + SAMPLES_SHOWN; i++) {
        put_said(cli, "> ", runlog->samples[i].prompt, true);
        put_said(cli, "", *runlog->samples[i].text ? runlog->samples[i].text : "(nothing)", false);
        if (runlog->samples[i].data)
            put_said(cli, "= ", runlog->samples[i].data, false);
    }
    if (runlog->n_samples > first + SAMPLES_SHOWN)
        ah_buffer_printf(&cli->out, "  %s%zu more; --html and --json have all%s\n", cli->out_style.dim,
                         runlog->n_samples - first - SAMPLES_SHOWN, cli->out_style.reset);
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

static const char *print_percent(char out[AH_UNITS_TEXT_MAX], double share)
{
    snprintf(out, AH_UNITS_TEXT_MAX, "%.1f %%", 100 * share);
    return out;
}

static void put_amounts(struct ah_cli *cli, const struct ah_runlog_summary *summary, bool of_ranks)
{
    struct ah_table table = {.arena = &cli->arena, .columns = {"", ">measured", ">predicted", ">error"}};
    put_amount(&table, "tokens per second", &summary->tokens_per_s, ah_units_print_count);
    if (summary->tokens_share < 1)
        put_amount(&table, "learned tokens per second", &summary->learned_tokens_per_s, ah_units_print_count);
    put_amount(&table, "model FLOPs utilisation", &summary->mfu, print_percent);
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
    put_samples(cli, runlog);
}

/* ---- the verb ---- */

static void print_json(struct ah_cli *cli, const struct ah_run_log_text *text,
                       const struct ah_runlog_summary *summary)
{
    struct ah_emit emit = {.out = &cli->out};
    ah_emit_open(&emit, NULL, '{');
    ah_report_json(&emit, text, summary);
    ah_emit_close(&emit);
}

struct report_options {
    bool verbose;
    const char *html, *csv, *tensorboard;
    bool force;
};

static const char *const replaced_pages[] = {AH_OUTPUT_PAGE, NULL};
static const char *const replaced_curves[] = {AH_OUTPUT_CURVES, NULL};

static const struct ah_option report_table[] = {
    {"verbose", 'v', AH_OPTION_FLAG, NULL, NULL, offsetof(struct report_options, verbose),
     "also show each lane's work, op by op, and where the time of traced steps went"},
    {"html", 0, AH_OPTION_OUTPUT, "FILE", replaced_pages, offsetof(struct report_options, html),
     "also write a page for a browser, with curves, to this file ('-': only the page, to standard output)"},
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

static int write_page(struct ah_cli *cli, const char *path, const struct ah_run_log_text *text,
                      const struct ah_runlog_summary *summary, struct ah_error *err)
{
    int rc = ah_page_write_report(cli, path, text, summary, err);
    if (!rc && strcmp(path, "-") != 0)
        ah_cli_tell(cli, AH_CLI_WROTE, "%s", ah_cli_clean(cli, path));
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
    const bool page_only = given->html && !strcmp(given->html, "-");
    int rc = page_only && cli->json
                 ? ah_error_set(&err, AH_E_USAGE,
                                "'--html -' and '--json' both want standard output; give '--html' a file")
                 : AH_OK;
    if (rc)
        return ah_cli_fail_usage(cli, &err);
    rc = ah_run_log_read(path, &text, &err);
    if (!rc && !text.begun)
        rc = ah_run_log_not_begun(path, &err);
    if (!rc)
        rc = ah_runlog_summary_init(&summary, text.document.body.runlog, &cli->arena, &err);
    if (!rc && text.cut_bytes)
        ah_cli_tell(cli, AH_CLI_NOTE, "%s: its last line is cut after %" PRIu64 " bytes and was ignored",
                    ah_document_short_name(path, name), text.cut_bytes);
    rc = rc ? rc : export_curves(cli, text.document.body.runlog, given, &err);
    if (!rc && given->html)
        rc = write_page(cli, given->html, &text, &summary, &err);
    if (!rc && cli->json)
        print_json(cli, &text, &summary);
    else if (!rc && !page_only)
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
        "data, what the model says (run --prompts), and how the run ended. With --verbose it also shows each "
        "lane's work by kind of op.\n\nWith "
        "--html the "
        "run becomes one page that works offline: curves of losses, gradients, learning rate and speed, with "
        "evaluations, checkpoints and predictions in them; and what the model said, from first to "
        "last.\n\nFor a "
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
                 {"report run.ndjson --html run.html", "did it learn, and how fast: curves in the browser"},
                 {"report run.ndjson --tensorboard curves", "the curves, for TensorBoard"},
                 {"report run.ndjson --json | jq .errors", "the same for a program"}},
    .run = report_run,
};
