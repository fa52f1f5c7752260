/* SPDX-License-Identifier: Apache-2.0
 *
 * Orders from measured times, on the virtual clock as the machine that is measured: its ops take other times than the plan
 * says, and what lanes show of them, slowed by each other, is what retiming is told.
 */
#include "runtime/schedule/check.h"
#include "runtime/schedule/replay.h"
#include "runtime/schedule/retime.h"
#include "runtime/schedule/rounds.h"
#include "tests/property/schedule/choices.h"

#include <math.h>

enum { PLANS = 60, ITERATIONS = 10, OPS_MAX = 4096 };

static struct test_case c;
static double true_us[OPS_MAX], measured_us[OPS_MAX];

/* Ops of one lane, which all plans have work for or not, take so many times what is planned. */
static void set_true_times(const struct ah_plan *plan, enum ah_plan_lane lane, double times)
{
    assert_true(plan->n_ops <= OPS_MAX);
    for (size_t op = 0; op < plan->n_ops; op++)
        true_us[op] = plan->ops[op].us * (plan->ops[op].lane == lane ? times : 1);
}

/* Runs the plan's lists with the true times. Returns the period. */
static double measure(const struct ah_plan *plan)
{
    struct ah_arena arena = {0};
    struct ah_replay replay;
    struct ah_error err = {0};
    CHECK_OK(ah_replay_run(plan, true_us, ITERATIONS, &arena, &replay, &err), err);
    memset(measured_us, 0, sizeof measured_us);
    for (size_t i = 0; i < replay.n_items; i++)
        if (replay.items[i].iteration == ITERATIONS - 2)
            measured_us[replay.items[i].op] += replay.items[i].finish_us - replay.items[i].start_us;
    ah_arena_release(&arena);
    return replay.period_us;
}

static size_t mentions(const uint64_t *ops, size_t n, uint64_t op)
{
    size_t count = 0;
    for (size_t i = 0; i < n; i++)
        count += ops[i] == op;
    return count;
}

/* Each tile of each op once, and compute as it was. */
static void expect_all_tiles(const struct ah_plan *plan, const struct ah_plan_lanes *lanes)
{
    assert_memory_equal(plan->lanes.compute, lanes->compute, plan->lanes.n_compute * sizeof *lanes->compute);
    for (size_t op = 0; op < plan->n_ops; op++) {
        const struct ah_plan_op *it = &plan->ops[op];
        size_t n = mentions(lanes->h2d, lanes->n_h2d, op) * (it->lane == AH_PLAN_LANE_H2D) +
                   mentions(lanes->d2h, lanes->n_d2h, op) * (it->lane == AH_PLAN_LANE_D2H) +
                   mentions(lanes->host, lanes->n_host, op) * (it->lane == AH_PLAN_LANE_HOST);
        if (it->lane != AH_PLAN_LANE_COMPUTE)
            assert_int_equal(n, it->tiles);
    }
}

static bool make_plan(struct ah_schedule *schedule, struct ah_document *ret_document, uint64_t *seed)
{
    struct ah_score score;
    struct ah_error err = {0};
    test_case_choose(&c, seed);
    c.choice.knobs.scheduling = AH_SCHEDULING_PRIORITY;
    int rc = ah_schedule_evaluate(schedule, &c.choice, &score, &err);
    if (rc == AH_E_FAILED)
        return false;
    CHECK_OK(rc, err);
    test_case_emit(&c, schedule, ret_document);
    return true;
}

/* Without resources that lanes share, what is measured is what ops take. */
static void expect_true_times(const struct ah_plan *plan, const struct ah_retimed *retimed)
{
    for (size_t op = 0; op < plan->n_ops && !plan->sharing.n_resources; op++)
        assert_true(fabs(retimed->op_us[op] - true_us[op]) <= 1e-9 * retimed->before_us);
}

struct counts {
    int plans, better;
    double best;
};

static void retime_plan(const struct ah_plan *plan, struct counts *counts)
{
    struct ah_arena arena = {0};
    struct ah_retimed retimed;
    struct ah_rounds rounds;
    struct ah_error err = {0};
    double period_us = measure(plan);
    CHECK_OK(ah_retime(plan, measured_us, &arena, &retimed, &err), err);
    expect_all_tiles(plan, &retimed.lanes);
    expect_true_times(plan, &retimed);
    if (!plan->sharing.n_resources)
        assert_true(fabs(retimed.before_us - period_us) <= 1e-6 * period_us);
    assert_true(fabs(retimed.before_us - period_us) <= 0.05 * period_us);

    struct ah_plan anew = *plan;
    anew.lanes = retimed.lanes;
    CHECK_OK(ah_rounds_read(&anew, &arena, &rounds, &err), err);
    counts->plans++;
    double gain = 1 - measure(&anew) / period_us;
    counts->better += retimed.after_us < retimed.before_us * 0.99 && gain > 0.01;
    counts->best = gain > counts->best ? gain : counts->best;
    ah_arena_release(&arena);
}

TEST(retime, orders_follow_what_was_measured)
{
    uint64_t seed = check_seed(51);
    struct counts counts = {0};
    while (counts.plans < PLANS) {
        struct ah_schedule schedule = {0};
        struct ah_document document;
        struct ah_error err = {0};
        test_case_open(&c, &seed);
        CHECK_OK(ah_schedule_init(&schedule, &c.job, &err), err);
        if (make_plan(&schedule, &document, &seed)) {
            const struct ah_plan *plan = document.body.plan;
            set_true_times(plan, (enum ah_plan_lane)(counts.plans % 4), counts.plans % 8 < 4 ? 1.7 : 0.5);
            retime_plan(plan, &counts);
            ah_document_release(&document);
        }
        ah_schedule_release(&schedule);
        test_case_close(&c);
    }
    print_message("%d plans, %d of them over 1 %% faster, one by %.1f %%\n", counts.plans, counts.better,
                  100 * counts.best);
    assert_true(counts.better > 0);
}

/* Told the times that it was made with, a plan keeps its orders. */
TEST(retime, a_plan_that_came_true_stays)
{
    uint64_t seed = check_seed(52);
    struct ah_schedule schedule = {0};
    struct ah_document document;
    struct ah_error err = {0};
    struct ah_arena arena = {0};
    struct ah_retimed retimed;
    do {
        test_case_close(&c);
        ah_schedule_release(&schedule);
        test_case_open(&c, &seed);
        CHECK_OK(ah_schedule_init(&schedule, &c.job, &err), err);
    } while (c.costs.sharing.n_resources || !make_plan(&schedule, &document, &seed));
    const struct ah_plan *plan = document.body.plan;
    for (size_t op = 0; op < plan->n_ops; op++)
        measured_us[op] = plan->ops[op].us;
    CHECK_OK(ah_retime(plan, measured_us, &arena, &retimed, &err), err);
    assert_int_equal(retimed.lanes.n_h2d, plan->lanes.n_h2d);
    assert_memory_equal(retimed.lanes.h2d, plan->lanes.h2d, plan->lanes.n_h2d * sizeof(uint64_t));
    assert_memory_equal(retimed.lanes.d2h, plan->lanes.d2h, plan->lanes.n_d2h * sizeof(uint64_t));
    assert_memory_equal(retimed.lanes.host, plan->lanes.host, plan->lanes.n_host * sizeof(uint64_t));
    assert_true(fabs(retimed.after_us - retimed.before_us) <= 1e-9 * retimed.before_us);

    measured_us[plan->n_ops / 2] = -1;
    CHECK_FAILS(ah_retime(plan, measured_us, &arena, &retimed, &err), err, AH_E_USAGE, "-1 us");
    ah_arena_release(&arena);
    ah_document_release(&document);
    ah_schedule_release(&schedule);
    test_case_close(&c);
}
