/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests, on small compiled choices, the places of ops and the lifetimes of tensors.
 */
#include "runtime/schedule/schedule_internal.h"
#include "tests/property/schedule/choices.h"

enum { LAYERS = 3, BLOCKS = LAYERS + 2, POSITIONS = 2 * BLOCKS - 1 };

struct compiled {
    struct test_case c;
    struct ah_compile_memory memory;
    struct ah_compiled of;
};

static void open_trained(struct compiled *k, uint64_t micro_batches, double clip, struct ah_config config,
                         const char *pattern)
{
    test_case_model(&k->c, LAYERS, 64, false);
    k->c.patterns[0] = "*";
    k->c.patterns[1] = pattern;
    test_case_job(
        &k->c,
        (struct ah_plan_training){
            .batch = 2, .micro_batches = micro_batches, .seq = 32, .clip = clip, .state_dtype = AH_FP32},
        pattern ? 2 : 1);
    test_case_costs(&k->c, 100, 70, 150);
    for (size_t block = 0; block < BLOCKS; block++)
        k->c.configs[block] = config;
    k->c.choice.knobs = (struct ah_knobs){
        .tile_elements = 4 * AH_PLAN_TILE_UNIT, .fetch_ahead = 1, .send_behind = 1, .device_state_tiles = 2};
    k->memory = (struct ah_compile_memory){0};
}

static void open_case(struct compiled *k, uint64_t micro_batches, double clip, struct ah_config config)
{
    open_trained(k, micro_batches, clip, config, NULL);
}

static void compile(struct compiled *k)
{
    struct ah_error err = {0};
    CHECK_OK(ah_compile(&k->memory, &k->c.job, &k->c.choice, &k->of, &err), err);
}

static void close_case(struct compiled *k)
{
    ah_compile_release(&k->memory);
    test_case_close(&k->c);
}

static const struct ah_plan_op *op_of(const struct compiled *k, enum ah_plan_op_kind kind, uint64_t block,
                                      uint64_t micro_batch)
{
    const struct ah_iteration *it = &k->of.iteration;
    size_t op = 0;
    while (op < it->n_ops &&
           (it->ops[op].op != kind || it->ops[op].block != block || it->ops[op].micro_batch != micro_batch))
        op++;
    assert_true(op < it->n_ops);
    return &it->ops[op];
}

static const struct ah_layout_tensor *tensor_of(const struct compiled *k, enum ah_tensor_label label,
                                                uint32_t block, uint32_t micro_batch)
{
    size_t i = 0;
    while (i < k->of.n_tensors && (k->of.names[i].label != label || k->of.names[i].block != block ||
                                   k->of.names[i].micro_batch != micro_batch))
        i++;
    assert_true(i < k->of.n_tensors);
    return &k->of.tensors[i];
}

static void check_life(const struct ah_layout_tensor *tensor, uint32_t from, uint32_t to)
{
    assert_int_equal(tensor->from, from);
    assert_int_equal(tensor->to, to);
}

static const struct ah_config on_device = {0};
static const struct ah_config on_host = {.weights = AH_WEIGHTS_HOST, .optimizer = AH_OPTIMIZER_HOST};
static const struct ah_config host_update = {.optimizer = AH_OPTIMIZER_HOST};
static const struct ah_config streamed = {.optimizer = AH_OPTIMIZER_STREAMED};

/* The positions are forward of blocks 0 to 4, and then backward of blocks 3 to 0. There are no other ops. */
TEST(compile, goes_up_and_down)
{
    static struct compiled k;
    open_case(&k, 1, 0, host_update);
    compile(&k);
    assert_int_equal(k.of.iteration.positions, POSITIONS);
    assert_int_equal(k.of.iteration.head, BLOCKS - 1);
    for (uint64_t block = 0; block < BLOCKS; block++)
        assert_int_equal(op_of(&k, AH_PLAN_FORWARD, block, 0)->position, block);
    for (uint64_t block = 0; block + 1 < BLOCKS; block++)
        assert_int_equal(op_of(&k, AH_PLAN_BACKWARD, block, 0)->position, POSITIONS - 1 - block);
    check_life(tensor_of(&k, AH_TENSOR_INPUT, 2, 0), 1, POSITIONS - 3);
    check_life(tensor_of(&k, AH_TENSOR_SAVED, 2, 0), 2, POSITIONS - 3);
    check_life(tensor_of(&k, AH_TENSOR_RESIDUAL_GRADIENT, BLOCKS - 1, 0), BLOCKS - 1, POSITIONS - 1);
    close_case(&k);
}

TEST(compile, orders_micro_batches)
{
    static struct compiled k;
    open_case(&k, 2, 0,
              (struct ah_config){.optimizer = AH_OPTIMIZER_HOST, .accumulator = AH_ACCUMULATOR_DEVICE});
    compile(&k);
    assert_int_equal(op_of(&k, AH_PLAN_FORWARD, 0, 1)->position, POSITIONS);
    assert_int_equal(op_of(&k, AH_PLAN_BACKWARD, 0, 1)->position, 2 * POSITIONS - 1);
    check_life(tensor_of(&k, AH_TENSOR_SUM, 1, 0), POSITIONS - 2, 2 * POSITIONS - 1);
    k.c.choice.knobs.micro_order = AH_BLOCK_MAJOR;
    compile(&k);
    assert_int_equal(op_of(&k, AH_PLAN_FORWARD, 0, 1)->position, 1);
    assert_int_equal(op_of(&k, AH_PLAN_FORWARD, 1, 0)->position, 2);
    assert_int_equal(op_of(&k, AH_PLAN_BACKWARD, 0, 1)->position, 2 * POSITIONS - 1);
    close_case(&k);
}

/* Sending a gradient may take one extra position. The gradient's lifetime ends at the position before the send is
 * due. */
TEST(compile, sends_gradients)
{
    static struct compiled k;
    open_case(&k, 1, 0, host_update);
    compile(&k);
    const struct ah_plan_op *send = op_of(&k, AH_PLAN_SEND_GRADIENTS, 2, 0);
    assert_int_equal(send->issue_after, POSITIONS - 3);
    assert_int_equal(send->due_before, POSITIONS - 1);
    check_life(tensor_of(&k, AH_TENSOR_GRADIENT, 2, 0), POSITIONS - 3, POSITIONS - 2);
    const struct ah_plan_op *adam = op_of(&k, AH_PLAN_HOST_ADAM, 2, 0);
    assert_int_equal(adam->issue_after, POSITIONS - 3);
    assert_int_equal(adam->due_before, 2);
    assert_int_equal(op_of(&k, AH_PLAN_UPLOAD, 2, 0)->due_before, 2);
    k.c.choice.knobs.updates_after_backward = true;
    compile(&k);
    assert_int_equal(op_of(&k, AH_PLAN_HOST_ADAM, 2, 0)->issue_after, POSITIONS - 1);
    close_case(&k);
}

/* Weights are fetched one position ahead of each use. Their lifetime begins at the position after the fetch is
 * issued. */
TEST(compile, fetches_weights)
{
    static struct compiled k;
    open_case(&k, 1, 0, on_host);
    compile(&k);
    const struct ah_plan_op *fetch = op_of(&k, AH_PLAN_FETCH, 1, 0);
    assert_int_equal(fetch->due_before, 1);
    assert_int_equal(fetch->issue_after, POSITIONS - 1);
    check_life(tensor_of(&k, AH_TENSOR_FETCHED, 1, 0), 0, 1);
    fetch = op_of(&k, AH_PLAN_FETCH, 3, 0); /* backward is two positions later: one fetch is enough */
    assert_int_equal(fetch->due_before, 3);
    check_life(tensor_of(&k, AH_TENSOR_FETCHED, 3, 0), 2, 5);
    const struct ah_plan_op *gather = op_of(&k, AH_PLAN_GATHER, 0, 0);
    assert_int_equal(gather->due_before, 0);
    close_case(&k);
}

/* The uses of the frozen weights are so close together that one fetch is enough. The next follows the last use. */
TEST(compile, never_fetches_into_weights_in_use)
{
    static struct compiled k;
    open_trained(&k, 2, 0,
                 (struct ah_config){.optimizer = AH_OPTIMIZER_HOST, .accumulator = AH_ACCUMULATOR_DEVICE},
                 "!layer.0.*");
    k.c.configs[1] = (struct ah_config){.weights = AH_WEIGHTS_HOST, .optimizer = AH_OPTIMIZER_NONE};
    k.c.choice.knobs.fetch_ahead = 9;
    compile(&k);
    const struct ah_plan_op *fetch = op_of(&k, AH_PLAN_FETCH, 1, 0);
    assert_int_equal(fetch->due_before, 1);
    assert_int_equal(fetch->issue_after, 2 * POSITIONS - 2);
    check_life(tensor_of(&k, AH_TENSOR_FETCHED, 1, 0), 2 * POSITIONS - 1, 2 * POSITIONS - 2);
    close_case(&k);
}

/* A device update follows the block's own gradient. If updates wait for the norm, it follows the last gradient. */
TEST(compile, updates_on_the_device)
{
    static struct compiled k;
    open_case(&k, 1, 0, on_device);
    compile(&k);
    assert_int_equal(k.of.iteration.positions, POSITIONS + BLOCKS);
    assert_int_equal(op_of(&k, AH_PLAN_DEVICE_ADAM, 3, 0)->position,
                     op_of(&k, AH_PLAN_BACKWARD, 3, 0)->position + 1);
    check_life(tensor_of(&k, AH_TENSOR_GRADIENT, 3, 0), (uint32_t)op_of(&k, AH_PLAN_BACKWARD, 3, 0)->position,
               (uint32_t)op_of(&k, AH_PLAN_DEVICE_ADAM, 3, 0)->position);
    close_case(&k);
    open_case(&k, 1, 1, on_device);
    compile(&k);
    for (uint64_t block = 0; block < BLOCKS; block++)
        assert_int_equal(op_of(&k, AH_PLAN_DEVICE_ADAM, block, 0)->position, POSITIONS + block);
    assert_int_equal(op_of(&k, AH_PLAN_NORM, 0, 0)->due_before, POSITIONS);
    check_life(tensor_of(&k, AH_TENSOR_GRADIENT, 3, 0), (uint32_t)op_of(&k, AH_PLAN_BACKWARD, 3, 0)->position,
               POSITIONS + 3);
    close_case(&k);
}

/* States arrive tile by tile while compute continues, before the block is used. */
TEST(compile, streams_states)
{
    static struct compiled k;
    open_case(&k, 1, 0, streamed);
    compile(&k);
    const struct ah_iteration *it = &k.of.iteration;
    uint64_t tiles = op_of(&k, AH_PLAN_DEVICE_ADAM, 1, 0)->tiles;
    assert_true(tiles > 1);
    assert_int_equal(op_of(&k, AH_PLAN_STATES_IN, 1, 0)->tiles, tiles);
    assert_int_equal(op_of(&k, AH_PLAN_STATES_OUT, 1, 0)->tiles, tiles);
    size_t seen = 0;
    for (size_t i = 0; i < it->positions; i++) { /* from the block's backward to its next forward */
        size_t p = (op_of(&k, AH_PLAN_BACKWARD, 1, 0)->position + i) % it->positions;
        const struct ah_plan_op *op = &it->ops[it->compute[p]];
        if (op->op == AH_PLAN_FORWARD && op->block == 1)
            break;
        seen += op->op == AH_PLAN_DEVICE_ADAM && op->block == 1;
    }
    assert_int_equal(seen, tiles);
    assert_int_equal(k.of.staging.device_state_tiles, 2);
    assert_int_equal(tensor_of(&k, AH_TENSOR_STATE_RING, 0, 0)->bytes,
                     2 * k.c.choice.knobs.tile_elements * k.c.job.state_bytes);
    close_case(&k);
}

/* Rings count as pinned memory if they are smaller than whole vectors. */
TEST(compile, counts_pinned_memory)
{
    static struct compiled k;
    open_case(&k, 1, 0, host_update);
    compile(&k);
    uint64_t elements = 0, bytes = k.c.job.gradient_bytes + k.c.job.weight_bytes;
    for (size_t block = 0; block < BLOCKS; block++)
        elements += ah_job_block(&k.c.job, block)->trained_elements;
    assert_int_equal(k.of.pinned_bytes, elements * bytes);
    k.c.choice.knobs.host_gradient_tiles = k.c.choice.knobs.host_weight_tiles = 3;
    compile(&k);
    assert_int_equal(k.of.pinned_bytes, 3 * k.c.choice.knobs.tile_elements * bytes);
    assert_int_equal(k.of.iteration.slots[AH_RING_HOST_GRADIENTS], 3);
    k.c.choice.knobs.updates_after_backward = true; /* gradients and updates wait for each other */
    compile(&k);
    assert_int_equal(k.of.iteration.slots[AH_RING_HOST_GRADIENTS], 0);
    close_case(&k);
}

TEST(compile, refuses_choices)
{
    static struct compiled k;
    struct ah_error err = {0};
    open_case(&k, 1, 0, streamed);
    k.c.choice.knobs.tile_elements++;
    CHECK_FAILS(ah_compile(&k.memory, &k.c.job, &k.c.choice, &k.of, &err), err, AH_E_USAGE,
                "multiple of 4096");
    k.c.choice.knobs.tile_elements--;
    k.c.choice.knobs.device_state_tiles = 0;
    CHECK_FAILS(ah_compile(&k.memory, &k.c.job, &k.c.choice, &k.of, &err), err, AH_E_USAGE,
                "give device_state_tiles");
    k.c.choice.knobs.device_state_tiles = 1;
    k.c.configs[2].weights = AH_WEIGHTS_HOST;
    k.c.configs[2].optimizer = AH_OPTIMIZER_DEVICE;
    CHECK_FAILS(ah_compile(&k.memory, &k.c.job, &k.c.choice, &k.of, &err), err, AH_E_USAGE,
                "block 2 cannot have this config");
    close_case(&k);
}
