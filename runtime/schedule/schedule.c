/* SPDX-License-Identifier: Apache-2.0
 *
 * Schedule: lists the possible configs of a block, and finds the cost of a choice of configs.
 */
#include "runtime/schedule/schedule.h"

#include "runtime/schedule/schedule_internal.h"

#include <stdlib.h>
#include <string.h>

/* ---- configs ---- */

/* True if gradients are sent to the host before ranks add them up, as they are if the weights are on the host. */
static bool leaves_first(const struct ah_job *job, struct ah_config config)
{
    const bool added_up =
        job->part.step_micro_batches || (ah_job_splits_table(job) && !ah_job_joins_table(job));
    return added_up && config.weights == AH_WEIGHTS_HOST && config.optimizer == AH_OPTIMIZER_HOST;
}

/* Lists the possible accumulators; returns how many. Sums stay on the device if this rank joins a split table, or if
 * ranks share states. */
static size_t accumulators(const struct ah_job *job, const struct ah_job_group *group,
                           struct ah_config config, uint8_t ret_accumulators[2])
{
    bool sums = job->adds_up && config.optimizer != AH_OPTIMIZER_NONE;
    bool joins = ah_job_joins_table(job) && group->kind != AH_BLOCK_LAYER;
    ret_accumulators[0] = sums ? AH_ACCUMULATOR_DEVICE : AH_ACCUMULATOR_NONE;
    ret_accumulators[1] = AH_ACCUMULATOR_HOST;
    if (sums && leaves_first(job, config)) {
        ret_accumulators[0] = AH_ACCUMULATOR_HOST;
        return 1;
    }
    return sums && !joins && config.optimizer == AH_OPTIMIZER_HOST && ah_job_shards(job) == 1 ? 2 : 1;
}

static size_t push_configs(const struct ah_job *job, const struct ah_job_group *group,
                           struct ah_config config, struct ah_config *ret_configs)
{
    uint8_t accumulator[2];
    size_t n = accumulators(job, group, config, accumulator);
    for (size_t i = 0; i < n; i++) {
        ret_configs[i] = config;
        ret_configs[i].accumulator = accumulator[i];
    }
    return n;
}

size_t ah_configs(const struct ah_job *job, const struct ah_job_group *group,
                  struct ah_config ret_configs[AH_CONFIGS_MAX])
{
    bool frozen = !group->trained_elements;
    bool ways = group->kind == AH_BLOCK_LAYER && group->backward;
    int first = frozen ? AH_OPTIMIZER_NONE : AH_OPTIMIZER_DEVICE;
    int last = frozen ? AH_OPTIMIZER_NONE : AH_OPTIMIZER_STREAMED;
    int away = ah_job_shards(job) > 1 ? AH_WEIGHTS_GATHERED : AH_WEIGHTS_HOST;
    size_t n = 0;
    for (int weights = AH_WEIGHTS_DEVICE; weights <= away; weights++) {
        for (int optimizer = first; optimizer <= last; optimizer++) {
            if (weights == AH_WEIGHTS_HOST && optimizer == AH_OPTIMIZER_DEVICE)
                continue;
            for (int way = AH_ACTIVATIONS_KEEP;
                 way <= (ways ? AH_ACTIVATIONS_RECOMPUTE : AH_ACTIVATIONS_KEEP); way++)
                n += push_configs(job, group,
                                  (struct ah_config){.activations = (uint8_t)way,
                                                     .weights = (uint8_t)weights,
                                                     .optimizer = (uint8_t)optimizer},
                                  ret_configs + n);
        }
    }
    return n;
}

/* ---- evaluation ---- */

int ah_schedule_init(struct ah_schedule *schedule, const struct ah_job *job, struct ah_error *err)
{
    schedule->memory = calloc(1, sizeof *schedule->memory);
    if (!schedule->memory)
        return ah_error_memory(err);
    schedule->memory->job = job;
    return AH_OK;
}

static int compile(struct ah_schedule_memory *m, const struct ah_choice *choice, struct ah_score *score,
                   struct ah_error *err)
{
    int rc = ah_compile(&m->compile_memory, m->job, choice, &m->compiled, err);
    if (!rc)
        rc = ah_layout_reserve(&m->layout, m->compiled.n_tensors, m->compiled.iteration.positions, err);
    if (rc)
        return rc;
    *score = (struct ah_score){.pinned_bytes = m->compiled.pinned_bytes,
                               .pageable_bytes = m->compiled.pageable_bytes};
    for (size_t i = 0; i < m->compiled.iteration.n_ops; i++) {
        const struct ah_plan_op *op = &m->compiled.iteration.ops[i];
        score->link_bytes += op->bytes;
        score->tiles += op->tiles;
        score->work_us[op->lane] += op->us;
    }
    return AH_OK;
}

int ah_schedule_measure(struct ah_schedule *schedule, const struct ah_choice *choice,
                        struct ah_score *ret_score, struct ah_error *err)
{
    struct ah_schedule_memory *m = schedule->memory;
    int rc = compile(m, choice, ret_score, err);
    if (!rc)
        ah_layout_live(&m->layout, m->compiled.tensors, m->compiled.n_tensors,
                       m->compiled.iteration.positions, &ret_score->device);
    return rc;
}

static void lane_times(const struct ah_sim_run *run, const struct ah_clock_result *result,
                       struct ah_score *score)
{
    const struct ah_clock_span *spans = result->spans + (run->iterations - 2) * run->items->n;
    for (size_t i = 0; i < run->items->n; i++) {
        const struct ah_plan_op *op = &run->iteration->ops[run->items->op[i]];
        score->busy_us[op->lane] += spans[i].finish_us - spans[i].start_us;
    }
}

int ah_schedule_run_frozen(struct ah_schedule_memory *m, struct ah_sim_run *run, struct ah_score *score,
                           struct ah_error *err)
{
    struct ah_clock_result result;
    int rc = ah_dispatch_run_steady(&m->dispatch_memory, run, &m->orders, &result, err);
    if (rc)
        return rc;
    score->period_us = ah_dispatch_period(run, &result);
    ah_dispatch_exposed(run, &result, score->exposed_us);
    lane_times(run, &result, score);
    return AH_OK;
}

int ah_schedule_evaluate(struct ah_schedule *schedule, const struct ah_choice *choice,
                         struct ah_score *ret_score, struct ah_error *err)
{
    struct ah_schedule_memory *m = schedule->memory;
    struct ah_score score;
    int rc = compile(m, choice, &score, err);
    if (!rc)
        rc = ah_grow(&m->op_us, m->compiled.iteration.n_ops, sizeof(double), err);
    if (!rc)
        rc = ah_items_build(&m->items_memory, &m->compiled.iteration, &m->items, err);
    if (rc)
        return rc;
    double *op_us = m->op_us.items;
    for (size_t i = 0; i < m->compiled.iteration.n_ops; i++)
        op_us[i] = m->compiled.iteration.ops[i].us;
    struct ah_sim_run run = {.iteration = &m->compiled.iteration,
                             .items = &m->items,
                             .sharing = &choice->costs->sharing,
                             .op_us = op_us};
    rc = ah_dispatch_load(&m->dispatch_memory, &run, AH_SCHEDULE_ITERATIONS_UNSTEADY, err);
    if (!rc)
        rc = ah_dispatch_freeze(&m->dispatch_memory, &run, choice->knobs.scheduling, &m->orders,
                                &score.period_us, err);
    bool enough = choice->enough_us > 0 && score.period_us > 1.01 * choice->enough_us;
    if (!rc && !enough)
        rc = ah_schedule_run_frozen(m, &run, &score, err);
    if (rc)
        return rc;
    m->layout.enough_bytes = choice->enough_bytes;
    ah_layout_place(&m->layout, m->compiled.tensors, m->compiled.n_tensors, m->compiled.iteration.positions,
                    &score.device);
    m->score = score;
    *ret_score = score;
    return AH_OK;
}

void ah_schedule_release(struct ah_schedule *schedule)
{
    struct ah_schedule_memory *m = schedule->memory;
    if (!m)
        return;
    ah_compile_release(&m->compile_memory);
    ah_items_release(&m->items_memory);
    ah_dispatch_release(&m->dispatch_memory);
    ah_layout_release(&m->layout);
    free(m->op_us.items);
    free(m);
    schedule->memory = NULL;
}
