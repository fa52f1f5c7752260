/* SPDX-License-Identifier: Apache-2.0
 *
 * autohete simulate PLAN: plays the plan's orders on the virtual clock. Shows how long an iteration takes, and what
 * each lane does and waits for.
 *
 * In the steady iteration, an item's wait is counted for the kind of op that delayed the item.
 */
#include "base/units.h"
#include "cli/frame/emit.h"
#include "cli/frame/outputs.h"
#include "cli/inspect/inspect.h"
#include "cli/inspect/plan_summary.h"
#include "cli/plan/proof.h"
#include "cli/trace/trace.h"
#include "cli/verbs.h"
#include "runtime/schedule/replay.h"

#include <math.h>
#include <string.h>

enum { OP_KINDS = AH_PLAN_OP_KINDS, NO_OP = OP_KINDS };

struct simulate_options {
    const char *trace;
    bool force;
};

static const char *const replaced_traces[] = {AH_OUTPUT_TRACE, NULL};

static const struct ah_option simulate_table[] = {
    {"trace", 0, AH_OPTION_OUTPUT, "FILE", replaced_traces, offsetof(struct simulate_options, trace),
     "write the timeline as Chrome trace events, for Perfetto or chrome://tracing"},
    AH_OUTPUT_FORCE_ROW(struct simulate_options),
    {NULL, 0, AH_OPTION_FLAG, NULL, NULL, 0, NULL}};

struct simulation {
    const struct ah_plan *plan;
    struct ah_replay replay;

    /* Idle time in a steady iteration, by lane, reason and kind of the awaited op (NO_OP: none). */
    double waits_us[AH_PLAN_LANES][AH_REPLAY_REASONS][OP_KINDS + 1];
};

static bool agrees(const struct simulation *simulation)
{
    double stated_us = simulation->plan->time.step_us;
    return fabs(simulation->replay.period_us - stated_us) <= 1e-6 * stated_us;
}

static void count_waits(struct simulation *simulation)
{
    const struct ah_replay *replay = &simulation->replay;
    for (size_t i = 0; i < replay->n_items; i++) {
        const struct ah_replay_item *item = &replay->items[i];
        if (item->iteration + 2 != replay->iterations)
            continue;
        unsigned kind = item->waited_for < replay->n_items
                            ? simulation->plan->ops[replay->items[item->waited_for].op].op
                            : NO_OP;
        simulation->waits_us[item->lane][item->reason][kind] += item->waited_us;
    }
}

static struct ah_plan_time simulated_time(const struct ah_replay *replay)
{
    struct ah_plan_time time = {.step_us = replay->period_us};
    for (int lane = 0; lane < AH_PLAN_LANES; lane++) {
        time.busy_us[lane] = replay->lanes[lane].busy_us;
        time.exposed_us.of[lane] = replay->exposed_us[lane];
    }
    return time;
}

/* ---- waits, the longest first ---- */

struct wait {
    enum ah_plan_lane lane;
    enum ah_replay_reason reason;
    unsigned kind;
    double us;
};

enum { WAITS_MAX = AH_REPLAY_REASONS * (OP_KINDS + 1) };

static size_t sort_waits(const struct simulation *simulation, enum ah_plan_lane lane,
                         struct wait ret_waits[WAITS_MAX])
{
    const double noticed_us = 0.001 * simulation->replay.period_us;
    size_t n = 0;
    for (unsigned reason = AH_REPLAY_DATA; reason < AH_REPLAY_REASONS; reason++)
        for (unsigned kind = 0; kind <= OP_KINDS; kind++) {
            double us = simulation->waits_us[lane][reason][kind];
            if (us <= noticed_us)
                continue;
            size_t at = n++;
            for (; at && ret_waits[at - 1].us < us; at--)
                ret_waits[at] = ret_waits[at - 1];
            ret_waits[at] = (struct wait){lane, (enum ah_replay_reason)reason, kind, us};
        }
    return n;
}

static const char *const reason_words[AH_REPLAY_REASONS] = {
    [AH_REPLAY_NO_WAIT] = "none", [AH_REPLAY_DATA] = "data", [AH_REPLAY_MEMORY] = "memory"};

static const char *kind_word(unsigned kind)
{
    return kind < OP_KINDS ? ah_words_plan_op[kind] : "";
}

/* ---- for people ---- */

/* Prints the first step. It differs from a steady step, because no earlier step left updates or copied ahead. */
static void put_first_step(struct ah_cli *cli, const struct ah_replay *replay)
{
    char text[AH_UNITS_TEXT_MAX];
    const double alike = 0.001;
    double more = replay->period_us > 0 ? replay->first_us / replay->period_us - 1 : 0;
    if (fabs(more) < alike)
        ah_buffer_puts(&cli->out, "; the first step takes as long\n");
    else
        ah_buffer_printf(&cli->out, "; the first step takes %s, because no earlier step %s\n",
                         ah_units_print_time(text, replay->first_us),
                         more < 0 ? "left updates to do" : "copied anything ahead for it");
}

static void put_steps(struct ah_cli *cli, const struct simulation *simulation)
{
    char text[AH_UNITS_TEXT_MAX];
    const struct ah_plan *plan = simulation->plan;
    size_t mark = cli->out.size;
    double stated_us = plan->time.step_us;
    double off = stated_us > 0 ? simulation->replay.period_us / stated_us - 1 : 0;
    ah_plan_put_what_if(&cli->out, plan);
    ah_buffer_puts(&cli->out, plan->n_what_if ? "\n" : "");
    ah_buffer_printf(&cli->out, "%s%s on %s, simulated: %s a step", cli->out_style.bold,
                     ah_cli_clean(cli, plan->inputs.model.name), ah_cli_clean(cli, plan->inputs.machine.name),
                     ah_units_print_time(text, simulation->replay.period_us));
    ah_buffer_printf(&cli->out, "%s%s\n", plan->time.estimated ? " (from estimates)" : "",
                     cli->out_style.reset);
    if (agrees(simulation))
        ah_buffer_puts(&cli->out, "as planned");
    else
        ah_buffer_printf(&cli->out, "%sthe plan says %s, %+.2g %% off%s", cli->out_style.yellow,
                         ah_units_print_time(text, stated_us), 100 * off, cli->out_style.reset);
    put_first_step(cli, &simulation->replay);
    ah_cli_fit(cli, mark, 0);
}

static double idle_without_reason(const struct ah_replay_lane *lane)
{
    double rest_us = lane->idle_us;
    for (int reason = AH_REPLAY_DATA; reason < AH_REPLAY_REASONS; reason++)
        rest_us -= lane->waited_us[reason];
    return rest_us > 1e-9 * lane->busy_us ? rest_us : 0;
}

static void time_cell(struct ah_table *table, double us)
{
    char text[AH_UNITS_TEXT_MAX];
    const double shown_us = 0.005; /* shorter waits would print as 0 */
    ah_table_cell(table, "%s", us >= shown_us ? ah_units_print_time(text, us) : "-");
}

static void put_lanes(struct ah_cli *cli, const struct simulation *simulation)
{
    enum { BAR_COLUMNS = 20 };
    char bar[BAR_COLUMNS + 1];
    const struct ah_replay *replay = &simulation->replay;
    struct ah_table table = {
        .arena = &cli->arena,
        .columns = {"lane", "", ">busy", ">works", ">slowed by", ">waits for data", ">for memory", ">idle"}};
    for (unsigned i = 0; i < ah_plan_lane_count(simulation->plan); i++) {
        const struct ah_replay_lane *lane = &replay->lanes[i];
        double share = replay->period_us > 0 ? lane->busy_us / replay->period_us : 0;
        ah_table_cell(&table, "%s", ah_words_plan_lane[i]);
        ah_table_cell(&table, "%s", ah_terminal_bar(bar, share, BAR_COLUMNS, true));
        ah_table_cell(&table, "%.0f %%", 100 * share);
        time_cell(&table, lane->busy_us);
        time_cell(&table, lane->slowed_us);
        time_cell(&table, lane->waited_us[AH_REPLAY_DATA]);
        time_cell(&table, lane->waited_us[AH_REPLAY_MEMORY]);
        time_cell(&table, idle_without_reason(lane));
    }
    ah_inspect_table(cli, "lanes in a steady step (simulated)", &table);
    struct ah_buffer sentence = {0};
    const struct ah_plan_time time = simulated_time(replay);
    ah_plan_put_bottleneck(&sentence, &time);
    ah_cli_put_wrapped(cli, &sentence, 2);
}

static void put_waits(struct ah_cli *cli, const struct simulation *simulation)
{
    enum { SHOWN = 4 };
    struct ah_table table = {.arena = &cli->arena, .columns = {"lane", "waits for", "until", ">time"}};
    for (int lane = 0; lane < AH_PLAN_LANES; lane++) {
        struct wait waits[WAITS_MAX];
        size_t n = sort_waits(simulation, (enum ah_plan_lane)lane, waits);
        for (size_t i = 0; i < n && i < SHOWN; i++) {
            ah_table_cell(&table, "%s", ah_words_plan_lane[lane]);
            ah_table_cell(&table, "%s", reason_words[waits[i].reason]);
            ah_table_cell(&table, "%s is done",
                          waits[i].kind < NO_OP ? kind_word(waits[i].kind) : "what it reads");
            time_cell(&table, waits[i].us);
        }
    }
    ah_inspect_table(cli, "why lanes wait", &table);
}

static void put_sharing(struct ah_cli *cli, const struct simulation *simulation)
{
    struct ah_table table = {.arena = &cli->arena, .columns = {"lane", "shares", ">slowed by"}};
    const struct ah_plan_sharing *sharing = &simulation->plan->sharing;
    for (int lane = 0; lane < AH_PLAN_LANES; lane++)
        for (size_t i = 0; i < sharing->n_resources && i < 16; i++) {
            double us = simulation->replay.lanes[lane].slowed_by_us[i];
            if (us <= 0.001 * simulation->replay.period_us)
                continue;
            ah_table_cell(&table, "%s", ah_words_plan_lane[lane]);
            ah_table_cell(&table, "%s", sharing->resources[i].name);
            time_cell(&table, us);
        }
    ah_inspect_table(cli, "what lanes share", &table);
}

static void print_text(struct ah_cli *cli, const struct simulation *simulation)
{
    put_steps(cli, simulation);
    put_lanes(cli, simulation);
    put_waits(cli, simulation);
    put_sharing(cli, simulation);
}

/* ---- for programs ---- */

static void emit_waits(struct ah_emit *emit, const struct simulation *simulation, enum ah_plan_lane lane)
{
    struct wait waits[WAITS_MAX];
    size_t n = sort_waits(simulation, lane, waits);
    ah_emit_open(emit, "waits", '[');
    for (size_t i = 0; i < n; i++) {
        ah_emit_open(emit, NULL, '{');
        ah_emit_text(emit, "for", reason_words[waits[i].reason]);
        ah_emit_text(emit, "op", waits[i].kind < NO_OP ? kind_word(waits[i].kind) : NULL);
        ah_emit_number(emit, "us", waits[i].us);
        ah_emit_close(emit);
    }
    ah_emit_close(emit);
}

static void emit_lane(struct ah_emit *emit, const struct simulation *simulation, enum ah_plan_lane index)
{
    const struct ah_plan_sharing *sharing = &simulation->plan->sharing;
    const struct ah_replay_lane *lane = &simulation->replay.lanes[index];
    ah_emit_open(emit, ah_words_plan_lane[index], '{');
    ah_emit_number(emit, "busy_us", lane->busy_us);
    ah_emit_number(emit, "idle_us", lane->idle_us);
    ah_emit_number(emit, "slowed_us", lane->slowed_us);
    ah_emit_open(emit, "slowed_by_us", '{');
    for (size_t i = 0; i < sharing->n_resources && i < 16; i++)
        ah_emit_number(emit, sharing->resources[i].name, lane->slowed_by_us[i]);
    ah_emit_close(emit);
    ah_emit_number(emit, "waits_for_data_us", lane->waited_us[AH_REPLAY_DATA]);
    ah_emit_number(emit, "waits_for_memory_us", lane->waited_us[AH_REPLAY_MEMORY]);
    emit_waits(emit, simulation, index);
    ah_emit_close(emit);
}

static void print_json(struct ah_cli *cli, const struct simulation *simulation)
{
    const struct ah_replay *replay = &simulation->replay;
    struct ah_emit emit = {.out = &cli->out};
    ah_emit_open(&emit, NULL, '{');
    ah_emit_bool(&emit, "simulated", true);
    ah_emit_text(&emit, "model", simulation->plan->inputs.model.name);
    ah_emit_text(&emit, "machine", simulation->plan->inputs.machine.name);
    ah_emit_number(&emit, "step_us", replay->period_us);
    ah_emit_number(&emit, "plan_step_us", simulation->plan->time.step_us);
    ah_emit_bool(&emit, "agrees", agrees(simulation));
    ah_emit_bool(&emit, "estimated", simulation->plan->time.estimated);
    ah_emit_number(&emit, "first_step_us", replay->first_us);
    ah_emit_integer(&emit, "iterations", replay->iterations);
    ah_emit_open(&emit, "exposed_us", '{');
    for (unsigned lane = AH_PLAN_LANE_H2D; lane < ah_plan_lane_count(simulation->plan); lane++)
        ah_emit_number(&emit, ah_words_plan_lane[lane], replay->exposed_us[lane]);
    ah_emit_close(&emit);
    ah_emit_open(&emit, "lanes", '{');
    for (unsigned lane = 0; lane < ah_plan_lane_count(simulation->plan); lane++)
        emit_lane(&emit, simulation, (enum ah_plan_lane)lane);
    ah_emit_close(&emit);
    ah_emit_close(&emit);
}

static int simulate_run(struct ah_cli *cli, const void *given)
{
    const struct simulate_options *options = given;
    bool only_trace = options->trace && !strcmp(options->trace, "-");
    struct ah_document document = {0};
    struct simulation simulation = {0};
    struct ah_error err = {0};
    int rc = ah_proof_load(&document, cli->arguments.operands[0], "simulate", &err);
    simulation.plan = document.body.plan;
    if (!rc) {
        rc = ah_replay_steady(simulation.plan, &cli->arena, &simulation.replay, &err);
        if (rc == AH_E_DOCUMENT)
            ah_error_prefix(&err, rc, "%s", cli->arguments.operands[0]);
    }
    if (!rc)
        count_waits(&simulation);
    if (!rc && options->trace)
        rc = ah_trace_write(cli, options->trace, simulation.plan, &simulation.replay, &err);
    if (!rc && cli->json && !only_trace)
        print_json(cli, &simulation);
    else if (!rc && !only_trace)
        print_text(cli, &simulation);
    if (!rc && options->trace && !only_trace)
        ah_cli_tell(cli, AH_CLI_WROTE, "%s; open it in ui.perfetto.dev or chrome://tracing", options->trace);
    ah_document_release(&document);
    return rc ? ah_cli_fail(cli, &err) : 0;
}

const struct ah_verb ah_verb_simulate = {
    .name = "simulate",
    .summary = "run a plan on a virtual clock",
    .description =
        "Runs the plan's own orders with its own times on a virtual clock: no device is needed and nothing "
        "is computed. Shows the simulated step beside the planned one, how long the first step takes, how "
        "busy every lane is, what it waits for (data that has not arrived, or memory that is not free yet), "
        "which shared resource slows it down, and how long compute waits for each lane. Every number is "
        "simulated.\n\nWith --trace the timeline is written too; with '--trace -' nothing else goes to "
        "standard output.",
    .syntax = {.options = simulate_table, .operands = {AH_OPERAND_FILE, "PLAN", 1, 1, NULL}},
    .options_bytes = sizeof(struct simulate_options),
    .examples = {{"simulate plan.json", "where a step's time goes"},
                 {"simulate plan.json --trace trace.json", "see it in Perfetto"}},
    .run = simulate_run,
};
