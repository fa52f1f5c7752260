/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/frame/table.h"

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

static bool row_is_empty(const char *const *texts, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (*texts[i])
            return false;
    return true;
}

/* ---- widths ---- */

struct widths {
    size_t of[AH_TABLE_COLUMNS_MAX];
    size_t cells[AH_TABLE_COLUMNS_MAX]; /* width of the widest cell, without the heading */
    size_t least[AH_TABLE_COLUMNS_MAX]; /* least width with no word cut, and numbers beside their units */
    size_t words[AH_TABLE_COLUMNS_MAX]; /* least width with no word cut */
    size_t n;
};

static size_t longest_word(const char *text)
{
    size_t longest = 0, column = 0;
    for (; *text; text++) {
        column = *text == ' ' ? 0 : column + (((unsigned char)*text & 0xc0) != 0x80);
        longest = column > longest ? column : longest;
    }
    return longest;
}

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

static struct widths natural_widths(const struct ah_table *table)
{
    struct widths widths = {.n = 0};
    for (size_t c = 0; c < AH_TABLE_COLUMNS_MAX && table->columns[c]; c++, widths.n++)
        widths.least[c] = widths.words[c] = longest_word(heading_text(table->columns[c]));
    for (size_t i = 0; i < table->n_cells; i++) {
        size_t c = i % widths.n, width = ah_terminal_width(table->cells[i]);
        size_t word = longest_word(table->cells[i]);
        widths.cells[c] = larger(widths.cells[c], width);
        widths.words[c] = larger(widths.words[c], word);
        widths.least[c] = larger(widths.least[c], right_aligned(table->columns[c]) ? width : word);
    }
    for (size_t c = 0; c < widths.n; c++)
        widths.of[c] = larger(widths.cells[c], ah_terminal_width(heading_text(table->columns[c])));
    return widths;
}

/* Narrows the widest column above its `floor` by one; false: no column is above it. */
static bool narrow(struct widths *widths, const size_t *floor)
{
    size_t widest = widths->n;
    for (size_t c = 0; c < widths->n; c++)
        if (widths->of[c] > floor[c] && (widest == widths->n || widths->of[c] > widths->of[widest]))
            widest = c;
    if (widest == widths->n)
        return false;
    widths->of[widest]--;
    return true;
}

/* Narrows columns until the table fits. First breaks headings, then text, then numbers from units; cuts words last. */
static void fit_to_columns(struct widths *widths, size_t indent, size_t columns)
{
    enum { WORD_LEAST = 16, STAGES = 4 };
    size_t floors[STAGES][AH_TABLE_COLUMNS_MAX], total = indent + 2 * (widths->n - 1);
    for (size_t c = 0; c < widths->n; c++) {
        floors[0][c] = larger(widths->cells[c], widths->least[c]);
        floors[1][c] = widths->least[c];
        floors[2][c] = widths->words[c];
        floors[3][c] = widths->words[c] < WORD_LEAST ? widths->words[c] : WORD_LEAST;
        total += widths->of[c];
    }
    for (size_t stage = 0; stage < STAGES; stage++)
        for (; total > columns && narrow(widths, floors[stage]); total--)
            ;
}

/* ---- rows ---- */

/* Returns the bytes of `text` that fit on a line: whole words, or part of a word longer than `width` columns. */
static size_t line_bytes(const char *text, size_t width)
{
    size_t words = 0, i = 0;
    if (ah_terminal_width(text) <= width)
        return strlen(text);
    for (size_t column = 0; text[i]; i++) {
        if (text[i] == ' ')
            words = i;
        column += ((unsigned char)text[i] & 0xc0) != 0x80;
        if (column > width)
            break;
    }
    return words ? words : i;
}

static size_t columns_of(const char *text, size_t bytes)
{
    size_t columns = 0;
    for (size_t i = 0; i < bytes; i++)
        columns += ((unsigned char)text[i] & 0xc0) != 0x80;
    return columns;
}

/* Prints a cell, padded to the column's width. The last cell is not padded, so that no line ends with blanks. */
static void print_cell(struct ah_buffer *out, const char *text, size_t bytes, size_t width, bool right,
                       bool last)
{
    size_t used = columns_of(text, bytes);
    int blanks = used < width ? (int)(width - used) : 0;
    if (right)
        ah_buffer_printf(out, "%*s%.*s", blanks, "", (int)bytes, text);
    else
        ah_buffer_printf(out, "%.*s%*s", (int)bytes, text, last ? 0 : blanks, "");
    ah_buffer_puts(out, last ? "\n" : "  ");
}

/* Prints one line of a row, without trailing empty cells. Advances `texts` past the printed parts. */
static void print_line(const struct ah_table *table, const struct widths *widths, const char **texts,
                       struct ah_buffer *out)
{
    size_t n = widths->n;
    while (n > 1 && !*texts[n - 1])
        n--;
    ah_buffer_printf(out, "%*s", (int)table->indent, "");
    for (size_t c = 0; c < n; c++) {
        size_t bytes = line_bytes(texts[c], widths->of[c]);
        print_cell(out, texts[c], bytes, widths->of[c], right_aligned(table->columns[c]), c + 1 == n);
        texts[c] += bytes + (texts[c][bytes] == ' ');
    }
}

static void print_row(const struct ah_table *table, const struct widths *widths, const char *const *cells,
                      struct ah_buffer *out)
{
    const char *texts[AH_TABLE_COLUMNS_MAX];
    memcpy(texts, cells, widths->n * sizeof *texts);
    do
        print_line(table, widths, texts, out);
    while (!row_is_empty(texts, widths->n));
}

/* Narrows each column to the longest line of its broken text. */
static void tighten(const struct ah_table *table, struct widths *widths)
{
    size_t used[AH_TABLE_COLUMNS_MAX] = {0};
    for (size_t i = 0; i < widths->n + table->n_cells; i++) {
        size_t c = i % widths->n;
        const char *text = i < widths->n ? heading_text(table->columns[c]) : table->cells[i - widths->n];
        for (size_t bytes; *text; text += bytes + (text[bytes] == ' ')) {
            bytes = line_bytes(text, widths->of[c]);
            used[c] = larger(used[c], columns_of(text, bytes));
        }
    }
    memcpy(widths->of, used, sizeof used);
}

void ah_table_print(const struct ah_table *table, struct ah_buffer *out, struct ah_style style,
                    size_t columns)
{
    const char *headings[AH_TABLE_COLUMNS_MAX];
    struct widths widths = natural_widths(table);
    out->failed = out->failed || table->failed;
    if (!table->n_cells)
        return;
    for (size_t c = 0; c < widths.n; c++)
        headings[c] = heading_text(table->columns[c]);
    if (columns) {
        fit_to_columns(&widths, table->indent, columns);
        tighten(table, &widths);
    }
    if (!row_is_empty(headings, widths.n)) {
        ah_buffer_puts(out, style.dim);
        print_row(table, &widths, headings, out);
        ah_buffer_puts(out, style.reset);
    }
    for (size_t i = 0; i + widths.n <= table->n_cells; i += widths.n)
        print_row(table, &widths, (const char *const *)&table->cells[i], out);
}
