/* SPDX-License-Identifier: Apache-2.0
 *
 * autohete compare MODEL: shows all policies, each at its best setting. With --measured, each of them also trains.
 */
#include "base/units.h"
#include "cli/compare/compare_cluster.h"
#include "cli/compare/compare_measured.h"
#include "cli/frame/emit.h"
#include "cli/inspect/inspect.h"
#include "cli/inspect/plan_summary.h"
#include "cli/plan/request.h"
#include "cli/verbs.h"
#include "runtime/run/devices.h"
#include "runtime/run/run.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

struct compare_options {
    struct ah_request_options request; /* first: AH_REQUEST_OPTIONS */
    const char *cluster;
    const char *tp;
    bool measured;
    struct ah_compare_measured_options measuring;
};

#define FIELD(name) offsetof(struct compare_options, name)

/* clang-format off */
static const struct ah_option compare_table[] = {
    {"cluster", 0, AH_OPTION_FILE, "CLUSTER", ah_input_clusters, FIELD(cluster),
     "compare plans for the unequal GPUs of this cluster instead of one machine: a document, or built in"},
    {"tp", 0, AH_OPTION_WORD, "MODE", ah_words_tp_mode, FIELD(tp),
     "with --cluster: tensor parallelism of optimal, as in plan (default asym, like hexiscale's)"},
    AH_REQUEST_OPTIONS,
    {"measured", 0, AH_OPTION_FLAG, NULL, NULL, FIELD(measured),
     "train with every plan on this machine, in turns, and show the measured steps"},
    {"data", 0, AH_OPTION_FILES, "PATH", NULL, FIELD(measuring.data),
     "train on this, as in run (default made-up tokens)"},
    {"data-format", 0, AH_OPTION_WORD, "FORMAT", ah_run_words_format, FIELD(measuring.data_format),
     "format of the files (default auto: detected from content and name)"},
    {"rounds", 0, AH_OPTION_COUNT, "N", NULL, FIELD(measuring.rounds), "turns of each policy (default 5)"},
    {"steps", 0, AH_OPTION_COUNT, "N", NULL, FIELD(measuring.steps),
     "steps per turn that count (default 5); the three before them and the one after do not"},
    {"device", 0, AH_OPTION_TEXT, "DEVICE", ah_devices_words, FIELD(measuring.device),
     "the device to train on, with an index if there are several (cuda:1); default the plan's kind"},
    {"seed", 0, AH_OPTION_COUNT, "N", NULL, FIELD(measuring.seed),
     "seed of initial weights and data order (default 0)"},
    {NULL, 0, AH_OPTION_FLAG, NULL, NULL, 0, NULL}};
/* clang-format on */

/* The comparison to show. */
struct comparison {
    const struct ah_request *request;
    struct ah_comparison rows[AH_POLICIES];
    struct ah_compare_measurement *measurement; /* NULL: only predictions */
};

enum { FEASIBLE_CELLS = 5, MEASURED_CELLS = 6 }; /* cells of a row after the policy's name */

/* Returns the step time of `optimal`; 0 if that has no plan. */
static double optimal_us(const struct ah_comparison *rows)
{
    for (size_t i = 0; i < AH_POLICIES; i++)
        if (rows[i].policy == AH_POLICY_OPTIMAL && rows[i].feasible)
            return rows[i].step_us;
    return 0;
}

/* Adds cells. Memory includes the reserve and the process, as in all text and in --device-memory and --host-memory. */
static void feasible_cells(struct ah_table *table, const struct ah_comparison *row,
                           const struct ah_machine *machine, double best_us)
{
    char text[AH_UNITS_TEXT_MAX];
    ah_table_cell(table, "%s", ah_units_print_time(text, row->step_us));
    ah_table_cell(table, "%.0f", row->tokens_per_s);
    if (best_us > 0)
        ah_table_cell(table, "%.2f x", row->step_us / best_us);
    else
        ah_table_cell(table, "%s", "");
    ah_table_cell(table, "%s",
                  ah_units_print_bytes(text, row->device_bytes + row->plan->memory.reserved_bytes));
    ah_table_cell(table, "%s", ah_units_print_bytes(text, row->host_bytes + machine->host.process_bytes));
}

/* Adds a cell for each memory: "... short" if that memory is short by a known amount, otherwise empty. */
static void infeasible_cells(struct ah_table *table, const struct ah_comparison *row, int cells)
{
    char text[AH_UNITS_TEXT_MAX];
    ah_table_cell(table, "%s", "does not fit");
    for (int i = 1; i < cells; i++) {
        const char *side = table->columns[i + 1] + 1; /* after the mark for alignment */
        bool is_short = row->resource && row->short_bytes && !strncmp(row->resource, side, strlen(side));
        ah_table_cell(table, "%s%s", is_short ? ah_units_print_bytes(text, row->short_bytes) : "",
                      is_short ? " short" : "");
    }
}

static const struct ah_plan *any_plan(const struct ah_comparison *rows)
{
    const struct ah_plan *any = NULL;
    for (size_t i = 0; i < AH_POLICIES && !any; i++)
        any = rows[i].feasible ? rows[i].plan : NULL;
    return any;
}

static bool any_feasible(const struct ah_comparison *rows)
{
    return any_plan(rows) != NULL;
}

static bool any_estimated(const struct ah_comparison *rows)
{
    bool any = false;
    for (size_t i = 0; i < AH_POLICIES; i++)
        any = any || (rows[i].feasible && rows[i].plan->time.estimated);
    return any;
}

/* Explains the words in the column of settings. */
static void put_legend(struct ah_cli *cli)
{
    static const char legend[] =
        "Columns count the blocks whose activations are recomputed, fully or selectively; whose weights "
        "are gathered from other GPUs; whose weights or optimizers are on the host; whose states are "
        "streamed to the device for the update. ahead: how many blocks early weights are fetched; behind: "
        "how many blocks' gradients may still be on their way to the host or to other GPUs.";
    ah_buffer_printf(&cli->out, "  %s", cli->out_style.dim);
    ah_terminal_wrap(&cli->out, legend, 2, cli->columns);
    ah_buffer_puts(&cli->out, cli->out_style.reset);
}

static void print_settings(struct ah_cli *cli, const struct ah_comparison *rows)
{
    struct ah_table table = {.arena = &cli->arena, .columns = {"", ""}};
    for (size_t i = 0; i < AH_POLICIES; i++) {
        char text[AH_UNITS_TEXT_MAX];
        ah_table_cell(&table, "%s", ah_words_policy[rows[i].policy]);
        if (rows[i].feasible)
            ah_table_cell(&table, "%s", rows[i].setting ? rows[i].setting : "");
        else if (rows[i].resource && rows[i].short_bytes)
            ah_table_cell(&table, "%s is short by %s%s", rows[i].resource,
                          rows[i].at_least ? "at least " : "",
                          ah_units_print_bytes(text, rows[i].short_bytes));
        else
            ah_table_cell(&table, "%s", "nothing that was tried fits");
    }
    bool any = any_feasible(rows);
    ah_inspect_table(cli, any ? "best settings" : "what is short", &table);
    if (any)
        put_legend(cli);
}

static void put_headline(struct ah_cli *cli, const struct comparison *comparison, const char *how)
{
    const struct ah_request *request = comparison->request;
    const struct ah_plan_training *training = &request->planner.training;
    const struct ah_plan *plan = any_plan(comparison->rows);
    struct ah_buffer line = {0}, what_if = {0};
    if (plan && plan->n_what_if) {
        ah_plan_put_what_if(&what_if, plan);
        ah_cli_put_wrapped(cli, &what_if, 0);
    }
    ah_buffer_printf(&line, "%s%s on ", cli->out_style.bold, ah_cli_clean(cli, request->planner.model->name));
    if (request->planner.gpus > 1)
        ah_buffer_printf(&line, "%" PRIu64 " GPUs of ", request->planner.gpus);
    ah_buffer_printf(&line, "%s: ", ah_cli_clean(cli, request->planner.machine->name));
    ah_plan_put_batch(&line, training->batch, training->seq);
    if (request->planner.least_micro_batches)
        ah_buffer_puts(&line, " in the fewest micro-batches that fit");
    else if (request->planner.any_micro_batches)
        ah_buffer_puts(&line, " in any micro-batches");
    else if (training->micro_batches > 1)
        ah_buffer_printf(&line, " in %" PRIu64 " micro-batches", training->micro_batches);
    ah_buffer_printf(&line, ", %s", ah_words_dtype[training->dtype]);
    ah_plan_put_lora(&line, "; ", request->planner.model);
    ah_buffer_printf(&line, " (%s)%s", how, cli->out_style.reset);
    ah_cli_put_wrapped(cli, &line, 0);
    ah_buffer_puts(&cli->out, "\n");
}

static void put_reserve(struct ah_cli *cli, const struct ah_comparison *rows,
                        const struct ah_machine *machine)
{
    char text[AH_UNITS_TEXT_MAX];
    uint64_t most = 0; /* the reserve also depends on the micro-batches */
    for (size_t i = 0; i < AH_POLICIES; i++)
        if (rows[i].feasible && rows[i].plan->memory.reserved_bytes > most)
            most = rows[i].plan->memory.reserved_bytes;
    if (most)
        ah_buffer_printf(&cli->out, "  %sdevice: includes the %s that the device reserves%s\n",
                         cli->out_style.dim, ah_units_print_bytes(text, most), cli->out_style.reset);
    if (machine->host.process_bytes)
        ah_buffer_printf(&cli->out, "  %shost: includes the %s that the process itself takes%s\n",
                         cli->out_style.dim, ah_units_print_bytes(text, machine->host.process_bytes),
                         cli->out_style.reset);
}

static void print_predicted(struct ah_cli *cli, const struct comparison *comparison)
{
    const struct ah_comparison *rows = comparison->rows;
    double best_us = optimal_us(rows);
    const struct ah_machine *machine = comparison->request->planner.machine;
    put_headline(cli, comparison, ah_plan_predicted(any_estimated(rows)));
    struct ah_table table = {.arena = &cli->arena,
                             .columns = {"policy", ">step", ">tokens/s", ">to optimal", ">device", ">host"},
                             .indent = 2};
    for (size_t i = 0; i < AH_POLICIES; i++) {
        ah_table_cell(&table, "%s", ah_words_policy[rows[i].policy]);
        if (rows[i].feasible)
            feasible_cells(&table, &rows[i], machine, best_us);
        else
            infeasible_cells(&table, &rows[i], FEASIBLE_CELLS);
    }
    ah_table_print(&table, &cli->out, cli->out_style, cli->table_columns);
    if (any_feasible(rows))
        put_reserve(cli, rows, machine);
    if (comparison->request->planner.gpus > 1)
        ah_buffer_printf(&cli->out, "  %sdevice and host: of each GPU; host memory that is short: of all%s\n",
                         cli->out_style.dim, cli->out_style.reset);
}

/* ---- measured ---- */

static double off_percent(const struct ah_comparison *row, const struct ah_compare_measured *measured)
{
    return 100 * (row->step_us / measured->step_us.median - 1);
}

static void measured_cells(struct ah_table *table, const struct ah_comparison *row,
                           const struct ah_compare_measured *measured)
{
    char text[AH_UNITS_TEXT_MAX];
    const struct ah_stats *step_us = &measured->step_us;
    ah_table_cell(table, "%s", ah_units_print_time(text, step_us->median));
    ah_table_cell(table, "%.1f %%", 100 * step_us->mad / step_us->median);
    if (measured->to_optimal.n)
        ah_table_cell(table, "%.2f x", measured->to_optimal.median);
    else
        ah_table_cell(table, "%s", "");
    ah_table_cell(table, "%s", ah_units_print_time(text, row->step_us));
    ah_table_cell(table, "%+.1f %%", off_percent(row, measured));
    ah_table_cell(table, "%s", ah_units_print_bytes(text, measured->device_peak_bytes));
}

static void put_equality(struct ah_cli *cli, const struct ah_compare_measurement *measurement)
{
    struct ah_buffer text = {0};
    if (measurement->unlike)
        ah_buffer_printf(&text,
                         "LOSSES DIFFER: at step %" PRIu64 " those of %s differ from another plan with the "
                         "same numeric signature. This is a bug in autohete; please report it.",
                         measurement->unlike_step, measurement->unlike);
    else if (measurement->signatures > 1)
        ah_buffer_printf(
            &text,
            "Losses are equal, bit for bit, among plans of equal numeric signature; there are %zu signatures "
            "because the numbers of micro-batches differ.",
            measurement->signatures);
    else
        ah_buffer_puts(&text, "All losses are equal, bit for bit.");
    ah_cli_put_wrapped(cli, &text, 2);
}

static void put_method(struct ah_cli *cli, const struct ah_compare_measurement *measurement)
{
    struct ah_buffer text = {0};
    ah_buffer_printf(
        &text,
        "Measured on %s%s: %" PRIu64 " round%s in turns of %" PRIu64 " step%s; step: median of turns; "
        "spread: their median absolute deviation; to optimal: within rounds; off: prediction against "
        "measurement; device: highest byte touched, plus the device's reserve.",
        ah_cli_clean(cli, measurement->device), measurement->synthetic_data ? ", with made-up tokens" : "",
        measurement->rounds, measurement->rounds == 1 ? "" : "s", measurement->steps,
        measurement->steps == 1 ? "" : "s");
    ah_buffer_printf(&cli->out, "  %s", cli->out_style.dim);
    if (!text.failed)
        ah_terminal_wrap(&cli->out, text.data, 2, cli->columns);
    ah_buffer_puts(&cli->out, cli->out_style.reset);
    ah_buffer_release(&text);
}

static void print_measured(struct ah_cli *cli, const struct comparison *comparison)
{
    const struct ah_compare_measurement *measurement = comparison->measurement;
    struct ah_table table = {
        .arena = &cli->arena,
        .columns = {"policy", ">step", ">spread", ">to optimal", ">predicted", ">off", ">device"},
        .indent = 2};
    put_headline(cli, comparison, "measured");
    for (size_t i = 0; i < AH_POLICIES; i++) {
        const struct ah_comparison *row = &comparison->rows[i];
        ah_table_cell(&table, "%s", ah_words_policy[row->policy]);
        if (row->feasible)
            measured_cells(&table, row, &measurement->policies[row->policy]);
        else
            infeasible_cells(&table, row, MEASURED_CELLS);
    }
    ah_table_print(&table, &cli->out, cli->out_style, cli->table_columns);
    if (!any_feasible(comparison->rows))
        return;
    put_method(cli, measurement);
    put_equality(cli, measurement);
}

/* ---- JSON ---- */

static void emit_stats(struct ah_emit *emit, const char *key, const struct ah_stats *stats)
{
    if (!stats->n)
        return;
    ah_emit_open(emit, key, '{');
    ah_emit_integer(emit, "n", stats->n);
    ah_emit_number(emit, "median", stats->median);
    ah_emit_number(emit, "mad", stats->mad);
    ah_emit_number(emit, "min", stats->min);
    ah_emit_number(emit, "max", stats->max);
    ah_emit_close(emit);
}

static void emit_measured(struct ah_emit *emit, const struct ah_comparison *row,
                          const struct ah_compare_measured *measured)
{
    const struct ah_stats *step_us = &measured->step_us;
    ah_emit_number(emit, "measured_step_us", step_us->median);
    ah_emit_integer(emit, "n", step_us->n);
    ah_emit_number(emit, "spread", step_us->mad / step_us->median);
    ah_emit_number(emit, "off", off_percent(row, measured) / 100);
    ah_emit_integer(emit, "measured_device_bytes", measured->device_peak_bytes);
    ah_emit_integer(emit, "measured_host_bytes", measured->host_peak_bytes);
    emit_stats(emit, "turns_step_us", step_us);
    emit_stats(emit, "turns_to_optimal", &measured->to_optimal);
}

static void emit_row(struct ah_emit *emit, const struct comparison *comparison,
                     const struct ah_comparison *row)
{
    double best_us = optimal_us(comparison->rows);
    ah_emit_open(emit, NULL, '{');
    ah_emit_text(emit, "policy", ah_words_policy[row->policy]);
    ah_emit_bool(emit, "feasible", row->feasible);
    if (row->feasible) {
        ah_emit_number(emit, "step_us", row->step_us);
        ah_emit_number(emit, "tokens_per_s", row->tokens_per_s);
        ah_emit_integer(emit, "device_bytes", row->device_bytes);
        ah_emit_integer(emit, "reserved_bytes", row->plan->memory.reserved_bytes);
        ah_emit_integer(emit, "process_bytes", comparison->request->planner.machine->host.process_bytes);
        ah_emit_integer(emit, "host_bytes", row->host_bytes);
        ah_emit_integer(emit, "micro_batches", row->micro_batches);
        ah_emit_text(emit, "setting", row->setting);
        if (best_us > 0)
            ah_emit_number(emit, "to_optimal", row->step_us / best_us);
        if (comparison->measurement)
            emit_measured(emit, row, &comparison->measurement->policies[row->policy]);
    } else {
        ah_emit_bool(emit, "proven", row->proven);
        ah_emit_text(emit, "resource", row->resource);
        ah_emit_integer(emit, "short_bytes", row->short_bytes);
        ah_emit_bool(emit, "at_least", row->at_least);
    }
    ah_emit_close(emit);
}

static void emit_method(struct ah_emit *emit, const struct ah_compare_measurement *measurement)
{
    ah_emit_text(emit, "measured_on", measurement->device);
    ah_emit_integer(emit, "rounds", measurement->rounds);
    ah_emit_integer(emit, "steps", measurement->steps);
    ah_emit_bool(emit, "made_up_data", measurement->synthetic_data);
    ah_emit_integer(emit, "signatures", measurement->signatures);
    ah_emit_bool(emit, "losses_equal", !measurement->unlike);
}

static void print_json(struct ah_cli *cli, const struct comparison *comparison)
{
    const struct ah_plan_request *planner = &comparison->request->planner;
    const struct ah_plan *plan = any_plan(comparison->rows);
    struct ah_emit emit = {.out = &cli->out};
    ah_emit_open(&emit, NULL, '{');
    ah_emit_text(&emit, "model", planner->model->name);
    ah_emit_text(&emit, "machine", planner->machine->name);
    if (plan)
        ah_inspect_plan_what_if_json(&emit, plan);
    if (planner->gpus > 1) {
        ah_emit_integer(&emit, "gpus", planner->gpus);
        ah_emit_number(&emit, "fabric_bytes_per_s", planner->fabric_bytes_per_s);
    }
    ah_emit_integer(&emit, "batch", planner->training.batch);
    ah_emit_integer(&emit, "seq", planner->training.seq);
    ah_emit_text(&emit, "dtype", ah_words_dtype[planner->training.dtype]);
    ah_emit_bool(&emit, "simulated", !comparison->measurement);
    ah_emit_bool(&emit, "estimated", any_estimated(comparison->rows));
    if (comparison->measurement)
        emit_method(&emit, comparison->measurement);
    ah_emit_open(&emit, "policies", '[');
    for (size_t i = 0; i < AH_POLICIES; i++)
        emit_row(&emit, comparison, &comparison->rows[i]);
    ah_emit_close(&emit);
    ah_emit_close(&emit);
}

/* ---- the verb ---- */

static void print_comparison(struct ah_cli *cli, const struct comparison *comparison)
{
    if (cli->json) {
        print_json(cli, comparison);
        return;
    }
    if (comparison->measurement)
        print_measured(cli, comparison);
    else
        print_predicted(cli, comparison);
    print_settings(cli, comparison->rows);
}

static int check_options(const struct compare_options *options, struct ah_error *err)
{
    const struct ah_compare_measured_options *measuring = &options->measuring;
    const struct {
        const char *name;
        bool given;
    } of_measuring[] = {{"data", measuring->data.n},           {"data-format", measuring->data_format},
                        {"rounds", measuring->rounds.given},   {"steps", measuring->steps.given},
                        {"device", measuring->device != NULL}, {"seed", measuring->seed.given}};
    for (size_t i = 0; i < sizeof of_measuring / sizeof *of_measuring && !options->measured; i++)
        if (of_measuring[i].given)
            return ah_error_set(err, AH_E_USAGE, "'--%s' works only with '--measured'; give that, too",
                                of_measuring[i].name);
    if (options->request.gpus.given && options->request.gpus.value > 1 && options->measured)
        return ah_error_set(err, AH_E_USAGE,
                            "'--measured' trains with plans for one GPU; leave it or '--gpus' out");
    if (options->cluster && options->measured)
        return ah_error_set(err, AH_E_USAGE,
                            "'--measured' trains on one machine, not on a cluster; leave '--measured' or "
                            "'--cluster' out");
    if (options->tp && !options->cluster)
        return ah_error_set(err, AH_E_USAGE, "'--tp' works only for a cluster; name it with '--cluster'");
    return AH_OK;
}

/* Refuses budgets above the machine's memory: plans for them could not be run. */
static int check_exists(const struct ah_plan_request *request, struct ah_error *err)
{
    const struct ah_machine *machine = request->machine;
    const bool device = request->device_bytes > machine->device.memory_bytes;
    if (!device && request->host_bytes <= machine->host.memory_bytes)
        return AH_OK;
    return ah_error_set(
        err, AH_E_USAGE,
        "'--measured' trains on '%s', which has less memory than '--%s-memory' asks for; leave one out",
        machine->name, device ? "device" : "host");
}

static int compare_policies(struct ah_cli *cli, const struct compare_options *options,
                            struct ah_request *request, struct ah_error *err)
{
    struct ah_compare_measurement measurement;
    struct comparison comparison = {.request = request};
    int rc = options->measured ? check_exists(&request->planner, err) : AH_OK;
    if (rc)
        return rc;
    rc = ah_planner_compare(&request->planner, &cli->arena, comparison.rows, err);
    ah_terminal_erase(&request->progress);
    if (!rc && options->measured) {
        comparison.measurement = &measurement;
        rc = ah_compare_measured_run(cli, comparison.rows, request->planner.machine, &options->measuring,
                                     &measurement, err);
    }
    if (rc)
        return rc;
    print_comparison(cli, &comparison);
    if (options->measured && measurement.unlike)
        return ah_error_set(err, AH_E_FAILED, "'%s' had losses that its numeric signature does not allow",
                            measurement.unlike);
    return AH_OK;
}

static int compare_run(struct ah_cli *cli, const void *given)
{
    struct ah_request request;
    struct ah_error err = {0};
    const struct compare_options *options = given;
    int rc = check_options(options, &err);
    if (!rc && options->cluster)
        return ah_compare_cluster(cli,
                                  &(struct ah_request_cluster_options){
                                      .request = &options->request,
                                      .cluster = options->cluster,
                                      .tp = options->tp ? options->tp : ah_words_tp_mode[AH_TP_ASYMMETRIC]});
    if (!rc)
        rc = ah_request_init(&request, cli, &options->request, &err);
    if (rc)
        return rc == AH_E_USAGE ? ah_cli_fail_usage(cli, &err) : ah_cli_fail(cli, &err);
    rc = compare_policies(cli, options, &request, &err);
    ah_request_release(&request);
    return rc == AH_E_USAGE ? ah_cli_fail_usage(cli, &err) : rc ? ah_cli_fail(cli, &err) : 0;
}

const struct ah_verb ah_verb_compare = {
    .name = "compare",
    .summary = "compare all policies for a model on a machine",
    .description =
        "Plans the model with every policy, each at its best setting over all knobs of the real system, and "
        "shows them side by side: predicted step, tokens per second, step time divided by that of optimal, "
        "memory, the setting, or which memory is short. A policy plays another system's strategy with our "
        "kernels and costs; docs/policies says where that is kinder or harsher than the real one. Every "
        "number is simulated.\n\nWith --measured every plan trains for real on this machine, a few steps in "
        "turn, for several rounds, so that drift affects all alike; it shows predictions beside measurements "
        "and compares losses bit for bit. If the machine's document is a profile that emulates another "
        "machine, lanes are slowed to its rates.\n\nWith --cluster the policies are those for clusters, and "
        "optimal is at least as fast as each of them; with --tp symmetric, as each except hexiscale, which "
        "gives each stage its own degree.\n\nThe options are those of plan, with the same defaults but for "
        "--tp. The exit status is 0 even if some policies do not fit.",
    .syntax = {.options = compare_table, .operands = {AH_OPERAND_FILE, "MODEL", 1, 1, NULL}},
    .options_bytes = sizeof(struct compare_options),
    .examples = {{"compare model.json", "what offloading gains here"},
                 {"compare llama-2-7b --machine a100-40g-epyc7713 --json", "the same numbers for a program"},
                 {"compare model.json --cluster cluster.json --batch 256",
                  "what planning gains on a cluster of unequal GPUs"},
                 {"compare model.json --measured --rounds 11", "check the predictions against measurements"}},
    .run = compare_run,
};
