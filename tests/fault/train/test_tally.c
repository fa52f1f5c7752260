/* SPDX-License-Identifier: Apache-2.0
 *
 * Fails each allocation of a tally once. Recording ops and steps must allocate nothing.
 */
#include "runtime/train/tally.h"
#include "tests/support/fault.h"
#include "tests/support/tiny_plan.h"

static void tell_steps(struct ah_tally *tally, uint64_t steps)
{
    const struct ah_plan *plan = tiny_plan();
    for (uint64_t step = 1; step <= steps; step++) {
        for (size_t op = 0; op < plan->n_ops; op++)
            for (uint64_t tile = 0; tile < plan->ops[op].tiles; tile++)
                ah_tally_op(tally, &(struct ah_op_record){.step = step,
                                                          .lane = (uint32_t)plan->ops[op].lane,
                                                          .op = op,
                                                          .tile = tile,
                                                          .start_ns = 100 * step,
                                                          .end_ns = 100 * step + 10});
        ah_tally_step(tally, &(struct ah_step_record){.step = step, .end_ns = 100 * step + 90});
    }
}

static int tally_all(void *context, struct ah_error *err)
{
    struct ah_tally *tally = NULL;
    struct ah_arena arena = {0};
    struct ah_runlog_predicted predicted;
    struct ah_runlog_end end = {0};
    (void)context;
    int rc = ah_tally_predict(tiny_plan(), &arena, &predicted, err);
    if (!rc)
        rc = ah_tally_new(&tally, tiny_plan(), err);
    if (!rc) {
        ah_tally_begin(tally, 1);
        tell_steps(tally, 5);
        rc = ah_tally_end(tally, &arena, &end, err);
    }
    ah_tally_free(tally);
    ah_arena_release(&arena);
    return rc;
}

TEST_IN(tally, fails_cleanly, tiny_plan_load, tiny_plan_release)
{
    assert_true(fault_sweep(tally_all, NULL, 0) >= 5);
}

TEST_IN(tally, hears_without_memory, tiny_plan_load, tiny_plan_release)
{
    struct ah_tally *tally;
    struct ah_error err = {0};
    CHECK_OK(ah_tally_new(&tally, tiny_plan(), &err), err);
    fault_count();
    ah_tally_begin(tally, 1);
    tell_steps(tally, 2 * AH_RUNLOG_MEDIAN_STEPS);
    assert_int_equal(fault_count(), 0);
    ah_tally_free(tally);
}
