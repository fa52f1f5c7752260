/* SPDX-License-Identifier: Apache-2.0
 *
 * Random small planning instances, each with a model, a training and costs. They vary in everything that changes rows:
 * tied tables, windows, frozen tensors, micro-batches, clipping, lanes of very different speed, shared resources.
 */
#ifndef AH_TESTS_PROPERTY_PLANNER_INSTANCES_H
#define AH_TESTS_PROPERTY_PLANNER_INSTANCES_H

#include "planner/bound/milp.h"
#include "tests/support/check.h"

#include <math.h>
#include <string.h>

enum { INSTANCE_GROUPS = 16, INSTANCE_RESOURCES = 3, INSTANCE_BLOCKS = 16 };

struct instance {
    struct ah_model model;
    struct ah_model_rope rope;
    uint64_t window_layers[INSTANCE_BLOCKS];
    const char *patterns[4];
    struct ah_plan_part part; /* shards 0: states are not shared */
    struct ah_arena arena;
    struct ah_job job;
    struct ah_costs costs;
    struct ah_cost_group groups[INSTANCE_GROUPS];
    struct ah_plan_resource resources[INSTANCE_RESOURCES];
};

static uint64_t instance_below(uint64_t *random, uint64_t n)
{
    return check_random(random) % n;
}

/* Returns a number from low to high. Every order of magnitude is equally likely. */
static double instance_scaled(uint64_t *random, double low, double high)
{
    return low * pow(high / low, check_uniform(random));
}

static void instance_model(struct instance *it, uint64_t *random, uint64_t layers)
{
    it->rope = (struct ah_model_rope){.theta = 10000};
    bool gated = instance_below(random, 2);
    it->model = (struct ah_model){.name = "random",
                                  .family = gated ? AH_FAMILY_LLAMA : AH_FAMILY_GPT2,
                                  .layers = layers,
                                  .width = 64,
                                  .heads = 4,
                                  .kv_heads = gated ? 2 : 4,
                                  .head_dim = 16,
                                  .mlp_width = 160 + 32 * instance_below(random, 4),
                                  .vocabulary = 100 + instance_below(random, 400),
                                  .max_positions = 256,
                                  .padding_token = AH_MODEL_NO_PADDING,
                                  .position = gated ? AH_POSITION_ROPE : AH_POSITION_LEARNED,
                                  .rope = gated ? &it->rope : NULL,
                                  .norm = gated ? AH_MODEL_NORM_RMS : AH_MODEL_NORM_LAYER,
                                  .norm_epsilon = 1e-5,
                                  .activation = gated ? AH_MODEL_SILU_GATED : AH_MODEL_GELU_TANH,
                                  .qkv_bias = !gated,
                                  .mlp_bias = !gated,
                                  .tied = instance_below(random, 2),
                                  .initializer_range = 0.02};
    if (instance_below(random, 3))
        return;
    it->model.window = 8;
    it->model.window_layers = it->window_layers;
    for (uint64_t i = 0; i < layers; i += 2)
        it->window_layers[it->model.n_window_layers++] = i;
}

static struct ah_plan_training instance_training(struct instance *it, uint64_t *random)
{
    static const uint64_t micro_batches[] = {1, 1, 1, 2, 4};
    static const char *const frozen[] = {"!embedding*", "!layer.0.*", "!head*", "!layer.*.mlp.*"};
    struct ah_plan_training training = {.batch = 4,
                                        .micro_batches = micro_batches[instance_below(random, 5)],
                                        .seq = 16 + 16 * instance_below(random, 3),
                                        .dtype = instance_below(random, 2) ? AH_BF16 : AH_FP32,
                                        .state_dtype = AH_FP32,
                                        .clip = instance_below(random, 2) ? 1 : 0};
    if (training.dtype == AH_BF16 && instance_below(random, 4) == 0)
        training.state_dtype = AH_BF16;
    it->patterns[0] = "*";
    training.trainable = it->patterns;
    training.n_trainable = 1;
    for (size_t i = 0; i < 2; i++)
        if (instance_below(random, 3) == 0)
            it->patterns[training.n_trainable++] = frozen[instance_below(random, 4)];
    return training;
}

/* Draws all costs of an instance around values that make lanes about equally busy. */
static void instance_costs(struct instance *it, uint64_t *random)
{
    double per_parameter = instance_scaled(random, 1e-4, 1e-1);
    struct ah_costs *costs = &it->costs;
    *costs =
        (struct ah_costs){.groups = it->groups,
                          .h2d_latency_us = instance_below(random, 2) ? instance_scaled(random, 0.1, 20) : 0,
                          .h2d_us_per_byte = per_parameter * instance_scaled(random, 0.02, 1),
                          .d2h_latency_us = instance_below(random, 2) ? instance_scaled(random, 0.1, 20) : 0,
                          .d2h_us_per_byte = per_parameter * instance_scaled(random, 0.02, 1),
                          .host_adam_us = per_parameter * instance_scaled(random, 0.05, 5),
                          .host_accumulate_us = per_parameter * instance_scaled(random, 0.02, 1),
                          .device_adam_us = per_parameter * instance_scaled(random, 0.01, 0.2),
                          .device_accumulate_us = per_parameter * instance_scaled(random, 0.01, 0.1),
                          .device_squares_us = per_parameter * instance_scaled(random, 0.001, 0.05),
                          .host_squares_us = per_parameter * instance_scaled(random, 0.01, 0.2),
                          .host_us_per_byte = per_parameter * instance_scaled(random, 0.01, 0.5),
                          .norm_us = instance_scaled(random, 1, 50)};
    for (size_t g = 0; g < it->job.n_groups; g++) {
        struct ah_cost_group *group = &it->groups[g];
        group->forward_us = per_parameter * 50000 * instance_scaled(random, 0.1, 1);
        group->backward_us[0] = group->forward_us * (1.5 + check_uniform(random));
        group->backward_us[1] = group->backward_us[0] + group->forward_us * 0.1 * check_uniform(random);
        group->backward_us[2] = group->backward_us[1] + group->forward_us;
        group->update_ops = 1 + g % 5;
    }
    costs->sharing.weights = (struct ah_plan_by_lane){{1, 1, 1, 0.5 + check_uniform(random)}};
    costs->sharing.resources = it->resources;
    costs->sharing.n_resources = instance_below(random, INSTANCE_RESOURCES + 1);
    for (size_t r = 0; r < costs->sharing.n_resources; r++)
        it->resources[r] =
            (struct ah_plan_resource){.name = "shared",
                                      .demand = {check_uniform(random) * 0.3, check_uniform(random),
                                                 check_uniform(random), check_uniform(random)}};
    if (it->part.shards) {
        costs->net_latency_us = instance_below(random, 2) ? instance_scaled(random, 0.1, 20) : 0;
        costs->net_us_per_byte = per_parameter * instance_scaled(random, 0.02, 1);
        costs->sharing.weights.of[AH_PLAN_LANE_NET] = 1;
    }
    if (instance_below(random, 2))
        costs->launch_us = per_parameter * instance_scaled(random, 10, 5000);
}

/* Draws and opens an instance; `shared`: of ranks that share states. Returns false if the drawn patterns train nothing;
 * in that case, call it once more. */
static bool instance_open_as(struct instance *it, uint64_t *random, uint64_t layers, bool shared)
{
    struct ah_error err = {0};
    memset(it, 0, sizeof *it);
    instance_model(it, random, layers);
    struct ah_plan_training training = instance_training(it, random);
    if (shared)
        it->part = (struct ah_plan_part){.blocks = ah_model_blocks(&it->model),
                                         .tp = 1,
                                         .stages = 1,
                                         .shards = 2 + instance_below(random, 4)};
    if (ah_job_init_part(&it->job, &it->model, &training, shared ? &it->part : NULL, &it->arena, &err)) {
        ah_arena_release(&it->arena);
        return false;
    }
    assert_true(it->job.n_groups <= INSTANCE_GROUPS);
    instance_costs(it, random);
    return true;
}

static inline bool instance_open(struct instance *it, uint64_t *random, uint64_t layers)
{
    return instance_open_as(it, random, layers, false);
}

static void instance_close(struct instance *it)
{
    ah_arena_release(&it->arena);
}

#endif
