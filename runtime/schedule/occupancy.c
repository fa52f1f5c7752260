/* SPDX-License-Identifier: Apache-2.0
 *
 * 1. Bytes by class are first stored as differences: a tensor's bytes are added at `from` and subtracted after `to`.
 *    Then the differences are added up along the positions.
 * 2. For the highest end at every position, tensors are visited in descending order of their ends. Each marks its
 *    positions that are unmarked. `next` leads from a position p to the first unmarked one at or after p.
 */
#include "runtime/schedule/occupancy.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

const char *const ah_words_occupancy[AH_OCCUPANCY_PARTS] = {
    [AH_CLASS_WEIGHTS] = "weights",     [AH_CLASS_GRADIENTS] = "gradients",
    [AH_CLASS_OPTIMIZER] = "optimizer", [AH_CLASS_ACTIVATIONS] = "activations",
    [AH_CLASS_STAGING] = "staging",     [AH_CLASS_WORKSPACE] = "workspace",
    [AH_OCCUPANCY_GAPS] = "gaps",
};

static const uint8_t part_of[AH_TENSOR_LABELS] = {
    [AH_TENSOR_WEIGHTS] = AH_CLASS_WEIGHTS,     [AH_TENSOR_STATES] = AH_CLASS_OPTIMIZER,
    [AH_TENSOR_FETCHED] = AH_CLASS_STAGING,     [AH_TENSOR_STATE_RING] = AH_CLASS_STAGING,
    [AH_TENSOR_TOKENS] = AH_CLASS_STAGING,      [AH_TENSOR_INPUT] = AH_CLASS_ACTIVATIONS,
    [AH_TENSOR_SAVED] = AH_CLASS_ACTIVATIONS,   [AH_TENSOR_RESIDUAL_GRADIENT] = AH_CLASS_ACTIVATIONS,
    [AH_TENSOR_GRADIENT] = AH_CLASS_GRADIENTS,  [AH_TENSOR_SUM] = AH_CLASS_GRADIENTS,
    [AH_TENSOR_SCRATCH] = AH_CLASS_WORKSPACE,   [AH_TENSOR_OUTPUT] = AH_CLASS_ACTIVATIONS,
    [AH_TENSOR_GROUP_SUM] = AH_CLASS_GRADIENTS, [AH_TENSOR_RECEIVED] = AH_CLASS_GRADIENTS,
};

static uint64_t aligned(uint64_t bytes)
{
    return (bytes + AH_LAYOUT_ALIGN - 1) / AH_LAYOUT_ALIGN * AH_LAYOUT_ALIGN;
}

/* Adds a tensor to its class's differences. These are unsigned and may wrap below 0; their running sums are right. */
static void count_tensor(const struct ah_plan_tensor *tensor, struct ah_occupancy *occupancy)
{
    uint64_t *at = occupancy->bytes[part_of[tensor->label]];
    uint64_t bytes = aligned(tensor->bytes);
    at[tensor->from] += bytes;
    if (tensor->from > tensor->to)
        at[0] += bytes;
    if (tensor->to + 1 < occupancy->positions)
        at[tensor->to + 1] -= bytes;
}

static void add_up(struct ah_occupancy *occupancy)
{
    for (size_t part = 0; part < AH_OCCUPANCY_GAPS; part++)
        for (size_t p = 1; p < occupancy->positions; p++)
            occupancy->bytes[part][p] += occupancy->bytes[part][p - 1];
}

struct end {
    uint64_t bytes;
    size_t from, to;
};

static int by_falling_end(const void *left, const void *right)
{
    const struct end *a = left, *b = right;
    return a->bytes < b->bytes ? 1 : a->bytes > b->bytes ? -1 : 0;
}

static size_t unmarked(size_t *next, size_t position)
{
    size_t root = position;
    while (next[root] != root)
        root = next[root];
    while (next[position] != root) {
        size_t step = next[position];
        next[position] = root;
        position = step;
    }
    return root;
}

static void mark_positions(struct ah_occupancy *occupancy, size_t *next, size_t from, size_t to,
                           uint64_t bytes)
{
    for (size_t p = unmarked(next, from); p <= to; p = unmarked(next, p)) {
        occupancy->top_bytes[p] = bytes;
        next[p] = p + 1;
    }
}

static void mark_tops(const struct ah_plan_arena *plan, struct end *ends, size_t *next,
                      struct ah_occupancy *occupancy)
{
    for (size_t p = 0; p <= occupancy->positions; p++)
        next[p] = p;
    for (size_t i = 0; i < plan->n_tensors; i++) {
        const struct ah_plan_tensor *tensor = &plan->tensors[i];
        ends[i] = (struct end){tensor->offset_bytes + tensor->bytes, tensor->from, tensor->to};
    }
    qsort(ends, plan->n_tensors, sizeof *ends, by_falling_end);
    for (size_t i = 0; i < plan->n_tensors; i++) {
        bool around = ends[i].from > ends[i].to;
        mark_positions(occupancy, next, ends[i].from, around ? occupancy->positions - 1 : ends[i].to,
                       ends[i].bytes);
        if (around)
            mark_positions(occupancy, next, 0, ends[i].to, ends[i].bytes);
    }
}

static void find_gaps(struct ah_occupancy *occupancy)
{
    for (size_t p = 0; p < occupancy->positions; p++) {
        uint64_t live = 0, top = occupancy->top_bytes[p];
        for (size_t part = 0; part < AH_OCCUPANCY_GAPS; part++)
            live += occupancy->bytes[part][p];
        occupancy->bytes[AH_OCCUPANCY_GAPS][p] = top > live ? top - live : 0;
        if (top > occupancy->peak_bytes)
            occupancy->peak_bytes = top;
    }
}

int ah_occupancy_measure(const struct ah_plan *plan, struct ah_arena *arena,
                         struct ah_occupancy *ret_occupancy, struct ah_error *err)
{
    size_t positions = plan->arena.positions;
    struct ah_occupancy occupancy = {.positions = positions};
    struct end *ends = ah_arena_array(arena, plan->arena.n_tensors + 1, sizeof *ends);
    size_t *next = ah_arena_array(arena, positions + 1, sizeof *next);
    bool whole = ends && next;
    for (size_t part = 0; part < AH_OCCUPANCY_PARTS; part++) {
        occupancy.bytes[part] = ah_arena_array(arena, positions, sizeof **occupancy.bytes);
        whole = whole && occupancy.bytes[part];
    }
    occupancy.top_bytes = ah_arena_array(arena, positions, sizeof *occupancy.top_bytes);
    if (!whole || !occupancy.top_bytes)
        return ah_error_memory(err);
    for (size_t i = 0; i < plan->arena.n_tensors; i++)
        count_tensor(&plan->arena.tensors[i], &occupancy);
    add_up(&occupancy);
    mark_tops(&plan->arena, ends, next, &occupancy);
    find_gaps(&occupancy);
    *ret_occupancy = occupancy;
    return AH_OK;
}
