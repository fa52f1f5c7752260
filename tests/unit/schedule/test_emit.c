/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests what an emitted document says about its choice.
 */
#include "runtime/schedule/names.h"
#include "runtime/schedule/schedule.h"
#include "tests/property/schedule/choices.h"

#include <stdio.h>

enum { LAYERS = 3, BLOCKS = LAYERS + 2 };

static struct test_case c;
static struct ah_document document;
static struct ah_score score;

static int emit(void **state)
{
    (void)state;
    static struct ah_plan_resource dram = {.name = "host_dram", .demand = {0, 0.2, 0.2, 0.7}};
    struct ah_schedule schedule = {0};
    struct ah_error err = {0};
    test_case_model(&c, LAYERS, 64, false);
    c.patterns[0] = "*";
    test_case_job(&c,
                  (struct ah_plan_training){
                      .batch = 2, .micro_batches = 1, .seq = 32, .clip = 1, .state_dtype = AH_FP32},
                  1);
    test_case_costs(&c, 100, 70, 150);
    c.costs.sharing.resources = &dram;
    c.costs.sharing.n_resources = 1;
    c.costs.has_threads = true;
    c.costs.threads = (struct ah_plan_threads){.compute = 3, .host = 5};
    for (size_t block = 0; block < BLOCKS; block++)
        c.configs[block] = (struct ah_config){.optimizer = AH_OPTIMIZER_HOST};
    c.configs[1] = (struct ah_config){.weights = AH_WEIGHTS_HOST, .optimizer = AH_OPTIMIZER_STREAMED};
    c.configs[2] = (struct ah_config){.activations = AH_ACTIVATIONS_RECOMPUTE};
    c.choice.knobs = (struct ah_knobs){.tile_elements = 4 * AH_PLAN_TILE_UNIT,
                                       .host_gradient_tiles = 5,
                                       .device_state_tiles = 2,
                                       .scheduling = AH_SCHEDULING_FIFO};
    CHECK_OK(ah_schedule_init(&schedule, &c.job, &err), err);
    CHECK_OK(ah_schedule_evaluate(&schedule, &c.choice, &score, &err), err);
    test_case_emit(&c, &schedule, &document);
    ah_schedule_release(&schedule);
    return 0;
}

static int drop(void **state)
{
    (void)state;
    ah_document_release(&document);
    test_case_close(&c);
    return 0;
}

TEST_IN(emit, blocks, emit, drop)
{
    const struct ah_plan *plan = document.body.plan;
    assert_int_equal(plan->n_blocks, BLOCKS);
    assert_string_equal(plan->blocks[0].name, "embedding");
    assert_string_equal(plan->blocks[2].name, "layer.1");
    assert_string_equal(plan->blocks[4].name, "head");
    assert_string_equal(plan->blocks[2].group, "layer");
    assert_int_equal(plan->blocks[1].weights, AH_WEIGHTS_HOST);
    assert_int_equal(plan->blocks[1].optimizer, AH_OPTIMIZER_STREAMED);
    assert_int_equal(plan->blocks[2].activations, AH_ACTIVATIONS_RECOMPUTE);
    assert_int_equal(plan->blocks[3].parameters, ah_job_block(&c.job, 3)->parameters);
}

TEST_IN(emit, knobs_and_sharing, emit, drop)
{
    const struct ah_plan *plan = document.body.plan;
    assert_int_equal(plan->staging.tile_elements, 4 * AH_PLAN_TILE_UNIT);
    assert_int_equal(plan->staging.device_state_tiles, 2);
    assert_int_equal(plan->staging.host_gradient_tiles, 0); /* clipping: updates wait for all gradients */
    assert_int_equal(plan->scheduling, AH_SCHEDULING_FIFO);
    assert_int_equal(plan->threads->compute, 3);
    assert_int_equal(plan->threads->host, 5);
    assert_int_equal(plan->sharing.n_resources, 1);
    assert_string_equal(plan->sharing.resources[0].name, "host_dram");
    assert_true(plan->sharing.resources != c.costs.sharing.resources);
}

TEST_IN(emit, times_and_bytes, emit, drop)
{
    const struct ah_plan *plan = document.body.plan;
    const struct ah_plan_by_class *by = &plan->memory.by_class;
    assert_true(plan->time.step_us == score.period_us);
    assert_true(plan->time.busy_us[AH_PLAN_LANE_HOST] == score.busy_us[AH_PLAN_LANE_HOST]);
    assert_true(plan->time.exposed_us.of[AH_PLAN_LANE_D2H] == score.exposed_us[AH_PLAN_LANE_D2H]);
    assert_int_equal(plan->memory.device_bytes, score.device.peak_bytes);
    assert_int_equal(plan->memory.host_bytes, score.pinned_bytes + score.pageable_bytes);
    assert_int_equal(by->weights + by->gradients + by->optimizer + by->activations + by->staging +
                         by->workspace,
                     score.device.live_bytes);
    assert_true(plan->memory.pinned_bytes > 0 && plan->memory.pageable_bytes > 0);
}

static const struct ah_plan_tensor *find(const char *name)
{
    const struct ah_plan *plan = document.body.plan;
    char text[AH_NAME_MAX];
    size_t i = 0;
    for (ah_name_tensor(plan, i, text); strcmp(text, name) != 0; ah_name_tensor(plan, i, text))
        if (++i == plan->arena.n_tensors)
            fail_msg("no tensor '%s'", name);
    return &plan->arena.tensors[i];
}

static unsigned position_of(enum ah_plan_op_kind kind, uint64_t block)
{
    const struct ah_plan *plan = document.body.plan;
    size_t op = 0;
    while (op < plan->n_ops && (plan->ops[op].op != kind || plan->ops[op].block != block))
        op++;
    assert_true(op < plan->n_ops);
    return (unsigned)plan->ops[op].position;
}

/* True if a tensor of this label and block has its last position there. */
static bool lives_until(enum ah_tensor_label label, uint64_t block, uint64_t position)
{
    const struct ah_plan_arena *arena = &document.body.plan->arena;
    for (size_t i = 0; i < arena->n_tensors; i++)
        if (arena->tensors[i].label == label && arena->tensors[i].block == block &&
            arena->tensors[i].to == position)
            return true;
    return false;
}

TEST_IN(emit, tensors_by_name, emit, drop)
{
    const struct ah_plan *plan = document.body.plan;
    assert_int_equal(find("embedding.weights")->from, 0);
    assert_int_equal(find("embedding.weights")->to, plan->arena.positions - 1);
    assert_int_equal(find("layer.1.states")->bytes,
                     ah_job_block(&c.job, 2)->trained_elements * c.job.state_bytes);
    assert_int_equal(find("layer.2.gradient.0")->to, position_of(AH_PLAN_BACKWARD, 3));
    assert_int_equal(find("layer.2.gradient.0")->from, position_of(AH_PLAN_BACKWARD, 3));
    assert_int_equal(find("head.residual_gradient.0")->from, position_of(AH_PLAN_FORWARD, 4));
    assert_true(lives_until(AH_TENSOR_FETCHED, 1, position_of(AH_PLAN_FORWARD, 1)));
    assert_true(lives_until(AH_TENSOR_SCRATCH, 3, position_of(AH_PLAN_BACKWARD, 3)));
    (void)find("state_ring");
    (void)find("tokens");
}

/* Each lane lists all tiles of its ops. */
TEST_IN(emit, lanes_mention_every_tile, emit, drop)
{
    const struct ah_plan *plan = document.body.plan;
    uint64_t tiles[4] = {0};
    for (size_t op = 0; op < plan->n_ops; op++)
        tiles[plan->ops[op].lane] += plan->ops[op].tiles;
    assert_int_equal(plan->lanes.n_order[AH_PLAN_LANE_COMPUTE], tiles[AH_PLAN_LANE_COMPUTE]);
    assert_int_equal(plan->lanes.n_order[AH_PLAN_LANE_H2D], tiles[AH_PLAN_LANE_H2D]);
    assert_int_equal(plan->lanes.n_order[AH_PLAN_LANE_D2H], tiles[AH_PLAN_LANE_D2H]);
    assert_int_equal(plan->lanes.n_order[AH_PLAN_LANE_HOST], tiles[AH_PLAN_LANE_HOST]);
}
