/* SPDX-License-Identifier: Apache-2.0
 *
 * Prints two rows per rank: its measurements and, below them, its predictions.
 */
#include "cli/inspect/report_ranks.h"

#include "base/units.h"
#include "cli/inspect/inspect.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* A column: one number per rank. */
struct column {
    const char *key, *heading;
    size_t offset;
    bool optional; /* left out if it is 0 for all ranks */
};

#define COLUMN(member, text, may_miss)                                                                       \
    {                                                                                                        \
#member, text, offsetof(struct ah_runlog_rank, member), may_miss                                     \
    }

static const struct column steps[] = {COLUMN(step_us, ">step", false)};
static const struct column times[] = {
    COLUMN(compute_us, ">compute works", false), COLUMN(messages_us, ">sends", true),
    COLUMN(before_us, ">waits before", true),    COLUMN(behind_us, ">waits behind", true),
    COLUMN(sums_us, ">waits for sums", true),    COLUMN(gate_us, ">at the gate", true)};
static const struct column lanes[] = {
    COLUMN(lanes_us, ">waits for own lanes", false), COLUMN(h2d_us, ">h2d works", false),
    COLUMN(d2h_us, ">d2h works", false), COLUMN(host_us, ">host works", false),
    COLUMN(sums_lane_us, ">sums work", false)};
static const struct column bytes[] = {
    COLUMN(sent_bytes, ">sent", true), COLUMN(summed_bytes, ">sent for sums", true),
    COLUMN(device_bytes, ">device memory", false), COLUMN(host_bytes, ">host memory", false)};

enum { TIMES = sizeof times / sizeof *times, LANES = sizeof lanes / sizeof *lanes };
enum { BYTES = sizeof bytes / sizeof *bytes };

static double time_of(const struct ah_runlog_rank *rank, const struct column *column)
{
    return *(const double *)((const char *)rank + column->offset);
}

static uint64_t bytes_of(const struct ah_runlog_rank *rank, const struct column *column)
{
    return *(const uint64_t *)((const char *)rank + column->offset);
}

/* ---- both sides ---- */

struct sides {
    const struct ah_runlog_rank *measured, *predicted; /* either may be NULL, but not both */
    size_t n;
};

static struct sides sides_of(const struct ah_runlog *runlog)
{
    struct sides sides = {NULL, NULL, 0};
    if (runlog->predicted && runlog->predicted->n_ranks) {
        sides.predicted = runlog->predicted->ranks;
        sides.n = runlog->predicted->n_ranks;
    }
    if (runlog->end && runlog->end->n_ranks && (!sides.n || sides.n == runlog->end->n_ranks)) {
        sides.measured = runlog->end->ranks;
        sides.n = runlog->end->n_ranks;
    }
    return sides;
}

bool ah_report_ranks_any(const struct ah_runlog *runlog)
{
    return sides_of(runlog).n > 0;
}

const struct ah_runlog_rank *ah_report_ranks_holder(const struct ah_runlog_rank *ranks, size_t n)
{
    const struct ah_runlog_rank *most = NULL;
    double second_us = 0;
    for (size_t i = 0; i < n; i++) {
        if (!most || ranks[i].compute_us > most->compute_us) {
            second_us = most ? most->compute_us : 0;
            most = &ranks[i];
        } else {
            second_us = fmax(second_us, ranks[i].compute_us);
        }
    }
    return n > 1 && most->compute_us > (1 + AH_REPORT_RANKS_MORE) * second_us ? most : NULL;
}

/* ---- a sentence ---- */

static double share_of_waits(const struct ah_runlog_rank *rank)
{
    double us = 0;
    for (size_t i = 1; i < TIMES; i++)
        us += time_of(rank, &times[i]);
    return rank->step_us > 0 ? 100 * us / rank->step_us : 0;
}

/* Appends which part of a step the other ranks spend waiting: "30 %" or "25 % to 60 %". */
static void put_others(struct ah_buffer *out, const struct sides *sides, const struct ah_runlog_rank *holder)
{
    double least = 100, most = 0;
    for (size_t i = 0; i < sides->n; i++)
        if (&sides->measured[i] != holder) {
            least = fmin(least, share_of_waits(&sides->measured[i]));
            most = fmax(most, share_of_waits(&sides->measured[i]));
        }
    ah_buffer_printf(out, "%.0f %%", least);
    if (most - least >= 1)
        ah_buffer_printf(out, " to %.0f %%", most);
}

void ah_report_ranks_put_sentence(struct ah_cli *cli, const struct ah_runlog *runlog, struct ah_buffer *out)
{
    const struct sides sides = sides_of(runlog);
    char works[AH_UNITS_TEXT_MAX], predicted[AH_UNITS_TEXT_MAX];
    if (!sides.measured || sides.n < 2)
        return;
    const struct ah_runlog_rank *holder = ah_report_ranks_holder(sides.measured, sides.n);
    if (!holder) {
        ah_buffer_puts(out, "No single rank holds up the others: the busiest ones work about equally long; "
                            "ranks wait for each other ");
        put_others(out, &sides, NULL);
        ah_buffer_puts(out, " of a step.");
        return;
    }
    ah_buffer_printf(out, "Rank %" PRIu64 ", node '%s', holds up the others: its compute works %s per step",
                     holder->rank, ah_cli_clean(cli, holder->node),
                     ah_units_print_time(works, holder->compute_us));
    if (sides.predicted)
        ah_buffer_printf(out, ", predicted %s",
                         ah_units_print_time(predicted, sides.predicted[holder - sides.measured].compute_us));
    ah_buffer_printf(out, ", and it waits for others %.0f %% of the time; %s ", share_of_waits(holder),
                     sides.n > 2 ? "the others" : "the other one");
    put_others(out, &sides, holder);
    ah_buffer_puts(out, ".");
}

/* ---- tables ---- */

static bool is_shown(const struct sides *sides, const struct column *column, bool is_time)
{
    bool any = !column->optional;
    for (size_t i = 0; i < sides->n && !any; i++)
        for (int side = 0; side < 2; side++) {
            const struct ah_runlog_rank *ranks = side ? sides->predicted : sides->measured;
            any |= ranks && (is_time ? time_of(&ranks[i], column) > 0 : bytes_of(&ranks[i], column) > 0);
        }
    return any;
}

static bool is_several(const struct sides *sides, bool hosts)
{
    bool several = false;
    for (size_t i = 1; i < sides->n && sides->measured && hosts; i++)
        several |= sides->measured[i].host && sides->measured[0].host &&
                   strcmp(sides->measured[i].host, sides->measured[0].host) != 0;
    for (size_t i = 1; i < sides->n && !hosts; i++)
        several |= (sides->measured ? sides->measured : sides->predicted)[i].pipeline > 0;
    return several;
}

/* Adds two cells: the stage, "1" or, with several pipelines, "0.1"; and the host, if there are several. */
static void cell_place(struct ah_table *table, const struct sides *sides, size_t i)
{
    const struct ah_runlog_rank *rank = &(sides->measured ? sides->measured : sides->predicted)[i];
    ah_table_cell(table, "%" PRIu64, rank->rank);
    if (is_several(sides, false))
        ah_table_cell(table, "%" PRIu64 ".%" PRIu64, rank->pipeline, rank->stage);
    else
        ah_table_cell(table, "%" PRIu64, rank->stage);
    if (is_several(sides, true) && rank->host)
        ah_table_cell(table, "%s on %s", rank->node, rank->host);
    else
        ah_table_cell(table, "%s", rank->node);
}

struct view {
    const struct sides *sides;
    const struct column *columns[TIMES + LANES + 1];
    size_t n;
    bool is_time;
};

static void cell_values(struct ah_table *table, const struct view *view, const struct ah_runlog_rank *rank)
{
    char text[AH_UNITS_TEXT_MAX];
    for (size_t i = 0; i < view->n; i++)
        ah_table_cell(table, "%s",
                      view->is_time ? ah_units_print_time(text, time_of(rank, view->columns[i]))
                                    : ah_units_print_bytes(text, bytes_of(rank, view->columns[i])));
}

static void put_view(struct ah_cli *cli, const struct view *view, const char *heading)
{
    struct ah_table table = {.arena = &cli->arena, .columns = {">rank", "stage", "node"}};
    const struct sides *sides = view->sides;
    for (size_t i = 0; i < view->n; i++)
        table.columns[3 + i] = view->columns[i]->heading;
    if (is_several(sides, false))
        table.columns[1] = "pipeline and stage";
    for (size_t i = 0; i < sides->n; i++) {
        cell_place(&table, sides, i);
        if (sides->measured)
            cell_values(&table, view, &sides->measured[i]);
        if (sides->measured && sides->predicted) {
            ah_table_cell(&table, "%s", "");
            ah_table_cell(&table, "%s", "");
            ah_table_cell(&table, "predicted");
        }
        if (sides->predicted)
            cell_values(&table, view, &sides->predicted[i]);
    }
    ah_inspect_table(cli, heading, &table);
}

static void add_columns(struct view *view, const struct column *columns, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (is_shown(view->sides, &columns[i], view->is_time))
            view->columns[view->n++] = &columns[i];
}

void ah_report_ranks_text(struct ah_cli *cli, const struct ah_runlog *runlog, bool verbose)
{
    const struct sides sides = sides_of(runlog);
    struct view of_times = {.sides = &sides, .is_time = true}, of_lanes = of_times,
                of_bytes = {.sides = &sides};
    if (!sides.n)
        return;
    add_columns(&of_times, steps, 1);
    add_columns(&of_times, times, TIMES);
    add_columns(&of_lanes, lanes, LANES);
    add_columns(&of_bytes, bytes, BYTES);
    put_view(cli, &of_times,
             sides.measured ? "a step, seen from each rank's compute lane"
                            : "a step of each rank, predicted");
    if (verbose)
        put_view(cli, &of_lanes, "other lanes of each rank, in a step");
    put_view(cli, &of_bytes, "what each rank sends per step, and its peak memory");
}

/* ---- for programs ---- */

static void emit_times(struct ah_emit *emit, const struct ah_runlog_rank *rank, const struct column *columns,
                       size_t n)
{
    for (size_t i = 0; i < n; i++)
        ah_emit_number(emit, columns[i].key, time_of(rank, &columns[i]));
}

static void emit_side(struct ah_emit *emit, const char *key, const struct ah_runlog_rank *rank)
{
    ah_emit_open(emit, key, '{');
    emit_times(emit, rank, steps, 1);
    emit_times(emit, rank, times, TIMES);
    emit_times(emit, rank, lanes, LANES);
    for (size_t i = 0; i < BYTES; i++)
        ah_emit_integer(emit, bytes[i].key, bytes_of(rank, &bytes[i]));
    ah_emit_close(emit);
}

static void emit_rank(struct ah_emit *emit, const struct sides *sides, size_t i)
{
    const struct ah_runlog_rank *rank = &(sides->measured ? sides->measured : sides->predicted)[i];
    ah_emit_open(emit, NULL, '{');
    ah_emit_integer(emit, "rank", rank->rank);
    ah_emit_integer(emit, "pipeline", rank->pipeline);
    ah_emit_integer(emit, "stage", rank->stage);
    ah_emit_text(emit, "node", rank->node);
    if (rank->host)
        ah_emit_text(emit, "host", rank->host);
    if (sides->measured)
        emit_side(emit, "measured", &sides->measured[i]);
    if (sides->predicted)
        emit_side(emit, "predicted", &sides->predicted[i]);
    ah_emit_close(emit);
}

void ah_report_ranks_json(struct ah_emit *emit, const struct ah_runlog *runlog)
{
    const struct sides sides = sides_of(runlog);
    const struct ah_runlog_rank *holder =
        sides.measured ? ah_report_ranks_holder(sides.measured, sides.n) : NULL;
    if (!sides.n)
        return;
    ah_emit_open(emit, "ranks", '[');
    for (size_t i = 0; i < sides.n; i++)
        emit_rank(emit, &sides, i);
    ah_emit_close(emit);
    if (holder)
        ah_emit_integer(emit, "holds_up", holder->rank);
}
