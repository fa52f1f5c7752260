/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests dispatch in cases with an easily predicted order.
 */
#include "runtime/schedule/replay.h"
#include "tests/property/schedule/choices.h"

#include <math.h>

enum { LAYERS = 5 };

/* Makes a case with one tile per block. All blocks are updated on the host, and weights are on the device. */
static void make_case(struct test_case *c, double clip, double copy_us, double adam_us)
{
    test_case_model(c, LAYERS, 64, false);
    c->patterns[0] = "*";
    test_case_job(c,
                  (struct ah_plan_training){
                      .batch = 1, .micro_batches = 1, .seq = 32, .clip = clip, .state_dtype = AH_FP32},
                  1);
    test_case_costs(c, 100, copy_us, adam_us);
    for (size_t block = 0; block < c->job.n_blocks; block++)
        c->configs[block] = (struct ah_config){.optimizer = AH_OPTIMIZER_HOST};
    c->choice.knobs = (struct ah_knobs){.tile_elements = 64 * AH_PLAN_TILE_UNIT, .send_behind = 99};
}

static struct ah_score emit(const struct test_case *c, struct ah_document *document)
{
    struct ah_schedule schedule = {0};
    struct ah_score score;
    struct ah_error err = {0};
    CHECK_OK(ah_schedule_init(&schedule, &c->job, &err), err);
    CHECK_OK(ah_schedule_evaluate(&schedule, &c->choice, &score, &err), err);
    test_case_emit(c, &schedule, document);
    ah_schedule_release(&schedule);
    return score;
}

/* Writes the blocks updated by the host lane, in order, and returns their number. */
static size_t updates(const struct ah_plan *plan, uint64_t ret_blocks[LAYERS + 2])
{
    size_t n = 0;
    for (size_t i = 0; i < plan->lanes.n_order[AH_PLAN_LANE_HOST]; i++) {
        const struct ah_plan_op *op = &plan->ops[plan->lanes.order[AH_PLAN_LANE_HOST][i]];
        if (op->op == AH_PLAN_HOST_ADAM)
            ret_blocks[n++] = op->block;
    }
    return n;
}

/* Updates take so long that all gradients arrive before the second update. The head's gradient arrives first, so the
 * head is first. Next are the lowest blocks, as the next forward needs them first. FIFO takes the top blocks first. */
TEST(dispatch, takes_what_is_needed_first)
{
    static struct test_case c;
    static const uint64_t by_need[] = {6, 0, 1, 2, 3, 4, 5}, by_time[] = {6, 5, 4, 3, 2, 1, 0};
    struct ah_document document;
    uint64_t blocks[LAYERS + 2];
    make_case(&c, 0, 1, 50000);
    emit(&c, &document);
    assert_int_equal(updates(document.body.plan, blocks), LAYERS + 2);
    assert_memory_equal(blocks, by_need, sizeof by_need);
    ah_document_release(&document);
    c.choice.knobs.scheduling = AH_SCHEDULING_FIFO;
    emit(&c, &document);
    assert_int_equal(updates(document.body.plan, blocks), LAYERS + 2);
    assert_memory_equal(blocks, by_time, sizeof by_time);
    ah_document_release(&document);
    test_case_close(&c);
}

/* With clipping, all updates follow the norm, lowest block first. */
TEST(dispatch, updates_from_below_after_the_norm)
{
    static struct test_case c;
    static const uint64_t by_need[] = {0, 1, 2, 3, 4, 5, 6};
    struct ah_document document;
    uint64_t blocks[LAYERS + 2];
    make_case(&c, 1, 1, 500);
    c.costs.norm_us = 1000; /* when the norm is done, all gradients are on the host */
    emit(&c, &document);
    assert_int_equal(updates(document.body.plan, blocks), LAYERS + 2);
    assert_memory_equal(blocks, by_need, sizeof by_need);
    assert_int_equal(document.body.plan->ops[document.body.plan->lanes.order[AH_PLAN_LANE_HOST][0]].op,
                     AH_PLAN_NORM);
    ah_document_release(&document);
    test_case_close(&c);
}

/* Only compute costs time, so the period is the compute lane's work. */
TEST(dispatch, compute_alone_sets_the_pace)
{
    static struct test_case c;
    struct ah_document document;
    make_case(&c, 0, 0.001, 0.001);
    struct ah_score score = emit(&c, &document);
    assert_true(score.period_us < 1.001 * score.work_us[AH_PLAN_LANE_COMPUTE]);
    assert_true(score.period_us >= score.work_us[AH_PLAN_LANE_COMPUTE]);
    ah_document_release(&document);
    test_case_close(&c);
}

/* Updates are so slow that the host lane is always busy and compute waits for it. */
TEST(dispatch, compute_waits_for_the_host)
{
    static struct test_case c;
    struct ah_document document;
    make_case(&c, 0, 1, 1e6);
    struct ah_score score = emit(&c, &document);
    double host_us = score.work_us[AH_PLAN_LANE_HOST];
    assert_true(score.period_us >= host_us && score.period_us < 1.1 * host_us);
    assert_true(score.exposed_us[AH_PLAN_LANE_HOST] > 0.9 * (host_us - score.work_us[AH_PLAN_LANE_COMPUTE]));
    ah_document_release(&document);
    test_case_close(&c);
}

/* If steps must end, no work overlaps the next iteration. */
TEST(dispatch, steps_may_end)
{
    static struct test_case c;
    struct ah_document document;
    make_case(&c, 0, 50, 300);
    struct ah_score overlapped = emit(&c, &document);
    ah_document_release(&document);
    c.choice.knobs.step_ends = true;
    struct ah_score ended = emit(&c, &document);
    assert_true(ended.period_us > overlapped.period_us);
    for (size_t op = 0; op < document.body.plan->n_ops; op++)
        if (document.body.plan->ops[op].op == AH_PLAN_UPLOAD)
            assert_int_equal(document.body.plan->ops[op].due_before, 0);
    ah_document_release(&document);
    test_case_close(&c);
}

/* If a choice is slower than the limit, its period comes from dispatch alone, and is within a few percent. */
TEST(dispatch, enough_is_enough)
{
    static struct test_case c;
    struct ah_document document;
    struct ah_schedule schedule = {0};
    struct ah_score score;
    struct ah_error err = {0};
    make_case(&c, 1, 50, 300);
    struct ah_score whole = emit(&c, &document);
    CHECK_OK(ah_schedule_init(&schedule, &c.job, &err), err);
    c.choice.enough_us = whole.period_us / 2;
    CHECK_OK(ah_schedule_evaluate(&schedule, &c.choice, &score, &err), err);
    assert_true(fabs(score.period_us - whole.period_us) < 0.05 * whole.period_us);
    assert_true(score.busy_us[0] <= 0);
    c.choice.enough_us = whole.period_us * 2;
    CHECK_OK(ah_schedule_evaluate(&schedule, &c.choice, &score, &err), err);
    assert_memory_equal(&score, &whole, sizeof score);
    ah_schedule_release(&schedule);
    ah_document_release(&document);
    test_case_close(&c);
}
