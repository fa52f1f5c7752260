/* SPDX-License-Identifier: Apache-2.0
 *
 * Visits tensors in the order in which they begin. Live tensors are in a list sorted by offset, so a new tensor is
 * compared with its two neighbours only. A tensor that lives past the end of the iteration is treated as two tensors.
 */
#include "runtime/schedule/check_internal.h"

#include "runtime/schedule/layout.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* The lifetime of a tensor, or one of two parts of it, split where the iteration ends. `from` <= `to`. */
struct life {
    uint64_t from, to;
    uint32_t tensor;
};

struct sweep {
    const struct ah_plan *plan;
    struct life *lives; /* sorted by `from` */
    size_t n_lives;
    struct life *live; /* sorted by the offsets of their tensors */
    size_t n_live;
};

static const struct ah_plan_tensor *tensor_of(const struct sweep *sweep, const struct life *life)
{
    return &sweep->plan->arena.tensors[life->tensor];
}

static int by_from(const void *a, const void *b)
{
    const struct life *left = a;
    const struct life *right = b;
    if (left->from != right->from)
        return left->from < right->from ? -1 : 1;
    return left->tensor < right->tensor ? -1 : left->tensor > right->tensor;
}

static void collect_lives(struct sweep *sweep)
{
    const struct ah_plan_arena *arena = &sweep->plan->arena;
    for (size_t i = 0; i < arena->n_tensors; i++) {
        const struct ah_plan_tensor *tensor = &arena->tensors[i];
        bool around = tensor->from > tensor->to;
        uint64_t to = around ? arena->positions - 1 : tensor->to;
        sweep->lives[sweep->n_lives++] = (struct life){tensor->from, to, (uint32_t)i};
        if (around)
            sweep->lives[sweep->n_lives++] = (struct life){0, tensor->to, (uint32_t)i};
    }
    qsort(sweep->lives, sweep->n_lives, sizeof *sweep->lives, by_from);
}

static void drop_dead(struct sweep *sweep, uint64_t position)
{
    size_t kept = 0;
    for (size_t i = 0; i < sweep->n_live; i++)
        if (sweep->live[i].to >= position)
            sweep->live[kept++] = sweep->live[i];
    sweep->n_live = kept;
}

/* Returns the index at which a tensor with this offset belongs in the list of live tensors. */
static size_t place_of(const struct sweep *sweep, uint64_t offset_bytes)
{
    size_t low = 0;
    size_t high = sweep->n_live;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (tensor_of(sweep, &sweep->live[middle])->offset_bytes < offset_bytes)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Checks that two live tensors do not overlap. The offset of `low` must not be higher than that of `high`. */
static int check_pair(const struct sweep *sweep, const struct life *low, const struct life *high,
                      uint64_t position, struct ah_error *err)
{
    const struct ah_plan_tensor *below = tensor_of(sweep, low);
    const struct ah_plan_tensor *above = tensor_of(sweep, high);
    if (below->offset_bytes + below->bytes <= above->offset_bytes)
        return AH_OK;
    char above_name[AH_NAME_MAX], below_name[AH_NAME_MAX];
    ah_name_tensor(sweep->plan, high->tensor, above_name);
    ah_name_tensor(sweep->plan, low->tensor, below_name);
    return ah_error_set(err, AH_E_DOCUMENT,
                        "arena.tensors[%" PRIu32 "]: '%s' overlaps '%s' (arena.tensors[%" PRIu32
                        "]): both live at compute position %" PRIu64,
                        high->tensor, above_name, below_name, low->tensor, position);
}

static int add_life(struct sweep *sweep, const struct life *life, struct ah_error *err)
{
    size_t at = place_of(sweep, tensor_of(sweep, life)->offset_bytes);
    int rc = at ? check_pair(sweep, &sweep->live[at - 1], life, life->from, err) : AH_OK;
    if (!rc && at < sweep->n_live)
        rc = check_pair(sweep, life, &sweep->live[at], life->from, err);
    memmove(&sweep->live[at + 1], &sweep->live[at], (sweep->n_live - at) * sizeof *sweep->live);
    sweep->live[at] = *life;
    sweep->n_live++;
    return rc;
}

static int check_overlaps(struct sweep *sweep, struct ah_error *err)
{
    int rc = AH_OK;
    collect_lives(sweep);
    for (size_t i = 0; i < sweep->n_lives && !rc; i++) {
        if (!i || sweep->lives[i].from != sweep->lives[i - 1].from)
            drop_dead(sweep, sweep->lives[i].from);
        rc = add_life(sweep, &sweep->lives[i], err);
    }
    return rc;
}

static int check_peak(const struct ah_plan *plan, struct ah_error *err)
{
    uint64_t peak_bytes = 0;
    for (size_t i = 0; i < plan->arena.n_tensors; i++) {
        const struct ah_plan_tensor *tensor = &plan->arena.tensors[i];
        uint64_t end =
            (tensor->offset_bytes + tensor->bytes + AH_LAYOUT_ALIGN - 1) / AH_LAYOUT_ALIGN * AH_LAYOUT_ALIGN;
        peak_bytes = end > peak_bytes ? end : peak_bytes;
        if (tensor->offset_bytes % AH_LAYOUT_ALIGN)
            return ah_error_set(err, AH_E_DOCUMENT,
                                "arena.tensors[%zu].offset_bytes: is %" PRIu64 ", not a multiple of %d", i,
                                tensor->offset_bytes, AH_LAYOUT_ALIGN);
    }
    if (peak_bytes == plan->memory.device_bytes)
        return AH_OK;
    return ah_error_set(err, AH_E_DOCUMENT,
                        "memory.device_bytes: is %" PRIu64 "; the highest tensor ends at %" PRIu64,
                        plan->memory.device_bytes, peak_bytes);
}

int ah_check_arena(const struct ah_plan *plan, struct ah_error *err)
{
    size_t room = 2 * plan->arena.n_tensors;
    struct sweep sweep = {
        .plan = plan, .lives = malloc(room * sizeof *sweep.lives), .live = malloc(room * sizeof *sweep.live)};
    int rc = sweep.lives && sweep.live ? check_overlaps(&sweep, err) : ah_error_memory(err);
    free(sweep.lives);
    free(sweep.live);
    return rc ? rc : check_peak(plan, err);
}
