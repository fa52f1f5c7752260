/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests that the tally of a run that goes exactly as planned measures what the plan says. The run is a timeline of the
 * simulator. The oracle is the schedule's own account of the timeline, the plan's `time`.
 */
#include "runtime/schedule/graph.h"
#include "runtime/schedule/replay.h"
#include "runtime/train/tally.h"
#include "tests/property/schedule/choices.h"

#include <math.h>
#include <stdlib.h>

enum { ITERATIONS = 30, STEPS = ITERATIONS - 2, PIECES_MAX = 3, LANES = AH_DEVICE_LANES };

/* A simulated us is reported as a ms, so that rounding to ns does not matter. */
static const double NS_PER_US = 1e6;

static const uint32_t device_lane[LANES] = {AH_LANE_COMPUTE, AH_LANE_H2D, AH_LANE_D2H, AH_LANE_HOST};

struct told {
    const struct ah_plan *plan;
    const struct ah_replay *replay;
    struct ah_graph graph;
    struct ah_tally *tally;
    size_t next[LANES]; /* the next item of the replay */
    double part_us[AH_RUNLOG_OPS][LANES];
};

static uint64_t ns_of(double us)
{
    return 1000 + (uint64_t)llround(us * NS_PER_US);
}

/* Returns the round of an item, counted from 0. The opening has round -1. */
static int64_t round_of(const struct told *told, const struct ah_replay_item *item)
{
    size_t i = 0;
    while (told->graph.items[i].op != item->op || told->graph.items[i].tile != item->tile)
        i++;
    return (int64_t)item->iteration - (told->graph.items[i].early ? 1 : 0);
}

static void tell_item(struct told *told, const struct ah_replay_item *item, int64_t round, uint64_t *seed)
{
    uint64_t start_ns = ns_of(item->start_us), end_ns = ns_of(item->finish_us);
    uint64_t pieces = 1 + check_random(seed) % PIECES_MAX;
    for (uint64_t k = 0; k < pieces; k++) {
        const struct ah_op_record record = {.step = (uint64_t)(round < 0 ? 1 : round + 1),
                                            .lane = device_lane[item->lane],
                                            .op = item->op,
                                            .tile = item->tile,
                                            .start_ns = start_ns + k * (end_ns - start_ns) / pieces,
                                            .end_ns = start_ns + (k + 1) * (end_ns - start_ns) / pieces};
        ah_tally_op(told->tally, &record);
    }
    if (round == STEPS - 1)
        told->part_us[told->plan->ops[item->op].op][item->lane] += item->finish_us - item->start_us;
}

/* Reports, lane by lane, everything done by the end of a round. This includes ops of the next round. */
static void tell_round(struct told *told, int64_t round, uint64_t *seed)
{
    const struct ah_replay *replay = told->replay;
    double end_us = 0;
    for (size_t i = 0; i < replay->n_items; i++)
        if (round_of(told, &replay->items[i]) == round)
            end_us = fmax(end_us, replay->items[i].finish_us);
    for (size_t lane = 0; lane < LANES; lane++)
        for (size_t *at = &told->next[lane]; *at < replay->first_of_lane[lane + 1]; ++*at) {
            const struct ah_replay_item *item = &replay->items[*at];
            bool absent = item->finish_us <= item->start_us;
            if (item->finish_us > end_us)
                break;
            if (!absent)
                tell_item(told, item, round_of(told, item), seed);
        }
    const struct ah_step_record record = {.step = (uint64_t)round + 1, .end_ns = ns_of(end_us)};
    ah_tally_step(told->tally, &record);
}

static void check_parts(const struct told *told, const struct ah_runlog_part *parts, size_t n, double scale)
{
    double near_us = 1e-5, lanes_us[LANES] = {0};
    double left_us[AH_RUNLOG_OPS][LANES];
    memcpy(left_us, told->part_us, sizeof left_us);
    for (size_t i = 0; i < n; i++) {
        check_near(parts[i].us / scale, left_us[parts[i].op][parts[i].lane], near_us);
        left_us[parts[i].op][parts[i].lane] = 0;
        lanes_us[parts[i].lane] += parts[i].us / scale;
    }
    for (size_t i = 0; i < AH_RUNLOG_OPS * LANES; i++)
        check_near(left_us[i / LANES][i % LANES], 0, near_us);
    const struct ah_plan_time *time = &told->plan->time;
    for (size_t lane = 0; lane < LANES; lane++)
        check_near(lanes_us[lane], time->busy_us[lane], near_us);
}

static void check_end(struct told *told, const struct ah_runlog_predicted *predicted)
{
    const double scale = NS_PER_US / 1e3;
    struct ah_runlog_end end = {0};
    struct ah_arena arena = {0};
    struct ah_error err = {0};
    double step_us = told->plan->time.step_us, near_us = 1e-5;
    CHECK_OK(ah_tally_end(told->tally, &arena, &end, &err), err);
    check_near(end.median_step_us / scale, step_us, near_us);
    check_near(end.predicted_step_us, step_us, 0);
    check_near(end.step_error, end.median_step_us / step_us - 1, 1e-12);
    for (size_t lane = 0; lane < LANES; lane++)
        check_near(end.exposed_us->of[lane] / scale, predicted->exposed_us->of[lane], near_us);
    check_parts(told, end.parts, end.n_parts, scale);
    check_parts(told, predicted->parts, predicted->n_parts, 1);
    ah_arena_release(&arena);
}

/* Checks the tally of a plan's run. Returns true if compute waited. */
static bool check_plan(const struct ah_plan *plan, const struct ah_replay *replay, uint64_t *seed)
{
    struct told told = {.plan = plan, .replay = replay};
    struct ah_runlog_predicted predicted;
    struct ah_arena arena = {0};
    struct ah_error err = {0};
    CHECK_OK(ah_tally_predict(plan, &arena, &predicted, &err), err);
    CHECK_OK(ah_graph_read(plan, &arena, &told.graph, &err), err);
    CHECK_OK(ah_tally_new(&told.tally, plan, &err), err);
    for (size_t lane = 0; lane < LANES; lane++)
        told.next[lane] = replay->first_of_lane[lane];
    ah_tally_begin(told.tally, ns_of(0));
    for (int64_t round = 0; round < STEPS; round++)
        tell_round(&told, round, seed);
    check_end(&told, &predicted);
    ah_tally_free(told.tally);
    ah_arena_release(&arena);
    return plan->time.exposed_us.of[AH_PLAN_LANE_H2D] + plan->time.exposed_us.of[AH_PLAN_LANE_D2H] +
               plan->time.exposed_us.of[AH_PLAN_LANE_HOST] >
           0.01 * plan->time.step_us;
}

TEST(tally, measures_what_was_planned)
{
    enum { PLANS = 150 };
    uint64_t seed = check_seed(21);
    unsigned checked = 0, waited = 0;
    for (int i = 0; i < PLANS; i++) {
        static struct test_case c;
        struct ah_schedule schedule;
        struct ah_document document;
        struct ah_score score;
        struct ah_error err = {0};
        struct ah_arena arena = {0};
        struct ah_replay replay;
        test_case_open(&c, &seed);
        test_case_choose(&c, &seed);
        CHECK_OK(ah_schedule_init(&schedule, &c.job, &err), err);
        if (!ah_schedule_evaluate(&schedule, &c.choice, &score, &err)) {
            test_case_emit(&c, &schedule, &document);
            CHECK_OK(ah_replay_run(document.body.plan, ITERATIONS, &arena, &replay, &err), err);
            checked += replay.steady;
            waited += replay.steady && check_plan(document.body.plan, &replay, &seed);
            ah_arena_release(&arena);
            ah_document_release(&document);
        }
        ah_schedule_release(&schedule);
        test_case_close(&c);
    }
    assert_true(checked > PLANS / 2 && waited > PLANS / 4);
}
