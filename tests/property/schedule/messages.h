/* SPDX-License-Identifier: Apache-2.0
 *
 * Checks messages between the stages of a pipeline and the memory of each message, from the starts and ends of compute
 * positions. A message occupies its place from the start of sending until its last reader is done.
 *
 *     struct messages_stage stages[] = {{plan, 1, start_us, end_us}, ...};
 *     messages_check(stages, n);
 */
#ifndef AH_TESTS_PROPERTY_SCHEDULE_MESSAGES_H
#define AH_TESTS_PROPERTY_SCHEDULE_MESSAGES_H

#include "schemas/plan.h"
#include "tests/support/check.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

struct messages_stage {
    const struct ah_plan *plan;
    size_t steps;
    const double *start_us, *end_us; /* (steps, positions) */
};

static inline const struct ah_plan_op *messages_op(const struct ah_plan *plan, size_t position)
{
    return ah_plan_compute_op(plan, position);
}

/* Returns the position of this op in a stage, or SIZE_MAX if there is none. */
static inline size_t messages_find(const struct ah_plan *plan, enum ah_plan_op_kind kind, uint64_t block,
                                   uint64_t micro_batch)
{
    for (size_t p = 0; p < plan->lanes.n_order[AH_PLAN_LANE_COMPUTE]; p++) {
        const struct ah_plan_op *op = messages_op(plan, p);
        if (op->op == kind && op->block == block && op->micro_batch == micro_batch)
            return p;
    }
    return SIZE_MAX;
}

/* Returns the last position at which a stage uses the gradient sent to it, or SIZE_MAX if there is none. */
static inline size_t messages_gradient_used(const struct ah_plan *plan, uint64_t micro_batch)
{
    size_t used = SIZE_MAX;
    for (size_t p = 0; p < plan->lanes.n_order[AH_PLAN_LANE_COMPUTE]; p++) {
        const struct ah_plan_op *op = messages_op(plan, p);
        if (op->micro_batch == micro_batch &&
            (op->op == AH_PLAN_BACKWARD || (op->op == AH_PLAN_SEND_INPUT_GRADIENT && op->bytes)))
            used = p;
    }
    return used;
}

/* Checks that the tensor of this name is alive at all positions that run between two times. */
static inline void messages_check_lives(const struct messages_stage *s, size_t step, const char *label,
                                        uint64_t block, uint64_t micro_batch, double from_us, double to_us)
{
    char name[96];
    snprintf(name, sizeof name, "%s.%s.%llu", s->plan->blocks[block].name, label,
             (unsigned long long)micro_batch);
    const struct ah_plan_tensor *tensor = NULL;
    for (size_t t = 0; t < s->plan->arena.n_tensors; t++)
        if (!strcmp(ah_words_tensor[s->plan->arena.tensors[t].label], label) &&
            s->plan->arena.tensors[t].block == block && s->plan->arena.tensors[t].micro_batch == micro_batch)
            tensor = &s->plan->arena.tensors[t];
    if (!tensor)
        fail_msg("there is no '%s'", name);
    size_t n = s->plan->lanes.n_order[AH_PLAN_LANE_COMPUTE];
    for (size_t at = 0; at < s->steps * n; at++) {
        bool lives = at / n == step && at % n >= tensor->from && at % n <= tensor->to;
        if (s->end_us[at] > from_us && s->start_us[at] < to_us && !lives)
            fail_msg("'%s' of step %zu is used at position %zu of step %zu; it lives from %llu to %llu", name,
                     step, at % n, at / n, (unsigned long long)tensor->from, (unsigned long long)tensor->to);
    }
}

/* Checks the messages of a micro-batch between a stage and the next stage. */
static inline void messages_check_between(const struct messages_stage *s, size_t step, uint64_t m)
{
    const struct messages_stage *next = s + 1;
    size_t here = step * s->plan->lanes.n_order[AH_PLAN_LANE_COMPUTE],
           there = step * next->plan->lanes.n_order[AH_PLAN_LANE_COMPUTE];
    uint64_t top = s->plan->n_blocks - 1;
    size_t output = messages_find(s->plan, AH_PLAN_SEND_OUTPUT, top, m);
    size_t made = messages_find(s->plan, AH_PLAN_FORWARD, top, m), used = messages_gradient_used(s->plan, m);
    size_t gradient = messages_find(next->plan, AH_PLAN_SEND_INPUT_GRADIENT, 0, m);
    size_t backward = messages_find(next->plan, AH_PLAN_BACKWARD, 0, m);
    size_t last = backward != SIZE_MAX ? backward : messages_find(next->plan, AH_PLAN_FORWARD, 0, m);
    messages_check_lives(s, step, "output", top, m, s->start_us[here + made], s->end_us[here + output]);
    messages_check_lives(next, step, "input", 0, m, s->start_us[here + output], next->end_us[there + last]);
    if (used != SIZE_MAX)
        messages_check_lives(s, step, "residual_gradient", top, m, next->start_us[there + gradient],
                             s->end_us[here + used]);
}

static inline void messages_check(const struct messages_stage *stages, size_t n)
{
    for (size_t i = 0; i + 1 < n; i++)
        for (size_t step = 0; step < stages[i].steps; step++)
            for (uint64_t m = 0; m < stages[i].plan->training.micro_batches; m++)
                messages_check_between(&stages[i], step, m);
}

#endif
