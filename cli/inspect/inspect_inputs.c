/* SPDX-License-Identifier: Apache-2.0
 *
 * Formats the rows of inputs, as a table and as JSON.
 */
#include "cli/inspect/inspect_inputs.h"

#include "cli/frame/table.h"

#include <inttypes.h>

/* True if an input has held-out documents. */
static bool holds_out(const struct ah_mix *mix)
{
    bool found = false;
    for (size_t i = 0; i < mix->n; i++)
        found = found || mix->inputs[i].held_out.documents;
    return found;
}

void ah_inspect_inputs(struct ah_cli *cli, const struct ah_mix *mix)
{
    const bool held_out = holds_out(mix);
    struct ah_table table = {
        .arena = &cli->arena,
        .columns = {"input", ">weight", ">read", ">documents", ">tokens", ">share",
                    held_out ? ">held out" : NULL},
    };
    for (size_t i = 0; i < mix->n; i++) {
        const struct ah_mix_input *input = &mix->inputs[i];
        ah_table_cell(&table, "%s", input->path);
        ah_table_cell(&table, "%.6g", input->weight);
        ah_table_cell(&table, "%" PRIu64, input->read);
        ah_table_cell(&table, "%" PRIu64, input->train.documents);
        ah_table_cell(&table, "%" PRIu64, input->train.tokens);
        ah_table_cell(&table, "%.1f %%", 100 * ah_mix_share(mix, i));
        if (held_out)
            ah_table_cell(&table, "%" PRIu64, input->held_out.documents);
    }
    ah_table_print(&table, &cli->out, cli->out_style, cli->table_columns);
}

void ah_inspect_inputs_json(struct ah_emit *emit, const struct ah_mix *mix)
{
    ah_emit_integer(emit, "seed", mix->seed);
    ah_emit_open(emit, "inputs", '[');
    for (size_t i = 0; i < mix->n; i++) {
        const struct ah_mix_input *input = &mix->inputs[i];
        ah_emit_open(emit, NULL, '{');
        ah_emit_text(emit, "path", input->path);
        ah_emit_number(emit, "weight", input->weight);
        ah_emit_integer(emit, "read", input->read);
        ah_emit_integer(emit, "documents", input->train.documents);
        ah_emit_integer(emit, "tokens", input->train.tokens);
        ah_emit_number(emit, "share", ah_mix_share(mix, i));
        ah_emit_integer(emit, "held_out_documents", input->held_out.documents);
        ah_emit_integer(emit, "held_out_tokens", input->held_out.tokens);
        ah_emit_close(emit);
    }
    ah_emit_close(emit);
}
