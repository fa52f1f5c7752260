/* SPDX-License-Identifier: Apache-2.0
 *
 * Fit: places tensors that are neither persistent nor stacked, one after another. Each gets a gap between the placed
 * tensors whose lifetimes overlap its own. Spans come first, in the orders and manners of a table; moments get the
 * remaining gaps. The lowest layout is kept. The search ends early if the peak of a layout is at most the live bytes,
 * or at most the bytes that are enough.
 *
 * INVARIANTS
 *   1. A span is at or above its `floor`, and so above every persistent or stacked tensor whose lifetime overlaps its
 *      own.
 *   2. Spans are numbered by where they begin. A span overlaps those alive where it begins (a row of `live`), and those
 *      that begin later in its lifetime (a run).
 *   3. Moments overlap only spans and moments at the same position. They are placed last and move no span.
 */
#include "runtime/schedule/layout_internal.h"

#include <string.h>

enum fit_order { FIT_BY_BEGIN, FIT_LONGEST, FIT_LARGEST };
enum fit_manner {
    FIT_HIGH, /* as high as possible under the ceiling */
    FIT_LOW   /* as low as possible */
};

static const struct fit_way {
    enum fit_order order;
    enum fit_manner manner;
} fit_ways[LAYOUT_WAYS] = {
    {FIT_BY_BEGIN, FIT_HIGH}, {FIT_LONGEST, FIT_HIGH}, {FIT_LARGEST, FIT_HIGH},
    {FIT_LARGEST, FIT_LOW},   {FIT_LONGEST, FIT_LOW},  {FIT_BY_BEGIN, FIT_LOW},
};

/* Sorts by Shell's method with Ciura's gaps, because the arrays are short and often nearly sorted. */
void ah_layout_sort(uint64_t *keys, size_t n)
{
    static const size_t gaps[] = {1750, 701, 301, 132, 57, 23, 10, 4, 1};
    for (size_t g = 0; g < sizeof gaps / sizeof gaps[0]; g++)
        for (size_t i = gaps[g]; i < n; i++) {
            uint64_t key = keys[i];
            size_t hole = i;
            for (; hole >= gaps[g] && keys[hole - gaps[g]] > key; hole -= gaps[g])
                keys[hole] = keys[hole - gaps[g]];
            keys[hole] = key;
        }
}

/* ---- common to all ways ---- */

static size_t fit_words(const struct ah_layout_memory *memory)
{
    return (memory->n_spans + 63) / 64;
}

static uint64_t fit_highest(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* Returns the highest `top` of the positions from `from` to `to`, both included; `from` <= `to`. */
static uint64_t fit_top(const struct ah_layout_memory *memory, uint32_t from, uint32_t to)
{
    uint64_t top = 0;
    uint32_t p = from;
    for (; p <= to && p % LAYOUT_CHUNK; p++)
        top = fit_highest(top, memory->top[p]);
    for (; p + LAYOUT_CHUNK <= to + 1; p += LAYOUT_CHUNK)
        top = fit_highest(top, memory->chunk_top[p / LAYOUT_CHUNK]);
    for (; p <= to; p++)
        top = fit_highest(top, memory->top[p]);
    return top;
}

static void fit_measure_spans(struct ah_layout_memory *memory, size_t positions)
{
    memset(memory->chunk_top, 0, (positions / LAYOUT_CHUNK + 1) * sizeof *memory->chunk_top);
    for (size_t p = 0; p < positions; p++)
        memory->chunk_top[p / LAYOUT_CHUNK] =
            fit_highest(memory->chunk_top[p / LAYOUT_CHUNK], memory->top[p]);
    for (size_t i = 0; i < memory->n_spans; i++) {
        struct layout_span *span = &memory->spans[i];
        span->units = memory->units[span->tensor];
        span->length = layout_turn(span->to, span->from, positions) + 1;
        span->floor = span->from <= span->to
                          ? fit_top(memory, span->from, span->to)
                          : fit_highest(fit_top(memory, 0, span->to),
                                        fit_top(memory, span->from, (uint32_t)positions - 1));
    }
}

/* Fills the rows of `live`. A row is the previous one, plus the spans that begin, minus those that have ended (2). */
static void fit_mark_live(struct ah_layout_memory *memory, size_t positions)
{
    const size_t words = fit_words(memory);
    uint32_t *ending = memory->ending, *next = memory->ending_next;
    uint64_t *row = memory->live;
    size_t begun = 0;
    memset(row, 0, words * sizeof *row);
    for (size_t p = 0; p < positions; p++)
        ending[p] = (uint32_t)memory->n_spans;
    for (uint32_t i = 0; i < memory->n_spans; i++) {
        const struct layout_span *span = &memory->spans[i];
        next[i] = ending[span->to];
        ending[span->to] = i;
        if (span->from > span->to)
            row[i / 64] |= UINT64_C(1) << (i % 64);
    }
    for (size_t p = 0; p < positions; p++, row += words) {
        if (p > 0) {
            memcpy(row, row - words, words * sizeof *row);
            for (uint32_t i = ending[p - 1]; i < memory->n_spans; i = next[i])
                row[i / 64] &= ~(UINT64_C(1) << (i % 64));
        }
        memory->span_first[p] = (uint32_t)begun;
        for (; begun < memory->n_spans && memory->spans[begun].from == p; begun++)
            row[begun / 64] |= UINT64_C(1) << (begun % 64);
    }
    memory->span_first[positions] = (uint32_t)begun;
}

/* ---- gaps ---- */

/* Returns the part of bits [first, end) of a row that lies in its 64-bit word number `word`, as a mask. */
static uint64_t fit_run(size_t word, size_t first, size_t end)
{
    uint64_t bits = UINT64_MAX;
    if (first >= word * 64 + 64 || end <= word * 64)
        return 0;
    if (first > word * 64)
        bits &= UINT64_MAX << (first - word * 64);
    if (end < word * 64 + 64)
        bits &= ~(UINT64_MAX << (end - word * 64));
    return bits;
}

/* Sets `row` to the spans that overlap `span` (invariant 2). */
static void fit_find_meeting(const struct ah_layout_memory *memory, const struct layout_span *span,
                             uint64_t *row)
{
    const uint64_t *live = memory->live + span->from * fit_words(memory);
    size_t after = memory->span_first[span->from + 1], until = memory->span_first[span->to + 1];
    for (size_t word = 0; word < fit_words(memory); word++)
        if (span->from <= span->to)
            row[word] = live[word] | fit_run(word, after, until);
        else
            row[word] = live[word] | fit_run(word, after, memory->n_spans) | fit_run(word, 0, until);
}

/* Collects the placed spans among those of `row` by their bits, and sorts them. False: they are more than `most`. */
static bool fit_choose_few(struct ah_layout_memory *memory, const uint64_t *row, size_t most)
{
    size_t n = 0;
    for (size_t word = 0; word < fit_words(memory); word++)
        for (uint64_t bits = row[word] & memory->has_place[word]; bits; bits &= bits - 1) {
            const size_t i = word * 64 + (size_t)__builtin_ctzll(bits);
            if (n == most)
                return false;
            memory->keys[n++] = memory->spans[i].offset << LAYOUT_INDEX_BITS | i;
        }
    ah_layout_sort(memory->keys, n);
    for (size_t k = 0; k < n; k++)
        memory->busy[k] = memory->keys[k] & LAYOUT_INDEX_MASK;
    memory->n_busy = n;
    return true;
}

/* Sets `busy` to the placed spans among those of `row`, lowest first. A few of many are sorted; else the placed, which
 * are sorted, are filtered. */
static void fit_choose_busy(struct ah_layout_memory *memory, const uint64_t *row)
{
    enum { FEW = 32 };
    size_t n = 0;
    if (fit_choose_few(memory, row, memory->n_placed / FEW))
        return;
    for (size_t k = 0; k < memory->n_placed; k++) {
        uint32_t i = memory->placed[k];
        memory->busy[n] = i;
        n += row[i / 64] >> (i % 64) & 1;
    }
    memory->n_busy = n;
}

/* Inserts span `i` into a list of `n` spans, lowest first. */
static void fit_insert(const struct ah_layout_memory *memory, uint32_t *list, size_t n, uint32_t i)
{
    size_t first = 0, end = n;
    while (first < end) {
        size_t middle = (first + end) / 2;
        if (memory->spans[list[middle]].offset < memory->spans[i].offset)
            first = middle + 1;
        else
            end = middle;
    }
    memmove(list + first + 1, list + first, (n - first) * sizeof *list);
    list[first] = i;
}

/* Returns the offset of a gap for `units` between busy spans, at or above `floor`. With a ceiling, that is the highest
 * offset under it; without a ceiling (0), or if nothing under it fits, the lowest. */
static uint64_t fit_gap(const struct ah_layout_memory *memory, uint64_t floor, uint64_t ceiling,
                        uint64_t units)
{
    uint64_t end = floor, lowest = UINT64_MAX, highest = UINT64_MAX;
    for (size_t k = 0; k <= memory->n_busy; k++) {
        const struct layout_span *span = k < memory->n_busy ? &memory->spans[memory->busy[k]] : NULL;
        uint64_t next = span ? span->offset : UINT64_MAX;
        uint64_t under = next < ceiling ? next : ceiling;
        if (lowest == UINT64_MAX && next > end && next - end >= units) {
            lowest = end;
            if (!ceiling)
                break;
        }
        if (under > end && under - end >= units)
            highest = under - units;
        if (span)
            end = fit_highest(end, span->offset + span->units);
    }
    return highest != UINT64_MAX ? highest : lowest;
}

/* ---- one way ---- */

static void fit_order_spans(struct ah_layout_memory *memory, enum fit_order order, uint32_t cut,
                            size_t positions)
{
    for (size_t i = 0; i < memory->n_spans; i++) {
        const struct layout_span *span = &memory->spans[i];
        uint64_t first = 0;
        if (order == FIT_LONGEST) {
            first = LAYOUT_INDEX_MASK - span->length;
        } else if (order == FIT_LARGEST) {
            first = UINT32_MAX - (span->units < UINT32_MAX ? span->units : UINT32_MAX);
        } else {
            bool crosses = layout_turn(span->from, cut, positions) > layout_turn(span->to, cut, positions);
            first = crosses ? 0 : 1 + layout_turn(span->from, cut, positions);
        }
        memory->keys[i] = first << LAYOUT_INDEX_BITS | i;
    }
    ah_layout_sort(memory->keys, memory->n_spans);
    for (size_t k = 0; k < memory->n_spans; k++)
        memory->order[k] = memory->keys[k] & LAYOUT_INDEX_MASK;
}

/* Places the spans in order. Returns the highest end, early if a span (the culprit) ends at or above `limit`. */
static uint64_t fit_spans(struct ah_layout_memory *memory, enum fit_manner manner, uint64_t ceiling,
                          uint64_t limit)
{
    uint64_t peak = 0;
    memory->n_placed = 0;
    memset(memory->has_place, 0, fit_words(memory) * sizeof *memory->has_place);
    for (size_t k = 0; k < memory->n_spans && peak < limit; k++) {
        uint32_t i = memory->order[k];
        struct layout_span *span = &memory->spans[i];
        memory->culprit = k;
        fit_find_meeting(memory, span, memory->row);
        fit_choose_busy(memory, memory->row);
        span->offset = fit_gap(memory, span->floor, manner == FIT_HIGH ? ceiling : 0, span->units);
        fit_insert(memory, memory->placed, memory->n_placed++, i);
        memory->has_place[i / 64] |= UINT64_C(1) << (i % 64);
        memory->at[span->tensor] = span->offset;
        peak = fit_highest(peak, span->offset + span->units);
    }
    return peak;
}

/* Places moments [first, end) of one position, the largest first, each in its lowest gap. Returns the highest end. */
static uint64_t fit_in_gaps(struct ah_layout_memory *memory, size_t first, size_t end, uint64_t floor)
{
    uint64_t peak = 0;
    size_t n = end - first, n_busy = memory->n_busy;
    for (size_t i = 0; i < n; i++) {
        uint64_t units = memory->units[memory->moments[first + i]];
        memory->keys[i] = (UINT32_MAX - (units < UINT32_MAX ? units : UINT32_MAX)) << LAYOUT_INDEX_BITS | i;
    }
    ah_layout_sort(memory->keys, n);
    memcpy(memory->stack, memory->busy, n_busy * sizeof *memory->busy);
    for (size_t k = 0; k < n; k++) {
        uint32_t tensor = memory->moments[first + (memory->keys[k] & LAYOUT_INDEX_MASK)];
        uint32_t index = (uint32_t)(memory->n_spans + k); /* `spans` has an entry for every tensor */
        uint64_t units = memory->units[tensor];
        uint64_t offset = fit_gap(memory, floor, 0, units);
        memory->spans[index] = (struct layout_span){.units = units, .offset = offset};
        fit_insert(memory, memory->busy, memory->n_busy++, index);
        memory->at[tensor] = offset;
        peak = fit_highest(peak, offset + units);
    }
    memcpy(memory->busy, memory->stack, n_busy * sizeof *memory->busy);
    memory->n_busy = n_busy;
    return peak;
}

/* Places moments [first, end) of one position: side by side if they fit under all spans, else in gaps. */
static uint64_t fit_position(struct ah_layout_memory *memory, uint64_t floor, size_t first, size_t end)
{
    uint64_t sum = 0, at = floor;
    for (size_t i = first; i < end; i++)
        sum += memory->units[memory->moments[i]];
    if (memory->n_busy && floor + sum > memory->spans[memory->busy[0]].offset)
        return fit_in_gaps(memory, first, end, floor);
    for (size_t i = first; i < end; i++) {
        memory->at[memory->moments[i]] = at;
        at += memory->units[memory->moments[i]];
    }
    return at;
}

/* Updates the busy spans from position p - 1 to position p. */
static void fit_step(struct ah_layout_memory *memory, size_t p)
{
    for (uint32_t i = memory->ending[p - 1]; i < memory->n_spans; i = memory->ending_next[i]) {
        size_t at = 0;
        while (memory->busy[at] != i)
            at++;
        memory->n_busy--;
        memmove(memory->busy + at, memory->busy + at + 1, (memory->n_busy - at) * sizeof *memory->busy);
    }
    for (uint32_t i = memory->span_first[p]; i < memory->span_first[p + 1]; i++)
        fit_insert(memory, memory->busy, memory->n_busy++, i);
}

/* Returns the index in `order` of the span placed last among the spans alive at p; 0 if none is. */
static size_t fit_last_at(const struct ah_layout_memory *memory, size_t p)
{
    const uint64_t *row = memory->live + p * fit_words(memory);
    size_t k = memory->n_spans;
    while (k > 1 && !(row[memory->order[k - 1] / 64] >> (memory->order[k - 1] % 64) & 1))
        k--;
    return k ? k - 1 : 0;
}

/* Places the moments. Returns the highest end, at least `peak`. Stops early if a moment ends at or above `limit`. */
static uint64_t fit_moments(struct ah_layout_memory *memory, const struct ah_layout_tensor *tensors,
                            size_t positions, uint64_t peak, uint64_t limit)
{
    size_t first = 0;
    if (peak >= limit)
        return peak;
    fit_choose_busy(memory, memory->live);
    for (size_t p = 0; p < positions && peak < limit; p++) {
        size_t end = first;
        if (p > 0)
            fit_step(memory, p);
        while (end < memory->n_moments && tensors[memory->moments[end]].from == p)
            end++;
        if (end > first)
            peak = fit_highest(peak, fit_position(memory, memory->top[p], first, end));
        if (peak >= limit)
            memory->culprit = fit_last_at(memory, p);
        first = end;
    }
    return peak;
}

/* ---- the search for the best way ---- */

static void fit_keep(struct ah_layout_memory *memory)
{
    for (size_t i = 0; i < memory->n_spans; i++)
        memory->best[memory->spans[i].tensor] = memory->at[memory->spans[i].tensor];
    for (size_t i = 0; i < memory->n_moments; i++)
        memory->best[memory->moments[i]] = memory->at[memory->moments[i]];
}

/* Places all spans, then all moments. Saves the layout if its peak is below `lowest`. Returns the lower of the two. */
static uint64_t fit_once(struct ah_layout_memory *memory, const struct ah_layout_tensor *tensors,
                         size_t positions, enum fit_manner manner, uint64_t ceiling, uint64_t lowest)
{
    uint64_t peak = fit_spans(memory, manner, ceiling, lowest);
    peak = fit_moments(memory, tensors, positions, peak, lowest);
    if (peak >= lowest)
        return lowest;
    fit_keep(memory);
    return peak;
}

/* Returns how often each order is repaired: the more spans, the less often, so that the work stays about the same. */
static size_t fit_repairs(const struct ah_layout_memory *memory)
{
    enum { PLACED = 1000, MOST = 16 };
    size_t times = PLACED / (memory->n_spans + 1);
    return times < MOST ? times : MOST;
}

/* Moves the span at this index of the order to the front. */
static void fit_prefer(struct ah_layout_memory *memory, size_t at)
{
    uint32_t span = memory->order[at];
    memmove(memory->order + 1, memory->order, at * sizeof *memory->order);
    memory->order[0] = span;
}

void ah_layout_fit(struct ah_layout_memory *memory, const struct ah_layout_tensor *tensors, size_t positions,
                   struct layout_heights heights)
{
    const uint64_t low_enough = fit_highest(heights.live, heights.enough);
    uint64_t lowest = UINT64_MAX;
    fit_measure_spans(memory, positions);
    fit_mark_live(memory, positions);
    for (size_t i = 0; i < memory->n_spans; i++)
        memory->stack[i] = memory->spans[i].tensor;
    uint32_t cut = ah_layout_cut(memory, tensors, memory->stack, memory->n_spans, positions);
    for (size_t i = 0; i < LAYOUT_WAYS * (1 + fit_repairs(memory)) && lowest > low_enough; i++) {
        const struct fit_way *way = &fit_ways[i % LAYOUT_WAYS];
        memory->order = memory->orders + i % LAYOUT_WAYS * memory->n_spans;
        if (i < LAYOUT_WAYS)
            fit_order_spans(memory, way->order, cut, positions);
        else
            fit_prefer(memory, memory->culprits[i % LAYOUT_WAYS]);
        lowest = fit_once(memory, tensors, positions, way->manner, heights.live, lowest);
        memory->culprits[i % LAYOUT_WAYS] = memory->culprit;
    }
}
