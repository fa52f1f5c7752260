/* SPDX-License-Identifier: Apache-2.0
 *
 * Prints the timeline of two steady iterations in a compact form.
 *
 * 1. A BAR is an item. If there are more items than a page can draw smoothly, a bar joins successive tiles of one op
 *    without a pause between them. Bars of a lane are in order of time.
 * 2. All bars of the two iterations, FIRST and the next one, are shown. Bars of neighbouring iterations are shown if
 *    they overlap the time of these two, so that the lanes' other work is visible.
 * 3. Times are whole ns since the beginning of FIRST. A bar is given by the pause before it and its length. Both are
 *    differences of rounded times, so rounding errors do not accumulate.
 */
#include "cli/page/page_internal.h"

#include <math.h>

enum {
    LANES = AH_PLAN_LANES,
    SHOWN = 2,       /* iterations */
    NEIGHBOURS = 1,  /* number of other iterations on each side */
    ITEMS_MAX = 8000 /* above this, tiles are joined */
};

#define NO_BAR UINT32_MAX /* the item is not shown */

struct bar {
    uint32_t first, n; /* its first item, and the number of its items */
    double slowed_us;
};

struct timeline {
    struct page *page;
    uint32_t first; /* FIRST */
    double origin_us, from_us, to_us;
    bool joined; /* tiles are joined */
    struct bar *bars;
    size_t n_bars;
    size_t first_of_lane[LANES + 1];
    uint32_t *bar_of; /* by item: its bar */
};

static const struct ah_replay_item *item_at(const struct timeline *t, size_t i)
{
    return &t->page->replay.items[i];
}

static int64_t ns_of(const struct timeline *t, double us)
{
    return llround((us - t->origin_us) * 1e3);
}

/* ---- what is shown ---- */

static bool of_iterations(const struct timeline *t, const struct ah_replay_item *item)
{
    return item->iteration >= t->first && item->iteration < t->first + SHOWN;
}

static bool is_shown(const struct timeline *t, const struct ah_replay_item *item)
{
    if (of_iterations(t, item))
        return true;
    return item->iteration + NEIGHBOURS >= t->first && item->iteration < t->first + SHOWN + NEIGHBOURS &&
           item->finish_us > t->from_us && item->start_us < t->to_us;
}

/* Chooses two steady iterations: the last but one, for which a replay gives sums, and the one before. */
static void choose_span(struct timeline *t)
{
    const struct ah_replay *replay = &t->page->replay;
    size_t shown = 0;
    t->first = (uint32_t)t->page->iterations - 1 - SHOWN;
    t->origin_us = replay->items[t->first * t->page->occupancy.positions - 1].finish_us;
    t->from_us = t->to_us = t->origin_us;
    for (size_t i = 0; i < replay->n_items; i++) {
        if (!of_iterations(t, item_at(t, i)))
            continue;
        t->from_us = fmin(t->from_us, item_at(t, i)->start_us);
        t->to_us = fmax(t->to_us, item_at(t, i)->finish_us);
        shown++;
    }
    t->joined = shown > ITEMS_MAX;
}

static bool continues_bar(const struct timeline *t, const struct bar *bar, const struct ah_replay_item *item)
{
    const struct ah_replay_item *last = item_at(t, bar->first + bar->n - 1);
    return t->joined && last->op == item->op && last->iteration == item->iteration &&
           last->tile + 1 == item->tile && !(item->start_us > last->finish_us);
}

static void collect_lane(struct timeline *t, size_t lane)
{
    const struct ah_replay *replay = &t->page->replay;
    struct bar *bar = NULL;
    t->first_of_lane[lane] = t->n_bars;
    for (size_t i = replay->first_of_lane[lane]; i < replay->first_of_lane[lane + 1]; i++) {
        t->bar_of[i] = NO_BAR;
        if (!is_shown(t, item_at(t, i)))
            continue;
        if (bar && continues_bar(t, bar, item_at(t, i))) {
            bar->n++;
        } else {
            bar = &t->bars[t->n_bars++];
            *bar = (struct bar){.first = (uint32_t)i, .n = 1};
        }
        bar->slowed_us += item_at(t, i)->slowed_us;
        t->bar_of[i] = (uint32_t)(t->n_bars - 1);
    }
}

static int collect_bars(struct timeline *t, struct ah_error *err)
{
    const struct ah_replay *replay = &t->page->replay;
    t->bars = ah_arena_array(t->page->arena, replay->n_items + 1, sizeof *t->bars);
    t->bar_of = ah_arena_array(t->page->arena, replay->n_items + 1, sizeof *t->bar_of);
    if (!t->bars || !t->bar_of)
        return ah_error_memory(err);
    choose_span(t);
    for (size_t lane = 0; lane < LANES; lane++)
        collect_lane(t, lane);
    t->first_of_lane[LANES] = t->n_bars;
    return AH_OK;
}

/* ---- bars as columns ---- */

static void put_ns(struct ah_emit *emit, const char *key, int64_t ns)
{
    ah_emit_number(emit, key, (double)ns);
}

static const struct ah_replay_item *first_item(const struct timeline *t, size_t bar)
{
    return item_at(t, t->bars[bar].first);
}

static double end_us(const struct timeline *t, size_t bar)
{
    return item_at(t, t->bars[bar].first + t->bars[bar].n - 1)->finish_us;
}

static int64_t op_column(const struct timeline *t, size_t bar)
{
    return first_item(t, bar)->op;
}

static int64_t tile_column(const struct timeline *t, size_t bar)
{
    return first_item(t, bar)->tile;
}

static int64_t tiles_column(const struct timeline *t, size_t bar)
{
    return t->bars[bar].n;
}

/* Returns a bar's iteration, relative to FIRST. */
static int64_t iteration_column(const struct timeline *t, size_t bar)
{
    return (int64_t)first_item(t, bar)->iteration - t->first;
}

static int64_t pause_column(const struct timeline *t, size_t bar)
{
    bool first_of_lane = false;
    for (size_t lane = 0; lane < LANES; lane++)
        first_of_lane = first_of_lane || t->first_of_lane[lane] == bar;
    return ns_of(t, first_item(t, bar)->start_us) - (first_of_lane ? 0 : ns_of(t, end_us(t, bar - 1)));
}

static int64_t length_column(const struct timeline *t, size_t bar)
{
    return ns_of(t, end_us(t, bar)) - ns_of(t, first_item(t, bar)->start_us);
}

struct column {
    const char *name;
    int64_t (*value)(const struct timeline *t, size_t bar);
};

static const struct column columns[] = {
    {"op", op_column},       {"tile", tile_column},           {"tiles", tiles_column},
    {"pause", pause_column}, {"iteration", iteration_column}, {"length", length_column},
};

/* Adds [bar, reason, awaited bar, ns]. The third is -1 - op if that bar is not shown; null: it waited for none. */
static void put_wait(const struct timeline *t, size_t bar)
{
    struct ah_emit *emit = &t->page->emit;
    const struct ah_replay_item *item = first_item(t, bar);
    if (!(item->waited_us > 0))
        return;
    ah_emit_open(emit, NULL, '[');
    ah_emit_integer(emit, NULL, bar);
    ah_emit_integer(emit, NULL, item->reason);
    if (item->waited_for == UINT32_MAX)
        ah_emit_text(emit, NULL, NULL);
    else if (t->bar_of[item->waited_for] == NO_BAR)
        put_ns(emit, NULL, -1 - (int64_t)item_at(t, item->waited_for)->op);
    else
        ah_emit_integer(emit, NULL, t->bar_of[item->waited_for]);
    put_ns(emit, NULL, llround(item->waited_us * 1e3));
    ah_emit_close(emit);
}

/* Adds [bar, ns by which it was slowed down, resource or null]. */
static void put_slowed(const struct timeline *t, size_t bar)
{
    struct ah_emit *emit = &t->page->emit;
    int64_t ns = llround(t->bars[bar].slowed_us * 1e3);
    if (ns <= 0)
        return;
    ah_emit_open(emit, NULL, '[');
    ah_emit_integer(emit, NULL, bar);
    put_ns(emit, NULL, ns);
    if (first_item(t, bar)->slowed_by < t->page->plan->sharing.n_resources)
        ah_emit_integer(emit, NULL, first_item(t, bar)->slowed_by);
    else
        ah_emit_text(emit, NULL, NULL);
    ah_emit_close(emit);
}

static void put_lane(const struct timeline *t, size_t lane)
{
    struct ah_emit *emit = &t->page->emit;
    const struct ah_replay_lane *sums = &t->page->replay.lanes[lane];
    ah_emit_open(emit, NULL, '{');
    ah_emit_text(emit, "name", ah_words_plan_lane[lane]);
    ah_emit_number(emit, "busy_us", sums->busy_us);
    ah_emit_number(emit, "slowed_us", sums->slowed_us);
    ah_emit_number(emit, "waited_data_us", sums->waited_us[AH_REPLAY_DATA]);
    ah_emit_number(emit, "waited_memory_us", sums->waited_us[AH_REPLAY_MEMORY]);
    ah_emit_number(emit, "exposed_us", t->page->replay.exposed_us[lane]);
    for (size_t c = 0; c < sizeof columns / sizeof *columns; c++) {
        ah_emit_open(emit, columns[c].name, '[');
        for (size_t bar = t->first_of_lane[lane]; bar < t->first_of_lane[lane + 1]; bar++)
            put_ns(emit, NULL, columns[c].value(t, bar));
        ah_emit_close(emit);
    }
    ah_emit_close(emit);
}

/* Adds the bytes in use, by part and position. */
static void put_occupancy(const struct timeline *t)
{
    const struct ah_occupancy *occupancy = &t->page->occupancy;
    struct ah_emit *emit = &t->page->emit;
    ah_emit_open(emit, "occupancy", '{');
    for (size_t part = 0; part < AH_OCCUPANCY_PARTS; part++) {
        ah_emit_open(emit, ah_words_occupancy[part], '[');
        for (size_t p = 0; p < occupancy->positions; p++)
            ah_emit_integer(emit, NULL, occupancy->bytes[part][p]);
        ah_emit_close(emit);
    }
    ah_emit_close(emit);
}

int page_put_timeline(struct page *page, struct ah_error *err)
{
    struct timeline t = {.page = page};
    struct ah_emit *emit = &page->emit;
    int rc = collect_bars(&t, err);
    if (rc)
        return rc;
    ah_emit_number(emit, "period_us", page->replay.period_us);
    ah_emit_integer(emit, "positions", page->occupancy.positions);
    ah_emit_bool(emit, "joined", t.joined);
    ah_emit_open(emit, "lanes", '[');
    for (size_t lane = 0; lane < ah_plan_lane_count(page->plan); lane++)
        put_lane(&t, lane);
    ah_emit_close(emit);
    ah_emit_open(emit, "waits", '[');
    for (size_t bar = 0; bar < t.n_bars; bar++)
        put_wait(&t, bar);
    ah_emit_close(emit);
    ah_emit_open(emit, "slowed", '[');
    for (size_t bar = 0; bar < t.n_bars; bar++)
        put_slowed(&t, bar);
    ah_emit_close(emit);
    put_occupancy(&t);
    return AH_OK;
}
