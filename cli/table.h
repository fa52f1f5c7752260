/* SPDX-License-Identifier: Apache-2.0
 *
 * Table: text in columns, as wide as their cells. Cells are cleaned of what could steer a terminal. Where the columns of
 * a terminal are given, headings that would stand beyond are broken between words, then text, then numbers and units.
 *
 *     struct ah_table table = {.arena = &cli->arena, .columns = {"group", ">blocks"}, .indent = 2};
 *     ah_table_cell(&table, "%s", group->name);
 *     ah_table_cell(&table, "%zu", group->n_blocks);
 *     ah_table_print(&table, &cli->out, cli->out_style, cli->table_columns);
 *
 * A heading that begins with '>' aligns its column to the right. A table whose headings are all "" or ">"
 * prints none. A table without rows prints nothing.
 */
#ifndef AH_CLI_TABLE_H
#define AH_CLI_TABLE_H

#include "base/arena.h"
#include "base/buffer.h"
#include "base/error.h"
#include "cli/terminal.h"

#include <stddef.h>

enum { AH_TABLE_COLUMNS_MAX = 10 };

struct ah_table {
    struct ah_arena *arena;                    /* borrowed: cells live there */
    const char *columns[AH_TABLE_COLUMNS_MAX]; /* up to the first NULL */
    unsigned indent;
    char **cells; /* row after row */
    size_t n_cells;
    size_t room;
    bool failed; /* out of memory; seen again in the buffer that it is printed to */
};

void ah_table_cell(struct ah_table *table, const char *format, ...) AH_PRINTF(2, 3);

/* `columns`: those of the terminal; 0: as many as the table takes. */
void ah_table_print(const struct ah_table *table, struct ah_buffer *out, struct ah_style style,
                    size_t columns);

#endif
