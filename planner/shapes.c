/* SPDX-License-Identifier: Apache-2.0
 *
 * Shapes, and the walk over them: first improvement, over all single and double steps, from the largest step size to 1. A
 * single step that does not fit is tried with as much more of each other number as makes room for it.
 *
 * A walk has its own best, so that it may go on from a start that is worse than what other walks found: a valley
 * between two hills is left by starting beyond it.
 */
#include "planner/shapes.h"

#include <stdlib.h>
#include <string.h>

enum { MIXES = 3 };

static int32_t layers_of(const struct ah_job *job)
{
    return (int32_t)job->n_blocks - 2;
}

/* ---- shapes ---- */

/* The optimizer of the i-th of the last streamed + host layers. */
static enum ah_optimizer mixed(const struct ah_shape *shape, int32_t i)
{
    int64_t streamed = shape->at[AH_SHAPE_STREAMED], host = shape->at[AH_SHAPE_HOST_OPTIMIZER];
    bool is_streamed = i < streamed;
    if (shape->at[AH_SHAPE_MIX] == 1)
        is_streamed = i >= host;
    else if (shape->at[AH_SHAPE_MIX] == 2)
        is_streamed = (i + 1) * streamed / (streamed + host) > i * streamed / (streamed + host);
    return is_streamed ? AH_OPTIMIZER_STREAMED : AH_OPTIMIZER_HOST;
}

static struct ah_config layer_config(const struct ah_job *job, const struct ah_shape *shape, int32_t layer)
{
    const int32_t *at = shape->at;
    int32_t away = at[AH_SHAPE_STREAMED] + at[AH_SHAPE_HOST_OPTIMIZER];
    int32_t first_away = layers_of(job) - away;
    struct ah_config config = {.activations = AH_ACTIVATIONS_KEEP, .optimizer = AH_OPTIMIZER_DEVICE};
    if (layer < at[AH_SHAPE_RECOMPUTE])
        config.activations = AH_ACTIVATIONS_RECOMPUTE;
    else if (layer < at[AH_SHAPE_RECOMPUTE] + at[AH_SHAPE_SELECTIVE])
        config.activations = AH_ACTIVATIONS_SELECTIVE;
    if (layer >= first_away)
        config.optimizer = (uint8_t)mixed(shape, layer - first_away);
    if (layer < at[AH_SHAPE_HOST_WEIGHTS]) {
        config.weights = AH_WEIGHTS_HOST;
        if (config.optimizer == AH_OPTIMIZER_DEVICE)
            config.optimizer = AH_OPTIMIZER_HOST;
    }
    if (job->training.micro_batches > 1) {
        bool host_sum =
            config.optimizer == AH_OPTIMIZER_HOST && layer >= layers_of(job) - at[AH_SHAPE_HOST_SUMS];
        config.accumulator = host_sum ? AH_ACCUMULATOR_HOST : AH_ACCUMULATOR_DEVICE;
    }
    return config;
}

static struct ah_config allowed_config(const struct ah_job *job, const uint32_t *allowed, size_t block,
                                       struct ah_config wanted)
{
    struct ah_config all[AH_CONFIGS_MAX];
    const struct ah_job_group *group = ah_job_block(job, block);
    size_t n = ah_configs(job, group, all), first = n;
    if (!group->trained_elements) {
        wanted.optimizer = AH_OPTIMIZER_NONE;
        wanted.accumulator = AH_ACCUMULATOR_NONE;
    }
    if (!group->backward)
        wanted.activations = AH_ACTIVATIONS_KEEP;
    for (size_t i = n; i-- > 0;) {
        if (allowed && !(allowed[block] >> i & 1))
            continue;
        if (!memcmp(&all[i], &wanted, sizeof wanted))
            return wanted;
        first = i;
    }
    return all[first];
}

void ah_shapes_configs(const struct ah_job *job, const uint32_t *allowed, const struct ah_shape *shape,
                       struct ah_config *ret_configs)
{
    for (size_t block = 0; block < job->n_blocks; block++) {
        struct ah_config all[AH_CONFIGS_MAX];
        bool end = !block || block + 1 == job->n_blocks;
        struct ah_config wanted;
        if (end) {
            ah_configs(job, ah_job_block(job, block), all);
            wanted = all[shape->at[block ? AH_SHAPE_HEAD : AH_SHAPE_EMBEDDING]];
        } else {
            wanted = layer_config(job, shape, (int32_t)block - 1);
        }
        ret_configs[block] = allowed_config(job, allowed, block, wanted);
    }
}

static void count_config(struct ah_shape *shape, const struct ah_config *config, int32_t blocks)
{
    shape->at[AH_SHAPE_RECOMPUTE] += config->activations == AH_ACTIVATIONS_RECOMPUTE ? blocks : 0;
    shape->at[AH_SHAPE_SELECTIVE] += config->activations == AH_ACTIVATIONS_SELECTIVE ? blocks : 0;
    shape->at[AH_SHAPE_HOST_WEIGHTS] += config->weights == AH_WEIGHTS_HOST ? blocks : 0;
    shape->at[AH_SHAPE_STREAMED] += config->optimizer == AH_OPTIMIZER_STREAMED ? blocks : 0;
    shape->at[AH_SHAPE_HOST_OPTIMIZER] += config->optimizer == AH_OPTIMIZER_HOST ? blocks : 0;
    shape->at[AH_SHAPE_HOST_SUMS] += config->accumulator == AH_ACCUMULATOR_HOST ? blocks : 0;
}

struct ah_shape ah_shapes_of_counts(const struct ah_job *job, const struct ah_milp_result *result,
                                    const uint32_t *counts)
{
    struct ah_shape shape = {{0}};
    for (size_t class = 0; class < result->n_classes; class ++) {
        size_t block = 0;
        while (result->class_of[block] != class)
            block++;
        struct ah_config all[AH_CONFIGS_MAX];
        size_t n = ah_configs(job, ah_job_block(job, block), all);
        for (size_t i = 0; i < n; i++) {
            int32_t blocks = (int32_t)counts[class * AH_CONFIGS_MAX + i];
            if (!blocks)
                continue;
            if (!block)
                shape.at[AH_SHAPE_EMBEDDING] = (int32_t)i;
            else if (block + 1 == job->n_blocks)
                shape.at[AH_SHAPE_HEAD] = (int32_t)i;
            else
                count_config(&shape, &all[i], blocks);
        }
    }
    return shape;
}

struct ah_shape ah_shapes_of_configs(const struct ah_job *job, const struct ah_config *configs)
{
    struct ah_shape shape = {{0}};
    for (size_t block = 0; block < job->n_blocks; block++) {
        struct ah_config all[AH_CONFIGS_MAX];
        size_t n = ah_configs(job, ah_job_block(job, block), all), i = 0;
        while (i < n && memcmp(&all[i], &configs[block], sizeof all[i]))
            i++;
        if (!block)
            shape.at[AH_SHAPE_EMBEDDING] = (int32_t)i;
        else if (block + 1 == job->n_blocks)
            shape.at[AH_SHAPE_HEAD] = (int32_t)i;
        else
            count_config(&shape, &configs[block], 1);
    }
    return shape;
}

/* ---- the walk ---- */

struct walk {
    struct ah_trial *trial;
    const struct ah_job *job;
    const uint32_t *allowed;
    const struct ah_knobs *knobs;
    struct ah_config *configs;
    struct ah_shape best;
    double best_us;      /* 0: nothing fits yet */
    uint64_t best_bytes; /* over the budgets, where nothing fits yet */
    bool spent;
    struct ah_error *err;
};

static bool inside(const struct walk *w, const struct ah_shape *shape)
{
    const int32_t *at = shape->at;
    int32_t layers = layers_of(w->job);
    struct ah_config all[AH_CONFIGS_MAX];
    for (int i = 0; i < AH_SHAPE_NUMBERS; i++)
        if (at[i] < 0)
            return false;
    if (w->job->training.micro_batches == 1 && at[AH_SHAPE_HOST_SUMS])
        return false;
    return at[AH_SHAPE_RECOMPUTE] + at[AH_SHAPE_SELECTIVE] <= layers && at[AH_SHAPE_HOST_WEIGHTS] <= layers &&
           at[AH_SHAPE_STREAMED] + at[AH_SHAPE_HOST_OPTIMIZER] <= layers &&
           at[AH_SHAPE_HOST_SUMS] <= layers && at[AH_SHAPE_MIX] < MIXES &&
           (size_t)at[AH_SHAPE_EMBEDDING] < ah_configs(w->job, ah_job_block(w->job, 0), all) &&
           (size_t)at[AH_SHAPE_HEAD] < ah_configs(w->job, ah_job_block(w->job, w->job->n_blocks - 1), all);
}

/* Tries a shape; it becomes the walk's best where it is. */
static int visit(struct walk *w, const struct ah_shape *shape, bool *improved, bool *ret_fits)
{
    enum ah_verdict verdict;
    *ret_fits = true;
    if (w->spent || !inside(w, shape))
        return AH_OK;
    ah_shapes_configs(w->job, w->allowed, shape, w->configs);
    int rc = ah_trial_run(w->trial, w->configs, w->knobs, &verdict, w->err);
    w->spent = verdict == AH_TRIAL_EXHAUSTED;
    if (rc || w->spent)
        return rc;
    *ret_fits = verdict != AH_TRIAL_TOO_BIG && !w->trial->last_over_bytes;
    bool better;
    if (!*ret_fits) {
        better = !w->best_us && w->trial->last_over_bytes < w->best_bytes;
        w->best_bytes = better ? w->trial->last_over_bytes : w->best_bytes;
    } else {
        double us = w->trial->last.period_us;
        better = us > 0 && (!w->best_us || us < w->best_us * (1 - 1e-7));
        w->best_us = better ? us : w->best_us;
    }
    if (better)
        w->best = *shape;
    *improved |= better;
    return AH_OK;
}

/* A step that does not fit, with just as much of one other number as makes room for it. */
static int relieve(struct walk *w, const struct ah_shape *shape, bool *improved)
{
    static const int32_t amounts[] = {1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96};
    int rc = AH_OK;
    for (int number = 0; number < AH_SHAPE_COUNTS; number++) {
        bool fits = false;
        for (size_t i = 0; i < sizeof amounts / sizeof *amounts && !fits && !rc && !w->spent; i++) {
            struct ah_shape relieved = *shape;
            relieved.at[number] += amounts[i];
            rc = visit(w, &relieved, improved, &fits);
        }
    }
    return rc;
}

static int step(struct walk *w, const struct ah_shape *shape, bool *improved)
{
    bool fits, feasible = w->best_us > 0;
    int rc = visit(w, shape, improved, &fits);
    return !rc && !fits && feasible ? relieve(w, shape, improved) : rc;
}

static int step_one(struct walk *w, int number, int32_t by, bool *improved)
{
    struct ah_shape shape = w->best;
    shape.at[number] += by;
    return step(w, &shape, improved);
}

static int step_two(struct walk *w, int one, int32_t by_one, int other, int32_t by_other, bool *improved)
{
    struct ah_shape shape = w->best;
    bool fits;
    shape.at[one] += by_one;
    shape.at[other] += by_other;
    return visit(w, &shape, improved, &fits);
}

/* All steps of one size once, each from the best so far. */
static int pass(struct walk *w, int32_t size, bool *improved)
{
    int rc = AH_OK;
    for (int i = 0; i < AH_SHAPE_COUNTS && !rc; i++) {
        rc = step_one(w, i, size, improved);
        rc = rc ? rc : step_one(w, i, -size, improved);
    }
    for (int i = 0; i < AH_SHAPE_COUNTS && !rc; i++)
        for (int j = 0; j < i && !rc; j++)
            for (int sign = 0; sign < 4 && !rc; sign++)
                rc = step_two(w, i, sign & 1 ? size : -size, j, sign & 2 ? size : -size, improved);
    return rc;
}

/* The numbers that are choices, not counts. */
static int choices(struct walk *w, bool *improved)
{
    int rc = AH_OK;
    for (int number = AH_SHAPE_MIX; number < AH_SHAPE_NUMBERS; number++) {
        for (int32_t value = 0; value < (int32_t)AH_CONFIGS_MAX && !rc; value++) {
            struct ah_shape shape = w->best;
            shape.at[number] = value;
            rc = step(w, &shape, improved);
        }
    }
    return rc;
}

int ah_shapes_walk(struct ah_trial *trial, const uint32_t *allowed, const struct ah_knobs *knobs,
                   int32_t largest, struct ah_shape *shape, struct ah_error *err)
{
    struct walk w = {.trial = trial,
                     .job = trial->limits.job,
                     .allowed = allowed,
                     .knobs = knobs,
                     .best = *shape,
                     .best_bytes = UINT64_MAX,
                     .err = err};
    bool improved = false;
    w.configs = malloc(w.job->n_blocks * sizeof *w.configs);
    if (!w.configs)
        return ah_error_memory(err);
    bool fits;
    int rc = visit(&w, shape, &improved, &fits);
    int32_t size = largest ? largest : 1;
    while (!largest && size * 8 <= layers_of(w.job))
        size *= 2;
    while (size > 0 && !rc && !w.spent) {
        improved = false;
        rc = pass(&w, size, &improved);
        rc = rc ? rc : choices(&w, &improved);
        size = improved ? size : size / 2;
    }
    *shape = w.best;
    free(w.configs);
    return rc;
}
