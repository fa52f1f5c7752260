/* SPDX-License-Identifier: Apache-2.0
 *
 * Shows moves: how many bytes come from where, the time of all moves, and each move.
 */
#include "cli/inspect/inspect.h"

#include "base/units.h"
#include "schemas/moves.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Prints the time of the moves, and what limits it. */
static void put_times(struct ah_cli *cli, const struct ah_moves *moves)
{
    const struct ah_moves_predicted *predicted = &moves->predicted;
    char time[AH_UNITS_TEXT_MAX], bound[AH_UNITS_TEXT_MAX], baseline[AH_UNITS_TEXT_MAX];
    struct ah_buffer line = {0};
    if (predicted->time_us > 0)
        ah_buffer_printf(&line, "%s (predicted; bound %s over all choices of sources), limited by: %s",
                         ah_units_print_time(time, predicted->time_us),
                         ah_units_print_time(bound, predicted->bound_us),
                         predicted->limit ? ah_cli_clean(cli, predicted->limit) : "");
    else
        ah_buffer_puts(&line, "nothing has to move");
    if (predicted->speed_up > 0)
        ah_buffer_printf(&line, "; reading everything from storage would take %s, %.2f times as long",
                         ah_units_print_time(baseline, predicted->baseline_us), predicted->speed_up);
    if (predicted->speed_up > 0 && predicted->speed_up < 1 && moves->sources == AH_SOURCES_NEAR)
        ah_buffer_puts(
            &line, ": the nearest source is used even when it is slow; '--sources fast' takes no longer than "
                   "that");
    ah_cli_put_wrapped(cli, &line, 0);
}

void ah_inspect_moves_summary(struct ah_cli *cli, const struct ah_moves *moves)
{
    const struct ah_moves_bytes *bytes = &moves->bytes;
    char a[AH_UNITS_TEXT_MAX], b[AH_UNITS_TEXT_MAX], c[AH_UNITS_TEXT_MAX], d[AH_UNITS_TEXT_MAX];
    char e[AH_UNITS_TEXT_MAX], f[AH_UNITS_TEXT_MAX];
    struct ah_buffer line = {0};
    ah_buffer_printf(&cli->out, "%sstates of step %" PRIu64 "%s", cli->out_style.bold, moves->step,
                     cli->out_style.reset);
    if (moves->predicted.lost_steps)
        ah_buffer_printf(&cli->out, "; %" PRIu64 " step%s to be done again", moves->predicted.lost_steps,
                         moves->predicted.lost_steps == 1 ? " is" : "s are");
    ah_buffer_puts(&cli->out, "\n");
    put_times(cli, moves);
    ah_buffer_printf(&line,
                     "the GPUs need %s: %s stay in place, %s come from their node's memory, %s from its "
                     "disk, %s from other nodes, %s from storage",
                     ah_units_print_bytes(a, bytes->needed), ah_units_print_bytes(b, bytes->kept),
                     ah_units_print_bytes(c, bytes->node), ah_units_print_bytes(d, bytes->disk),
                     ah_units_print_bytes(e, bytes->peer), ah_units_print_bytes(f, bytes->storage));
    ah_cli_put_wrapped(cli, &line, 0);
}

static void cell_from(struct ah_table *table, const struct ah_move *move)
{
    char gpu[32] = "";
    if (move->gpu != AH_INVENTORY_NO_GPU)
        snprintf(gpu, sizeof gpu, " %" PRIu64, move->gpu);
    ah_table_cell(table, "%s%s%s%s%s%s%s", move->node ? move->node : "", move->node ? ": " : "",
                  ah_words_medium[move->medium], gpu, move->via ? " via " : "", move->via ? move->via : "",
                  move->relayed ? " (relayed)" : "");
}

static void cell_kinds(struct ah_table *table, const struct ah_move *move)
{
    char text[64] = "";
    for (size_t i = 0; i < move->n_kinds; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s", i ? ", " : "",
                 ah_words_shard_kind[move->kinds[i]]);
    ah_table_cell(table, "%s", text);
}

static void put_moves(struct ah_cli *cli, const struct ah_moves *moves)
{
    struct ah_table table = {
        .arena = &cli->arena,
        .columns = {">rank", "into", "blocks", ">slices", "kinds", "tier", "from", ">bytes"}};
    char text[AH_UNITS_TEXT_MAX];
    for (size_t i = 0; i < moves->n_moves; i++) {
        const struct ah_move *move = &moves->moves[i];
        ah_table_cell(&table, "%" PRIu64, move->rank);
        ah_table_cell(&table, "%s", ah_words_destination[move->place]);
        if (move->tied)
            ah_table_cell(&table, "tied table");
        else
            ah_inspect_cell_blocks(&table, moves->blocks, move->first_block, move->blocks);
        ah_table_cell(&table, "%" PRIu64 "-%" PRIu64, move->first_slice,
                      move->first_slice + move->slices - 1);
        cell_kinds(&table, move);
        ah_table_cell(&table, "%s", ah_words_tier[move->tier]);
        cell_from(&table, move);
        ah_table_cell(&table, "%s", ah_units_print_bytes(text, move->bytes));
    }
    ah_inspect_table(cli, "moves", &table);
}

void ah_inspect_moves_text(struct ah_cli *cli, const struct ah_document *document)
{
    const struct ah_moves *moves = document->body.moves;
    ah_inspect_moves_summary(cli, moves);
    put_moves(cli, moves);
    ah_inspect_pairs(cli, "annotations", moves->annotations, moves->n_annotations);
}

void ah_inspect_moves_json(struct ah_emit *emit, const struct ah_document *document)
{
    const struct ah_moves *moves = document->body.moves;
    const struct ah_moves_bytes *bytes = &moves->bytes;
    ah_emit_text(emit, "model", moves->inputs.model.name);
    ah_emit_text(emit, "cluster", moves->inputs.cluster.name);
    ah_emit_integer(emit, "step", moves->step);
    ah_emit_integer(emit, "lost_steps", moves->predicted.lost_steps);
    ah_emit_number(emit, "time_us", moves->predicted.time_us);
    ah_emit_number(emit, "bound_us", moves->predicted.bound_us);
    ah_emit_number(emit, "baseline_us", moves->predicted.baseline_us);
    ah_emit_number(emit, "speed_up", moves->predicted.speed_up);
    ah_emit_text(emit, "limit", moves->predicted.limit);
    ah_emit_integer(emit, "needed_bytes", bytes->needed);
    ah_emit_integer(emit, "kept_bytes", bytes->kept);
    ah_emit_integer(emit, "node_bytes", bytes->node);
    ah_emit_integer(emit, "disk_bytes", bytes->disk);
    ah_emit_integer(emit, "peer_bytes", bytes->peer);
    ah_emit_integer(emit, "storage_bytes", bytes->storage);
    ah_emit_integer(emit, "moves", moves->n_moves);
}
