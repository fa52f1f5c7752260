/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests shortlists. A list keeps the fastest choices, with each set of configs once, and climbs start from its choices.
 */
#include "planner/search/shortlist.h"

#include "tests/unit/planner/evaluators.h"

static void take(struct ah_shortlist *list, struct fixture *f, uint8_t activations, double period_us)
{
    f->configs[3].activations = activations;
    ah_shortlist_take(list, f->configs, &f->knobs, period_us);
}

TEST(shortlist, has_the_fastest_first_and_no_configs_twice)
{
    struct fixture f;
    struct ah_shortlist list;
    setup(&f, UINT64_C(1) << 40, 0);
    CHECK_OK(ah_shortlist_init(&list, BLOCKS, 3, &f.err), f.err);
    take(&list, &f, AH_ACTIVATIONS_RECOMPUTE, 5);
    take(&list, &f, AH_ACTIVATIONS_SELECTIVE, 4);
    assert_int_equal(list.n, 2);
    assert_int_equal(list.entries[0].configs[3].activations, AH_ACTIVATIONS_SELECTIVE);
    f.knobs.fetch_ahead = 7;
    take(&list, &f, AH_ACTIVATIONS_RECOMPUTE, 3); /* same configs, other knobs */
    take(&list, &f, AH_ACTIVATIONS_RECOMPUTE, 4.5);
    assert_int_equal(list.n, 2);
    assert_true(list.entries[0].period_us == 3 && list.entries[1].period_us == 4);
    assert_int_equal(list.entries[0].knobs.fetch_ahead, 7);
    take(&list, &f, AH_ACTIVATIONS_KEEP, 3.5);
    assert_int_equal(list.entries[1].configs[3].activations, AH_ACTIVATIONS_KEEP);
    f.configs[3].weights = AH_WEIGHTS_HOST;
    take(&list, &f, AH_ACTIVATIONS_KEEP, 6); /* the list is full */
    assert_int_equal(list.n, 3);
    assert_int_equal(list.entries[2].configs[3].activations, AH_ACTIVATIONS_SELECTIVE);
    ah_shortlist_release(&list);
    teardown(&f);
}

/* The climb starts at recomputing everything. It reaches keeping everything, because the device has room. */
TEST(shortlist, climbs_by_two_blocks)
{
    struct fixture f;
    struct ah_shortlist list;
    enum ah_verdict verdict;
    setup(&f, UINT64_C(1) << 40, 0);
    const struct ah_vary vary = {.job = &f.job.job};
    for (size_t block = 1; block + 1 < BLOCKS; block++)
        f.configs[block].activations = AH_ACTIVATIONS_RECOMPUTE;
    CHECK_OK(ah_shortlist_init(&list, BLOCKS, 2, &f.err), f.err);
    CHECK_OK(ah_evaluator_try(&f.evaluator, f.configs, &f.knobs, &verdict, &f.err), f.err);
    ah_shortlist_take(&list, f.configs, &f.knobs, f.evaluator.last.period_us);
    CHECK_OK(ah_shortlist_climb(&list, &f.evaluator, &vary, 0, &f.err), f.err);
    assert_int_equal(f.evaluator.evaluations, 1); /* with no budget of work, there is no climb */
    ah_shortlist_take(&list, f.configs, &f.knobs, f.evaluator.best.score.period_us);
    CHECK_OK(ah_shortlist_climb(&list, &f.evaluator, &vary, UINT64_MAX / 2, &f.err), f.err);
    for (size_t block = 0; block < BLOCKS; block++)
        assert_int_equal(f.evaluator.best.configs[block].activations, AH_ACTIVATIONS_KEEP);
    assert_int_equal(list.n, 0);
    ah_shortlist_release(&list);
    teardown(&f);
}
