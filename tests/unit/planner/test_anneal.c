/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests annealing: at temperature 0 the cost only falls; at a high temperature it may rise.
 */
#include "planner/search/anneal.h"

#include "tests/unit/planner/evaluators.h"

enum { WORK = 200000 };

/* Anneals from the slowest choice. */
static struct ah_height cool(const struct fixture *f, double temperature, struct ah_height *ret_start)
{
    struct ah_anneal chain;
    struct ah_error err;
    struct ah_config slowest[BLOCKS];
    for (size_t i = 0; i < BLOCKS; i++) {
        slowest[i] = f->configs[i];
        if (i > 0 && i < BLOCKS - 1)
            slowest[i].activations = AH_ACTIVATIONS_RECOMPUTE;
    }
    CHECK_OK(ah_anneal_init(&chain, &f->evaluator.limits, NULL, 7, &err), err);
    CHECK_OK(ah_anneal_start(&chain, slowest, &f->knobs, &err), err);
    *ret_start = chain.height;
    chain.evaluator.limits.work = chain.evaluator.spent + WORK;
    CHECK_OK(ah_anneal_run(&chain, temperature, temperature, &err), err);
    struct ah_height end = chain.height;
    ah_anneal_release(&chain);
    return end;
}

TEST(anneal, takes_nothing_above_the_threshold)
{
    struct fixture f;
    struct ah_height start, cold, hot;
    setup(&f, UINT64_C(1) << 40, 0);
    cold = cool(&f, 0, &start);
    hot = cool(&f, 10, &start);
    assert_int_equal(start.over_bytes, 0);
    assert_int_equal(cold.over_bytes, 0);
    assert_true(cold.cost_us < start.cost_us * 0.9);
    assert_true(hot.cost_us > cold.cost_us * 1.01);
    teardown(&f);
}
