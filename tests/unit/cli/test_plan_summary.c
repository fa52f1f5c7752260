/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests the sentences of a plan summary for given times of lanes, bounds and blocks.
 */
#include "cli/inspect/plan_summary.h"
#include "tests/support/check.h"

#include <string.h>

#define TIMES(...) ((struct ah_plan_time){100, __VA_ARGS__, false})

/* Checks the text for these times in percent of the step: each lane's work, and compute's wait for each other lane. */
static void says(struct ah_plan_time time, const char *expected)
{
    struct ah_buffer out = {0};
    ah_plan_put_bottleneck(&out, &time);
    assert_string_equal(out.data, expected);
    ah_buffer_release(&out);
}

TEST(plan_summary, names_what_limits_the_speed)
{
    says(TIMES({99.6, 40, 10, 20}, {{0, 0.2, 0.1, 0.1}}),
         "Compute is the bottleneck: it is busy 100 % of the step.");
    says(TIMES({95, 40, 10, 20}, {{0, 5, 0, 0}}),
         "Compute is the bottleneck: it is busy 95 % of the step and waits 5 % for the link to the device "
         "(busy 40 %).");
    says(TIMES({70, 40, 10, 96}, {{0, 2, 0, 28}}),
         "Host Adam is the bottleneck: it is busy 96 % of the step; of the step compute waits 28 % for host "
         "Adam, 2 % for the link to the device (busy 40 %).");
}

/* A lane can be saturated even if compute rarely waits for it. */
TEST(plan_summary, names_a_lane_that_nobody_waits_for)
{
    says(TIMES({90, 99, 10, 9}, {{0, 0, 0, 10}}),
         "The link to the device is the bottleneck: it is busy 99 % of the step; of the step compute waits "
         "10 % for host Adam (busy 9 %).");
}

TEST(plan_summary, names_several_bottlenecks)
{
    says(TIMES({97, 96, 10, 9}, {{0, 3, 0, 0}}),
         "Compute (busy 97 % of the step) and the link to the device (96 %) together are the bottleneck; of "
         "the step compute waits 3 % for the link to the device.");
    says(TIMES({50, 96, 97, 98}, {{0, 20, 20, 10}}),
         "The link to the device (busy 96 % of the step), the link to the host (97 %) and host Adam (98 %) "
         "together are the bottleneck; of the step compute waits 20 % for the link to the device, 20 % for "
         "the link to the host, 10 % for host Adam.");
}

TEST(plan_summary, says_where_no_lane_is_the_bottleneck)
{
    says(TIMES({88, 40, 10, 87}, {{0, 0, 0, 12}}),
         "Compute limits the speed most, though no lane is busy all the time: it is busy 88 % of the step "
         "and waits 12 % for host Adam (busy 87 %).");
    says(TIMES({40, 92, 10, 9}, {{0, 60, 0, 0}}),
         "The link to the device limits the speed most, though no lane is busy all the time: it is busy 92 % "
         "of the step; of the step compute waits 60 % for the link to the device.");
    says(TIMES({58, 10, 9, 42}, {{0, 3, 1, 38}}),
         "No single lane is the bottleneck; lanes wait for each other: compute is busy 58 % of the step and "
         "waits 38 "
         "% for host Adam (busy 42 %), 3 % for the link to the device (busy 10 %), 1 % for the link to the "
         "host (busy 9 %).");
    says(TIMES({60, 10, 9, 42}, {{0, 0, 0, 0}}),
         "No single lane is the bottleneck; lanes wait for each other: compute is busy 60 % of the step and "
         "waits 40 "
         "% for free memory or its turn in the order.");
}

TEST(plan_summary, a_step_of_no_time_says_nothing_wrong)
{
    struct ah_buffer out = {0};
    const struct ah_plan_time none = {0};
    ah_plan_put_bottleneck(&out, &none);
    assert_null(strstr(out.data, "nan"));
    ah_buffer_release(&out);
}

TEST(plan_summary, says_how_good_a_plan_is)
{
    static const struct {
        struct ah_plan_solver solver;
        const char *expected;
    } cases[] = {
        {{.status = AH_PLAN_OPTIMAL, .bound_us = 5, .objective_us = 5}, "proven optimal: no plan is faster"},
        {{.status = AH_PLAN_WITHIN_GAP, .bound_us = 1.56e6, .objective_us = 2.61e6, .gap = 0.402},
         "within 67.3 % of the best possible step (bound 1.56 s)"},
        {{.status = AH_PLAN_WITHIN_GAP, .bound_us = 999.9, .objective_us = 1000, .gap = 0.0001},
         "within 0.1 % of the best possible step (bound 1.00 ms)"},
        {{.status = AH_PLAN_WITHIN_GAP, .bound_us = 1000, .objective_us = 1000, .gap = 0},
         "within 0.1 % of the best possible step (bound 1.00 ms)"},
        {{.status = AH_PLAN_NO_BOUND}, "distance from the best possible step unknown: there is no bound"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct ah_buffer out = {0};
        ah_plan_put_quality(&out, &cases[i].solver);
        assert_string_equal(out.data, cases[i].expected);
        ah_buffer_release(&out);
    }
}

TEST(plan_summary, counts_one_as_one)
{
    struct ah_buffer out = {0};
    ah_plan_put_batch(&out, 1, 1);
    ah_buffer_puts(&out, "; ");
    ah_plan_put_batch(&out, 2, 512);
    assert_string_equal(out.data, "1 sequence of 1 token; 2 sequences of 512 tokens");
    ah_buffer_release(&out);
}

/* Checks the ranges of equal blocks in the text printed for a plan with these blocks. */
static void ranges_are(struct ah_plan_block *blocks, size_t n, const char *expected)
{
    const struct ah_plan plan = {.blocks = blocks, .n_blocks = n};
    struct ah_buffer out = {0};
    for (size_t first = 0, end; first < n; first = end) {
        end = ah_plan_range_end(&plan, first);
        ah_buffer_puts(&out, first ? " " : "");
        ah_plan_put_range(&out, &plan, first, end);
    }
    assert_string_equal(out.data, expected);
    ah_buffer_release(&out);
}

TEST(plan_summary, neighbours_that_do_the_same_are_a_range)
{
    struct ah_plan_block blocks[] = {
        {.name = "embedding", .group = "embedding"},
        {.name = "layer.0", .group = "layer"},
        {.name = "layer.1", .group = "layer_windowed"},
        {.name = "layer.2", .group = "layer"},
        {.name = "head", .group = "head"},
    };
    enum { N = sizeof blocks / sizeof blocks[0] };
    ranges_are(blocks, N, "embedding layer.0-2 head");
    blocks[2].accumulator = AH_ACCUMULATOR_HOST;
    ranges_are(blocks, N, "embedding layer.0 layer.1 layer.2 head");
    blocks[1].accumulator = AH_ACCUMULATOR_HOST;
    ranges_are(blocks, N, "embedding layer.0-1 layer.2 head");
    blocks[1].weights = AH_WEIGHTS_HOST;
    blocks[3].optimizer = AH_OPTIMIZER_STREAMED;
    ranges_are(blocks, N, "embedding layer.0 layer.1 layer.2 head");
}
