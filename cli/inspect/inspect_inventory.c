/* SPDX-License-Identifier: Apache-2.0
 *
 * Shows an inventory: which states are where.
 */
#include "cli/inspect/inspect.h"

#include "schemas/inventory.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Adds the cell "4-7" or "4". */
static void cell_range(struct ah_table *table, uint64_t first, uint64_t end)
{
    if (end == first + 1)
        ah_table_cell(table, "%" PRIu64, first);
    else
        ah_table_cell(table, "%" PRIu64 "-%" PRIu64, first, end - 1);
}

static void cell_kinds(struct ah_table *table, const unsigned *kinds, size_t n)
{
    char text[64] = "";
    for (size_t i = 0; i < n; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s", i ? ", " : "",
                 ah_words_shard_kind[kinds[i]]);
    ah_table_cell(table, "%s", n ? text : "all");
}

void ah_inspect_inventory_text(struct ah_cli *cli, const struct ah_document *document)
{
    const struct ah_inventory *inventory = document->body.inventory;
    struct ah_table facts = ah_inspect_facts(cli);
    struct ah_table table = {.arena = &cli->arena,
                             .columns = {"medium", "node", ">GPU", ">step", "blocks", ">slices", "kinds"}};
    ah_table_cell(&facts, "states of");
    ah_table_cell(&facts, "%s, %" PRIu64 " blocks in %" PRIu64 " slices", inventory->model.name,
                  inventory->blocks, inventory->slices);
    ah_table_cell(&facts, "last step");
    ah_table_cell(&facts, "%" PRIu64, inventory->step);
    ah_table_cell(&facts, "nodes");
    ah_table_cell(&facts, "%zu", inventory->n_nodes);
    ah_table_print(&facts, &cli->out, cli->out_style, cli->table_columns);
    for (size_t i = 0; i < inventory->n_holdings; i++) {
        const struct ah_inventory_holding *holding = &inventory->holdings[i];
        ah_table_cell(&table, "%s", ah_words_medium[holding->medium]);
        ah_table_cell(&table, "%s", holding->node ? holding->node : "");
        if (holding->gpu == AH_INVENTORY_NO_GPU)
            ah_table_cell(&table, "%s", "");
        else
            ah_table_cell(&table, "%" PRIu64, holding->gpu);
        ah_table_cell(&table, "%" PRIu64, holding->step);
        ah_inspect_cell_blocks(&table, inventory->blocks, holding->first_block, holding->blocks);
        cell_range(&table, holding->first_slice, ah_inventory_slices_end(inventory, holding));
        cell_kinds(&table, holding->kinds, holding->n_kinds);
    }
    ah_inspect_table(cli, "holdings", &table);
    ah_inspect_pairs(cli, "annotations", inventory->annotations, inventory->n_annotations);
}

void ah_inspect_inventory_json(struct ah_emit *emit, const struct ah_document *document)
{
    const struct ah_inventory *inventory = document->body.inventory;
    ah_emit_text(emit, "model", inventory->model.name);
    ah_emit_integer(emit, "blocks", inventory->blocks);
    ah_emit_integer(emit, "slices", inventory->slices);
    ah_emit_integer(emit, "step", inventory->step);
    ah_emit_integer(emit, "nodes", inventory->n_nodes);
    ah_emit_integer(emit, "holdings", inventory->n_holdings);
}
