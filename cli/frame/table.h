/* SPDX-License-Identifier: Apache-2.0
 *
 * Table: text in columns, each as wide as its widest cell. Cells are cleaned of terminal control characters. If the
 * table is wider than the terminal, headings are broken between words first, then text, then numbers and units.
 *
 *     struct ah_table table = {.arena = &cli->arena, .columns = {"group", ">blocks"}, .indent = 2};
 *     ah_table_cell(&table, "%s", group->name);
 *     ah_table_cell(&table, "%zu", group->n_blocks);
 *     ah_table_print(&table, &cli->out, cli->out_style, cli->table_columns);
 *
 * A heading that begins with '>' aligns its column to the right. Headings are not printed if all are "" or ">". A table
 * without rows prints nothing.
 */
#ifndef AH_CLI_FRAME_TABLE_H
#define AH_CLI_FRAME_TABLE_H

#include "base/arena.h"
#include "base/buffer.h"
#include "base/error.h"
#include "cli/frame/terminal.h"

#include <stddef.h>

enum { AH_TABLE_COLUMNS_MAX = 10 };

struct ah_table {
    struct ah_arena *arena;                    /* borrowed; stores the cells */
    const char *columns[AH_TABLE_COLUMNS_MAX]; /* headings, up to the first NULL */
    unsigned indent;
    char **cells; /* all cells, row by row */
    size_t n_cells;
    size_t room;
    bool failed; /* out of memory; printing marks `out` as failed */
};

void ah_table_cell(struct ah_table *table, const char *format, ...) AH_PRINTF(2, 3);

/* Prints the table. `columns`: width of the terminal; 0: no limit. */
void ah_table_print(const struct ah_table *table, struct ah_buffer *out, struct ah_style style,
                    size_t columns);

#endif
