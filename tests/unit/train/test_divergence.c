/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests which runs count as diverging. This depends on medians of the loss, not on single steps.
 */
#include "runtime/train/divergence.h"
#include "tests/support/check.h"

static bool after(struct ah_divergence *divergence, uint64_t steps, double loss, double *ret_last)
{
    for (uint64_t i = 0; i < steps; i++)
        ah_divergence_step(divergence, loss);
    return ah_divergence_is(divergence, ret_last);
}

TEST(divergence, is_a_median_that_rose_by_more_than_a_fifth)
{
    double last = 0;
    for (int above = 0; above < 2; above++) {
        struct ah_divergence divergence = {0};
        assert_false(after(&divergence, 8, 5, &last));
        assert_true(divergence.first == 5);
        assert_false(after(&divergence, 15, 100, &last)); /* fewer than 16 steps so far */
        assert_true(after(&divergence, 1, 100, &last));
        assert_true(last == 100);
        assert_int_equal(after(&divergence, 16, above ? 6.01 : 6, &last), above);
    }
}

TEST(divergence, is_told_by_medians_and_not_by_single_steps)
{
    struct ah_divergence divergence = {0};
    double last = 0;
    assert_false(after(&divergence, 5, 4, &last));
    assert_false(after(&divergence, 3, 1000, &last));
    assert_true(divergence.first == 4);
    for (int i = 0; i < 100; i++) {
        assert_false(after(&divergence, 1, 1000, &last));
        assert_false(after(&divergence, 2, 4, &last));
    }
}

TEST(divergence, ends_when_the_loss_falls_again)
{
    struct ah_divergence divergence = {.first = 4}; /* the median at the start of the previous run */
    double last = 0;
    assert_true(after(&divergence, 16, 5, &last));
    assert_true(after(&divergence, 7, 4, &last));
    assert_false(after(&divergence, 2, 4, &last));
}
