/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/compare/diff_numbers.h"

#include "base/units.h"
#include "cli/frame/table.h"

#include <stdio.h>

bool ah_diff_differs(double a, double b)
{
    return a < b || a > b;
}

static const char *print_quantity(char out[AH_UNITS_TEXT_MAX], enum ah_diff_quantity quantity, double value)
{
    switch (quantity) {
    case AH_DIFF_TIME:
        return ah_units_print_time(out, value);
    case AH_DIFF_BYTES:
        return ah_units_print_bytes(out, (uint64_t)value);
    case AH_DIFF_SHARE:
        snprintf(out, AH_UNITS_TEXT_MAX, "%.1f %%", 100 * value);
        return out;
    case AH_DIFF_RATE:
    case AH_DIFF_COUNT:
        break;
    }
    snprintf(out, AH_UNITS_TEXT_MAX, "%.0f", value);
    return out;
}

static void put_number(struct ah_table *table, const struct ah_diff_number *number)
{
    char text[AH_UNITS_TEXT_MAX];
    double a = number->a + number->more_a, b = number->b + number->more_b;
    ah_table_cell(table, "%s", number->name);
    ah_table_cell(table, "%s", print_quantity(text, number->quantity, a));
    ah_table_cell(table, "->");
    ah_table_cell(table, "%s", print_quantity(text, number->quantity, b));
    if (!ah_diff_differs(a, b))
        ah_table_cell(table, "same");
    else if (a > 0 && b < 2 * a)
        ah_table_cell(table, "%+.2f %%", 100 * (b / a - 1));
    else if (a > 0)
        ah_table_cell(table, "%.1f x", b / a);
    else
        ah_table_cell(table, "%s", "");
}

void ah_diff_numbers_put(struct ah_cli *cli, const struct ah_diff_number *numbers, size_t n)
{
    struct ah_table table = {.arena = &cli->arena, .columns = {"", ">", "", ">", ">"}};
    for (size_t i = 0; i < n; i++)
        if (!i || ah_diff_differs(numbers[i].a + numbers[i].more_a, numbers[i].b + numbers[i].more_b))
            put_number(&table, &numbers[i]);
    ah_table_print(&table, &cli->out, cli->out_style, cli->table_columns);
}

void ah_diff_numbers_emit(struct ah_emit *emit, const struct ah_diff_number *numbers, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        ah_emit_open(emit, numbers[i].key, '{');
        ah_emit_number(emit, "a", numbers[i].a);
        ah_emit_number(emit, "b", numbers[i].b);
        ah_emit_close(emit);
    }
}
