/* SPDX-License-Identifier: Apache-2.0
 *
 * Fails each allocation of the virtual clock once: expects an error and a clock that still works.
 */
#include "runtime/device/virtual/clock.h"
#include "tests/support/check.h"
#include "tests/support/fault.h"

static const double duration[] = {1, 2, 3};
static const uint32_t lane[] = {0, 1, 0};
static const struct ah_clock_graph graph = {.n_ops = 3, .n_lanes = 2, .duration_us = duration, .lane = lane};

/* Grows a working clock. If this fails, the clock must still run the graph for which it had room. */
static int grow_and_run(void *context, struct ah_error *err)
{
    struct ah_clock_result result;
    struct ah_clock clock = {0};
    (void)context;
    int rc = ah_clock_reserve(&clock, &graph, 1, err);
    if (rc)
        return rc;
    rc = ah_clock_reserve(&clock, &graph, 400, err);
    struct ah_error other = {0};
    CHECK_OK(ah_clock_run(&clock, &graph, &result, &other), other);
    assert_true(result.end_us == 4);
    ah_clock_release(&clock);
    return rc;
}

TEST(clock, out_of_memory_is_an_error)
{
    assert_int_equal(fault_sweep(grow_and_run, NULL, 0), 2);
}

TEST(clock, a_run_allocates_nothing)
{
    struct ah_error err = {0};
    struct ah_clock clock = {0};
    struct ah_clock_result result;
    CHECK_OK(ah_clock_reserve(&clock, &graph, 1, &err), err);
    (void)fault_count();
    CHECK_OK(ah_clock_run(&clock, &graph, &result, &err), err);
    CHECK_OK(ah_clock_reserve(&clock, &graph, 1, &err), err); /* the clock already has room for this graph */
    assert_int_equal(fault_count(), 0);
    ah_clock_release(&clock);
}
