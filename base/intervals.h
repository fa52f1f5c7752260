/* SPDX-License-Identifier: Apache-2.0
 *
 * Intervals of time: unions of intervals, and intersections of two sets.
 *
 * A set is a list of intervals [start, end) in ascending order that neither touch nor overlap; none is empty.
 *
 *     n = ah_intervals_unite(busy, n);                                // any list becomes a set
 *     n_both = ah_intervals_intersect(busy, n, others, n_others, both);
 *     alone = ah_intervals_length(busy, n) - ah_intervals_length(both, n_both);
 */
#ifndef AH_BASE_INTERVALS_H
#define AH_BASE_INTERVALS_H

#include <stddef.h>
#include <stdint.h>

struct ah_interval {
    int64_t start, end;
};

/* Turns `n` intervals, in any order, into a set in place and returns its size. Reversed intervals are empty. */
size_t ah_intervals_unite(struct ah_interval *intervals, size_t n);

/* Writes the intersection of two sets to `ret_both`, which has room for n_a + n_b, and returns its size. */
size_t ah_intervals_intersect(const struct ah_interval *a, size_t n_a, const struct ah_interval *b,
                              size_t n_b, struct ah_interval *ret_both);

/* Returns the total length of a set. */
int64_t ah_intervals_length(const struct ah_interval *intervals, size_t n);

#endif
