/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests sets of assignments. The number within a limit is counted by hand, and all of them must be tried.
 */
#include "planner/search/assignments.h"

#include "tests/unit/planner/evaluators.h"

/* Every block may use its first two configs. */
static const uint32_t two_each[BLOCKS] = {3, 3, 3, 3, 3, 3, 3, 3};

/* Returns prices. A block's first config is free, and its second costs as much as the block's number. */
static struct ah_milp_result prices(uint32_t class_of[BLOCKS], double prices_us[BLOCKS * AH_CONFIGS_MAX])
{
    for (size_t block = 0; block < BLOCKS; block++) {
        class_of[block] = (uint32_t)block;
        prices_us[block * AH_CONFIGS_MAX] = 0;
        prices_us[block * AH_CONFIGS_MAX + 1] = (double)block;
    }
    return (struct ah_milp_result){.n_classes = BLOCKS, .class_of = class_of, .prices_us = prices_us};
}

static uint64_t count_at(struct ah_assignments *set, double most_us)
{
    set->most_us = most_us;
    return ah_assignments_count(set, 1000);
}

TEST(assignments, are_counted_by_what_they_cost)
{
    struct fixture f;
    struct ah_assignments set;
    uint32_t class_of[BLOCKS];
    double prices_us[BLOCKS * AH_CONFIGS_MAX];
    setup(&f, UINT64_C(1) << 40, 0);
    const struct ah_vary vary = {.job = &f.job.job, .allowed = two_each};
    const struct ah_milp_result bound = prices(class_of, prices_us);
    CHECK_OK(ah_assignments_init(&set, &vary, &bound, &f.err), f.err);
    assert_int_equal(ah_assignments_count(&set, 1000), 256);
    assert_int_equal(ah_assignments_count(&set, 200), 200);
    assert_int_equal(count_at(&set, -0.5), 0);
    assert_int_equal(count_at(&set, 0), 2); /* both configs of block 0 are free */
    assert_int_equal(count_at(&set, 1), 4);
    assert_int_equal(count_at(&set, 3), 10); /* the extra cost is 0, 1, 2, 3 or 1 + 2 */
    ah_assignments_release(&set);
    CHECK_OK(ah_assignments_init(&set, &vary, NULL, &f.err), f.err);
    assert_int_equal(count_at(&set, 0), 256); /* without prices, no assignment exceeds the limit */
    ah_assignments_release(&set);
    teardown(&f);
}

TEST(assignments, are_tried_whatever_the_work)
{
    struct fixture f;
    struct ah_assignments set;
    struct ah_shortlist list;
    setup(&f, UINT64_C(1) << 40, 1);
    const struct ah_vary vary = {.job = &f.job.job, .allowed = two_each};
    CHECK_OK(ah_shortlist_init(&list, BLOCKS, 4, &f.err), f.err);
    CHECK_OK(ah_assignments_init(&set, &vary, NULL, &f.err), f.err);
    CHECK_OK(ah_assignments_try(&set, &f.evaluator, &f.knobs, &list, &f.err), f.err);
    assert_true(f.evaluator.found && list.n > 0);
    assert_true(f.evaluator.spent >= 256);
    assert_int_equal(f.evaluator.limits.work, 1);
    ah_assignments_release(&set);
    ah_shortlist_release(&list);
    teardown(&f);
}
