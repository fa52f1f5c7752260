/* SPDX-License-Identifier: Apache-2.0
 *
 * Shows a checkpoint: its progress, its files and its signature.
 */
#include "cli/inspect/inspect.h"

#include "base/units.h"
#include "schemas/checkpoint.h"

#include <inttypes.h>

static uint64_t file_bytes(const struct ah_checkpoint *checkpoint)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < checkpoint->n_files; i++)
        bytes += checkpoint->files[i].bytes;
    return bytes;
}

static void put_facts(struct ah_cli *cli, const struct ah_checkpoint *checkpoint)
{
    char text[AH_UNITS_TEXT_MAX];
    struct ah_table facts = ah_inspect_facts(cli);
    ah_table_cell(&facts, "checkpoint");
    ah_table_cell(&facts, "after step %" PRIu64, checkpoint->step);
    ah_table_cell(&facts, "data");
    ah_table_cell(&facts, "%" PRIu64 " sequence%s and %" PRIu64 " token%s consumed", checkpoint->cursor,
                  checkpoint->cursor == 1 ? "" : "s", checkpoint->tokens, checkpoint->tokens == 1 ? "" : "s");
    ah_table_cell(&facts, "weights");
    ah_table_cell(&facts, "%zu tensor%s", checkpoint->n_tensors, checkpoint->n_tensors == 1 ? "" : "s");
    ah_table_cell(&facts, "states");
    ah_table_cell(&facts, "of %zu block%s", checkpoint->n_states, checkpoint->n_states == 1 ? "" : "s");
    ah_table_cell(&facts, "size");
    ah_table_cell(&facts, "%s in %zu file%s", ah_units_print_bytes(text, file_bytes(checkpoint)),
                  checkpoint->n_files, checkpoint->n_files == 1 ? "" : "s");
    ah_table_cell(&facts, "written by");
    ah_table_cell(&facts, "%s", checkpoint->generator);
    ah_table_print(&facts, &cli->out, cli->out_style, cli->table_columns);
}

static void put_files(struct ah_cli *cli, const struct ah_checkpoint *checkpoint)
{
    struct ah_table table = {.arena = &cli->arena, .columns = {"file", ">size", "sha256"}};
    char text[AH_UNITS_TEXT_MAX];
    for (size_t i = 0; i < checkpoint->n_files; i++) {
        ah_table_cell(&table, "%s", checkpoint->files[i].name);
        ah_table_cell(&table, "%s", ah_units_print_bytes(text, checkpoint->files[i].bytes));
        ah_table_cell(&table, "%s", checkpoint->files[i].sha256);
    }
    ah_inspect_table(cli, "files", &table);
}

void ah_inspect_checkpoint_text(struct ah_cli *cli, const struct ah_document *document)
{
    const struct ah_checkpoint *checkpoint = document->body.checkpoint;
    put_facts(cli, checkpoint);
    put_files(cli, checkpoint);
    ah_inspect_signature_text(cli, &checkpoint->numeric_signature);
}

void ah_inspect_checkpoint_json(struct ah_emit *emit, const struct ah_document *document)
{
    const struct ah_checkpoint *checkpoint = document->body.checkpoint;
    ah_emit_integer(emit, "step", checkpoint->step);
    ah_emit_integer(emit, "cursor", checkpoint->cursor);
    ah_emit_integer(emit, "tokens", checkpoint->tokens);
    ah_emit_integer(emit, "files", checkpoint->n_files);
    ah_emit_integer(emit, "bytes", file_bytes(checkpoint));
    ah_emit_integer(emit, "tensors", checkpoint->n_tensors);
    ah_emit_integer(emit, "blocks_with_states", checkpoint->n_states);
    ah_inspect_signature_json(emit, &checkpoint->numeric_signature);
}
