/* SPDX-License-Identifier: Apache-2.0
 *
 * One pipeline without contention: every pass starts as soon as its stage is free and its input has arrived.
 */
#include "planner/cluster/sim/stage_sim.h"
#include "runtime/schedule/turns.h"

#include <stdlib.h>

struct alone {
    const struct ah_pipeline *pipeline;
    double *down_us; /* (stages): time of a send to the next stage */
    double *free_us; /* (stages): the time from which the stage is free */
    uint64_t *next;  /* (stages): index of the next of 2m passes */
    double *outputs; /* (stages, m): arrival of the output at the next stage; negative: not yet */
    double *inputs;  /* (stages, m): arrival of the gradient at the previous stage */
};

/* Returns the earliest start of a pass; negative: not known yet. */
static double ready_us(const struct alone *a, size_t i, struct ah_turn turn)
{
    uint64_t m = a->pipeline->micro_batches;
    double arrived = 0;
    if (!turn.backward && i > 0)
        arrived = a->outputs[(i - 1) * m + turn.micro_batch];
    else if (turn.backward && i + 1 < a->pipeline->n_stages)
        arrived = a->inputs[(i + 1) * m + turn.micro_batch];
    if (arrived < 0)
        return -1;
    return arrived > a->free_us[i] ? arrived : a->free_us[i];
}

/* Runs passes of a stage while their inputs are known. Returns the number of passes run. */
static uint64_t run_passes(struct alone *a, size_t i)
{
    const struct ah_stage *stage = &a->pipeline->stages[i];
    uint64_t m = a->pipeline->micro_batches, done = 0;
    while (a->next[i] < 2 * m) {
        struct ah_turn turn = ah_turn_of(i, a->pipeline->n_stages, m, a->next[i]);
        double at = ready_us(a, i, turn);
        if (at < 0)
            break;
        at += turn.backward ? stage->backward_us : stage->forward_us;
        if (!turn.backward && i + 1 < a->pipeline->n_stages)
            a->outputs[i * m + turn.micro_batch] = at += a->down_us[i];
        if (turn.backward && i > 0)
            a->inputs[i * m + turn.micro_batch] = at += a->down_us[i - 1];
        a->free_us[i] = at;
        a->next[i]++;
        done++;
    }
    return done;
}

int ah_pipeline_time(const struct ah_cluster_problem *problem, const struct ah_pipeline *pipeline,
                     double *ret_us, struct ah_error *err)
{
    size_t n = pipeline->n_stages, cells = n * pipeline->micro_batches;
    double *numbers = calloc(2 * cells + 2 * n, sizeof *numbers);
    uint64_t *next = calloc(n, sizeof *next);
    if (!numbers || !next) {
        free(numbers);
        free(next);
        return ah_error_memory(err);
    }
    struct alone a = {pipeline, numbers, numbers + n, next, numbers + 2 * n, numbers + 2 * n + cells};
    for (size_t i = 0; i < 2 * cells; i++)
        a.outputs[i] = -1;
    for (size_t i = 0; i + 1 < n; i++)
        a.down_us[i] = ah_problem_send_us(problem, pipeline->stages[i].class, pipeline->stages[i + 1].class);
    for (uint64_t left = 2 * cells; left;)
        for (size_t i = 0; i < n; i++)
            left -= run_passes(&a, i);
    *ret_us = a.free_us[0]; /* the first stage's last backward is the last pass of all */
    free(numbers);
    free(next);
    return AH_OK;
}
