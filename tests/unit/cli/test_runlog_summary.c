/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests the summary of a run log: which steps count, and how measured times compare with the predicted ones.
 */
#include "runtime/run/runlog_summary.h"
#include "tests/support/check.h"

#include <stdlib.h>
#include <string.h>

enum { STEPS_MAX = 3 * AH_RUNLOG_MEDIAN_STEPS };

/* A log of steps of 1000 us. Compute works for 700, waits 200 for host Adam and idles for 100, as predicted. */
struct log {
    struct ah_runlog_step *steps;
    struct ah_plan_by_lane exposed[2]; /* predicted, measured */
    struct ah_runlog_part parts[2][3];
    struct ah_runlog_predicted predicted;
    struct ah_runlog_end end;
    struct ah_runlog runlog;
    struct ah_arena arena;
    struct ah_runlog_summary summary;
};

static void open_log(struct log *log, size_t n_steps)
{
    *log = (struct log){.steps = calloc(n_steps + 1, sizeof *log->steps)};
    assert_non_null(log->steps);
    for (size_t i = 0; i < n_steps; i++)
        log->steps[i] = (struct ah_runlog_step){.step = i + 1, .step_us = 1000, .busy_us = {700, 50, 0, 300}};
    for (int side = 0; side < 2; side++) {
        log->exposed[side] = (struct ah_plan_by_lane){{[AH_PLAN_LANE_HOST] = 200}};
        log->parts[side][0] = (struct ah_runlog_part){AH_PLAN_FORWARD, AH_PLAN_LANE_COMPUTE, 300};
        log->parts[side][1] = (struct ah_runlog_part){AH_PLAN_BACKWARD, AH_PLAN_LANE_COMPUTE, 400};
        log->parts[side][2] = (struct ah_runlog_part){AH_PLAN_HOST_ADAM, AH_PLAN_LANE_HOST, 300};
    }
    log->predicted = (struct ah_runlog_predicted){.step_us = 1000,
                                                  .busy_us = {700, 50, 0, 300},
                                                  .exposed_us = &log->exposed[0],
                                                  .parts = log->parts[0],
                                                  .n_parts = 3};
    log->end = (struct ah_runlog_end){.exposed_us = &log->exposed[1], .parts = log->parts[1], .n_parts = 3};
    log->runlog = (struct ah_runlog){.first_step = 1,
                                     .predicted = &log->predicted,
                                     .steps = log->steps,
                                     .n_steps = n_steps,
                                     .end = &log->end};
}

static void summarise(struct log *log)
{
    struct ah_error err = {0};
    CHECK_OK(ah_runlog_summary_init(&log->summary, &log->runlog, &log->arena, &err), err);
}

static void close_log(struct log *log)
{
    ah_arena_release(&log->arena);
    free(log->steps);
}

static void says(struct log *log, const char *expected)
{
    struct ah_buffer out = {0};
    summarise(log);
    ah_runlog_summary_put_cause(&out, &log->summary);
    assert_string_equal(out.data ? out.data : "", expected);
    ah_buffer_release(&out);
}

/* 1000 us at 10^12 flops a second are 10^9 flops, of which the model needs 4 x 10^8. */
TEST(runlog_summary, knows_the_utilisation_if_the_log_has_a_peak)
{
    struct log log;
    open_log(&log, 4);
    log.predicted.step_us = 500;
    log.runlog.model_flops = 4e8;
    summarise(&log);
    assert_false(log.summary.mfu.is_measured || log.summary.mfu.is_predicted);
    log.runlog.peak_flops_per_s = 1e12;
    summarise(&log);
    check_near(log.summary.mfu.measured, 0.4, 1e-12);
    check_near(log.summary.mfu.predicted, 0.8, 1e-12);
    check_near(ah_runlog_summary_mfu(&log.runlog, 2000), 0.2, 1e-12);
    close_log(&log);
}

TEST(runlog_summary, counts_steps_that_follow_no_drain)
{
    struct ah_runlog_evaluation evaluations[] = {{.step = 2}, {.step = 4}};
    struct ah_runlog_save saves[] = {{.step = 4}, {.step = 4}};
    struct log log;
    open_log(&log, 8);
    log.runlog.evaluations = evaluations;
    log.runlog.n_evaluations = 2;
    log.runlog.saves = saves;
    log.runlog.n_saves = 2;
    struct ah_runlog_resume resumes[] = {{.step = 0}, {.step = 6}, {.step = 6}};
    log.runlog.resumes = resumes;
    log.runlog.n_resumes = 3;
    for (size_t i = 0; i < 8; i++)
        log.steps[i].step_us = i % 2 ? 10.0 * (double)(i + 1) : 9999; /* steps 1, 3, 5 and 7 are cold */
    summarise(&log);
    assert_int_equal(log.summary.steps, 4);
    check_near(log.summary.step_us.measured, 50, 1e-12); /* the median of 20, 40, 60, 80 */
    check_near(log.summary.step_us.spread, 20.0 / 50, 1e-12);
    close_log(&log);
}

TEST(runlog_summary, counts_cold_steps_where_there_are_no_others)
{
    struct ah_runlog_evaluation evaluations[] = {{.step = 0}, {.step = 1}};
    struct log log;
    open_log(&log, 2);
    log.runlog.evaluations = evaluations;
    log.runlog.n_evaluations = 2;
    log.steps[1].step_us = 3000;
    summarise(&log);
    assert_int_equal(log.summary.steps, 2);
    check_near(log.summary.step_us.measured, 2000, 1e-12);
    close_log(&log);
}

TEST(runlog_summary, takes_the_last_steps)
{
    struct log log;
    open_log(&log, STEPS_MAX);
    for (size_t i = STEPS_MAX - AH_RUNLOG_MEDIAN_STEPS; i < STEPS_MAX; i++)
        log.steps[i].step_us = 5000;
    summarise(&log);
    assert_int_equal(log.summary.steps, AH_RUNLOG_MEDIAN_STEPS);
    check_near(log.summary.step_us.measured, 5000, 1e-12);
    check_near(log.summary.step_us.spread, 0, 1e-12);
    close_log(&log);
}

/* A step is split into compute's wait for each lane and idle time. */
TEST(runlog_summary, splits_the_step)
{
    struct log log;
    open_log(&log, 4);
    summarise(&log);
    check_near(log.summary.waits_us[AH_PLAN_LANE_HOST].measured, 200, 1e-12);
    check_near(log.summary.waits_us[AH_PLAN_LANE_COMPUTE].measured, 100, 1e-9);
    check_near(log.summary.waits_us[AH_PLAN_LANE_COMPUTE].predicted, 100, 1e-9);
    log.runlog.end = NULL; /* if the log is cut off, all waiting counts as idle time */
    summarise(&log);
    assert_false(log.summary.waits_us[AH_PLAN_LANE_HOST].is_predicted);
    check_near(log.summary.waits_us[AH_PLAN_LANE_COMPUTE].measured, 300, 1e-9);
    check_near(log.summary.waits_us[AH_PLAN_LANE_COMPUTE].predicted, 300, 1e-9);
    close_log(&log);
}

TEST(runlog_summary, pairs_parts)
{
    struct log log;
    open_log(&log, 4);
    log.parts[1][0] =
        (struct ah_runlog_part){AH_RUNLOG_OP_DATA, AH_PLAN_LANE_H2D, 3}; /* no forward op is measured */
    summarise(&log);
    const struct ah_runlog_pair_of_part *parts = log.summary.parts;
    assert_int_equal(log.summary.n_parts, 4);
    assert_int_equal(parts[0].op, AH_PLAN_BACKWARD);
    assert_int_equal(parts[1].op, AH_PLAN_FORWARD);
    assert_true(parts[1].us.is_measured && parts[1].us.measured == 0 && parts[1].us.predicted == 300);
    assert_int_equal(parts[2].op, AH_RUNLOG_OP_DATA);
    assert_false(parts[2].us.is_predicted);
    assert_int_equal(parts[3].op, AH_PLAN_HOST_ADAM);
    close_log(&log);
}

TEST(runlog_summary, marks_what_is_off)
{
    struct log log;
    open_log(&log, 4);
    summarise(&log);
    const struct {
        double measured, predicted;
        bool off;
    } rows[] = {{104, 100, false}, {94, 100, true}, {106, 100, true}, {1.5, 1, false}, {3, 0, true}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct ah_runlog_pair us = {true, true, rows[i].measured, rows[i].predicted, 0};
        assert_int_equal(ah_runlog_summary_is_off(&log.summary, &us), rows[i].off);
    }
    assert_false(ah_runlog_summary_is_off(&log.summary, &(struct ah_runlog_pair){true, false, 100, 0, 0}));
    close_log(&log);
}

static void slower_by(struct log *log, double us, double compute_us)
{
    for (size_t i = 0; i < log->runlog.n_steps; i++) {
        log->steps[i].step_us += us;
        log->steps[i].busy_us[AH_PLAN_LANE_COMPUTE] += compute_us;
    }
}

TEST(runlog_summary, says_where_most_of_it_comes_from)
{
    struct log log;
    open_log(&log, 4);
    says(&log, "A step takes as long as predicted.");
    slower_by(&log, 100, 90);
    log.parts[1][0].us -= 10; /* forward */
    log.parts[1][1].us += 100;
    says(&log, "A step takes 100 us longer than predicted (+10.0 %). Most of that is backward on compute: "
               "500 us, predicted 400 us.");
    slower_by(&log, -200, -190);
    log.parts[1][1].us -= 200;
    says(&log, "A step takes 100 us less than predicted (-10.0 %). Most of that is backward on compute: "
               "300 us, predicted 400 us.");
    close_log(&log);
}

TEST(runlog_summary, says_what_compute_waits_for)
{
    struct log log;
    open_log(&log, 4);
    slower_by(&log, 100, 0);
    log.exposed[1].of[AH_PLAN_LANE_HOST] += 80;
    log.parts[1][2].us += 150;
    says(&log,
         "A step takes 100 us longer than predicted (+10.0 %). Most of that is compute waiting for host: "
         "280 us, predicted 200 us; there host_adam: 450 us, predicted 300 us.");
    log.exposed[1].of[AH_PLAN_LANE_HOST] -= 80;
    says(&log,
         "A step takes 100 us longer than predicted (+10.0 %). Most of that is compute idle without waiting "
         "for a lane: 200 us, predicted 100 us.");
    log.exposed[1] = (struct ah_plan_by_lane){{0, 40, 30, 210}};
    says(&log,
         "A step takes 100 us longer than predicted (+10.0 %). The largest share of that is compute waiting "
         "for h2d: 40 us, predicted 0 us.");
    log.runlog.end = NULL;
    says(&log, "A step takes 100 us longer than predicted (+10.0 %). Most of that is compute idle: 400 us, "
               "predicted 300 us.");
    slower_by(&log, 19000, 0);
    says(&log, "A step takes 19.1 ms longer than predicted (x 20.1). Most of that is compute idle: 19.4 ms, "
               "predicted 300 us.");
    log.runlog.predicted = NULL;
    says(&log, "");
    close_log(&log);
}
