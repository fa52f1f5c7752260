/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests which steps of a simulated run count for which numbers.
 */
#include "runtime/train/tally.h"
#include "tests/support/tiny_plan.h"

#include <stdlib.h>

static struct ah_tally *begun(uint64_t now_ns)
{
    struct ah_tally *tally;
    struct ah_error err = {0};
    CHECK_OK(ah_tally_new(&tally, tiny_plan(), &err), err);
    ah_tally_begin(tally, now_ns);
    return tally;
}

static double step(struct ah_tally *tally, uint64_t number, uint64_t end_us)
{
    return ah_tally_step(tally, &(struct ah_step_record){.step = number, .end_ns = 1000 * end_us});
}

static void check_median(struct ah_tally *tally, double expected_us)
{
    struct ah_runlog_end end = {.step = 7};
    struct ah_arena arena = {0};
    struct ah_error err = {0};
    CHECK_OK(ah_tally_end(tally, &arena, &end, &err), err);
    check_near(end.median_step_us, expected_us, 1e-12);
    assert_int_equal(end.step, 7);
    ah_arena_release(&arena);
}

TEST_IN(tally, says_nothing_without_steps, tiny_plan_load, tiny_plan_release)
{
    struct ah_tally *tally = begun(0);
    struct ah_runlog_end end = {.reason = AH_RUNLOG_INTERRUPTED};
    struct ah_error err = {0};
    CHECK_OK(ah_tally_end(tally, NULL, &end, &err), err);
    assert_true(end.median_step_us == 0 && end.predicted_step_us == 0 && !end.exposed_us && !end.n_parts);
    ah_tally_free(tally);
    ah_tally_free(NULL);
}

TEST_IN(tally, times_steps_from_the_one_before, tiny_plan_load, tiny_plan_release)
{
    struct ah_tally *tally = begun(500000);
    check_near(step(tally, 1, 600), 100, 1e-12);
    check_median(tally, 100); /* the first step counts if it is the only step */
    check_near(step(tally, 2, 630), 30, 1e-12);
    check_median(tally, 30);
    check_near(step(tally, 3, 680), 50, 1e-12);
    check_median(tally, 40);
    ah_tally_begin(tally, 1000000); /* other work took 320 us before this step */
    check_near(step(tally, 4, 1900), 900, 1e-12);
    check_median(tally, 40); /* step 4 follows a drain, so it does not count */
    check_near(step(tally, 5, 1960), 60, 1e-12);
    check_median(tally, 50);
    ah_tally_free(tally);
}

TEST_IN(tally, counts_cold_steps_where_there_are_no_others, tiny_plan_load, tiny_plan_release)
{
    struct ah_tally *tally = begun(0);
    for (uint64_t number = 1; number <= 3; number++) {
        ah_tally_begin(tally, 0);
        step(tally, number, 100 * number);
        check_median(tally, 50 + 50 * (double)number);
    }
    ah_tally_free(tally);
}

TEST_IN(tally, forgets_what_is_before_its_window, tiny_plan_load, tiny_plan_release)
{
    struct ah_tally *tally = begun(0);
    uint64_t end_us = 0;
    step(tally, 1, end_us);
    for (uint64_t number = 2; number < 2 + 3 * AH_RUNLOG_MEDIAN_STEPS; number++)
        step(tally, number, end_us += number < 2 + 2 * AH_RUNLOG_MEDIAN_STEPS ? 10 : 70);
    check_median(tally, 70);
    ah_tally_free(tally);
}

static void tell(struct ah_tally *tally, uint64_t number, size_t op, uint64_t tile, uint64_t us)
{
    const struct ah_op_record record = {
        .step = number,
        .lane = (uint32_t)(op == SIZE_MAX ? AH_LANE_D2H : tiny_plan()->ops[op].lane),
        .op = op,
        .tile = tile,
        .start_ns = 1000000 * number,
        .end_ns = 1000000 * number + 1000 * us};
    ah_tally_op(tally, &record);
}

TEST_IN(tally, keeps_data_apart, tiny_plan_load, tiny_plan_release)
{
    struct ah_tally *tally = begun(0);
    struct ah_runlog_end end = {0};
    struct ah_arena arena = {0};
    struct ah_error err = {0};
    for (uint64_t number = 1; number <= 5; number++) {
        tell(tally, number, SIZE_MAX, 0, 4);
        tell(tally, number, SIZE_MAX, 0, 2);
        tell(tally, number, 1, 0, 8);
        step(tally, number, 1000 * number);
    }
    CHECK_OK(ah_tally_end(tally, &arena, &end, &err), err);
    assert_int_equal(end.n_parts, 2);
    size_t data = end.parts[1].op == AH_RUNLOG_OP_DATA;
    assert_int_equal(end.parts[data].op, AH_RUNLOG_OP_DATA);
    assert_int_equal(end.parts[data].lane, AH_PLAN_LANE_D2H);
    check_near(end.parts[data].us, 6, 1e-9);
    check_near(end.parts[1 - data].us, 8, 1e-9);
    ah_arena_release(&arena);
    ah_tally_free(tally);
}
