/* SPDX-License-Identifier: Apache-2.0
 *
 * Fails each allocation of evaluation, emission and replay once: expects an error and no leak. A second evaluation
 * allocates nothing.
 */
#include "runtime/schedule/replay.h"
#include "tests/property/schedule/choices.h"
#include "tests/support/fault.h"

static void make_case(struct test_case *c)
{
    static const struct ah_config configs[] = {
        {AH_ACTIVATIONS_KEEP, AH_WEIGHTS_HOST, AH_OPTIMIZER_HOST, AH_ACCUMULATOR_HOST},
        {AH_ACTIVATIONS_RECOMPUTE, AH_WEIGHTS_HOST, AH_OPTIMIZER_STREAMED, AH_ACCUMULATOR_DEVICE},
        {AH_ACTIVATIONS_KEEP, AH_WEIGHTS_DEVICE, AH_OPTIMIZER_HOST, AH_ACCUMULATOR_DEVICE}};
    test_case_model(c, 3, 64, false);
    c->patterns[0] = "*";
    test_case_job(c,
                  (struct ah_plan_training){
                      .batch = 4, .micro_batches = 2, .seq = 32, .clip = 1, .state_dtype = AH_FP32},
                  1);
    test_case_costs(c, 100, 70, 150);
    for (size_t block = 0; block < c->job.n_blocks; block++)
        c->configs[block] = configs[block == 2 ? 1 : block == 3 ? 2 : 0];
    c->choice.knobs = (struct ah_knobs){
        .tile_elements = 2 * AH_PLAN_TILE_UNIT, .fetch_ahead = 1, .send_behind = 1, .device_state_tiles = 3};
}

static int evaluate_emit_replay(void *context, struct ah_error *err)
{
    struct test_case *c = context;
    struct ah_schedule schedule = {0};
    struct ah_arena arena = {0};
    struct ah_plan plan = {.training = c->job.training};
    struct ah_score score;
    struct ah_replay replay = {0};
    int rc = ah_schedule_init(&schedule, &c->job, err);
    if (!rc)
        rc = ah_schedule_evaluate(&schedule, &c->choice, &score, err);
    if (!rc)
        rc = ah_schedule_emit(&schedule, &c->choice, &arena, &plan, err);
    if (!rc)
        rc = ah_replay_run(&plan, 4, &arena, &replay, err);
    assert_true(rc == AH_OK || (rc == AH_E_MEMORY && !replay.items));
    ah_arena_release(&arena);
    ah_schedule_release(&schedule);
    return rc;
}

TEST(schedule, survives_every_failing_allocation)
{
    static struct test_case c;
    make_case(&c);
    assert_true(fault_sweep(evaluate_emit_replay, &c, 0) > 60);
    test_case_close(&c);
}

/* A schedule that failed to grow must still work. */
static int grow_again(void *context, struct ah_error *err)
{
    struct test_case *c = context;
    struct ah_schedule schedule = {0};
    struct ah_error other = {0};
    struct ah_score score;
    int rc = ah_schedule_init(&schedule, &c->job, err);
    if (rc)
        return rc;
    c->choice.knobs.tile_elements = 4 * AH_PLAN_TILE_UNIT;
    rc = ah_schedule_evaluate(&schedule, &c->choice, &score, err);
    c->choice.knobs.tile_elements = AH_PLAN_TILE_UNIT;
    if (!rc)
        rc = ah_schedule_evaluate(&schedule, &c->choice, &score, err);
    CHECK_OK(ah_schedule_evaluate(&schedule, &c->choice, &score, &other), other);
    ah_schedule_release(&schedule);
    return rc;
}

TEST(schedule, works_on_after_a_failure)
{
    static struct test_case c;
    make_case(&c);
    assert_true(fault_sweep(grow_again, &c, 0) > 60);
    test_case_close(&c);
}

TEST(schedule, evaluating_again_allocates_nothing)
{
    static struct test_case c;
    struct ah_schedule schedule = {0};
    struct ah_error err = {0};
    struct ah_score score;
    make_case(&c);
    CHECK_OK(ah_schedule_init(&schedule, &c.job, &err), err);
    CHECK_OK(ah_schedule_evaluate(&schedule, &c.choice, &score, &err), err);
    (void)fault_count();
    CHECK_OK(ah_schedule_evaluate(&schedule, &c.choice, &score, &err), err);
    CHECK_OK(ah_schedule_measure(&schedule, &c.choice, &score, &err), err);
    assert_int_equal(fault_count(), 0);
    ah_schedule_release(&schedule);
    test_case_close(&c);
}
