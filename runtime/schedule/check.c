/* SPDX-License-Identifier: Apache-2.0
 *
 * Check: the parts in turn. Each may take for granted what those before it have found; none that a number is small.
 */
#include "runtime/schedule/check.h"

#include "runtime/schedule/check_internal.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- differences ---- */

bool ah_check_near(double a, double b)
{
    return fabs(a - b) <= 1e-9 * fmax(fabs(a), fabs(b));
}

int ah_check_number(const char *place, double stated, double derived, const char *source,
                    struct ah_error *err)
{
    if (ah_check_near(stated, derived))
        return AH_OK;
    return ah_error_set(err, AH_E_DOCUMENT, "%s: is %.17g; %.17g %s", place, stated, derived, source);
}

int ah_check_count(const char *place, uint64_t stated, uint64_t derived, const char *source,
                   struct ah_error *err)
{
    if (stated == derived)
        return AH_OK;
    return ah_error_set(err, AH_E_DOCUMENT, "%s: is %" PRIu64 "; %" PRIu64 " %s", place, stated, derived,
                        source);
}

/* ---- ops ---- */

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
    case AH_PLAN_SEND_OUTPUT:
    case AH_PLAN_SEND_INPUT_GRADIENT:
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

/* From the lowest trained block up. */
static int check_backward(const struct ah_plan *plan, const struct ah_plan_block *block, bool runs,
                          uint64_t count, struct ah_error *err)
{
    bool head = block->index + 1 == plan->n_blocks;
    if (count == (runs && !head ? plan->training.micro_batches : 0))
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
    bool runs = false;
    int rc = AH_OK;
    for (size_t i = 0; i < plan->n_blocks && !rc; i++) {
        runs = runs || plan->blocks[i].optimizer != AH_OPTIMIZER_NONE;
        for (int kind = 0; kind < OP_KINDS && !rc; kind++)
            rc = check_count(plan, &plan->blocks[i], (enum ah_plan_op_kind)kind, counts[i][kind], err);
        if (!rc)
            rc = check_backward(plan, &plan->blocks[i], runs, counts[i][AH_PLAN_BACKWARD], err);
        norms += counts[i][AH_PLAN_NORM];
    }
    return rc ? rc : check_norm(plan, norms, err);
}

/* Of a part, whose job is known, the ops are compared one by one (check_rebuild.c). */
static int check_ops(const struct ah_plan *plan, struct ah_error *err)
{
    if (plan->part)
        return AH_OK;
    uint64_t(*counts)[OP_KINDS] = calloc(plan->n_blocks, sizeof *counts);
    if (!counts)
        return ah_error_memory(err);
    for (size_t i = 0; i < plan->n_ops; i++)
        counts[plan->ops[i].block][plan->ops[i].op]++;
    int rc = check_counts(plan, (const uint64_t(*)[OP_KINDS])counts, err);
    free(counts);
    return rc;
}

/* ---- all ---- */

/* The plan, compiled again with the job that it shows. */
static int check_job(const struct ah_plan *plan, struct ah_error *err)
{
    struct ah_arena arena = {0};
    struct ah_check_job made;
    int rc = (plan->part ? ah_check_part : ah_check_sizes)(plan, &arena, &made, err);
    const struct ah_check_told told = {
        .job = &made.job, .costs = &made.costs, .base_us = made.base_us, .padding_bytes = made.padding_bytes};
    if (!rc)
        rc = ah_check_work(plan, &made.job, err);
    if (!rc)
        rc = ah_check_rebuild(plan, &told, err);
    ah_arena_release(&arena);
    return rc;
}

int ah_schedule_check(const struct ah_plan *plan, struct ah_error *err)
{
    static int (*const parts[])(const struct ah_plan *, struct ah_error *) = {
        check_ops, ah_check_arena, check_job, ah_check_links, ah_check_times, ah_check_claims};
    int rc = AH_OK;
    for (size_t i = 0; i < sizeof parts / sizeof parts[0] && !rc; i++)
        rc = parts[i](plan, err);
    return rc;
}

int ah_schedule_check_against(const struct ah_plan *plan, const struct ah_job *job,
                              const struct ah_costs *costs, struct ah_error *err)
{
    const struct ah_check_told told = {.job = job, .costs = costs, .from_documents = true};
    return ah_check_rebuild(plan, &told, err);
}
