/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests evaluators: the best choice is kept, no choice is tried twice, and limits of time, memory and work hold.
 */
#include "tests/unit/planner/evaluators.h"

static enum ah_verdict try_it(struct fixture *f)
{
    enum ah_verdict verdict;
    CHECK_OK(ah_evaluator_try(&f->evaluator, f->configs, &f->knobs, &verdict, &f->err), f->err);
    return verdict;
}

TEST(evaluator, prefers_the_shorter_period)
{
    struct fixture f;
    setup(&f, UINT64_C(1) << 40, 0);
    f.configs[3].activations = AH_ACTIVATIONS_RECOMPUTE;
    assert_int_equal(try_it(&f), AH_EVALUATOR_BETTER);
    double recomputed = f.evaluator.best.score.period_us;
    f.configs[3].activations = AH_ACTIVATIONS_KEEP;
    assert_int_equal(try_it(&f), AH_EVALUATOR_BETTER);
    assert_true(f.evaluator.best.score.period_us < recomputed * 0.99);
    assert_memory_equal(f.evaluator.best.configs, f.configs, sizeof f.configs);
    f.configs[4].activations = AH_ACTIVATIONS_SELECTIVE;
    assert_int_equal(try_it(&f), AH_EVALUATOR_WORSE);
    assert_int_equal(f.evaluator.best.configs[4].activations, AH_ACTIVATIONS_KEEP);
    teardown(&f);
}

/* If two choices have equal periods, the one with less host memory wins. If that is also equal, the configs that come
 * first win. Each pair is tried in both orders. */
TEST(evaluator, breaks_ties)
{
    for (int turn = 0; turn < 2; turn++) {
        struct fixture f;
        setup(&f, UINT64_C(1) << 40, 0);
        f.configs[3].optimizer = turn ? AH_OPTIMIZER_DEVICE : AH_OPTIMIZER_HOST;
        assert_int_equal(try_it(&f), AH_EVALUATOR_BETTER);
        double period = f.evaluator.best.score.period_us;
        f.configs[3].optimizer = turn ? AH_OPTIMIZER_HOST : AH_OPTIMIZER_DEVICE;
        assert_int_equal(try_it(&f), turn ? AH_EVALUATOR_WORSE : AH_EVALUATOR_BETTER);
        check_near(f.evaluator.best.score.period_us, period, 1e-9);
        assert_int_equal(f.evaluator.best.configs[3].optimizer, AH_OPTIMIZER_DEVICE);
        teardown(&f);
        setup(&f, UINT64_C(1) << 40, 0);
        f.configs[turn ? 4 : 3].optimizer = AH_OPTIMIZER_HOST;
        assert_int_equal(try_it(&f), AH_EVALUATOR_BETTER);
        f.configs[3].optimizer = turn ? AH_OPTIMIZER_HOST : AH_OPTIMIZER_DEVICE;
        f.configs[4].optimizer = turn ? AH_OPTIMIZER_DEVICE : AH_OPTIMIZER_HOST;
        assert_int_equal(try_it(&f), turn ? AH_EVALUATOR_WORSE : AH_EVALUATOR_BETTER);
        assert_int_equal(f.evaluator.best.configs[4].optimizer, AH_OPTIMIZER_HOST);
        teardown(&f);
    }
}

TEST(evaluator, tries_nothing_twice)
{
    struct fixture f;
    setup(&f, UINT64_C(1) << 40, 0);
    assert_int_equal(try_it(&f), AH_EVALUATOR_BETTER);
    double period = f.evaluator.last.period_us;
    uint64_t evaluations = f.evaluator.evaluations;
    assert_int_equal(try_it(&f), AH_EVALUATOR_SEEN);
    assert_true(f.evaluator.last.period_us == period);
    assert_int_equal(f.evaluator.evaluations, evaluations);
    f.knobs.send_behind++; /* has no effect, because nothing is sent */
    assert_int_equal(try_it(&f), AH_EVALUATOR_SEEN);
    f.configs[2].optimizer = AH_OPTIMIZER_HOST;
    assert_int_not_equal(try_it(&f), AH_EVALUATOR_SEEN);
    f.knobs.send_behind++;
    assert_int_not_equal(try_it(&f), AH_EVALUATOR_SEEN);
    f.knobs.fetch_ahead++; /* has no effect, because no weights are fetched */
    assert_int_equal(try_it(&f), AH_EVALUATOR_SEEN);
    teardown(&f);
}

/* A choice may be known only as slower than some limit. If so, it is evaluated once more for a higher limit. */
TEST(evaluator, knows_periods_as_far_as_it_was_asked)
{
    struct fixture f;
    setup(&f, UINT64_C(1) << 40, 0);
    assert_int_equal(try_it(&f), AH_EVALUATOR_BETTER);
    f.configs[2].activations = AH_ACTIVATIONS_RECOMPUTE;
    f.evaluator.enough_us = f.evaluator.best.score.period_us / 2;
    assert_int_equal(try_it(&f), AH_EVALUATOR_WORSE);
    assert_true(f.evaluator.last.period_us > f.evaluator.enough_us);
    assert_int_equal(try_it(&f), AH_EVALUATOR_SEEN);
    f.evaluator.enough_us = 10 * f.evaluator.best.score.period_us;
    assert_int_equal(try_it(&f), AH_EVALUATOR_WORSE); /* not SEEN, because now its exact period is known */
    double period_us = f.evaluator.last.period_us;
    assert_true(period_us > f.evaluator.best.score.period_us);
    assert_int_equal(try_it(&f), AH_EVALUATOR_SEEN);
    assert_true(f.evaluator.last.period_us == period_us);
    teardown(&f);
}

/* When bytes have a price, the limit applies to the period plus the price of the bytes. */
TEST(evaluator, counts_what_bytes_are_worth)
{
    struct fixture f;
    setup(&f, UINT64_C(1) << 40, 0);
    assert_int_equal(try_it(&f), AH_EVALUATOR_BETTER);
    double period_us = f.evaluator.last.period_us;
    uint64_t live_bytes = f.evaluator.last_live_bytes;
    assert_true(live_bytes > 0 && live_bytes <= f.evaluator.last.device.peak_bytes);
    f.evaluator.us_per_byte = period_us / (double)live_bytes; /* now the bytes cost as much as the period */
    f.configs[2].activations = AH_ACTIVATIONS_RECOMPUTE;
    f.evaluator.enough_us = 1.5 * period_us;
    assert_int_equal(try_it(&f), AH_EVALUATOR_WORSE);
    assert_true(f.evaluator.last_live_bytes < live_bytes);
    assert_int_equal(f.evaluator.evaluations, 1); /* not evaluated: work plus bytes exceed the limit */
    f.evaluator.enough_us = 3 * period_us;
    assert_int_equal(try_it(&f), AH_EVALUATOR_WORSE);
    assert_int_equal(f.evaluator.evaluations, 2);
    uint64_t fewer_bytes = f.evaluator.last_live_bytes;
    assert_int_equal(try_it(&f), AH_EVALUATOR_SEEN);
    assert_true(f.evaluator.last_live_bytes == fewer_bytes);
    teardown(&f);
}

TEST(evaluator, remembers_thousands)
{
    struct fixture f;
    setup(&f, 1, 0); /* nothing fits, so nothing is evaluated */
    f.configs[2].optimizer = AH_OPTIMIZER_HOST;
    for (int pass = 0; pass < 2; pass++)
        for (uint32_t i = 0; i < 3000; i++) {
            f.knobs.host_gradient_tiles = i + 1;
            assert_int_equal(try_it(&f), pass ? AH_EVALUATOR_SEEN : AH_EVALUATOR_TOO_BIG);
        }
    assert_int_equal(f.evaluator.evaluations, 0);
    teardown(&f);
}

TEST(evaluator, says_how_much_is_too_much)
{
    struct fixture f;
    struct ah_score score;
    setup(&f, 1000, 0);
    const struct ah_choice choice = {.configs = f.configs, .knobs = f.knobs, .costs = &f.costs};
    CHECK_OK(ah_schedule_measure(&f.evaluator.schedule, &choice, &score, &f.err), f.err);
    assert_int_equal(try_it(&f), AH_EVALUATOR_TOO_BIG);
    assert_false(f.evaluator.found);
    assert_int_equal(f.evaluator.least_device_bytes, score.device.peak_bytes);
    assert_int_equal(f.evaluator.least_host_bytes, UINT64_MAX); /* no choice fits the device */
    assert_int_equal(f.evaluator.last_over_bytes, score.device.peak_bytes - 1000);
    f.configs[2].optimizer = AH_OPTIMIZER_HOST;
    assert_int_equal(try_it(&f), AH_EVALUATOR_TOO_BIG);
    assert_true(f.evaluator.least_device_bytes < score.device.peak_bytes);
    teardown(&f);
}

TEST(evaluator, ends_with_its_budget)
{
    struct fixture f;
    setup(&f, UINT64_C(1) << 40, 1);
    assert_int_equal(try_it(&f), AH_EVALUATOR_BETTER);
    f.configs[2].activations = AH_ACTIVATIONS_RECOMPUTE;
    assert_int_equal(try_it(&f), AH_EVALUATOR_EXHAUSTED);
    assert_true(ah_evaluator_is_spent(&f.evaluator));
    assert_int_equal(f.evaluator.evaluations, 1);
    teardown(&f);
}

TEST(evaluator, forgets_what_does_not_fit_new_limits)
{
    struct fixture f;
    setup(&f, UINT64_C(1) << 40, 0);
    assert_int_equal(try_it(&f), AH_EVALUATOR_BETTER);
    uint64_t peak = f.evaluator.best.score.device.peak_bytes;
    ah_evaluator_limit(&f.evaluator, peak, 0);
    assert_true(f.evaluator.found);
    ah_evaluator_limit(&f.evaluator, peak - 1, 0);
    assert_false(f.evaluator.found);
    assert_int_not_equal(try_it(&f), AH_EVALUATOR_SEEN);
    ah_evaluator_limit(&f.evaluator, 1000, 0);
    assert_int_equal(try_it(&f), AH_EVALUATOR_TOO_BIG);
    teardown(&f);
}

static bool always(void *context, uint64_t evaluations)
{
    return evaluations > 0 && context != NULL;
}

TEST(evaluator, is_interrupted)
{
    struct fixture f;
    enum ah_verdict verdict;
    setup(&f, UINT64_C(1) << 40, 0);
    f.evaluator.limits.stop = always;
    f.evaluator.limits.context = &f;
    CHECK_FAILS(ah_evaluator_try(&f.evaluator, f.configs, &f.knobs, &verdict, &f.err), f.err,
                AH_E_INTERRUPTED, "nothing was written");
    teardown(&f);
}
