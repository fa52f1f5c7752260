/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests that the order of samples never changes, and that it has the properties of a shuffle. Expected values are from
 * a second implementation, in Python, written from the text of permutation.c and philox.h.
 */
#include "runtime/train/data/permutation.h"
#include "tests/support/check.h"

enum { SEEDS = 2400 };

TEST(permutation, is_the_one_of_the_signature)
{
    static const uint64_t ten[] = {2, 9, 4, 6, 3, 0, 5, 8, 7, 1};
    static const uint64_t thousand[] = {835, 460, 214, 952, 25};
    for (uint64_t i = 0; i < 10; i++)
        assert_int_equal(ah_permutation_at(0, 0, 10, i), ten[i]);
    for (uint64_t i = 0; i < 5; i++)
        assert_int_equal(ah_permutation_at(42, 3, 1000, i), thousand[i]);
    assert_int_equal(ah_permutation_at(7, 1, 3000000000, 2999999999), 956608738);
    const uint64_t epoch = (UINT64_C(1) << 48) - 1, most = AH_PERMUTATION_MAX;
    assert_int_equal(ah_permutation_at(UINT64_MAX, epoch, most, 0), UINT64_C(1273167946169533844));
    assert_int_equal(ah_permutation_at(UINT64_MAX, epoch, most, most - 1), UINT64_C(2244339403666055726));
}

/* Over many seeds, all orders of three samples are equally frequent, within 4 standard deviations. */
TEST(permutation, all_orders_are_equally_likely)
{
    unsigned orders[27] = {0};
    for (uint64_t seed = 0; seed < SEEDS; seed++)
        orders[9 * ah_permutation_at(seed, 0, 3, 0) + 3 * ah_permutation_at(seed, 0, 3, 1) +
               ah_permutation_at(seed, 0, 3, 2)]++;
    static const unsigned possible[] = {5, 7, 11, 15, 19, 21};
    for (size_t i = 0; i < 6; i++)
        assert_in_range(orders[possible[i]], 400 - 73, 400 + 73);
}

/* Different epochs or seeds rarely put a sample in the same place. Neighbours are rarely in order. */
TEST(permutation, epochs_and_seeds_differ)
{
    const uint64_t n = 10000;
    unsigned same_epoch = 0, same_seed = 0, in_order = 0;
    for (uint64_t i = 1; i < n; i++) {
        uint64_t here = ah_permutation_at(1, 0, n, i);
        same_epoch += here == ah_permutation_at(1, 1, n, i);
        same_seed += here == ah_permutation_at(2, 0, n, i);
        in_order += here == ah_permutation_at(1, 0, n, i - 1) + 1;
    }
    assert_in_range(same_epoch, 0, 8); /* random orders agree in about one place */
    assert_in_range(same_seed, 0, 8);
    assert_in_range(in_order, 0, 8);
}
