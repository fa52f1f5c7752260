/* SPDX-License-Identifier: Apache-2.0
 *
 * Shows the memory of a plan as bars, relative to its capacity. Classes are shown at the position of a step with the
 * most bytes in use; the rest of the arena is gaps between tensors.
 */
#include "cli/inspect/inspect_plan_internal.h"

#include "base/units.h"

#include <stdio.h>

enum { ROWS_MAX = 12, BAR_COLUMNS_LEAST = 10, BAR_COLUMNS_MOST = 40 };

struct memory_row {
    const char *what;
    uint64_t bytes;
    uint64_t capacity_bytes; /* of the device or the host; 0: no bar */
    bool total;
};

static const char *print_of(char out[2 * AH_UNITS_TEXT_MAX], const struct memory_row *row)
{
    char used[AH_UNITS_TEXT_MAX];
    char there[AH_UNITS_TEXT_MAX];
    ah_units_print_bytes(used, row->bytes);
    if (row->total && row->capacity_bytes)
        snprintf(out, (size_t)2 * AH_UNITS_TEXT_MAX, "%s of %s", used,
                 ah_units_print_bytes(there, row->capacity_bytes));
    else
        snprintf(out, (size_t)2 * AH_UNITS_TEXT_MAX, "%s", used);
    return out;
}

/* Copies the total and every row with bytes to `ret_rows`. Returns their number. */
static size_t keep_rows(const struct memory_row *all, size_t n_all, struct memory_row *ret_rows)
{
    size_t n = 0;
    for (size_t i = 0; i < n_all; i++)
        if (all[i].bytes || all[i].total)
            ret_rows[n++] = all[i];
    return n;
}

static size_t device_rows(const struct ah_plan_memory *memory, struct memory_row rows[ROWS_MAX])
{
    const struct ah_plan_by_class *by_class = &memory->by_class;
    uint64_t capacity = memory->device_capacity_bytes;
    uint64_t classes = by_class->weights + by_class->gradients + by_class->optimizer + by_class->activations +
                       by_class->staging + by_class->workspace;
    const struct memory_row all[] = {
        {"device", memory->device_bytes + memory->reserved_bytes, capacity, true},
        {"  weights", by_class->weights, capacity, false},
        {"  gradients", by_class->gradients, capacity, false},
        {"  optimizer states", by_class->optimizer, capacity, false},
        {"  activations", by_class->activations, capacity, false},
        {"  staging", by_class->staging, capacity, false},
        {"  workspace", by_class->workspace, capacity, false},
        {"  between tensors", memory->device_bytes > classes ? memory->device_bytes - classes : 0, capacity,
         false},
        {"  reserve", memory->reserved_bytes, capacity, false},
    };
    return keep_rows(all, sizeof all / sizeof all[0], rows);
}

static size_t host_rows(const struct ah_plan_memory *memory, struct memory_row rows[ROWS_MAX])
{
    uint64_t bytes = memory->host_bytes + memory->process_bytes;
    /* If a CPU device may use all other memory, the host has no limit, and no bar is drawn. */
    bool limited = memory->host_capacity_bytes > memory->process_bytes;
    uint64_t capacity = limited ? memory->host_capacity_bytes : 0;
    if (!bytes && !capacity) /* a program of a cluster plan without anything on the host */
        return 0;
    const struct memory_row all[] = {
        {"host", bytes, capacity, true},
        {"  pinned", memory->pinned_bytes, capacity, false},
        {"  pageable", memory->pageable_bytes, capacity, false},
        {"  process", memory->process_bytes, capacity, false},
    };
    return keep_rows(all, sizeof all / sizeof all[0], rows);
}

static void put_row(struct ah_table *table, const struct memory_row *row, size_t columns)
{
    char text[2 * AH_UNITS_TEXT_MAX];
    char bar[BAR_COLUMNS_MOST + 1];
    double share = row->capacity_bytes ? (double)row->bytes / (double)row->capacity_bytes : 0;
    ah_table_cell(table, "%s", row->what);
    ah_table_cell(table, "%s", print_of(text, row));
    ah_table_cell(table, "%.0f %%", 100 * share);
    ah_table_cell(table, "%s", ah_terminal_bar(bar, share, columns, row->total));
}

void ah_inspect_plan_memory(struct ah_cli *cli, const struct ah_plan *plan)
{
    enum { OTHER_COLUMNS = 56 };
    struct memory_row rows[ROWS_MAX + 4];
    size_t n = device_rows(&plan->memory, rows);
    n += host_rows(&plan->memory, rows + n);
    size_t columns =
        cli->columns > OTHER_COLUMNS + BAR_COLUMNS_LEAST ? cli->columns - OTHER_COLUMNS : BAR_COLUMNS_LEAST;
    columns = columns > BAR_COLUMNS_MOST ? BAR_COLUMNS_MOST : columns;
    struct ah_table table = {.arena = &cli->arena, .columns = {"", ">", ">", ""}};
    for (size_t i = 0; i < n; i++)
        put_row(&table, &rows[i], columns);
    ah_inspect_table(cli, "memory at its fullest", &table);
}
