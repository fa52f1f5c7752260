/* SPDX-License-Identifier: Apache-2.0
 *
 * Shows the blocks of a plan: equal neighbours as one row, and a strip with one letter per block, cut to the terminal's
 * width, with its legend. A dot marks the choice that costs no time or traffic: kept, or on the device.
 */
#include "cli/inspect/inspect_plan_internal.h"

#include "cli/inspect/plan_summary.h"

static bool sums_gradients(const struct ah_plan *plan)
{
    for (size_t i = 0; i < plan->n_blocks; i++)
        if (plan->blocks[i].accumulator != AH_ACCUMULATOR_NONE)
            return true;
    return false;
}

static void put_ranges(struct ah_cli *cli, const struct ah_plan *plan)
{
    bool sums = sums_gradients(plan);
    struct ah_table table = {
        .arena = &cli->arena,
        .columns = {"blocks", ">", "activations", "weights", "optimizer", sums ? "gradient sums" : NULL}};
    for (size_t first = 0, end; first < plan->n_blocks; first = end) {
        const struct ah_plan_block *block = &plan->blocks[first];
        struct ah_buffer range = {0};
        end = ah_plan_range_end(plan, first);
        ah_plan_put_range(&range, plan, first, end);
        ah_table_cell(&table, "%s", range.failed ? "" : range.data);
        cli->out.failed = cli->out.failed || range.failed;
        ah_buffer_release(&range);
        ah_table_cell(&table, "%zu", end - first);
        ah_table_cell(&table, "%s", ah_words_activations[block->activations]);
        ah_table_cell(&table, "%s", ah_words_weights[block->weights]);
        ah_table_cell(&table, "%s", ah_words_optimizer[block->optimizer]);
        if (sums)
            ah_table_cell(&table, "%s", ah_words_accumulator[block->accumulator]);
    }
    ah_inspect_table(cli, "what each block does", &table);
}

static unsigned activations_of(const struct ah_plan_block *block)
{
    return block->activations;
}

static unsigned weights_of(const struct ah_plan_block *block)
{
    return block->weights;
}

static unsigned optimizer_of(const struct ah_plan_block *block)
{
    return block->optimizer;
}

enum { VALUES_MAX = 4 };

/* For each field, its values' letters with their meanings. */
static const struct strip {
    const char *name;
    unsigned (*value)(const struct ah_plan_block *block);
    const char letters[VALUES_MAX + 1];
    const char *meanings[VALUES_MAX];
} strips[] = {
    {"activations",
     activations_of,
     ".sr",
     {"kept", "selective: recompute cheap operations only", "recompute: all operations again"}},
    {"weights", weights_of, ".h", {"on the device", "on the host, fetched for each use"}},
    {"optimizer",
     optimizer_of,
     ".hs-",
     {"on the device", "on the host, which updates",
      "streamed: on the host, visits the device for the update", "none: frozen"}},
};

enum { STRIPS = sizeof strips / sizeof strips[0], STRIP_INDENT = 15 };

static void put_letters(struct ah_cli *cli, const struct ah_plan *plan, const struct strip *strip,
                        size_t first, size_t end)
{
    for (size_t i = first; i < end; i++) {
        char letter = strip->letters[strip->value(&plan->blocks[i])];
        bool moved = letter != '.';
        ah_buffer_printf(&cli->out, "%s%c%s", moved ? cli->out_style.yellow : "", letter,
                         moved ? cli->out_style.reset : "");
    }
}

static bool has_value(const struct ah_plan *plan, const struct strip *strip, unsigned value)
{
    for (size_t i = 0; i < plan->n_blocks; i++)
        if (strip->value(&plan->blocks[i]) == value)
            return true;
    return false;
}

/* Explains the letters in use: "weights: . on the device; h on the host, fetched for each use". */
static void put_legend(struct ah_cli *cli, const struct ah_plan *plan)
{
    ah_buffer_printf(&cli->out, "  %s", cli->out_style.dim);
    ah_terminal_wrap(&cli->out, "one letter a block, from the embedding to the head", 2, cli->columns);
    for (size_t i = 0; i < STRIPS; i++) {
        struct ah_buffer line = {0};
        const char *before = ": ";
        ah_buffer_puts(&line, strips[i].name);
        for (unsigned value = 0; strips[i].letters[value]; value++) {
            if (!has_value(plan, &strips[i], value))
                continue;
            ah_buffer_printf(&line, "%s%c %s", before, strips[i].letters[value], strips[i].meanings[value]);
            before = "; ";
        }
        ah_cli_put_wrapped(cli, &line, 2);
    }
    ah_buffer_puts(&cli->out, cli->out_style.reset);
}

static void put_strips(struct ah_cli *cli, const struct ah_plan *plan)
{
    size_t width = cli->columns - STRIP_INDENT;
    for (size_t first = 0; first < plan->n_blocks; first += width) {
        size_t end = first + width < plan->n_blocks ? first + width : plan->n_blocks;
        ah_buffer_puts(&cli->out, "\n");
        for (size_t i = 0; i < STRIPS; i++) {
            ah_buffer_printf(&cli->out, "  %-*s", STRIP_INDENT - 2, strips[i].name);
            put_letters(cli, plan, &strips[i], first, end);
            ah_buffer_puts(&cli->out, "\n");
        }
    }
    put_legend(cli, plan);
}

void ah_inspect_plan_blocks(struct ah_cli *cli, const struct ah_plan *plan)
{
    put_ranges(cli, plan);
    put_strips(cli, plan);
}
