/* SPDX-License-Identifier: Apache-2.0
 *
 * Layout: three parts of the arena, from below.
 *
 *     persistent tensors, side by side
 *     the stack: each tensor above the highest stacked tensor still alive when it begins
 *     other tensors, in gaps between each other and above what is alive of the stack (layout_fit.c)
 *
 * The other tensors are placed downwards: their upper limit is the largest sum of live bytes. While activations are
 * freed, the space above the stack grows, and gradients can use it.
 *
 * INVARIANTS
 *   1. All offsets and sizes are whole units of AH_LAYOUT_ALIGN.
 *   2. `top[p]` is at or above the end of every persistent and stacked tensor that lives at p.
 *   3. The stack begins at the cut, the boundary between two positions that is crossed by the fewest stacked bytes. If
 *      lifetimes nest, no byte crosses it, and the stack wastes none. A tensor that crosses keeps its memory.
 */
#include "runtime/schedule/layout_internal.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* A PiB. Tensors that sum to a PiB or more fit nowhere and are not placed. So no sum overflows, and in 64 bits every
 * offset leaves room for an index. */
#define LAYOUT_UNITS_MAX (UINT64_C(1) << 42)

/* ---- memory ---- */

static size_t layout_piece(size_t *used_bytes, size_t count, size_t size)
{
    size_t offset = *used_bytes;
    *used_bytes += (count * size + 63) & ~(size_t)63;
    return offset;
}

/* Divides `base` into the arrays of `memory`, or only counts if `base` is NULL. Returns the bytes needed. */
static size_t layout_cut(struct ah_layout_memory *memory, char *base, size_t tensors, size_t positions)
{
    const struct {
        void *array;
        size_t count, size;
    } pieces[] = {
        {&memory->units, tensors, sizeof *memory->units},
        {&memory->at, tensors, sizeof *memory->at},
        {&memory->best, tensors, sizeof *memory->best},
        {&memory->spans, tensors, sizeof *memory->spans},
        {&memory->keys, tensors, sizeof *memory->keys},
        {&memory->busy, tensors, sizeof *memory->busy},
        {&memory->placed, tensors, sizeof *memory->placed},
        {&memory->orders, LAYOUT_WAYS * tensors, sizeof *memory->orders},
        {&memory->row, (tensors + 63) / 64, sizeof *memory->row},
        {&memory->has_place, (tensors + 63) / 64, sizeof *memory->has_place},
        {&memory->ending_next, tensors, sizeof *memory->ending_next},
        {&memory->ending, positions, sizeof *memory->ending},
        {&memory->sorted, tensors, sizeof *memory->sorted},
        {&memory->stack, tensors, sizeof *memory->stack},
        {&memory->moments, tensors, sizeof *memory->moments},
        {&memory->first, positions + 2, sizeof *memory->first},
        {&memory->span_first, positions + 1, sizeof *memory->span_first},
        {&memory->sums, positions + 1, sizeof *memory->sums},
        {&memory->top, positions, sizeof *memory->top},
        {&memory->chunk_top, positions / LAYOUT_CHUNK + 1, sizeof *memory->chunk_top},
        {&memory->live, positions * ((tensors + 63) / 64), sizeof *memory->live},
    };
    size_t bytes = sizeof *memory;
    bytes = (bytes + 63) & ~(size_t)63;
    for (size_t i = 0; i < sizeof pieces / sizeof pieces[0]; i++) {
        char *piece = NULL;
        size_t offset = layout_piece(&bytes, pieces[i].count, pieces[i].size);
        if (base)
            piece = base + offset;
        memcpy(pieces[i].array, &piece, sizeof piece);
    }
    return bytes;
}

int ah_layout_reserve(struct ah_layout *layout, size_t n_tensors, size_t n_positions, struct ah_error *err)
{
    struct ah_layout_memory *old = layout->memory;
    if (old && old->max_tensors >= n_tensors && old->max_positions >= n_positions)
        return AH_OK;
    if (n_tensors >= (size_t)1 << LAYOUT_INDEX_BITS || n_positions >= (size_t)1 << LAYOUT_INDEX_BITS)
        return ah_error_set(err, AH_E_USAGE,
                            "a layout of %zu tensors over %zu positions is too large; at most %u", n_tensors,
                            n_positions, (1U << LAYOUT_INDEX_BITS) - 1);
    size_t tensors = old && old->max_tensors > n_tensors ? old->max_tensors : n_tensors;
    size_t positions = old && old->max_positions > n_positions ? old->max_positions : n_positions;
    struct ah_layout_memory pieces = {.max_tensors = tensors, .max_positions = positions};
    char *base = malloc(layout_cut(&pieces, NULL, tensors, positions));
    if (!base)
        return ah_error_memory(err);
    (void)layout_cut(&pieces, base, tensors, positions);
    memcpy(base, &pieces, sizeof pieces);
    free(old);
    layout->memory = (void *)base;
    return AH_OK;
}

void ah_layout_release(struct ah_layout *layout)
{
    free(layout->memory);
    layout->memory = NULL;
}

/* ---- live bytes ---- */

static uint64_t layout_units(uint64_t bytes)
{
    return bytes / AH_LAYOUT_ALIGN + (bytes % AH_LAYOUT_ALIGN != 0);
}

static bool layout_lives_at(const struct ah_layout_tensor *tensor, uint32_t position)
{
    if (tensor->from <= tensor->to)
        return tensor->from <= position && position <= tensor->to;
    return position <= tensor->to || tensor->from <= position;
}

/* Adds `units` to an interval. `sums` has differences between positions, so `units` is subtracted after its end. */
static void layout_add_interval(uint64_t *sums, size_t positions, uint32_t from, uint32_t to, uint64_t units)
{
    sums[from] += units;
    sums[to + 1] -= units; /* sums has positions + 1 entries */
    if (from > to) {
        sums[0] += units;
        sums[positions] -= units;
    }
}

/* Rounds sizes and returns their sum, at most LAYOUT_UNITS_MAX. */
static uint64_t layout_take_units(struct ah_layout_memory *memory, const struct ah_layout_tensor *tensors,
                                  size_t n)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < n; i++) {
        memory->units[i] = layout_units(tensors[i].bytes);
        sum = memory->units[i] > LAYOUT_UNITS_MAX - sum ? LAYOUT_UNITS_MAX : sum + memory->units[i];
    }
    return sum;
}

static uint32_t layout_fullest(const uint64_t *sums, size_t positions, uint64_t *ret_units)
{
    uint32_t fullest = 0;
    uint64_t units = 0, most = 0;
    for (uint32_t p = 0; p < positions; p++) {
        units += sums[p];
        if (units > most) {
            most = units;
            fullest = p;
        }
    }
    *ret_units = most;
    return fullest;
}

/* Sets the result for tensors that fit nowhere. */
static void layout_too_large(const struct ah_layout_tensor *tensors, size_t n,
                             struct ah_layout_result *ret_result)
{
    struct ah_layout_result result = {.peak_bytes = LAYOUT_UNITS_MAX * AH_LAYOUT_ALIGN};
    result.live_bytes = result.peak_bytes;
    if (n)
        result.by_class[tensors[0].layout_class] = result.peak_bytes;
    *ret_result = result;
}

void ah_layout_live(struct ah_layout *layout, const struct ah_layout_tensor *tensors, size_t n,
                    size_t positions, struct ah_layout_result *ret_result)
{
    struct ah_layout_memory *memory = layout->memory;
    struct ah_layout_result result = {0};
    assert(!n || (memory && n <= memory->max_tensors && positions <= memory->max_positions && positions));
    if (n && layout_take_units(memory, tensors, n) >= LAYOUT_UNITS_MAX) {
        layout_too_large(tensors, n, ret_result);
        return;
    }
    if (n) {
        uint64_t units;
        memset(memory->sums, 0, (positions + 1) * sizeof *memory->sums);
        for (size_t i = 0; i < n; i++)
            layout_add_interval(memory->sums, positions, tensors[i].from, tensors[i].to, memory->units[i]);
        result.peak_position = layout_fullest(memory->sums, positions, &units);
        result.live_bytes = result.peak_bytes = units * AH_LAYOUT_ALIGN;
    }
    for (size_t i = 0; i < n; i++)
        if (layout_lives_at(&tensors[i], result.peak_position))
            result.by_class[tensors[i].layout_class] += memory->units[i] * AH_LAYOUT_ALIGN;
    *ret_result = result;
}

/* ---- order of beginning ---- */

/* Sorts tensors by `from`, stably, into `sorted`: a counting sort. */
static void layout_sort_by_from(struct ah_layout_memory *memory, const struct ah_layout_tensor *tensors,
                                size_t n, size_t positions)
{
    memset(memory->first, 0, (positions + 2) * sizeof *memory->first);
    for (size_t i = 0; i < n; i++)
        memory->first[tensors[i].from + 2]++;
    for (size_t p = 2; p < positions + 2; p++)
        memory->first[p] += memory->first[p - 1];
    for (uint32_t i = 0; i < n; i++)
        memory->sorted[memory->first[tensors[i].from + 1]++] = i;
}

/* ---- the stack ---- */

uint32_t ah_layout_cut(struct ah_layout_memory *memory, const struct ah_layout_tensor *tensors,
                       const uint32_t *indices, size_t n, size_t positions)
{
    /* units that cross the boundary before each position, as differences */
    uint64_t *crossing = memory->sums;
    uint64_t units = 0, fewest = UINT64_MAX;
    uint32_t cut = 0;
    memset(crossing, 0, (positions + 1) * sizeof *crossing);
    for (size_t i = 0; i < n; i++) {
        const struct ah_layout_tensor *tensor = &tensors[indices[i]];
        if (tensor->from != tensor->to) /* crosses the boundaries before from + 1, ..., before `to` */
            layout_add_interval(crossing, positions, (uint32_t)((tensor->from + 1) % positions), tensor->to,
                                memory->units[indices[i]]);
    }
    for (uint32_t p = 0; p < positions; p++) {
        units += crossing[p];
        if (units < fewest) {
            fewest = units;
            cut = p;
        }
    }
    return cut;
}

/* Sorts stacked tensors by where they begin. Of tensors that begin together, the longest-lived comes first. */
static void layout_sort_stack(struct ah_layout_memory *memory, const struct ah_layout_tensor *tensors,
                              size_t n, uint32_t cut, size_t positions)
{
    for (size_t i = 0; i < n; i++) {
        uint32_t index = memory->stack[i];
        uint64_t from = layout_turn(tensors[index].from, cut, positions);
        uint64_t ends_before = positions - layout_turn(tensors[index].to, cut, positions);
        memory->keys[i] = from << (2 * LAYOUT_INDEX_BITS) | ends_before << LAYOUT_INDEX_BITS | i;
    }
    ah_layout_sort(memory->keys, n);
    for (size_t i = 0; i < n; i++)
        memory->sorted[i] = memory->stack[memory->keys[i] & LAYOUT_INDEX_MASK];
    memcpy(memory->stack, memory->sorted, n * sizeof *memory->stack);
}

/* Places the stack above `base` and sets `top` for every position. */
static void layout_place_stack(struct ah_layout_memory *memory, const struct ah_layout_tensor *tensors,
                               size_t n, size_t positions, uint64_t base)
{
    uint32_t cut = n ? ah_layout_cut(memory, tensors, memory->stack, n, positions) : 0;
    uint32_t *alive = memory->moments; /* live tensors that did not cross the cut, from the bottom up */
    size_t depth = 0, next = 0;
    layout_sort_stack(memory, tensors, n, cut, positions);
    for (size_t i = 0; i < n; i++) {
        const struct ah_layout_tensor *tensor = &tensors[memory->stack[i]];
        if (layout_turn(tensor->from, cut, positions) <= layout_turn(tensor->to, cut, positions))
            continue;
        memory->best[memory->stack[i]] = base; /* crosses the cut (3) */
        base += memory->units[memory->stack[i]];
    }
    for (uint32_t p = 0; p < positions; p++) {
        while (depth && layout_turn(tensors[alive[depth - 1]].to, cut, positions) < p)
            depth--;
        for (; next < n && layout_turn(tensors[memory->stack[next]].from, cut, positions) == p; next++) {
            uint32_t index = memory->stack[next];
            if (layout_turn(tensors[index].to, cut, positions) < p)
                continue;
            uint32_t under = depth ? alive[depth - 1] : 0;
            memory->best[index] = depth ? memory->best[under] + memory->units[under] : base;
            alive[depth++] = index;
        }
        uint32_t highest = depth ? alive[depth - 1] : 0;
        memory->top[(p + cut) % positions] = depth ? memory->best[highest] + memory->units[highest] : base;
    }
}

/* ---- the whole layout ---- */

/* Places persistent tensors at the bottom, and lists stacked tensors. Returns the end of the persistent ones. */
static uint64_t layout_part(struct ah_layout_memory *memory, const struct ah_layout_tensor *tensors, size_t n,
                            size_t *ret_stack)
{
    uint64_t base = 0;
    *ret_stack = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (tensors[i].persistent) {
            memory->best[i] = base;
            base += memory->units[i];
        } else if (tensors[i].stacked) {
            memory->stack[(*ret_stack)++] = i;
        }
    }
    return base;
}

/* Lists the other tensors by their first position. Spans live over several positions, moments at a single one. */
static void layout_take_others(struct ah_layout_memory *memory, const struct ah_layout_tensor *tensors,
                               size_t n, size_t positions)
{
    layout_sort_by_from(memory, tensors, n, positions);
    memory->n_spans = memory->n_moments = 0;
    for (size_t i = 0; i < n; i++) {
        const struct ah_layout_tensor *tensor = &tensors[memory->sorted[i]];
        if (tensor->persistent || tensor->stacked)
            continue;
        if (tensor->from == tensor->to) {
            memory->moments[memory->n_moments++] = memory->sorted[i];
            continue;
        }
        memory->spans[memory->n_spans++] =
            (struct layout_span){.tensor = memory->sorted[i], .from = tensor->from, .to = tensor->to};
    }
}

void ah_layout_place(struct ah_layout *layout, struct ah_layout_tensor *tensors, size_t n, size_t positions,
                     struct ah_layout_result *ret_result)
{
    struct ah_layout_memory *memory = layout->memory;
    size_t n_stack;
    ah_layout_live(layout, tensors, n, positions, ret_result);
    if (!n)
        return;
    if (ret_result->live_bytes >= LAYOUT_UNITS_MAX * AH_LAYOUT_ALIGN) {
        for (size_t i = 0; i < n; i++)
            tensors[i].offset = ret_result->peak_bytes;
        return;
    }
    uint64_t base = layout_part(memory, tensors, n, &n_stack);
    layout_place_stack(memory, tensors, n_stack, positions, base);
    layout_take_others(memory, tensors, n, positions);
    ah_layout_fit(memory, tensors, positions,
                  (struct layout_heights){.live = ret_result->live_bytes / AH_LAYOUT_ALIGN,
                                          .enough = layout->enough_bytes / AH_LAYOUT_ALIGN});
    ret_result->peak_bytes = 0;
    for (size_t i = 0; i < n; i++) {
        uint64_t end = (memory->best[i] + memory->units[i]) * AH_LAYOUT_ALIGN;
        tensors[i].offset = memory->best[i] * AH_LAYOUT_ALIGN;
        if (end > ret_result->peak_bytes)
            ret_result->peak_bytes = end;
    }
}
