/* SPDX-License-Identifier: Apache-2.0
 *
 * What executors are told of a plan beside what the simulator reads: who uses whose place, who goes first, and who takes
 * its place behind whom.
 */
#include "runtime/schedule/rounds.h"
#include "tests/property/schedule/choices.h"

enum { LAYERS = 3 };

static struct test_case c;
static struct ah_schedule schedule;
static struct ah_document document;
static struct ah_arena arena;
static struct ah_rounds rounds;

static void open_rounds(enum ah_accumulator accumulator, uint32_t host_gradient_tiles)
{
    struct ah_score score;
    struct ah_error err = {0};
    test_case_model(&c, LAYERS, 64, false);
    c.patterns[0] = "*";
    test_case_job(
        &c, (struct ah_plan_training){.batch = 6, .micro_batches = 3, .seq = 32, .state_dtype = AH_FP32}, 1);
    test_case_costs(&c, 100, 70, 150);
    for (size_t block = 0; block < c.job.n_blocks; block++)
        c.configs[block] =
            (struct ah_config){.optimizer = AH_OPTIMIZER_HOST, .accumulator = (uint8_t)accumulator};
    c.choice.knobs = (struct ah_knobs){.tile_elements = 2 * AH_PLAN_TILE_UNIT,
                                       .send_behind = 2,
                                       .host_gradient_tiles = host_gradient_tiles,
                                       .host_weight_tiles = 3};
    CHECK_OK(ah_schedule_init(&schedule, &c.job, &err), err);
    CHECK_OK(ah_schedule_evaluate(&schedule, &c.choice, &score, &err), err);
    test_case_emit(&c, &schedule, &document);
    CHECK_OK(ah_rounds_read(document.body.plan, &arena, &rounds, &err), err);
}

static void close_rounds(void)
{
    ah_arena_release(&arena);
    ah_document_release(&document);
    ah_schedule_release(&schedule);
    test_case_close(&c);
}

static const struct ah_plan_op *op_of(uint32_t item)
{
    return &document.body.plan->ops[rounds.items[item].op];
}

TEST(rounds, sends_take_their_places_in_turn)
{
    size_t in_turn = 0;
    open_rounds(AH_ACCUMULATOR_HOST, 4);
    for (uint32_t i = 0; i < rounds.n_items; i++) {
        const struct ah_rounds_item *item = &rounds.items[i];
        if (op_of(i)->op != AH_PLAN_SEND_GRADIENTS || !op_of(i)->micro_batch) {
            assert_int_equal(item->behind, AH_ROUNDS_NONE);
            continue;
        }
        const struct ah_rounds_item *before = &rounds.items[item->behind];
        assert_int_equal(op_of(item->behind)->op, AH_PLAN_SEND_GRADIENTS);
        assert_int_equal(op_of(item->behind)->block, op_of(i)->block);
        assert_int_equal(op_of(item->behind)->micro_batch + 1, op_of(i)->micro_batch);
        assert_int_equal(before->tile, item->tile);
        in_turn++;
    }
    assert_true(in_turn > 2 * c.job.n_blocks);
    close_rounds();
}

/* Whole vectors, and sums on the device, have nothing to wait for. */
TEST(rounds, without_places_there_is_no_turn)
{
    for (int i = 0; i < 2; i++) {
        open_rounds(i ? AH_ACCUMULATOR_HOST : AH_ACCUMULATOR_DEVICE, i ? 0 : 4);
        for (uint32_t item = 0; item < rounds.n_items; item++)
            assert_int_equal(rounds.items[item].behind, AH_ROUNDS_NONE);
        close_rounds();
    }
}

/* New weights that the next iteration needs earlier go up earlier, and all before those of the iteration after it. */
TEST(rounds, what_is_needed_first_has_the_smaller_key)
{
    open_rounds(AH_ACCUMULATOR_DEVICE, 0);
    for (uint32_t i = 0; i < rounds.n_items; i++)
        for (uint32_t k = 0; k < rounds.n_items; k++) {
            if (op_of(i)->op != AH_PLAN_UPLOAD || op_of(k)->op != AH_PLAN_UPLOAD)
                continue;
            if (op_of(i)->due_before < op_of(k)->due_before)
                assert_true(rounds.items[i].priority < rounds.items[k].priority);
            assert_true(rounds.items[i].priority < rounds.items[k].priority + rounds.priority_step);
        }
    close_rounds();
}
