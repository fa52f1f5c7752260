/* SPDX-License-Identifier: Apache-2.0
 *
 * Traces the simulator's prediction.
 *
 * 1. An arrow starts one ns before the end of its slice, because an arrow at the end would belong to the next slice.
 * 2. Instances absent at both ends of a replay (dispatch.c, 4) took no time and are left out.
 * 3. Items that begin outside the window are left out, and so are arrows from or to these items.
 */
#include "cli/trace/trace_internal.h"

#include <math.h>
#include <stdio.h>

static int64_t ns_of(double us)
{
    return llround(us * 1e3);
}

/* ---- collecting ---- */

static bool absent(const struct trace *trace, const struct ah_replay_item *item)
{
    return !(item->finish_us > item->start_us) && trace->plan->ops[item->op].us > 0;
}

static bool shown(const struct trace *trace, int64_t ns)
{
    return ns >= trace->from_ns && ns < trace->to_ns;
}

static void add_mark(struct trace *trace, enum mark_kind kind, int64_t ns, uint32_t item, uint32_t from)
{
    if (shown(trace, ns))
        trace->marks[trace->n_marks++] = (struct mark){ns - trace->from_ns, kind, item, from};
}

static bool memory_changes(const struct trace *trace, size_t position)
{
    size_t before = (position ? position : trace->occupancy.positions) - 1;
    for (size_t part = 0; part < AH_OCCUPANCY_PARTS; part++)
        if (trace->occupancy.bytes[part][position] != trace->occupancy.bytes[part][before])
            return true;
    return false;
}

/* Adds arrows from item `to` back to the items it waited for, until one was not late or has its arrow already. */
static void add_arrows(struct trace *trace, uint32_t to, bool *known)
{
    const struct ah_replay_item *items = trace->replay->items;
    while (!known[to] && items[to].waited_us > 0 && items[to].waited_for != UINT32_MAX) {
        uint32_t from = items[to].waited_for;
        int64_t start_ns = ns_of(items[from].start_us), end_ns = ns_of(items[from].finish_us);
        int64_t arrives_ns = ns_of(items[to].start_us);
        known[to] = true;
        if (!absent(trace, &items[to]) && !absent(trace, &items[from]) && shown(trace, start_ns) &&
            shown(trace, arrives_ns)) {
            add_mark(trace, MARK_LEAVES, end_ns > start_ns ? end_ns - 1 : start_ns, to, from);
            add_mark(trace, MARK_ARRIVES, arrives_ns, to, from);
        }
        to = from;
    }
}

static void collect_predicted(struct trace *trace, bool *known)
{
    const struct ah_replay *replay = trace->replay;
    bool first = true;
    for (size_t r = 0; r < trace->iterations; r++)
        add_mark(trace, MARK_ITERATION, r ? ns_of(trace->end_us[r - 1]) : 0, (uint32_t)r, 0);
    for (uint32_t i = 0; i < replay->n_items; i++)
        if (!absent(trace, &replay->items[i]))
            add_mark(trace, MARK_ITEM, ns_of(replay->items[i].start_us), i, 0);
    for (uint32_t k = 0; k < trace->iterations * trace->occupancy.positions; k++) {
        int64_t start_ns = ns_of(replay->items[k].start_us);
        if (shown(trace, start_ns))
            add_arrows(trace, k, known);
        if ((shown(trace, start_ns) && first) || memory_changes(trace, k % trace->occupancy.positions))
            add_mark(trace, MARK_MEMORY, start_ns, k, 0);
        first = first && !shown(trace, start_ns);
    }
}

/* Sets the window. With a measured timeline, shows as many of the last complete iterations as were measured. */
static void set_window(struct trace *trace)
{
    size_t n = trace->iterations, last = n - 1;
    trace->from_ns = 0;
    trace->to_ns = INT64_MAX;
    if (!trace->measured)
        return;
    size_t steps = trace->measured->n_steps ? trace->measured->n_steps : 1;
    size_t first = last > steps ? last - steps : 0;
    trace->from_ns = first ? ns_of(trace->end_us[first - 1]) : 0;
    trace->to_ns = ns_of(trace->end_us[last - 1]);
}

int ah_trace_predict(struct trace *trace, struct ah_error *err)
{
    size_t positions = trace->plan->arena.positions;
    trace->end_us = ah_arena_array(trace->arena, trace->iterations, sizeof *trace->end_us);
    bool *known = ah_arena_array(trace->arena, trace->replay->n_items, sizeof *known);
    if (!trace->end_us || !known)
        return ah_error_memory(err);
    int rc = ah_occupancy_measure(trace->plan, trace->arena, &trace->occupancy, err);
    if (rc)
        return rc;
    for (size_t r = 0; r < trace->iterations; r++)
        trace->end_us[r] = trace->replay->items[(r + 1) * positions - 1].finish_us;
    set_window(trace);
    collect_predicted(trace, known);
    return AH_OK;
}

/* ---- printing ---- */

/* True if this and all later iterations last as long as the period. The very last counts only as `iteration`. */
static bool steady(const struct trace *trace, size_t iteration)
{
    double period_us = trace->replay->period_us;
    for (size_t r = iteration; r == iteration || r + 1 < trace->iterations; r++)
        if (!r || fabs(trace->end_us[r] - trace->end_us[r - 1] - period_us) > 1e-6 * period_us)
            return false;
    return true;
}

static void print_iteration(struct trace *trace, const struct mark *mark)
{
    struct ah_emit emit;
    char name[48];
    snprintf(name, sizeof name, "iteration %u", mark->item);
    ah_trace_open(trace, &emit, "X", PROCESS_PREDICTED);
    ah_trace_emit_slice(&emit, TRACK_ITERATIONS, mark->ns, ns_of(trace->end_us[mark->item]) - trace->from_ns);
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
        char name[TRACE_NAME_MAX], text[TRACE_NAME_MAX + 64];
        snprintf(text, sizeof text, "%s, tile %u, iteration %u", ah_trace_name(trace->plan, from->op, name),
                 from->tile, from->iteration);
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
    struct ah_emit emit;
    char name[TRACE_NAME_MAX];
    ah_trace_open(trace, &emit, "X", PROCESS_PREDICTED);
    ah_trace_emit_slice(&emit, (uint64_t)item->lane + 1, mark->ns, ns_of(item->finish_us) - trace->from_ns);
    ah_emit_text(&emit, "name", ah_trace_name(trace->plan, item->op, name));
    ah_emit_text(&emit, "cat", ah_words_plan_op[trace->plan->ops[item->op].op]);
    ah_emit_open(&emit, "args", '{');
    ah_trace_emit_op(&emit, trace->plan, item->op, item->tile);
    ah_emit_integer(&emit, "iteration", item->iteration);
    emit_waiting(trace, &emit, item);
    ah_emit_close(&emit);
    ah_emit_close(&emit);
}

static void print_memory(struct trace *trace, const struct mark *mark)
{
    struct ah_emit emit;
    ah_trace_open(trace, &emit, "C", PROCESS_PREDICTED);
    ah_trace_emit_ns(&emit, "ts", mark->ns);
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
    ah_trace_open(trace, &emit, leaves ? "s" : "f", PROCESS_PREDICTED);
    ah_emit_integer(&emit, "tid", (uint64_t)items[leaves ? mark->from : mark->item].lane + 1);
    ah_trace_emit_ns(&emit, "ts", mark->ns);
    ah_emit_text(&emit, "name", "waited for");
    ah_emit_text(&emit, "cat", "wait");
    ah_emit_integer(&emit, "id", mark->item);
    if (!leaves)
        ah_emit_text(&emit, "bp", "e");
    ah_emit_close(&emit);
}

void ah_trace_print_predicted(struct trace *trace, const struct mark *mark)
{
    static void (*const printers[MARK_KINDS])(struct trace *, const struct mark *) = {
        [MARK_ITERATION] = print_iteration, [MARK_ITEM] = print_item,     [MARK_MEMORY] = print_memory,
        [MARK_LEAVES] = print_arrow,        [MARK_ARRIVES] = print_arrow,
    };
    printers[mark->kind](trace, mark);
}
