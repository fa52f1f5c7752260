/* SPDX-License-Identifier: Apache-2.0
 *
 * Tensors are swept by compute position: those live there stand in one list by offset, where a new one only has to be
 * compared with its neighbours. A tensor that lives over the end of the iteration is swept as two.
 */
#include "runtime/schedule/check.h"

#include "runtime/schedule/layout.h"
#include "runtime/schedule/replay.h"

#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* ---- 1. ops ---- */

/* How often a block must have an op of a kind; ANY: not said here; SOME: at least once. */
enum { ANY = UINT32_MAX, SOME = UINT32_MAX - 1 };

static uint64_t expected_ops(const struct ah_plan *plan, const struct ah_plan_block *block,
                             enum ah_plan_op_kind kind)
{
    uint64_t each = plan->training.micro_batches;
    bool host = block->optimizer == AH_OPTIMIZER_HOST;
    bool streamed = block->optimizer == AH_OPTIMIZER_STREAMED;
    bool sums_on_host = host && block->accumulator == AH_ACCUMULATOR_HOST;
    bool fetched = block->weights == AH_WEIGHTS_HOST;
    switch (kind) {
    case AH_PLAN_FORWARD:
        return each;
    case AH_PLAN_FETCH:
        return fetched ? SOME : 0;
    case AH_PLAN_GATHER:
        return fetched && !block->index ? each : 0;
    case AH_PLAN_SEND_GRADIENTS:
        return sums_on_host ? each : host;
    case AH_PLAN_ACCUMULATE:
        return sums_on_host ? each : 0;
    case AH_PLAN_HOST_ADAM:
        return host;
    case AH_PLAN_UPLOAD:
        return host && !fetched;
    case AH_PLAN_DEVICE_ADAM:
        return streamed || block->optimizer == AH_OPTIMIZER_DEVICE;
    case AH_PLAN_STATES_IN:
    case AH_PLAN_STATES_OUT:
        return streamed;
    case AH_PLAN_COLLECTIVE:
        return 0;
    case AH_PLAN_BACKWARD: /* frozen blocks below all trained ones have none */
    case AH_PLAN_NORM:     /* stands for all blocks */
        break;
    }
    return ANY;
}

enum { OP_KINDS = AH_PLAN_COLLECTIVE + 1 };

static int check_count(const struct ah_plan *plan, const struct ah_plan_block *block,
                       enum ah_plan_op_kind kind, uint64_t count, struct ah_error *err)
{
    uint64_t expected = expected_ops(plan, block, kind);
    if (expected == ANY || count == expected || (expected == SOME && count))
        return AH_OK;
    return ah_error_set(err, AH_E_DOCUMENT,
                        "blocks[%" PRIu64 "]: activations %s, weights %s, optimizer %s need %s%" PRIu64
                        " %s; ops have %" PRIu64,
                        block->index, ah_words_activations[block->activations],
                        ah_words_weights[block->weights], ah_words_optimizer[block->optimizer],
                        expected == SOME ? "at least " : "", expected == SOME ? 1 : expected,
                        ah_words_plan_op[kind], count);
}

static int check_backward(const struct ah_plan *plan, const struct ah_plan_block *block, uint64_t count,
                          struct ah_error *err)
{
    bool head = block->index + 1 == plan->n_blocks;
    bool trained = block->optimizer != AH_OPTIMIZER_NONE;
    if (head ? !count : count == plan->training.micro_batches || (!count && !trained))
        return AH_OK;
    return ah_error_set(err, AH_E_DOCUMENT, "blocks[%" PRIu64 "]: ops have %" PRIu64 " backward%s",
                        block->index, count, head ? "; the head's forward does its backward" : "");
}

static int check_norm(const struct ah_plan *plan, uint64_t count, struct ah_error *err)
{
    bool clipped = plan->training.clip > 0;
    if (count == clipped)
        return AH_OK;
    return ah_error_set(err, AH_E_DOCUMENT, "ops: training.clip %s; ops have %" PRIu64 " norm",
                        clipped ? "needs one norm" : "is 0 and needs no norm", count);
}

static int check_counts(const struct ah_plan *plan, const uint64_t (*counts)[OP_KINDS], struct ah_error *err)
{
    uint64_t norms = 0;
    int rc = AH_OK;
    for (size_t i = 0; i < plan->n_blocks && !rc; i++) {
        for (int kind = 0; kind < OP_KINDS && !rc; kind++)
            rc = check_count(plan, &plan->blocks[i], (enum ah_plan_op_kind)kind, counts[i][kind], err);
        if (!rc)
            rc = check_backward(plan, &plan->blocks[i], counts[i][AH_PLAN_BACKWARD], err);
        norms += counts[i][AH_PLAN_NORM];
    }
    return rc ? rc : check_norm(plan, norms, err);
}

static int check_ops(const struct ah_plan *plan, struct ah_error *err)
{
    uint64_t(*counts)[OP_KINDS] = calloc(plan->n_blocks, sizeof *counts);
    if (!counts)
        return ah_error_memory(err);
    for (size_t i = 0; i < plan->n_ops; i++)
        counts[plan->ops[i].block][plan->ops[i].op]++;
    int rc = check_counts(plan, (const uint64_t(*)[OP_KINDS])counts, err);
    free(counts);
    return rc;
}

/* ---- 2. memory ---- */

/* A tensor's life without a gap: `from` to `to`, at most once around. */
struct life {
    uint64_t from, to;
    uint32_t tensor;
};

struct sweep {
    const struct ah_plan *plan;
    struct life *lives; /* by `from` */
    size_t n_lives;
    struct life *live; /* by offset of their tensors */
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

/* Where a tensor of this offset belongs in the list. */
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

/* `low` begins at or before `high`. */
static int check_pair(const struct sweep *sweep, const struct life *low, const struct life *high,
                      uint64_t position, struct ah_error *err)
{
    const struct ah_plan_tensor *below = tensor_of(sweep, low);
    const struct ah_plan_tensor *above = tensor_of(sweep, high);
    if (below->offset_bytes + below->bytes <= above->offset_bytes)
        return AH_OK;
    return ah_error_set(err, AH_E_DOCUMENT,
                        "arena.tensors[%" PRIu32 "]: '%.80s' overlaps '%.80s' (arena.tensors[%" PRIu32
                        "]): both live at compute position %" PRIu64,
                        high->tensor, above->name, below->name, low->tensor, position);
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
        uint64_t end = plan->arena.tensors[i].offset_bytes + plan->arena.tensors[i].bytes;
        peak_bytes = end > peak_bytes ? end : peak_bytes;
    }
    if (peak_bytes <= plan->memory.device_bytes && plan->memory.device_bytes - peak_bytes < AH_LAYOUT_ALIGN)
        return AH_OK;
    return ah_error_set(err, AH_E_DOCUMENT,
                        "memory.device_bytes: is %" PRIu64 "; the highest tensor ends at %" PRIu64,
                        plan->memory.device_bytes, peak_bytes);
}

static int check_arena(const struct ah_plan *plan, struct ah_error *err)
{
    size_t room = 2 * plan->arena.n_tensors;
    struct sweep sweep = {
        .plan = plan, .lives = malloc(room * sizeof *sweep.lives), .live = malloc(room * sizeof *sweep.live)};
    int rc = sweep.lives && sweep.live ? check_overlaps(&sweep, err) : ah_error_memory(err);
    free(sweep.lives);
    free(sweep.live);
    return rc ? rc : check_peak(plan, err);
}

/* ---- 3. orders ---- */

enum { ITERATIONS = 4, ITERATIONS_UNSTEADY = 10 };

static int check_period(const struct ah_plan *plan, struct ah_error *err)
{
    static const size_t tries[] = {ITERATIONS, ITERATIONS_UNSTEADY};
    double stated_us = plan->time.step_us;
    double period_us = 0;
    for (size_t i = 0; i < sizeof tries / sizeof tries[0]; i++) {
        struct ah_arena arena = {0};
        struct ah_replay replay;
        int rc = ah_replay_run(plan, NULL, tries[i], &arena, &replay, err);
        period_us = rc ? 0 : replay.period_us;
        ah_arena_release(&arena);
        if (rc)
            return rc;
        if (fabs(period_us - stated_us) <= 1e-6 * stated_us)
            return AH_OK;
    }
    return ah_error_set(err, AH_E_DOCUMENT, "time.step_us: is %.17g; these orders take %.17g", stated_us,
                        period_us);
}

int ah_schedule_check(const struct ah_plan *plan, struct ah_error *err)
{
    static int (*const parts[])(const struct ah_plan *, struct ah_error *) = {check_ops, check_arena,
                                                                              check_period};
    int rc = AH_OK;
    for (size_t i = 0; i < sizeof parts / sizeof parts[0] && !rc; i++)
        rc = parts[i](plan, err);
    return rc;
}
