/* SPDX-License-Identifier: Apache-2.0
 *
 * Policies: families of placements with up to three whole numbers, and lists of orders (knobs).
 *
 *   policy          numbers                                                   sizes
 *   resident        treatment of activations                                  3
 *   zero-offload    keep or recompute; the first k blocks' optimizers host    2, n + 1
 *   patrickstar     keep or recompute; first p weights host; last d device    2, n + 1, n + 1
 *   stronghold      keep or recompute; first w layers stay; their states too  2, layers + 1, 2
 *   stream          keep or recompute; embedding and head stay                2, 2
 *   autohete-paper  first r layers recompute; last o optimizers host, then    layers + 1, 2 n + 1
 *                   first p weights host
 *
 * With several equal GPUs (shards), resident and zero-offload are stages of ZeRO, and have one more number below 2: 0
 * keeps weights whole on every GPU (stage 2), 1 gathers them for each use (stage 3). Weights that patrickstar and
 * autohete-paper keep on the device are gathered, too: their papers partition them like stage 3.
 *
 * All settings of a family are tried if there are at most ALL_BELOW. In a larger family, a number with few values takes
 * all of them, and the others take values on a grid. The best few points are refined in steps, halved down to one. Then
 * all orders are tried with the best numbers, and grid and steps are repeated with the best order. Orders are searched
 * separately if their best numbers differ much.
 */
#include "planner/policies/policies.h"

#include "planner/planner.h"
#include "planner/search/knobs.h"

#include <stdlib.h>
#include <string.h>

enum { ALL_BELOW = 700, GRID = 8, BEST_FEW = 4, SMALL = 3 };

/* the largest number of settings times blocks, over all orders, that is searched to prove that a policy has no plan */
static const uint64_t exhausted_most = UINT64_C(2000000);

/* ---- placements ---- */

static size_t layers_of(const struct ah_job *job)
{
    return job->n_blocks - 2;
}

size_t ah_policies_sizes(const struct ah_job *job, enum ah_policy policy,
                         uint32_t ret_sizes[AH_PLAN_POLICY_NUMBERS])
{
    uint32_t n = (uint32_t)job->n_blocks, layers = (uint32_t)layers_of(job);
    const uint32_t stages = ah_job_shards(job) > 1 ? 2 : 0;
    const uint32_t sizes[][AH_PLAN_POLICY_NUMBERS] = {
        [AH_POLICY_RESIDENT] = {3, stages},
        [AH_POLICY_ZERO_OFFLOAD] = {2, n + 1, stages},
        [AH_POLICY_PATRICKSTAR] = {2, n + 1, n + 1},
        [AH_POLICY_STRONGHOLD] = {2, layers + 1, 2},
        [AH_POLICY_STREAM] = {2, 2},
        [AH_POLICY_AUTOHETE_PAPER] = {layers + 1, 2 * n + 1},
    };
    size_t numbers = 0;
    for (; numbers < AH_PLAN_POLICY_NUMBERS && sizes[policy][numbers]; numbers++)
        ret_sizes[numbers] = sizes[policy][numbers];
    for (size_t i = numbers; i < AH_PLAN_POLICY_NUMBERS; i++)
        ret_sizes[i] = 1;
    return numbers;
}

static struct ah_config config_of(enum ah_activations activations, enum ah_weights weights,
                                  bool host_optimizer)
{
    return (struct ah_config){.activations = (uint8_t)activations,
                              .weights = (uint8_t)weights,
                              .optimizer = host_optimizer ? AH_OPTIMIZER_HOST : AH_OPTIMIZER_DEVICE};
}

static const enum ah_activations keep_or_recompute[] = {AH_ACTIVATIONS_KEEP, AH_ACTIVATIONS_RECOMPUTE};

static struct ah_config policy_config(const struct ah_job *job, enum ah_policy policy, const uint32_t *k,
                                      size_t block)
{
    size_t n = job->n_blocks;
    bool end = !block || block + 1 == n;
    size_t o = k[1] < n ? k[1] : n;
    bool stays = end || block <= k[1];
    const bool shares = ah_job_shards(job) > 1;
    const enum ah_weights parted = shares ? AH_WEIGHTS_GATHERED : AH_WEIGHTS_DEVICE;
    const enum ah_weights host = AH_WEIGHTS_HOST, device = AH_WEIGHTS_DEVICE;
    switch (policy) {
    case AH_POLICY_RESIDENT:
        return config_of(k[0], k[1] ? parted : device, false);
    case AH_POLICY_ZERO_OFFLOAD:
        return config_of(keep_or_recompute[k[0]], k[2] ? parted : device, block < k[1]);
    case AH_POLICY_PATRICKSTAR:
        return config_of(keep_or_recompute[k[0]], block < k[1] ? host : parted, block < n - k[2]);
    case AH_POLICY_STRONGHOLD:
        return config_of(keep_or_recompute[k[0]], stays ? device : host, !stays || k[2]);
    case AH_POLICY_STREAM:
        return config_of(keep_or_recompute[1 - k[0]], end && k[1] ? device : host, true);
    case AH_POLICY_AUTOHETE_PAPER:
    case AH_POLICY_OPTIMAL:
        break;
    }
    return config_of(block <= k[0] ? AH_ACTIVATIONS_RECOMPUTE : AH_ACTIVATIONS_KEEP,
                     k[1] > n && block < k[1] - n ? host : parted, block >= n - o);
}

/* Returns AH_ACCUMULATOR_HOST if the block may have it with this config; otherwise AH_ACCUMULATOR_DEVICE. */
static enum ah_accumulator accumulator_of(const struct ah_job *job, const struct ah_job_group *group,
                                          struct ah_config config)
{
    struct ah_config allowed[AH_CONFIGS_MAX];
    const size_t n = ah_configs(job, group, allowed);
    for (size_t i = 0; i < n; i++)
        if (allowed[i].accumulator == AH_ACCUMULATOR_HOST && allowed[i].optimizer == config.optimizer &&
            allowed[i].weights == config.weights)
            return AH_ACCUMULATOR_HOST;
    return AH_ACCUMULATOR_DEVICE;
}

/* Replaces values that the block cannot have: embedding and head keep activations, frozen blocks have no optimizer. */
static struct ah_config adapt(const struct ah_job *job, size_t block, struct ah_config config)
{
    const struct ah_job_group *group = ah_job_block(job, block);
    if (group->kind != AH_BLOCK_LAYER || !group->backward)
        config.activations = AH_ACTIVATIONS_KEEP;
    if (!group->trained_elements)
        config.optimizer = AH_OPTIMIZER_NONE;
    else if (job->adds_up)
        config.accumulator = (uint8_t)accumulator_of(job, group, config);
    return config;
}

bool ah_policies_configs(const struct ah_job *job, enum ah_policy policy,
                         const uint32_t numbers[AH_PLAN_POLICY_NUMBERS], struct ah_config *ret_configs)
{
    if (policy == AH_POLICY_PATRICKSTAR && numbers[1] + numbers[2] > job->n_blocks)
        return false;
    for (size_t block = 0; block < job->n_blocks; block++)
        ret_configs[block] = adapt(job, block, policy_config(job, policy, numbers, block));
    return true;
}

/* ---- orders ---- */

struct order {
    uint32_t fetch_ahead, send_behind;
    uint32_t gradient_tiles, weight_tiles;
};

/* The later orders of these two fetch ahead, which only several GPUs need. */
static const struct order resident_orders[] = {{0}, {1, 1, 0, 0}, {2, 2, 0, 0}};
static const struct order zero_orders[] = {{0, 1, 0, 4},  {0, 0, 0, 4},  {0, 2, 0, 4}, {0, 4, 0, 16},
                                           {0, 2, 0, 16}, {1, 1, 0, 16}, {2, 2, 0, 16}};
enum { RESIDENT_ALONE = 1, ZERO_ALONE = 5 };
static const struct order patrick_orders[] = {{0, 0, 0, 1}, {1, 1, 0, 4}};
static const struct order strong_orders[] = {{2, 2, 0, 8},  {1, 1, 0, 8},  {3, 3, 0, 8},
                                             {4, 4, 0, 8},  {6, 6, 0, 8},  {8, 8, 0, 8},
                                             {1, 1, 64, 8}, {2, 2, 64, 8}, {4, 4, 64, 8}};
static const struct order stream_orders[] = {
    {1, 1, 0, 4}, {2, 2, 0, 4}, {1, 2, 0, 4}, {2, 1, 0, 4}, {1, 1, 64, 4}};
static const struct order paper_orders[] = {{2, 2, 0, 8},  {1, 1, 0, 8}, {2, 4, 0, 8}, {3, 3, 0, 8},
                                            {4, 4, 0, 8},  {6, 6, 0, 8}, {8, 8, 0, 8}, {1, 1, 64, 8},
                                            {2, 2, 64, 8}, {4, 8, 64, 8}};

#define ORDERS(list)           (list), sizeof(list) / sizeof *(list), 0
#define ORDERS_OF(list, alone) (list), sizeof(list) / sizeof *(list), (alone)
static const struct rules {
    const struct order *orders;
    size_t n_orders;
    size_t n_alone; /* of one GPU alone; 0: all */
    bool updates_after_backward, step_ends;
    bool block_major_too;
    bool orders_separate; /* orders are searched separately, since their best numbers differ */
} rules[] = {
    [AH_POLICY_RESIDENT] = {ORDERS_OF(resident_orders, RESIDENT_ALONE), true, true, false, false},
    [AH_POLICY_ZERO_OFFLOAD] = {ORDERS_OF(zero_orders, ZERO_ALONE), true, true, false, false},
    [AH_POLICY_PATRICKSTAR] = {ORDERS(patrick_orders), true, true, false, true},
    [AH_POLICY_STRONGHOLD] = {ORDERS(strong_orders), false, true, false, false},
    [AH_POLICY_STREAM] = {ORDERS(stream_orders), false, true, true, false},
    [AH_POLICY_AUTOHETE_PAPER] = {ORDERS(paper_orders), false, false, false, false},
};

enum { TILES = 3 };

bool ah_planner_takes_scheduling(enum ah_policy policy)
{
    return policy == AH_POLICY_AUTOHETE_PAPER || policy == AH_POLICY_OPTIMAL;
}

bool ah_policies_knobs(const struct ah_job *job, enum ah_policy policy, enum ah_scheduling scheduling,
                       size_t i, struct ah_knobs *ret_knobs)
{
    const struct rules *rule = &rules[policy];
    const size_t n = rule->n_alone && ah_job_shards(job) == 1 ? rule->n_alone : rule->n_orders;
    size_t order = i / TILES % n, micro_order = i / TILES / n;
    if (micro_order > (rule->block_major_too && job->training.micro_batches > 1 ? 1 : 0))
        return false;
    struct ah_knobs knobs =
        ah_knobs_first(job, AH_SCHEDULING_FIFO, micro_order ? AH_BLOCK_MAJOR : AH_MICRO_BATCH_MAJOR);
    const uint64_t halves[TILES] = {2, 1, 4};
    uint64_t tile = (knobs.tile_elements * halves[i % TILES] / 2 + AH_PLAN_TILE_UNIT - 1) / AH_PLAN_TILE_UNIT;
    knobs.tile_elements = (tile ? tile : 1) * AH_PLAN_TILE_UNIT;
    knobs.fetch_ahead = rule->orders[order].fetch_ahead;
    knobs.send_behind = rule->orders[order].send_behind;
    knobs.host_gradient_tiles = rule->orders[order].gradient_tiles;
    knobs.host_weight_tiles = rule->orders[order].weight_tiles;
    knobs.device_state_tiles = 0;
    knobs.updates_after_backward = rule->updates_after_backward;
    knobs.step_ends = rule->step_ends;
    if (ah_planner_takes_scheduling(policy))
        knobs.scheduling = scheduling;
    *ret_knobs = knobs;
    return true;
}

/* ---- the search of a family ---- */

struct point {
    uint32_t at[AH_PLAN_POLICY_NUMBERS];
    double period_us;
};

struct family {
    struct ah_evaluator *evaluator;
    enum ah_policy policy;
    enum ah_scheduling scheduling;
    uint32_t sizes[AH_PLAN_POLICY_NUMBERS];
    struct ah_knobs knobs;
    struct ah_config *configs;
    struct point few[BEST_FEW]; /* the fastest points of the grid */
    size_t n_few;
    struct point best; /* the fastest point of all */
    struct ah_knobs best_knobs;
    struct ah_error *err;
};

static void keep_point(struct family *f, const struct point *point)
{
    size_t i = f->n_few < BEST_FEW ? f->n_few++ : BEST_FEW;
    if (i == BEST_FEW && f->few[BEST_FEW - 1].period_us <= point->period_us)
        return;
    i = i == BEST_FEW ? BEST_FEW - 1 : i;
    for (; i > 0 && f->few[i - 1].period_us > point->period_us; i--)
        f->few[i] = f->few[i - 1];
    f->few[i] = *point;
}

static int try_point(struct family *f, struct point *point)
{
    enum ah_verdict verdict;
    point->period_us = 0;
    if (!ah_policies_configs(f->evaluator->limits.job, f->policy, point->at, f->configs))
        return AH_OK;
    memcpy(f->evaluator->numbers, point->at, sizeof f->evaluator->numbers);
    int rc = ah_evaluator_try(f->evaluator, f->configs, &f->knobs, &verdict, f->err);
    if (rc)
        return rc;
    if ((verdict == AH_EVALUATOR_BETTER || verdict == AH_EVALUATOR_WORSE) &&
        f->evaluator->last.period_us > 0) {
        point->period_us = f->evaluator->last.period_us;
        keep_point(f, point);
        if (!f->best.period_us || point->period_us < f->best.period_us) {
            f->best = *point;
            f->best_knobs = f->knobs;
        }
    }
    return AH_OK;
}

static uint32_t stride_of(const struct family *f, size_t number, bool all)
{
    uint32_t size = f->sizes[number];
    return all || size <= SMALL ? 1 : (size + GRID - 1) / GRID;
}

/* Tries every point of the grid. Each number takes both its smallest and its largest value. */
static int grid(struct family *f, size_t number, struct point *point, bool all)
{
    if (number == AH_PLAN_POLICY_NUMBERS)
        return try_point(f, point);
    uint32_t size = f->sizes[number], stride = stride_of(f, number, all);
    int rc = AH_OK;
    for (uint32_t k = 0; k < size && !rc; k = k + stride < size || k + 1 == size ? k + stride : size - 1) {
        point->at[number] = k;
        rc = grid(f, number + 1, point, all);
    }
    return rc;
}

/* Tries every neighbour one step away in any of the numbers. Continues from the best, or halves the step. */
static int walk_from(struct family *f, struct point from)
{
    int rc = AH_OK;
    for (uint32_t step = GRID; step > 0 && !rc;) {
        double before = f->best.period_us;
        struct point centre = from;
        for (int code = 0; code < 27 && !rc; code++) {
            struct point next = centre;
            int digits = code;
            bool inside = true;
            for (size_t i = 0; i < AH_PLAN_POLICY_NUMBERS; i++, digits /= 3) {
                int64_t at = (int64_t)next.at[i] + (digits % 3 - 1) * (int64_t)step;
                inside = inside && at >= 0 && at < f->sizes[i];
                next.at[i] = (uint32_t)at;
            }
            if (inside)
                rc = try_point(f, &next);
        }
        if (f->best.period_us < before)
            from = f->best;
        else
            step /= 2;
    }
    return rc;
}

static int refine_best(struct family *f)
{
    struct point few[BEST_FEW];
    size_t n = f->n_few;
    int rc = AH_OK;
    memcpy(few, f->few, sizeof few);
    for (size_t i = 0; i < n && !rc; i++)
        rc = walk_from(f, few[i]);
    return rc;
}

static int sweep_orders(struct family *f)
{
    struct ah_knobs knobs;
    int rc = AH_OK;
    for (size_t i = 0;
         !rc && ah_policies_knobs(f->evaluator->limits.job, f->policy, f->scheduling, i, &knobs); i++) {
        struct point best = f->best;
        f->knobs = knobs;
        rc = try_point(f, &best);
    }
    f->knobs = f->best_knobs;
    return rc;
}

/* Searches grid and steps with the first order for which any point fits; with each order if orders are separate. Those
 * of a policy with a stage are: one stage fetches ahead and the other does not. */
static int first_orders(struct family *f, bool all)
{
    const bool has_stage = rules[f->policy].n_alone && ah_job_shards(f->evaluator->limits.job) > 1;
    const bool separate = rules[f->policy].orders_separate || has_stage;
    int rc = AH_OK;
    for (size_t i = 0; !rc && (separate || !f->n_few) &&
                       ah_policies_knobs(f->evaluator->limits.job, f->policy, f->scheduling, i, &f->knobs);
         i += separate ? TILES : 1) {
        f->n_few = 0;
        rc = grid(f, 0, &(struct point){{0}, 0}, all);
        if (!rc && !all)
            rc = refine_best(f);
    }
    return rc;
}

static int init_family(struct family *f, struct ah_evaluator *evaluator, enum ah_policy policy,
                       enum ah_scheduling scheduling, struct ah_error *err)
{
    *f = (struct family){.evaluator = evaluator, .policy = policy, .scheduling = scheduling, .err = err};
    ah_policies_sizes(evaluator->limits.job, policy, f->sizes);
    f->configs = malloc(evaluator->limits.job->n_blocks * sizeof *f->configs);
    return f->configs ? AH_OK : ah_error_memory(err);
}

static uint64_t settings_of(const struct family *f)
{
    return (uint64_t)f->sizes[0] * f->sizes[1] * f->sizes[2];
}

int ah_policies_search(struct ah_evaluator *evaluator, enum ah_policy policy, enum ah_scheduling scheduling,
                       struct ah_error *err)
{
    struct family f;
    if (init_family(&f, evaluator, policy, scheduling, err))
        return AH_E_MEMORY;
    bool all = settings_of(&f) <= ALL_BELOW;
    int rc = first_orders(&f, all);
    if (!rc && f.best.period_us > 0) {
        rc = sweep_orders(&f);
        f.n_few = 0;
        rc = rc ? rc : grid(&f, 0, &(struct point){{0}, 0}, all);
        rc = rc || all ? rc : walk_from(&f, f.best);
        rc = rc || all ? rc : refine_best(&f);
        rc = rc ? rc : sweep_orders(&f);
    }
    free(f.configs);
    return rc;
}

int ah_policies_exhaust(struct ah_evaluator *evaluator, enum ah_policy policy, enum ah_scheduling scheduling,
                        bool *ret_exhausted, struct ah_error *err)
{
    struct family f;
    const struct ah_job *job = evaluator->limits.job;
    size_t orders = 0;
    if (init_family(&f, evaluator, policy, scheduling, err))
        return AH_E_MEMORY;
    while (ah_policies_knobs(job, policy, scheduling, orders, &f.knobs))
        orders++;
    int rc = AH_OK;
    bool few = settings_of(&f) <= exhausted_most / orders / job->n_blocks;
    for (size_t i = 0; few && i < orders && !rc; i++) {
        ah_policies_knobs(job, policy, scheduling, i, &f.knobs);
        rc = grid(&f, 0, &(struct point){{0}, 0}, true);
    }
    free(f.configs);
    *ret_exhausted = few && !rc && !evaluator->found && !ah_evaluator_is_spent(evaluator);
    return rc;
}
