/* SPDX-License-Identifier: Apache-2.0
 *
 * Format: "Trace Event Format" (Chromium). Times are in us with three decimals, that is in ns.
 *
 * 1. Events are collected as marks, sorted by time, and printed one a line. At one time what ends (nothing is printed
 *    for that) comes first, then the slice, then the arrows that bind to it.
 * 2. An arrow leaves its slice one ns before the end, because one at the end would belong to the next slice.
 * 3. Instances that are absent at both ends of a replay (dispatch.c, 4) took no time; they are left out.
 */
#include "cli/trace.h"

#include "base/file.h"
#include "cli/emit.h"
#include "runtime/schedule/occupancy.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum mark_kind { MARK_ITERATION, MARK_ITEM, MARK_MEMORY, MARK_LEAVES, MARK_ARRIVES };

enum { ITEM_NAME_MAX = 192 };
enum { PROCESS = 1, TRACK_ITERATIONS = 0, LANES = AH_PLAN_LANE_HOST + 1 };

struct mark {
    int64_t ns;
    enum mark_kind kind;
    uint32_t item; /* of the replay; of an iteration its number */
    uint32_t from; /* of an arrow: the item where it leaves; it names the arrow together with `item` */
};

struct trace {
    const struct ah_plan *plan;
    const struct ah_replay *replay;
    struct ah_occupancy occupancy;
    double *end_us; /* of iterations; in the arena */
    size_t iterations;
    struct mark *marks; /* in the arena */
    size_t n_marks;
    struct ah_buffer text;
    bool comma;
};

static int64_t ns_of(double us)
{
    return llround(us * 1e3);
}

static const char *block_name(const struct trace *trace, const struct ah_replay_item *item)
{
    return trace->plan->blocks[trace->plan->ops[item->op].block].name;
}

static const char *op_word(const struct trace *trace, const struct ah_replay_item *item)
{
    return ah_words_plan_op[trace->plan->ops[item->op].op];
}

/* "backward layer.3"; the norm is of all blocks. */
static const char *item_name(const struct trace *trace, const struct ah_replay_item *item,
                             char out[ITEM_NAME_MAX])
{
    bool of_all = trace->plan->ops[item->op].op == AH_PLAN_NORM;
    snprintf(out, ITEM_NAME_MAX, "%s%s%.160s", op_word(trace, item), of_all ? "" : " ",
             of_all ? "" : block_name(trace, item));
    return out;
}

/* ---- collecting ---- */

static bool absent(const struct trace *trace, const struct ah_replay_item *item)
{
    return !(item->finish_us > item->start_us) && trace->plan->ops[item->op].us > 0;
}

static void add_mark(struct trace *trace, enum mark_kind kind, int64_t ns, uint32_t item, uint32_t from)
{
    trace->marks[trace->n_marks++] = (struct mark){ns, kind, item, from};
}

static bool memory_changes(const struct trace *trace, size_t position)
{
    size_t before = (position ? position : trace->occupancy.positions) - 1;
    for (size_t part = 0; part < AH_OCCUPANCY_PARTS; part++)
        if (trace->occupancy.bytes[part][position] != trace->occupancy.bytes[part][before])
            return true;
    return false;
}

/* Back along what held the item up, until something was not late or is known already. */
static void add_arrows(struct trace *trace, uint32_t to, bool *known)
{
    const struct ah_replay_item *items = trace->replay->items;
    while (!known[to] && items[to].waited_us > 0 && items[to].waited_for != UINT32_MAX) {
        uint32_t from = items[to].waited_for;
        known[to] = true;
        if (!absent(trace, &items[to]) && !absent(trace, &items[from])) {
            int64_t start_ns = ns_of(items[from].start_us), end_ns = ns_of(items[from].finish_us);
            add_mark(trace, MARK_LEAVES, end_ns > start_ns ? end_ns - 1 : start_ns, to, from);
            add_mark(trace, MARK_ARRIVES, ns_of(items[to].start_us), to, from);
        }
        to = from;
    }
}

static void collect(struct trace *trace, bool *known)
{
    const struct ah_replay *replay = trace->replay;
    for (size_t r = 0; r < trace->iterations; r++)
        add_mark(trace, MARK_ITERATION, r ? ns_of(trace->end_us[r - 1]) : 0, (uint32_t)r, 0);
    for (uint32_t i = 0; i < replay->n_items; i++)
        if (!absent(trace, &replay->items[i]))
            add_mark(trace, MARK_ITEM, ns_of(replay->items[i].start_us), i, 0);
    for (uint32_t k = 0; k < trace->iterations * trace->occupancy.positions; k++) {
        add_arrows(trace, k, known);
        if (!k || memory_changes(trace, k % trace->occupancy.positions))
            add_mark(trace, MARK_MEMORY, ns_of(replay->items[k].start_us), k, 0);
    }
}

static int by_time(const void *left, const void *right)
{
    const struct mark *a = left, *b = right;
    if (a->ns != b->ns)
        return a->ns < b->ns ? -1 : 1;
    if (a->kind != b->kind)
        return a->kind < b->kind ? -1 : 1;
    return a->item < b->item ? -1 : a->item > b->item;
}

/* ---- printing ---- */

static void open_event(struct trace *trace, struct ah_emit *emit, const char *phase)
{
    ah_buffer_puts(&trace->text, trace->comma ? ",\n" : "\n");
    trace->comma = true;
    *emit = (struct ah_emit){.out = &trace->text, .one_line = true};
    ah_emit_open(emit, NULL, '{');
    ah_emit_text(emit, "ph", phase);
    ah_emit_integer(emit, "pid", PROCESS);
}

static void emit_ns(struct ah_emit *emit, const char *key, int64_t ns)
{
    char text[32];
    snprintf(text, sizeof text, "%" PRId64 ".%03d", ns / 1000, (int)(ns % 1000));
    ah_emit_json(emit, key, text);
}

static void print_name(struct trace *trace, const char *what, uint64_t track, const char *name)
{
    struct ah_emit emit;
    open_event(trace, &emit, "M");
    ah_emit_integer(&emit, "tid", track);
    ah_emit_text(&emit, "name", what);
    ah_emit_open(&emit, "args", '{');
    ah_emit_text(&emit, "name", name);
    ah_emit_close(&emit);
    ah_emit_close(&emit);
    if (strcmp(what, "thread_name") != 0)
        return;
    open_event(trace, &emit, "M");
    ah_emit_integer(&emit, "tid", track);
    ah_emit_text(&emit, "name", "thread_sort_index");
    ah_emit_open(&emit, "args", '{');
    ah_emit_integer(&emit, "sort_index", track);
    ah_emit_close(&emit);
    ah_emit_close(&emit);
}

static void print_names(struct trace *trace)
{
    char name[512];
    snprintf(name, sizeof name, "simulated: %.200s on %.200s, policy %s", trace->plan->inputs.model.name,
             trace->plan->inputs.machine.name, ah_words_policy[trace->plan->policy]);
    print_name(trace, "process_name", 0, name);
    print_name(trace, "thread_name", TRACK_ITERATIONS, "iterations");
    for (size_t lane = 0; lane < LANES; lane++)
        print_name(trace, "thread_name", lane + 1, ah_words_plan_lane[lane]);
}

/* Where it and all that follow last as long as the period; the last one, which none follows, counts for itself. */
static bool steady(const struct trace *trace, size_t iteration)
{
    double period_us = trace->replay->period_us;
    for (size_t r = iteration; r == iteration || r + 1 < trace->iterations; r++)
        if (!r || fabs(trace->end_us[r] - trace->end_us[r - 1] - period_us) > 1e-6 * period_us)
            return false;
    return true;
}

static void print_slice(struct trace *trace, struct ah_emit *emit, const struct mark *mark, int64_t end_ns)
{
    uint64_t track =
        mark->kind == MARK_ITEM ? trace->replay->items[mark->item].lane + 1 : (uint64_t)TRACK_ITERATIONS;
    ah_emit_integer(emit, "tid", track);
    emit_ns(emit, "ts", mark->ns);
    emit_ns(emit, "dur", end_ns - mark->ns);
}

static void print_iteration(struct trace *trace, const struct mark *mark)
{
    struct ah_emit emit;
    char name[48];
    snprintf(name, sizeof name, "iteration %u", mark->item);
    open_event(trace, &emit, "X");
    print_slice(trace, &emit, mark, ns_of(trace->end_us[mark->item]));
    ah_emit_text(&emit, "name", name);
    ah_emit_text(&emit, "cat", "iteration");
    ah_emit_open(&emit, "args", '{');
    ah_emit_integer(&emit, "iteration", mark->item);
    ah_emit_bool(&emit, "steady", steady(trace, mark->item));
    ah_emit_close(&emit);
    ah_emit_close(&emit);
}

static void emit_waiting(const struct trace *trace, struct ah_emit *emit, const struct ah_replay_item *item)
{
    static const char *const reasons[AH_REPLAY_REASONS] = {"nothing", "data", "memory"};
    if (item->waited_us > 0) {
        ah_emit_number(emit, "waited_us", item->waited_us);
        ah_emit_text(emit, "waited_because_of", reasons[item->reason]);
    }
    if (item->waited_us > 0 && item->waited_for != UINT32_MAX) {
        const struct ah_replay_item *from = &trace->replay->items[item->waited_for];
        char name[ITEM_NAME_MAX], text[ITEM_NAME_MAX + 64];
        snprintf(text, sizeof text, "%s, tile %u, iteration %u", item_name(trace, from, name), from->tile,
                 from->iteration);
        ah_emit_text(emit, "waited_for", text);
    }
    if (item->slowed_us > 0)
        ah_emit_number(emit, "slowed_us", item->slowed_us);
    if (item->slowed_us > 0 && item->slowed_by < trace->plan->sharing.n_resources)
        ah_emit_text(emit, "slowed_by", trace->plan->sharing.resources[item->slowed_by].name);
}

static void print_item(struct trace *trace, const struct mark *mark)
{
    const struct ah_replay_item *item = &trace->replay->items[mark->item];
    const struct ah_plan_op *op = &trace->plan->ops[item->op];
    struct ah_emit emit;
    char name[ITEM_NAME_MAX];
    open_event(trace, &emit, "X");
    print_slice(trace, &emit, mark, ns_of(item->finish_us));
    ah_emit_text(&emit, "name", item_name(trace, item, name));
    ah_emit_text(&emit, "cat", op_word(trace, item));
    ah_emit_open(&emit, "args", '{');
    ah_emit_text(&emit, "op", op_word(trace, item));
    ah_emit_text(&emit, "block", block_name(trace, item));
    ah_emit_integer(&emit, "micro_batch", op->micro_batch);
    ah_emit_integer(&emit, "tile", item->tile);
    ah_emit_integer(&emit, "tiles", op->tiles);
    ah_emit_integer(&emit, "iteration", item->iteration);
    emit_waiting(trace, &emit, item);
    ah_emit_close(&emit);
    ah_emit_close(&emit);
}

static void print_memory(struct trace *trace, const struct mark *mark)
{
    struct ah_emit emit;
    open_event(trace, &emit, "C");
    emit_ns(&emit, "ts", mark->ns);
    ah_emit_text(&emit, "name", "device arena (bytes)");
    ah_emit_open(&emit, "args", '{');
    for (size_t part = 0; part < AH_OCCUPANCY_PARTS; part++)
        ah_emit_integer(&emit, ah_words_occupancy[part],
                        trace->occupancy.bytes[part][mark->item % trace->occupancy.positions]);
    ah_emit_close(&emit);
    ah_emit_close(&emit);
}

static void print_arrow(struct trace *trace, const struct mark *mark)
{
    bool leaves = mark->kind == MARK_LEAVES;
    const struct ah_replay_item *items = trace->replay->items;
    struct ah_emit emit;
    open_event(trace, &emit, leaves ? "s" : "f");
    ah_emit_integer(&emit, "tid", (uint64_t)items[leaves ? mark->from : mark->item].lane + 1);
    emit_ns(&emit, "ts", mark->ns);
    ah_emit_text(&emit, "name", "waited for");
    ah_emit_text(&emit, "cat", "wait");
    ah_emit_integer(&emit, "id", mark->item);
    if (!leaves)
        ah_emit_text(&emit, "bp", "e");
    ah_emit_close(&emit);
}

static void print_mark(struct trace *trace, const struct mark *mark)
{
    static void (*const printers[])(struct trace *, const struct mark *) = {
        [MARK_ITERATION] = print_iteration, [MARK_ITEM] = print_item,     [MARK_MEMORY] = print_memory,
        [MARK_LEAVES] = print_arrow,        [MARK_ARRIVES] = print_arrow,
    };
    printers[mark->kind](trace, mark);
}

static void print_about(struct trace *trace)
{
    const struct ah_plan *plan = trace->plan;
    struct ah_emit emit = {.out = &trace->text, .one_line = true};
    ah_emit_open(&emit, NULL, '{');
    ah_emit_bool(&emit, "simulated", true);
    ah_emit_text(&emit, "generator", "autohete " AUTOHETE_VERSION);
    ah_emit_text(&emit, "model", plan->inputs.model.name);
    ah_emit_text(&emit, "machine", plan->inputs.machine.name);
    ah_emit_text(&emit, "policy", ah_words_policy[plan->policy]);
    ah_emit_number(&emit, "period_us", trace->replay->period_us);
    ah_emit_close(&emit);
}

static int print_trace(struct trace *trace, struct ah_error *err)
{
    ah_buffer_puts(&trace->text, "{\"displayTimeUnit\":\"ms\",\"otherData\":");
    print_about(trace);
    ah_buffer_puts(&trace->text, ",\"traceEvents\":[");
    print_names(trace);
    for (size_t i = 0; i < trace->n_marks; i++)
        print_mark(trace, &trace->marks[i]);
    ah_buffer_puts(&trace->text, "\n]}\n");
    return trace->text.failed ? ah_error_memory(err) : AH_OK;
}

/* ---- the whole ---- */

static int measure(struct trace *trace, struct ah_arena *arena, struct ah_error *err)
{
    const struct ah_replay *replay = trace->replay;
    size_t n_compute = replay->first_of_lane[AH_PLAN_LANE_COMPUTE + 1];
    size_t positions = trace->plan->arena.positions;
    trace->iterations = n_compute / positions;
    trace->end_us = ah_arena_array(arena, trace->iterations, sizeof *trace->end_us);
    trace->marks =
        ah_arena_array(arena, 3 * replay->n_items + n_compute + trace->iterations, sizeof *trace->marks);
    bool *known = ah_arena_array(arena, replay->n_items, sizeof *known);
    if (!trace->end_us || !trace->marks || !known)
        return ah_error_memory(err);
    int rc = ah_occupancy_measure(trace->plan, arena, &trace->occupancy, err);
    if (rc)
        return rc;
    for (size_t r = 0; r < trace->iterations; r++)
        trace->end_us[r] = replay->items[(r + 1) * positions - 1].finish_us;
    collect(trace, known);
    qsort(trace->marks, trace->n_marks, sizeof *trace->marks, by_time);
    return AH_OK;
}

int ah_trace_write(struct ah_cli *cli, const char *path, const struct ah_plan *plan,
                   const struct ah_replay *replay, struct ah_error *err)
{
    struct trace trace = {.plan = plan, .replay = replay};
    int rc = measure(&trace, &cli->arena, err);
    if (!rc)
        rc = print_trace(&trace, err);
    if (!rc && !strcmp(path, "-"))
        ah_buffer_append(&cli->out, trace.text.data, trace.text.size);
    else if (!rc)
        rc = ah_file_write(path, trace.text.data, trace.text.size, err);
    ah_buffer_release(&trace.text);
    return rc;
}
