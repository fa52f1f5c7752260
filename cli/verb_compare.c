/* SPDX-License-Identifier: Apache-2.0
 *
 * autohete compare MODEL: every policy at its best setting, in one table.
 */
#include "base/units.h"
#include "cli/emit.h"
#include "cli/inspect.h"
#include "cli/plan_summary.h"
#include "cli/request.h"
#include "cli/verbs.h"

#include <inttypes.h>
#include <math.h>

struct compare_options {
    struct ah_request_options request; /* first: AH_REQUEST_OPTIONS */
};

static const struct ah_option compare_table[] = {AH_REQUEST_OPTIONS,
                                                 {NULL, 0, AH_OPTION_FLAG, NULL, NULL, 0, NULL}};

/* Step time of `optimal`; 0 where it has no plan. */
static double optimal_us(const struct ah_comparison *rows)
{
    for (size_t i = 0; i < AH_POLICIES; i++)
        if (rows[i].policy == AH_POLICY_OPTIMAL && rows[i].feasible)
            return rows[i].step_us;
    return 0;
}

/* Of the device what --device-memory limits: the reserve included, as in every other view. */
static void feasible_cells(struct ah_table *table, const struct ah_comparison *row, uint64_t reserve_bytes,
                           double best_us)
{
    char text[AH_UNITS_TEXT_MAX];
    ah_table_cell(table, "%s", ah_units_print_time(text, row->step_us));
    ah_table_cell(table, "%.0f", row->tokens_per_s);
    if (best_us > 0)
        ah_table_cell(table, "%.2f x", row->step_us / best_us);
    else
        ah_table_cell(table, "%s", "");
    ah_table_cell(table, "%s", ah_units_print_bytes(text, row->device_bytes + reserve_bytes));
    ah_table_cell(table, "%s", ah_units_print_bytes(text, row->host_bytes));
}

static void infeasible_cells(struct ah_table *table)
{
    ah_table_cell(table, "%s", "does not fit");
    for (int i = 0; i < 4; i++)
        ah_table_cell(table, "%s", "");
}

static bool any_feasible(const struct ah_comparison *rows)
{
    bool any = false;
    for (size_t i = 0; i < AH_POLICIES; i++)
        any = any || rows[i].feasible;
    return any;
}

/* What the words of a setting mean. */
static void put_legend(struct ah_cli *cli)
{
    static const char legend[] =
        "Numbers of blocks: whose activations are recomputed, wholly or selectively; whose weights or "
        "optimizers are "
        "on the host; whose states are streamed to the device for the update. ahead: so many blocks early "
        "are weights "
        "fetched; behind: the gradients of so many blocks may still be on their way to the host.";
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

static void put_headline(struct ah_cli *cli, const struct ah_request *request)
{
    const struct ah_plan_training *training = &request->planner.training;
    struct ah_buffer batch = {0};
    ah_plan_put_batch(&batch, training->batch, training->seq);
    cli->out.failed = cli->out.failed || batch.failed;
    ah_buffer_printf(&cli->out, "%s%s on %s: %s", cli->out_style.bold,
                     ah_cli_clean(cli, request->planner.model->name),
                     ah_cli_clean(cli, request->planner.machine->name), batch.failed ? "" : batch.data);
    ah_buffer_release(&batch);
    if (request->planner.any_micro_batches)
        ah_buffer_puts(&cli->out, " in any micro-batches");
    else if (training->micro_batches > 1)
        ah_buffer_printf(&cli->out, " in %" PRIu64 " micro-batches", training->micro_batches);
    ah_buffer_printf(&cli->out, ", %s (predicted)%s\n\n", ah_words_dtype[training->dtype],
                     cli->out_style.reset);
}

static void put_reserve(struct ah_cli *cli, uint64_t reserve_bytes)
{
    char text[AH_UNITS_TEXT_MAX];
    if (reserve_bytes)
        ah_buffer_printf(&cli->out, "  %sdevice: with the reserve of %s that the device keeps%s\n",
                         cli->out_style.dim, ah_units_print_bytes(text, reserve_bytes), cli->out_style.reset);
}

static void print_table(struct ah_cli *cli, const struct ah_request *request,
                        const struct ah_comparison *rows)
{
    double best_us = optimal_us(rows);
    uint64_t reserve_bytes = request->planner.machine->device.reserve_bytes;
    put_headline(cli, request);
    struct ah_table table = {.arena = &cli->arena,
                             .columns = {"policy", ">step", ">tokens/s", ">to optimal", ">device", ">host"},
                             .indent = 2};
    for (size_t i = 0; i < AH_POLICIES; i++) {
        ah_table_cell(&table, "%s", ah_words_policy[rows[i].policy]);
        if (rows[i].feasible)
            feasible_cells(&table, &rows[i], reserve_bytes, best_us);
        else
            infeasible_cells(&table);
    }
    ah_table_print(&table, &cli->out, cli->out_style);
    if (any_feasible(rows))
        put_reserve(cli, reserve_bytes);
    print_settings(cli, rows);
}

static void emit_row(struct ah_emit *emit, const struct ah_comparison *row, uint64_t reserve_bytes,
                     double best_us)
{
    ah_emit_open(emit, NULL, '{');
    ah_emit_text(emit, "policy", ah_words_policy[row->policy]);
    ah_emit_bool(emit, "feasible", row->feasible);
    if (row->feasible) {
        ah_emit_number(emit, "step_us", row->step_us);
        ah_emit_number(emit, "tokens_per_s", row->tokens_per_s);
        ah_emit_integer(emit, "device_bytes", row->device_bytes);
        ah_emit_integer(emit, "reserved_bytes", reserve_bytes);
        ah_emit_integer(emit, "host_bytes", row->host_bytes);
        ah_emit_integer(emit, "micro_batches", row->micro_batches);
        ah_emit_text(emit, "setting", row->setting);
        if (best_us > 0)
            ah_emit_number(emit, "to_optimal", row->step_us / best_us);
    } else {
        ah_emit_bool(emit, "proven", row->proven);
        ah_emit_text(emit, "resource", row->resource);
        ah_emit_integer(emit, "short_bytes", row->short_bytes);
        ah_emit_bool(emit, "at_least", row->at_least);
    }
    ah_emit_close(emit);
}

static void print_json(struct ah_cli *cli, const struct ah_request *request, const struct ah_comparison *rows)
{
    const struct ah_plan_training *training = &request->planner.training;
    struct ah_emit emit = {.out = &cli->out};
    ah_emit_open(&emit, NULL, '{');
    ah_emit_text(&emit, "model", request->planner.model->name);
    ah_emit_text(&emit, "machine", request->planner.machine->name);
    ah_emit_integer(&emit, "batch", training->batch);
    ah_emit_integer(&emit, "seq", training->seq);
    ah_emit_text(&emit, "dtype", ah_words_dtype[training->dtype]);
    ah_emit_bool(&emit, "simulated", true);
    ah_emit_open(&emit, "policies", '[');
    for (size_t i = 0; i < AH_POLICIES; i++)
        emit_row(&emit, &rows[i], request->planner.machine->device.reserve_bytes, optimal_us(rows));
    ah_emit_close(&emit);
    ah_emit_close(&emit);
}

static int compare_run(struct ah_cli *cli, const void *given)
{
    const struct compare_options *options = given;
    struct ah_request request;
    struct ah_comparison rows[AH_POLICIES] = {0};
    struct ah_error err = {0};
    int rc = ah_request_init(&request, cli, &options->request, &err);
    if (rc)
        return rc == AH_E_USAGE ? ah_cli_fail_usage(cli, &err) : ah_cli_fail(cli, &err);
    rc = ah_planner_compare(&request.planner, &cli->arena, rows, &err);
    ah_terminal_erase(&request.progress);
    if (!rc && cli->json)
        print_json(cli, &request, rows);
    else if (!rc)
        print_table(cli, &request, rows);
    ah_request_release(&request);
    return rc == AH_E_USAGE ? ah_cli_fail_usage(cli, &err) : rc ? ah_cli_fail(cli, &err) : 0;
}

const struct ah_verb ah_verb_compare = {
    .name = "compare",
    .summary = "compare all policies for a model on a machine",
    .description =
        "Plans the model with every policy, each at its best setting over all knobs that the real system "
        "has, and "
        "shows them side by side: predicted step, tokens per second, step time divided by that of optimal, "
        "memory, "
        "the setting, or what is short. A policy renders another system's strategy with our kernels and "
        "costs; "
        "docs/policies says where that is kinder or harsher than the real one. Every number is simulated.\n\n"
        "The options are those of plan, with the same defaults. Exit status 0, whichever policies fit.",
    .syntax = {.options = compare_table, .operands = {AH_OPERAND_FILE, "MODEL", 1, 1, NULL}},
    .options_bytes = sizeof(struct compare_options),
    .examples = {{"compare model.json", "what offloading gains here"},
                 {"compare config.json --machine a100-40g-epyc7713.json --json",
                  "the same numbers for a program"}},
    .run = compare_run,
};
