/* SPDX-License-Identifier: Apache-2.0
 *
 * Compares sets of intervals with an array that has a bit for each moment.
 */
#include "base/intervals.h"

#include "tests/support/check.h"

#include <stdbool.h>
#include <string.h>

enum { ROUNDS = 5000, MOMENTS = 40, MOST = 12, FIRST = -20 };

/* Draws intervals. Some are empty, some end before they begin, and many touch. */
static size_t draw(uint64_t *seed, struct ah_interval *intervals, bool *moments)
{
    size_t n = check_random(seed) % (MOST + 1);
    memset(moments, 0, MOMENTS * sizeof *moments);
    for (size_t i = 0; i < n; i++) {
        int64_t start = (int64_t)(check_random(seed) % MOMENTS);
        int64_t end = start - 2 + (int64_t)(check_random(seed) % 10);
        end = end > MOMENTS ? MOMENTS : end < 0 ? 0 : end;
        intervals[i] = (struct ah_interval){FIRST + start, FIRST + end};
        for (int64_t at = start; at < end; at++)
            moments[at] = true;
    }
    return n;
}

/* Checks that the set has exactly these moments and is well formed: sorted, disjoint, without empty intervals. */
static void expect_set(const struct ah_interval *set, size_t n, const bool *moments)
{
    bool covered[MOMENTS] = {false};
    int64_t length = 0;
    for (size_t i = 0; i < n; i++) {
        assert_true(set[i].start < set[i].end);
        assert_true(i == 0 || set[i - 1].end < set[i].start);
        for (int64_t at = set[i].start; at < set[i].end; at++)
            covered[at - FIRST] = true;
    }
    for (size_t at = 0; at < MOMENTS; at++)
        length += moments[at];
    assert_memory_equal(covered, moments, sizeof covered);
    assert_int_equal(ah_intervals_length(set, n), length);
}

TEST(intervals, are_what_bits_say)
{
    uint64_t seed = check_seed(71);
    size_t most_both = 0;
    for (int round = 0; round < ROUNDS; round++) {
        struct ah_interval a[MOST], b[MOST], both[2 * MOST];
        bool in_a[MOMENTS], in_b[MOMENTS], in_both[MOMENTS];
        size_t n_a = draw(&seed, a, in_a), n_b = draw(&seed, b, in_b);
        for (size_t at = 0; at < MOMENTS; at++)
            in_both[at] = in_a[at] && in_b[at];
        n_a = ah_intervals_unite(a, n_a);
        n_b = ah_intervals_unite(b, n_b);
        expect_set(a, n_a, in_a);
        expect_set(b, n_b, in_b);
        size_t n_both = ah_intervals_intersect(a, n_a, b, n_b, both);
        expect_set(both, n_both, in_both);
        most_both = n_both > most_both ? n_both : most_both;
    }
    assert_true(most_both >= 4);
}
