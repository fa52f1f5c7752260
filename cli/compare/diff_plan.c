/* SPDX-License-Identifier: Apache-2.0
 *
 * Compares blocks by index, as far as both plans have blocks. Neighbours with the same change are one line.
 */
#include "cli/compare/diff_plan.h"

#include "cli/compare/diff_numbers.h"
#include "cli/frame/table.h"
#include "cli/inspect/plan_summary.h"

#include <string.h>

/* ---- numbers ---- */

enum { NUMBERS = 7 };

static void collect_numbers(const struct ah_plan *a, const struct ah_plan *b,
                            struct ah_diff_number numbers[NUMBERS])
{
    const struct ah_diff_number all[NUMBERS] = {
        {"step", "step_us", AH_DIFF_TIME, a->time.step_us, b->time.step_us, 0, 0},
        {"tokens/s", "tokens_per_s", AH_DIFF_RATE, a->tokens_per_s, b->tokens_per_s, 0, 0},
        {"bound", "bound_us", AH_DIFF_TIME, a->solver.bound_us, b->solver.bound_us, 0, 0},
        {"device memory, reserve included", "device_bytes", AH_DIFF_BYTES, (double)a->memory.device_bytes,
         (double)b->memory.device_bytes, (double)a->memory.reserved_bytes, (double)b->memory.reserved_bytes},
        {"host memory", "host_bytes", AH_DIFF_BYTES, (double)a->memory.host_bytes,
         (double)b->memory.host_bytes, (double)a->memory.process_bytes, (double)b->memory.process_bytes},
        {"pinned memory", "pinned_bytes", AH_DIFF_BYTES, (double)a->memory.pinned_bytes,
         (double)b->memory.pinned_bytes, 0, 0},
        {"micro-batches", "micro_batches", AH_DIFF_COUNT, (double)a->training.micro_batches,
         (double)b->training.micro_batches, 0, 0},
    };
    memcpy(numbers, all, sizeof all);
}

/* ---- blocks ---- */

static size_t common_blocks(const struct ah_plan *a, const struct ah_plan *b)
{
    return a->n_blocks < b->n_blocks ? a->n_blocks : b->n_blocks;
}

/* Finds the next run of blocks, from *first on, with the same change; false: there is none. */
static bool next_change(const struct ah_plan *a, const struct ah_plan *b, size_t *first, size_t *ret_end)
{
    size_t n = common_blocks(a, b);
    while (*first < n && ah_plan_same_config(&a->blocks[*first], &b->blocks[*first]))
        ++*first;
    if (*first == n)
        return false;
    size_t end_a = ah_plan_range_end(a, *first);
    size_t end_b = ah_plan_range_end(b, *first);
    *ret_end = end_a < end_b ? end_a : end_b;
    return true;
}

static size_t count_changed(const struct ah_plan *a, const struct ah_plan *b)
{
    size_t changed = 0;
    for (size_t i = 0; i < common_blocks(a, b); i++)
        changed += !ah_plan_same_config(&a->blocks[i], &b->blocks[i]);
    return changed;
}

/* Prints the changed fields of a config with their new values: "recompute, weights host". */
static void put_config(struct ah_buffer *out, const struct ah_plan_block *to,
                       const struct ah_plan_block *from)
{
    const char *comma = "";
    if (to->activations != from->activations) {
        ah_buffer_puts(out, ah_words_activations[to->activations]);
        comma = ", ";
    }
    if (to->weights != from->weights) {
        ah_buffer_printf(out, "%sweights %s", comma, ah_words_weights[to->weights]);
        comma = ", ";
    }
    if (to->optimizer != from->optimizer) {
        ah_buffer_printf(out, "%soptimizer %s", comma, ah_words_optimizer[to->optimizer]);
        comma = ", ";
    }
    if (to->accumulator != from->accumulator)
        ah_buffer_printf(out, "%ssums %s", comma, ah_words_accumulator[to->accumulator]);
}

static void change_cell(struct ah_table *table, const struct ah_plan_block *to,
                        const struct ah_plan_block *from)
{
    struct ah_buffer text = {0};
    put_config(&text, to, from);
    ah_table_cell(table, "%s", text.failed ? "" : text.data);
    table->failed = table->failed || text.failed;
    ah_buffer_release(&text);
}

static void put_blocks(struct ah_cli *cli, const struct ah_plan *a, const struct ah_plan *b)
{
    size_t changed = count_changed(a, b);
    ah_buffer_printf(&cli->out, "blocks: %zu of %zu changed\n", changed, common_blocks(a, b));
    if (a->n_blocks != b->n_blocks)
        ah_buffer_printf(&cli->out, "  the plans have %zu and %zu blocks\n", a->n_blocks, b->n_blocks);
    struct ah_table table = {.arena = &cli->arena, .columns = {"", "", "", ""}, .indent = 2};
    for (size_t first = 0, end; next_change(a, b, &first, &end); first = end) {
        struct ah_buffer range = {0};
        ah_plan_put_range(&range, a, first, end);
        ah_table_cell(&table, "%s", range.failed ? "" : range.data);
        table.failed = table.failed || range.failed;
        ah_buffer_release(&range);
        change_cell(&table, &a->blocks[first], &b->blocks[first]);
        ah_table_cell(&table, "->");
        change_cell(&table, &b->blocks[first], &a->blocks[first]);
    }
    ah_table_print(&table, &cli->out, cli->out_style, cli->table_columns);
}

/* ---- orders ---- */

struct order {
    const uint64_t *ops;
    size_t n;
};

static struct order lane_order(const struct ah_plan *plan, enum ah_plan_lane lane)
{
    return (struct order){plan->lanes.order[lane], plan->lanes.n_order[lane]};
}

/* True if the lane does the same work in the same order. Compares ops by content, because their indices may differ. */
static bool same_order(const struct ah_plan *a, const struct ah_plan *b, enum ah_plan_lane lane)
{
    struct order left = lane_order(a, lane);
    struct order right = lane_order(b, lane);
    bool same = left.n == right.n;
    for (size_t i = 0; same && i < left.n; i++) {
        const struct ah_plan_op *x = &a->ops[left.ops[i]];
        const struct ah_plan_op *y = &b->ops[right.ops[i]];
        same = x->op == y->op && x->block == y->block && x->micro_batch == y->micro_batch;
    }
    return same;
}

/* Returns the number of lanes that either plan has. */
static unsigned lanes_of(const struct ah_plan *a, const struct ah_plan *b)
{
    return ah_plan_lane_count(a) > ah_plan_lane_count(b) ? ah_plan_lane_count(a) : ah_plan_lane_count(b);
}

static void put_orders(struct ah_cli *cli, const struct ah_plan *a, const struct ah_plan *b)
{
    ah_buffer_puts(&cli->out, "orders:");
    for (unsigned lane = 0; lane < lanes_of(a, b); lane++)
        ah_buffer_printf(&cli->out, "%s %s %s", lane ? "," : "", ah_words_plan_lane[lane],
                         same_order(a, b, (enum ah_plan_lane)lane) ? "same" : "changed");
    ah_buffer_puts(&cli->out, "\n");
}

/* ---- the whole diff ---- */

void ah_diff_plan_text(struct ah_cli *cli, const struct ah_plan *a, const struct ah_plan *b)
{
    struct ah_diff_number numbers[NUMBERS];
    collect_numbers(a, b, numbers);
    ah_diff_numbers_put(cli, numbers, NUMBERS);
    char field[AH_SIGNATURE_PATH_MAX];
    if (ah_signature_differs(&a->numeric_signature, &b->numeric_signature, field))
        ah_buffer_printf(&cli->out,
                         "%snot the same training: the numeric signatures differ, first in '%s'%s\n",
                         cli->out_style.yellow, field, cli->out_style.reset);
    put_blocks(cli, a, b);
    put_orders(cli, a, b);
    ah_buffer_puts(&cli->out, "\n");
}

static void emit_config(struct ah_emit *emit, const char *key, const struct ah_plan_block *to,
                        const struct ah_plan_block *from)
{
    struct ah_buffer text = {0};
    put_config(&text, to, from);
    ah_emit_buffer(emit, key, &text);
}

static void emit_changes(struct ah_emit *emit, const struct ah_plan *a, const struct ah_plan *b)
{
    ah_emit_open(emit, "blocks", '[');
    for (size_t first = 0, end; next_change(a, b, &first, &end); first = end) {
        ah_emit_open(emit, NULL, '{');
        ah_emit_integer(emit, "first", first);
        ah_emit_integer(emit, "last", end - 1);
        emit_config(emit, "a", &a->blocks[first], &b->blocks[first]);
        emit_config(emit, "b", &b->blocks[first], &a->blocks[first]);
        ah_emit_close(emit);
    }
    ah_emit_close(emit);
}

void ah_diff_plan_json(struct ah_emit *emit, const struct ah_plan *a, const struct ah_plan *b)
{
    struct ah_diff_number numbers[NUMBERS];
    char field[AH_SIGNATURE_PATH_MAX];
    collect_numbers(a, b, numbers);
    ah_diff_numbers_emit(emit, numbers, NUMBERS);
    ah_emit_bool(emit, "same_signature",
                 !ah_signature_differs(&a->numeric_signature, &b->numeric_signature, field));
    ah_emit_integer(emit, "blocks_changed", count_changed(a, b));
    emit_changes(emit, a, b);
    ah_emit_open(emit, "same_order", '{');
    for (unsigned lane = 0; lane < lanes_of(a, b); lane++)
        ah_emit_bool(emit, ah_words_plan_lane[lane], same_order(a, b, (enum ah_plan_lane)lane));
    ah_emit_close(emit);
}

const char *ah_diff_plan_bulk(const char *path)
{
    static const struct {
        const char *prefix;
        const char *list;
    } bulk[] = {{"ops[", "ops"}, {"lanes.", "lanes"}, {"arena.tensors[", "arena.tensors"}};
    for (size_t i = 0; i < sizeof bulk / sizeof bulk[0]; i++)
        if (!strncmp(path, bulk[i].prefix, strlen(bulk[i].prefix)))
            return bulk[i].list;
    return NULL;
}
