/* SPDX-License-Identifier: Apache-2.0
 *
 * Random jobs, costs and choices, for tests of what a choice means.
 *
 *     static struct test_case c;
 *     test_case_open(&c, &seed);          // a small model, costs whose lanes are about as busy
 *     test_case_part(&c, &seed);          // (optional) a pipeline stage of that model
 *     test_case_choose(&c, &seed);        // a valid config for every block, and knobs
 *     ah_schedule_evaluate(&schedule, &c.choice, ...);
 *     test_case_close(&c);
 */
#ifndef AH_TESTS_PROPERTY_SCHEDULE_CHOICES_H
#define AH_TESTS_PROPERTY_SCHEDULE_CHOICES_H

#include "runtime/schedule/schedule.h"
#include "schemas/document.h"
#include "tests/support/check.h"

#include <string.h>

enum { TEST_GROUPS_MAX = 64, TEST_BLOCKS_MAX = 256, TEST_PATTERNS_MAX = 4 };

struct test_case {
    struct ah_model model;
    struct ah_model_rope rope;
    const char *patterns[TEST_PATTERNS_MAX];
    struct ah_plan_part part; /* used if the job is a part */
    struct ah_arena arena;
    struct ah_job job;
    struct ah_cost_group groups[TEST_GROUPS_MAX];
    struct ah_plan_resource resources[2];
    struct ah_costs costs;
    struct ah_config configs[TEST_BLOCKS_MAX];
    struct ah_choice choice;
};

static inline uint64_t test_below(uint64_t *seed, uint64_t n)
{
    return check_random(seed) % n;
}

static inline void test_case_model(struct test_case *c, uint64_t layers, uint64_t width, bool tied)
{
    *c = (struct test_case){.rope = {.theta = 10000}};
    c->model = (struct ah_model){.generator = "autohete test",
                                 .name = "random",
                                 .family = AH_FAMILY_LLAMA,
                                 .layers = layers,
                                 .width = width,
                                 .heads = width / 32,
                                 .kv_heads = width / 32,
                                 .head_dim = 32,
                                 .mlp_width = 3 * width,
                                 .vocabulary = 1000,
                                 .max_positions = 4096,
                                 .padding_token = AH_MODEL_NO_PADDING,
                                 .initializer_range = 0.02,
                                 .position = AH_POSITION_ROPE,
                                 .rope = &c->rope,
                                 .norm = AH_MODEL_NORM_RMS,
                                 .norm_epsilon = 1e-5,
                                 .activation = AH_MODEL_SILU_GATED,
                                 .tied = tied};
}

/* Draws a stage, which is a run of blocks. The last stage ends with the head. */
static inline struct ah_plan_part test_case_stage(const struct test_case *c, uint64_t *seed)
{
    uint64_t blocks = ah_model_blocks(&c->model), stages = 1 + test_below(seed, blocks < 5 ? blocks : 5);
    uint64_t stage = test_below(seed, stages), first = 0, end = blocks;
    if (stage > 0)
        first = stage + test_below(seed, blocks - stages + 1);
    if (stage + 1 < stages)
        end = first + 1 + test_below(seed, blocks - first - (stages - 1 - stage));
    return (struct ah_plan_part){.first_block = first,
                                 .blocks = end - first,
                                 .tp = 1 + test_below(seed, 3),
                                 .stage = stage,
                                 .stages = stages};
}

static inline void test_case_job(struct test_case *c, struct ah_plan_training training, size_t n_patterns)
{
    struct ah_error err = {0};
    training.trainable = c->patterns;
    training.n_trainable = n_patterns;
    CHECK_OK(ah_job_init(&c->job, &c->model, &training, &c->arena, &err), err);
    assert_true(c->job.n_groups <= TEST_GROUPS_MAX && c->job.n_blocks <= TEST_BLOCKS_MAX);
}

/* Sets costs of a machine on which any lane can be the busiest. A layer's forward takes `forward_us`, a copy of its
 * weights `copy_us`, its update on the host `adam_us`. */
static inline void test_case_costs(struct test_case *c, double forward_us, double copy_us, double adam_us)
{
    const struct ah_job_group *layer = ah_job_block(&c->job, c->job.n_blocks / 2);
    double parameters = (double)layer->parameters;
    for (size_t g = 0; g < c->job.n_groups; g++) {
        double times = (double)c->job.groups[g].parameters / parameters;
        bool head = c->job.groups[g].kind == AH_BLOCK_HEAD;
        c->groups[g] = (struct ah_cost_group){
            .forward_us = forward_us * times * (head ? 3 : 1),
            .backward_us = {2 * forward_us * times, 2.1 * forward_us * times, 3 * forward_us * times}};
    }
    double byte_us = copy_us / parameters / (double)c->job.weight_bytes;
    c->costs = (struct ah_costs){.groups = c->groups,
                                 .h2d_latency_us = copy_us / 500,
                                 .d2h_latency_us = copy_us / 400,
                                 .h2d_us_per_byte = byte_us,
                                 .d2h_us_per_byte = byte_us * 1.07,
                                 .host_adam_us = adam_us / parameters,
                                 .host_accumulate_us = adam_us / parameters / 3,
                                 .device_adam_us = forward_us / parameters / 8,
                                 .device_accumulate_us = forward_us / parameters / 30,
                                 .device_squares_us = forward_us / parameters / 60,
                                 .host_squares_us = adam_us / parameters / 10,
                                 .host_us_per_byte = byte_us / 2,
                                 .norm_us = forward_us / 100};
    c->costs.sharing.weights = (struct ah_plan_by_lane){{1, 1, 1, 1}};
    c->choice = (struct ah_choice){.configs = c->configs, .costs = &c->costs};
}

/* Draws resources shared by lanes. In one of three cases there are none. */
static inline void test_case_sharing(struct test_case *c, uint64_t *seed)
{
    struct ah_plan_sharing *sharing = &c->costs.sharing;
    sharing->resources = c->resources;
    sharing->n_resources = test_below(seed, 3);
    for (size_t i = 0; i < sharing->n_resources; i++)
        c->resources[i] =
            (struct ah_plan_resource){.name = i ? "link" : "host_dram",
                                      .demand = {i ? 0 : 0.5 * check_uniform(seed), check_uniform(seed),
                                                 check_uniform(seed), i ? 0 : check_uniform(seed)}};
    sharing->weights = (struct ah_plan_by_lane){
        {1, 0.5 + check_uniform(seed), 0.5 + check_uniform(seed), 0.5 + check_uniform(seed)}};
}

static inline void test_case_open(struct test_case *c, uint64_t *seed)
{
    static const uint64_t micro_batches[] = {1, 1, 2, 3};
    uint64_t layers = 1 + test_below(seed, 8);
    uint64_t n = micro_batches[test_below(seed, 4)];
    size_t n_patterns = 1;
    test_case_model(c, layers, 32 * (1 + test_below(seed, 4)), test_below(seed, 2));
    c->patterns[0] = "*";
    if (!test_below(seed, 4))
        c->patterns[n_patterns++] = "!embedding.*";
    if (!test_below(seed, 4))
        c->patterns[n_patterns++] = "!layer.0.*";
    if (layers > 2 && !test_below(seed, 4))
        c->patterns[n_patterns++] = "!layer.2.mlp.*";
    test_case_job(c,
                  (struct ah_plan_training){.batch = 6,
                                            .micro_batches = n,
                                            .seq = 32 << test_below(seed, 3),
                                            .dtype = test_below(seed, 3) ? AH_BF16 : AH_FP32,
                                            .state_dtype = AH_FP32,
                                            .clip = test_below(seed, 2) ? 1 : 0},
                  n_patterns);
    test_case_costs(c, 50 + 300 * check_uniform(seed), 20 + 500 * check_uniform(seed),
                    20 + 900 * check_uniform(seed));
    test_case_sharing(c, seed);
}

/* Reduces the job to that of c->part, with costs that fit it. */
static inline void test_case_cut(struct test_case *c, uint64_t micro_batches, uint64_t *seed)
{
    struct ah_plan_training training = c->job.training;
    struct ah_error err = {0};
    training.micro_batches = micro_batches;
    CHECK_OK(ah_job_init_part(&c->job, &c->model, &training, &c->part, &c->arena, &err), err);
    test_case_costs(c, 50 + 300 * check_uniform(seed), 20 + 500 * check_uniform(seed),
                    20 + 900 * check_uniform(seed));
    test_case_sharing(c, seed);
    c->costs.send_output_us = 50 * check_uniform(seed);
    c->costs.send_gradient_us = 50 * check_uniform(seed);
}

/* Makes the job that of one of several ranks that share states. */
static inline void test_case_shards(struct test_case *c, uint64_t *seed)
{
    c->part = (struct ah_plan_part){
        .blocks = ah_model_blocks(&c->model), .tp = 1, .stages = 1, .shards = 2 + test_below(seed, 4)};
    test_case_cut(c, c->job.training.micro_batches, seed);
    c->costs.net_latency_us = 5 * check_uniform(seed);
    c->costs.net_us_per_byte = c->costs.h2d_us_per_byte * (0.2 + check_uniform(seed));
    c->costs.sharing.weights.of[AH_PLAN_LANE_NET] = 1;
}

static inline void test_case_part(struct test_case *c, uint64_t *seed)
{
    static const uint64_t micro_batches[] = {1, 2, 3, 6};
    c->part = test_case_stage(c, seed);
    test_case_cut(c, micro_batches[test_below(seed, 4)], seed);
}

/* Draws a valid config for every block. Sometimes only a few different configs are used, as in plans. */
static inline void test_case_configs(struct test_case *c, uint64_t *seed)
{
    struct ah_config options[AH_CONFIGS_MAX];
    uint64_t few = 1 + test_below(seed, AH_CONFIGS_MAX);
    for (size_t block = 0; block < c->job.n_blocks; block++) {
        size_t n = ah_configs(&c->job, ah_job_block(&c->job, block), options);
        c->configs[block] = options[(test_below(seed, few) * 7 + few) % n];
    }
}

static inline void test_case_knobs(struct test_case *c, uint64_t *seed)
{
    const struct ah_job_group *layer = ah_job_block(&c->job, c->job.n_blocks / 2);
    uint64_t tiles = 1 + test_below(seed, 6);
    uint64_t unit = AH_PLAN_TILE_UNIT;
    c->choice.knobs = (struct ah_knobs){
        .tile_elements = (layer->flat_elements / tiles + unit) / unit * unit,
        .micro_order = test_below(seed, 2) && !c->job.is_part ? AH_BLOCK_MAJOR : AH_MICRO_BATCH_MAJOR,
        .fetch_ahead = (uint32_t)test_below(seed, 5),
        .send_behind = (uint32_t)test_below(seed, 5),
        .host_gradient_tiles = (uint32_t)test_below(seed, 12),
        .host_weight_tiles = (uint32_t)test_below(seed, 12),
        .device_state_tiles = 1 + (uint32_t)test_below(seed, 6),
        .updates_after_backward = !test_below(seed, 4),
        .step_ends = !test_below(seed, 4),
        .scheduling = test_below(seed, 4) ? AH_SCHEDULING_PRIORITY : AH_SCHEDULING_FIFO};
}

static inline void test_case_choose(struct test_case *c, uint64_t *seed)
{
    test_case_configs(c, seed);
    test_case_knobs(c, seed);
}

/* Emits the choice that was evaluated last as a whole document. Stand-ins replace what planners would add. */
static inline void test_case_emit(const struct test_case *c, struct ah_schedule *schedule,
                                  struct ah_document *ret_document)
{
    static const char sha256[] = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
    struct ah_error err = {0};
    *ret_document = (struct ah_document){.kind = AH_DOCUMENT_PLAN};
    struct ah_plan *plan = ah_arena_alloc(&ret_document->arena, sizeof *plan);
    assert_non_null(plan);
    *plan = (struct ah_plan){.generator = "autohete test",
                             .inputs = {{"random", sha256}, {"machine", sha256}},
                             .model = c->model,
                             .training = c->job.training,
                             .numeric_signature = {.model_sha256 = sha256,
                                                   .trainable = c->job.training.trainable,
                                                   .n_trainable = c->job.training.n_trainable,
                                                   .dtype = c->job.training.dtype,
                                                   .state_dtype = c->job.training.state_dtype,
                                                   .batch = c->job.training.batch,
                                                   .micro_batches = c->job.training.micro_batches,
                                                   .seq = c->job.training.seq,
                                                   .clip = c->job.training.clip},
                             .policy = AH_POLICY_OPTIMAL,
                             .tokens_per_s = 1};
    if (c->job.is_part || c->part.shards) {
        plan->part = ah_arena_alloc(&ret_document->arena, sizeof *plan->part);
        assert_non_null(plan->part);
        *plan->part = c->part;
    }
    ret_document->body.plan = plan;
    CHECK_OK(ah_schedule_emit(schedule, &c->choice, &ret_document->arena, plan, &err), err);
    plan->memory.device_capacity_bytes = plan->memory.device_bytes;
    plan->memory.host_capacity_bytes = plan->memory.host_bytes;
}

static inline void test_case_close(struct test_case *c)
{
    ah_arena_release(&c->arena);
}

#endif
