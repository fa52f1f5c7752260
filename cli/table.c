/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/table.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { CELL_MAX_BYTES = 1024 };

static char **next_cell(struct ah_table *table)
{
    if (table->n_cells == table->room) {
        size_t room = table->room ? 2 * table->room : 64;
        char **grown = ah_arena_array(table->arena, room, sizeof *grown);
        if (!grown)
            return NULL;
        if (table->n_cells)
            memcpy(grown, table->cells, table->n_cells * sizeof *grown);
        table->cells = grown;
        table->room = room;
    }
    return &table->cells[table->n_cells];
}

void ah_table_cell(struct ah_table *table, const char *format, ...)
{
    char text[CELL_MAX_BYTES];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    ah_terminal_clean(text);
    char **cell = next_cell(table);
    char *copy = ah_arena_strdup(table->arena, text);
    if (!cell || !copy) {
        table->failed = true;
        return;
    }
    *cell = copy;
    table->n_cells++;
}

static bool right_aligned(const char *heading)
{
    return heading[0] == '>';
}

static const char *heading_text(const char *heading)
{
    return heading + right_aligned(heading);
}

/* The last cell of a row is not padded, so that no line ends with blanks. */
static void print_cell(struct ah_buffer *out, const char *text, size_t width, bool right, bool last)
{
    int blanks = (int)(width - ah_terminal_width(text));
    if (right)
        ah_buffer_printf(out, "%*s%s", blanks, "", text);
    else
        ah_buffer_printf(out, "%s%*s", text, last ? 0 : blanks, "");
    ah_buffer_puts(out, last ? "\n" : "  ");
}

static bool row_is_empty(const char *const *texts, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (*texts[i])
            return false;
    return true;
}

/* `n` cells from `texts`; trailing empty ones are not printed. */
static void print_row(const struct ah_table *table, const size_t *widths, const char *const *texts, size_t n,
                      struct ah_buffer *out)
{
    while (n > 1 && !*texts[n - 1])
        n--;
    ah_buffer_printf(out, "%*s", (int)table->indent, "");
    for (size_t c = 0; c < n; c++)
        print_cell(out, texts[c], widths[c], right_aligned(table->columns[c]), c + 1 == n);
}

void ah_table_print(const struct ah_table *table, struct ah_buffer *out, struct ah_style style)
{
    size_t n = 0;
    size_t widths[AH_TABLE_COLUMNS_MAX];
    const char *headings[AH_TABLE_COLUMNS_MAX];
    for (; n < AH_TABLE_COLUMNS_MAX && table->columns[n]; n++) {
        headings[n] = heading_text(table->columns[n]);
        widths[n] = ah_terminal_width(headings[n]);
    }
    for (size_t i = 0; i < table->n_cells; i++) {
        size_t width = ah_terminal_width(table->cells[i]);
        widths[i % n] = width > widths[i % n] ? width : widths[i % n];
    }
    out->failed = out->failed || table->failed;
    if (!table->n_cells)
        return;
    if (!row_is_empty(headings, n)) {
        ah_buffer_puts(out, style.dim);
        print_row(table, widths, headings, n, out);
        ah_buffer_puts(out, style.reset);
    }
    for (size_t i = 0; i + n <= table->n_cells; i += n)
        print_row(table, widths, (const char *const *)&table->cells[i], n, out);
}
